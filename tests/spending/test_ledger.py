"""The files of the ledger."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from little_loops.errors import StorageError
from little_loops.fsm.ledger import AgentTurn, account
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.spending.ledger import append, folder_of, read

NOVEMBER = wall_ms_of("2026-11-17T12:00:00.000Z")
OCTOBER = wall_ms_of("2026-10-31T23:59:59.999Z")


def turn(number: int, at_ms: int = NOVEMBER) -> AgentTurn:
    return AgentTurn(f"r/{number}/1", at_ms, "/p", "fix", "r", "claude", None, number, 0.25)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def test_a_ledger_that_does_not_exist_is_empty_and_is_not_made(environ: dict[str, str]) -> None:
    assert read(environ, 0) == []
    assert not os.path.exists(folder_of(environ))


def test_each_month_has_its_file(environ: dict[str, str]) -> None:
    append(environ, turn(1, OCTOBER), turn(2))
    names = sorted(name for name in os.listdir(folder_of(environ)) if name != ".lock")
    assert names == ["2026-10.jsonl", "2026-11.jsonl"]
    assert read(environ, 0) == [turn(1, OCTOBER), turn(2)]
    assert read(environ, OCTOBER + 1) == [turn(2)]
    assert read(environ, NOVEMBER + 1) == []


def test_others_cannot_read_it(environ: dict[str, str]) -> None:
    append(environ, turn(1))
    folder = folder_of(environ)
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(f"{folder}/2026-11.jsonl").st_mode & 0o777 == 0o600


def test_a_file_cut_at_any_byte_takes_further_lines(environ: dict[str, str]) -> None:
    append(environ, turn(1), turn(2))
    path = Path(folder_of(environ), "2026-11.jsonl")
    text = path.read_bytes()
    ends = [at for at, byte in enumerate(text) if byte == ord("\n")]
    for cut in range(len(text) + 1):
        path.write_bytes(text[:cut])
        append(environ, turn(3))
        whole = sum(cut >= end for end in ends)
        assert read(environ, 0) == [*[turn(1), turn(2)][:whole], turn(3)], f"cut at byte {cut}"


def _append_ten(environ: dict[str, str], number: int) -> None:
    for each in range(10):
        append(environ, turn(10 * number + each))


def test_writers_at_the_same_time_lose_no_line(environ: dict[str, str]) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_ten, args=(environ, each)) for each in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0] * 4
    assert sorted(each.tokens for each in account(read(environ, 0)).turns) == list(range(40))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "little-loops").write_text("a file")
    with pytest.raises(StorageError) as raised:
        append({"XDG_STATE_HOME": str(tmp_path)}, turn(1))
    assert raised.value.message == f"cannot make `{tmp_path}/little-loops/ledger`: not a directory"
