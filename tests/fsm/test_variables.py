"""What actions must not inherit from an agent's session around them."""

from __future__ import annotations

import re

from little_loops.fsm.variables import ACTION_VARIABLES, SESSION_VARIABLES


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


def test_the_variables_that_actions_get():
    """Scripts rely on them."""
    assert " ".join(ACTION_VARIABLES) == (
        "LL_RUN_ID LL_STEP_ID LL_ATTEMPT LL_ITERATION LL_ITERATION_LIMIT LL_LOOP LL_PROJECT"
        " LL_RUN_DIR LL_DEPTH LL_PYTHON LL_CLEAN LL_CONTINUATION LL_HOOK LL_NOTICE LL_EVENT_ID"
        " LL_RESUMED LL_CONTEXT_<NAME> LL_SLOT LL_CLAIM"
    )


def test_every_variable_of_an_action_has_a_name_of_ours_and_a_meaning():
    for name, meaning in ACTION_VARIABLES.items():
        assert re.fullmatch("LL_[A-Z_]+(<NAME>)?", name)
        assert meaning
