"""`ll-loop stop`: asks, waits, and says what became of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from little_loops.cli.stop import outcome, plan_for
from little_loops.fsm.schema import FSMLoop
from little_loops.runs.claims import alive
from little_loops.runs.holders import this_process, to_bytes
from little_loops.runs.reading import Runs
from little_loops.runs.stopping import stop
from tests.cli.runs import QUICK, crashed, held, ll, past, ran, saved, state
from tests.project import Project, until

SLOW = """\
name: slow
initial: work
states:
  work:
    action: "echo started; while [ ! -e go ]; do sleep 0.02; done"
    next: done
  done: {terminal: true}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    project = Project(tmp_path)
    project.loop("slow", SLOW)
    monkeypatch.chdir(project.root)
    yield project
    project.end_actions()


def under_way(project: Project, name: str = "slow") -> None:
    until(lambda: project.has_event(name, "action_start"), "action under way")


def test_a_run_is_stopped_and_can_go_on(project, capsys):
    with project.started("run", "slow") as child:
        under_way(project)
        said = ll(capsys, "stop", "slow")
        pid = child.pid
        assert child.wait() == 143
    assert said.code == 0
    assert re.sub(r"\d+\.\ds", "T", said.out) == (
        f"slow: asked to stop (pid {pid}), action ended, state saved   T\n"
    )
    assert said.err == "next: ll-loop resume slow\n"
    assert re.fullmatch(
        r"slow is not running: interrupted \d+s ago\n", ll(capsys, "stop", "slow").out
    )


def test_for_programs(project, capsys):
    with project.started("run", "slow"):
        under_way(project)
        assert ll(capsys, "stop", "slow", "--json").json == {
            "schema": 1,
            "name": "slow",
            "stopped": True,
            "status": "interrupted",
        }
    assert ll(capsys, "stop", "slow", "--json").json == {
        "schema": 1,
        "name": "slow",
        "stopped": False,
        "status": "interrupted",
    }


def test_all_of_them_are_stopped_those_in_the_queue_first(project, capsys):
    project.loop("after", SLOW.replace("name: slow", "name: after"))
    with project.started("run", "slow") as slow:
        under_way(project)
        with project.started("run", "after", "--queue") as after:
            assert after.stdout is not None
            assert after.stdout.readline() == "Waiting for 'slow' to complete...\n"
            said = ll(capsys, "stop", "--all")
            assert (slow.wait(), after.wait()) == (143, 143)
    assert re.sub(r"\d+\.\ds", "T", said.out) == (
        f"after: asked to stop (pid {after.pid}), removed from the queue before it started   T\n"
        f"slow: asked to stop (pid {slow.pid}), action ended, state saved   T\n"
    )
    assert (said.code, said.err) == (0, "next: ll-loop resume slow\n")
    assert ll(capsys, "stop", "--all").out == "no running runs\n"
    assert ll(capsys, "stop", "--all", "--json").json == {"schema": 1, "runs": []}


@pytest.mark.parametrize("words", [(), ("slow", "--all")], ids=["neither", "both"])
def test_one_run_or_all_of_them(words, project, capsys):
    said = ll(capsys, "stop", *words)
    assert (said.code, said.err) == (
        2,
        "error: name a run, or use `--all` to stop them all\n   = help: see `ll-loop stop --help`\n",
    )


def test_a_run_in_the_queue_leaves_it(project, capsys):
    with held(project.root, "other"), project.started("run", "slow", "--queue") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "Waiting for 'other' to complete...\n"
        said = ll(capsys, "stop", "slow")
        child.wait()
    assert said.out.startswith(
        f"slow: asked to stop (pid {child.pid}), removed from the queue before it started   "
    )
    assert said.err == ""
    assert ll(capsys, "stop", "slow").out == "slow is not running: it has not run yet\n"


@pytest.mark.parametrize(
    ("leave", "before"),
    [
        pytest.param(past, state(status="completed", reason="terminal"), id="completed"),
        pytest.param(saved, state(status="interrupted", reason="signal"), id="interrupted"),
    ],
)
def test_an_earlier_run_says_nothing_of_one_in_the_queue(leave, before, project, capsys):
    leave(project.root, "slow", before)
    queued = project.started("run", "slow", "--queue", "--fresh")
    with held(project.root, "other"), queued as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "Waiting for 'other' to complete...\n"
        said = ll(capsys, "stop", "slow", "--json")
        child.wait()
    assert said.json == {"schema": 1, "name": "slow", "stopped": True, "status": None}


def test_a_run_that_came_to_its_end_was_not_stopped(project):
    """The signal was on its way when the run ended by itself."""
    ran(project.root, QUICK)
    told = outcome(Runs(str(project.root)).view("quick"))
    assert re.fullmatch(r"but it had ended: completed \d+s ago", told)


@pytest.mark.parametrize(
    ("leave", "how"),
    [
        pytest.param(crashed, r"interrupted \(crashed\) \d+s ago", id="its process was killed"),
        pytest.param(
            lambda root: saved(root, "crashed", state(status="needs_review", reason="review")),
            r"needs review \(for \d+\w\)",
            id="it waits for a person",
        ),
    ],
)
def test_what_does_not_run_is_stopped_already(leave, how, project, capsys):
    leave(project.root)
    said = ll(capsys, "stop", "crashed")
    assert (said.code, said.err) == (0, "")
    assert re.fullmatch(rf"crashed is not running: {how}\n", said.out)


def test_a_run_that_stands_still_is_woken_to_be_stopped(project, capsys):
    with project.started("run", "slow") as child:
        under_way(project)
        child.send_signal(signal.SIGSTOP)
        said = ll(capsys, "stop", "slow")
        assert child.wait() == 143
    assert "action ended, state saved" in said.out


def test_a_run_that_does_not_answer_is_killed(project):
    stubborn = SLOW.replace("name: slow", "kill_grace: 300").replace(
        "echo started;", "trap '' TERM; echo started;"
    )
    project.loop("slow", stubborn)
    with project.started("run", "slow") as child:
        under_way(project)
        holder = alive(str(project.root), "slow")
        assert holder is not None
        never_heard = (signal.SIGURG, 0.05)
        assert stop(str(project.root), holder, (never_heard, (signal.SIGKILL, 60.0)))
        assert child.wait() == -signal.SIGKILL


def test_how_long_a_run_is_given(project):
    machine = FSMLoop.from_dict(QUICK | {"kill_grace": 20})
    waits = [seconds for _, seconds in plan_for(machine)]
    assert waits == [75.0, 10.0, 10.0]
    assert plan_for(None)[0] == (signal.SIGTERM, 30.0)


def test_no_such_run(project, capsys):
    said = ll(capsys, "stop", "nope")
    assert said == (
        2,
        "",
        "error: no loop or run named `nope`\n   = help: available: `slow`\n",
    )


def test_a_process_on_another_machine_is_not_said_to_be_stopped(project, capsys):
    """A shared directory: the lock is seen, the process is not."""
    with held(project.root, "far"):
        here = this_process("far", (str(project.root),), "r", loop="far", started_at="")
        pid_file = Path(project.root, ".loops/.running/far.pid")
        pid_file.write_bytes(to_bytes(here._replace(host="elsewhere")))
        said = ll(capsys, "stop", "far")
    assert said == (
        2,
        "",
        (
            "error: `far` is held by a process on elsewhere that this machine cannot reach\n"
            "   = help: stop it on the machine where it runs\n"
        ),
    )
