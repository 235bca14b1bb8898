"""Hooks in real runs: what they get, how they end, and what a kill or a stop leaves of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project, until

LOOP = """\
name: work
initial: check
env: {LEVEL: "3", COUNT: "${captured.check.exit_code:-none}"}
context: {dir: src}
states:
  check: {action: "test -e ok", on_pass: done, on_fail: fix}
  fix: {action: "touch ok; echo fixed >> acts", next: check}
  done: {terminal: true}
hooks:
"""


def lines(project: Project, name: str) -> list[str]:
    path = project.root / name
    return path.read_text().splitlines() if path.exists() else []


def told(project: Project, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(project, name)]


def test_a_hook_gets_its_event_and_the_environment_of_actions(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      before_run: 'echo "$LL_HOOK $LL_LOOP $LEVEL $COUNT ${LL_RESUMED-new}" >> env; cat >> said'
      after_state: {action: 'echo "$LL_HOOK $COUNT $MORE" >> env; cat >> said', env: {MORE: own}}
    """,
    )
    done = project.ll("run", "work")
    assert done.returncode == 0, done.stderr
    assert lines(project, "env") == [
        "before_run work 3 none new",
        "after_state 1 own",
        "after_state 1 own",
        "after_state 0 own",
    ]
    first, *rest = told(project, "said")
    assert (first["event"], first["state"], first["resumed"]) == ("before_run", "check", False)
    assert first["context"] == {"dir": "src"}
    assert [(each["state"], each["verdict"]) for each in rest] == [
        ("check", "fail"),
        ("fix", "pass"),
        ("check", "pass"),
    ]


@pytest.mark.parametrize(
    ("hook", "line"),
    [
        pytest.param("echo one; echo two >&2; exit 3", "exit 3: two", id="a code"),
        pytest.param("kill -9 $$", "ended by SIGKILL", id="a signal"),
        pytest.param("{action: sleep 600, timeout: 0.2}", "took longer than 0.2s", id="its time"),
        pytest.param("printf '\\033[31mred\\033[0m\\n'; exit 1", "exit 1: red", id="colours"),
    ],
)
def test_a_run_without_its_first_hook_does_not_start(project: Project, hook, line):
    text = hook if hook.startswith("{") else json.dumps(hook)
    project.loop("work", LOOP + f"  before_run: {text}\n")
    done = project.ll("run", "work")
    assert (done.returncode, lines(project, "acts")) == (1, [])
    assert done.stdout.splitlines() == [
        f"       ✗ hook before_run: {line}",
        "",
        f"Loop failed in state 'check': hook before_run: {line} (1 iteration, {_took(done)})",
    ]


def _took(done: Any) -> str:
    return str(done.stdout.rstrip().rpartition(", ")[2].rstrip(")"))


def test_a_secret_that_a_hook_prints_is_masked(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      after_run: {action: 'echo "$API_TOKEN" >&2; exit 1', env: {API_TOKEN: hidden-value-1}}
    """,
    )
    project.ll("run", "work")
    everything = [path for path in (project.root / ".loops").rglob("*") if path.is_file()]
    logs = [path for path in everything if path.suffix in (".jsonl", ".log", ".json")]
    found = [path.name for path in logs if "hidden-value-1" in _without_definition(path)]
    assert found == []


def _without_definition(path: Path) -> str:
    return "" if path.name == "run.json" else path.read_text(errors="replace")


def test_a_killed_hook_runs_again_and_the_run_goes_on(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      before_state:
        action: 'echo "$LL_EVENT_ID" >> ids; test -e again || { touch began; exec sleep 600; }'
        states: [fix]
    """,
    )
    with project.started("run", "work") as runner:
        until((project.root / "began").exists, "hook")
        runner.kill()
        runner.wait()
    (project.root / "again").touch()
    done = project.ll("resume", "work")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = lines(project, "ids")
    assert first == second
    assert lines(project, "acts") == ["fixed"]
    assert _sleepers(project) == []


