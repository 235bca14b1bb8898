"""Every row of the manual's table of endings: status, reason, last event, exit code, last line, resume."""

from __future__ import annotations

import os
import signal
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.project import Project, until


class Row(NamedTuple):
    loop: str
    status: str
    reason: str
    event: str
    exit: int
    line: str
    resume_exit: int
    resume_says: str
    resume_words: tuple[str, ...] = ()
    archived: bool = True


NOTHING = 2
ONCE_MORE = (
    "Resuming loop 'row' from state 'a' (iteration 1)\n"
    "The run failed in this state, so the state will run again\n"
)

ROWS = {
    "success state": Row(
        """\
        initial: a
        states:
          a: {action: "true", next: done}
          done: {terminal: true}
        """,
        "completed",
        "terminal",
        "loop_complete",
        0,
        "Loop completed: done (1 iteration, T)",
        NOTHING,
        "error: nothing to resume in `row`: it completed in state `done`\n",
    ),
    "failure state": Row(
        """\
        initial: a
        states:
          a: {action: "true", next: gave_up_failed}
          gave_up_failed: {terminal: true}
        """,
        "failed",
        "terminal",
        "loop_error",
        1,
        "Loop failed: ended in state 'gave_up_failed' (1 iteration, T)",
        NOTHING,
        "error: nothing to resume in `row`: it ended in the failure state `gave_up_failed`\n",
    ),
    "error": Row(
        """\
        initial: a
        states:
          a: {action: "test -e ok || exit 7", next: done}
          done: {terminal: true}
        """,
        "failed",
        "error",
        "loop_error",
        1,
        "Loop failed in state 'a': exit 7 (1 iteration, T)",
        0,
        ONCE_MORE,
    ),
    "not found": Row(
        """\
        initial: a
        states:
          a: {action: "test -e ok || no-such-program 2>/dev/null", next: done}
          done: {terminal: true}
        """,
        "failed",
        "error",
        "loop_error",
        1,
        "Loop failed in state 'a': exit 127: not found (1 iteration, T)",
        0,
        ONCE_MORE,
    ),
    "action timeout": Row(
        """\
        initial: a
        states:
          a: {action: "test -e ok || sleep 600", timeout: 0.2, next: done}
          done: {terminal: true}
        """,
        "failed",
        "timeout",
        "loop_error",
        1,
        "Loop failed in state 'a': timed out after 0.2 s (1 iteration, T)",
        0,
        ONCE_MORE,
    ),
    "no transition": Row(
        """\
        initial: a
        states:
          a: {action: "test -e ok", on_pass: done}
          done: {terminal: true}
        """,
        "failed",
        "no_transition",
        "loop_error",
        1,
        "Loop failed in state 'a': no transition for the verdict `fail` (exit 1) (1 iteration, T)",
        0,
        ONCE_MORE,
    ),
    "iterations": Row(
        """\
        initial: a
        max_iterations: 2
        states:
          a: {action: "test -e ok", on_pass: done, on_fail: b}
          b: {action: "true", next: a}
          done: {terminal: true}
        """,
        "failed",
        "max_iterations",
        "loop_error",
        3,
        "Loop reached its iteration limit in state 'b' (2 iterations, T)",
        0,
        "Resuming loop 'row' from state 'b' (iteration 2)\n",
        ("--max-iterations", "5"),
    ),
    "loop timeout": Row(
        """\
        initial: a
        timeout: 0.3
        states:
          a: {action: "test -e ok || sleep 600", next: done}
          done: {terminal: true}
        """,
        "failed",
        "loop_timeout",
        "loop_timeout",
        3,
        "Loop timed out in state 'a' (1 iteration, T)",
        0,
        ONCE_MORE,
        ("--timeout", "1h"),
    ),
    "LOOP_STOP": Row(
        """\
        initial: a
        states:
          a: {action: "echo 'LOOP_STOP: that is enough'; exit 1", next: done}
          done: {terminal: true}
        """,
        "stopped",
        "stop_signal",
        "loop_complete",
        6,
        "Loop stopped: that is enough (1 iteration, T)",
        NOTHING,
        "error: nothing to resume in `row`: an action told it to stop\n",
    ),
    "handoff: pause": Row(
        """\
        initial: a
        states:
          a: {action: "test -e ok || echo 'CONTEXT_HANDOFF: two files left'", next: done}
          done: {terminal: true}
        """,
        "awaiting_continuation",
        "handoff",
        "handoff",
        4,
        "Loop paused: context handoff in state 'a' (1 iteration, T)",
        0,
        "Resuming loop 'row' from state 'a' (iteration 1)\nContinuation context: two files left\n",
        (),
        False,
    ),
    "handoff: terminate": Row(
        """\
        initial: a
        on_handoff: terminate
        states:
          a: {action: "echo 'CONTEXT_HANDOFF: two files left'", next: done}
          done: {terminal: true}
        """,
        "failed",
        "handoff",
        "loop_error",
        1,
        "Loop failed in state 'a': context handoff, and `on_handoff` is `terminate` (1 iteration, T)",
        NOTHING,
        "error: nothing to resume in `row`: it ended at a handoff (`on_handoff: terminate`)\n",
    ),
    "review": Row(
        """\
        initial: a
        states:
          a: {action: "true", next: look}
          look: {terminal: true, outcome: review, next: done}
          done: {terminal: true}
        """,
        "needs_review",
        "review",
        "loop_paused",
        4,
        "Loop needs review: look (1 iteration, T)",
        0,
        "State 'look' was approved by `ll-loop resume`\n"
        "Resuming loop 'row' from state 'look' (iteration 1)\n",
        (),
        False,
    ),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
def test_an_ending(project: Project, row: Row):
    project.loop("row", "name: row\n" + dedent(row.loop))
    said = project.ll("run", "row")
    assert (said.returncode, last_line(said.stdout)) == (row.exit, row.line), said.stderr
    assert_end(project, row)
    (project.root / "ok").touch()
    resumed = project.ll("resume", "row", *row.resume_words)
    assert resumed.returncode == row.resume_exit, resumed.stderr
    told = resumed.stderr if row.resume_exit == NOTHING else resumed.stdout
    assert told.startswith(row.resume_says)
    if row.resume_exit == 0:
        assert project.state("row")["status"] == "completed"


def assert_end(project: Project, row: Row) -> None:
    state, last = project.state("row"), project.events("row")[-1]
    assert (state["status"], state["reason"]) == (row.status, row.reason)
    assert (last["event"], last["status"], last["reason"]) == (row.event, row.status, row.reason)
    assert {"final_state", "iterations", "duration_ms"} <= last.keys()
    assert project.running("row", ".state.json").exists() is not row.archived
    assert ("completed" in project.log("row")) is (row.status == "completed")


def last_line(text: str) -> str:
    """With the time it took left out."""
    line = text.rstrip().rpartition("\n")[2]
    before, _, _ = line.rpartition(", ")
    return f"{before}, T)"


SLEEPY = """\
name: row
initial: a
states:
  a: {action: "echo $$ > pid; test -e ok || sleep 600", next: done}
  done: {terminal: true}
"""


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGINT, "Ctrl-C"),
        (signal.SIGTERM, "SIGTERM"),
        (signal.SIGHUP, "SIGHUP"),
        (signal.SIGQUIT, "SIGQUIT"),
    ],
)
def test_a_signal(project: Project, number: int, name: str):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        os.kill(child.pid, number)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert last_line(out) == f"Loop interrupted: {name} in state 'a' (1 iteration, T)"
    assert err == "next: ll-loop resume row\n"
    row = Row("", "interrupted", "signal", "loop_interrupted", 0, "", 0, "", (), False)
    assert_end(project, row)
    assert_resumes(project)


def test_stop(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        said = project.ll("stop", "row")
        child.communicate(timeout=30)
    assert (said.returncode, child.returncode) == (0, 143)
    assert project.state("row")["status"] == "interrupted"
    assert_resumes(project)


def test_a_crash(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=30)
    assert project.state("row")["status"] == "running"
    again = project.ll("run", "row")
    assert again.returncode == 2
    assert again.stderr == (
        "error: `row` has an unfinished run: interrupted (crashed) in state `a`\n"
        "   = help: `ll-loop resume row` continues it; `ll-loop run row --fresh` starts a new run\n"
    )
    assert_resumes(project)


def assert_resumes(project: Project) -> None:
    (project.root / "ok").touch()
    resumed = project.ll("resume", "row")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith("Resuming loop 'row' from state 'a' (iteration 1)\n")
    assert project.state("row")["status"] == "completed"


def test_fresh_puts_the_unfinished_run_away(project: Project):
    project.loop("row", "name: row\n" + dedent(ROWS["review"].loop))
    assert project.ll("run", "row").returncode == 4
    assert project.ll("run", "row", "--fresh").returncode == 4
    assert len(list((project.root / ".loops/.history/row").glob("*.state.json"))) == 1
