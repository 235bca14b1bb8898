"""The commands of `ll-loop` on a fleet, with workers that `ll-loop worker` started."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from little_loops.fleet.address import connected
from little_loops.fleet.names import workflow_id
from tests.fleet.fleet import Fleet
from tests.hosts.played import play_claude
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
NOTED = """\
name: noted
host: {name: command, command: [sh, -c, 'echo "$1" | grep "leave it alone"', agent, "{prompt}"]}
context: {outside: ""}
initial: work
states:
  work: {action: "until test -e ${context.outside}/ok; do sleep 0.05; done", next: turn}
  turn: {action: Fix it, action_type: prompt, next: done}
  done: {terminal: true}
"""
LONG = """\
name: long
initial: out
states:
  out: {action: "echo \\"token $DEPLOY_TOKEN\\"; seq 2000", next: err}
  err: {action: "seq 3000 >&2; exit 1", next: few}
  few: {action: "echo one; echo two; echo three", next: done}
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
        for text in (FIX, COUNT, ASK, SLOW, NOTED, LONG, AGENT):
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

    @property
    def at(self) -> str:
        return f"temporal://{self.fleet.server.address.target}"

    def __call__(self, *words: str) -> str:
        """Return what a command prints and its exit code."""
        done = self.project.ll(*words, env={"LL_FLEET": self.at})
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
    assert "1 run · completed" in ll("history")
    assert (ll.project.root / "src" / "value").read_text() == "wrong\n"


def test_outputs_are_shown_whole_as_on_one_computer(ll: Shell):
    here, there = ll("run", "long", "--local"), ll("run", "long")
    assert without_times(there) == without_times(here)
    raw = ll("logs", "long", "--raw", "--local")
    assert raw.count("\n") > 5000
    assert ll("logs", "long", "--raw") == raw.replace("token ", "token ***")
    log = ll("logs", "long", "--local").replace("| token ", "| token ***")
    assert without_times(ll("logs", "long")) == without_times(log)


def without_times(text: str) -> str:
    return re.sub(r"\b[\d.]+m?s\b", "T", text)


def test_a_long_run_continues_in_other_executions(ll: Shell):
    assert ll("run", "count").endswith("exit 3")
    records = [json.loads(line) for line in ll("logs", "count", "--json").splitlines()[:-1]]
    assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
    runtime_says = json.loads(ll("status", "count", "--json").rpartition("exit")[0])
    assert runtime_says["reason"] == "max_iterations"
    endings = asyncio.run(endings_of_executions(ll, "count"))
    assert len(endings) > 2
    assert set(endings[:-1]) == {EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW}
    assert endings[-1] == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED


async def endings_of_executions(ll: Shell, name: str) -> list[int]:
    """Return how each workflow execution of a run has ended, as the server's history has it."""
    client = await connected(ll.fleet.server.address)
    bare = str(ll.project.root.parent / "bare.git")
    identity = workflow_id(bare, name)
    last = client.get_workflow_handle(identity)
    parts = [*await last.query("earlier"), None]
    handles = [client.get_workflow_handle(identity, run_id=part) for part in parts]
    return [(await each.fetch_history()).events[-1].event_type for each in handles]


def test_old_runs_are_deleted_with_their_checkpoints(ll: Shell):
    for _ in range(2):
        assert ll("run", "fix", "-q").endswith("exit 0")
    assert ll("run", "ask", "-q").endswith("exit 4")
    ll.project.git("push", "-q", "origin", "HEAD:refs/ll/20200101T000000-12345678")
    assert "`--prune` needs an age or `--keep`" in ll("history", "--prune")
    assert checkpoints(ll) == 4
    shown = ll("history", "--prune", "--keep", "1")
    assert shown == "deleted 1 run: 1 of fix\ndeleted 2 refs below refs/ll\nexit 0"
    assert checkpoints(ll) == 2, "that of the run that was kept, and of the one that waits"
    until(lambda: ll("history", "fix", "--json").count('"name"') == 1, "end of the deletion")
    assert "Loop completed: done" in ll("approve", "ask", "-m", "ok")
    assert ll("history", "--prune", "--keep", "0", "--json").startswith(
        '{"schema": 1, "deleted": ['
    )
    assert checkpoints(ll) == 0


def checkpoints(ll: Shell) -> int:
    """Return how many checkpoints the repository has."""
    return len(ll.project.git("ls-remote", "origin", "refs/ll/*").splitlines())


def test_a_gate_is_answered(ll: Shell):
    assert ll("run", "ask").endswith("exit 4")
    assert "ask" in ll("status")
    assert "Loop completed: done" in ll("approve", "ask", "-m", "ok")


def test_a_gate_is_answered_with_no(ll: Shell):
    assert ll("run", "ask", "-q").endswith("exit 4")
    shown = ll("reject", "ask", "-m", "wrong colour")
    assert "Loop rejected in state 'gate': wrong colour" in shown
    assert shown.endswith("exit 1")
    answers = [json.loads(line) for line in ll("logs", "ask", "--json").splitlines()[:-1]]
    answered = next(each for each in answers if each["event"] == "gate_answered")
    assert (answered["verdict"], answered["text"]) == ("rejected", "wrong colour")


