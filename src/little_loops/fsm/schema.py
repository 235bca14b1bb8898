"""The machine as data: loops, states, conditions. Immutable and JSON-compatible.

A `StateConfig` has the fields of the manual, with aliases resolved. `transitions` merges `next` and
every `on_…` of a state into one table, the only one that routing reads.

Not here: reading and checking YAML (`authoring`), moving through the states (`machine`).
`from_dict` trusts its input, because `to_dict` wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from little_loops.records import NamedTuple

Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Direction = Literal["min", "max"]
ActionType = Literal["shell", "slash", "prompt", "builtin"]
Outcome = Literal["success", "failure", "review"]
Tampering = Literal["restore", "fail", "report"]
ScopeWrites = Literal["report", "enforce", "ignore"]
Place = Literal["here", "clean"]
"""Where a check runs: in the project, or in a clean copy."""
Number = float | str
"""A number, or a template that is parsed as one when it is used."""
Scalar = float | str | bool | None

PASS, FAIL, ERROR, TIMEOUT = "pass", "fail", "error", "timeout"
TARGET, PROGRESS, STALL = "target", "progress", "stall"
SOFT_VERDICTS = (PASS, FAIL, TARGET, PROGRESS, STALL)
"""Verdicts that fall back to `next` when there is no `on_…`."""
TAMPERED, OUT_OF_SCOPE, FLAKY, STALLED = "tampered", "out_of_scope", "flaky", "stalled"
CONFLICT, REJECTED = "conflict", "rejected"
PROOF_VERDICTS = (TAMPERED, OUT_OF_SCOPE, FLAKY, STALLED, CONFLICT)
"""Verdicts of the rules of evidence; only a state's own `on_…` handles them."""
RESERVED_WORDS = (
    *SOFT_VERDICTS,
    *(ERROR, TIMEOUT),
    *("interrupt", "maintain", "handoff"),
    *PROOF_VERDICTS,
    REJECTED,
)
CURRENT = "$current"
AS_ERROR = "$error"


class ExitCode(NamedTuple):
    """`fail` has codes and ranges such as `1-125`; a string is one range."""

    target: Number | None = None
    fail: tuple[int | str, ...] | str | None = None
    source: str | None = None


class OutputContains(NamedTuple):
    pattern: str
    negate: bool = False
    regex: bool | None = None
    source: str | None = None


class OutputJson(NamedTuple):
    path: str
    target: Scalar
    operator: Comparison = "eq"
    source: str | None = None


class OutputNumeric(NamedTuple):
    target: Number
    operator: Comparison = "eq"
    source: str | None = None


class Convergence(NamedTuple):
    target: Number
    tolerance: Number = 0
    direction: Direction | None = None
    patience: int = 1
    source: str | None = None


class VerdictWords(NamedTuple):
    words: tuple[str, ...] = (PASS, FAIL)
    source: str | None = None


class All(NamedTuple):
    of: tuple[Condition, ...]
    source: str | None = None


class AnyOf(NamedTuple):
    of: tuple[Condition, ...]
    source: str | None = None


class Not(NamedTuple):
    of: Condition
    source: str | None = None


Condition = (
    ExitCode
    | OutputContains
    | OutputJson
    | OutputNumeric
    | Convergence
    | VerdictWords
    | All
    | AnyOf
    | Not
)

CONDITION_TYPES: dict[str, Any] = {
    "exit_code": ExitCode,
    "output_contains": OutputContains,
    "output_json": OutputJson,
    "output_numeric": OutputNumeric,
    "convergence": Convergence,
    "verdict": VerdictWords,
    "all": All,
    "any": AnyOf,
    "not": Not,
}
TYPE_OF = {kind: name for name, kind in CONDITION_TYPES.items()}


class Retry(NamedTuple):
    """How transitions to `$current` are retried: at most `max` runs, with a growing wait between
    them."""

    max: int | None = None
    backoff: float | None = None
    factor: float = 2.0
    max_backoff: float = 60.0


HOST_NAMES: Final = ("claude", "codex", "command")
DEFAULT_HOST: Final = "claude"
DEFAULT_ITERATIONS: Final = 50
KILL_GRACE_S: Final = 5.0
"""How long a process gets between TERM and KILL, unless the loop sets `kill_grace`."""


