"""`ll-loop logs`: what a run has printed, all of it or a part, and what it is printing."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.cli.log_lines import TextLines, first_wanted
from little_loops.cli.logs import Rows
from little_loops.cli.main import main
from little_loops.fsm.codec import from_record
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.runs.follow import GrowingFile
from tests.cli.runs import (
    COUNTDOWN,
    MINUTE,
    NOW,
    QUICK,
    SLOW,
    crashed,
    ll,
    ran,
    record,
    saved,
    state,
    under_way,
)
from tests.project import until

LOG = """\
[1/50] measure → running count...
       | 1
       · 1 (exit 0)
       1 is
       → apply (on_progress)
[1/50] apply → running fix...
       | applied
       | aside
       ✓ applied (exit 0)
       → measure
[2/50] measure → running count...
       | 0
       ✓ 0 (exit 0)
       0 is
       → done (on_target)

Loop completed: done (2 iterations, 2m 34s)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "LL_ASCII", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*events: tuple[float, str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Events, each with how many minutes ago it was."""
    return [
        record(kind, seq, NOW - round(minutes * MINUTE), **fields)
        for seq, (minutes, kind, fields) in enumerate(events, 1)
    ]


MEASURE = {"state": "measure", "action": "count"}
APPLY = {"state": "apply", "action": "fix"}
STORY = told(
    (30, "loop_start", {"initial": "measure"}),
    (30, "state_enter", {"state": "measure"}),
    (30, "action_start", MEASURE),
    (21, "action_complete", {"state": "measure", "output": "1"}),
    (21, "condition_eval", {"type": "convergence", "result": "progress", "reason": "1 is"}),
    (21, "transition", {"from": "measure", "to": "apply", "reason": "on_progress"}),
    (21, "state_enter", {"state": "apply", "step": 2}),
    (20, "action_start", APPLY),
    (6, "action_complete", {"state": "apply", "output": "applied", "stderr": "aside"}),
    (6, "transition", {"from": "apply", "to": "measure", "reason": "next"}),
    (6, "iteration", {"iteration": 2}),
    (6, "state_enter", {"state": "measure", "iteration": 2, "step": 3}),
    (5, "action_start", MEASURE),
    (1, "action_complete", {"state": "measure", "output": "0"}),
    (1, "condition_eval", {"type": "convergence", "result": "target", "reason": "0 is"}),
    (1, "transition", {"from": "measure", "to": "done", "reason": "on_target"}),
    (1, "state_enter", {"state": "done", "iteration": 2, "step": 4}),
    (
        1,
        "loop_complete",
        {
            "status": "completed",
            "reason": "terminal",
            "final_state": "done",
            "iterations": 2,
            "duration_ms": 154_000,
        },
    ),
)


@pytest.fixture
def three(here):
    """A run whose three actions began 30, 20 and 5 minutes before now."""
    from little_loops.terminal.durations import now_ms

    later = now_ms() - NOW
    moved = [{**each, "ts": timestamp(wall_ms_of(each["ts"]) + later)} for each in STORY]
    saved(here, "count", state(loop="count", status="interrupted"), moved, log=LOG)
    return here


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param((), LOG, id="all"),
        pytest.param(("-f",), LOG, id="nothing to follow"),
        pytest.param(
            ("--tail", "1"), "Loop completed: done (2 iterations, 2m 34s)\n", id="the last line"
        ),
        pytest.param(("--tail", "1000"), LOG, id="more than there are"),
        pytest.param(("--raw",), "1\napplied\naside\n0\n", id="what actions printed"),
        pytest.param(("--raw", "--tail", "2"), "aside\n0\n", id="the last of what they printed"),
        pytest.param(("--state", "apply", "--raw"), "applied\naside\n", id="one state's output"),
        pytest.param(
            ("--state", "measure", "--tail", "5"),
            """\
            [2/50] measure → running count...
                   | 0
                   ✓ 0 (exit 0)
                   0 is
                   → done (on_target)
            """,
            id="the last of one state",
        ),
        pytest.param(("--since", "1h"), LOG, id="all of it is new"),
        pytest.param(
            ("--since", "10m", "--raw"), "applied\naside\n0\n", id="what was under way then too"
        ),
        pytest.param(("--since", "5.5m", "--raw"), "0\n", id="between two actions"),
        pytest.param(
            ("--since", "5.5m"),
            """\
            [2/50] measure → running count...
                   | 0
                   ✓ 0 (exit 0)
                   0 is
                   → done (on_target)

            Loop completed: done (2 iterations, 2m 34s)
            """,
            id="the end of it",
        ),
        pytest.param(("--since", "30s"), "", id="nothing is new"),
    ],
)
def test_a_log_or_a_part_of_it(words, text, three, capsys):
    assert ll(capsys, "logs", "count", *words) == (0, dedent(text), "")


def test_a_state_that_the_loop_does_not_have_is_a_mistake(three, capsys):
    assert ll(capsys, "logs", "count", "--state", "nope") == (
        2,
        "",
        "error: the loop has no state `nope`\n   = help: known: `check`, `work`, `done`\n",
    )


def test_a_terminal_without_our_signs_gets_words(three, capsys, monkeypatch):
    monkeypatch.setenv("LL_ASCII", "1")
    twins = LOG.replace("→", "->").replace("✓", "ok").replace("·", "-")
    assert ll(capsys, "logs", "count").out == twins


ONCE = """\
[1/50] count → running echo 1...
       · 1 (exit 0)
[1/50] test → running pytest...
       | one
       | two
       ✗ two (exit 1)
[1/50] wait → running slow...
       | started
"""


@pytest.mark.parametrize(
    ("width", "is_live", "shown"),
    [
        pytest.param(80, False, ONCE, id="a terminal"),
        pytest.param(80, True, ONCE.replace("       ·", "       | 1\n       ·"), id="followed"),
        pytest.param(None, False, ONCE.replace("       ·", "       | 1\n       ·"), id="a pipe"),
    ],
)
def test_an_output_of_one_line_is_not_shown_twice_on_a_terminal(capsys, width, is_live, shown):
    out = Rows(width, is_live=is_live)
    for piece in ONCE.replace("       ·", "       | 1\n       ·").splitlines(keepends=True):
        out.write(piece)
    out.finish()
    assert capsys.readouterr().out == shown


def test_a_log_cannot_drive_the_terminal(here, capsys):
    printed = told(
        (1, "state_enter", {}),
        (1, "action_start", {}),
        (1, "action_complete", {"output": "\x9b31m"}),
    )
    log = "a\x1b[2Jb\n       | \x9b31m\n"
    saved(here, "odd", state(status="interrupted"), printed, log=log)
    assert ll(capsys, "logs", "odd").out == "a\\x1b[2Jb\n       | \\x9b31m\n"
    assert ll(capsys, "logs", "odd", "--raw").out == "\\x9b31m\n"


def test_the_events(three, capsys):
    lines = Path(three / ".loops/.running/count.events.jsonl").read_text().splitlines()

    def printed(*words: str) -> list[str]:
        return ll(capsys, "logs", "count", "--json", *words).out.splitlines()

    assert printed() == lines
    assert printed("--tail", "2") == lines[-2:]
    assert printed("--since", "10m") == lines[8:]
    of_apply = [json.loads(line)["event"] for line in printed("--state", "apply")]
    assert of_apply == ["state_enter", "action_start", "action_complete", "transition"]


def test_an_earlier_run(here, capsys):
    first = ran(here, QUICK).files
    ran(here, QUICK)
    os.rename(first.log, first.log + "x")
    Path(first.log).write_text("the first\n")
    stamp = first.stem or ""
    assert ll(capsys, "logs", "quick", "--run", stamp).out == "the first\n"
    assert "the first" not in ll(capsys, "logs", "quick").out
    said = ll(capsys, "logs", "quick", "--run", "1999")
    assert said.err == (
        "error: `quick` has no run `1999`\n   = help: `ll-loop history quick` lists them\n"
    )
    said = ll(capsys, "logs", "quick", "--run", stamp[:4])
    assert said.err.startswith(f"error: more than one run of `quick` matches `{stamp[:4]}`\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("nope", "error: no loop or run named `nope`\n", id="no such run"),
        pytest.param("young", "error: `young` has not run yet\n", id="it has not run"),
        pytest.param("bare", "error: `{}/.loops/.running/bare.log` is missing\n", id="no log"),
    ],
)
def test_what_there_is_no_log_of(name, said, here, capsys):
    (here / ".loops/young.yaml").write_text("initial: a\nstates: {a: {terminal: true}}\n")
    files = saved(here, "bare", state(status="interrupted"))
    os.unlink(files.log)
    answer = ll(capsys, "logs", name)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(said.format(here))


# ── following ──────────────────────────────────────────────────────────────────────────────────


class Follower:
    """`logs -f` in a thread, with what it has printed so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
        self._raw = io.BytesIO()
        self._stream = io.TextIOWrapper(self._raw, encoding="utf-8", write_through=True)
        monkeypatch.setattr("sys.stdout", self._stream)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._follow, args=(words,))
        self._thread.start()

    def _follow(self, words: tuple[str, ...]) -> None:
        self.code = main(["logs", *words])

    @property
    def said(self) -> str:
        return self._raw.getvalue().decode()

    def end(self) -> str:
        self._thread.join()
        assert self.code == 0
        return self.said


