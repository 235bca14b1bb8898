"""Reduce a loop to its checks: run each once, in order, until one does not pass.

The states keep their conditions; only their transitions are replaced.
"""

from __future__ import annotations

from little_loops.fsm.actions import action_of, is_shells
from little_loops.fsm.schema import (
    NOISE,
    PROOF_VERDICTS,
    SOFT_VERDICTS,
    Convergence,
    Evidence,
    FSMLoop,
    StateConfig,
)
from little_loops.fsm.values import author_context
from little_loops.light_typing import Any
from little_loops.templates.render import TemplateError, Unresolved

# No state of a loop can have these names, because they contain a space.
ALL_PASSED = "all passed"
NOT_PASSED = "not passed"
PASSING = ("pass", "target")


def checks_of(loop: FSMLoop) -> tuple[str, ...]:
    """Return the names of the states that are checks, in order."""
    return tuple(name for name, state in loop.states.items() if state.check and state.action)


def shell_checks_of(loop: FSMLoop) -> tuple[str, ...]:
    """Return the checks that a shell runs, including those whose action is invalid and will be an
    error."""
    return tuple(name for name in checks_of(loop) if _is_shells(loop, loop.states[name]))


def _is_shells(loop: FSMLoop, state: StateConfig) -> bool:
    """Return whether a shell runs the action; also True if its type is only known at run time."""
    try:
        return is_shells(action_of(state, author_context(loop.context, state)))
    except (TemplateError, Unresolved):
        return True


def check_machine(loop: FSMLoop, checks: tuple[str, ...]) -> FSMLoop:
    """Return a machine that runs these checks in order, once each and without evidence, and fails
    at the first that does not pass. A check whose result is only stored is judged by the state that
    judges it in the loop. `checks` must not be empty."""
    states: dict[str, StateConfig] = {}
    for name, to in zip(checks, (*checks[1:], ALL_PASSED), strict=True):
        states |= _with_its_judge(loop, name, to)
    states[ALL_PASSED] = StateConfig(terminal=True, outcome="success")
    states[NOT_PASSED] = StateConfig(terminal=True, outcome="failure")
    return loop._replace(
        initial=checks[0],
        states=states,
        max_iterations=len(states),
        maintain=False,
        on_error=None,
        on_timeout=None,
        evidence=Evidence(enabled=False),
    )


def _with_its_judge(loop: FSMLoop, name: str, target: str) -> dict[str, StateConfig]:
    """Return the states that run and judge a check, with its pass leading to `target`."""
    judge = _judging_state(loop, name)
    if judge is None:
        return {name: _with_pass_to(loop.states[name], target)}
    judging = f"{name}, judged"
    stored = _with_pass_to(loop.states[name], judging)._replace(
        capture_exit=True, next=judging, on_pass=None, on_fail=None, on_progress=None, on_stall=None
    )
    return {name: stored, judging: _with_pass_to(loop.states[judge], target)}


def _judging_state(loop: FSMLoop, name: str) -> str | None:
    """Return the next state without an action, if the result of a check is only stored; None if the
    check judges itself."""
    at = loop.states[name].next if loop.states[name].capture_exit else None
    seen: set[str] = set()
    while at is not None and at in loop.states and at not in seen:
        state = loop.states[at]
        if state.action is None:
            return None if state.terminal else at
        seen.add(at)
        at = state.next
    return None


def decided_by(loop: FSMLoop) -> tuple[Any, ...]:
    """Return everything that decides whether a loop's shell checks pass, for comparison: equal
    checks give equal values."""
    checks = shell_checks_of(loop)
    states = check_machine(loop, checks).states if checks else {}
    judged = {name: state.to_dict() for name, state in states.items()}
    given = (dict(loop.context), dict(loop.env), loop.cwd, loop.shell)
    return judged, checks, given, loop.evidence.setup


def _with_pass_to(state: StateConfig, target: str) -> StateConfig:
    """Return the state with its pass leading to `target`, failures ending the run and no transition
    for errors.

    `on_target` is kept if it was written, because it implies a condition.
    """
    to = {
        f"on_{verdict}": None for verdict in (*SOFT_VERDICTS, "error", "timeout", *PROOF_VERDICTS)
    }
    passes = {f"on_{verdict}": target for verdict in PASSING}
    if state.on_target is None:
        del passes["on_target"]
    fails = {f"on_{verdict}": NOT_PASSED for verdict in SOFT_VERDICTS if verdict not in PASSING}
    changed: dict[str, Any] = {
        **to,
        **fails,
        **passes,
        "next": None,
        "on_words": {},
        "route": {},
        "retry": None,
        "judge": None,
        "capture_exit": False,
    }
    if isinstance(state.condition, Convergence):
        # Nothing is changed, so there is nothing to keep.
        changed["condition"] = state.condition._replace(keep=None, min_gain=NOISE)
    return state._replace(**changed)
