"""Kill a run at any moment: nothing recorded is run again, nothing is lost, the order holds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import psutil
import pytest

from little_loops.runs.layout import MOVING
from tests.project import Project, chain, numbers, until

KILLS = 10
MANY_KILLS = 25


@pytest.mark.parametrize("seed", [1, 2])
def test_a_chain_killed_at_random_moments(project: Project, seed: int):
    kill_at_random(project, seed, KILLS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 7))
def test_a_chain_killed_at_many_random_moments(project: Project, seed: int):
    kill_at_random(project, seed, MANY_KILLS)


def kill_at_random(project: Project, seed: int, most: int) -> None:
    """Ten states; each writes its number and sleeps a little, so that kills land everywhere."""
    project.loop("chain", chain(10, "echo {n} >> trace; sleep 0.01"))
    dice = random.Random(seed)
    kills = finished = 0
    while kills < most:
        (project.root / "trace").unlink(missing_ok=True)
        finished += 1
        while past_runs(project) < finished:  # a kill may also come after all is done
            with project.started("resume" if is_begun(project) else "run", "chain") as child:
                await_random_moment(project, child, dice)
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    kills += 1
            project.end_actions()
            assert_state_reads(project)
        assert_whole_story(project)


def is_begun(project: Project) -> bool:
    """Whether a run has recorded anything; of one killed on its way to the history, the log may be
    there already."""
    moving = project.running("chain", MOVING)
    return log_size(project) > 0 or os.path.lexists(moving)


def past_runs(project: Project) -> int:
    return len(list((project.root / ".loops/.history/chain").glob("*.state.json")))


def await_random_moment(
    project: Project, child: subprocess.Popen[str], dice: random.Random
) -> None:
    """Some bytes of log from now, and a little later: a moment that no slow machine can outrun."""
    target = log_size(project) + dice.randrange(0, 3000)
    until(lambda: child.poll() is not None or log_size(project) >= target, "moment")
    time.sleep(dice.uniform(0, 0.03))  # the random moment itself, not a wait


def log_size(project: Project) -> int:
    try:
        return project.running("chain", ".events.jsonl").stat().st_size
    except FileNotFoundError:
        return 0


def assert_state_reads(project: Project) -> None:
    said = project.ll("status", "chain", "--json")
    assert said.returncode in (0, 2), said.stderr
    assert "Traceback" not in said.stderr


def assert_whole_story(project: Project) -> None:
    events = project.events("chain")
    complete = [e["state"] for e in events if e["event"] == "action_complete"]
    assert complete == [f"s{n}" for n in range(1, 11)]
    interrupted = [e["state"] for e in events if e["event"] == "action_interrupted"]
    trace = numbers(project.file("trace"))
    assert list(trace) == sorted(trace)
    for n in range(1, 11):
        assert 1 <= trace.count(n) <= 1 + interrupted.count(f"s{n}")


def test_the_runner_alone_is_killed_and_its_action_lives_on(project: Project):
    project.loop(
        "solo",
        """\
        name: solo
        initial: work
        states:
          work:
            action: |
              echo $$ >> pids
              test -e go_on || sleep 600
            next: done
          done: {terminal: true}
        """,
    )
    with project.started("run", "solo") as child:
        until(lambda: project.file("pids"), "action")
        child.kill()
        child.wait()
        orphan = int(project.file("pids").split()[0])
        os.kill(orphan, 0)  # it is alive, nobody ended it
        (project.root / "go_on").touch()
        said = project.ll("resume", "solo")
    assert said.returncode == 0, said.stderr
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == "zombie"
    resume = next(e for e in project.events("solo") if e["event"] == "resume")
    assert any(f"(pid {orphan})" in name for name in resume["orphans"])
