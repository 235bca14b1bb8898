"""What can happen to a run. A happening carries the time, because the machine reads no clock."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.commands import Ending
from little_loops.fsm.commands import LeftoversEnded as LeftoversEnded
from little_loops.fsm.plain import Masked
from little_loops.fsm.state import (
    AgentWaitKind,
    Answer,
    Changed,
    Counted,
    Judgement,
    Limits,
    Result,
    SignalLine,
    Uncollected,
    When,
    Workspace,
)
from little_loops.fsm.timestamps import Moment
from little_loops.light_typing import Any, Literal
from little_loops.records import NamedTuple


class Started(NamedTuple):
    at: Moment


class Resumed(NamedTuple):
    """A run continues, in this process or another one; processes of its last action have ended.

    `lost`: what is known of an agent's turn that was lost with its runner. `metered`: the user has
    set slots or a budget; `over_budget`: this resume disregards the budget. `answer`: what a person
    answered to the open gate; without one, a resume approves. `answered`: the children at a gate
    that continue; `used`: what unfinished children have used in all.
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
    answered: tuple[str, ...] = ()
    used: Mapping[str, Counted] = {}


class ActionEnded(NamedTuple):
    """An action has ended; `stop` is the signal that requested it, if one did."""

    at: Moment
    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()
    stop: int | None = None


class ChildOutcome(NamedTuple):
    """How a run that a state started has ended, and what it has used in all.

    Its status is `crashed` if it ended without recording an ending.
    """

    status: str
    reason: str
    final_state: str = ""
    iterations: int = 0
    duration_ms: int = 0
    message: Masked[str] = ""
    cost_usd: float = 0.0
    tokens: int = 0
    turns: int = 0
    run_id: str = ""


class BranchesFound(NamedTuple):
    """The names of the branches of the current state, in their order; `problem` says why they are
    not known, or empty."""

    at: Moment
    names: tuple[str, ...] = ()
    problem: str = ""


class ChildEnded(NamedTuple):
    """One of the runs that the current state started has ended, paused or was interrupted."""

    at: Moment
    child: str
    outcome: ChildOutcome


class ChildrenOutOfTime(NamedTuple):
    """The loop's timeout passed while runs that the current state started were under way."""

    at: Moment


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
    """A budget does not allow an agent's turn, or not before the given time. `limit`: it is a limit
    of a run above this one, `max_cost` or `max_tokens`, and ends the run."""

    at: Moment
    wait_for: AgentWaitKind
    reason: str
    until_wall_ms: int | None = None
    limit: str | None = None


class LimitsKnown(NamedTuple):
    """Until when agents are limited, by their names in `fallbacks`, as far as the user's runs know."""

    at: Moment
    limited: Mapping[str, int] = {}


class JudgeAnswered(NamedTuple):
    """The judge has answered, or could not (`error`). `quotes` are the lines that it rests on,
    `restored` the paths that changed meanwhile; `stop` is the signal that interrupted it."""

    at: Moment
    judgement: Judgement
    result: Result
    quotes: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stop: int | None = None


class NothingCollected(NamedTuple):
    """There is no answer that counts to the question of a runner that was killed: it was never
    asked (`not_started`), its answer is gone (`unanswered`) or about other files (`lost`)."""

    at: Moment
    verdict: Uncollected
    reason: str
    result: Result = Result(None, 0)


class HookEnded(NamedTuple):
    """A hook has ended. `problem` says why it failed, empty if it did not; `stop` is the signal
    that interrupted it."""

    at: Moment
    name: str
    duration_ms: int = 0
    problem: str = ""
    stop: int | None = None
    ending: Ending | None = None


class Judged(NamedTuple):
    at: Moment
    judgement: Judgement


class WaitOver(NamedTuple):
    at: Moment


class StopAsked(NamedTuple):
    """A signal arrived before the command was started; nothing ran."""

    at: Moment
    signal: int


SETUP_FAILED = "`setup` of the workspace failed"


class CannotContinue(NamedTuple):
    """Whoever was to carry out the next command cannot: agents may not skip permission prompts there
    (`consent`), or preparing the workspace failed (`error`). Nothing ran."""

    at: Moment
    reason: Literal["consent", "error"]
    problem: Masked[str]


