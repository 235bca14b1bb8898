"""Loops whose agents are real: the programs, their tools and the files they change.

Only the model is a script.  Each test is one promise about what a run makes of an agent.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import Any

import pytest

from little_loops.fsm.timestamps import wall_ms_of
from tests.live.agents import KEY, USE_NEWEST, Stage
from tests.live.fake_model import Answer, Call, Fail, Rule, Say
from tests.live.scenes import bash, big
from tests.project import until

ONE_TURN = """
    name: loop
    initial: work
    host: {{permission_mode: {mode}}}
    states:
      work: {{action: {action}, action_type: {kind}, on_pass: done, on_fail: not_done}}
      done: {{terminal: true}}
      not_done: {{terminal: true, outcome: failure}}
    """
TO_THE_END = """
    name: loop
    initial: work
    on_handoff: {on_handoff}
    host: {{permission_mode: acceptEdits}}
    states:
      work: {{action: write the file, action_type: prompt, next: check}}
      check: {{action: test -s result.txt, on_pass: done, on_fail: work}}
      done: {{terminal: true}}
    """
HANDED_OVER = "An earlier session handed this task over to you"


def to_the_end(on_handoff: str) -> str:
    return TO_THE_END.format(on_handoff=on_handoff)


def one_turn(action: str = "go", *, kind: str = "prompt", mode: str = "acceptEdits") -> str:
    return ONE_TURN.format(action=json.dumps(action), kind=kind, mode=mode)


def write(stage: Stage, text: str = "done\n") -> Call:
    path = str(stage.root / "result.txt")
    return Call("Write", {"file_path": path, "content": text})


def last(stage: Stage) -> dict[str, Any]:
    """How the run ended, without what differs each time."""
    event = stage.events("loop")[-1]
    return {name: event[name] for name in ("event", "status", "reason", "final_state")}


def completed(stage: Stage, state: str = "work") -> dict[str, Any]:
    """The last end of a state's action."""
    ends = [e for e in stage.events("loop") if e["event"] == "action_complete"]
    return next(event for event in reversed(ends) if event["state"] == state)


def sessions(stage: Stage) -> list[str]:
    return [
        e["session_id"]
        for e in stage.events("loop")
        if "session_id" in e and e["event"] == "action_start"
    ]


DONE = {
    "event": "loop_complete",
    "status": "completed",
    "reason": "terminal",
    "final_state": "done",
}
ENDED_BY_THE_LOGIN = {
    "event": "loop_error",
    "status": "failed",
    "reason": "auth",
    "final_state": "work",
}


# What an agent does, and what is made of it


def test_an_agent_edits_a_file_until_the_check_passes(stage: Stage):
    stage.write("app.py", "x = 0\n")
    stage.loop(
        "loop",
        """
        name: loop
        initial: check
        host: {permission_mode: acceptEdits}
        states:
          check: {action: "grep -qx 'x = 1' app.py", on_pass: done, on_fail: fix}
          fix: {action: make x one, action_type: prompt, next: check}
          done: {terminal: true}
        """,
    )
    path = str(stage.root / "app.py")
    edit = {"file_path": path, "old_string": "x = 0", "new_string": "x = 1"}
    stage.play(
        Rule("make x one", Call("Read", {"file_path": path}), Call("Edit", edit), Say("It is one."))
    )

    ran = stage.ll("run", "loop")

    assert re.sub(r"\d+\.\ds", "…", ran.stdout.strip()) == "\n".join(
        [
            "[1/50] check → running grep -qx 'x = 1' app.py...",
            "       ✗ (exit 1)",
            "       → fix (on_fail)",
            '[1/50] fix → running "make x one"...',
            "       ✓ It is one.",
            "       agent: 3 turns, 360 tokens, less than $0.01",
            "       → check",
            "[2/50] check → running grep -qx 'x = 1' app.py...",
            "       ✓ (exit 0)",
            "       → done (on_pass)",
            "",
            "Loop completed: done (2 iterations, …, less than $0.01)",
            "Files changed (as reported by the agents): app.py",
        ]
    )
    assert (ran.returncode, stage.file("app.py")) == (0, "x = 1\n")
    assert completed(stage, "fix")["turns"] == 3


