"""The events of a run: one class per kind.

The log has one line per event: the event's own fields, which `codec` writes in this order, and
those of its `Entry`. The classes are the contract with every reader of the log: the reference page
is generated from their docstrings and fields.

Not here: what an event changes in a run (`evolve`), how it is printed (`reporting.lines`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.plain import Inline, Masked, keys
from little_loops.fsm.state import (
    AgentWaitKind,
    Answer,
    Changed,
    FileRef,
    Halt,
    JudgeVerdict,
    Limits,
    Result,
    SignalLine,
    Stage,
    Status,
    WaitKind,
    When,
)
from little_loops.light_typing import Any, Literal
from little_loops.records import NamedTuple


class LoopStart(NamedTuple):
    """A run starts."""

    loop: str
    initial: str
    scope: tuple[str, ...]
    format: int | None = None
    limits: Limits = Limits()
    evidence: str | None = None
    metered: bool = False


class StateEnter(NamedTuple):
    """A state is entered."""

    state: str
    iteration: int
    step: int
    reason: str
    at_limit: bool = False


class ActionStart(NamedTuple):
    """An action is about to run; written before it does."""

    action: Masked[str]
    state: str
    attempt: int
    action_type: str
    terminal: bool = False
    session_id: str | None = None
    label: str | None = None
    place: Literal["here", "clean"] = "here"
    is_check: bool = False
    filled: Masked[str | None] = None
    has_agents: bool = False
    apart: bool = False


class ActionComplete(NamedTuple):
    """An action ended, or was ended at its deadline."""

    # The fields of `result` are written beside the others.
    # `gives_way`: its agent could not do it, so that the next one gets it.

    state: str
    result: Inline[Result]
    signal_line: SignalLine | None = None
    capture: str | None = None
    gives_way: bool = False


class PartialResult(NamedTuple):
    """What is known of an interrupted action."""

    exit_code: int | None
    duration_ms: int
    output: Masked[str | None]
    stderr: Masked[str | None]
    output_file: FileRef | None = None
    stderr_file: FileRef | None = None
    stream_file: FileRef | None = None
    open_ended: bool = False
    stderr_open_ended: bool = False
    order: tuple[int, ...] = ()
    order_file: str | None = None
    signal: int | None = None


class ActionInterrupted(NamedTuple):
    """An action was interrupted, or lost because its runner was killed."""

    state: str
    attempt: int
    cause: str
    started: bool = True
    result: Inline[PartialResult | None] = None


class ChildrenPlanned(NamedTuple):
    """A state is about to start other runs; `names` has a name for each of them. `several`: they
    are branches."""

    state: str
    step: int
    attempt: int
    names: tuple[str, ...]
    several: bool = False


class ChildStart(NamedTuple):
    """A run that a state starts begins, or continues; written before its process is started."""

    state: str
    child: str
    again: bool = False


class ChildEnd(NamedTuple):
    """A run that a state started has ended, paused or was interrupted."""

    state: str
    child: str
    stage: Stage
    status: str
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    message: Masked[str] = ""
    cost_usd: float = 0.0
    tokens: int = 0
    turns: int = 0
    run_id: str = ""


class ChildrenJoined(NamedTuple):
    """Enough branches of a state have ended to know its verdict; those that still run are
    stopped."""

    state: str
    verdict: str
    reason: str


class ChildrenHalted(NamedTuple):
    """The runs that a state started are stopped, because the run itself stops."""

    state: str
    halt: Inline[Halt]


class WorktreeReady(NamedTuple):
    """The run has a git worktree, set up, and works there."""

    # `branch` is its own, which began at the commit `base`; `onto` was checked out in the project.
    path: str
    branch: str
    base: str
    onto: str | None = None


class WorkCommitted(NamedTuple):
    """What the run has done in its worktree is committed on its branch."""

    # `commit` is missing if nothing was changed.
    branch: str
    commit: str | None = None
    files: int = 0


class BranchBase(NamedTuple):
    """The runs that a state is about to start get worktrees that begin at this commit."""

    state: str
    base: str
    onto: str | None = None


class TrainStart(NamedTuple):
    """Branches are merged on top of this commit; `again`: the user's branch has moved meanwhile."""

    onto: str | None
    head: str
    base: str
    again: bool = False


