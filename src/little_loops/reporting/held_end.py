"""Hold the end of an action back until its verdict is known, so that it is shown with its sign.

A command that exits with 1 may have passed and one that exits with 0 may have failed: the condition
says so, in the next event.  Nothing else is held back but what stands between the two.
"""

from __future__ import annotations

from little_loops.fsm.events import (
    ActionComplete,
    CheckResult,
    ConditionEval,
    Cost,
    Event,
    OutOfScope,
    ReferenceMoved,
    Restored,
    RunWarning,
    SignalFound,
    Tampered,
    Transition,
    Tree,
)
from little_loops.records import NamedTuple

BETWEEN = (Cost, SignalFound, RunWarning, Tree, Tampered, OutOfScope, Restored, ReferenceMoved)
"""Events that may stand between the end of an action and its verdict."""
GOOD = ("pass", "target", "progress")
BAD = ("fail", "stall", "error", "timeout")


class WithVerdict(NamedTuple):
    """An event; `passed` is the verdict on an action that has ended, if there is one."""

    event: Event
    passed: bool | None = None


class HeldEnd:
    """Events in, events out in the same order."""

    def __init__(self) -> None:
        self._held: list[Event] = []

    def feed(self, event: Event) -> list[WithVerdict]:
        """What can be shown now."""
        is_end = isinstance(event, ActionComplete)
        if not self._held and not is_end:
            return [WithVerdict(event)]  # as most
        if isinstance(event, BETWEEN):
            self._held.append(event)
            return []
        held, self._held = self._held, [event] if is_end else []
        passed = _passed(event)
        shown = [
            WithVerdict(each, passed if isinstance(each, ActionComplete) else None) for each in held
        ]
        return shown if is_end else [*shown, WithVerdict(event)]


def _passed(event: Event) -> bool | None:
    match event:
        case ConditionEval():
            verdict = event.result
        case CheckResult():
            verdict = event.verdict
        case Transition():
            verdict = event.reason.removeprefix("on_")
        case _:
            return None
    return verdict in GOOD if verdict in GOOD + BAD else None
