"""What the recorded streams do not show: the live line, rare endings, and streams that go wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from little_loops.hosts.base import (
    Activity,
    AgentStarted,
    AgentText,
    AuthFailed,
    Done,
    HostEvent,
    Outcome,
    Request,
    Retrying,
    Tokens,
    Usage,
)
from little_loops.hosts.claude_reader import KEPT_NAMES, KEPT_TEXT, ClaudeReader
from tests.hosts.recorded import play

PROMPT = Request("go", "prompt", "/project", "ours")
ASKED = PROMPT._replace(words=("pass", "fail"))
INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
SUCCESS = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "x"}
FAILED = {**SUCCESS, "is_error": True}
LOG_IN = "set `ANTHROPIC_API_KEY`, or start `claude` and type `/login`"


def said(text: str, ident: str = "msg_1", **rest: Any) -> dict[str, Any]:
    message = {"id": ident, "model": "m", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **rest}


def used(tool: str, parent: str | None = None, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "name": tool, "input": given}
    return {"type": "assistant", "message": {"content": [block]}, "parent_tool_use_id": parent}


def told(*events: object, request: Request = PROMPT) -> tuple[ClaudeReader, list[HostEvent]]:
    reader = ClaudeReader(request)
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return reader, [happened for line in lines for happened in reader.feed(line)]


def ending(*events: object, request: Request = PROMPT, exit_code: int | None = 0) -> Outcome:
    return told(*events, request=request)[0].finish(exit_code)


def test_the_live_line_of_a_real_turn():
    assert play("claude", "edits_a_file").events == [
        AgentStarted("11111111-1111-4111-8111-111111111111", "claude-opus-4-8[1m]"),
        Usage(100, 1, None),
        AgentText("I will write it."),
        Activity("Writing src/models.py"),
        Done("Writing src/models.py", "", ("src/models.py",)),
        Usage(200, 2, None),
        AgentText("Written."),
        Usage(200, 40, 0.002),
    ]


def test_only_the_main_thread_speaks():
    texts = [e.text for e in play("claude", "subagent").events if isinstance(e, AgentText)]
    assert texts == ["All is well."]
    texts = [
        e.text for e in play("claude", "tool_quotes_a_marker").events if isinstance(e, AgentText)
    ]
    assert texts == ["Nothing new."]
    _, events = told(INIT, said("CONTEXT_HANDOFF: no", parent_tool_use_id="toolu_1"))
    assert events == [AgentStarted("s", "m")]


def test_the_signal_before_a_nudge_is_handed_on():
    events = play("claude", "verdict_after_a_nudge").events
    assert AgentText("CONTEXT_HANDOFF: later") in events


def test_the_clis_own_words_are_not_the_agents():
    synthetic = said("CONTEXT_HANDOFF: no")
    synthetic["message"]["model"] = "<synthetic>"
    _, events = told(INIT, synthetic, said("LOOP_STOP: no", error="server_error"))
    assert events == [AgentStarted("s", "m")]


@pytest.mark.parametrize(
    ("tool", "given", "line"),
    [
        ("Edit", {"file_path": "/project/src/api/models.py"}, "Editing src/api/models.py"),
        ("Read", {"file_path": "/etc/hosts"}, "Reading /etc/hosts"),
        ("Write", {"file_path": "/project/"}, "Writing /project/"),
        ("Bash", {"command": "npm test\n  --all"}, "Running npm test --all"),
        ("Bash", {"command": "x" * 200}, "Running " + "x" * 71 + "…"),
        ("Grep", {"pattern": "TODO"}, "Searching for TODO"),
        ("Task", {"description": "look"}, "Asking a subagent: look"),
        ("TodoWrite", {"todos": []}, "Using TodoWrite"),
        ("Edit", {"file_path": 7}, "Editing"),
    ],
)
def test_what_the_agent_does(tool, given, line):
    assert told(used(tool, **given))[1] == [Activity(line)]
    assert told(used(tool, parent="toolu_1", **given))[1] == [Activity(line)]


def test_the_text_of_one_message_comes_in_pieces():
    assert ending(INIT, said("a"), used("Bash"), said("b"), SUCCESS).text == "a\nb"
    assert ending(INIT, said("a"), said("b", "msg_2"), SUCCESS).text == "b"
    assert ending(INIT, said("a"), said("", "msg_2"), SUCCESS).text == "a"


def test_memory_is_bounded():
    reader, _ = told(INIT)
    for number in range(100):
        reader.feed(json.dumps(said("x" * (KEPT_TEXT // 10))))
        denied = {"tool_name": "Bash", "tool_use_id": str(number)}
        reader.feed(json.dumps({**SUCCESS, "permission_denials": [denied]}))
        failed = [{"name": str(number), "status": "failed"}]
        reader.feed(json.dumps({**INIT, "mcp_servers": failed}))
    outcome = reader.finish(1)
    assert len(outcome.text) == KEPT_TEXT
    assert (len(outcome.denials), len(outcome.warnings)) == (20, 20)


def test_usage_is_counted_once_for_each_message():
    def usage(ident: str) -> dict[str, Any]:
        counts = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
        return {"type": "assistant", "message": {"id": ident, "usage": counts}}

    reader, events = told(INIT, usage("a"), usage("a"), usage("b"))
    assert events[1:] == [Usage(15, 1, None), Usage(30, 2, None)]
    # Without a result this estimate is all there is; a run that was killed has still cost something.
    assert reader.finish(None, 9).tokens == Tokens(20, 2, 10, 0)


def test_without_the_table_of_models_the_usage_counts():
    outcome = ending(INIT, {**SUCCESS, "usage": {"input_tokens": 7, "output_tokens": 3}})
    assert outcome.tokens == Tokens(7, 3)


def test_a_login_that_is_refused_again_and_again():
    def retry(attempt: int) -> dict[str, Any]:
        why = {"error": "authentication_failed", "retry_delay_ms": 541.3}
        return {"type": "system", "subtype": "api_retry", "attempt": attempt, **why}

    reader, events = told(INIT, retry(1), retry(2), retry(3))
    assert events[1:] == [
        Retrying(1, 541, "authentication_failed"),
        Retrying(2, 541, "authentication_failed"),
        Retrying(3, 541, "authentication_failed"),
        AuthFailed("the login was rejected"),
    ]
    outcome = reader.finish(None, 2, cut_by="host")
    assert (outcome.kind, outcome.reason) == ("auth", f"the login was rejected; {LOG_IN}")


def test_compacting_is_shown():
    status = {"type": "system", "subtype": "status", "status": "compacting"}
    assert told(status, {**status, "status": None})[1] == [Activity("Compacting its context")]


RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "error": "overloaded"}
DIAGNOSTIC = {
    "type": "result",
    "subtype": "error_during_execution",
    "is_error": True,
    "num_turns": 1,
    "errors": ["[ede_diagnostic] result_type=user"],
}
REJECTED = {"status": "rejected", "resetsAt": 1790000000}


def limit(**info: object) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": info}


@pytest.mark.parametrize(
    ("events", "kind", "reason"),
    [
        pytest.param(
            [
                INIT,
                {**FAILED, "api_error_status": None, "result": "Repeated 529 Overloaded errors"},
            ],
            "overloaded",
            "the service did not respond: Repeated 529 Overloaded errors",
            id="529 without a status",
        ),
        pytest.param(
            [INIT, RETRY, DIAGNOSTIC],
            "overloaded",
            "the service did not respond: [ede_diagnostic] result_type=user",
            id="an error that is only named by the retry before it",
        ),
        pytest.param(
            [INIT, DIAGNOSTIC], "failed", "[ede_diagnostic] result_type=user", id="a bare error"
        ),
        pytest.param(
            [INIT, RETRY, said("x"), FAILED], "failed", "x", id="a retry that helped is no cause"
        ),
        pytest.param(
            [INIT, said("x", error="oauth_org_not_allowed"), FAILED],
            "auth",
            f"the login was rejected: x; {LOG_IN}",
            id="the organisation is not allowed",
        ),
        pytest.param(
            [INIT, said("x", error="server_error"), said("y", "msg_2"), FAILED],
            "failed",
            "x",
            id="an error that was overcome is no cause",
        ),
        pytest.param(
            [INIT, said("x", error="rate_limit", parent_tool_use_id="t"), FAILED],
            "failed",
            "x",
            id="a subagent's error is no cause",
        ),
        pytest.param(
            [INIT, {**FAILED, "terminal_reason": "rapid_refill_breaker", "result": ""}],
            "context_exhausted",
            "the context is full",
            id="context refilled at once",
        ),
        pytest.param(
            [INIT, limit(**REJECTED), FAILED],
            "rate_limited",
            "a rate limit was reached: x",
            id="a limit event",
        ),
        pytest.param(
            [INIT, limit(**REJECTED), SUCCESS],
            "success",
            "the agent ended its turn",
            id="a limit that stopped nothing",
        ),
        pytest.param(
            [INIT, limit(**REJECTED), limit(status="allowed"), FAILED],
            "failed",
            "x",
            id="a limit that was lifted",
        ),
        pytest.param(
            [INIT, {**FAILED, "result": "", "subtype": "error_max_turns"}],
            "limit_reached",
            "a limit was reached",
            id="a limit without words",
        ),
        pytest.param(
            [INIT, {**FAILED, "result": ""}],
            "failed",
            "the agent ended with an error",
            id="an error without words",
        ),
        pytest.param(
            [INIT, {"type": "result", "subtype": "error_new_kind"}],
            "failed",
            "the agent ended with an error",
            id="is_error is missing",
        ),
        pytest.param(
            [INIT, SUCCESS, INIT],
            "truncated",
            "`claude` exited with code 0 in mid-turn",
            id="a second turn without an end",
        ),
        pytest.param(
            [INIT, SUCCESS, INIT, {**FAILED, "api_error_status": 429}],
            "rate_limited",
            "a rate limit was reached: x",
            id="the last result counts",
        ),
        pytest.param([SUCCESS], "success", "the agent ended its turn", id="no init"),
        pytest.param(
            [{"type": "user"}],
            "truncated",
            "`claude` exited with code 0 in mid-turn",
            id="no result",
        ),
    ],
)
def test_rare_endings(events, kind, reason):
    outcome = ending(*events)
    assert (outcome.kind, outcome.reason) == (kind, reason)


@pytest.mark.parametrize("resets", [1790000000, 1790000000000], ids=["seconds", "milliseconds"])
def test_when_a_limit_ends(resets):
    assert ending(limit(status="rejected", resetsAt=resets), FAILED).retry_at_ms == 1790000000000
    assert ending(limit(status="rejected"), FAILED).retry_at_ms is None
    assert ending(limit(status="rejected", resetsAt=resets), SUCCESS).retry_at_ms is None


def test_a_stream_that_ended_before_it_began():
    hook = {"type": "system", "subtype": "hook_started"}
    reader, _ = told(hook)
    outcome = reader.finish(1, stderr_tail="Error: Session ID x is already in use.\n")
    reason = "`claude` exited with code 1: Error: Session ID x is already in use."
    assert (outcome.kind, outcome.reason) == ("not_started", reason)


def test_mid_turn_with_a_last_word():
    reader, _ = told(INIT)
    outcome = reader.finish(None, 6, "out of memory\n")
    assert outcome.reason == "`claude` was killed by signal 6 in mid-turn: out of memory"
    assert outcome.session_id == "s"


def test_unknown_command_without_a_list():
    slash = Request("/fix it", "slash", "/project", "ours")
    result = {**SUCCESS, "num_turns": 0, "result": "Unknown command: /fix"}
    outcome = ending(INIT, result, request=slash)
    assert (outcome.kind, outcome.commands) == ("unknown_command", ())
    assert outcome.reason == "unknown slash command `/fix`"


def test_unknown_command_among_many():
    names = [f"cmd-{number:02d}" for number in range(30)]
    slash = Request("/cmd-7", "slash", "/project", "ours")
    init, result = {**INIT, "slash_commands": names}, {**SUCCESS, "num_turns": 0}
    outcome = ending(init, result, request=slash)
    near, first = ["cmd-27", "cmd-17", "cmd-07"], names[:7] + [names[8], names[9]]
    shown = ", ".join(f"`/{name}`" for name in near + first)
    assert outcome.reason == f"unknown slash command `/cmd-7`; known: {shown} and 18 more"
    assert outcome.commands == tuple(names)


@pytest.mark.parametrize(
    ("init", "kind"),
    [
        pytest.param({"slash_commands": ["review"]}, "unknown_command", id="not listed"),
        pytest.param({"slash_commands": ["fix"]}, "success", id="a command"),
        pytest.param({"slash_commands": ["review"], "skills": ["fix"]}, "success", id="a skill"),
        pytest.param({}, "success", id="no list"),
        pytest.param(
            {"slash_commands": [f"c{number}" for number in range(KEPT_NAMES + 1)]},
            "success",
            id="a list too long to keep",
        ),
    ],
)
def test_an_unknown_command_that_was_sent_to_the_model_as_text(init, kind):
    slash = Request("/fix it", "slash", "/project", "ours")
    assert ending({**INIT, **init}, {**SUCCESS, "num_turns": 3}, request=slash).kind == kind


def test_an_empty_slash_command():
    assert ending(INIT, SUCCESS, request=Request(" ", "slash", "/p", "ours")).kind == "success"


def test_a_shell_block_that_failed_without_a_word():
    message = {"content": [{"text": "<local-command-stderr></local-command-stderr>"}]}
    user = {"type": "user", "message": message, "isReplay": True}
    outcome = ending(INIT, user, {**SUCCESS, "num_turns": 0})
    assert outcome.kind == "command_failed"
    assert outcome.reason == "the shell block of the slash command failed: no message"
    subagent = {**user, "parent_tool_use_id": "t"}
    assert ending(INIT, subagent, {**SUCCESS, "num_turns": 0}).kind == "success"


def test_what_is_new_or_well_is_passed_over():
    init = {**INIT, "mcp_servers": [{"name": "db", "status": "connected"}]}
    outcome = ending(init, {"type": "prompt_suggestion"}, {"type": "system"}, SUCCESS)
    assert (outcome.kind, outcome.warnings) == ("success", ())


def test_another_model_took_over():
    fallback = {"type": "system", "subtype": "model_fallback", "original_model": "a"}
    outcome = ending(INIT, {**fallback, "fallback_model": "b"}, SUCCESS)
    assert outcome.warnings == ("the model `a` was replaced by `b`",)


def test_work_that_was_stopped_before_the_end_is_no_warning():
    stopped = {"type": "system", "subtype": "task_notification", "status": "stopped"}
    assert ending(INIT, stopped, SUCCESS).warnings == ()


@pytest.mark.parametrize(
    ("answer", "text", "kind", "verdict"),
    [
        pytest.param({"verdict": "pass"}, "", "success", "pass", id="no reason"),
        pytest.param({"verdict": "maybe"}, "VERDICT: fail", "success", "fail", id="bad, then line"),
        pytest.param("pass", "x", "no_verdict", None, id="not an object"),
        pytest.param(None, "x", "no_verdict", None, id="null"),
    ],
)
def test_the_structured_verdict(answer, text, kind, verdict):
    result = {**SUCCESS, "structured_output": answer}
    outcome = ending(INIT, said(text), result, request=ASKED)
    assert (outcome.kind, outcome.verdict) == (kind, verdict)


def test_a_denied_tool_outranks_the_verdict():
    denials = [{"tool_name": "Bash", "tool_input": {"command": "make"}}, {"tool_name": "X"}]
    result = {**SUCCESS, "structured_output": {"verdict": "pass", "reason": ""}}
    outcome = ending(INIT, {**result, "permission_denials": denials}, request=ASKED)
    assert (outcome.kind, outcome.verdict) == ("permission_denied", None)


# A CLI of that name that speaks plain text


@pytest.mark.parametrize(
    ("printed", "exit_code", "kind", "verdict"),
    [
        ("Done.\nVERDICT: fail\n", 0, "success", "fail"),
        ("Done.\n", 0, "success", "pass"),
        ("Could not.\n", 1, "failed", "fail"),
        ("Oops.\n", 3, "command_failed", None),
        ("", 0, "truncated", None),
        ("[1, 2]\n{broken\n", 0, "success", "pass"),
        ('{"no": "type"}\n', 0, "success", "pass"),
    ],
)
def test_plain_text(printed, exit_code, kind, verdict):
    outcome = ending(*printed.splitlines(), request=ASKED, exit_code=exit_code)
    assert (outcome.kind, outcome.verdict) == (kind, verdict)
    assert outcome.session_id == "ours"


def test_plain_text_is_handed_on_until_the_first_event():
    _, events = told("LOOP_STOP: enough", INIT, "LOOP_STOP: noise")
    assert events == [AgentText("LOOP_STOP: enough"), AgentStarted("s", "m")]
