"""The state of a run: plain data, saved after every step.

A run is the sum of its events (`evolve`); this is its shape. `phase` says how far the current step
has come, so that a resume needs nothing else:

    moving       a transition was chosen (`move`), its state is not entered yet
    entered      in a state, its action not started
    running      the action was announced; only it may be repeated after a crash
    interrupted  the action was interrupted; `on_interrupt` decides
    judging      the action has ended, its verdict is not known yet
    judged       the verdict is known (`judgement`), the transition not chosen yet
    ended        nothing more to do

Not here: files (`runs.storage`), decisions (`machine`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops import light_json as json
from little_loops.fsm.plain import Masked, Written, WrongShape, decode, encode
from little_loops.light_typing import Any, Literal, TypeVar
from little_loops.records import NamedTuple

FORMAT = 1

Status = Literal[
    "running",
    "completed",
    "failed",
    "stopped",
    "interrupted",
    "awaiting_continuation",
    "needs_review",
]
UNFINISHED = ("running", "interrupted", "awaiting_continuation", "needs_review")
FORK = "fork"
"""The reason for a run that was forked but not started."""
UNTIL = "until-"
"""The prefix of the names of runs without a loop file; a loop with a file can have such a name, too."""
Phase = Literal["moving", "entered", "running", "interrupted", "judging", "judged", "ended"]
WaitKind = Literal["backoff", "retry", "maintain", "host", "handoff", "slot", "budget"]
AgentWaitKind = Literal["slot", "budget", "launches"]
CutBy = Literal["none", "action", "silence", "loop", "stop"]
COST_LIMIT_REACHED = "cost_limit_reached"
"""The kind of a turn that the program ended because it reached its cost limit."""
AgentResult = Literal["success", "fail", "error", "handoff", "wait", "auth", "billing"]


class FileRef(NamedTuple):
    """A complete output in a file of the run, relative to the run's directory.

    `has_secrets`: whether a secret was printed; None if unknown, as in the first version.
    """

    path: str
    size: int
    sha256: str
    truncated: Written[bool] = False
    has_secrets: bool | None = None


class LeftOut(NamedTuple):
    """A branch that was not merged, the files in conflict, if any, and the reason. `resolve`: why the
    last try to resolve it failed."""

    name: str
    files: tuple[str, ...] = ()
    reason: Masked[str] = ""
    resolve: Masked[str] = ""


class MergeResult(NamedTuple):
    """What became of the branches of a state: the commit that has those that were merged, and why
    others were not. `command` moves the user's branch to that commit, if it was not moved."""

    commit: str
    merged: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    command: str = ""


class ChildResult(NamedTuple):
    """How the child of a state ended, and the values of its `result`."""

    status: str
    reason: str
    final_state: str
    iterations: int
    result: Masked[Mapping[str, Any]]


class BranchCount(NamedTuple):
    """How many branches a state had, and how many of them passed; the others have failed, or were
    not needed."""

    total: int
    passed: int

    @property
    def failed(self) -> int:
        return self.total - self.passed


class Result(NamedTuple):
    """The result of an action: `captured.<state>`.

    `output` and `stderr` hold short texts; a longer one is only in its file, and `tail` is its end,
    for people. `open_ended`: `output` did not end with a newline. `order` says in which order the
    two streams arrived, as numbers of bytes: stdout, stderr, stdout and so on; a long one is only
    in its file. `failure` says why an action could not run at all, `wait_ms` how long it asks the
    next iteration to wait.

    The other fields are for agents: `agent` is the outcome that its host reported, which the
    machine knows only as one of a few ways to continue; `stream_file` has the raw events of its
    program. `structured` is its structured answer; a long one is only in its file.

    `child` is for a state that starts another run, `branches` for one that starts several.
    """

    exit_code: int | None
    duration_ms: int
    output: Written[Masked[str | None]] = ""
    stderr: Written[Masked[str | None]] = ""
    output_file: FileRef | None = None
    stderr_file: FileRef | None = None
    tail: Masked[str | None] = None
    open_ended: bool = False
    stderr_open_ended: bool = False
    order: tuple[int, ...] = ()
    order_file: str | None = None
    signal: int | None = None
    cut_by: CutBy = "none"
    failure: Masked[str | None] = None
    wait_ms: int = 0
    agent: AgentResult | None = None
    kind: str | None = None
    reason: Masked[str | None] = None
    verdict: str | None = None
    structured: Masked[Any] = None
    structured_file: FileRef | None = None
    session_id: str | None = None
    tokens: int = 0
    cost_usd: float | None = None
    turns: int | None = None
    retry_at_ms: int | None = None
    stream_file: FileRef | None = None
    child: ChildResult | None = None
    branches: BranchCount | None = None
    merge: MergeResult | None = None