class PathChange(NamedTuple):
    path: str
    kind: Literal["changed", "added", "deleted"]


class SnapshotTaken(NamedTuple):
    """The current content of the tree.

    `tampered`: protected paths that differ from the reference; `outside`: paths outside the scope
    that differ from the previous snapshot; `committed`: protected paths whose content in the
    checked-out commit differs from both the reference and the initial commit; `watched`: paths that
    the checks depend on, not protected by name, that differ from the previous snapshot.

    After agents have worked in worktrees of the tree, `outside` are all paths that differ, except
    those in `landed`, which were merged from the worktrees. `original` is the snapshot of the project
    that the run's own worktree comes from, and `strayed` are the paths that differ there. `patch` has
    the differences that `outside` and `strayed` are about in those two cases.
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
    landed: tuple[str, ...] = ()
    original: str | None = None
    strayed: tuple[str, ...] = ()
    patch: str = ""


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
    """Paths were restored; `failed` says why others were not.

    `project` is the snapshot after that, if one was taken, `kept` one of the protected paths before.
    """

    at: Moment
    of: Literal["protected", "outside", "change"]
    paths: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    ending: Ending | None = None
    project: str | None = None
    kept: str | None = None


class StoreFailed(NamedTuple):
    """The store of trees is missing or damaged, or could not be written."""

    at: Moment
    why: str


class WorktreePrepared(NamedTuple):
    """The run has its worktree."""

    at: Moment
    workspace: Workspace
    warnings: tuple[str, ...] = ()


class WorkSaved(NamedTuple):
    """The work of the run is committed; `commit` is None if it has changed nothing."""

    at: Moment
    ended: LeftoversEnded
    commit: str | None = None
    files: int = 0


class BaseFound(NamedTuple):
    """The commit that worktrees begin at, and the branch that is checked out."""

    at: Moment
    base: str
    onto: str | None = None


class TrainReady(NamedTuple):
    """The commit that branches are merged on top of."""

    at: Moment
    head: str
    ended: LeftoversEnded | None = None


class MergeTried(NamedTuple):
    """A branch was merged; without `commit`, there is a conflict."""

    at: Moment
    branch: str
    commit: str | None = None
    files: tuple[str, ...] = ()
    reason: str = ""
    ended: LeftoversEnded | None = None


class MergedTreeChecked(NamedTuple):
    """The check of a merged tree has ended; `reason` says why it did not pass."""

    at: Moment
    branch: str
    passed: bool
    reason: str = ""
    ended: LeftoversEnded | None = None


class LandingTried(NamedTuple):
    """The user's branch was moved; or it has other commits now (`moved_to`), or was left alone for
    the `reason`, and `command` moves it."""

    at: Moment
    moved_to: str | None = None
    reason: str = ""
    command: str = ""
    ended: LeftoversEnded | None = None


class WorktreesGone(NamedTuple):
    """Worktrees were removed; `kept` are the paths of those that are still there."""

    at: Moment
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ended: LeftoversEnded | None = None


class WorktreeFailed(NamedTuple):
    """Git could not do what was asked of it for a worktree, or for merging."""

    at: Moment
    problem: str
    ended: LeftoversEnded | None = None


WorktreeHappening = (
    WorktreePrepared
    | WorkSaved
    | BaseFound
    | TrainReady
    | MergeTried
    | MergedTreeChecked
    | LandingTried
    | WorktreesGone
    | WorktreeFailed
)
Happening = (
    Started
    | Resumed
    | ActionEnded
    | BranchesFound
    | ChildEnded
    | ChildrenOutOfTime
    | Admitted
    | Queued
    | Denied
    | LimitsKnown
    | JudgeAnswered
    | NothingCollected
    | HookEnded
    | Judged
    | WaitOver
    | StopAsked
    | CannotContinue
    | SnapshotTaken
    | SnapshotCut
    | PathsRestored
    | StoreFailed
    | LeftoversEnded
    | WorktreeHappening
)