def test_a_run_is_followed_to_its_end_and_into_the_history(here, monkeypatch):
    with under_way(here):
        follower = Follower(monkeypatch, "slow", "-f")
        until(lambda: "| started\n" in follower.said, "line of the action under way")
        assert "| finished" not in follower.said
    said = follower.end()
    [log] = (here / ".loops/.history/slow").glob("*.log")
    assert said == log.read_text()
    assert said.splitlines()[-1].startswith("Loop completed: done")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(("--raw",), "looking\nstarted\nfinished\n", id="output"),
        pytest.param(("--raw", "--tail", "1"), "started\nfinished\n", id="from the last line on"),
        pytest.param(("--raw", "--state", "check"), "looking\n", id="one state"),
    ],
)
def test_a_part_is_followed_too(words, text, here, monkeypatch):
    with under_way(here):
        follower = Follower(monkeypatch, "slow", "-f", *words)
        until(lambda: follower.said, "first line")
    assert follower.end() == text


def test_events_are_followed_too(here, monkeypatch):
    with under_way(here):
        follower = Follower(monkeypatch, "slow", "-f", "--json", "--tail", "1")
        until(lambda: "action_start" in follower.said, "first event")
    events = [json.loads(line)["event"] for line in follower.end().splitlines()]
    assert events == [
        "action_start",
        "action_complete",
        "transition",
        "state_enter",
        "loop_complete",
    ]


