"""What can happen to a run.  A happening brings the time with it: the machine reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.commands import Ending
from little_loops.fsm.state import Changed, Judgement, Limits, Result, SignalLine, When
from little_loops.records import NamedTuple


class Moment(NamedTuple):
    """Now: by the wall clock, and in milliseconds this run has been running in all."""

    wall_ms: int
    ran_ms: int


class Started(NamedTuple):
    at: Moment


class Resumed(NamedTuple):
    """A run goes on, in this process or another one; what was left of its action is gone.

    `lost`: what is known of an agent's turn whose end nobody saw.
    """

    at: Moment
    orphans: tuple[str, ...] = ()
    from_state: str | None = None
    limits: Limits = Limits()
    context: Mapping[str, Any] = {}
    lost: Result | None = None


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


class PathChange(NamedTuple):
    path: str
    kind: Literal["changed", "added", "deleted"]


class SnapshotTaken(NamedTuple):
    """What the tree is like now.

    `tampered`: protected paths that differ from the reference; `outside`: paths outside the scope
    that differ from the snapshot before; `committed`: protected paths that the commit checked out
    now has otherwise than both the reference and the commit at the start; `watched`: paths that the
    checks are made of, not protected by name, that differ from the snapshot before.
    """

    at: Moment
    when: When
    tree: str
    project: str
    guard: str
    changed: Changed = Changed()
    compared: tuple[Changed, ...] = ()
    tampered: tuple[PathChange, ...] = ()
    outside: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ending: Ending | None = None
    late: bool = False
    watched: tuple[str, ...] = ()


class SnapshotCut(NamedTuple):
    """A stop cut the last look at the tree short.

    `guard` and `tampered` are of the protected paths, which come first; no guard if those were not
    read either.
    """

    at: Moment
    when: When
    ending: Ending
    guard: str | None = None
    tampered: tuple[PathChange, ...] = ()


class PathsRestored(NamedTuple):
    """Paths are as they were before; `failed` says of others why they are not."""

    at: Moment
    of: Literal["protected", "outside"]
    paths: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    ending: Ending | None = None


class StoreFailed(NamedTuple):
    """The store of trees is missing or damaged, or could not be written."""

    at: Moment
    why: str


class LeftoversEnded(NamedTuple):
    """Nothing is left of the actions.  `names`: the processes that were ended for that.

    `report`: what the run has done, where none of its states has told it.
    """

    at: Moment
    ending: Ending
    names: tuple[str, ...] = ()
    report: str = ""
    warnings: tuple[str, ...] = ()


Happening = (
    Started
    | Resumed
    | ActionEnded
    | Judged
    | WaitOver
    | StopAsked
    | SnapshotTaken
    | SnapshotCut
    | PathsRestored
    | StoreFailed
    | LeftoversEnded
)