class SignalLine(NamedTuple):
    """A signal line of an action's output: handoff, error or stop.

    For a handoff, `payload` is the continuation, wherever it was found.
    """

    type: str
    payload: Masked[str]


class Metric(NamedTuple):
    """What a convergence condition remembers of earlier measurements.

    The other fields are for `keep: best`. `min_gain` is by how much a change must be better; None
    if the start was measured only once. `is_same`: the tree is the one that measured `best`.
    """

    best: float
    stalled: int = 0
    min_gain: float | None = None
    is_same: bool = False


class Sample(NamedTuple):
    """One of several measurements of which the median counts, and the tree it was made on."""

    value: float
    tree: str | None = None


class Move(NamedTuple):
    """A transition that was chosen, and whose state is not entered yet."""

    target: str
    reason: str
    retry: bool = False
    passed: bool = False
    """A check passed after the last iteration, so the next state may be a check too."""


class WaitFor(NamedTuple):
    """A wait that outlives the process. It is over when either clock says so.

    It is never over before `least_ran_ms`, because the wall clock may have been changed.
    """

    kind: WaitKind
    until_ran_ms: int | None = None
    until_wall_ms: int | None = None
    why: str = ""
    least_ran_ms: int | None = None


class Spending(NamedTuple):
    """What the agents of one state have used; `estimated_usd` is the part that was not reported.

    `turns` are exchanges between an agent and its model.
    """

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0
    estimated_usd: float = 0.0


class Limits(NamedTuple):
    """Limits for this run that override the definition's; None: as defined."""

    max_iterations: int | None = None
    timeout: float | None = None
    max_continuations: int | None = None
    stall_after: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None

    def under(self, given: Limits) -> Limits:
        """Return these limits, overridden by those of the given ones that are set."""
        return self._replace(
            **{name: item for name, item in given._asdict().items() if item is not None}
        )


class Hosts(NamedTuple):
    """Which agent of several takes the turn: the place in the list of the state's hosts.

    The choice is for an attempt of a step, and lasts until the next one. `limited` has the agents
    that could not take a turn, by name, with the time until then; None: until the run is resumed.
    `passed` are those that could not since the run last waited for one.
    """

    state: str = ""
    step: int = 0
    attempt: int = 0
    fallback: int = 0
    limited: Mapping[str, int | None] = {}
    passed: tuple[str, ...] = ()


class Answer(NamedTuple):
    """The answer to a gate: a state that ends a run as `needs_review`.

    `gate` is the number of the event that paused the run. `by` is the command that gave the answer;
    a `resume` approves.
    """

    gate: int
    verdict: Literal["approved", "rejected"]
    by: Literal["approve", "reject", "resume"]
    text: Masked[str] = ""
    to: str | None = None


Stage = Literal[
    "waiting",
    "running",
    "interrupted",
    "paused",
    "review",
    "resumed",
    "pass",
    "fail",
    "error",
    "timeout",
    "stopped",
]
"""How far a run that a state started has progressed."""


class Halt(NamedTuple):
    """Why a run stops while its children run: the ending that follows when they have stopped."""

    status: str
    reason: str
    message: Masked[str] = ""
    signal: int | None = None


class Counted(NamedTuple):
    """What an unfinished child has used so far, as far as its parent has counted it."""

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0


JudgeVerdict = Literal["pass", "fail", "error", "lost", "stopped", "not_started", "unanswered"]
Uncollected = Literal["lost", "not_started", "unanswered"]


class Ruling(NamedTuple):
    """What the judge of a check says about an attempt that passed.

    `number` counts how often it was asked, `errors` how often it could not judge or had judged other
    files. Without a `verdict` it is being asked.
    """

    step: int
    attempt: int
    number: int = 1
    errors: int = 0
    verdict: JudgeVerdict | None = None
    reason: str = ""
    question: str = ""


class Confirmation(NamedTuple):
    """That a judge has answered its question about these files of the project with yes."""

    project: str
    question: str


class Veto(NamedTuple):
    """That the judge of a check did not confirm its pass, and why; for the agents that run before
    the check does again."""

    state: str
    reason: str


