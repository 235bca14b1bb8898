"""The machine as data: loops, states, conditions. Immutable and JSON-compatible.

A `StateConfig` has the fields of the manual, with aliases resolved. `transitions` merges `next` and
every `on_…` of a state into one table, the only one that routing reads.

Not here: reading and checking YAML (`authoring`), moving through the states (`machine`).
`from_dict` trusts its input, because `to_dict` wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from little_loops.light_typing import Any, Final, Literal
from little_loops.records import NamedTuple

Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Direction = Literal["min", "max"]
Keep = Literal["best"]
NOISE: Final = "noise"
"""The `min_gain` that is twice the spread of the first two measurements."""
ActionType = Literal["shell", "slash", "prompt", "builtin", "loop"]
Outcome = Literal["success", "failure", "review"]
FallbackReason = Literal["auth", "billing"]
"""Agent failures after which the next agent takes the turn, but only if the loop sets so."""
Tampering = Literal["restore", "fail", "report"]
ScopeWrites = Literal["report", "enforce", "ignore"]
MergeMode = Literal["merge", "squash", "none"]
KeepWorktree = Literal["failed", "always", "never"]
WORKING_TREE: Final = "working-tree"
"""The value of `from` for a worktree that also starts with uncommitted changes."""
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
"""Verdicts from the evidence rules; only a state's own `on_…` handles them."""
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
    keep: Keep | None = None
    min_gain: float | Literal["noise"] = NOISE
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
"""How long a process has between TERM and KILL, unless the loop sets `kill_grace`."""


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


JUDGE: Final = "judge"
JUDGE_TIMEOUT_S: Final = 600.0
DIFF, OUTPUT = "diff", "output"


class JudgeConfig(NamedTuple):
    """A second opinion on a pass, by an agent that may only read.

    `sees` lists what it gets: the `diff` since the start of the run, the `output` of the check, and
    paths of files.
    """

    question: str
    host: HostOptions | None = None
    sees: tuple[str, ...] = (DIFF,)
    timeout: float = JUDGE_TIMEOUT_S


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


HOOK_TIMEOUT_S: Final = 30.0


class Hook(NamedTuple):
    """A command that a run starts at one of its points; None for `required` means the default there.

    `states`: the only states that it is for.
    """

    action: str
    timeout: float = HOOK_TIMEOUT_S
    required: bool | None = None
    states: tuple[str, ...] | None = None
    env: Mapping[str, str] = {}


class Hooks(NamedTuple):
    """The hooks of a loop; `events` has those that run beside it, by the kind of event."""

    before_run: Hook | None = None
    before_state: Hook | None = None
    after_state: Hook | None = None
    after_run: Hook | None = None
    events: Mapping[str, Hook] = {}


WAITS, FAILED, COMPLETED = "waits", "failed", "completed"
OCCASIONS: Final = (WAITS, FAILED, COMPLETED)
"""When people can be notified: a run waits for something, it failed, it completed."""


class Notify(NamedTuple):
    """Who is notified about a run, and on which occasions.

    `to` is an address (`ntfy://…`, `https://…`, or a template for one) or a command.
    """

    to: str
    when: tuple[str, ...] = OCCASIONS


class ChildLimits(NamedTuple):
    """What a state allows each run that it starts; None: as the run's own loop says."""

    max_iterations: int | None = None
    max_cost_usd: float | None = None
    timeout: float | None = None


BRANCH: Final = "branch"
"""The paradigm of a loop that is a branch's action; it cannot be written in a file."""
MOST_PARALLEL: Final = 4
"""How many of a state's branches run at once, unless the state sets `max_parallel`."""


class Branches(NamedTuple):
    """The runs that a state starts at once: its branches.

    There is one for each item of `for_each` (a list, a text that is filled in, or a `glob`), each
    combination of `matrix`, or each entry of `named`, which says itself what it runs. `as_` is the
    name of the item. `join`: `all`, `any`, a number, or a percentage such as `80%`.
    """

    for_each: tuple[Any, ...] | str | Mapping[str, str] | None = None
    as_: str = "item"
    matrix: Mapping[str, tuple[Any, ...]] = {}
    exclude: tuple[Mapping[str, Any], ...] = ()
    named: Mapping[str, StateConfig] = {}
    max_parallel: int = MOST_PARALLEL
    join: str | int = "all"
    fail_fast: bool = False


