"""Hold back the end of an action until its verdict is known, to display it with the right mark.

A command that exits with 1 may have passed, and one that exits with 0 may have failed: the
condition decides, in a later event. Only the events between the two are held back.
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.endings import REDO
from little_loops.fsm.events import (
    ActionComplete,
    CheckResult,
    ConditionEval,
    Cost,
    Event,
    KeepBest,
    LoopError,
    LoopPaused,
    OutOfScope,
    ReferenceMoved,
    Restored,
    RunWarning,
    Sampled,
    SignalFound,
    Tampered,
    TransitionTaken,
    Tree,
    TreeUnread,
)
from little_loops.fsm.schema import PROOF_VERDICTS
from little_loops.light_typing import Literal

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
"""Events that can come between an action's end and its verdict."""
GOOD = ("pass", "target")
BAD = ("fail", "stall", "error", "timeout", *PROOF_VERDICTS)
NO_VERDICT = ("next", "route", "on_interrupt", "resume")
"""Reasons for a transition that are not verdicts."""
SIGNAL_MARKS: Mapping[str, Mark] = {"error": "bad", "handoff": "neutral", "stop": "neutral"}


WithVerdict = tuple[Event, Mark | None]
"""An event, and the mark of the action that ended, if its verdict is known."""


class HeldEnd:
    """Takes events, and returns them in the same order, some of them later."""

    def __init__(self) -> None:
        self._held: list[Event] = []

    def feed(self, event: Event) -> list[WithVerdict]:
        """Take an event. Return the events that can be displayed now."""
        is_end = isinstance(event, ActionComplete)
        if not self._held:
            if not is_end:
                return [(event, None)]  # most events
            self._held = [event]
            return []
        if isinstance(event, BETWEEN):
            self._held.append(event)
            return []
        held, self._held = self._held, [event] if is_end else []
        mark = _mark_of_event(event) or _mark_of_signal(held)
        shown: list[WithVerdict] = [
            (each, mark if isinstance(each, ActionComplete) else None) for each in held
        ]
        return shown if is_end else [*shown, (event, None)]


def _mark_of_signal(held: list[Event]) -> Mark | None:
    """Return the mark of a signal line, if there was one; it counts only if the next event has no
    verdict, because a timeout or a finding comes before it."""
    for event in held:
        if isinstance(event, SignalFound):
            return SIGNAL_MARKS.get(event.type)
    return None


def _mark_of_event(event: Event) -> Mark | None:
    """Return the mark that follows from the event after an action; None if it says nothing."""
    match event:
        case TransitionTaken(reason=reason):  # most often
            return None if reason in NO_VERDICT else _mark_of(reason.removeprefix("on_"))
        case ConditionEval(result=verdict):
            return _mark_of(verdict)
        case CheckResult(verdict=verdict):
            return _mark_of(verdict)
        case Sampled() | KeepBest():
            return "neutral"  # one of several measurements
        case LoopError(reason=reason) if reason in REDO:
            return "bad"  # the run ends because of it
        case LoopError(reason="terminal") | LoopPaused():
            return "neutral"  # a report about a failure is not a success
        case _:
            return None


def _mark_of(verdict: str) -> Mark:
    """Return the mark of a verdict; the author's own words and progress are neutral."""
    if verdict in GOOD:
        return "good"
    return "bad" if verdict in BAD else "neutral"