class Beside(NamedTuple):
    """A run that resolves a branch: how far it has come, and how it has paused, if it has."""

    name: str
    stage: Stage = "running"
    pause: Halt | None = None


class Children(NamedTuple):
    """The runs that a state has started: its children, by name.

    `step` and `attempt` are those of the action that started them, and part of the names of their
    directories. `crashed` died once without an ending; `verdict` is known before the last of them
    has ended; `pause` is how the first of them paused. `several`: they are branches, however many.
    `beside` is a run that resolves one of them, and none of them.
    """

    state: str
    step: int
    attempt: int
    names: tuple[str, ...]
    stages: tuple[Stage, ...]
    crashed: tuple[str, ...] = ()
    verdict: str | None = None
    reason: str = ""
    pause: Halt | None = None
    halt: Halt | None = None
    counted: Mapping[str, Counted] = {}
    several: bool = False
    beside: Beside | None = None

    def path(self, name: str) -> str:
        """Return the path of a child below its parent: `types`, or `checks/types` for a branch."""
        return f"{self.state}/{name}" if self.several else name


class Workspace(NamedTuple):
    """The git worktree that a run works in.

    `branch` is its own, which began at the commit `base`; `onto` is the branch that was checked out
    in the project then, None for a detached HEAD. `commit` is the work of the run, once that is
    committed (`is_committed`); None if there is none.
    """

    path: str
    branch: str
    base: str
    onto: str | None = None
    commit: str | None = None
    is_committed: bool = False
    is_cleared: bool = False


class Landing(NamedTuple):
    """The merged commit, and why the user's branch was not moved to it; `command` does that."""

    commit: str
    reason: Masked[str] = ""
    command: str = ""


class Train(NamedTuple):
    """Branches that are merged one after the other, so that each is checked with those before it.

    They began at the commit `base`, and `onto` is the branch that will be moved. They are merged on
    top of its commit `head`, empty if merging has not begun; `tip` is the last commit that passed.
    `trial` is the branch that was merged last, as `trial_commit`, and is not checked yet. `failing`
    cannot be merged; `resolving` is the run that tries to resolve it, and `tries` counts those.
    `restarts` counts how often the user's branch had moved meanwhile. `checked` is the last commit
    whose check passed.
    """

    base: str
    onto: str | None = None
    head: str = ""
    tip: str = ""
    merged: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    trial: str | None = None
    trial_commit: str = ""
    failing: LeftOut | None = None
    resolving: str | None = None
    tries: Mapping[str, int] = {}
    restarts: int = 0
    landing: Landing | None = None
    is_cleared: bool = False
    checked: str = ""


class Note(NamedTuple):
    """What a person told the run, for its next agent.

    `step` is the step whose agent got it; `heard` if a turn of that agent has ended since.
    """

    id: str
    text: Masked[str]
    step: int | None = None
    heard: bool = False


class Fork(NamedTuple):
    """The run that another one continues in another way: its id, its name, and after which step."""

    run: str
    name: str
    step: int


class Judgement(NamedTuple):
    """A verdict with its reason, which the log, the screen and errors quote.

    `value` is the measured number, if the condition measures one.
    """

    verdict: str
    reason: str = ""
    metric: Metric | None = None
    value: float | None = None


class Changed(NamedTuple):
    """The difference between two trees: the number of files, the first paths, and lines."""

    files: int = 0
    paths: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0


class NotPassed(NamedTuple):
    """A tree on which a check did not pass, with what identifies the check."""

    tree: str
    text: str
    exit_code: int | None
    iteration: int


class CheckRecord(NamedTuple):
    """The results of a check in this cycle.

    `before` and `after` are the trees before and after it, `passes` counts consecutive passes on
    `before`, `clean` is the tree whose clean copy it passed in. `not_passed` has the latest
    failures.
    """

    verdict: str
    step: int
    attempt: int
    before: str
    after: str
    project: str
    passes: int = 0
    clean: str | None = None
    not_passed: tuple[NotPassed, ...] = ()


class Finding(NamedTuple):
    """What the rules of evidence found after an action; it becomes the action's verdict."""

    verdict: str
    reason: str


class NotKept(NamedTuple):
    """A change that was put back, for the next agent; without `measured`, it was not measured."""

    best: float
    measured: float | None = None


