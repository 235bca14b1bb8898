"""Environment variables by name: what actions get from us, and what they must not inherit."""

from __future__ import annotations

SESSION_VARIABLES = (
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_EFFORT",
    "AI_AGENT",
)
"""What an outer agent's session leaves behind.  By name, never by prefix: `CLAUDE*` would take the
user's login and limits with it."""

ACTION_VARIABLES = {
    "LL_RUN_ID": "the id of the run",
    "LL_STEP_ID": "`run/step`: the same for every attempt at a step, so that scripts can be idempotent",
    "LL_ATTEMPT": "which attempt at this step this is, from 1",
    "LL_ITERATION": "which time around this is, from 1",
    "LL_ITERATION_LIMIT": "how many times around the run may go",
    "LL_LOOP": "the loop's name",
    "LL_RUN_DIR": "a directory of the run's own, kept with it",
    "LL_DEPTH": "how many runs this action is inside of",
    "LL_PYTHON": "the Python that runs ll-loop",
    "LL_CLEAN": "1 in a clean copy of the project, where a check confirms its pass",
    "LL_CONTINUATION": "what an earlier session handed over, if it did",
    "LL_CONTEXT_<NAME>": "a variable of the state's own `context`",
    "LL_CLAIM": "the runs around this action, for a run started inside it",
}
"""What an action finds in its environment beside the caller's own variables and `env`."""
