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

import json
from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.plain import Masked, Written, WrongShape, decode
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
UNTIL = "until-"
"""How the names of runs without a loop file begin; a loop with a file may be called so, too."""
Phase = Literal["moving", "entered", "running", "interrupted", "judging", "judged", "ended"]
WaitKind = Literal["backoff", "retry", "maintain", "host", "handoff", "slot", "budget"]
AgentWaitKind = Literal["slot", "budget", "launches"]
CutBy = Literal["none", "action", "silence", "loop", "stop"]
COST_LIMIT_REACHED = "cost_limit_reached"
"""The kind of a turn that its program ended at the cost limit it was given."""
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


class SignalLine(NamedTuple):
    """A signal line of an action's output: handoff, error or stop.

    For a handoff, `payload` is the continuation, wherever it was found.
    """

    type: str
    payload: Masked[str]


class Metric(NamedTuple):
    """What a convergence condition remembers of earlier measurements."""

    best: float
    stalled: int = 0


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


class Receipt(NamedTuple):
    """What the agents of one state have used; `estimated_usd` is the part that was not reported."""

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


class Note(NamedTuple):
    """What a person told the run, for its next agent.

    `step` is the step whose agent got it; `heard` if a turn of that agent has ended since.
    """

    id: str
    text: Masked[str]
    step: int | None = None
    heard: bool = False


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


When = Literal["before", "after", "end", "last"]
"""Before or after an action, before a success state or the end, and after leftover processes were
ended."""
Blame = Literal["agent", "check"]


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


class LoopState(NamedTuple):
    run: str
    loop: str
    current_state: str
    started_at: str
    updated_at: str
    scope: tuple[str, ...] = (".",)
    context: Mapping[str, Any] = {}
    status: Status = "running"
    reason: str | None = None
    error: str | None = None
    phase: Phase = "moving"
    move: Move | None = None
    wait: WaitFor | None = None
    judgement: Judgement | None = None
    signal_line: SignalLine | None = None
    iteration: int = 1
    cycle: int = 1
    step: int = 0
    attempt: int = 0
    retries: int = 0
    visited: tuple[str, ...] = ()
    entered_by: str | None = None
    captured: Mapping[str, Result] = {}
    prev_state: str | None = None
    metrics: Mapping[str, Metric] = {}
    continuation_prompt: str | None = None
    continuations: int = 0
    spawns: bool = False
    late: bool = False
    """The run was resumed between the end of the action and its consequences."""
    handoff_waits: int = 0
    host_waits: int = 0
    host_waited_ms: int = 0
    at_limit: bool = False
    owes: bool = False
    timed_out_in: str | None = None
    resume_to: str | None = None
    session_id: str | None = None
    ran_ms: int = 0
    limits: Limits = Limits()
    costs: Mapping[str, Receipt] = {}
    trees: Trees | None = None
    metered: bool = False
    """The user has set slots or a budget, so agents ask before they start."""
    gate: int | None = None
    answer: Answer | None = None
    """The latest answer; the gate that is open, if any, may not be its own."""
    notes: tuple[Note, ...] = ()
    seq: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **_plain(self)}

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
    reason: str | None
    error: str | None
    wait: WaitFor | None
    iteration: int
    cycle: int
    continuation_prompt: str | None
    ran_ms: int
    limits: Limits
    costs: Mapping[str, Receipt]
    seq: int
    notes: tuple[Note, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSummary:
        """Read part of the output of `LoopState.to_dict`. Raises `WrongShape` otherwise."""
        check_format(data)
        return decode(cls, data)

    @property
    def cost_usd(self) -> float:
        return float(sum(receipt.cost_usd for receipt in self.costs.values()))

    @property
    def tokens(self) -> int:
        return sum(receipt.tokens for receipt in self.costs.values())


def _with_gate(run: LoopState) -> LoopState:
    """Return the run with its gate, which earlier versions did not store."""
    at_gate = run.gate is None and (run.status, run.reason) == ("needs_review", "review")
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


_ALWAYS = Result._fields[:4]
_SELDOM = {name: Result._field_defaults[name] for name in Result._fields[4:]}


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return a result without empty fields; the four fields of the design are always present."""
    plain = dict(zip(_ALWAYS, result, strict=False))
    if result[len(_ALWAYS) :] != tuple(_SELDOM.values()):
        for name, default in _SELDOM.items():
            if (value := getattr(result, name)) != default:
                plain[name] = _plain(value)
    return plain


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
        raise WrongShape(f"the result of the previous state, `{run.prev_state}`, is missing")
    return run


_SCALARS = frozenset((type(None), str, int, float, bool))


def _plain(value: Any) -> Any:
    """Return a value as plain data: records and mappings become dicts, tuples become lists."""
    if type(value) in _SCALARS:  # the usual case, and this runs at every step
        return value
    if isinstance(value, Result):
        return result_to_dict(value)
    if hasattr(value, "_asdict"):
        return {
            name: item if type(item) in _SCALARS else _plain(item)
            for name, item in zip(value._fields, value, strict=True)
        }
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