class Best(NamedTuple):
    """The best tree of a loop with `keep: best`, and the change that is being made to it.

    `tree` and `project` are that tree, which was measured as `value` in the step `step`; None if
    nothing was measured yet. `min_gain` is None until the start was measured twice. `stalled` counts
    measurements in a row that were not better, `voids` those during which the files changed.
    `weighed` is the step and attempt of the latest measurement that was compared.

    `changing`: an action has started that may change the tree; `had_change`: one before it, too.
    `undo`: the change is still to be put back. `not_kept` is reported to the next agent.
    """

    tree: str | None = None
    project: str | None = None
    step: int = 0
    value: float | None = None
    min_gain: float | None = None
    stalled: int = 0
    voids: int = 0
    weighed: tuple[int, ...] = ()
    changing: bool = False
    had_change: bool = False
    undo: bool = False
    not_kept: NotKept | None = None


When = Literal["before", "after", "end", "last"]
"""When a snapshot is taken: before or after an action, before a success state or the end, or after
leftover processes were ended."""
Blame = Literal["agent", "check", "apart"]
"""`apart`: agents that work in worktrees of the tree, while the user may edit its files."""


class LandedCommits(NamedTuple):
    """The commits between which a merge moves the user's branch."""

    old: str
    new: str


class Trees(NamedTuple):
    """What a run knows of its tree. Ids identify content; paths are relative to the project.

    `off` says why nothing is known. The latest snapshot has the content within the scope (`tree`),
    of everything that is stored (`project`) and of the protected paths (`guard`); `snapshot` is the
    moment it was taken for, while that lasts; `unread` if a stop kept the protected paths from
    being read. `first` is the project at the start, `reference` the expected content of the
    protected paths.

    `blame` is who is responsible for changes of protected paths since the latest snapshot; None:
    someone who is allowed to, named by `moved_by`. `restore` and `put_back` are still to be done,
    `restored` is reported to the next agent. `tampered` are paths that checks depend on and that agents
    or steps changed for good, which the ending reports. `writes` are the paths that checks have changed, `.`
    if there are too many to remember.

    `confirmed` is what the judges of states have confirmed since those were entered.
    `started_by` is who works in the runs that the current state has started, also after a pause, and
    `landed` what has been merged from their worktrees. `original` is the latest snapshot of the
    project that the run's own worktree comes from.
    """

    off: str | None = None
    first: str | None = None
    tree: str | None = None
    project: str | None = None
    guard: str | None = None
    reference: str | None = None
    snapshot: When | None = None
    unread: bool = False
    blame: Blame | None = None
    moved_by: str | None = None
    restore: bool = False
    restores: int = 0
    put_back: str | None = None
    finding: Finding | None = None
    restored: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()
    checks: Mapping[str, CheckRecord] = {}
    before: str | None = None
    text: str = ""
    place: Literal["here", "clean"] = "here"
    headed: Move | None = None
    unsettled: int = 0
    agent_acted: bool = False
    stalls: int = 0
    stale: int = 0
    total: Changed = Changed()
    writes: tuple[str, ...] = ()
    best: Best | None = None
    started_by: Blame | None = None
    landed: LandedCommits | None = None
    original: str | None = None
    confirmed: Mapping[str, Confirmation] = {}


