"""Plain lines without a terminal: signs of life, GitHub's groups and summary."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.codec import to_record
from little_loops.fsm.events import Entry
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.terminal.ci import (
    GitHubGroups,
    SteadyScreen,
    StepSummary,
    heartbeat_s,
    step_summary,
    without_commands,
)
from tests.entries import entry
from tests.project import Project


def begin(state: str = "check") -> Entry:
    return entry("action_start", state=state, action="pytest")


def end(state: str = "check", exit_code: int | None = 0, **more: Any) -> Entry:
    return entry("action_complete", state=state, exit_code=exit_code, **more)


LAST = {"reason": "terminal", "final_state": "done", "iterations": 2, "duration_ms": 9000}


def last() -> Entry:
    return entry("loop_complete", status="completed", **LAST)


class Steady:
    """A screen on paper with a clock of its own."""

    def __init__(self, *, every_s: float | None = 60, verbose: bool = False, ascii_only=False):
        self.at_s = 1000.0
        self.text = ""
        self.screen = SteadyScreen(
            self.write,
            PlainLines("fix", 20, ascii_only=ascii_only),
            Masker({}),
            output=verbose,
            every_s=every_s,
            now=lambda: self.at_s,
        )

    def write(self, text: str) -> None:
        self.text += text

    def pass_by(self, seconds: float) -> float | None:
        self.at_s += seconds
        return self.screen.tick()


def test_a_silent_action_is_told_of_each_minute():
    steady = Steady()
    assert steady.screen.tick() is None
    steady.screen.record(begin())
    assert steady.screen.tick() == 60
    assert steady.pass_by(59) == 1
    assert steady.pass_by(1) == 60
    assert steady.pass_by(60) == 60
    steady.screen.record(end())
    steady.screen.record(entry("loop_start"))
    assert steady.pass_by(600) is None
    assert steady.text == dedent("""\
        [1/20] check → running pytest...
               … still running check (1m 00s)
               … still running check (2m 00s)
               ✓ (exit 0)
    """)


def test_output_that_is_shown_is_a_sign_of_life():
    steady = Steady(verbose=True)
    steady.screen.record(begin())
    steady.pass_by(50)
    steady.screen.printed("stdout", b"..\n")
    assert steady.pass_by(50) == 10
    assert steady.text == "[1/20] check → running pytest...\n       | ..\n"


def test_output_that_is_not_shown_is_none():
    steady = Steady(ascii_only=True)
    steady.screen.record(begin())
    steady.screen.printed("stdout", b"..\n")
    steady.pass_by(60)
    assert steady.text.endswith("\n       ... still running check (1m 00s)\n")


@pytest.mark.parametrize(
    ("setting", "every_s"),
    [(None, 60.0), ("5", 5.0), ("0.5", 0.5), ("0", None), ("-1", None), ("x", 60.0), ("nan", None)],
)
def test_how_often(setting, every_s):
    assert heartbeat_s({} if setting is None else {"LL_HEARTBEAT": setting}) == every_s


def test_never():
    steady = Steady(every_s=None)
    steady.screen.record(begin())
    assert steady.pass_by(600) is None


# GitHub


class Lines(Observer):
    def __init__(self, steady: Steady) -> None:
        self.steady = steady

    def record(self, entry: Entry) -> None:
        self.steady.write(to_record(entry)["event"] + "\n")


def test_each_iteration_folds_and_the_end_stays_in_sight():
    steady = Steady()
    screen = GitHubGroups(steady.write, Lines(steady), 20)
    for each in (
        entry("loop_start", scope=["."]),
        entry("state_enter", state="check", iteration=1),
        begin(),
        end(),
        entry("transition", to="check", reason="next"),
        entry("iteration", iteration=2, wait_ms=1000),
        entry("state_enter", state="check", iteration=2),
        end(),
        entry("cycle", cycle=2, wait_ms=1000),
        entry("state_enter", state="check", iteration=1),
        last(),
    ):
        screen.record(each)
    assert steady.text == dedent("""\
        loop_start
        ::group::iteration 1 of 20
        state_enter
        action_start
        action_complete
        transition
        ::endgroup::
        iteration
        ::group::iteration 2 of 20
        state_enter
        action_complete
        ::endgroup::
        cycle
        ::group::cycle 2, iteration 1 of 20
        state_enter
        ::endgroup::
        loop_complete
    """)


def test_a_group_passes_on_the_rest():
    steady = Steady(verbose=True)
    screen = GitHubGroups(steady.write, steady.screen, 20)
    screen.record(entry("resume", state="check", iteration=3))
    screen.record(entry("state_enter", state="check", iteration=3))
    screen.record(begin())
    screen.printed("stdout", b"..\n")
    screen.doing("Editing")
    steady.at_s += 61
    assert screen.tick() == 60
    assert steady.text == dedent("""\
        Resuming loop 'fix' from state 'check' (iteration 3)
        ::group::iteration 3 of 20
        [3/20] check → running pytest...
               | ..
               … still running check (1m 01s)
    """)


def test_a_group_passes_on_whatever_an_observer_takes():
    taken = {name for name in vars(Observer) if not name.startswith("_")}
    assert taken - vars(GitHubGroups).keys() == {"records"}  # those go through `record`


def test_a_secret_that_a_run_learns_later_is_masked_in_a_group():
    steady = Steady(verbose=True)
    screen = GitHubGroups(steady.write, steady.screen, 20)
    screen.record(entry("state_enter", state="check", iteration=1))
    screen.record(begin())
    screen.learn({"A_TOKEN": "hunter2-hunter2"})
    screen.used(1000, 0.1)
    screen.printed("stdout", b"hunter2-hunter2\n")
    assert "hunter2" not in steady.text


def test_output_commands_nothing():
    written: list[str] = []
    without_commands(written.append)("       | ##[add-mask]x\n")
    assert written == ["       | ## [add-mask]x\n"]


def test_the_summary_is_a_table(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    summary = StepSummary("fix_it", str(path))
    for each in (
        entry("state_enter", state="check", iteration=1),
        end(exit_code=1),
        end("fix", agent="success", verdict="pass", duration_ms=45_000),
        entry("iteration", iteration=2),
        end(exit_code=None, signal=9),
        end(exit_code=None, cut_by="action"),
        end(exit_code=None, failure="no sh"),
        entry("action_interrupted", state="check", attempt=1, cause="stop"),
        entry("loop_error", **{**LAST, "reason": "error", "error": "a | <b>"}),
    ):
        summary.record(each)
    assert path.read_text() == dedent("""\
        before
        ### fix\\_it

        Loop failed in state 'done': a \\| \\<b\\> \\(2 iterations, 9.0s\\)

        | iteration | state | result | time |
        |---:|---|---|---:|
        | 1 | check | exit 1 | 2.3s |
        | 1 | fix | pass | 45s |
        | 2 | check | killed by SIGKILL | 2.3s |
        | 2 | check | timed out | 2.3s |
        | 2 | check | could not start | 2.3s |
        | 2 | check | interrupted | 0.0s |

    """)


def test_a_long_run_has_a_short_summary(tmp_path):
    path = tmp_path / "summary.md"
    summary = StepSummary("fix", str(path))
    for _ in range(1000):
        summary.record(end())
    summary.record(last())
    lines = path.read_text().splitlines()
    assert "The last 200 actions; 800 earlier ones left out." in lines
    assert len(lines) == 209


def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path):
    StepSummary("fix", str(tmp_path)).record(last())


@pytest.mark.parametrize(
    ("environ", "count"),
    [
        ({}, 0),
        ({"GITHUB_STEP_SUMMARY": "/tmp/x"}, 0),
        ({"GITHUB_ACTIONS": "true"}, 0),
        ({"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "/tmp/x"}, 1),
    ],
)
def test_when_there_is_a_summary(environ, count):
    assert len(step_summary("fix", environ)) == count


# The command itself

QUIET = """\
name: quiet
initial: work
states:
  work: {action: "while [ ! -e go ]; do sleep 0.02; done", next: done}
  done: {terminal: true}
