"""What can happen to a run. A happening carries the time, because the machine reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.commands import Ending
from little_loops.fsm.state import (
    AgentWaitKind,
    Answer,
    Changed,
    Judgement,
    Limits,
    Result,
    SignalLine,
    When,
)
from little_loops.fsm.timestamps import Moment
from little_loops.records import NamedTuple


class Started(NamedTuple):
    at: Moment


class Resumed(NamedTuple):
    """A run continues, in this process or another one; processes of its last action have ended.

    `lost`: what is known of an agent's turn that was lost with its runner. `metered`: the user has
    set slots or a budget; `over_budget`: this resume disregards the budget. `answer`: what a person
    answered to the open gate; without one, a resume approves.
    """

    at: Moment
    orphans: tuple[str, ...] = ()
    from_state: str | None = None
    limits: Limits = Limits()
    context: Mapping[str, Any] = {}
    lost: Result | None = None
    metered: bool = False
    over_budget: bool = False
    answer: Answer | None = None


class ActionEnded(NamedTuple):
    """An action has ended; `stop` is the signal that requested it, if one did."""

    at: Moment
    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()
    stop: int | None = None


class Admitted(NamedTuple):
    """An agent's turn may start, and cost as much as was reserved for it; None: no budget."""

    at: Moment
    reserved_usd: float | None = None


class Queued(NamedTuple):
    """An agent's turn cannot start before others have ended."""

    at: Moment
    wait_for: AgentWaitKind
    reason: str


class Denied(NamedTuple):
    """A budget does not allow an agent's turn, or not before the given time."""

    at: Moment
    wait_for: AgentWaitKind
    reason: str
    until_wall_ms: int | None = None


class Judged(NamedTuple):
    at: Moment
    judgement: Judgement


class WaitOver(NamedTuple):
    at: Moment


class StopAsked(NamedTuple):
    """A signal arrived before the command was started; nothing ran."""

    at: Moment
    signal: int


class PathChange(NamedTuple):
    path: str
    kind: Literal["changed", "added", "deleted"]


class SnapshotTaken(NamedTuple):
    """The current content of the tree.

    `tampered`: protected paths that differ from the reference; `outside`: paths outside the scope
    that differ from the previous snapshot; `committed`: protected paths whose content in the
    checked-out commit differs from both the reference and the initial commit; `watched`: paths that
    the checks depend on, not protected by name, that differ from the previous snapshot.
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
    """A stop interrupted the last snapshot.

    `guard` and `tampered` describe the protected paths, which are read first; without `guard`,
    those were not read either.
    """

    at: Moment
    when: When
    ending: Ending
    guard: str | None = None
    tampered: tuple[PathChange, ...] = ()


class PathsRestored(NamedTuple):
    """Paths were restored; `failed` says why others were not."""

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
    """No process of the actions is left. `names`: the processes that had to be ended.

    `report`: a summary of the run, if none of its states printed one.
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
    | Admitted
    | Queued
    | Denied
    | Judged
    | WaitOver
    | StopAsked
    | SnapshotTaken
    | SnapshotCut
    | PathsRestored
    | StoreFailed
    | LeftoversEnded
)
