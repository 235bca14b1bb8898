"""`ll-loop` on real terminals: what moves on them, which keys work, what outlives them."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pexpect
import psutil
import pytest

from tests.cli.paper import ExcerptWidth
from tests.project import Project, until

LIMIT_S = 40
TIMES = re.compile(r" *\b\d+\.\ds\b")

SLOW = """\
name: slow
initial: work
states:
  work:
    action: |
      echo $$ > pid
      echo started
      echo still at it
      while [ ! -e go ]; do sleep 0.02; done
      echo finished
    next: done
  done: {terminal: true}
"""
STUBBORN = """\
name: stubborn
initial: work
kill_grace: 300
states:
  work:
    action: |
      trap '' TERM INT HUP
      echo stubborn
      while [ ! -e go ]; do sleep 0.02; done
    next: done
  done: {terminal: true}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    project.loop("slow", SLOW)
    project.loop("stubborn", STUBBORN)
    yield project
    project.end_actions()


class Screen:
    """A program on a terminal of its own, and all that it wrote there."""

    def __init__(self, child: pexpect.spawn[str], width: int) -> None:
        self.child = child
        self.width = width
        self._written = io.StringIO()
        child.logfile_read = self._written

    def expect(self, pattern: str) -> None:
        self.child.expect(pattern)

    def press(self, letter: str) -> None:
        """Ctrl and a letter."""
        self.child.sendcontrol(letter)

    def end(self) -> int:
        """Wait for the program to end; its exit code."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus is not None, f"killed by {self.child.signalstatus}"
        return self.child.exitstatus

    @property
    def written(self) -> str:
        return self._written.getvalue()

    @property
    def paper(self) -> ExcerptWidth:
        return ExcerptWidth.showing(self.written, self.width)

    @property
    def text(self) -> str:
        """What is on the screen, times left out."""
        return TIMES.sub(" T", self.paper.text)


@contextmanager
def terminal(
    project: Project,
    *words: str,
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    program: list[str] | None = None,
) -> Iterator[Screen]:
    argv = program or project.argv(*words)
    child = pexpect.spawn(
        argv[0],
        argv[1:],
        cwd=str(project.root),
        env={**project.environ(TERM="xterm"), **(env or {})},
        dimensions=(24, columns),
        encoding="utf-8",
        timeout=LIMIT_S,
    )
    try:
        yield Screen(child, columns)
    finally:
        child.close(force=True)


def action_pid(project: Project) -> int:
    return int(until(lambda: project.file("pid").strip(), "action"))


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def hang_up(screen: Screen) -> None:
    """Close our end of the terminal, as a window does that is closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, screen.child.fileno())
    os.close(nothing)


def go(project: Project) -> None:
    (project.root / "go").touch()


def screen_text(story: str) -> str:
    return dedent(story).rstrip("\n")


def test_the_last_line_is_shown_while_an_action_runs_and_nothing_of_it_stays(project):
    with terminal(project, "run", "slow") as screen:
        screen.expect(r"\ds · still at it")
        screen.expect(r"ctrl-c stops and saves · log \.loops/\.running/slow\.log")
        go(project)
        assert screen.end() == 0
    assert screen.text == screen_text("""\
        slow · fsm · up to 50 iterations · scope .
        [1/50] work → running echo $$ > pid...
               ✓ finished (exit 0) T
               → done

        Loop completed: done (1 iteration, T)
    """)
    assert screen.paper.has_cursor


def test_ctrl_c_ends_the_action_saves_and_says_how_to_go_on(project):
    with terminal(project, "run", "slow") as screen:
        screen.expect("still at it")
        pid = action_pid(project)
        screen.press("c")
        assert screen.end() == 130
    assert screen.text == screen_text("""\
        slow · fsm · up to 50 iterations · scope .
        [1/50] work → running echo $$ > pid...
               ✗ interrupted (stop)

        Loop interrupted: Ctrl-C in state 'work' (1 iteration, T)
        next: ll-loop resume slow
    """)
    assert is_gone(pid)
    assert project.state("slow")["status"] == "interrupted"
    go(project)
    with terminal(project, "resume", "slow") as screen:
        assert screen.end() == 0
    assert screen.text == screen_text("""\
        slow · fsm · up to 50 iterations
        Resuming loop 'slow' from state 'work' (iteration 1)
        [1/50] work → running echo $$ > pid...
               ✓ finished (exit 0) T
               → done

        Loop completed: done (1 iteration, T)
    """)