class LoopState(NamedTuple):
    run: str
    loop: str
    current_state: str
    started_at: str
    updated_at: str
    scope: Written[tuple[str, ...]] = (".",)
    context: Written[Mapping[str, Any]] = {}  # noqa: RUF012 (a `Mapping` is never changed)
    captured: Written[Mapping[str, Result]] = {}  # noqa: RUF012 (a `Mapping` is never changed)
    status: Written[Status] = "running"
    phase: Written[Phase] = "moving"
    iteration: Written[int] = 1
    step: Written[int] = 0
    continuation_prompt: Written[str | None] = None
    ran_ms: Written[int] = 0
    seq: Written[int] = 0
    reason: str | None = None
    error: str | None = None
    move: Move | None = None
    wait: WaitFor | None = None
    judgement: Judgement | None = None
    signal_line: SignalLine | None = None
    cycle: int = 1
    attempt: int = 0
    retries: int = 0
    visited: tuple[str, ...] = ()
    entered_by: str | None = None
    prev_state: str | None = None
    metrics: Mapping[str, Metric] = {}
    samples: tuple[Sample, ...] = ()
    continuations: int = 0
    spawns: bool = False
    late: bool = False
    """The run was resumed after the action had ended, but before its result was handled."""
    handoff_waits: int = 0
    host_waits: int = 0
    host_waited_ms: int = 0
    hosts: Hosts | None = None
    at_limit: bool = False
    owes: bool = False
    timed_out_in: str | None = None
    resume_to: str | None = None
    session_id: str | None = None
    limits: Limits = Limits()
    costs: Mapping[str, Spending] = {}
    trees: Trees | None = None
    metered: bool = False
    """The user has set slots or a budget, so agents ask before they start."""
    gate: int | None = None
    answer: Answer | None = None
    """The latest answer; if a gate is open, the answer may be for an earlier one."""
    notes: tuple[Note, ...] = ()
    hooks_done: tuple[str, ...] = ()
    """The hooks that need not run again for this start of the run, or this entry of a state."""
    fork: Fork | None = None
    children: Children | None = None
    workspace: Workspace | None = None
    train: Train | None = None
    """What happens to the branches of the current state, or to the run itself when it ends."""
    ruling: Ruling | None = None
    veto: Veto | None = None
    result: Mapping[str, Any] | None = None
    """The values of the loop's `result`, once the run has ended."""

    @property
    def own_children(self) -> Children | None:
        """The children of the current state, if it has started some and they have not all ended."""
        children = self.children
        return None if children is None or children.state != self.current_state else children

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **encode(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LoopState:
        """Read the output of `to_dict`, or the design's short form. Raises `WrongShape`
        otherwise."""
        if "format" not in data:
            data = _from_short_form(data)
        check_format(data)
        return _with_gate(_check_phase(decode(cls, data)))


class RunSummary(NamedTuple):
    """The fields of a `LoopState` that lists of runs show, with the same names."""

    run: str
    loop: str
    current_state: str
    started_at: str
    updated_at: str
    scope: tuple[str, ...]
    status: Status
    iteration: int
    continuation_prompt: str | None
    ran_ms: int
    seq: int
    reason: str | None = None
    error: str | None = None
    wait: WaitFor | None = None
    cycle: int = 1
    limits: Limits = Limits()
    costs: Mapping[str, Spending] = {}
    notes: tuple[Note, ...] = ()
    gate: int | None = None
    answer: Answer | None = None
    fork: Fork | None = None
    children: Children | None = None
    context: Mapping[str, Any] = {}

    @property
    def own_children(self) -> Children | None:
        """The children of the current state, as in `LoopState`."""
        children = self.children
        return None if children is None or children.state != self.current_state else children

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSummary:
        """Read part of the output of `LoopState.to_dict`. Raises `WrongShape` otherwise."""
        check_format(data)
        return _with_gate(decode(cls, data))

    @property
    def cost_usd(self) -> float:
        return float(sum(spent.cost_usd for spent in self.costs.values()))

    @property
    def tokens(self) -> int:
        return sum(spent.tokens for spent in self.costs.values())


Run = TypeVar("Run", LoopState, RunSummary)


def _with_gate(run: Run) -> Run:
    """Return the run with its gate, which earlier versions did not store."""
    at_gate = run.gate is None and (run.status, run.reason) == ("needs_review", "review")
    at_gate = at_gate and run.own_children is None  # otherwise one of them has the gate
    return run._replace(gate=run.seq) if at_gate else run


def _from_short_form(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the design's state, which has neither format nor phase, and may have bare captured
    values."""
    captured = data.get("captured", {})
    if isinstance(captured, Mapping):
        captured = {name: _result_of(value) for name, value in captured.items()}
    entered = {"run": "", "loop": "", "phase": "entered"}
    return {**entered, **data, "format": FORMAT, "captured": captured}


def _result_of(value: Any) -> Any:
    """Return a captured value as a result: anything but a mapping becomes its output."""
    if isinstance(value, Mapping):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return {"exit_code": None, "duration_ms": 0, "output": text}


def check_format(data: Mapping[str, Any]) -> None:
    """Raise `WrongShape` unless the data has this version's format."""
    if "format" not in data:
        raise WrongShape("is missing", "format")
    if data["format"] != FORMAT:
        raise WrongShape(f"{data['format']!r} is not {FORMAT}", "format")


def _check_phase(run: LoopState) -> LoopState:
    """Return the run if it has what its phase requires. Raises `WrongShape` otherwise."""
    needed = {
        "moving": run.move is not None,
        "judging": run.current_state in run.captured,
        "judged": run.judgement is not None,
    }
    if not needed.get(run.phase, True):
        raise WrongShape(f"the run is `{run.phase}`, but what belongs to that phase is missing")
    if run.prev_state is not None and run.prev_state not in run.captured:
        raise WrongShape(f"the result of the previous state (`{run.prev_state}`) is missing")
    return run
