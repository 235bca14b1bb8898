"""The commands that the machine gives to the engine. Exactly one happening answers each command."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.events import FinalKind
from little_loops.fsm.schema import Condition, Hook, HostOptions, JudgeConfig, Worktree
from little_loops.fsm.state import (
    Children,
    Judgement,
    LandedCommits,
    Metric,
    NotKept,
    Status,
    Train,
    WaitFor,
    When,
    Workspace,
)
from little_loops.fsm.timestamps import Moment
from little_loops.light_typing import Any, Literal, get_args
from little_loops.records import NamedTuple


class Job(NamedTuple):
    """What every action needs, whoever runs it: its place in the run, its values, its time limits.

    Texts are templates in which the author's context has already been filled in.
    """

    state: str
    step: int
    attempt: int
    iteration: int
    iteration_limit: int
    context: Mapping[str, Any]
    env: Mapping[str, str]
    cwd: str | None
    kill_grace_s: float
    deadline_ms: int | None
    deadline_of: Literal["action", "loop"]
    continuation: str | None = None
    idle_s: float | None = None


class CopySource(NamedTuple):
    """What a clean copy is made of: the stored project, and the protected files of the reference.

    `writes` are the paths that checks have changed in the project, so they may change in the copy
    too. `first` is the project at the start of the run.
    """

    project: str
    reference: str
    setup: str | None = None
    writes: tuple[str, ...] = ()
    first: str | None = None


class RunShell(NamedTuple):
    """Run a script, in the project or in a clean copy of it."""

    job: Job
    script: str
    shell: str
    copy: CopySource | None = None


class RunAgent(NamedTuple):
    """Run one turn of an agent, in a session whose id is chosen before it starts."""

    job: Job
    text: str
    is_slash: bool
    host: HostOptions
    session_id: str
    words: tuple[str, ...] | None = None
    cost_left_usd: float | None = None
    restored: tuple[str, ...] = ()
    """Protected paths that an agent changed and the run restored."""
    notes: tuple[str, ...] = ()
    """Notes from people, and why a judge did not confirm a pass, for this agent."""
    not_kept: NotKept | None = None
    """The change that was reverted because it was not better."""


class Admit(NamedTuple):
    """Let an agent's turn start: hold a slot and reserve what it may cost, at most `most_usd`.

    `waits`: wait for it; otherwise only see whether it can start at once. `is_session`: let a
    session start that resumes the run, after the handoff of this attempt.
    """

    state: str
    step: int
    attempt: int
    most_usd: float | None = None
    waits: bool = False
    is_session: bool = False


class AskJudge(NamedTuple):
    """Ask an agent that may only read for a second opinion. `since` is the project at the start of
    the run, `reference` the expected content of protected paths; None without evidence."""

    job: Job
    judge: JudgeConfig
    host: HostOptions
    session_id: str
    cost_left_usd: float | None = None
    since: str | None = None
    reference: str | None = None


class CollectJudge(NamedTuple):
    """Collect the answer to this question, which a runner that was killed has asked."""

    question: AskJudge


class LookUpLimits(NamedTuple):
    """Look up which of these agents have met a usage limit that lasts, in any run of the user."""

    hosts: tuple[str, ...]


class RunBuiltin(NamedTuple):
    """Run a built-in action in this process; `job.context` holds its arguments."""

    job: Job
    name: str


class FindBranches(NamedTuple):
    """Find out which branches the current state has; `step` and `attempt` are those in which they
    will run."""

    state: str
    step: int
    attempt: int


class RunChildren(NamedTuple):
    """Start these runs and stop those, then wait for the next one that ends.

    `state`, `step` and `attempt` are those of the action that the runs belong to. `deadline_ms` is
    how long the run itself may take. `resumed`: those that had paused, and continue now. `is_last`:
    the run stops once they have.
    """

    state: str
    step: int
    attempt: int
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    deadline_ms: int | None = None
    is_last: bool = False
    width: int = 1
    """How many of them may still run at once; each may use its share of the rest of a cost limit."""


class GatherChildren(NamedTuple):
    """Turn the results of ended runs into the result of the state that started them."""

    state: str
    children: Children
    judgement: Judgement


class Ending(NamedTuple):
    """How a run ends: a row of the manual's table of endings, and a message."""

    status: Status
    reason: str
    event: FinalKind
    exit_code: int
    message: str = ""
    spawn: bool = False


class LeftoversEnded(NamedTuple):
    """What happens when no process of the actions is left: here, because the commands that save the
    work of a run carry it along. `names`: the processes that had to be ended.

    `report`: a summary of the run, if none of its states printed one. `result`: the values of the
    loop's `result`.
    """

    at: Moment
    ending: Ending
    names: tuple[str, ...] = ()
    report: str = ""
    warnings: tuple[str, ...] = ()
    result: Mapping[str, Any] | None = None


class PrepareWorktree(NamedTuple):
    """Add the run's worktree with the files of its commit, and run `setup` there."""

    worktree: Worktree
    job: Job
    shell: str