"""


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.loop("quiet", QUIET)
    yield project
    project.end_actions()


def test_a_pipe_gets_signs_of_life(project):
    with project.started("run", "quiet", env={"LL_HEARTBEAT": "0.05"}) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == (
            "[1/50] work → running while [ ! -e go ]; do sleep 0.02; done...\n"
        )
        assert run.stdout.readline().startswith("       … still running work (")
        (project.root / "go").touch()
        *_, ended = run.stdout
    assert ended.startswith("Loop completed: done")


def test_json_has_no_signs_of_life(project):
    with project.started("run", "quiet", "--json", env={"LL_HEARTBEAT": "0.01"}) as run:
        assert run.stdout is not None
        kinds = [run.stdout.readline()[:22] for _ in range(3)]
        (project.root / "go").touch()
        kinds += [line[:22] for line in run.stdout]
    assert all(line.startswith('{"event":"') for line in kinds)


def test_on_github(project, tmp_path):
    (project.root / "go").touch()
    summary = tmp_path / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = project.ll("run", "quiet", env=env)
    assert [line[:16] for line in done.stdout.splitlines()] == [
        "::group::iterati",
        "[1/50] work → ru",
        "       ✓ (exit 0",
        "       → done",
        "::endgroup::",
        "",
        "Loop completed: ",
    ]
    assert summary.read_text().startswith("### quiet\n\nLoop completed: done")
