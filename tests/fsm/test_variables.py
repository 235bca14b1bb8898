"""What actions must not inherit from an agent's session around them."""

from __future__ import annotations

from little_loops.fsm.variables import SESSION_VARIABLES


def test_what_an_outer_session_leaves_behind_is_dropped_by_name():
    """By prefix would take the user's login and limits, such as `CLAUDE_CODE_OAUTH_TOKEN`."""
    assert SESSION_VARIABLES == (
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_EFFORT",
        "AI_AGENT",
    )
