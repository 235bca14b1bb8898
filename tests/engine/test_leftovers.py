"""A runner was killed and its action lives on: nothing else starts on its scope."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from little_loops.runs.holders import this_process
from little_loops.runs.leftovers import whereabouts
from tests.project import Project, until

SLOW = """\
name: slow
initial: work
scope: [src]
states:
  work: {action: "echo $$ > began.new; mv began.new began; exec sleep 600", next: done}
  done: {terminal: true}
"""
FAST = """\
name: fast
initial: work
scope: [src/api]
states:
  work: {action: "touch ran", next: done}
  done: {terminal: true}
"""


@contextmanager
def orphaned(project: Project, text: str = SLOW) -> Iterator[int]:
    """The pid of an action whose runner was killed."""
    project.loop("slow", text)
    project.loop("fast", FAST)
    with project.started("run", "slow") as runner:
        until((project.root / "began").exists, "action")
        runner.kill()
        runner.wait()
        yield int(project.file("began"))


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_nothing_else_starts_on_its_scope(project: Project):
    with orphaned(project) as pid:
        said = project.ll("run", "fast")
        assert (said.returncode, project.file("ran")) == (5, "")
        assert said.stderr == (
            "error: Cannot start 'fast' - loop 'slow' was killed, but its action is still running\n"
            f"   = help: still working on `src`: sleep 600 (pid {pid}). `ll-loop stop slow` ends the action;"
            " `ll-loop resume slow` stops it and continues that run; or use `--queue` to wait until the other run ends\n"
        )
        assert is_alive(pid)
        dry = project.ll("run", "fast", "--dry-run").stdout
        assert "taken: 'slow' was killed, but its action is still working on `src`\n" in dry


def test_a_scope_beside_it_is_free(project: Project):
    with orphaned(project) as pid:
        assert project.ll("run", "fast", "--scope", "docs").returncode == 0
        assert is_alive(pid)


def test_a_resume_of_another_run_has_to_wait_too(project: Project):
    project.loop("fast", FAST.replace("touch ran", "echo CONTEXT_HANDOFF:"))
    assert project.ll("run", "fast").returncode == 4
    with orphaned(project) as pid:
        said = project.ll("resume", "fast", "--definition", "original")
        assert (said.returncode, is_alive(pid)) == (5, True)


def test_stop_ends_it_and_frees_the_scope(project: Project):
    with orphaned(project) as pid:
        said = project.ll("stop", "slow").stdout
        assert said.endswith(f"; ended sleep 600 (pid {pid})\n")
        assert not is_alive(pid)
        assert project.ll("run", "fast").returncode == 0


def test_a_fresh_run_ends_the_leftover_of_its_own(project: Project):
    with orphaned(project) as pid:
        (project.root / "began").unlink()
        project.loop("slow", SLOW.replace("exec sleep 600", "exit 0"))
        assert project.ll("run", "slow").returncode == 2
        assert is_alive(pid)
        assert project.ll("run", "slow", "--fresh").returncode == 0
        assert not is_alive(pid)


def test_a_resume_ends_it_and_runs_the_action_again(project: Project):
    with orphaned(project) as pid:
        (project.root / "began").unlink()
        with project.started("resume", "slow"):
            until((project.root / "began").exists, "action")
            assert not is_alive(pid)


def test_the_queue_waits_for_it(project: Project):
    with orphaned(project) as pid, project.started("run", "fast", "--queue") as queued:
        assert queued.stdout is not None
        assert (
            queued.stdout.readline()
            == "Waiting for the remaining processes of 'slow' to complete...\n"
        )
        assert project.file("ran") == ""
        os.kill(pid, signal.SIGKILL)
        queued.communicate(timeout=60)
        assert (queued.returncode, (project.root / "ran").exists()) == (0, True)


def test_what_an_earlier_action_left_keeps_nobody_out(project: Project):
    """The dev server lives on, the action that was in flight does not."""
    text = """\
    name: slow
    initial: serve
    scope: [src]
    states:
      serve: {action: "sleep 600 >/dev/null 2>&1 & echo $! > server", next: work}
      work: {action: "echo $$ > began.new; mv began.new began; exec sleep 600", next: done}
      done: {terminal: true}
    """
    with orphaned(project, text) as pid:
        server = int(project.file("server"))
        assert project.ll("run", "fast").returncode == 5
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "end of the action")
        assert project.ll("run", "fast").returncode == 0
        assert is_alive(server)


# ── out of sight ───────────────────────────────────────────────────────────────────────────────


def elsewhere(project: Project, **fields: Any) -> None:
    """As if the runner had been killed there."""
    path = project.running("slow", ".pid")
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{json.dumps({**json.loads(second), **fields})}\n")


OTHER_CONTAINER = {"host": "web-7", "namespace": "pid:[4026539999]"}


@pytest.mark.parametrize("verb", [["run", "fast"], ["run", "fast", "--queue"]])
def test_what_cannot_be_seen_keeps_others_out(project: Project, verb: list[str]):
    with orphaned(project):
        elsewhere(project, **OTHER_CONTAINER)
        said = project.ll(*verb)
        assert said.returncode == 5
        assert said.stderr == (
            "error: Cannot start 'fast' - loop 'slow' was killed on web-7, and this machine cannot see"
            " whether its action is still running there\n"
            "   = help: `ll-loop stop slow` stops it if you run it on that machine;"
            " `ll-loop stop slow --gone` frees its scope if you know that it has ended\n"
        )


CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def can_make_containers() -> bool:
    try:
        return (
            subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


@pytest.mark.skipif(not can_make_containers(), reason="this system lets nobody make namespaces")
def test_from_another_container_it_cannot_be_seen(project: Project):
    with orphaned(project) as pid:
        said = subprocess.run(
            [*CONTAINER, *project.argv("run", "fast")],
            cwd=project.root,
            env=project.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (said.returncode, is_alive(pid)) == (5, True)
        assert "whether its action is still running there" in said.stderr


@pytest.mark.parametrize("verb", [["resume", "slow"], ["run", "slow", "--fresh"]])
def test_nor_does_its_own_run_start(project: Project, verb: list[str]):
    with orphaned(project) as pid:
        elsewhere(project, **OTHER_CONTAINER)
        said = project.ll(*verb)
        assert (said.returncode, is_alive(pid)) == (5, True)
        assert said.stderr.startswith("error: Cannot start 'slow' - it was killed on web-7, and ")


def test_gone_frees_the_scope(project: Project):
    with orphaned(project):
        elsewhere(project, **OTHER_CONTAINER)
        assert project.ll("stop", "slow", "--gone").stdout.startswith("slow: its scope is free")
        assert project.ll("run", "fast").returncode == 0
        assert project.ll("stop", "slow", "--gone").stdout.startswith("slow holds no scope")


def test_gone_is_refused_for_a_run_that_is_alive(project: Project):
    project.loop("slow", SLOW)
    with project.started("run", "slow"):
        until((project.root / "began").exists, "action")
        said = project.ll("stop", "slow", "--gone")
        assert said.returncode == 2
        assert said.stderr == "error: `slow` is running\n   = help: `ll-loop stop slow` stops it\n"
    assert project.ll("stop", "--all", "--gone").returncode == 2


def test_a_run_killed_between_two_actions_keeps_nobody_out(project: Project):
    """Nothing was in flight, so nothing can be left, wherever it was."""
    text = SLOW.replace("exec sleep 600", "exit 1").replace(
        "next: done}", "on_fail: $current, retry: {backoff: 600, max_backoff: 600}, next: done}"
    )
    project.loop("slow", text)
    with project.started("run", "slow") as runner:
        until(lambda: project.has_event("slow", "retry_wait"), "wait")
        runner.kill()
        runner.wait()
    project.loop("fast", FAST)
    elsewhere(project, **OTHER_CONTAINER)
    assert project.ll("run", "fast").returncode == 0


HERE = this_process("n", (), "r", loop="n", started_at="")


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({}, "here"),
        ({"host": "renamed"}, "here"),
        ({"namespace": "pid:[1]"}, "elsewhere"),
        ({"namespace": "pid:[1]", "host": "web-7"}, "elsewhere"),
        ({"boot": "earlier"}, "gone"),
        ({"boot": "earlier", "namespace": "pid:[1]"}, "gone"),
        ({"boot": "another", "host": "web-7"}, "elsewhere"),
        ({"namespace": ""}, "here"),
        ({"namespace": "", "host": "web-7"}, "elsewhere"),
        ({"boot": "", "host": "", "namespace": ""}, "here"),
    ],
    ids=[
        "this machine",
        "its name was changed since",
        "another container of the same name",
        "another container",
        "rebooted since",
        "rebooted since, in a container",
        "another machine",
        "as an earlier version wrote it",
        "as an earlier version wrote it, another container",
        "a damaged file",
    ],
)
def test_where_a_killed_runner_was(fields: dict[str, Any], where: str):
    assert whereabouts(HERE._replace(**fields)) == where


# ── from inside an action ──────────────────────────────────────────────────────────────────────


def test_a_run_does_not_wait_for_the_action_that_starts_it(project: Project):
    command = "ll-loop run fast --background --queue > said 2>&1; echo $? >> said"
    project.loop(
        "slow", SLOW.replace("echo $$ > began.new; mv began.new began; exec sleep 600", command)
    )
    project.loop("fast", FAST)
    assert project.ll("run", "slow").returncode == 0
    said = project.file("said")
    assert said.endswith("; a run cannot wait for the action that starts it\n5\n"), said
    assert said.startswith("error: Cannot start 'fast' - loop 'slow' is running with overlapping")


def test_nor_for_one_that_waits_for_that_action(project: Project):
    """`third` is in the queue behind `slow`, and would come before `fast`."""
    command = (
        "touch began; while [ ! -e .loops/.running/.queue/000000000001 ]; do sleep 0.05; done;"
        " ll-loop run fast --background --queue > said 2>&1; echo $? >> said"
    )
    project.loop(
        "slow", SLOW.replace("echo $$ > began.new; mv began.new began; exec sleep 600", command)
    )
    project.loop("fast", FAST.replace("src/api", "docs"))
    project.loop("third", FAST.replace("src/api", ".").replace("fast", "third"))
    with project.started("run", "slow") as run:
        until((project.root / "began").exists, "action")
        with project.started("run", "third", "--queue") as third:
            assert run.wait(60) == 0
            assert third.wait(60) == 0
    said = project.file("said")
    assert said.endswith("; a run cannot wait for the action that starts it\n5\n"), said


def test_it_waits_for_others(project: Project):
    """In the background, on a scope of its own: whoever holds that will end."""
    command = "ll-loop run fast --background --queue > said 2>&1; echo $? >> said"
    project.loop(
        "outer",
        SLOW.replace("slow", "outer").replace(
            "echo $$ > began.new; mv began.new began; exec sleep 600", command
        ),
    )
    project.loop(
        "slow",
        SLOW.replace("[src]", "[docs]").replace(
            "exec sleep 600", "while [ ! -e go ]; do sleep 0.05; done"
        ),
    )
    project.loop("fast", FAST.replace("src/api", "docs"))
    with project.started("run", "slow") as slow:
        until((project.root / "began").exists, "action")
        with project.started("run", "outer") as outer:
            until(lambda: "Waiting for 'slow'" in project.file("said"), "queue")
            (project.root / "go").touch()
            assert (slow.wait(60), outer.wait(60)) == (0, 0)
    assert project.file("said").endswith("\n0\n")
    until((project.root / "ran").exists, "run")


# ── readers ────────────────────────────────────────────────────────────────────────────────────


def test_calling_itself_a_reader_saves_nothing_from_the_end_of_a_run(project: Project):
    action = "LL_DRAIN=1 setsid sleep 600 >/dev/null 2>&1 & echo $! > left"
    project.loop(
        "slow", SLOW.replace("echo $$ > began.new; mv began.new began; exec sleep 600", action)
    )
    assert project.ll("run", "slow").returncode == 0
    assert not is_alive(int(project.file("left")))
