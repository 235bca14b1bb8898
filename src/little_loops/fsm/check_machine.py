"""A loop reduced to its checks: each once, in order, until one does not pass.

The states keep all they are judged by; only where their verdicts lead is replaced.
"""

from __future__ import annotations

from typing import Any

from little_loops.fsm.actions import action_of, is_shells
from little_loops.fsm.schema import (
    PROOF_VERDICTS,
    SOFT_VERDICTS,
    Evidence,
    FSMLoop,
    StateConfig,
)
from little_loops.fsm.values import author_context
from little_loops.templates.render import TemplateError, Unresolved

# With a blank in it, no state of a loop has such a name.
ALL_PASSED = "all passed"
NOT_PASSED = "not passed"
PASSING = ("pass", "target")


def checks_of(loop: FSMLoop) -> tuple[str, ...]:
    """The states that are checks, in their order."""
    return tuple(name for name, state in loop.states.items() if state.check and state.action)


def shell_checks_of(loop: FSMLoop) -> tuple[str, ...]:
    """The checks that a shell runs; one that cannot be read is among them, and ends as an error."""
    return tuple(name for name in checks_of(loop) if _is_shells(loop, loop.states[name]))


def _is_shells(loop: FSMLoop, state: StateConfig) -> bool:
    try:
        return is_shells(action_of(state, author_context(loop.context, state)))
    except (TemplateError, Unresolved):
        return True


def check_machine(loop: FSMLoop, checks: tuple[str, ...]) -> FSMLoop:
    """A machine that runs these checks; at least one."""
    targets = (*checks[1:], ALL_PASSED)
    states = {
        name: _leading(loop.states[name], to) for name, to in zip(checks, targets, strict=True)
    }
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


def decided_by(loop: FSMLoop) -> tuple[Any, ...]:
    """All that says whether the shell's checks of a loop pass; equal where they are the same."""
    checks = shell_checks_of(loop)
    states = check_machine(loop, checks).states if checks else {}
    judged = {name: state.to_dict() for name, state in states.items()}
    given = (dict(loop.context), dict(loop.env), loop.cwd, loop.shell)
    return judged, checks, given, loop.evidence.setup


def _leading(state: StateConfig, target: str) -> StateConfig:
    """The state with a pass that leads on, and failures that end; errors have no transition.

    `on_target` stays where it was written: it makes a condition of its own.
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
        "capture_exit": False,
    }
    return state._replace(**changed)