def test_a_run_that_crashed_is_not_followed_for_ever(here, capsys):
    crashed(here)
    said = ll(capsys, "logs", "crashed", "-f", "--raw")
    assert (said.code, said.out) == (0, "looking\nstarted\n")


def test_the_next_run_of_that_name_is_another_story(here, monkeypatch):
    with under_way(here, SLOW | {"name": "first"}):
        follower = Follower(monkeypatch, "first", "-f", "--raw")
        until(lambda: "started" in follower.said, "first line")
    with under_way(here, SLOW | {"name": "first"}):
        assert follower.end() == "looking\nstarted\nfinished\n"


# ── pieces ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("minutes", "goes_on", "first"),
    [
        pytest.param(60, False, 3, id="all"),
        pytest.param(25, False, 3, id="under way at that time"),
        pytest.param(20.5, False, 8, id="between two"),
        pytest.param(3, True, 13, id="still under way"),
        pytest.param(0, True, 13, id="silent since then, and going on"),
        pytest.param(0, False, 14, id="silent since then, and gone"),
    ],
)
def test_from_where_on_a_run_is_new(minutes, goes_on, first):
    entries = list(map(from_record, STORY[:13]))
    since_ms = NOW - round(minutes * MINUTE)
    assert first_wanted(entries, since_ms, goes_on=goes_on) == first


def test_an_end_that_is_new_shows_what_led_to_it():
    entries = list(map(from_record, [*STORY[:6], record("loop_interrupted", 7, NOW)]))
    assert first_wanted(entries, NOW - MINUTE, goes_on=False) == 3


@given(st.lists(st.binary(max_size=20)), st.integers(min_value=1, max_value=12))
def test_the_last_lines_of_a_file_are_found_from_its_end(lines, count):
    text = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    descriptor = os.memfd_create("log")
    os.write(descriptor, text)
    with GrowingFile(descriptor, "log") as log:
        log.seek_last_lines(count)
        found = b"".join(log.rest())
    assert found.split(b"\n")[:-1] == text.split(b"\n")[:-1][-count:]


@given(st.text(max_size=60), st.integers(min_value=1, max_value=7))
def test_lines_are_whole_however_they_come(text, size):
    raw, lines = text.encode("utf-8", "replace"), TextLines()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    found = [line for piece in pieces for line in lines.feed(piece)] + lines.finish()
    assert "\n".join(found) == raw.decode().removesuffix("\n")


def test_a_line_without_an_end_does_not_fill_the_memory():
    lines = TextLines()
    found = [line for _ in range(40) for line in lines.feed(b"x" * 65536)]
    assert [len(line) for line in found] == [17 * 65536, 17 * 65536]
    assert [len(line) for line in lines.finish()] == [6 * 65536]


def test_the_log_of_a_real_run(here, capsys):
    ran(here, COUNTDOWN)
    said = ll(capsys, "logs", "countdown", "--raw")
    assert said.out.split() == ["3", "applied", "aside", "2", "applied", "aside", "1"] + [
        *("applied", "aside", "0"),
    ]
