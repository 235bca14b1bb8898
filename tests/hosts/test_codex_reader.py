"""What the recorded streams do not show: the live line, and messages that were not provoked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from little_loops.hosts.base import (
    Activity,
    AgentStarted,
    AgentText,
    Done,
    HostEvent,
    Outcome,
    Request,
    Retrying,
    Tokens,
    Usage,
)
from little_loops.hosts.codex_reader import CodexReader, by_message, command_in
from tests.hosts.recorded import play

PROMPT = Request("go", "prompt", "/project", "ours", model="m")
ASKED = PROMPT._replace(words=("pass", "fail"))
STARTED = {"type": "thread.started", "thread_id": "t"}
DONE = {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 20}}


def item(kind: str, when: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{when}", "item": {"type": kind, **fields}}


def told(*events: object, request: Request = PROMPT) -> tuple[CodexReader, list[HostEvent]]:
    reader = CodexReader(request)
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return reader, [happened for line in lines for happened in reader.feed(line)]


def ending(*events: object, request: Request = PROMPT, exit_code: int | None = 0) -> Outcome:
    return told(*events, request=request)[0].finish(exit_code)


def test_the_live_line_of_a_real_turn():
    events = play("codex", "runs_a_command").events
    assert events[1:] == [
        AgentText("I will write it."),
        Activity("Running echo hi > a.txt"),
        Done("Running echo hi > a.txt", "exit 0"),
        AgentText("Written."),
        Usage(200, 40, None),
    ]
    assert isinstance(events[0], AgentStarted)


def test_its_own_retries():
    events = play("codex", "stream_cut_once").events
    why = "stream disconnected before completion: stream closed before response.completed"
    assert events[1] == Retrying(1, 0, why)
    waiting = {"type": "error", "message": "Reconnecting... waiting for network (no answer)"}
    assert told(waiting)[1] == [Retrying(0, 0, "waiting for network (no answer)")]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            item("file_change", changes=[{"path": "/project/a.py"}, {"path": "/b"}]),
            "Editing a.py, /b",
        ),
        (item("mcp_tool_call", "started", tool="query"), "Using query"),
        (item("web_search", "started", query="x"), "Searching the web for x"),
        (item("command_execution", "started", command="make"), "Running make"),
    ],
)
def test_what_the_agent_does(event, line):
    assert told(event)[1][0] == Activity(line)


@pytest.mark.parametrize(
    ("event", "done"),
    [
        (
            item("file_change", changes=[{"path": "/project/a.py"}, {"path": "/b"}]),
            Done("Editing a.py, /b", "", ("a.py", "/b")),
        ),
        (
            item("file_change", changes=[{"path": "/project/a.py"}], status="failed"),
            Done("Editing a.py", "failed"),
        ),
        (item("command_execution", command="make", exit_code=2), Done("Running make", "exit 2")),
        (item("mcp_tool_call", tool="query"), Done("Using query")),
    ],
)
def test_what_the_agent_has_done(event, done):
    assert told(event)[1][-1] == done


def test_what_is_not_shown():
    assert told(item("reasoning", "started"), item("file_change"), {"type": "new.event"})[1] == []
    assert told({"type": "error"})[1] == []


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/bin/bash -lc 'touch a; make'", "touch a; make"),
        ("/bin/bash -lc pwd", "pwd"),
        ("/usr/bin/zsh -c 'a\nb'", "a\nb"),
        ("make all", "make all"),
    ],
)
def test_the_command_without_its_shell(command, shown):
    assert command_in(command) == shown


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized: x, url: http://127.0.0.1:429/v1", "auth"),
        ("Your access token could not be refreshed. Please log in again.", "auth"),
        ("Quota exceeded. Check your plan and billing details.", "billing"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited"),
        ("You've hit your usage limit. Try again at 3:05 PM.", "rate_limited"),
        ("Codex ran out of room in the model's context window.", "context_exhausted"),
        ("unexpected status 503 Service Unavailable: x", "overloaded"),
        ("exceeded retry limit, last status: 502 Bad Gateway", "overloaded"),
        ("stream disconnected before completion: idle timeout", "overloaded"),
        ("The request was refused: it violates our usage policy.", "refused"),
        ("The model `x` does not exist or you do not have access to it.", "not_started"),
        ("unexpected status 400 Bad Request: x, url: http://127.0.0.1:5001/429", "failed"),
        ("", "failed"),
    ],
)
def test_a_failure_is_known_by_its_words(message, kind):
    assert by_message(message).kind == kind
    outcome = ending(STARTED, {"type": "turn.failed", "error": {"message": message}}, exit_code=1)
    assert outcome.kind == kind


def test_tokens_from_the_cache_are_counted_once():
    usage = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 20}
    outcome = ending(STARTED, {"type": "turn.completed", "usage": usage})
    assert outcome.tokens == Tokens(40, 20, 60, 0)
    assert outcome.tokens.total == 120


def test_a_declined_command_makes_a_success_a_fail():
    declined = item("command_execution", command="/bin/bash -lc 'rm x'", status="declined")
    outcome = ending(STARTED, *[declined] * 30, DONE)
    assert outcome.kind == "permission_denied"
    assert outcome.reason.startswith("the agent was not allowed to run `rm x`, `rm x`")
    assert len(outcome.denials) == 20


def test_the_session_is_told_as_soon_as_it_is_known():
    reader, events = told(STARTED)
    assert events == [AgentStarted("t", "m")]
    assert reader.finish(None, 9).session_id == "t"


def test_warnings_are_kept_up_to_a_point():
    warnings = [item("error", message=f"beware {number}") for number in range(30)]
    assert len(ending(STARTED, *warnings, DONE).warnings) == 20


@pytest.mark.parametrize(
    ("text", "kind", "verdict", "kept"),
    [
        pytest.param('{"verdict": "pass", "reason": "ok"}', "success", "pass", "ok", id="json"),
        pytest.param("Fine.\nVERDICT: pass", "success", "pass", "Fine.\nVERDICT: pass", id="line"),
        pytest.param('{"verdict": "maybe", "reason": "?"}', "no_verdict", None, "?", id="unknown"),
        pytest.param("[]", "no_verdict", None, "[]", id="other JSON"),
    ],
)
def test_verdicts(text, kind, verdict, kept):
    outcome = ending(STARTED, item("agent_message", text=text), DONE, request=ASKED)
    assert (outcome.kind, outcome.verdict, outcome.text) == (kind, verdict, kept)


def test_a_signal_can_stand_in_the_reason():
    answer = json.dumps({"verdict": "fail", "reason": "CONTEXT_HANDOFF: later"})
    _, events = told(STARTED, item("agent_message", text=answer), request=ASKED)
    assert events[-1] == AgentText("CONTEXT_HANDOFF: later")


def test_a_second_turn_starts_afresh():
    failed = {"type": "turn.failed", "error": {"message": "x"}}
    again = {"type": "turn.started"}
    assert ending(STARTED, again, failed, again, DONE).kind == "success"
    assert ending(STARTED, again, DONE, again).kind == "truncated"


def test_no_thread_was_started():
    outcome = ending({"type": "error", "message": "x"}, exit_code=1)
    assert (outcome.kind, outcome.session_id) == ("not_started", None)


def test_mid_turn_with_a_last_word():
    reader, _ = told(STARTED)
    outcome = reader.finish(101, stderr_tail="thread panicked\n")
    assert outcome.reason == "`codex` exited with code 101 in mid-turn: thread panicked"


def test_plain_text():
    assert ending("Done.", "VERDICT: fail", request=ASKED).verdict == "fail"
    _, events = told("a", STARTED, "b")
    assert events == [AgentText("a"), AgentStarted("t", "m")]
