"""Whoever reads what a run says, or does not: the run goes on, ends, and can be stopped."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from little_loops.system.stops import StopFlag
from little_loops.terminal.outlet import ROOM, Outlet
from tests.project import DEADLINE_S, Project, until

TALKATIVE = """\
    name: talkative
    initial: talk
    states:
      talk:
        action: head -c 60000 /dev/zero | tr '\\0' x | fold -w 100
        next: more
      more:
        action: head -c 60000 /dev/zero | tr '\\0' y | fold -w 100
        next: last
      last:
        action: "touch there; while [ ! -e go ]; do sleep 0.02; done"
        next: done
      done: {terminal: true}
    """


@pytest.fixture
def flag() -> Iterator[StopFlag]:
    made = StopFlag()
    yield made
    made.close()


@contextmanager
def told_to(
    project: Project, writing: int, *words: str, term: str = "dumb"
) -> Iterator[subprocess.Popen[bytes]]:
    """`ll-loop` with this end of a pipe or terminal as its stdout."""
    child = subprocess.Popen(
        project.argv(*words),
        cwd=project.root,
        env=project.environ(TERM=term),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(writing)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("terminal", [False, True], ids=["a pipe", "a terminal"])
def test_a_reader_that_sleeps_holds_up_neither_the_run_nor_its_stop(
    project: Project, terminal: bool
):
    project.loop("talkative", TALKATIVE)
    reading, writing = pty.openpty() if terminal else os.pipe()
    words = ("run", "talkative", "-v")
    with told_to(project, writing, *words, term="xterm" if terminal else "dumb") as child:
        until((project.root / "there").exists, "last action under way")
        said = project.ll("stop", "talkative")
        assert (said.returncode, child.wait(DEADLINE_S)) == (0, 143)
    os.close(reading)
    assert project.state("talkative")["status"] == "interrupted"


def test_a_run_ends_though_nobody_reads_and_its_reader_may_come_later(project: Project):
    project.loop("talkative", TALKATIVE)
    (project.root / "go").touch()
    reading, writing = os.pipe()
    with told_to(project, writing, "run", "talkative", "-v") as child:
        until(lambda: project.has_event("talkative", "loop_complete"), "end of the run")
        with open(reading, "rb") as stream:
            told = stream.read().decode()
        assert child.wait(DEADLINE_S) == 0
    assert told.count("| " + "x" * 100) == 600
    assert told.count("| " + "y" * 100) == 600
    assert told.splitlines()[-1].startswith("Loop completed: done (1 iteration, ")


def test_a_reader_that_has_gone_changes_no_exit_code(project: Project):
    project.loop(
        "bad",
        """\
        name: bad
        initial: a
        states:
          a: {action: exit 3, next: done}
          done: {terminal: true}
        """,
    )
    reading, writing = os.pipe()
    os.close(reading)
    with told_to(project, writing, "run", "bad") as child:
        _, said = child.communicate(timeout=DEADLINE_S)
    assert (child.returncode, said) == (1, b"next: ll-loop resume bad\n")


def test_beyond_the_limit_it_is_dropped_and_counted(flag: StopFlag):
    reading, writing = os.pipe()
    with open(writing, "w") as stream, open(reading, "rb"):
        outlet = Outlet(stream)
        for _ in range(20):
            outlet.write("x" * (ROOM // 10))
        assert outlet.is_behind
        flag.ask(15)
        outlet.finish(flag)
        in_the_pipe = 65_536
        assert outlet.lost == 20 * (ROOM // 10) - in_the_pipe