def test_an_unknown_command_is_an_error_that_names_those_there_are(stage: Stage):
    stage.write(".claude/commands/tidy.md", "---\ndescription: tidy\n---\ntidy up\n")
    stage.loop("loop", one_turn("/tidi src", kind="slash"))
    model = stage.play()

    assert stage.ll("run", "loop").returncode == 1
    assert "unknown slash command `/tidi`; known: `/tidy`" in completed(stage)["reason"]
    assert last(stage)["reason"] == "error"
    # Newer versions send it to the model as text; the run must not complete all the same.
    assert model.asked == [] or USE_NEWEST


@pytest.mark.parametrize("word", ["pass", "fail"])
def test_a_command_of_the_plugin_gives_a_verdict_that_picks_the_way(stage: Stage, word: str):
    stage.loop("loop", one_turn("/ll:check_code types", kind="slash"))
    stage.play(Rule("Check the code: types", Answer({"verdict": word, "reason": "mypy said so"})))

    ran = stage.ll("run", "loop")

    ends = {"pass": (0, "done"), "fail": (1, "not_done")}
    assert (ran.returncode, last(stage)["final_state"]) == ends[word]
    assert completed(stage)["structured"] == {"verdict": word, "reason": "mypy said so"}


def test_an_agent_that_gives_no_verdict_is_an_error(stage: Stage):
    stage.loop("loop", one_turn())
    stage.play(Rule("go", Say("Looks good to me.")))
    assert stage.ll("run", "loop").returncode == 1
    assert last(stage)["reason"] == "error"
    assert "gave no verdict" in stage.events("loop")[-1]["error"]


def test_a_denied_tool_is_a_fail_that_names_it(stage: Stage):
    stage.loop("loop", one_turn(mode="dontAsk"))
    good = Answer({"verdict": "pass", "reason": "as far as I can tell"})
    stage.play(Rule("go", bash("touch a.txt"), good))

    ran = stage.ll("run", "loop")

    assert (ran.returncode, last(stage)["final_state"]) == (1, "not_done")
    assert completed(stage)["reason"] == "the agent was not allowed to use `Bash(touch a.txt)`"
    assert not (stage.root / "a.txt").exists()


def test_without_consent_no_agent_skips_permissions(stage: Stage):
    stage.loop("loop", one_turn().replace("permission_mode: acceptEdits", "name: claude"))
    model = stage.play(Rule("go", bash("touch a.txt"), Answer({"verdict": "pass", "reason": "-"})))

    refused = stage.ll("run", "loop")
    assert (refused.returncode, model.asked) == (2, [])
    assert "--allow-skip-permissions" in refused.stderr

    assert stage.ll("run", "loop", "--allow-skip-permissions").returncode == 0
    assert (stage.root / "a.txt").exists()


def test_a_key_that_an_agent_tells_is_not_told_on(stage: Stage):
    stage.loop("loop", one_turn())
    told = Answer({"verdict": "pass", "reason": "I have it"}, f"The key is {KEY}.")
    stage.play(Rule("go", told))

    ran = stage.ll("run", "loop", "-v")

    assert (ran.returncode, last(stage)) == (0, DONE), ran.stdout + ran.stderr
    assert KEY not in ran.stdout + ran.stderr
    assert KEY not in stage.past("loop", ".log").read_text()
    assert KEY not in stage.past("loop", ".events.jsonl").read_text()


# Trouble with the service


@pytest.mark.parametrize("retries", ["", "10"], ids=["our retries", "the user's ten retries"])
def test_a_refused_login_ends_the_run_at_once(stage: Stage, retries: str):
    stage.loop("loop", one_turn().replace("on_fail: not_done", "next: done, on_error: done"))
    model = stage.play(Rule("go", Fail(401, "authentication_error", "invalid x-api-key")))

    ran = stage.ll("run", "loop", env={"CLAUDE_CODE_MAX_RETRIES": retries} if retries else {})

    assert (ran.returncode, last(stage)) == (1, ENDED_BY_THE_LOGIN)
    assert len(model.asked) <= 4