class HostOptions(NamedTuple):
    """Which agent CLI, and its options; None means "not set here"."""

    name: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    max_wait: float | None = None
    args: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None

    @property
    def host(self) -> str:
        """The agent CLI to use."""
        return self.name or DEFAULT_HOST

    def under(self, own: HostOptions | None) -> HostOptions:
        """Return these options, overridden key by key by a state's own."""
        if own is None:
            return self
        said = {name: mine for name, mine in own._asdict().items() if mine is not None}
        return self._replace(**said)


class Evidence(NamedTuple):
    """How a pass is proved; None means "not set here".

    `protect`: gitignore patterns of files that agents may not change; with `existing_only` they may
    add files. `clean`: a pass counts once it is confirmed in a clean copy, after `setup` ran there.
    `confirm`: how many consecutive passes on the same tree count as one.
    """

    enabled: bool | None = None
    protect: tuple[str, ...] | None = None
    existing_only: bool = False
    tampering: Tampering | None = None
    clean: bool = False
    setup: str | None = None
    confirm: int = 1
    stall_after: int | None = None
    strict: bool = False


class StateConfig(NamedTuple):
    action: str | None = None
    action_type: ActionType | None = None
    condition: Condition | None = None
    next: str | None = None
    on_pass: str | None = None
    on_fail: str | None = None
    on_target: str | None = None
    on_progress: str | None = None
    on_stall: str | None = None
    on_error: str | None = None
    on_timeout: str | None = None
    on_tampered: str | None = None
    on_out_of_scope: str | None = None
    on_flaky: str | None = None
    on_stalled: str | None = None
    on_conflict: str | None = None
    on_rejected: str | None = None
    on_interrupt: str | None = None
    on_maintain: str | None = None
    on_words: Mapping[str, str] = {}
    route: Mapping[str, str] = {}
    terminal: bool = False
    outcome: Outcome | None = None
    choices: tuple[str, ...] = ()
    capture: str | None = None
    capture_exit: bool = False
    check: bool = False
    label: str | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    retry: Retry | None = None
    context: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    cwd: str | None = None
    shell: str | None = None
    kill_grace: float | None = None
    host: HostOptions | None = None

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        plain.update({f"on_{word}": to for word, to in plain.pop("on_words", {}).items()})
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateConfig:
        """Return the state that `to_dict` wrote. Raises `ValueError` for unknown fields."""
        fields = {key: data[key] for key in data if key in cls._fields}
        words = {key[3:]: to for key, to in data.items() if _names_a_word(key)}
        if unknown := data.keys() - fields.keys() - {f"on_{word}" for word in words}:
            raise ValueError(f"unknown state fields: {', '.join(sorted(unknown))}")
        if "condition" in fields:
            fields["condition"] = condition_from_dict(fields["condition"])
        if "choices" in fields:
            fields["choices"] = tuple(fields["choices"])
        if "retry" in fields:
            fields["retry"] = Retry(**fields["retry"])
        if "host" in fields:
            fields["host"] = _host(fields["host"])
        if words:
            fields["on_words"] = words
        return cls(**fields)


class FSMLoop(NamedTuple):
    name: str
    initial: str
    states: Mapping[str, StateConfig]
    description: str | None = None
    paradigm: str = "fsm"
    context: Mapping[str, Any] = {}
    scope: tuple[str, ...] = (".",)
    max_iterations: int = DEFAULT_ITERATIONS
    backoff: float | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    maintain: bool = False
    maintain_interval: float = 60.0
    on_error: str | None = None
    on_timeout: str | None = None
    on_interrupt: str = CURRENT
    on_handoff: str = "pause"
    max_continuations: int = 10
    env: Mapping[str, str] = {}
    cwd: str | None = None
    shell: str = "sh"
    kill_grace: float = KILL_GRACE_S
    host: HostOptions = HostOptions()
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    evidence: Evidence = Evidence()
    scope_writes: ScopeWrites = "report"

    def to_dict(self) -> dict[str, Any]:
        """Return the loop in its native form, without defaults; `from_dict` reads it."""
        plain: dict[str, Any] = _plain(self)
        plain["states"] = {name: state.to_dict() for name, state in self.states.items()}
        if "evidence" in plain:
            plain["evidence"] = _written_evidence(self.evidence)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FSMLoop:
        """Return the loop that `to_dict` wrote. Raises `ValueError` for unknown fields."""
        if unknown := data.keys() - set(cls._fields):
            raise ValueError(f"unknown loop fields: {', '.join(sorted(unknown))}")
        fields = dict(data)
        fields["states"] = {
            name: StateConfig.from_dict(state) for name, state in data["states"].items()
        }
        if "scope" in fields:
            fields["scope"] = tuple(fields["scope"])
        if "host" in fields:
            fields["host"] = _host(fields["host"])
        if "evidence" in fields:
            fields["evidence"] = _evidence(fields["evidence"])
        return cls(**fields)


