"""The commands of `ll-loop` on a fleet, with workers that `ll-loop worker` started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.fleet import Fleet
from tests.project import DEADLINE_S, Project, until

FIX = """\
name: fix
initial: check
states:
  check: {action: grep -q right src/value, on_pass: done, on_fail: fix}
  fix: {action: "echo right > src/value; echo fixed it", next: check}
  done: {terminal: true}
"""
COUNT = """\
name: count
max_iterations: 25
initial: work
states:
  work: {action: "true", next: again}
  again: {action: "true", next: work}
"""
ASK = """\
name: ask
initial: work
states:
  work: {action: "true", next: gate}
  gate: {terminal: true, outcome: review, next: done}
  done: {terminal: true}
"""
SLOW = """\
name: slow
initial: work
states:
  work: {action: "echo started; sleep 60", next: done}
  done: {terminal: true}
"""
AGENT = """\
name: agent
host: {name: claude}
initial: work
states:
  work: {action: Fix it, action_type: prompt, next: done}
  done: {terminal: true}
"""


class Shell:
    """Runs `ll-loop` in a project that has a bare repository as its remote."""

    def __init__(self, fleet: Fleet, project: Project) -> None:
        self.fleet = fleet
        self.project = project
        for text in (FIX, COUNT, ASK, SLOW, AGENT):
            project.loop(text.split()[1], text)
        (project.root / ".loops" / ".gitignore").write_text(".running/\n.history/\n")
        (project.root / "src").mkdir()
        (project.root / "src" / "value").write_text("wrong\n")
        project.git("init", "-q", "-b", "main")
        project.git("add", "-A")
        project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
        bare = str(project.root.parent / "bare.git")
        project.git("clone", "-q", "--bare", str(project.root), bare)
        project.git("remote", "add", "origin", bare)
        project.git("fetch", "-q")

    def __call__(self, *words: str) -> str:
        """Return what a command prints and its exit code."""
        address = self.fleet.server.address
        done = self.project.ll(*words, env={"LL_FLEET": f"temporal://{address.target}"})
        return f"{done.stdout}{done.stderr}exit {done.returncode}"


@pytest.fixture
def ll(fleet: Fleet, project: Project) -> Shell:
    return Shell(fleet, project)


def test_a_run_is_shown_as_on_one_computer_and_its_work_is_a_branch(ll: Shell):
    shown = ll("run", "fix")
    assert "[1/50] check → running grep -q right src/value..." in shown
    assert "Loop completed: done (2 iterations" in shown
    assert shown.endswith("exit 0")
    branch = next(line.split()[-1] for line in shown.splitlines() if "git fetch origin" in line)
    ll.project.git("fetch", "-q", "origin", branch)
    assert ll.project.git("show", "FETCH_HEAD:src/value") == "right"
    assert ll.project.git("log", "--format=%s", "main..FETCH_HEAD").startswith(
        "fix: changes of run"
    )
    assert "fix  ✓ completed (done)" in ll("status", "fix")
    assert "fixed it" in ll("logs", "fix")
    assert "+right" in ll("diff", "fix")
    assert "100% completed" in ll("history")
    assert (ll.project.root / "src" / "value").read_text() == "wrong\n"


def test_a_long_run_continues_in_other_executions(ll: Shell):
    assert ll("run", "count").endswith("exit 3")
    records = [json.loads(line) for line in ll("logs", "count", "--json").splitlines()[:-1]]
    assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
    runtime_says = json.loads(ll("status", "count", "--json").rpartition("exit")[0])
    assert runtime_says["reason"] == "max_iterations"


def test_a_gate_is_answered(ll: Shell):
    assert ll("run", "ask").endswith("exit 4")
    assert "ask" in ll("status")
    assert "Loop completed: done" in ll("approve", "ask", "-m", "ok")


def test_a_background_run_is_stopped_and_continued(ll: Shell):
    assert ll("run", "slow", "--background").startswith("slow is running on the fleet")
    until(lambda: "action_start" in ll("logs", "slow", "--json"), "action")
    assert "slow  ● running" in ll("status", "slow")
    assert "has an unfinished run on the fleet" in ll("run", "slow")
    assert "interrupted in state 'work'" in ll("stop", "slow")
    assert ll("wait", "slow").endswith("exit 143")
    assert "slow is running" in ll("resume", "slow", "--background")
    assert "slow: asked to stop" in ll("stop", "--all")


def test_what_a_fleet_cannot_see_is_refused(ll: Shell):
    (ll.project.root / "src" / "value").write_text("other\n")
    assert "uncommitted changes, which a fleet does not see" in ll("run", "fix")
    assert ll("run", "fix", "--ref", "main", "-q").endswith("exit 0")
    ll.project.git("add", "-A")
    ll.project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "more")
    assert "has not been pushed" in ll("run", "fix")
    assert "`--worktree` does not work on a fleet" in ll(
        "run", "fix", "--ref", "main", "--worktree"
    )
    assert "works on this computer only" in ll("attach", "fix", "--fleet", "temporal://x")


def test_local_beats_the_variable(ll: Shell):
    assert ll("run", "fix", "--local", "-q").endswith("exit 0")
    assert (ll.project.root / "src" / "value").read_text() == "right\n"


@pytest.fixture
def careful(tmp_path: Path, fleet: Fleet) -> Iterator[Path]:
    """A server with one worker, started by `ll-loop worker`, that lets no agent skip permissions."""
    log = tmp_path / "worker.log"
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "little_loops", "worker"),
                *("--fleet", f"temporal://{fleet.server.address.target}/careful"),
                *("--repos", f"{tmp_path}/*", "--max-actions", "2", "--heartbeat", "2s"),
            ],
            env=fleet.environ(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    until(lambda: b"is ready" in log.read_bytes() or worker.poll() is not None, "worker")
    yield log
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0, log.read_text()


def test_agents_skip_permissions_only_where_the_worker_allows_it(
    ll: Shell, careful: Path, fleet: Fleet
):
    at = f"temporal://{fleet.server.address.target}/careful"
    shown = ll("run", "agent", "--fleet", at)
    assert "does not let agents skip permission prompts" in shown
    assert "worker `" in shown
    assert shown.endswith("exit 1")
    assert "(ll-loop " in ll("doctor", "--fleet", at)
    assert ll("run", "fix", "--fleet", at).endswith("exit 0")