def test_a_note_reaches_the_next_turn(ll: Shell):
    outside = f"outside={ll.project.home}"
    assert ll("run", "noted", "--background", "--context", outside).endswith("exit 0")
    until(lambda: "action_start" in ll("logs", "noted", "--json"), "action")
    assert "the next agent turn will receive this note" in ll("tell", "noted", "leave it alone")
    (ll.project.home / "ok").touch()
    assert ll("wait", "noted").endswith("exit 0")
    assert "note_delivered" in ll("logs", "noted", "--json")
    assert ll("run", "fix", "-q").endswith("exit 0")
    assert "`fix` has no agent that could receive a note" in ll("tell", "fix", "leave it alone")


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
    assert "uncommitted changes, which a fleet cannot see" in ll("run", "fix")
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


@contextmanager
def careful_worker(folder: Path, fleet: Fleet, repos: str) -> Iterator[None]:
    """The only worker of a namespace, started by `ll-loop worker`; it lets no agent skip
    permissions."""
    log = folder / "worker.log"
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "little_loops", "worker"),
                *("--fleet", f"temporal://{fleet.server.address.target}/careful"),
                *("--repos", repos, "--max-actions", "2", "--heartbeat", "2s"),
            ],
            env=fleet.environ(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        until(lambda: b"is ready" in log.read_bytes() or worker.poll() is not None, "worker")
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE_S) == 0, log.read_text()


def test_agents_skip_permissions_only_where_the_worker_allows_it(
    ll: Shell, tmp_path: Path, fleet: Fleet
):
    at = f"{ll.at}/careful"
    with careful_worker(tmp_path, fleet, f"{tmp_path}/*"):
        shown = ll("run", "agent", "--fleet", at)
        assert re.search(
            r"Loop failed in state 'work': worker `\S+-\d` does not let agents skip permission"
            r" prompts: `claude: Fix it` \(start the worker with `--allow-skip-permissions`, ",
            shown,
        )
        assert shown.endswith("exit 1")
        status = json.loads(ll("status", "agent", "--json", "--fleet", at).rpartition("exit")[0])
        assert (status["status"], status["reason"]) == ("failed", "consent")
        assert ll("resume", "agent", "--fleet", at).endswith("exit 1")
        assert "(ll-loop " in ll("doctor", "--fleet", at)
        assert ll("run", "fix", "--fleet", at).endswith("exit 0")


def test_agents_skip_permissions_in_what_the_account_of_the_worker_has_agreed_to(
    ll: Shell, tmp_path: Path, fleet: Fleet
):
    at, bare = f"{ll.at}/careful", str(ll.project.root.parent / "bare.git")
    said = play_claude("success", "I looked at it.", "").stdout
    (fleet.home / "said").write_bytes(said)
    (fleet.bin / "claude").unlink(missing_ok=True)
    (fleet.bin / "claude").write_text(
        f'#!/bin/sh\necho "$@" > {fleet.home}/words\ncat {fleet.home}/said\n'
    )
    (fleet.bin / "claude").chmod(0o755)
    own, other = tmp_path / "own", tmp_path / "other"
    ll.project.git("clone", "-q", bare, str(own))
    ll.project.git("clone", "-q", str(ll.project.root), str(other))

    def trust(clone: Path, *words: str) -> None:
        done = subprocess.run(
            ll.project.argv("trust", *words), cwd=clone, env=fleet.environ(), check=False
        )
        assert done.returncode == 0

    with careful_worker(tmp_path, fleet, f"{tmp_path}/*"):
        trust(other, "agent")  # it is a clone of another repository
        assert ll("run", "agent", "--fleet", at).endswith("exit 1")
        trust(own, "agent")
        assert ll("resume", "agent", "--fleet", at).endswith("exit 0")
        assert "--dangerously-skip-permissions" in (fleet.home / "words").read_text()
        trust(own, "--revoke")
        assert ll("run", "agent", "--fleet", at).endswith("exit 1")


def test_a_worker_leaves_repositories_alone_that_it_does_not_serve(
    ll: Shell, tmp_path: Path, fleet: Fleet
):
    at, workspaces = f"{ll.at}/careful", fleet.home / ".cache/little-loops/fleet/work"
    before = set(workspaces.glob("*/*"))
    with (
        careful_worker(tmp_path, fleet, "git@host:team/*"),
        ll.project.started("run", "fix", "--fleet", at) as run,
    ):
        assert run.stderr is not None
        assert run.stdout is not None
        lines = run.stdout
        waits = until(lambda: next((x for x in lines if "waiting for" in x), ""), "reason")
        bare = ll.project.root.parent / "bare.git"
        assert f"does not serve `{bare}`" in waits
        run.send_signal(signal.SIGINT)
        assert "was stopped before a worker had claimed it" in run.communicate()[1]
        assert set(workspaces.glob("*/*")) == before
    assert ll.project.git("-C", str(bare), "for-each-ref", "--format=%(refname)") == (
        "refs/heads/main"
    )
