"""Hold the end of an action back until its verdict is known, so that it is shown with its sign.

A command that exits with 1 may have passed and one that exits with 0 may have failed: the condition
says so, in the next event.  Nothing else is held back but what stands between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from little_loops.fsm.endings import REDO
from little_loops.fsm.events import (
    ActionComplete,
    CheckResult,
    ConditionEval,
    Cost,
    Event,
    LoopError,
    LoopPaused,
    OutOfScope,
    ReferenceMoved,
    Restored,
    RunWarning,
    SignalFound,
    Tampered,
    TransitionTaken,
    Tree,
    TreeUnread,
)
from little_loops.fsm.schema import PROOF_VERDICTS
from little_loops.records import NamedTuple

Mark = Literal["good", "bad", "neutral"]

BETWEEN = (
    Cost,
    SignalFound,
    RunWarning,
    Tree,
    TreeUnread,
    Tampered,
    OutOfScope,
    Restored,
    ReferenceMoved,
)
"""Events that may stand between the end of an action and its verdict."""
GOOD = ("pass", "target")
BAD = ("fail", "stall", "error", "timeout", *PROOF_VERDICTS)
NO_VERDICT = ("next", "route", "on_interrupt", "resume")
"""Reasons of a transition that name no verdict."""
SIGNAL_MARKS: Mapping[str, Mark] = {"error": "bad", "handoff": "neutral", "stop": "neutral"}


class WithVerdict(NamedTuple):
    """An event; `mark` is what the verdict makes of an action that has ended, if there is one."""

    event: Event
    mark: Mark | None = None


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
        mark = _signalled(held) or _judged(event)
        shown = [
            WithVerdict(each, mark if isinstance(each, ActionComplete) else None) for each in held
        ]
        return shown if is_end else [*shown, WithVerdict(event)]


def _signalled(held: list[Event]) -> Mark | None:
    """What a signal line makes of it: with one, the exit code is recorded and not judged."""
    for event in held:
        if isinstance(event, SignalFound):
            return SIGNAL_MARKS.get(event.type)
    return None


def _judged(event: Event) -> Mark | None:
    match event:
        case ConditionEval(result=verdict):
            return _mark_of(verdict)
        case CheckResult(verdict=verdict):
            return _mark_of(verdict)
        case TransitionTaken(reason=reason) if reason not in NO_VERDICT:
            return _mark_of(reason.removeprefix("on_"))
        case LoopError(reason=reason) if reason in REDO:
            return "bad"  # the run ends because of it
        case LoopError(reason="terminal") | LoopPaused():
            return "neutral"  # a report on what went wrong is no success
        case _:
            return None


def _mark_of(verdict: str) -> Mark:
    """A word of the author's own is neither good nor bad, and nor is progress: it is not there yet."""
    if verdict in GOOD:
        return "good"
    return "bad" if verdict in BAD else "neutral"
