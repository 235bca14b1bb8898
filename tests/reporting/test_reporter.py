"""What a run's events are written as, and in how many writes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from little_loops.cli.foreground import JsonScreen, LastLine
from little_loops.fsm.events import ActionStart
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Callback, Observers
from little_loops.reporting.reporter import Reporter
from tests.entries import entry

STEP = (
    entry("action_complete", state="check"),
    entry("transition", to="fix", reason="on_pass"),
    entry("state_enter", state="fix"),
    entry("action_start", action="true", state="fix"),
)
LINES = """\
       ✓ (exit 0)
       → fix (on_pass)
[1/9] fix → running true...
"""
WARNING = entry("warning", message="mind the gap")


class Written(list[str]):
    """Each write; those of the warnings marked."""

    def reporter(self, kind: type[Reporter] = Reporter) -> Reporter:
        teller = PlainLines("demo", 9)
        return kind(self.append, teller, Masker({}), output=True, warn=self.warn)

    def warn(self, text: str) -> None:
        self.append(f"! {text}")


def test_the_lines_of_a_step_are_one_write():
    written = Written()
    written.reporter().records(STEP)
    assert written == [LINES]


def test_told_one_by_one_they_are_the_same_lines():
    written = Written()
    reporter = written.reporter()
    for each in STEP:
        reporter.record(each)
    assert (len(written), "".join(written)) == (2, LINES)


def test_output_that_has_no_newline_yet_stands_before_the_end_of_its_action():
    written = Written()
    reporter = written.reporter()
    reporter.printed("stdout", b"half a")
    reporter.printed("stdout", b" line")
    reporter.records(STEP)
    assert "".join(written).startswith("       | half a line\n       ✓")
    assert len(written) == 3


@pytest.mark.parametrize(
    ("entries", "written"),
    [
        pytest.param([*STEP, WARNING], [LINES, "! warning: mind the gap\n"], id="last"),
        pytest.param([WARNING, *STEP], ["! warning: mind the gap\n", LINES], id="first"),
    ],
)
def test_a_warning_keeps_its_place(entries, written):
    seen = Written()
    seen.reporter().records(entries)
    assert seen == written


def test_a_report_is_told_line_by_line():
    written = Written()
    written.reporter().record(entry("report", text="two turns\nnot done\x1b[2J\n"))
    assert written == ["       | two turns\n       | not done\\x1b[2J\n"]


def test_the_output_of_a_failure_is_shown_without_the_verdict():
    written = Written()
    ended = {"exit_code": 0, "duration_ms": 5}
    final = {"status": "failed", "reason": "max_iterations", "final_state": "settle"}
    for output in ("turn 2: partial\nVERDICT: partial", "one\ntwo\nVERDICT: fail"):
        written.reporter().records(
            (
                entry("action_start", action="true", state="settle"),
                entry("action_complete", state="settle", output=output, **ended),
                entry(
                    "loop_error", iterations=2, duration_ms=9, state="settle", error="2", **final
                ),
            )
        )
    shown = [line for line in "".join(written).splitlines() if "|" in line]
    assert shown == ["       | one", "       | two"]


def test_steps_without_a_line_are_not_written():
    written = Written()
    written.reporter().records([entry("state_enter", state="fix")])
    written.reporter(LastLine).records(STEP)
    assert written == []


def test_what_came_before_an_event_that_fails_is_written():
    written, nothing = Written(), cast(Any, None)
    unusable = ActionStart(nothing, "fix", 1, "shell")
    with pytest.raises(AttributeError):
        written.reporter().records([*STEP[:3], STEP[3]._replace(event=unusable)])
    assert written == [LINES.partition("[")[0]]


def test_events_for_programs_are_one_write_too():
    written = Written()
    screen = JsonScreen(written.append)
    screen.records([entry("iteration", iteration=2), entry("cycle", cycle=2)])
    screen.record(entry("cycle", cycle=3))
    rest = '"ts":"2026-01-15T10:30:00.000Z","run":"r","seq":1,"ran_ms":0}\n'
    assert written == [
        f'{{"event":"iteration","iteration":2,{rest}{{"event":"cycle","cycle":2,"wait_ms":5000,{rest}',
        f'{{"event":"cycle","cycle":3,"wait_ms":5000,{rest}',
    ]


def test_an_onlooker_that_wants_them_singly_gets_them_singly_and_one_that_fails_is_let_go():
    heard: list[str] = []

    def fails(record: dict[str, Any]) -> None:
        heard.append("fails")
        raise RuntimeError

    both = Observers([Callback(fails), Callback(lambda record: heard.append(record["event"]))])
    both.records(STEP[:2])
    both.records(STEP[2:])
    assert heard == ["fails", "action_complete", "transition", "state_enter", "action_start"]