class Worktree(NamedTuple):
    """A git worktree for a run, outside the project, and how its work gets back.

    `from_`: the commit it begins at. `setup` runs there once, before the first action. `copy` and
    `link` are paths of the project that git does not track; `ports` are variables with the first
    number for each. `merge` is None if it is not set: then `merge` for a state, `none` for a loop.
    `check` judges each merged tree; `resolve` may try `tries` times to resolve a branch that cannot be merged. It is what
    that runs, as a state with an action or a loop.
    """

    from_: str = "HEAD"
    setup: str | None = None
    copy: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    ports: Mapping[str, int] = {}
    merge: MergeMode | None = None
    check: str | None = None
    resolve: StateConfig | None = None
    tries: int = 1
    keep: KeepWorktree = "failed"


class FleetWorkspace(NamedTuple):
    """How a worker of a fleet prepares the clone that a run works in; `setup` runs there whenever a
    worker takes up the run, before the first action."""

    setup: str


class RunsOn(NamedTuple):
    """Which workers of a fleet may carry out a run: those that have all of these labels."""

    labels: tuple[str, ...]


class StateConfig(NamedTuple):
    """A state. `judge` is asked if its action passes; files have it as a condition.

    One that starts another run has its loop in `loop`; its `action` is the name of that loop, and
    its `action_type` is `loop`. With `branches`, it starts several: of its loop, of its
    action, or of what they say themselves."""

    action: str | None = None
    action_type: ActionType | None = None
    condition: Condition | None = None
    judge: JudgeConfig | None = None
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
    repeat: int = 1
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
    fallback: tuple[HostOptions, ...] | None = None
    fallback_on: tuple[FallbackReason, ...] | None = None
    before: Hook | None = None
    after: Hook | None = None
    loop: FSMLoop | None = None
    with_: Mapping[str, Any] = {}
    limits: ChildLimits | None = None
    branches: Branches | None = None
    worktree: Worktree | None = None
    runs_on: RunsOn | None = None

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        if self.worktree is not None:
            plain["worktree"] = _written_worktree(self.worktree)
        plain.update({f"on_{word}": to for word, to in plain.pop("on_words", {}).items()})
        if self.judge is not None:
            _join_judge(plain, self.condition)
        if self.branches is not None:
            plain = _with_branches(plain, self.branches)
        return plain if self.loop is None else _with_loop(plain, self.loop)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateConfig:
        """Return the state that `to_dict` wrote. Raises `ValueError` for unknown fields."""
        if not BRANCH_FIELDS.keys().isdisjoint(data):
            data = _from_branches(data)
        if "loop" in data:
            data = _from_loop(data)
        fields = {key: data[key] for key in data if key in cls._fields}
        words = {key[3:]: to for key, to in data.items() if _names_a_word(key)}
        if unknown := data.keys() - fields.keys() - {f"on_{word}" for word in words}:
            raise ValueError(f"unknown state fields: {', '.join(sorted(unknown))}")
        if "condition" in fields:
            _split_judge(fields)
        _read_hosts(fields)
        for name, read in _READ_FIELD.items():
            if name in fields:
                fields[name] = read(fields[name])
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
    fallback: tuple[HostOptions, ...] = ()
    fallback_on: tuple[FallbackReason, ...] = ()
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    evidence: Evidence = Evidence()
    scope_writes: ScopeWrites = "report"
    hooks: Hooks | None = None
    result: Mapping[str, str] = {}
    notify: tuple[Notify, ...] = ()
    worktree: Worktree | None = None
    workspace: FleetWorkspace | None = None
    runs_on: RunsOn | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the loop in its native form, without defaults; `from_dict` reads it."""
        plain: dict[str, Any] = _plain(self)
        if self.worktree is not None:
            plain["worktree"] = _written_worktree(self.worktree)
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
        _read_hosts(fields)
        if "evidence" in fields:
            fields["evidence"] = _evidence(fields["evidence"])
        if "hooks" in fields:
            fields["hooks"] = _hooks(fields["hooks"])
        if "notify" in fields:
            fields["notify"] = tuple(map(_notify, fields["notify"]))
        if "worktree" in fields:
            fields["worktree"] = _worktree(fields["worktree"])
        if "workspace" in fields:
            fields["workspace"] = FleetWorkspace(**fields["workspace"])
        if "runs_on" in fields:
            fields["runs_on"] = _runs_on(fields["runs_on"])
        return cls(**fields)


def _with_loop(plain: dict[str, Any], loop: FSMLoop) -> dict[str, Any]:
    """Write the fields of a state that starts runs as an author would."""
    del plain["action"], plain["action_type"]
    given = plain.pop("with_", None)
    plain["loop"] = loop.to_dict()
    return plain if given is None else {**plain, "with": given}


def _from_loop(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a state that starts runs: the reverse of `_with_loop`."""
    fields = {key: value for key, value in data.items() if key != "with"}
    loop = FSMLoop.from_dict(data["loop"])
    fields |= {"loop": loop, "action": loop.name, "action_type": "loop"}
    if "with" in data:
        fields["with_"] = data["with"]
    return fields