def _sleepers(project: Project) -> list[str]:
    """The processes that work in the project."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(each).startswith(str(project.root)):
                found.append(each.parent.name)
        except OSError:
            continue
    return found


def test_a_stop_ends_a_hook_and_runs_the_one_after_the_run(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      before_state: {action: 'touch began; exec sleep 600', timeout: 1h}
      after_run: 'cat >> said'
    """,
    )
    with project.started("run", "work") as runner:
        until((project.root / "began").exists, "hook")
        runner.send_signal(signal.SIGINT)
        assert runner.wait(60) == 128 + signal.SIGINT
    assert [each["status"] for each in told(project, "said")] == ["interrupted"]
    assert _sleepers(project) == []


def test_a_second_stop_ends_the_hook_after_the_run(project: Project):
    project.loop(
        "work",
        """\
      name: work
      initial: wait
      states:
        wait: {action: 'touch began; exec sleep 600', next: done}
        done: {terminal: true}
      hooks: {after_run: {action: 'touch closing; exec sleep 600', timeout: 1h}}
    """,
    )
    with project.started("run", "work") as runner:
        until((project.root / "began").exists, "action")
        runner.send_signal(signal.SIGINT)
        until((project.root / "closing").exists, "hook")
        runner.send_signal(signal.SIGINT)
        assert runner.wait(60) == 128 + signal.SIGINT
    assert _sleepers(project) == []


def test_what_a_hook_starts_lives_until_the_run_ends(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      before_run: 'sleep 600 & echo $! > server'
      after_state: 'kill -0 "$(cat server)" && echo up >> server_log'
    """,
    )
    done = project.ll("run", "work")
    assert done.returncode == 0
    assert lines(project, "server_log") == ["up"] * 3
    assert "ended processes that the actions had left running: sleep" in done.stderr
    assert _sleepers(project) == []


# ── hooks for events ───────────────────────────────────────────────────────────────────────────


def test_each_event_is_passed_on_in_order_and_the_last_one_too(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      events:
        transition: 'cat >> seen'
        loop_complete: {action: 'cat >> seen; echo "$LL_EVENT_ID $KIND" >> env', env: {KIND: last}}
    """,
    )
    done = project.ll("run", "work")
    assert done.returncode == 0
    seen = told(project, "seen")
    assert [each["event"] for each in seen] == ["transition"] * 3 + ["loop_complete"]
    assert [each.get("to") for each in seen] == ["fix", "check", "done", None]
    assert lines(project, "env") == [f"{seen[-1]['run']}/{seen[-1]['seq']} last"]


def test_a_hook_for_an_event_holds_up_nothing_and_its_failure_is_a_warning(project: Project):
    """The hook ends only after the whole run has passed by."""
    project.loop(
        "work",
        LOOP
        + """\
      after_run: 'touch over'
      events:
        state_enter: 'while [ ! -e over ]; do sleep 0.02; done; echo "$LL_HOOK" >> seen; exit 2'
    """,
    )
    done = project.ll("run", "work")
    assert done.returncode == 0
    assert lines(project, "seen") == ["state_enter"] * 4
    assert done.stderr.splitlines() == ["warning: hook for state_enter: exit 2"] * 4


def test_a_hook_that_never_ends_is_ended_with_the_run(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      events:
        loop_start: {action: 'exec sleep 600', timeout: 1h}
        loop_complete: 'touch never'
    """,
    )
    done = project.ll("run", "work")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "warning: hook for loop_start: did not end in time",
        "warning: 1 hook was still waiting to run and did not run",
    ]
    assert not (project.root / "never").exists()
    assert _sleepers(project) == []


def test_a_hook_for_an_event_has_its_own_time(project: Project):
    project.loop(
        "work",
        LOOP
        + """\
      events:
        loop_start: {action: 'exec sleep 600', timeout: 0.1}
        loop_complete: 'touch last'
    """,
    )
    done = project.ll("run", "work")
    assert done.stderr.splitlines() == ["warning: hook for loop_start: took longer than 0.1s"]
    assert (project.root / "last").exists()


def test_a_test_of_the_loop_runs_none(project: Project):
    project.loop("work", LOOP + "  before_run: touch ran\n  events: {loop_start: touch ran}\n")
    (project.root / ".loops" / "tests").mkdir()
    (project.root / ".loops" / "tests" / "work.test.yaml").write_text(
        "loop: work\ntests:\n  - {name: one, given: {check: 0}, expect: {status: completed}}\n"
    )
    done = project.ll("test")
    assert done.returncode == 0, done.stdout
    assert not (project.root / "ran").exists()
