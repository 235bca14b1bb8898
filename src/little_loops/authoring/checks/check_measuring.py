"""Check states that measure a number several times, or revert changes that are not better."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.texts import Path
from little_loops.errors import Problem
from little_loops.fsm.schema import (
    Convergence,
    OutputNumeric,
    StateConfig,
    effective_condition,
    keeps_best,
)

KEEP = "`keep: best`"


def check_measuring(of: Inspection) -> Iterator[Problem]:
    """Report `repeat` and `keep: best` where they cannot work."""
    keepers = []
    for name, state in of.loop.states.items():
        if of.gaps.unsure(name):
            continue
        if state.repeat > 1:
            path: Path = ("states", name, "repeat")
            yield from _check_repeat(of, name, state, path)
            yield from _check_own_output(of, name, state, "`repeat`", path)
        if keeps_best(state):
            keepers.append(name)
            yield from _check_keep(of, name, state)
    for name in keepers[1:]:
        message = f"states `{keepers[0]}` and `{name}` both have {KEEP}"
        yield _error(
            of,
            message,
            _keep(name),
            "remove one of them: only one measurement can decide which files are the best",
        )


def _check_repeat(of: Inspection, name: str, state: StateConfig, path: Path) -> Iterator[Problem]:
    """Report `repeat` on a state that does not measure a number."""
    if not isinstance(effective_condition(state), Convergence | OutputNumeric):
        message = f"`repeat` of state `{name}` needs a number, of which the median counts"
        help = "add a condition of type `convergence` or `output_numeric`, or remove `repeat`"
        yield _error(of, message, path, help)


def _check_keep(of: Inspection, name: str, state: StateConfig) -> Iterator[Problem]:
    """Report `keep: best` without a check of its own, or without evidence."""
    path = _keep(name)
    yield from _check_own_output(of, name, state, KEEP, path)
    if not state.check:
        message = f"{KEEP} needs a check, but state `{name}` is not one"
        yield _error(of, message, path, f"add `check: true` to state `{name}`")
    if of.loop.evidence.enabled is False:
        message = f"{KEEP} needs evidence, which the loop turns off"
        yield _error(of, message, path, f"remove `evidence: false`, or {KEEP}")


def _check_own_output(
    of: Inspection, name: str, state: StateConfig, what: str, path: Path
) -> Iterator[Problem]:
    """Report a state whose number is not the output of its own shell command."""
    if name not in of.actions or name in of.agents:
        message = f"{what} needs a shell command that prints a number, but state `{name}` has none"
        yield _error(of, message, path, f"write the command as its `action`, or remove {what}")
    elif state.capture_exit or (state.condition is not None and state.condition.source is not None):
        message = f"{what} measures the output of the state's own action"
        help = "remove `source` and `capture_exit`; another state can use the result"
        yield _error(of, message, path, help)


def _keep(name: str) -> Path:
    return ("states", name, "condition", "keep")


def _error(of: Inspection, message: str, path: Path, help: str) -> Problem:
    return of.error("LL218", message, *path, help=help)