class BranchMerged(NamedTuple):
    """A branch was merged with those before it, or is in conflict with them."""

    # Without `commit`, there is a conflict in `files`.
    branch: str
    commit: str | None = None
    to_check: bool = False
    files: tuple[str, ...] = ()
    reason: Masked[str] = ""


class MergeChecked(NamedTuple):
    """The check of the worktree ran on a merged tree, in a clean copy."""

    branch: str
    commit: str
    passed: bool
    reason: Masked[str] = ""


class ResolveStart(NamedTuple):
    """A run starts that is to resolve a branch which cannot be merged; written before its process is started."""

    # `files` and `reason`: why it cannot be merged; `resolve`: why the try before failed.
    branch: str
    child: str
    files: tuple[str, ...] = ()
    reason: Masked[str] = ""
    resolve: Masked[str] = ""


class BranchLeftOut(NamedTuple):
    """A branch is not merged; its git branch is kept."""

    # `resolve`: why the last try to resolve it failed.
    branch: str
    files: tuple[str, ...] = ()
    reason: Masked[str] = ""
    resolve: Masked[str] = ""


class TrainLanded(NamedTuple):
    """The user's branch was moved to the merged commit by a fast-forward, or was left alone."""

    # With `reason`, it was left alone; `command` moves it.
    onto: str | None
    commit: str
    merged: tuple[str, ...]
    reason: Masked[str] = ""
    command: str = ""


class WorktreesCleared(NamedTuple):
    """Worktrees were removed after their content was committed; others are kept."""

    # `own`: the run's own worktree, not those of branches.
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    own: bool = False


class ConditionEval(NamedTuple):
    """A condition was evaluated."""

    type: str
    result: str
    reason: Masked[str]
    state: str | None = None
    step: int | None = None
    best: float | None = None
    stalled: int | None = None
    value: float | None = None
    min_gain: float | None = None


class JudgeStart(NamedTuple):
    """An agent is about to be asked for a second opinion on a pass."""

    state: str
    step: int
    attempt: int
    number: int
    question: str
    host: str
    session_id: str


class JudgeComplete(NamedTuple):
    """The judge has confirmed a pass, has vetoed it, or could not judge."""

    # `lost`: the files changed after its runner was killed; it is asked about the new ones.
    # `not_started`: its runner was killed before that. `unanswered`: its answer is gone, and it is
    # not asked again. `stopped`: a stop interrupted it.
    state: str
    number: int
    verdict: JudgeVerdict
    reason: Masked[str]
    duration_ms: int = 0
    quotes: Masked[tuple[str, ...]] = ()
    restored: tuple[str, ...] = ()


class Sampled(NamedTuple):
    """A check was measured once, and `repeat` asks for more measurements."""

    state: str
    value: float
    repeat: int
    tree: str | None = None


class KeepBest(NamedTuple):
    """A loop with `keep: best` decided about the files: keep them, measure them again, or put a
    change back."""

    # `start` and `again` ask for another measurement; `moved`: somebody else changed the files, which
    # are the new start. `value` was measured; without it, `reason` says why the change was not.
    # `best`, `tree`, `project` and `kept_step` describe what is kept, and which step measured it.
    state: str
    decision: Literal["start", "kept", "unchanged", "put_back", "again", "moved"]
    step: int
    attempt: int
    value: float | None = None
    best: float | None = None
    tree: str | None = None
    project: str | None = None
    kept_step: int | None = None
    min_gain: float | None = None
    stalled: int = 0
    reason: Masked[str] = ""


class SignalFound(NamedTuple):
    """A signal line was found in the output."""

    state: str
    type: str
    payload: Masked[str]


class TransitionTaken(NamedTuple):
    """A transition was taken."""

    from_: str
    to: str
    reason: str
    retry: bool = False
    loop_timeout: str | None = None
    passed: bool = False


class Iteration(NamedTuple):
    """A new iteration begins."""

    iteration: int
    wait_ms: int = 0


class Cycle(NamedTuple):
    """A `maintain` loop starts over."""

    cycle: int
    wait_ms: int