BRANCH_FIELDS: Final = {
    "for_each": "for_each",
    "as": "as_",
    "matrix": "matrix",
    "exclude": "exclude",
    "branches": "named",
    "max_parallel": "max_parallel",
    "join": "join",
    "fail_fast": "fail_fast",
}
"""The fields of a state with branches, and their names in `Branches`."""


def _with_branches(plain: dict[str, Any], branches: Branches) -> dict[str, Any]:
    """Write the fields of a state with branches as an author would."""
    own = {name: plain["branches"].get(field) for name, field in BRANCH_FIELDS.items()}
    del plain["branches"]
    if branches.named:
        del plain["action"], plain["action_type"]
        own["branches"] = {name: each.to_dict() for name, each in branches.named.items()}
    return {**{name: value for name, value in own.items() if value is not None}, **plain}


def _from_branches(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a state with branches: the reverse of `_with_branches`."""
    fields = {name: value for name, value in data.items() if name not in BRANCH_FIELDS}
    own: dict[str, Any] = {
        BRANCH_FIELDS[name]: tuple(value) if isinstance(value, list) else value
        for name, value in data.items()
        if name in BRANCH_FIELDS
    }
    if "matrix" in own:
        own["matrix"] = {name: tuple(values) for name, values in own["matrix"].items()}
    if "named" in own:
        own["named"] = {name: StateConfig.from_dict(each) for name, each in own["named"].items()}
        fields |= {"action": ", ".join(own["named"]), "action_type": "loop"}
    return {**fields, "branches": Branches(**own)}


def starts_runs(state: StateConfig) -> bool:
    """Return whether a state starts other runs instead of an action of its own."""
    return state.loop is not None or state.branches is not None


RESOLVE: Final = "worktree/resolve"
"""Reserved as a field name for what a branch adds to its state's branches; no branch can have this name."""


def inner_steps(state: StateConfig) -> dict[str, StateConfig]:
    """Return what a state runs besides its own action or loop: its named branches, and what
    resolves a branch that cannot be merged."""
    found = {} if state.branches is None else dict(state.branches.named)
    if state.worktree is not None and state.worktree.resolve is not None:
        found[RESOLVE] = state.worktree.resolve
    return found


def acting_states(loop: FSMLoop) -> Iterator[tuple[str, StateConfig]]:
    """Yield all that runs an action or another loop: each state, or its branches if those say
    themselves what they run, and what resolves branches. A state whose items name the host is
    yielded once for each host."""
    for name, state in loop.states.items():
        branches = state.branches
        for key, each in inner_steps(state).items():
            yield f"{name}/{key}", each
        if branches is None or not branches.named:
            for host in item_hosts(state):
                yield name, state if host is None else with_host_name(state, host)


def with_host_name(state: StateConfig, name: str) -> StateConfig:
    """Return a state whose action is run by another host."""
    return state._replace(host=(state.host or HostOptions())._replace(name=name))


def host_variable(state: StateConfig) -> str | None:
    """Return the name of the item that names the host, as in `host: ${branch.who}`; else None."""
    named = state.host.name if state.host is not None else None
    is_one = named is not None and named.startswith(HOST_OF_BRANCH) and named.endswith("}")
    return (named or "")[len(HOST_OF_BRANCH) : -1] if is_one else None


HOST_OF_BRANCH: Final = "${branch."


def item_hosts(state: StateConfig) -> tuple[str | None, ...]:
    """Return the hosts that the items of a state name, each once; one None if they name none."""
    variable, branches = host_variable(state), state.branches
    if variable is None or branches is None:
        return (None,)
    values = branches.matrix.get(variable, ())
    if not branches.matrix and isinstance(branches.for_each, tuple):
        values = branches.for_each
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))


