"""Environment variables by name: what actions get from ll-loop, and what they must not inherit."""

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
"""Variables of an enclosing agent's session. By name, never by prefix: `CLAUDE*` would also remove
the user's login and limits."""

ACTION_VARIABLES = {
    "LL_RUN_ID": "the id of the run",
    "LL_STEP_ID": "`run/step`: the same for every attempt at a step, so that scripts can be idempotent",
    "LL_ATTEMPT": "the current attempt at this step, from 1",
    "LL_ITERATION": "the current iteration, from 1",
    "LL_ITERATION_LIMIT": "the maximum number of iterations",
    "LL_LOOP": "the loop's name",
    "LL_PROJECT": "the project, even if the run works in one of its worktrees",
    "LL_RUN_DIR": "a directory that belongs to the run and is kept with it",
    "LL_DEPTH": "how many runs this action is nested in",
    "LL_PYTHON": "the Python that runs ll-loop",
    "LL_CLEAN": "1 when a check runs in a clean copy of the project",
    "LL_CONTINUATION": "the notes that an earlier session handed over, if there are any",
    "LL_HOOK": "in a hook: its name, or the kind of its event",
    "LL_NOTICE": "in a command of `notify`: the notification as one line of text",
    "LL_EVENT_ID": "in a hook: identifies the event; stays the same if the hook runs again",
    "LL_RESUMED": "1 in the hook `before_run` of a run that is resumed",
    "LL_CONTEXT_<NAME>": "a variable from the state's own `context`",
    "LL_SLOT": "an agent's slot, for a run that the agent starts, if the user has set `agents.slots`",
    "LL_CLAIM": "the enclosing runs, for a run that this action starts",
}
"""Variables that an action gets in addition to the caller's environment and `env`."""
