"""Convert relays that version one compiled, whose own steps were `ll-loop` commands.

A run keeps the machine it was started with. Both machines must have the same form to find out
whether the loop's file has changed since.
"""

from __future__ import annotations

import shlex

from little_loops.authoring.paradigms.relay import CONTRACT, ENDED, LABELS
from little_loops.fsm.schema import FSMLoop, StateConfig

COMMAND = "ll-loop relay "
SHOW_REPORT = 'cat "$LL_RUN_DIR/relay-report.txt"'
CONTRACT_V1 = (
    "before you end, write one JSON object to the file metadata_path: "
    '{"status": "partial", "requires_user_review": false, "reason": "", "partial_progress": '
    '{"stage": "", "phases_completed": 2, "phases_total": 4, "handoff_path": ""}, '
    '"artifacts": [], "summary_path": "", "errors": []}. '
    "status is implemented, partial, blocked or failed. requires_user_review is true only if a "
    "person has to decide something before anybody can go on; reason says what. When your context "
    "runs low, leave the work in a sound state, write a handoff file for your successor, name it in "
    "handoff_path and end with partial. The file counts, not what you print."
)
KEPT = ("metadata", "plan", "cwd")


def as_compiled_now(loop: FSMLoop) -> FSMLoop:
    """Return the machine that the same file would be compiled to now."""
    options = {
        name: _options(state.action)
        for name, state in loop.states.items()
        if state.action is not None and state.action.startswith(COMMAND)
    }
    # Only `prepare` got the session; now both do.
    session = {key: each[key] for each in options.values() for key in each if key == "session"}
    states = {
        name: _state(state, options.get(name), session) for name, state in loop.states.items()
    }
    return loop._replace(states=states)


def _options(action: str) -> dict[str, str]:
    """Parse the verb and the options of an `ll-loop relay` command."""
    verb, *words = shlex.split(action)[2:]
    given = (word.removeprefix("--").partition("=") for word in words)
    return {"verb": verb, **{name: value for name, _, value in given}}


def _state(
    state: StateConfig, given: dict[str, str] | None, session: dict[str, str]
) -> StateConfig:
    """Convert one state of version one."""
    if state.action == SHOW_REPORT:
        return _builtin(state, "report")
    if state.context.get("return_metadata") == CONTRACT_V1:
        return state._replace(context={**state.context, "return_metadata": CONTRACT})
    if given is None:
        return state
    context: dict[str, object] = {name: given[name] for name in KEPT if name in given}
    context |= session
    context |= {"commit": False} if "no-commit" in given else {}
    context |= ENDED if given["verb"] == "settle" else {}
    return _builtin(state, given["verb"])._replace(context=context, cwd=None)


def _builtin(state: StateConfig, name: str) -> StateConfig:
    return state._replace(action=f"relay.{name}", action_type="builtin", label=LABELS[name])
