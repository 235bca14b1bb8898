"""Who worked beside a run: what is written down, and for whom it counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from little_loops.runs.holders import Holder, unknown
from little_loops.runs.neighbours import MAX_BYTES, leave_note, scopes_beside

LONG_AGO = "2020-01-01T00:00:00.000Z"


def holder(run: str, *scope: str, pid: int = 0, outer: tuple[str, ...] = ()) -> Holder:
    return unknown(run, "/p")._replace(run_id=run, scope=scope, pid=pid, outer=outer)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def note(environ: dict[str, str], mine: Holder, *others: Holder, evidence: bool = False) -> None:
    leave_note("/p", mine, others, environ, evidence=evidence)


def seen(environ: dict[str, str], run: str, began_at: str = LONG_AGO) -> set[tuple[str, ...]]:
    return set(scopes_beside("/p", run, began_at, environ))


def file_of(environ: dict[str, str]) -> Path:
    (found,) = (Path(environ["XDG_STATE_HOME"]) / "little-loops/beside").iterdir()
    return found


def test_a_run_that_is_alone_writes_nothing(environ):
    note(environ, holder("b", "/p/b"))
    assert list(Path(environ["XDG_STATE_HOME"]).iterdir()) == []
    assert seen(environ, "a") == set()


def test_a_run_that_began_since_is_known(environ):
    note(environ, holder("b", "/p/b", "/p/c"), holder("a", "/p/a"))
    assert seen(environ, "a") == {("/p/b", "/p/c")}


def test_one_that_had_begun_earlier_is_known_to_those_that_began_beside_it(environ):
    note(environ, holder("b", "/p/b"), holder("a", "/p/a"), evidence=True)
    assert seen(environ, "b", began_at="9999") == {("/p/a",)}
    assert seen(environ, "c", began_at="9999") == set()


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param(holder("b", "/p/b", outer=("a",)), id="by its environment"),
        pytest.param(holder("b", "/p/b"), id="by its processes"),
    ],
)
def test_a_run_inside_another_one_does_not_work_beside_it(environ, mine):
    note(environ, mine, holder("a", "/p", pid=os.getppid()), holder("c", "/p/c"))
    assert seen(environ, "a") == set()
    assert seen(environ, "c") == {("/p/b",)}


def test_damaged_lines_say_nothing(environ):
    note(environ, holder("b", "/p/b"), holder("a", "/p/a"))
    with open(file_of(environ), "ab") as file:
        file.write(b'{"run": "x"}\n[1]\n\xff\n{"run": "y", "began_at": 1, "scope"')
    assert seen(environ, "a") == {("/p/b",)}


def test_the_file_does_not_grow_for_ever(environ):
    others = [holder("a", "/p/a")]
    note(environ, holder("b", "/p/b"), *others)
    file = file_of(environ)
    old = file.read_bytes()
    file.write_bytes(old * (MAX_BYTES // len(old) + 1))
    note(environ, holder("c", "/p/c"), *others)
    assert file.stat().st_size < MAX_BYTES
    assert file.read_bytes().startswith(old)
    assert seen(environ, "a") == {("/p/b",), ("/p/c",)}


def test_a_place_that_cannot_be_written_keeps_nobody_from_beginning(environ):
    (Path(environ["XDG_STATE_HOME"]) / "little-loops").write_text("a file")
    note(environ, holder("b", "/p/b"), holder("a", "/p/a"))
    assert seen(environ, "a") == set()
