"""Every recorded ending of Codex, and the outcome it must give.

Recorded against the fake model with the real CLI; what could not be provoked is written out in
`test_codex_reader.py`.  The fake model counts 100 tokens in and 20 out for a call.
"""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.hosts.base import Kind, Outcome, Tokens
from tests.hosts.recorded import endings, play

LOG_IN = "run `codex login`, or set the key its provider asks for"
PAY = "add credit to the account, or log in with another account"


def ended(
    calls: int, kind: Kind = "success", reason: str = "the agent ended its turn", **rest: Any
) -> Outcome:
    """An ending after this many calls of the model."""
    used = {"tokens": Tokens(100 * calls, 20 * calls)}
    return Outcome(kind, reason, **{**used, **rest})


CODEX = {
    "401": ended(
        0,
        "auth",
        f"the login was rejected: unexpected status 401 Unauthorized: Incorrect API key provided; {LOG_IN}",
    ),
    "403": ended(
        0, "auth", f"the login was rejected: unexpected status 403 Forbidden: not for you; {LOG_IN}"
    ),
    "404_model": ended(0, "not_started", "The model `none` does not exist"),
    "429": ended(
        0,
        "rate_limited",
        "a rate limit was reached: exceeded retry limit, last status: 429 Too Many Requests",
    ),
    "429_in_the_stream": ended(
        0, "rate_limited", "a rate limit was reached: rate limit exceeded: Rate limit reached."
    ),
    "500": ended(
        0,
        "overloaded",
        "the service did not respond: We’re currently experiencing high demand, which may cause temporary errors.",
    ),
    "bad_flag": ended(
        0,
        "not_started",
        "`codex` exited with code 2: error: unexpected argument '--no-such-flag' found",
    ),
    "context_full": ended(
        0,
        "context_exhausted",
        "the context is full: Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
    ),
    "context_full_400": ended(
        0,
        "context_exhausted",
        'the context is full: {"type": "error", "error": {"type": "context_length_exceeded", "message": "Your input exceeds the limit", "code": "context_length_exceeded"}}',
    ),
    "empty_prompt": ended(
        0, "not_started", "`codex` exited with code 1: No prompt provided via stdin."
    ),
    "int": ended(0, "truncated", "`codex` exited with code 1 in mid-turn"),
    "no_key": ended(
        0, "auth", f"the login was rejected: Missing environment variable: `FAKE_KEY`.; {LOG_IN}"
    ),
    "no_verdict": ended(1, "no_verdict", "the agent gave no verdict", text="Looks good to me."),
    "overloaded_in_the_stream": ended(
        0,
        "overloaded",
        "the service did not respond: Selected model is at capacity. Please try a different model.",
    ),
    "quota": ended(
        0,
        "billing",
        f"the account has no credit: Quota exceeded. Check your plan and billing details.; {PAY}",
    ),
    "read_only": ended(2, text="I could not."),
    "runs_a_command": ended(2, text="Written."),
    "runs_unconfined": ended(2, text="Written."),
    "slash_is_text": ended(1, text="A path, I think."),
    "stream_cut": ended(
        0,
        "overloaded",
        "the service did not respond: stream disconnected before completion: stream closed before response.completed",
    ),
    "stream_cut_once": ended(1, text="It is done."),
    "success": ended(1, text="It is done."),
    "term": ended(0, "truncated", "`codex` was killed by signal 15 in mid-turn"),
    "usage_limit": ended(
        0, "rate_limited", "a rate limit was reached: You’ve hit your usage limit. Try again later."
    ),
    "verdict": ended(
        2,
        "success",
        "two errors",
        text="I look.",
        verdict="fail",
        structured={"verdict": "fail", "reason": "two errors"},
    ),
    "verdict_only": ended(
        1,
        "success",
        "as asked",
        text="as asked",
        verdict="pass",
        structured={"verdict": "pass", "reason": "as asked"},
    ),
}


def test_every_recorded_ending_has_a_row():
    assert sorted(CODEX) == sorted(endings("codex"))


@pytest.mark.parametrize("scene", CODEX)
def test_outcome(scene):
    outcome = play("codex", scene).outcome
    code = endings("codex")[scene]["exit_code"]
    expected = CODEX[scene]._replace(session_id=outcome.session_id, exit_code=code)
    assert outcome._replace(raw_reason="", warnings=()) == expected


@pytest.mark.parametrize("scene", CODEX)
def test_what_we_cut_ourselves_is_ours_whatever_the_stream_says(scene):
    assert play("codex", scene, "stop").outcome.kind == "cancelled"
    assert play("codex", scene, "action").outcome.kind == "timed_out"
    assert play("codex", scene, "loop").outcome.kind == "timed_out"
    assert play("codex", scene, "host").outcome.kind == "auth"