def loops_started_by(state: StateConfig) -> tuple[FSMLoop, ...]:
    """Return the loops that a state or its branches start."""
    inner = inner_steps(state).values()
    return tuple(each.loop for each in (state, *inner) if each.loop is not None)


def child_loops(loop: FSMLoop) -> tuple[FSMLoop, ...]:
    """Return the loops that the states of this one start."""
    return tuple(child for state in loop.states.values() for child in loops_started_by(state))


def with_child_loops(loop: FSMLoop, change: Callable[[str, FSMLoop], FSMLoop]) -> FSMLoop:
    """Return the loop with the loops that its states start changed; `change` gets the name of the
    state, or the state's agent and of the branch: `checks/types`."""
    return loop._replace(
        states={name: _changed(name, state, change) for name, state in loop.states.items()}
    )


def _changed(
    name: str, state: StateConfig, change: Callable[[str, FSMLoop], FSMLoop]
) -> StateConfig:
    if state.loop is not None:
        state = state._replace(loop=change(name, state.loop))
    changed = {
        key: _changed(f"{name}/{key}", each, change) for key, each in inner_steps(state).items()
    }
    resolve = changed.pop(RESOLVE, None)
    if state.worktree is not None and resolve is not None:
        state = state._replace(worktree=state.worktree._replace(resolve=resolve))
    if state.branches is not None and changed:
        state = state._replace(branches=state.branches._replace(named=changed))
    return state


def has_worktree(loop: FSMLoop) -> bool:
    """Return whether a run of this loop, or one that it starts, has a worktree."""
    states = any(state.worktree is not None for state in loop.states.values())
    return loop.worktree is not None or states or any(map(has_worktree, child_loops(loop)))


def worktree_of(state: StateConfig) -> Worktree | None:
    """Return the worktree for each run that a state starts: the state's own, or that of the loop
    that it starts. `merge` is set."""
    if state.worktree is not None:
        return state.worktree._replace(merge=state.worktree.merge or "merge")
    return None if state.loop is None else own_worktree(state.loop)


def own_worktree(loop: FSMLoop) -> Worktree | None:
    """Return the worktree for a run of this loop, with `merge` set; None without one."""
    if loop.worktree is None:
        return None
    return loop.worktree._replace(merge=loop.worktree.merge or "none")


class Transition(NamedTuple):
    """The next state for a verdict, and the field that sets it."""

    target: str
    reason: str


def transitions(state: StateConfig) -> dict[str, Transition]:
    """Return the transition of every verdict that has one."""
    verdicts = (*_WITH_FIELD, *state.on_words, *state.route)
    found = ((verdict, transition_for(state, verdict)) for verdict in verdicts)
    return {verdict: transition for verdict, transition in found if transition is not None}


def transition_for(state: StateConfig, verdict: str) -> Transition | None:
    """Return the transition of a verdict: by `route`, else by `on_…`, else by `next`."""
    if (target := state.route.get(verdict)) is not None:
        return Transition(target, "route")
    if (target := state.on_words.get(verdict)) is not None:
        return Transition(target, f"on_{verdict}")
    if (field := _WITH_FIELD.get(verdict)) and (target := getattr(state, field)) is not None:
        return Transition(target, field)
    if state.next is not None and verdict in SOFT_VERDICTS:
        return Transition(state.next, "next")
    return None


_WITH_FIELD = {
    verdict: f"on_{verdict}" for verdict in (*SOFT_VERDICTS, ERROR, TIMEOUT, *PROOF_VERDICTS)
}


def effective_condition(state: StateConfig) -> Condition | None:
    """Return the state's condition, or the one that `on_target` implies; None for the default."""
    if state.condition is not None or state.on_target is None:
        return state.condition
    return Convergence("${context.target}", "${context.tolerance:-0}")


def keeps_best(state: StateConfig) -> bool:
    """Return whether a state measures changes and puts back those that are not better."""
    return isinstance(state.condition, Convergence) and state.condition.keep is not None


def keeper_of(loop: FSMLoop) -> str | None:
    """Return the state whose condition has `keep: best`; None without one. A valid loop has at most
    one."""
    return next((name for name, state in loop.states.items() if keeps_best(state)), None)


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


