"""Every recorded ending of Claude Code, and the outcome it must give.

Recorded against the fake model with the real CLI; what could not be provoked is written out in
`test_claude_reader.py`.  The fake model counts 100 tokens in and 20 out for a call,
and the CLI takes 0.001 USD for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.hosts.base import Kind, Outcome, Tokens
from tests.hosts.recorded import endings, play
from tests.live.scenes import SESSION

LOG_IN = "set `ANTHROPIC_API_KEY`, or start `claude` and type `/login`"
PAY = "add credit to the account, or log in with another account"


def ended(
    calls: int, kind: Kind = "success", reason: str = "the agent ended its turn", **rest: Any
) -> Outcome:
    """An ending after this many calls of the model."""
    used = {
        "tokens": Tokens(100 * calls, 20 * calls),
        "cost_usd": round(0.001 * calls, 6),
        "turns": calls,
    }
    return Outcome(kind, reason, **{**used, **rest})


CLAUDE = {
    "401": ended(
        0,
        "auth",
        f"the login was rejected: Invalid API key · Fix external API key; {LOG_IN}",
        turns=1,
    ),
    "401_many_retries": ended(
        0,
        "auth",
        f"the login was rejected: Invalid API key · Fix external API key; {LOG_IN}",
        turns=1,
    ),
    "403": ended(
        0,
        "auth",
        f"the login was rejected: Failed to authenticate. API Error: 403 not for you; {LOG_IN}",
        turns=1,
    ),
    "404_model": ended(
        0,
        "not_started",
        "There's an issue with the selected model (none). It may not exist or you may not have access to it. Run --model to pick a different model.",
        turns=1,
    ),
    "429": ended(
        0,
        "rate_limited",
        "a rate limit was reached: API Error: Request rejected (429) · slow down",
        turns=1,
    ),
    "429_recovers": ended(1, text="It is done."),
    "429_subscription": ended(
        0,
        "rate_limited",
        "a rate limit was reached: You've hit your session limit · resets 2:13pm (UTC)",
        retry_at_ms=1790000000000,
        turns=1,
    ),
    "500": ended(
        0,
        "overloaded",
        "the service did not respond: API Error: 500 oops. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8000).",
        turns=1,
    ),
    "529": ended(
        0,
        "overloaded",
        "the service did not respond: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8000).",
        turns=1,
    ),
    "api_timeout": ended(
        0, "overloaded", "the service did not respond: Request timed out", turns=1
    ),
    "background_ends": ended(3, text="It has ended."),
    "background_left": ended(
        2, text="Started.", warnings=("a background task was stopped: a command",)
    ),
    "bad_flag": Outcome(
        "not_started", "`claude` exited with code 1: error: unknown option '--no-such-flag'"
    ),
    "bad_session_id": Outcome(
        "not_started",
        "`claude` exited with code 1: Error: Invalid session ID. Must be a valid UUID.",
    ),
    "builtin_command": ended(
        0,
        text="Total cost:            $0.0000\nTotal duration (API):  0s\nTotal duration (wall): 0s\nTotal code changes:    0 lines added, 0 lines removed\nUsage:                 0 input, 0 output, 0 cache read, 0 cache write",
    ),
    "command_failed": ended(
        0,
        "command_failed",
        'the shell block of the slash command failed: Error: Shell command failed for pattern "!`exit 3`":',
    ),
    "compacts_and_goes_on": Outcome(
        "success",
        "the agent ended its turn",
        text="It is done.",
        tokens=Tokens(150300, 80),
        cost_usd=0.7535,
        turns=4,
    ),
    "connection_refused": ended(
        0,
        "overloaded",
        "the service did not respond: API Error: Unable to connect to API (ConnectionRefused)",
        turns=1,
    ),
    "context_full": Outcome(
        "context_exhausted",
        "the context is full: Prompt is too long",
        tokens=Tokens(199000, 20),
        cost_usd=0.9955,
        turns=2,
    ),
    "credit_too_low": ended(
        0, "billing", f"the account has no credit: Credit balance is too low; {PAY}", turns=1
    ),
    "edits_a_file": ended(2, text="Written."),
    "hook_denies": ended(
        2,
        "permission_denied",
        "the agent was not allowed to use `Write(a.txt)`",
        text="I could not.",
        denials=("Write(a.txt)",),
    ),
    "hook_stops": ended(1, "failed", "a hook stopped the agent", text="I will write it.", turns=2),
    "hup": Outcome("truncated", "`claude` exited with code 129 in mid-turn"),
    "int_in_a_tool": ended(1, "truncated", "the turn was interrupted", turns=3),
    "int_while_waiting": Outcome("truncated", "`claude` exited with code 0 in mid-turn"),
    "kill": Outcome("truncated", "`claude` was killed by signal 9 in mid-turn"),
    "max_budget": ended(1, "cost_limit_reached", "reached maximum budget ($0.0005)"),
    "max_tokens": ended(2, text="and the rest.", turns=1),
    "max_turns": ended(2, "limit_reached", "reached maximum number of turns (2)", turns=3),
    "mcp_server_fails": ended(
        1, text="It is done.", warnings=("the MCP server `db` did not start",)
    ),
    "no_verdict": ended(2, "no_verdict", "the agent gave no verdict", text="Looks good to me."),
    "not_logged_in": ended(
        0, "auth", f"the login was rejected: Not logged in · Please run /login; {LOG_IN}", turns=1
    ),
    "overloaded_in_the_stream": Outcome(
        "overloaded",
        "the service did not respond: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8000).",
        tokens=Tokens(300, 3),
        cost_usd=0.001575,
        turns=1,
    ),
    "permission_allowed": ended(3, text="Done."),
    "permission_denied": ended(
        2,
        "permission_denied",
        "the agent was not allowed to use `Write(src/models.py)`",
        text="I could not.",
        denials=("Write(src/models.py)",),
    ),
    "plugin_command": ended(1, text="Tidied."),
    "plugin_missing": ended(
        1,
        text="It is done.",
        warnings=("a plugin was not loaded: Path not found: /project/no-such-plugin (commands)",),
    ),
    "prompt_like_a_command": ended(1, text="A path, I think."),
    "prompt_too_long": ended(
        0,
        "context_exhausted",
        "the context is full: Prompt is too long · the request is ~210000 tokens (limit 200000) but this conversation is only ~1535 tokens — the rest is system prompt, tool definitions, and attachment content. A single-exchange c…",
        turns=1,
    ),
    "prompt_too_long_midway": ended(
        3, "context_exhausted", "the context is full: Prompt is too long"
    ),
    "refusal": ended(1, "refused", "the model refused the request", text="I would rather not."),
    "schema_never_met": ended(
        4, "bad_output", "the agent did not return a verdict in the required format", turns=6
    ),
    "settings_cannot_skip": ended(
        2,
        "permission_denied",
        "the agent was not allowed to use `Bash(touch a)`",
        text="I could not.",
        denials=("Bash(touch a)",),
    ),
    "slash_command": ended(1, text="Tidied."),
    "stop_hook_prevents": ended(1, text="It is done."),
    "stop_hook_refuses": ended(
        3,
        "failed",
        "a Stop hook blocked every attempt to end the turn",
        text="It is done.",
        turns=4,
    ),
    "stream_cut": ended(1, text="It is done."),
    "subagent": ended(4, text="All is well.", turns=2),
    "success": ended(1, text="It is done."),
    "term": Outcome("truncated", "`claude` exited with code 143 in mid-turn"),
    "tool_absent": ended(2, text="I could not."),
    "tool_quotes_a_marker": ended(2, text="Nothing new."),
    "unavailable_command": ended(
        0,
        "unknown_command",
        "unknown slash command `/help`; known: `/compact`, `/context`, `/review`, `/usage`",
        commands=("compact", "context", "review", "usage"),
    ),
    "unknown_command": ended(
        0,
        "unknown_command",
        "unknown slash command `/tidi`; known: `/tidy`, `/compact`, `/context`, `/review`, `/usage`",
        commands=("tidy", "compact", "context", "review", "usage"),
    ),
    "verdict": ended(
        1,
        "success",
        "two errors left",
        text="I looked.",
        verdict="fail",
        structured={"verdict": "fail", "reason": "two errors left"},
        turns=2,
    ),
    "verdict_after_a_nudge": ended(
        2,
        "success",
        "as asked",
        text="CONTEXT_HANDOFF: later",
        verdict="pass",
        structured={"verdict": "pass", "reason": "as asked"},
        turns=3,
    ),
    "verdict_line": ended(
        2,
        "success",
        "the agent printed `VERDICT: pass`",
        text="All tests pass.\n\n**VERDICT: pass**",
        verdict="pass",
    ),
    "verdict_word_unknown": ended(
        2,
        "no_verdict",
        "the agent gave the verdict `maybe`; expected one of `pass`, `fail`",
        text="VERDICT: maybe",
    ),
}


def test_every_recorded_ending_has_a_row():
    assert sorted(CLAUDE) == sorted(endings("claude"))


@pytest.mark.parametrize("scene", CLAUDE)
def test_outcome(scene):
    outcome = play("claude", scene).outcome
    code = endings("claude")[scene]["exit_code"]
    expected = CLAUDE[scene]._replace(session_id=SESSION, exit_code=code)
    assert outcome._replace(raw_reason="") == expected


@pytest.mark.parametrize("scene", CLAUDE)
def test_what_we_cut_ourselves_is_ours_whatever_the_stream_says(scene):
    assert play("claude", scene, "stop").outcome.kind == "cancelled"
    assert play("claude", scene, "action").outcome.kind == "timed_out"
    assert play("claude", scene, "loop").outcome.kind == "timed_out"
    assert play("claude", scene, "host").outcome.kind == "auth"
