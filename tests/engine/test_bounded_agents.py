"""Real runs with an agent that never gets anywhere: how many processes are started, and who pays.

The agent is a program called `claude`.  It notes each start, and what it says in its n-th turn is
written down beforehand; as a session it types `resume` as often as it is told to.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psutil
import pytest

from tests.fsm.test_laws import never_twice
from tests.project import Project, until

AGENT = """\
#!/bin/sh
prompt=$(cat)
case $prompt in
"Continue loop execution."*)  # in the project all the time: `is_quiet` looks there
    echo session >> {home}/started
    for n in {resumes}; do ll-loop resume port --background; done
    exit 0 ;;
esac
cd {home}
echo turn >> started
turn=$(grep -c turn started)
[ -e says.$turn ] || turn=last
. ./says.$turn
"""
PORT = """\
name: port
initial: work
host: {permission_mode: plan, max_wait: 4}
states:
  work: {action: "/port it", next: done}
  done: {terminal: true}
"""
HANDS_OFF = "echo 'CONTEXT_HANDOFF: cli.py is left'\n"
INIT = {"type": "system", "subtype": "init", "session_id": "s", "slash_commands": ["port"]}


def says(*events: dict[str, Any]) -> str:
    """A turn that prints these events."""
    lines = [json.dumps(event) for event in (INIT, *events)]
    return "".join(f"printf '%s\\n' {shlex.quote(line)}\n" for line in lines)


def used(tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 0}
    message = {"id": "m", "role": "assistant", "content": [], "usage": usage}
    return {"type": "assistant", "message": message, "session_id": "s"}


def result(**fields: Any) -> dict[str, Any]:
    plain = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    return {**plain, "result": "ported", "session_id": "s", **fields}


def limited() -> str:
    """A usage limit that ends this very second."""
    told = {"status": "rejected", "resetsAt": 111}
    event = {"type": "rate_limit_event", "rate_limit_info": told}
    refused = result(is_error=True, api_error_status=429, result="You've hit your limit")
    return says(event, refused).replace("111", "'\"$(date +%s)\"'")


def stage(
    project: Project, turns: Sequence[str], *, resumes: int = 0, **loop: Any
) -> dict[str, str]:
    """A project with such an agent; the environment to run it in."""
    (project.home / "bin").mkdir()
    program = project.home / "bin" / "claude"
    numbers = " ".join(map(str, range(resumes)))
    program.write_text(AGENT.format(home=project.home, resumes=numbers))
    program.chmod(0o755)
    for number, turn in enumerate(turns, 1):
        (project.home / f"says.{number}").write_text(turn)
    (project.home / "says.last").write_text(turns[-1])
    fields = "".join(f"{name}: {json.dumps(value)}\n" for name, value in loop.items())
    project.loop("port", PORT + fields)
    return {"PATH": f"{project.home / 'bin'}:{project.environ()['PATH']}"}


def started(project: Project) -> Counter[str]:
    path = project.home / "started"
    return Counter(path.read_text().split() if path.exists() else ())


def is_quiet(project: Project) -> bool:
    """No run, no agent and no session works in the project any more."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.cwd() == str(project.root):
                return False
        except psutil.Error:
            continue
    return True


def told(project: Project, kind: str) -> list[dict[str, Any]]:
    return [event for event in project.events("port") if event["event"] == kind]


# ── sessions ───────────────────────────────────────────────────────────────────────────────────


def test_spawned_sessions_come_to_rest(project):
    """Each session types `resume` three times; all that they can start was counted before."""
    loop: dict[str, Any] = {"on_handoff": "spawn", "max_continuations": 2}
    env = stage(project, [HANDS_OFF], resumes=3, **loop)
    assert project.ll("run", "port", env=env).returncode == 4
    until(lambda: started(project)["session"] >= 2 and is_quiet(project), "end of all sessions")
    assert started(project)["session"] == 2
    state = project.state("port")
    assert (state["status"], state.get("wait")) == ("awaiting_continuation", None)
    resumes, starts = told(project, "resume"), told(project, "action_start")
    assert len(starts) == 1 + len(resumes)
    assert [event["cost_usd"] for event in told(project, "cost")] == [0.25, 0.25]


