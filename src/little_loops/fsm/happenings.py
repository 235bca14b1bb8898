"""What can happen to a run.  A happening brings the time with it: the machine reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from little_loops.fsm.commands import Ending
from little_loops.fsm.state import Judgement, Limits, Result, SignalLine
from little_loops.records import NamedTuple


class Moment(NamedTuple):
    """Now: by the wall clock, and in milliseconds this run has been running in all."""

    wall_ms: int
    ran_ms: int


class Started(NamedTuple):
    at: Moment


class Resumed(NamedTuple):
    """A run goes on, in this process or another one; what was left of its action is gone.

    `lost_tokens`: what the turn had reported whose end nobody saw.
    """

    at: Moment
    orphans: tuple[str, ...] = ()
    from_state: str | None = None
    limits: Limits = Limits()
    context: Mapping[str, Any] = {}
    lost_tokens: int = 0


class ActionEnded(NamedTuple):
    """An action is over; `stop` is the signal that asked for its end, if one did."""

    at: Moment
    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()
    stop: int | None = None


class Judged(NamedTuple):
    at: Moment
    judgement: Judgement


class WaitOver(NamedTuple):
    at: Moment


class StopAsked(NamedTuple):
    """A signal came before the command was begun; nothing was started."""

    at: Moment
    signal: int


class LeftoversEnded(NamedTuple):
    at: Moment
    ending: Ending
    names: tuple[str, ...] = ()


Happening = Started | Resumed | ActionEnded | Judged | WaitOver | StopAsked | LeftoversEnded