class Transition(NamedTuple):
    """The next state for a verdict, and the field that sets it."""

    target: str
    reason: str


def transitions(state: StateConfig) -> dict[str, Transition]:
    """Return the transition of every verdict that has one: `next`, overridden by `on_…`."""
    table: dict[str, Transition] = {}
    if state.next is not None:
        table = {verdict: Transition(state.next, "next") for verdict in SOFT_VERDICTS}
    for verdict in (*SOFT_VERDICTS, ERROR, TIMEOUT, *PROOF_VERDICTS):
        target = getattr(state, f"on_{verdict}")
        if target is not None:
            table[verdict] = Transition(target, f"on_{verdict}")
    table.update(
        {word: Transition(target, f"on_{word}") for word, target in state.on_words.items()}
    )
    table.update({word: Transition(target, "route") for word, target in state.route.items()})
    return table


def effective_condition(state: StateConfig) -> Condition | None:
    """Return the state's condition, or the one that `on_target` implies; None for the default."""
    if state.condition is not None or state.on_target is None:
        return state.condition
    return Convergence("${context.target}", "${context.tolerance:-0}")


FAILURE_WORDS = frozenset({"fail", "failed", "failure", "error", "abort", "aborted"})
FAILURE_TRANSITIONS = frozenset(
    {"on_stall", "on_error", "on_timeout", "on_rejected"}
    | {f"on_{verdict}" for verdict in PROOF_VERDICTS}
)


def outcome_of(name: str, state: StateConfig, entered_by: str | None) -> Outcome:
    """Return what it means for a run to end in this terminal state: its `outcome`; if not set, a
    failure if its name or the transition that led there says so, else a success."""
    if state.outcome is not None:
        return state.outcome
    words = name.lower().replace("-", "_").split("_")
    failed = entered_by in FAILURE_TRANSITIONS or not FAILURE_WORDS.isdisjoint(words)
    return "failure" if failed else "success"


def condition_from_dict(data: Mapping[str, Any]) -> Condition:
    """Return the condition that a mapping with a `type` describes, with the conditions that it
    combines. Raises `KeyError` for an unknown type, `TypeError` for an unknown field."""
    fields = {key: value for key, value in data.items() if key != "type"}
    of = fields.get("of")
    if isinstance(of, Mapping):
        fields["of"] = condition_from_dict(of)
    elif of is not None:
        fields["of"] = tuple(condition_from_dict(each) for each in of)
    for name in ("fail", "words"):
        if isinstance(fields.get(name), Sequence) and not isinstance(fields[name], str):
            fields[name] = tuple(fields[name])
    condition: Condition = CONDITION_TYPES[data["type"]](**fields)
    return condition


def _names_a_word(key: str) -> bool:
    return key.startswith("on_") and key not in StateConfig._fields


def _host(data: Mapping[str, Any]) -> HostOptions:
    lists = ("allow", "deny", "args", "command")
    options: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
    return HostOptions(**options)


def _evidence(data: bool | Mapping[str, Any]) -> Evidence:
    """Read `true`, `false` or a mapping of settings."""
    if isinstance(data, bool):
        return Evidence(enabled=data)
    fields = {"enabled": True, **data}
    patterns = data.get("protect")
    if isinstance(patterns, Mapping):
        patterns = patterns["existing"]
        fields["existing_only"] = True
    fields["protect"] = None if patterns is None else tuple(patterns)
    return Evidence(**fields)


def _written_evidence(evidence: Evidence) -> bool | dict[str, Any] | None:
    """Write evidence as an author would: the reverse of `_evidence`."""
    plain: dict[str, Any] = _plain(evidence)
    enabled = plain.pop("enabled", None)
    if not plain:
        return evidence.enabled
    if plain.pop("existing_only", False):
        plain["protect"] = {"existing": plain.pop("protect", [])}
    return plain if enabled else {"enabled": enabled, **plain}


def _plain(value: Any) -> Any:
    """Return a value as plain data; the fields of NamedTuples that equal their default are left
    out, and conditions get their `type`."""
    if hasattr(value, "_fields"):
        defaults = value._field_defaults
        plain = {
            name: _plain(field)
            for name, field in zip(value._fields, value, strict=True)
            if name not in defaults or field != defaults[name]
        }
        return {"type": TYPE_OF[type(value)], **plain} if type(value) in TYPE_OF else plain
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
