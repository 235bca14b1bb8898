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

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args

from little_loops.records import NamedTuple

FORMAT = 1
NOT_OF_THE_RUN = ("format", "log")
"""What a state file says beside the run: its version, and where in the log it stands."""

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
CutBy = Literal["none", "action", "loop", "stop"]
AgentWay = Literal["success", "fail", "error", "handoff", "wait", "auth", "billing"]


class FileRef(NamedTuple):
    """A whole output that lies in a file of the run, relative to its directory.

    `has_secrets`: whether a secret was printed; none if nobody looked, as in the first version.
    """

    path: str
    size: int
    sha256: str
    truncated: bool = False
    has_secrets: bool | None = None


class Result(NamedTuple):
    """What an action left behind: `captured.<state>`.

    `output` and `stderr` hold short texts; a longer one is only in its file, and `tail` is its
    end, for people.  `open_ended`: no newline was dropped from the end of `output`.  `order` says
    in which order the two streams arrived: bytes of stdout, of stderr, of stdout and so on; a
    long one is only in its file.  `failure` says why an action could not be run at all.

    The second half is an agent's: `agent` is what its host made of the end, which the machine knows
    only as one of a few ways to continue; `stream_file` has the raw events of its program.
    """

    exit_code: int | None
    duration_ms: int
    output: str | None = ""
    stderr: str | None = ""
    output_file: FileRef | None = None
    stderr_file: FileRef | None = None
    tail: str | None = None
    open_ended: bool = False
    stderr_open_ended: bool = False
    order: tuple[int, ...] = ()
    order_file: str | None = None
    signal: int | None = None
    cut_by: CutBy = "none"
    failure: str | None = None
    agent: AgentWay | None = None
    kind: str | None = None
    reason: str | None = None
    verdict: str | None = None
    structured: Any = None
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
    payload: str


class Metric(NamedTuple):
    """What a convergence condition remembers of the measurements so far."""

    best: float
    stalled: int = 0


class Move(NamedTuple):
    """A way taken but not arrived yet."""

    target: str
    reason: str
    retry: bool = False


class WaitFor(NamedTuple):
    """A wait that outlives the process: by running time, or by the wall clock."""

    kind: WaitKind
    until_ran_ms: int | None = None
    until_wall_ms: int | None = None
    why: str = ""


class Receipt(NamedTuple):
    """What the agents of one state have used."""

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0


class Limits(NamedTuple):
    """Limits given for this run, over those of the definition; None: as defined."""

    max_iterations: int | None = None
    timeout: float | None = None
    max_continuations: int | None = None


class Judgement(NamedTuple):
    """A verdict with its reason; the log, the screen and an error all quote it."""

    verdict: str
    reason: str = ""
    metric: Metric | None = None


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
    handed_off_ms: int | None = None
    handoff_waits: int = 0
    host_waits: int = 0
    host_waiting_since_ms: int | None = None
    timed_out_in: str | None = None
    session_id: str | None = None
    ran_ms: int = 0
    limits: Limits = Limits()
    costs: Mapping[str, Receipt] = {}
    seq: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LoopState:
        """Read what `to_dict` wrote.  Raises KeyError, TypeError or ValueError on anything else."""
        _check_format(data)
        fields = {key: value for key, value in data.items() if key not in NOT_OF_THE_RUN}
        fields |= {name: read(data[name]) for name, read in _NESTED.items()}
        return _going_together(_fitting(cls(**fields)))


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
        """Read a part of what `LoopState.to_dict` wrote, in a third of the time."""
        _check_format(data)
        return _fitting(cls(*(_field(name, data[name]) for name in cls._fields)))

    @property
    def cost_usd(self) -> float:
        return float(sum(receipt.cost_usd for receipt in self.costs.values()))

    @property
    def tokens(self) -> int:
        return sum(receipt.tokens for receipt in self.costs.values())


def _check_format(data: Mapping[str, Any]) -> None:
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r} is not {FORMAT}")


def _field(name: str, value: Any) -> Any:
    read = _NESTED.get(name)
    return value if read is None else read(value)


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