class RetryWait(NamedTuple):
    """The run waits before the same state runs again."""

    state: str
    attempt: int
    wait_ms: int


class HostWait(NamedTuple):
    """The run waits for an agent's usage limit to reset, or for its service."""

    state: str
    reason: Masked[str]
    until_wall_ms: int
    wait_ms: int | None = None
    least_ms: int | None = None


class HostUnavailable(NamedTuple):
    """An agent could not take its turn; until then, or until the run is resumed, others get it."""

    state: str
    host: str
    reason: Masked[str]
    until_wall_ms: int | None = None


class HostChosen(NamedTuple):
    """An agent of several was chosen for a turn."""

    # `fallback` is its place in the list: 0 for `host`, 1 for the first of `fallback`.
    state: str
    step: int
    attempt: int
    host: str
    fallback: int


class AgentWait(NamedTuple):
    """An agent waits before it starts: for a slot, for its budget, or for the launches per hour."""

    # Without `until_wall_ms`, it waits for turns of other runs to end.
    state: str
    wait_for: AgentWaitKind
    reason: Masked[str]
    until_wall_ms: int | None = None
    wait_ms: int | None = None


class HandoffDetected(NamedTuple):
    """An action handed off."""

    state: str
    iteration: int
    continuation: Masked[str]
    wait_ms: int = 0
    spawn: bool = False
    ends_run: bool = False


class Cost(NamedTuple):
    """What an agent action used: tokens, cost and turns. `child` is the run that used it, if that is
    one of those that the state started."""

    state: str
    tokens: int
    cost_usd: float
    turns: int
    iteration: int | None = None
    estimated: bool = False
    child: str | None = None


class RunWarning(NamedTuple):
    """A problem that did not affect the run."""

    message: Masked[str]
    state: str | None = None


class HookRun(NamedTuple):
    """A hook has run: `problem` says why it failed, if it did."""

    hook: str
    state: str
    step: int
    duration_ms: int
    required: bool = False
    problem: Masked[str] = ""


class Tree(NamedTuple):
    """A snapshot of the files was recorded: before or after an action, or at the end."""

    # `id` identifies the content within the scope, `project` everything that is stored, `guard` the
    # protected paths; `compared` lists the changes since the start of the run, and since an agent's
    # check passed.
    state: str
    step: int
    attempt: int
    when: When
    id: str
    project: str
    guard: str
    changed: Changed = Changed()
    compared: tuple[Changed, ...] = ()
    committed: tuple[str, ...] = ()
    late: bool = False
    original: str | None = None


class TreeUnread(NamedTuple):
    """A stop interrupted the last snapshot, so changes since the previous snapshot are unknown."""

    # `guard` is missing if the protected paths were not read either.
    state: str
    when: When
    guard: str | None = None


class Tampered(NamedTuple):
    """An agent changed protected files, or they changed while a check ran."""

    state: str
    files: int
    paths: tuple[str, ...]
    tampering: str
    by: str


class OutOfScope(NamedTuple):
    """An agent changed files outside the loop's scope, or, while agents worked in worktrees, somebody
    changed files of the project itself."""

    # `beside` is empty for a change outside the scope; `tree`: files where this run works, `project`:
    # files of the project that its own worktree comes from. `patch` has the difference.
    state: str
    files: int
    paths: tuple[str, ...]
    scope_writes: str
    beside: Literal["", "tree", "project"] = ""
    patch: str = ""


class Restored(NamedTuple):
    """Files were restored; `failed` lists those that could not be, with the reason. `kept` is a
    snapshot with the protected files as they were before."""

    state: str
    files: int
    paths: tuple[str, ...]
    of: str
    failed: tuple[str, ...] = ()
    project: str | None = None
    kept: str | None = None


class ReferenceMoved(NamedTuple):
    """Protected files were changed with permission; their new content is the reference now."""

    files: int
    paths: tuple[str, ...]
    by: str


class CheckResult(NamedTuple):
    """The verdict of a check, the tree it ran on, and where it ran."""

    state: str
    verdict: str
    reason: Masked[str]
    before: str
    after: str
    place: Literal["here", "clean"] = "here"
    passes: int = 0


