"""Every way a turn can end, from what the program prints to the state the run goes to.

A program called `claude` plays a recorded stream; the loop around it has a place for each verdict.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import NamedTuple, get_args

import pytest

from little_loops.hosts.base import Kind
from tests.hosts.recorded import STREAMS, endings
from tests.project import Project, until

AGENT = """\
#!{python}
import os, sys, time
with open({called!r}, "a") as called:
    called.write("x")
sys.stdin.read()
sys.stdout.buffer.write(open({stream!r}, "rb").read())
sys.stdout.flush()
sys.stderr.write({stderr!r})
if {hangs!r}:
    time.sleep(60)
if {signal!r}:
    os.kill(os.getpid(), {signal!r})
sys.exit({exit_code!r})
"""
ENDS = """\
  passed: {terminal: true, outcome: success}
  failed: {terminal: true, outcome: failure}
  wrong: {terminal: true, outcome: failure}
  late: {terminal: true, outcome: failure}
"""
BRANCHES = "on_pass: passed, on_fail: failed, on_error: wrong, on_timeout: late"
ALONE = "next: passed, on_error: wrong, on_timeout: late"


class Row(NamedTuple):
    """A recorded ending, and where it leads if a verdict was asked for, and if not.

    A state's name is where the run went; anything else is the reason for which it ended.
    """

    scene: str
    asked: str
    alone: str
    timeout_s: int | None = None
    """The agent hangs, and is ended after this time."""


ROWS: dict[Kind, Row] = {
    "timed_out": Row("success", "late", "late", timeout_s=1),
    "not_started": Row("bad_flag", "wrong", "wrong"),
    "unknown_command": Row("unknown_command", "wrong", "wrong"),
    "command_failed": Row("command_failed", "wrong", "wrong"),
    "auth": Row("403", "auth", "auth"),
    "billing": Row("credit_too_low", "billing", "billing"),
    "rate_limited": Row("429", "wrong", "wrong"),  # longer than `max_wait`
    "overloaded": Row("529", "wrong", "wrong"),
    "context_exhausted": Row("context_full", "handoff", "handoff"),
    "limit_reached": Row("max_turns", "failed", "wrong"),
    "cost_limit_reached": Row("max_budget", "failed", "passed"),
    "refused": Row("refusal", "failed", "wrong"),
    "bad_output": Row("schema_never_met", "failed", "wrong"),
    "permission_denied": Row("permission_denied", "failed", "wrong"),
    "truncated": Row("kill", "wrong", "wrong"),
    "no_verdict": Row("no_verdict", "wrong", "passed"),
    "failed": Row("hook_stops", "failed", "wrong"),
    "success": Row("verdict_line", "passed", "passed"),
}
"""All but `cancelled`, which has a test of its own."""


def play(project: Project, scene: str, transitions: str, timeout_s: int | None = None) -> None:
    """A project whose agent ends like this, and a loop with these ways."""
    ending = endings("claude")[scene]
    stream = STREAMS / "claude" / f"{scene}.jsonl"
    played = {
        "python": sys.executable,
        "called": str(project.home / "called"),
        "stream": str(stream),
        "hangs": timeout_s is not None,
        **{name: ending[name] for name in ("stderr", "signal", "exit_code")},
    }
    (project.home / "bin").mkdir()
    program = project.home / "bin" / "claude"
    program.write_text(AGENT.format(**played))
    program.chmod(0o755)
    options = json.dumps({"permission_mode": "plan", "max_wait": "1s"})
    action = f"action: {ending['action']}, action_type: {ending['kind']}"
    timeout = f", timeout: {timeout_s}s" if timeout_s else ""
    states = f"  ask: {{{action}, {transitions}{timeout}}}\n{ENDS}"
    project.loop("asks", f"name: asks\ninitial: ask\nhost: {options}\nstates:\n{states}")


def environ(project: Project) -> dict[str, str]:
    return {"PATH": f"{project.home / 'bin'}:{project.environ()['PATH']}"}


def where_it_led(project: Project) -> str:
    last = project.events("asks")[-1]
    return str(last["final_state"] if last["reason"] == "terminal" else last["reason"])


@pytest.mark.parametrize(
    "transitions", [pytest.param(BRANCHES, id="asked"), pytest.param(ALONE, id="alone")]
)
@pytest.mark.parametrize("kind", ROWS)
def test_where_it_leads(project: Project, kind: Kind, transitions: str):
    row = ROWS[kind]
    play(project, row.scene, transitions, row.timeout_s)
    project.ll("run", "asks", env=environ(project))
    [ended] = [each for each in project.events("asks") if each["event"] == "action_complete"]
    asked = transitions == BRANCHES
    expected = "success" if kind == "no_verdict" and not asked else kind
    assert ended["kind"] == expected, ended
    assert where_it_led(project) == (row.asked if asked else row.alone)


@pytest.mark.parametrize(
    ("scene", "led"),
    [
        pytest.param("verdict", "failed", id="its own fail"),
        pytest.param("verdict_after_a_nudge", "handoff", id="a signal line beats its pass"),
        pytest.param("401_many_retries", "auth", id="no minutes of silent retries"),
    ],
)
def test_what_the_agent_says(project: Project, scene: str, led: str):
    play(project, scene, BRANCHES)
    project.ll("run", "asks", env=environ(project))
    assert where_it_led(project) == led


def test_every_kind_has_a_row():
    assert {*ROWS, "cancelled"} == set(get_args(Kind))


def test_cancelled_is_interrupted_and_can_be_resumed(project: Project):
    play(project, "success", BRANCHES, timeout_s=60)
    called = project.home / "called"
    with project.started("run", "asks", env=environ(project)) as running:
        until(called.exists, "call of the agent")
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 128 + signal.SIGINT
    assert (project.state("asks")["status"], where_it_led(project)) == ("interrupted", "signal")


def test_a_reset_that_has_passed_is_no_reason_to_ask_again_at_once(project: Project):
    """The recorded limit ended long ago: what is left is waiting longer and longer."""
    play(project, "429_subscription", ALONE)
    project.ll("run", "asks", env=environ(project))
    assert (project.home / "called").read_text() == "x"
    assert where_it_led(project) == "wrong"