def result_from_dict(data: Mapping[str, Any]) -> Result:
    fields = dict(data)
    for name in ("output_file", "stderr_file", "stream_file"):
        if fields.get(name) is not None:
            fields[name] = FileRef(**fields[name])
    if "order" in fields:
        fields["order"] = tuple(fields["order"])
    return Result(**fields)


def _judgement(data: Mapping[str, Any]) -> Judgement:
    metric = _fitting(Metric(**data["metric"])) if data["metric"] is not None else None
    return _fitting(Judgement(data["verdict"], data["reason"], metric))


def _one(kind: Any) -> Callable[[Any], Any]:
    return lambda value: _fitting(kind(**value))


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _each(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {name: read(item) for name, item in value.items()}


_NESTED: dict[str, Callable[[Any], Any]] = {
    "scope": tuple,
    "visited": tuple,
    "move": _or_none(_one(Move)),
    "wait": _or_none(_one(WaitFor)),
    "signal_line": _or_none(_one(SignalLine)),
    "limits": _one(Limits),
    "judgement": _or_none(_judgement),
    "metrics": _each(_one(Metric)),
    "costs": _each(_one(Receipt)),
    "captured": _each(lambda value: _fitting(result_from_dict(value))),
}
"""How the fields are read that JSON has in another form."""


# A file may have been edited by hand: what does not fit is found here, not in the middle of a run.

_TYPES: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}
_WORDS: dict[str, Any] = {
    "Status": Status,
    "Phase": Phase,
    "WaitKind": WaitKind,
    "CutBy": CutBy,
    "AgentWay": AgentWay,
}
_TESTS: dict[str, Callable[[Any], bool]] = {
    "tuple[str, ...]": lambda value: all(type(each) is str for each in value),
    "tuple[int, ...]": lambda value: all(type(each) is int for each in value),
    "Mapping[str, Any]": lambda value: isinstance(value, Mapping),
}


class _Allowed(NamedTuple):
    """What a field may hold beside values of its types: one of these words, what a test takes."""

    words: frozenset[str]
    tests: tuple[Callable[[Any], bool], ...]

    def has(self, value: Any) -> bool:
        if type(value) is str and value in self.words:
            return True
        return any(test(value) for test in self.tests)


@cache  # hundreds of snapshots are read to list runs
def _rules(kind: Any) -> tuple[tuple[str, frozenset[type], _Allowed | None], ...]:
    """For each field the types it may have; no rule where an annotation is not that plain."""
    return tuple(
        (name, *_rule(str(getattr(annotation, "__forward_arg__", annotation)).split(" | ")))
        for name, annotation in kind.__annotations__.items()
    )


def _rule(parts: list[str]) -> tuple[frozenset[type], _Allowed | None]:
    if any(part not in _TYPES and part not in _WORDS and part not in _TESTS for part in parts):
        return frozenset(), None
    types = (each for part in parts for each in _TYPES.get(part, ()))
    words = (word for part in parts if part in _WORDS for word in get_args(_WORDS[part]))
    tests = (_TESTS[part] for part in parts if part in _TESTS)
    return frozenset(types), _Allowed(frozenset(words), tuple(tests))


Record = TypeVar("Record", bound=tuple[Any, ...])


def _fitting(record: Record) -> Record:
    """The record, if every plain field of it is what its annotation says."""
    for value, (name, types, allowed) in zip(record, _rules(type(record)), strict=True):
        if type(value) not in types and allowed is not None and not allowed.has(value):
            raise TypeError(f"`{name}` cannot be {value!r}")
    return record


def _going_together(run: LoopState) -> LoopState:
    """The run, if it has what its phase is about."""
    needed = {
        "moving": run.move is not None,
        "judging": run.current_state in run.captured,
        "judged": run.judgement is not None,
    }
    if not needed.get(run.phase, True):
        raise ValueError(f"the run is `{run.phase}`, and does not say what")
    if run.prev_state is not None and run.prev_state not in run.captured:
        raise ValueError(f"there is no result of `{run.prev_state}`, the state before")
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
