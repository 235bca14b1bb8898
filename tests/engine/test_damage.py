"""Damage every file of a run: never a traceback, never a silent restart, the other runs untouched.

A run that was killed in its second state, beside another that has completed.  One file of it is
damaged; then it is looked at (which changes nothing), started (refused), and resumed: either it
completes, or it is refused in words and its files are left as they are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from little_loops.runs.history import past_files
from tests.engine.claimants import hold
from tests.engine.test_boundaries import cut_in_the_second
from tests.project import Project, chain, numbers
from tests.simulation.command import assert_in_words, command, projects

Damage = Callable[[Project], object]
FRESH = "nothing was changed; `--fresh` moves the files to the history and starts again"


@pytest.fixture(scope="module")
def halfway() -> Iterator[Project]:
    """Made once: a run cut in its second state, and one that has completed."""
    with projects() as make:
        project = cut_in_the_second(make)
        project.loop("other", chain(1, "true").replace("name: chain", "name: other"))
        assert command(project, "run", "other").code == 0
        yield project


@pytest.fixture
def damaged(halfway: Project) -> Iterator[Project]:
    with projects() as make:
        project = make()
        shutil.rmtree(project.root)
        shutil.copytree(halfway.root, project.root, symlinks=True)
        yield project


# ── what is done to the files ──────────────────────────────────────────────────────────────────


def file(project: Project, suffix: str) -> Path:
    return project.running("chain", suffix)


def written(suffix: str, data: bytes) -> Damage:
    return lambda project: file(project, suffix).write_bytes(data)


def cut_off(suffix: str, part: float) -> Damage:
    def damage(project: Project) -> None:
        path = file(project, suffix)
        os.truncate(path, int(path.stat().st_size * part))

    return damage


def removed(suffix: str) -> Damage:
    def damage(project: Project) -> None:
        path = file(project, suffix)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return damage


def edited(**fields: Any) -> Damage:
    def damage(project: Project) -> None:
        path = file(project, ".state.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return damage


def in_the_log(junk: bytes, *, instead: bool = False) -> Damage:
    """Put a line into the middle of the log, or in the place of one."""

    def damage(project: Project) -> None:
        path = file(project, ".events.jsonl")
        lines = path.read_bytes().split(b"\n")
        lines[3 : 4 if instead else 3] = [junk]
        path.write_bytes(b"\n".join(lines))

    return damage


def added_to_the_log(junk: bytes) -> Damage:
    def damage(project: Project) -> None:
        with open(file(project, ".events.jsonl"), "ab") as log:
            log.write(junk)

    return damage


def last_entry_edited(**fields: Any) -> Damage:
    """Change the event by which the run entered the state it is in."""

    def damage(project: Project) -> None:
        path = file(project, ".events.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        [record for record in records if record["event"] == "state_enter"][-1].update(fields)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    return damage


def both(*damages: Damage) -> Damage:
    def damage(project: Project) -> None:
        for each in damages:
            each(project)

    return damage


def a_pipe(suffix: str) -> Damage:
    return both(removed(suffix), lambda project: os.mkfifo(file(project, suffix)))


STATE, LOG, DATA = ".state.json", ".events.jsonl", ".d"
REBUILT = {
    "truncated": (cut_off(STATE, 0.5), "not valid JSON at line 1, column "),
    "empty": (written(STATE, b""), "not valid JSON at line 1, column 1"),
    "zeros": (written(STATE, bytes(600)), "not valid JSON at line 1, column 1"),
    "garbage": (written(STATE, b"\xff\xfe\x00garbage"), "not valid JSON at line 1, column 1"),
    "a list": (written(STATE, b"[]"), "not a JSON object"),
    "nested": (written(STATE, b"[" * 100_000), "nested too deeply"),
    "a status there is not": (edited(status="flying"), "`status` cannot be 'flying'"),
    "a phase there is not": (edited(phase="flying"), "`phase` cannot be 'flying'"),
    "a string for a number": (edited(iteration="three"), "`iteration` cannot be 'three'"),
    "a list for a mapping": (edited(context=[]), "`context` cannot be []"),
    "headed nowhere": (edited(phase="moving", move=None), "the run is `moving`, but what belongs"),
    "no result to judge": (edited(phase="judging", captured={}), "the run is `judging`, but what"),
}
GOES_ON = {
    "no state file": removed(STATE),
    "edited to another state": edited(current_state="s3"),
    "garbage in the log": in_the_log(b"\xff garbage"),
    "garbage for an event that is in the snapshot": in_the_log(b"garbage", instead=True),
    "zeros in the log": in_the_log(bytes(5000)),
    "a line of 10 MB": in_the_log(b"x" * (10 << 20)),
    "half an event at the end": added_to_the_log(b'{"event":"tra'),
    "an empty log": written(LOG, b""),
    "no log": removed(LOG),
    "a pid file of nonsense": written(".pid", b"\xff\0nonsense\n"),
}
HOLE = "`ROOT/.loops/.running/chain.events.jsonl` has a gap or repeat: event"
REFUSED = {
    "a newer format": (
        edited(format=99),
        (
            "`ROOT/.loops/.running/chain.state.json` was written by a newer version"
            " (format 99; this one reads 1)"
        ),
        "install the newer version again, or start again with `--fresh`",
    ),
    "both damaged": (
        both(written(STATE, b"?"), in_the_log(b"garbage", instead=True)),
        f"{HOLE} 5 follows event 3",
        FRESH,
    ),
    "no state and a log of garbage": (
        both(removed(STATE), written(LOG, b"garbage\ngarbage\n")),
        (
            "`ROOT/.loops/.running/chain.state.json` is missing,"
            " and `ROOT/.loops/.running/chain.events.jsonl` has no events"
        ),
        FRESH,
    ),
    "an event without its time": (
        both(removed(STATE), written(LOG, b'{"event":"loop_start","seq":1}\n')),
        (
            "`ROOT/.loops/.running/chain.state.json` is missing, and"
            " `ROOT/.loops/.running/chain.events.jsonl` has an event that cannot be read:"
            " `ts` is missing"
        ),
        FRESH,
    ),
    "an event with a string for a number": (
        both(removed(STATE), last_entry_edited(iteration="one")),
        (
            "`ROOT/.loops/.running/chain.events.jsonl` has an event that cannot be read:"
            " `iteration` cannot be 'one'"
        ),
        FRESH,
    ),
    "the state of another run": (
        edited(run="another", seq=2),
        "`ROOT/.loops/.running/chain.events.jsonl` contains events of two runs",
        FRESH,
    ),
    "no machine": (
        removed(".d"),
        (
            "`ROOT/.loops/.running/chain.d/run.json`, the loop the run started with,"
            " is missing or damaged"
        ),
        FRESH,
    ),
    "a machine that is none": (
        lambda project: (file(project, DATA) / "run.json").write_text('{"loop": 5}'),
        (
            "`ROOT/.loops/.running/chain.d/run.json`, the loop the run started with,"
            " is missing or damaged"
        ),
        FRESH,
    ),
    "a pipe for a state file": (
        a_pipe(STATE),
        "`ROOT/.loops/.running/chain.state.json` is not a file",
        "remove it",
    ),
}


# ── what comes of it ───────────────────────────────────────────────────────────────────────────


def tree(project: Project) -> dict[str, bytes]:
    """Everything in the project, with what is in it."""
    found = {}
    for directory, _, names in os.walk(project.root):
        for name in names:
            path = Path(directory, name)
            is_plain = path.is_file() and not path.is_symlink()
            found[str(path)] = path.read_bytes() if is_plain else b"?"
    return found


def assert_can_be_looked_at(project: Project) -> None:
    """Looking works, for this run and the other, and changes nothing."""
    before = tree(project)
    for words in (("status",), ("list",), ("status", "chain"), ("status", "other"), ("history",)):
        said = command(project, *words)
        assert_in_words(said)
        assert said.code == 0, (words, said)
    assert "other" in command(project, "list").out
    assert "completed" in command(project, "status", "other").out
    assert tree(project) == before


def assert_no_silent_start(project: Project) -> None:
    before = tree(project)
    said = command(project, "run", "chain")
    assert_in_words(said)
    assert said.code in (1, 2), said
    left = {path: data for path, data in tree(project).items() if not is_lock(path)}
    assert left == {path: data for path, data in before.items() if not is_lock(path)}


def is_lock(path: str) -> bool:
    return path.endswith((".pid", "/.lock"))


def assert_completes(project: Project) -> str:
    said = command(project, "resume", "chain")
    assert said.code == 0, said
    assert list(numbers(project.file("trace")))[-1] == 3
    return said.err.replace(str(project.root), "ROOT")


@pytest.mark.parametrize("kind", REBUILT)
def test_a_damaged_state_file_is_made_again_from_the_log(damaged: Project, kind: str):
    damage, why = REBUILT[kind]
    damage(damaged)
    broken = file(damaged, STATE).read_bytes()
    assert_can_be_looked_at(damaged)
    assert_no_silent_start(damaged)
    said = assert_completes(damaged)
    assert said.startswith("warning: `ROOT/.loops/.running/chain.state.json` is damaged: ")
    assert why in said
    assert said.endswith("; its state was read from the log\n")
    assert numbers(damaged.file("trace")) == [1, 2, 3]
    assert damaged.past("chain", ".state.json.damaged-1").read_bytes() == broken


@pytest.mark.parametrize("kind", GOES_ON)
def test_a_run_goes_on_though(damaged: Project, kind: str):
    GOES_ON[kind](damaged)
    assert_can_be_looked_at(damaged)
    assert_no_silent_start(damaged)
    said = assert_completes(damaged)
    ran = [1, 3] if kind == "edited to another state" else [1, 2, 3]
    assert numbers(damaged.file("trace")) == ran
    if kind == "edited to another state":
        assert said == "warning: the state file was edited by hand; using it as is\n"


@pytest.mark.parametrize("kind", REFUSED)
def test_a_run_that_cannot_be_told_is_refused_and_left_alone(damaged: Project, kind: str):
    damage, message, help = REFUSED[kind]
    damage(damaged)
    assert_can_be_looked_at(damaged)
    assert_no_silent_start(damaged)
    before = {path: data for path, data in tree(damaged).items() if not is_lock(path)}
    said = command(damaged, "resume", "chain")
    assert said.code == 1
    assert said.err.replace(str(damaged.root), "ROOT") == f"error: {message}\n   = help: {help}\n"
    assert {path: data for path, data in tree(damaged).items() if not is_lock(path)} == before
    if "--fresh" in help:
        assert command(damaged, "run", "chain", "--fresh").code == 0
        assert numbers(damaged.file("trace")) == [1, 1, 2, 3]


def test_files_that_another_process_is_moving_are_not_called_damaged(damaged: Project):
    """It has its claim, and the machine of the run is still in the history, or there already."""
    shutil.rmtree(damaged.root / ".loops/.running/chain.d")
    claim = hold(str(damaged.root), "chain")
    try:
        said = damaged.ll("resume", "chain")
    finally:
        claim.release()
    assert (said.returncode, said.stderr) == (
        5,
        "error: Cannot resume 'chain' - it is already running\n",
    )
    assert damaged.ll("resume", "chain").returncode == 1


def test_an_edited_state_that_is_not_in_the_machine_is_refused(damaged: Project):
    edited(phase="moving", move={"target": "nowhere", "reason": "next", "retry": False})(damaged)
    said = command(damaged, "resume", "chain")
    assert said.code == 2
    assert said.err == (
        "warning: the state file was edited by hand; using it as is\n"
        "error: nothing to resume in `chain`: its state `nowhere` is not in the definition\n"
    )


def test_a_log_deleted_while_the_run_goes_on_is_made_again(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a: {action: "rm .loops/.running/row.events.jsonl", next: b}
          b: {action: "true", next: done}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "row").returncode == 0
    told = project.events("row")
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    assert told[-1]["event"] == "loop_complete"


def test_a_run_of_the_history_that_is_damaged_is_not_passed_over(project: Project):
    """The older run could be resumed; the newer one is what `resume` means."""
    project.loop("chain", chain(2, "test -e ok || exit 9"))
    assert project.ll("run", "chain").returncode == 1
    assert project.ll("run", "chain").returncode == 1
    newer, older = past_files(str(project.root), "chain")
    Path(newer.events).write_text("garbage\ngarbage\n")
    Path(newer.state).write_text("garbage")
    before = Path(older.events).read_bytes()
    (project.root / "ok").touch()
    said = project.ll("resume", "chain")
    assert said.returncode == 1
    assert f"`{newer.state}` is damaged: not valid JSON" in said.stderr
    assert Path(older.events).read_bytes() == before