class Recheck(NamedTuple):
    """A check runs again in the same step, before its pass counts."""

    state: str
    place: Literal["here", "clean"]
    why: str
    passes: int = 0
    needed: int = 1


class Report(NamedTuple):
    """The report of a run that ended before its own report state could run."""

    text: Masked[str]


class Resume(NamedTuple):
    """An unfinished run continues."""

    state: str
    iteration: int
    status: Status
    orphans: tuple[str, ...] = ()
    limits: Limits = Limits()
    context: Mapping[str, Any] = {}
    again: bool = False
    continuation: Masked[str | None] = None
    wait: WaitKind | None = None
    wait_ms: int = 0
    to: str | None = None
    metered: bool = False
    over_budget: bool = False
    answered: tuple[str, ...] = ()


class Forked(NamedTuple):
    """The run begins where another one was after a step; the events before this one are copied."""

    # `project` identifies the files before the fork; `redefined` if it has another definition.
    parent: str
    parent_name: str
    step: int
    project: str
    context: Mapping[str, Any] = {}
    redefined: bool = False


class GateAnswered(NamedTuple):
    """A gate was approved or rejected; a `resume` without an answer approves."""

    state: str
    answer: Inline[Answer]


class NoteReceived(NamedTuple):
    """A note for the next agent arrived from `ll-loop tell`."""

    id: str
    text: Masked[str]


class NoteDelivered(NamedTuple):
    """The step whose agent got a note has ended."""

    id: str
    state: str
    step: int


class LoopComplete(NamedTuple):
    """The run reached a success state, or an action stopped it."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    message: Masked[str] = ""
    evidence: str | None = None
    cost_usd: float = 0.0
    nothing_done: bool = False
    to_review: tuple[str, ...] = ()
    result: Masked[Mapping[str, Any] | None] = None


class LoopError(NamedTuple):
    """The run failed."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    state: str
    error: Masked[str]
    next_state: str | None = None
    cost_usd: float = 0.0
    result: Masked[Mapping[str, Any] | None] = None


class LoopTimeout(NamedTuple):
    """The run used up its time."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    state: str
    elapsed_ms: int
    next_state: str | None = None
    cost_usd: float = 0.0
    result: Masked[Mapping[str, Any] | None] = None


class LoopPaused(NamedTuple):
    """The run needs a review before it continues."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    message: Masked[str] = ""
    cost_usd: float = 0.0
    result: Masked[Mapping[str, Any] | None] = None