def test_a_resume_by_hand_runs_the_action(project):
    loop: dict[str, Any] = {"on_handoff": "spawn", "max_continuations": 2}
    env = stage(project, [HANDS_OFF, HANDS_OFF, says(result())], **loop)
    assert project.ll("run", "port", env=env).returncode == 4
    assert project.ll("resume", "port", env=env).returncode == 4
    until(lambda: is_quiet(project), "end of all sessions")
    assert project.ll("resume", "port", env=env).returncode == 0
    assert started(project) == {"turn": 3, "session": 2}


def test_a_session_that_has_resumed_is_not_said_to_have_ended_without(project):
    """The run it resumed handed off again, and there is no session for that any more."""
    loop = {"on_handoff": "spawn", "max_continuations": 1}
    env = stage(project, [HANDS_OFF], resumes=1, **loop)
    assert project.ll("run", "port", env=env).returncode == 4
    until(lambda: is_quiet(project), "end of all sessions")
    assert len(told(project, "resume")) == 1
    assert "session" not in project.ll("status", "port", env=env).stdout
    assert json.loads(project.ll("status", "port", "--json", env=env).stdout)["spawn"] is None


def test_a_session_may_spend_no_more_than_is_counted_for_it(project):
    env = stage(project, [HANDS_OFF], on_handoff="spawn")
    program = project.home / "bin" / "claude"
    program.write_text(
        program.read_text().replace("prompt=", f"echo $* >> {project.home}/argv\nprompt=")
    )
    assert project.ll("run", "port", env=env).returncode == 4
    until(lambda: is_quiet(project), "end of the session")
    assert "--max-budget-usd=0.250000" in (project.home / "argv").read_text().splitlines()[-1]


# ── usage limits ───────────────────────────────────────────────────────────────────────────────


def test_handoffs_and_usage_limits_in_turn_come_to_rest(project):
    turns = [HANDS_OFF, limited(), HANDS_OFF, limited(), HANDS_OFF, "exit 9\n"]
    env = stage(project, turns, on_handoff="continue", max_continuations=2)
    said = project.ll("run", "port", env=env)
    assert (said.returncode, started(project)) == (4, {"turn": 5})
    assert "more than 2 handoffs in a row in `work`" in said.stdout


def test_a_limit_whose_reset_has_just_passed_is_waited_for(project):
    env = stage(project, [limited()])
    said = project.ll("run", "port", env=env)
    assert (said.returncode, started(project)) == (1, {"turn": 3})
    assert "longer than `max_wait`" in said.stdout
    waits = [event["wait_ms"] for event in told(project, "host_wait")]
    assert (min(waits), len(waits)) == (1000, 2)
    assert waits[1] >= 2000


# ── money ──────────────────────────────────────────────────────────────────────────────────────


def test_turns_that_are_cut_are_paid_for(project):
    silent = says(used(30_000)) + "sleep 60\n"
    env = stage(project, [silent], max_cost_usd=0.05)
    text = project.loop("port", "").parent / "port.yaml"
    text.write_text(
        PORT.replace("next: done}", "timeout: 1s, on_timeout: work, next: done}")
        + "max_cost_usd: 0.05\n"
    )
    said = project.ll("run", "port", env=env)
    assert (said.returncode, started(project)) == (3, {"turn": 1})
    assert "agents have used $0.05 of $0.05, $0.05 of it estimated" in said.stdout
    (cost,) = told(project, "cost")
    assert (cost["tokens"], cost["estimated"]) == (30_000, True)


def test_a_turn_that_is_lost_with_its_runner_is_paid_for(project):
    env = stage(project, [says(used(20_000)) + "echo >> told; sleep 60\n", says(result())])
    with project.started("run", "port", env=env) as child:
        until((project.home / "told").exists, "turn under way")
        until(lambda: "20000" in kept_stream(project), "stream on the disk")
        child.kill()
        child.wait()
        assert project.ll("resume", "port", env=env).returncode == 0
    (cost,) = told(project, "cost")
    assert (cost["tokens"], cost["estimated"]) == (20_000, True)
    assert cost["cost_usd"] == pytest.approx(0.06)


def kept_stream(project: Project) -> str:
    stream = project.running("port", ".d") / "live.out"
    return stream.read_text() if stream.exists() else ""