def _join_judge(plain: dict[str, Any], condition: Condition | None) -> None:
    """Write a state's judge as a condition: alone, or the last of those that must hold."""
    judge = {"type": JUDGE, **plain.pop("judge")}
    if condition is None:
        plain["condition"] = judge
    else:
        rest = plain["condition"]
        of = rest["of"] if isinstance(condition, All) else [rest]
        others = rest if isinstance(condition, All) else {"type": "all"}
        plain["condition"] = {**others, "of": [*of, judge]}


def _split_judge(fields: dict[str, Any]) -> None:
    """Take the judge out of a state's condition, in place: it becomes the state's `judge`."""
    data = fields.pop("condition")
    of = data.get("of")
    if data["type"] == JUDGE:
        fields["judge"] = _judge(data)
        return
    if data["type"] == "all" and of and of[-1]["type"] == JUDGE:
        fields["judge"] = _judge(of[-1])
        data = {**data, "of": of[:-1]}
        if not data["of"]:
            return
    fields["condition"] = data


def _judge(data: Mapping[str, Any]) -> JudgeConfig:
    fields = {key: value for key, value in data.items() if key != "type"}
    if "host" in fields:
        fields["host"] = _host(fields["host"])
    if "sees" in fields:
        fields["sees"] = tuple(fields["sees"])
    return JudgeConfig(**fields)


def _names_a_word(key: str) -> bool:
    return key.startswith("on_") and key not in StateConfig._fields


def _read_hosts(fields: dict[str, Any]) -> None:
    """Read the agents of a loop or a state, in place."""
    if "host" in fields:
        fields["host"] = _host(fields["host"])
    if "fallback" in fields:
        fields["fallback"] = tuple(_host(each) for each in fields["fallback"])
    if "fallback_on" in fields:
        fields["fallback_on"] = tuple(fields["fallback_on"])


def _host(data: Mapping[str, Any]) -> HostOptions:
    lists = ("allow", "deny", "args", "command")
    options: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
    return HostOptions(**options)


def _hook(data: str | Mapping[str, Any]) -> Hook:
    """Read a hook: its command alone, or a mapping."""
    if isinstance(data, str):
        return Hook(data)
    fields: dict[str, Any] = {k: tuple(v) if k == "states" else v for k, v in data.items()}
    return Hook(**fields)


def _hooks(data: Mapping[str, Any]) -> Hooks:
    """Read the hooks of a loop."""
    fields: dict[str, Any] = {name: _hook(hook) for name, hook in data.items() if name != "events"}
    events = {kind: _hook(hook) for kind, hook in data.get("events", {}).items()}
    return Hooks(**fields, events=events)


def _notify(data: Mapping[str, Any]) -> Notify:
    return Notify(data["to"], tuple(data.get("when", OCCASIONS)))


def _worktree(data: bool | Mapping[str, Any]) -> Worktree | None:
    """Read `true`, `false` or a mapping of settings."""
    if isinstance(data, bool):
        return Worktree() if data else None
    lists = ("copy", "link")
    fields: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
    if "from" in fields:
        fields["from_"] = fields.pop("from")
    if "resolve" in fields:
        fields["resolve"] = StateConfig.from_dict(fields["resolve"])
    return Worktree(**fields)


def _written_worktree(worktree: Worktree) -> bool | dict[str, Any]:
    """Write the settings of a worktree as an author would: the reverse of `_worktree`."""
    plain: dict[str, Any] = _plain(worktree)
    if "from_" in plain:
        plain = {"from": plain.pop("from_"), **plain}
    if worktree.resolve is not None:
        plain["resolve"] = worktree.resolve.to_dict()
    return plain or True


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
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value  # a list is plain data already


def _runs_on(data: Mapping[str, Any]) -> RunsOn:
    return RunsOn(tuple(data["labels"]))


_READ_FIELD: Final[Mapping[str, Callable[[Any], Any]]] = {
    "condition": condition_from_dict,
    "choices": tuple,
    "retry": lambda data: Retry(**data),
    "limits": lambda data: ChildLimits(**data),
    "before": _hook,
    "after": _hook,
    "worktree": _worktree,
    "runs_on": _runs_on,
}
"""How to read the fields of a state that are not plain data."""