class LoopInterrupted(NamedTuple):
    """The run was stopped by a signal and can be resumed."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    signal: int
    cost_usd: float = 0.0
    result: Masked[Mapping[str, Any] | None] = None


class Handoff(NamedTuple):
    """The run waits for a fresh session."""

    status: Status
    reason: str
    final_state: str
    iterations: int
    duration_ms: int
    message: Masked[str] = ""
    behavior: str | None = None
    continuation: Masked[str | None] = None
    cost_usd: float = 0.0
    result: Masked[Mapping[str, Any] | None] = None


class UnknownEvent(NamedTuple):
    """An event of a newer version."""

    kind: str
    fields: Mapping[str, Any]


WorktreeEvent = (
    WorktreeReady
    | WorkCommitted
    | BranchBase
    | TrainStart
    | BranchMerged
    | MergeChecked
    | ResolveStart
    | BranchLeftOut
    | TrainLanded
    | WorktreesCleared
)
FinalEvent = LoopComplete | LoopError | LoopTimeout | LoopPaused | LoopInterrupted | Handoff
Event = (
    LoopStart
    | StateEnter
    | ActionStart
    | ActionComplete
    | ActionInterrupted
    | ChildrenPlanned
    | ChildStart
    | ChildEnd
    | ChildrenJoined
    | ChildrenHalted
    | WorktreeEvent
    | ConditionEval
    | JudgeStart
    | JudgeComplete
    | Sampled
    | KeepBest
    | SignalFound
    | TransitionTaken
    | Iteration
    | Cycle
    | RetryWait
    | HostWait
    | HostUnavailable
    | HostChosen
    | AgentWait
    | HandoffDetected
    | Cost
    | RunWarning
    | HookRun
    | Tree
    | TreeUnread
    | Tampered
    | OutOfScope
    | Restored
    | ReferenceMoved
    | CheckResult
    | Recheck
    | Report
    | Resume
    | Forked
    | GateAnswered
    | NoteReceived
    | NoteDelivered
    | FinalEvent
    | UnknownEvent
)

FinalKind = Literal[
    "loop_complete", "loop_error", "loop_timeout", "loop_paused", "loop_interrupted", "handoff"
]
FINAL_KINDS: dict[str, type[FinalEvent]] = {
    "loop_complete": LoopComplete,
    "loop_error": LoopError,
    "loop_timeout": LoopTimeout,
    "loop_paused": LoopPaused,
    "loop_interrupted": LoopInterrupted,
    "handoff": Handoff,
}
KINDS: dict[str, type[Event]] = {
    "loop_start": LoopStart,
    "state_enter": StateEnter,
    "action_start": ActionStart,
    "action_complete": ActionComplete,
    "action_interrupted": ActionInterrupted,
    "children": ChildrenPlanned,
    "child_start": ChildStart,
    "child_end": ChildEnd,
    "join": ChildrenJoined,
    "children_stop": ChildrenHalted,
    "worktree": WorktreeReady,
    "work_committed": WorkCommitted,
    "branch_base": BranchBase,
    "merge_start": TrainStart,
    "branch_merged": BranchMerged,
    "merge_checked": MergeChecked,
    "resolve_start": ResolveStart,
    "branch_left_out": BranchLeftOut,
    "merge_landed": TrainLanded,
    "worktrees_cleared": WorktreesCleared,
    "condition_eval": ConditionEval,
    "judge_start": JudgeStart,
    "judge_complete": JudgeComplete,
    "sampled": Sampled,
    "keep_best": KeepBest,
    "signal": SignalFound,
    "transition": TransitionTaken,
    "iteration": Iteration,
    "cycle": Cycle,
    "retry_wait": RetryWait,
    "host_wait": HostWait,
    "host_unavailable": HostUnavailable,
    "host_chosen": HostChosen,
    "agent_wait": AgentWait,
    "handoff_detected": HandoffDetected,
    "cost": Cost,
    "warning": RunWarning,
    "hook": HookRun,
    "tree": Tree,
    "tree_unread": TreeUnread,
    "tampered": Tampered,
    "out_of_scope": OutOfScope,
    "restored": Restored,
    "reference_moved": ReferenceMoved,
    "check_result": CheckResult,
    "recheck": Recheck,
    "report": Report,
    "resume": Resume,
    "forked": Forked,
    "gate_answered": GateAnswered,
    "note_received": NoteReceived,
    "note_delivered": NoteDelivered,
    **FINAL_KINDS,
}
"""The names of the event kinds in the log."""
HOOK_KINDS = tuple(name for name in KINDS if name != "hook")
"""The kinds that a hook can run for; a hook for `hook` itself would never end."""
FINAL_EVENTS = tuple(FINAL_KINDS)


class Entry(NamedTuple):
    """One line of the log: an event, its run, and when it happened.

    `wall_ms` is written as `ts`; `ran_ms` is the run's own running time; `seq` counts from 1.
    """

    event: Event
    wall_ms: int
    ran_ms: int
    run: str = ""
    seq: int = 0


def hook_failure(event: HookRun) -> str:
    """Return why a hook failed, with its name."""
    return f"hook {event.hook}: {event.problem}"


def message_of(event: FinalEvent) -> str:
    """Return the message of a final event, in addition to its reason; often empty."""
    match event:
        case LoopError():
            return event.error
        case LoopTimeout() | LoopInterrupted():
            return ""
        case _:
            return event.message


# ── the catalogue ──────────────────────────────────────────────────────────────────────────────


class EventType(NamedTuple):
    meaning: str
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()


def event_types() -> dict[str, EventType]:
    """Return, for each kind, its meaning and its required and optional fields."""
    return {name: _described(kind) for name, kind in KINDS.items()}


def _described(kind: Any) -> EventType:
    always, optional = keys(kind)
    return EventType(kind.__doc__, always, optional)