def test_a_resume_beyond_the_budget_where_nothing_costs_ends_in_words(project):
    spent = says(result(total_cost_usd=0.4, usage={"input_tokens": 9, "output_tokens": 1}))
    env = stage(project, [spent])
    project.loop(
        "port",
        PORT.replace("next: done}", "next: decide}").replace(
            "  done:",
            "  decide: {condition: {type: output_json, source: work, path: .x, target: 1},"
            " on_pass: done, on_fail: work}\n  done:",
        )
        + "max_cost_usd: 0.3\n",
    )
    assert project.ll("run", "port", env=env).returncode == 1
    for _ in range(2):
        said = project.ll("resume", "port", env=env)
        assert (said.returncode, "Traceback" in said.stderr) == (1, False)
        assert "Loop failed in state 'decide'" in said.stdout


# ── after a kill ───────────────────────────────────────────────────────────────────────────────


def test_an_action_that_was_killed_has_an_end_before_another_state_begins(project):
    project.loop(
        "two",
        """\
        name: two
        initial: a
        states:
          a: {action: "touch began; sleep 60", next: b}
          b: {action: "true", next: done}
          done: {terminal: true}
        """,
    )
    with project.started("run", "two") as child:
        until((project.root / "began").exists, "action under way")
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert project.ll("resume", "two", "--from", "b").returncode == 0
    log = project.events("two")
    assert never_twice(log)
    assert [event["cause"] for event in log if event["event"] == "action_interrupted"] == ["crash"]


# ── the last check ─────────────────────────────────────────────────────────────────────────────


def test_what_the_only_iteration_did_is_judged(project):
    project.loop("up", "paradigm: goal\ngoal: Up\nname: up\ntools: [test -e fixed, touch fixed]\n")
    said = project.ll("run", "up", "--no-loop")
    assert said.returncode == 0
    shown = [line for line in said.stdout.splitlines() if line.startswith("[")]
    assert shown == [
        "[1/1] evaluate → running test -e fixed...",
        "[1/1] fix → running touch fixed...",
        "[1/1] evaluate → running test -e fixed...",
    ]
    assert said.stdout.splitlines()[-1].startswith("Loop completed: done (1 iteration, ")


def test_what_did_not_work_is_tried_again_by_a_resume(project):
    project.loop(
        "up", "paradigm: goal\ngoal: Up\nname: up\ntools: [test -e fixed, echo >> tried]\n"
    )
    assert project.ll("run", "up", "--no-loop").returncode == 3
    assert project.file("tried").count("\n") == 1
    (project.root / "fixed").touch()
    assert project.ll("resume", "up").returncode == 3
    assert project.ll("resume", "up", "--max-iterations", "2").returncode == 0
    assert project.file("tried").count("\n") == 2


def test_the_mark_of_a_check_is_no_change_of_a_loop(project):
    text = project.loop(
        "up",
        """\
        name: up
        initial: check
        states:
          check: {action: "test -e fixed", on_pass: done, on_fail: fix}
          fix: {action: "exit 9", next: check}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "up").returncode == 1
    text.write_text(text.read_text().replace("on_fail: fix}", "on_fail: fix, check: true}"))
    assert project.ll("resume", "up").returncode == 1


# ── bounds ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", ["run", "resume"])
@pytest.mark.parametrize(
    ("time", "why"),
    [
        ("1e308", "is longer than ten years"),
        ("1e308d", "is longer than ten years"),
        ("inf", "is longer than ten years"),
        ("nan", "must be more than 0"),
        ("0", "must be more than 0"),
        ("-1", "must be more than 0"),
    ],
)
def test_a_time_that_is_none(project, verb, time, why):
    project.loop("up", "paradigm: goal\ngoal: Up\nname: up\ntools: ['true']\n")
    said = project.ll(verb, "up", f"--timeout={time}")
    assert (said.returncode, why in said.stderr) == (2, True)


def test_a_cycle_takes_a_second_at_least(project):
    project.loop(
        "up",
        "paradigm: goal\ngoal: Up\nname: up\ntools: ['true']\nmaintain: true\nmaintain_interval: 0.1\n",
    )
    said = project.ll("run", "up")
    assert said.returncode == 2
    assert "`maintain_interval` must be at least 1, not `0.1`" in said.stderr
