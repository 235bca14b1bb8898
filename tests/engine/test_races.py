"""Many runs at once: one in, the others turned away by name or queued in order of arrival."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from functools import partial

import pytest

from tests.project import Project, chain, until

RACERS = 20
ROUNDS = 3


def holding(name: str, scope: str = ".") -> str:
    """A loop that holds its scope until the file `go_on` is there."""
    return f"""\
        name: {name}
        initial: hold
        scope: ["{scope}"]
        states:
          hold:
            action: |
              echo {name} >> order
              while ! test -e go_on; do sleep 0.02; done
            next: done
          done: {{terminal: true}}
        """


def test_twenty_racing_starts_one_winner(project: Project):
    for n in range(RACERS):
        project.loop(f"r{n}", holding(f"r{n}", "." if n % 2 else "src"))
    for _ in range(ROUNDS):
        (project.root / "go_on").unlink(missing_ok=True)
        (project.root / "order").unlink(missing_ok=True)
        with ExitStack() as stack:
            racers = [stack.enter_context(project.started("run", f"r{n}")) for n in range(RACERS)]
            until(partial(all_but_one_lost, racers), "19 losers")
            (project.root / "go_on").touch()
            said = [racer.communicate(timeout=60) for racer in racers]
        winner = project.file("order").split()
        assert len(winner) == 1
        codes = sorted(racer.returncode for racer in racers)
        assert codes == [0] + [5] * (RACERS - 1)
        for racer, (_, error) in zip(racers, said, strict=True):
            if racer.returncode == 5:
                assert f"loop '{winner[0]}' is running with overlapping scope" in error


def all_but_one_lost(racers: list[subprocess.Popen[str]]) -> bool:
    return sum(racer.poll() is not None for racer in racers) == len(racers) - 1


def test_disjoint_scopes_run_side_by_side(project: Project):
    with ExitStack() as stack:
        for n in range(4):
            project.loop(f"r{n}", holding(f"r{n}", f"part{n}"))
        racers = [stack.enter_context(project.started("run", f"r{n}")) for n in range(4)]
        until(lambda: len(project.file("order").split()) == 4, "four at once")
        (project.root / "go_on").touch()
        assert [racer.wait(timeout=60) for racer in racers] == [0] * 4


def test_the_refusal_names_the_holder_and_the_way_out(project: Project):
    project.loop("quality-guard", holding("quality-guard", "src"))
    project.loop("fix-types", holding("fix-types", "src/api"))
    with project.started("run", "quality-guard") as holder:
        until(lambda: project.file("order"), "holder")
        said = project.ll("run", "fix-types")
        same = project.ll("run", "quality-guard")
        (project.root / "go_on").touch()
        holder.wait(timeout=60)
    assert said.returncode == same.returncode == 5
    first, help_line = said.stderr.splitlines()
    assert first == (
        "error: Cannot start 'fix-types' - loop 'quality-guard' is running with overlapping scope"
    )
    assert str(holder.pid) in help_line
    assert "`src`" in help_line
    assert "already running" in same.stderr
    assert str(holder.pid) in same.stderr


@pytest.mark.parametrize("killed", [False, True], ids=["holder ends", "holder is killed"])
def test_queued_runs_go_in_order_of_arrival(project: Project, killed: bool):
    project.loop("first", holding("first"))
    quick = "name: {0}\ninitial: a\nstates:\n  a: {{action: echo {0} >> order, next: b}}\n  b: {{terminal: true}}\n"
    for n in range(5):
        project.loop(f"q{n}", quick.format(f"q{n}"))
    with ExitStack() as stack:
        first = stack.enter_context(project.started("run", "first"))
        until(lambda: project.file("order"), "holder")
        queued: list[subprocess.Popen[str]] = []
        for n in range(5):
            queued.append(stack.enter_context(project.started("run", f"q{n}", "--queue")))
            assert queued[-1].stdout is not None
            assert queued[-1].stdout.readline() == "Waiting for 'first' to complete...\n"
        if killed:
            os.killpg(first.pid, signal.SIGKILL)
        (project.root / "go_on").touch()  # also ends an action that outlived its runner
        assert [one.wait(timeout=60) for one in queued] == [0] * 5
    assert project.file("order").split() == ["first", "q0", "q1", "q2", "q3", "q4"]


def test_a_queued_run_can_be_stopped(project: Project):
    project.loop("first", holding("first"))
    project.loop("second", holding("second"))
    with project.started("run", "first"), project.started("run", "second", "--queue") as second:
        assert second.stdout is not None
        second.stdout.readline()
        assert project.ll("stop", "second").returncode == 0
        assert second.wait(timeout=30) == 143


def test_six_resumes_at_once_run_each_step_once(project: Project):
    project.loop("chain", chain(6, "echo {n} >> trace; test -e ok || exit 9"))
    assert project.ll("run", "chain").returncode == 1
    (project.root / "ok").touch()
    (project.root / "trace").unlink()
    with ExitStack() as stack:
        racers = [stack.enter_context(project.started("resume", "chain")) for _ in range(6)]
        codes = [racer.wait(timeout=60) for racer in racers]
    assert project.file("trace").split() == [str(n) for n in range(1, 7)]
    assert codes.count(0) == 1
    assert set(codes) <= {0, 2, 5}


def test_a_stale_pid_file_neither_blocks_nor_gets_its_stranger_signalled(project: Project):
    project.loop("row", chain(1).replace("name: chain", "name: row"))
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            running = project.root / ".loops" / ".running"
            running.mkdir(mode=0o700)
            (running / "row.pid").write_text(f"{stranger.pid}\n")
            stopped = project.ll("stop", "row")
            ran = project.ll("run", "row")
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert (stopped.returncode, ran.returncode) == (0, 0)


def test_a_run_inside_an_action_works_within_the_outer_scope(project: Project):
    ll = "PYTHONPATH=$PYTHONPATH $LL_PYTHON -m little_loops"
    project.loop("inner", chain(2).replace("name: chain", "name: inner"))
    project.loop(
        "outer",
        f"""\
        name: outer
        initial: a
        states:
          a: {{action: "{ll} run inner", next: done}}
          done: {{terminal: true}}
        """,
    )
    said = project.ll("run", "outer")
    assert said.returncode == 0, said.stdout + said.stderr
    assert project.file("trace").split() == ["1", "2"]


def test_a_loop_that_runs_itself_comes_to_an_end(project: Project):
    ll = "PYTHONPATH=$PYTHONPATH $LL_PYTHON -m little_loops"
    project.loop(
        "self",
        f"""\
        name: self
        initial: a
        states:
          a: {{action: "{ll} run self --id d$LL_DEPTH", on_pass: done}}
          done: {{terminal: true}}
        """,
    )
    said = project.ll("run", "self")
    assert said.returncode == 1
    deepest = project.past("self@d16", ".state.json")
    assert deepest.exists()
