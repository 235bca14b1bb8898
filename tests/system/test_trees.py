"""However an action's processes hang together, none of them outlives its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

import psutil
import pytest

from tests.project import Project, until

SHAPES = {
    "a child": "sleep 600",
    "child and grandchild": "sh -c 'sleep 600 & sleep 600'",
    "ignores TERM": "trap '' TERM; while :; do sleep 600; done",
    "left its session": "setsid sleep 600 & sleep 600",
    "a daemon": "(setsid sh -c 'sleep 600 & exit' &) ; sleep 600",
}


def loop(action: str, timeout: str = "") -> str:
    script = "\n".join(f"              {line}" for line in action.splitlines())
    return f"""\
        name: row
        initial: a
        kill_grace: 0.3
        states:
          a:
            action: |
              touch begun
{script}
            {timeout}
            next: done
          done: {{terminal: true}}
        """


def by_stop(project: Project, pid: int) -> None:
    assert project.ll("stop", "row").returncode == 0


ENDS: dict[str, Callable[[Project, int], None]] = {
    "timeout": lambda project, pid: None,
    "stop": by_stop,
    "TERM": lambda project, pid: os.kill(pid, signal.SIGTERM),
    "Ctrl-C": lambda project, pid: os.kill(pid, signal.SIGINT),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
@pytest.mark.parametrize("action", SHAPES.values(), ids=SHAPES.keys())
def test_no_survivor(project: Project, action: str, end: Callable[[Project, int], None]):
    limited = end is ENDS["timeout"]
    project.loop("row", loop(action, "timeout: 0.5" if limited else ""))
    with project.started("run", "row") as child:
        until((project.root / "begun").exists, "action")
        if not limited:
            until(partial(members, project), "process of the action")
        end(project, child.pid)
        assert child.wait(timeout=30) != 0
        assert members(project) == []


def members(project: Project) -> list[str]:
    """Living processes that carry the mark of this project's runs."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.environ().get("LL_RUN_DIR", "").startswith(str(project.root))
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_a_child_that_holds_stdout_open_does_not_delay_the_next_state(project: Project):
    project.loop("row", loop("sleep 600 &\necho started"))
    with project.started("run", "row") as child:
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 0
    assert "started" in out
    warning = next(e for e in project.events("row") if e["event"] == "warning")
    assert warning["message"].startswith(
        "ended processes that the actions had left running: sleep 600 (pid "
    )
    assert members(project) == []


def test_what_an_action_leaves_running_serves_the_next_state(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: serve
        states:
          serve: {action: "sleep 600 & echo $! > pid", next: use}
          use: {action: "kill -0 $(cat pid)", next: done}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "row").returncode == 0
    assert members(project) == []
