"""All of a run that must survive: plain data, saved after every step.

A run is what its events made of it (`evolve`); this is the shape of that sum.  `phase` says how
far the current step has come, so that a resume needs no other hint:

    moving       a way was chosen (`move`), its state is not entered yet
    entered      in a state, its action not started
    running      the action was announced; only it may be repeated after a crash
    interrupted  the action was cut; `on_interrupt` decides
    judging      the action has ended, its verdict is not known yet
    judged       the verdict is known (`judgement`), the way not chosen yet
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
Phase = Literal["moving", "entered", "running", "interrupted", "judging", "judged", "ended"]
WaitKind = Literal["backoff", "retry", "maintain", "host", "handoff"]
CutBy = Literal["none", "action", "silence", "loop", "stop"]
AgentResult = Literal["success", "fail", "error", "handoff", "wait", "auth", "billing"]


class FileRef(NamedTuple):
    """A whole output that lies in a file of the run, relative to its directory.

    `has_secrets`: whether a secret was printed; none if nobody looked, as in the first version.
    """

    path: str
    size: int
    sha256: str
    truncated: Written[bool] = False
    has_secrets: bool | None = None


class Result(NamedTuple):
    """What an action left behind: `captured.<state>`.

    `output` and `stderr` hold short texts; a longer one is only in its file, and `tail` is its
    end, for people.  `open_ended`: no newline was dropped from the end of `output`.  `order` says
    in which order the two streams arrived: bytes of stdout, of stderr, of stdout and so on; a
    long one is only in its file.  `failure` says why an action could not be run at all, `wait_ms`
    how long it wants the next iteration to wait.

    The second half is an agent's: `agent` is what its host made of the end, which the machine knows
    only as one of a few ways to continue; `stream_file` has the raw events of its program.
    `structured` is its structured answer; a long one is only in its file.
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
    """What a line of output asked the engine for: handoff, error or stop.

    For a handoff `payload` is the continuation, wherever it was found.
    """

    type: str
    payload: Masked[str]


class Metric(NamedTuple):
    """What a convergence condition remembers of the measurements so far."""

    best: float
    stalled: int = 0


class Move(NamedTuple):
    """A way taken but not arrived yet."""

    target: str
    reason: str
    retry: bool = False
    passed: bool = False
    """A check passed after the last iteration: what it leads to may be checked too."""


class WaitFor(NamedTuple):
    """A wait that outlives the process: over when either clock says so.

    Before `least_ran_ms` it is not over whatever the wall clock says: that may have been set.
    """

    kind: WaitKind
    until_ran_ms: int | None = None
    until_wall_ms: int | None = None
    why: str = ""
    least_ran_ms: int | None = None


class Receipt(NamedTuple):
    """What the agents of one state have used; `estimated_usd` is the part nobody reported."""

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0
    estimated_usd: float = 0.0


class Limits(NamedTuple):
    """Limits given for this run, over those of the definition; None: as defined."""

    max_iterations: int | None = None
    timeout: float | None = None
    max_continuations: int | None = None
    stall_after: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None

    def under(self, given: Limits) -> Limits:
        """These limits, with those that are given instead."""
        return self._replace(
            **{name: item for name, item in given._asdict().items() if item is not None}
        )


class Judgement(NamedTuple):
    """A verdict with its reason; the log, the screen and an error all quote it.

    `value` is the number that was measured, if the condition is about one.
    """

    verdict: str
    reason: str = ""
    metric: Metric | None = None
    value: float | None = None


class Changed(NamedTuple):
    """What differs between two trees: how many files, the first of their paths, and lines."""

    files: int = 0
    paths: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0


class NotPassed(NamedTuple):
    """A tree on which a check did not pass, with what decides whether it is the same check."""

    tree: str
    text: str
    exit_code: int | None
    iteration: int


class CheckRecord(NamedTuple):
    """What a check has shown in this cycle.

    `before` and `after` are the trees around it, `passes` counts passes in a row on `before`,
    `clean` is the tree whose clean copy it passed in.  `not_passed` has the latest failures.
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
    """What the rules found after an action; it is the action's verdict."""

    verdict: str
    reason: str


When = Literal["before", "after", "end", "last"]
"""Around an action, before a success or the end, and after leftover processes were ended."""
Blame = Literal["agent", "check"]


class Trees(NamedTuple):
    """What a run knows of the tree it works on.  Ids are of content; paths are the project's.

    `off` says why nothing is known.  The latest snapshot has the content within the scope (`tree`),
    of the project as far as it is stored (`project`) and of the protected paths (`guard`);
    `snapshot` is the moment it was taken for, while that is not over; `unread` if a stop kept the
    protected paths from being read then.  `first` is the project at the start, `reference` the
    protected paths as they ought to be.

    `blame` is who would have changed protected paths since the latest snapshot; None: nobody who
    may not, `moved_by` says who then.  `restore` and `put_back` are still to be done, `restored` is
    what the next agent is told.  `writes` are the paths that checks have changed, `.` if they are
    too many to remember.
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
    """A resume came between the end of the action and what follows from it."""
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
    seq: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LoopState:
        """Read what `to_dict` wrote, or the design's short form.  Raises `WrongShape` otherwise."""
        if "format" not in data:
            data = _from_short_form(data)
        check_format(data)
        return _going_together(decode(cls, data))


class RunSummary(NamedTuple):
    """The fields of a `LoopState` that lists of runs show, by the same names."""

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSummary:
        """Read a part of what `LoopState.to_dict` wrote.  Raises `WrongShape` on anything else."""
        check_format(data)
        return decode(cls, data)

    @property
    def cost_usd(self) -> float:
        return float(sum(receipt.cost_usd for receipt in self.costs.values()))

    @property
    def tokens(self) -> int:
        return sum(receipt.tokens for receipt in self.costs.values())


def _from_short_form(data: Mapping[str, Any]) -> dict[str, Any]:
    """The design's state has neither format nor phase, and may have captured a bare value."""
    captured = data.get("captured", {})
    if isinstance(captured, Mapping):
        captured = {name: _result_of(value) for name, value in captured.items()}
    entered = {"run": "", "loop": "", "phase": "entered"}
    return {**entered, **data, "format": FORMAT, "captured": captured}


def _result_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return {"exit_code": None, "duration_ms": 0, "output": text}


def check_format(data: Mapping[str, Any]) -> None:
    if "format" not in data:
        raise WrongShape("is missing", "format")
    if data["format"] != FORMAT:
        raise WrongShape(f"{data['format']!r} is not {FORMAT}", "format")


_ALWAYS = Result._fields[:4]
_SELDOM = {name: Result._field_defaults[name] for name in Result._fields[4:]}


def result_to_dict(result: Result) -> dict[str, Any]:
    """A result without the fields that say nothing; the four of the design are always there."""
    plain = dict(zip(_ALWAYS, result, strict=False))
    if result[len(_ALWAYS) :] != tuple(_SELDOM.values()):
        for name, default in _SELDOM.items():
            if (value := getattr(result, name)) != default:
                plain[name] = _plain(value)
    return plain


def _going_together(run: LoopState) -> LoopState:
    """The run, if it has what its phase is about."""
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
    if type(value) in _SCALARS:  # as nearly all are, and this is done at every step
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