class CommitWork(NamedTuple):
    """Commit what the run has changed in its worktree, on its own branch."""

    workspace: Workspace
    ended: LeftoversEnded


class FindBase(NamedTuple):
    """Find the commit that the worktrees of a state begin at, and the branch that is checked out."""

    state: str
    from_: str


class StartTrain(NamedTuple):
    """Find the commit that the branches are merged on top of."""

    train: Train
    ended: LeftoversEnded | None = None


class MergeBranch(NamedTuple):
    """Merge the branch of a run with those before it. `branch` is the name of a child; None: this
    run's own branch."""

    worktree: Worktree
    train: Train
    branch: str
    children: Children | None
    ended: LeftoversEnded | None = None


class CheckMerged(NamedTuple):
    """Run the check of the worktree on a merged tree, in a clean copy; `is_new` is False if the
    branches have changed nothing."""

    worktree: Worktree
    job: Job
    shell: str
    branch: str
    commit: str
    ended: LeftoversEnded | None = None
    is_new: bool = True


class LandTrain(NamedTuple):
    """Move the user's branch to the merged commit, by a fast-forward."""

    train: Train
    ended: LeftoversEnded | None = None


class ClearWorktrees(NamedTuple):
    """Remove the worktrees that are not kept, if their content is committed. `branches` are names
    of children; None: this run's own. `save`: commit what is not."""

    branches: tuple[str, ...]
    kept: tuple[str, ...]
    children: Children | None
    save: bool = False
    ended: LeftoversEnded | None = None


WorktreeCommand = (
    PrepareWorktree
    | CommitWork
    | FindBase
    | StartTrain
    | MergeBranch
    | CheckMerged
    | LandTrain
    | ClearWorktrees
)
WORKTREE_COMMANDS: tuple[type[WorktreeCommand], ...] = get_args(WorktreeCommand)
RunAction = RunShell | RunAgent | RunBuiltin


class Judge(NamedTuple):
    """Judge the result of the action of state `of`, or what the condition's `source` names."""

    condition: Condition
    of: str | None
    memory: Metric | None = None
    samples: tuple[float, ...] = ()
    """Earlier measurements; the median of these and this one is judged."""


class Wait(NamedTuple):
    """Do nothing until the given time, or until the loop's timeout."""

    wait: WaitFor
    deadline_ms: int | None = None


class OriginalLook(NamedTuple):
    """Take a snapshot of the original project, and compare it with the one `since`, if there is
    one."""

    since: str | None = None


class TakeSnapshot(NamedTuple):
    """Record the content of the tree.

    `since` is the project of the previous snapshot, `reference` the expected content of protected
    paths, `compare` lists further projects to compare with. With `ending`, the run ends after it.
    `apart`: agents have worked in worktrees of the tree since then, and `landed` was merged from
    those, unless that was not carried out. `original`: also look at the project that the run's own
    worktree comes from.
    """

    state: str
    step: int
    attempt: int
    when: When
    since: str | None
    reference: str | None
    compare: tuple[str, ...] = ()
    ending: Ending | None = None
    late: bool = False
    apart: bool = False
    landed: LandedCommits | None = None
    original: OriginalLook | None = None


class RestoreProtected(NamedTuple):
    """Restore the protected paths to their content in `reference`. `found` is the latest snapshot of
    them: after a kill, all that differed there may have been restored already."""

    reference: str
    existing_only: bool = False
    ending: Ending | None = None
    found: str | None = None


class PutBack(NamedTuple):
    """Restore what an agent changed outside the scope to its content in `project`, and keep a
    patch.

    Protected paths that differ from `reference` are left to the rule about protected paths.
    """

    project: str
    reference: str | None
    ending: Ending | None = None


class RunHook(NamedTuple):
    """Run a hook; `name` is its field in the file, and it reads `about` as JSON.

    `event_id` is the same if the hook runs again after a crash. With `ending`, the run ends after
    it.
    """

    name: str
    hook: Hook
    job: Job
    event_id: str
    about: Mapping[str, Any]
    shell: str = "sh"
    ending: Ending | None = None


class RestoreBest(NamedTuple):
    """Restore the files within the scope to their content in `project`, the best one.

    Protected paths that equal `reference` stay as they are.
    """

    project: str
    reference: str | None
    ending: Ending | None = None


class EndLeftovers(NamedTuple):
    """End processes that the actions left running, before the run reports its ending."""

    ending: Ending


class Finish(NamedTuple):
    ending: Ending


TreeCommand = TakeSnapshot | RestoreProtected | PutBack | RestoreBest
ChildCommand = FindBranches | RunChildren | GatherChildren
Command = (
    RunShell
    | RunAgent
    | RunBuiltin
    | ChildCommand
    | WorktreeCommand
    | RunHook
    | Admit
    | LookUpLimits
    | AskJudge
    | CollectJudge
    | Judge
    | Wait
    | TreeCommand
    | EndLeftovers
    | Finish
)