def test_a_rate_limit_is_waited_for_until_its_reset(stage: Stage):
    stage.loop("loop", one_turn())
    headers = {
        "x-should-retry": "false",
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + 3),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    reset_ms = int(headers["anthropic-ratelimit-unified-reset"]) * 1000
    limited = Fail(429, "rate_limit_error", "slow down", headers, times=1)
    stage.play(Rule("go", limited, Answer({"verdict": "pass", "reason": "-"})))

    ran = stage.ll(
        "run", "loop", env={"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "not-a-token"}
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    kinds = [e["event"] for e in stage.events("loop")]
    assert (kinds.count("host_wait"), kinds.count("iteration")) == (1, 0)
    wait = next(e for e in stage.events("loop") if e["event"] == "host_wait")
    # A reset that is almost here is waited for at least a second.
    assert reset_ms <= wait["until_wall_ms"] <= max(reset_ms, wall_ms_of(wait["ts"]) + 1000)


# Handoff


def note(stage: Stage, text: str) -> Call:
    """Leave a word for the next session, where a session is told to leave it."""
    path = stage.running("loop", ".d") / "continue.md"
    return Call("Write", {"file_path": str(path), "content": text})


def test_a_full_context_is_a_handoff_that_goes_on_in_a_fresh_session(stage: Stage):
    stage.loop("loop", to_the_end("continue"))
    stage.play(
        Rule(HANDED_OVER, write(stage), Say("Written.")),
        Rule("write the file", big(note(stage, "it is not written\n"), 199_000), Say("never said")),
    )
    full = {"DISABLE_AUTO_COMPACT": "1", "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}

    ran = stage.ll("run", "loop", env=full)

    assert (ran.returncode, last(stage)) == (0, DONE), ran.stdout + ran.stderr
    assert stage.has_event("loop", "handoff_detected", continuation="it is not written")
    assert len(sessions(stage)) == len(set(sessions(stage))) == 2


def test_a_handoff_pauses_and_a_resume_goes_on(stage: Stage):
    stage.loop("loop", to_the_end("pause"))
    stage.play(
        Rule(HANDED_OVER, write(stage), Say("Written.")),
        Rule("write the file", Say("I am tired.\nCONTEXT_HANDOFF: write result.txt")),
    )

    paused = stage.ll("run", "loop")
    assert paused.returncode == 4
    assert stage.state("loop")["continuation_prompt"] == "write result.txt"

    resumed = stage.ll("resume", "loop")
    assert "Continuation context: write result.txt" in resumed.stdout
    assert (resumed.returncode, last(stage)) == (0, DONE)


def test_the_handoff_command_leaves_notes_for_the_next_session(stage: Stage):
    text = to_the_end("continue").replace("write the file, action_type: prompt", "/ll:handoff")
    stage.loop("loop", text)
    stage.play(
        Rule(HANDED_OVER, write(stage), Say("Written.")),
        Rule(
            "Hand this work off",
            bash("printenv LL_RUN_DIR"),
            note(stage, "next: write result.txt\n"),
            Say("CONTEXT_HANDOFF: Ready for fresh session"),
        ),
    )

    ran = stage.ll("run", "loop")

    assert (ran.returncode, last(stage)) == (0, DONE), ran.stdout + ran.stderr
    assert stage.has_event("loop", "handoff_detected", continuation="next: write result.txt")


def test_a_spawned_session_resumes_the_run(stage: Stage):
    stage.loop("loop", to_the_end("spawn"))
    resume = bash("ll-loop resume loop --background")
    stage.play(
        Rule("Continue loop execution", resume, Say("It runs.")),
        Rule(HANDED_OVER, write(stage), Say("Written.")),
        Rule("write the file", Say("CONTEXT_HANDOFF: write result.txt")),
    )

    assert stage.ll("run", "loop").returncode == 4
    until(lambda: stage.has_event("loop", "loop_complete"), "end of the resumed run")
    assert last(stage) == DONE
    until(lambda: not stage.living(), "end of the session")


def test_agents_that_hand_off_for_ever_come_to_rest(stage: Stage):
    few = "max_continuations: 2\n    initial: work"
    stage.loop("loop", to_the_end("continue").replace("initial: work", few))
    stage.play(Rule("write the file", Say("CONTEXT_HANDOFF: somebody else")))

    ran = stage.ll("run", "loop")

    assert ran.returncode == 4
    assert stage.events("loop")[-1]["message"] == "more than 2 handoffs in a row in `work`"


@pytest.mark.parametrize("who", ["a tool", "a subagent"])
def test_who_quotes_a_marker_hands_nothing_off(stage: Stage, who: str):
    stage.loop("loop", one_turn())
    quoting = {
        "a tool": bash("echo CONTEXT_HANDOFF: from a tool"),
        "a subagent": Call(
            "Task",
            {"description": "look", "prompt": "look around", "subagent_type": "general-purpose"},
        ),
    }
    stage.play(
        Rule("look around", Say("CONTEXT_HANDOFF: from a subagent")),
        Rule("go", quoting[who], Answer({"verdict": "pass", "reason": "-"}, "All is well.")),
    )

    ran = stage.ll("run", "loop")

    assert (ran.returncode, last(stage)) == (0, DONE), ran.stdout + ran.stderr
    assert not stage.has_event("loop", "signal")
    assert not stage.has_event("loop", "handoff_detected")


# Being stopped and killed


def test_an_interrupt_during_a_tool_leaves_no_process(stage: Stage):
    stage.loop("loop", one_turn(mode="bypassPermissions"))
    stage.play(Rule("go", bash("touch started; sleep 600"), Say("never said")))

    with stage.started("run", "loop", "--allow-skip-permissions") as run:
        until((stage.root / "started").exists, "tool under way")
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
        assert stage.living() == []
    assert last(stage)["event"] == "loop_interrupted"


def test_a_killed_runner_is_resumed_and_its_agent_ended_first(stage: Stage):
    stage.loop("loop", one_turn(mode="bypassPermissions"))
    once = "test -e started && exit; touch started; exec sleep 601"
    stage.play(Rule("go", bash(once), Answer({"verdict": "pass", "reason": "-"})))
    words = ("loop", "--allow-skip-permissions")

    with stage.started("run", *words) as run:
        until((stage.root / "started").exists, "tool under way")
        os.kill(run.pid, signal.SIGKILL)
        run.wait(30)
        assert any("sleep 601" in line for line in stage.living())
        resumed = stage.ll("resume", *words)
        assert (resumed.returncode, last(stage)) == (0, DONE), resumed.stdout + resumed.stderr
        assert not any("sleep 601" in line for line in stage.living())
    assert len(sessions(stage)) == len(set(sessions(stage))) == 2


def test_an_agent_that_takes_too_long_is_ended_with_its_tool(stage: Stage):
    transitions = "timeout: 5s, on_timeout: not_done, on_pass: done"
    stage.loop("loop", one_turn(mode="bypassPermissions").replace("on_pass: done", transitions))
    stage.play(Rule("go", bash("python3 -c 'import time; time.sleep(602)'"), Say("never said")))

    ran = stage.ll("run", "loop", "--allow-skip-permissions")

    assert (ran.returncode, last(stage)["final_state"]) == (1, "not_done")
    assert stage.living() == []


# The other host


@pytest.fixture
def codex(stage: Stage) -> Stage:
    text = to_the_end("pause").replace("{permission_mode: acceptEdits}", "codex")
    stage.loop("loop", text)
    return stage


def test_codex_writes_a_file(codex: Stage):
    run = Call("exec_command", {"cmd": "echo done > result.txt"})
    codex.play(Rule("write the file", run, Say("Written.")))

    ran = codex.ll("run", "loop", "--allow-skip-permissions")

    assert (ran.returncode, last(codex)) == (0, DONE), ran.stdout + ran.stderr
    assert codex.file("result.txt") == "done\n"
    assert completed(codex)["output"] == "Written."


@pytest.mark.parametrize("word", ["pass", "fail"])
def test_codex_gives_a_verdict_that_picks_the_way(stage: Stage, word: str):
    stage.loop("loop", one_turn().replace("{permission_mode: acceptEdits}", "codex"))
    stage.play(Rule("go", Answer({"verdict": word, "reason": "I looked"})))

    assert stage.ll("run", "loop", "--allow-skip-permissions").returncode == (word == "fail")
    assert last(stage)["final_state"] == {"pass": "done", "fail": "not_done"}[word]


def test_codex_with_a_refused_login_ends_the_run(codex: Stage):
    codex.play(Rule("write the file", Fail(401, "invalid_api_key", "Incorrect API key provided")))
    assert codex.ll("run", "loop", "--allow-skip-permissions").returncode == 1
    assert last(codex) == ENDED_BY_THE_LOGIN


def test_codex_with_a_full_context_hands_off(codex: Stage):
    codex.play(Rule("write the file", Fail(400, "context_length_exceeded", "too long")))
    assert codex.ll("run", "loop", "--allow-skip-permissions").returncode == 4
    assert last(codex)["status"] == "awaiting_continuation"