def test_ctrl_c_twice_ends_at_once_what_does_not_want_to_end(project):
    with terminal(project, "run", "stubborn") as screen:
        screen.expect(r"\ds · stubborn")
        screen.press("c")
        screen.expect("stopping; ctrl-c again stops immediately")
        screen.press("c")
        assert screen.end() == 130
    assert screen.text.splitlines()[2:] == [
        "       ✗ interrupted (stop)",
        "",
        "Loop interrupted: Ctrl-C in state 'work' (1 iteration, T)",
        "next: ll-loop resume stubborn",
    ]
    assert project.state("stubborn")["status"] == "interrupted"


@pytest.mark.parametrize(
    ("env", "colourful"),
    [
        pytest.param({}, True, id="as it is"),
        pytest.param({"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, True, id="NO_COLOR is empty"),
    ],
)
def test_no_color_sends_no_colours(project, env, colourful):
    with terminal(project, "run", "slow", env=env) as screen:
        screen.expect("still at it")
        go(project)
        assert screen.end() == 0
    assert bool(screen.paper.styles) is colourful


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"CLAUDECODE": "1"}, id="inside Claude Code"),
        pytest.param({"CODEX_SANDBOX": "seatbelt"}, id="inside Codex"),
        pytest.param({"CI": "true"}, id="CI"),
        pytest.param({"TERM": "dumb"}, id="a dumb terminal"),
    ],
)
def test_where_no_person_watches_the_lines_are_plain(project, env):
    go(project)
    with terminal(project, "run", "slow", env=env) as screen:
        assert screen.end() == 0
    assert TIMES.sub(" T", screen.written.replace("\r\n", "\n")) == dedent("""\
        [1/50] work → running echo $$ > pid...
               ✓ finished (exit 0)
               → done

        Loop completed: done (1 iteration, T)
    """)


def test_fifty_columns_and_fewer_while_it_runs(project):
    project.loop(
        "wide",
        """\
        initial: work
        states:
          work:
            action: |
              printf 'w%.0s' $(seq 200); echo
              while [ ! -e go ]; do sleep 0.02; done
            next: done
          done: {terminal: true}
        """,
    )
    with terminal(project, "run", "wide", columns=50) as screen:
        screen.expect(f"0s · {'w' * 34}…\\x1b")
        screen.expect("       ctrl-c stops and saves\x1b")
        screen.child.setwinsize(24, 40)
        screen.expect(f"s · {'w' * 24}…\\x1b")
        go(project)
        assert screen.end() == 0


def test_ctrl_z_stops_everything_and_fg_goes_on(project):
    with terminal(project, program=["/bin/sh", "-i"], env={"PS1": "READY> ", "ENV": ""}) as shell:
        shell.expect("READY> ")
        shell.child.sendline(" ".join(project.argv("run", "slow")))
        shell.expect("still at it")
        pid = action_pid(project)
        shell.press("z")
        shell.expect("READY> ")
        assert shell.paper.has_cursor
        assert "still at it" not in shell.paper.text
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "stopped action")
        shell.child.sendline("fg")
        shell.expect(r"\ds · still at it")
        go(project)
        shell.expect("completed")
        shell.expect("READY> ")
        shell.child.sendline("exit")
        shell.child.expect(pexpect.EOF)
    assert project.state("slow")["status"] == "completed"


def test_a_terminal_that_is_closed_leaves_an_interrupted_run(project):
    with terminal(project, "run", "slow") as screen:
        screen.expect("still at it")
        pid = action_pid(project)
        runner = psutil.Process(screen.child.pid)
        hang_up(screen)
        until(lambda: project.state("slow")["status"] == "interrupted", "interrupted run")
        until(lambda: is_gone(pid), "end of the action")
        until(lambda: is_gone(runner.pid), "end of the run")
    assert project.events("slow")[-1]["signal"] == signal.SIGHUP
    go(project)
    assert project.ll("resume", "slow").returncode == 0


def test_a_background_run_outlives_its_terminal(project):
    with terminal(project, program=["/bin/sh", "-i"], env={"PS1": "READY> ", "ENV": ""}) as shell:
        shell.expect("READY> ")
        shell.child.sendline(" ".join(project.argv("run", "slow", "--background")))
        shell.expect(r"slow is running in the background \(pid \d+\)")
        shell.expect("READY> ")
        pid = action_pid(project)
    assert not is_gone(pid)
    go(project)
    waited = project.ll("wait", "slow")
    assert waited.returncode == 0
    assert project.state("slow")["status"] == "completed"
