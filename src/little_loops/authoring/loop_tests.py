"""Test files: what the actions of a loop are to do, and how its run is to end.

A test file is read like a loop file, along tables of fields, and all its problems are collected with
their places. The loop must be known, because tests name its states.

Not here: running a test (`engine.loop_tests`), finding test files (`definitions.test_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from little_loops.authoring.fields.kinds import (
    LARGEST_CODE,
    LOOP_NAME,
    Field,
    Flag,
    InProject,
    ListOf,
    Name,
    Num,
    OneOf,
    OtherKind,
    Plain,
    Str,
    Time,
    Whole,
    table,
)
from little_loops.authoring.fields.read_values import INVALID
from little_loops.authoring.fields.reader import READ, Reader
from little_loops.authoring.messages import listed, shown
from little_loops.authoring.yaml.nodes import List, Map, Mark, Node, Text
from little_loops.authoring.yaml.places import Source
from little_loops.errors import Place, Problem
from little_loops.fsm.actions import Action, action_of, is_shells
from little_loops.fsm.agent_outcomes import TRANSITIONS
from little_loops.fsm.joins import OUTCOME_OF_ENDING
from little_loops.fsm.schema import FSMLoop, StateConfig, worktree_of
from little_loops.fsm.state import Status
from little_loops.fsm.values import author_context
from little_loops.light_typing import Any, get_args
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved

ANY_STATES = "..."
EVERYWHERE = "everywhere"
ENDS: Mapping[str, tuple[str, str]] = {
    "completed": ("completed", "terminal"),
    **{reason: (status, reason) for status, reason in OUTCOME_OF_ENDING if reason != "terminal"},
    "failed": ("failed", "terminal"),
}
"""The ways in which a run started by a state can end: a word, and the status and reason that it means."""
AGENT_KINDS = tuple(kind for kind, result in TRANSITIONS.items() if result is not None)
STATUSES = tuple(status for status in get_args(Status) if status != "running")


# ── a test as data ─────────────────────────────────────────────────────────────────────────────


class ScriptedOutcome(NamedTuple):
    """What an action does in a test; `takes` is in seconds.

    `changes` are the paths it changes; None: whatever such an action usually changes.
    """

    exit: int | None = None
    output: str = ""
    stderr: str = ""
    signal: int | None = None
    timeout: bool = False
    agent: str | None = None
    verdict: str | None = None
    cost_usd: float | None = None
    handoff: str | None = None
    changes: tuple[str, ...] | None = None
    takes: float = 0
    ends: str | None = None
    conflict: bool = False
    judge: str | None = None
    """`pass`, `error`, or `fail: ` and the reason."""


class Expectation(NamedTuple):
    """How the run is to end; None means that any value will do."""

    status: str | None = None
    reason: str | None = None
    exit: int | None = None
    state: str | None = None
    path: tuple[str, ...] | None = None
    iterations: int | None = None
    visits: Mapping[str, int] | None = None
    cost_usd: float | None = None
    captured: Mapping[str, str] | None = None
    rendered: Mapping[str, str] | None = None
    tampered: tuple[str, ...] | None = None
    kept: float | None = None


class LoopTest(NamedTuple):
    """One test; `place` is where its file defines it."""

    name: str
    given: Mapping[str, tuple[ScriptedOutcome, ...]]
    expect: Expectation
    kill: bool = False
    place: Place | None = None


class LoopTestFile(NamedTuple):
    """A test file, read: its tests if nothing is wrong with it, and all problems in file order."""

    loop: FSMLoop | None
    tests: tuple[LoopTest, ...]
    problems: tuple[Problem, ...]


FindLoop = Callable[[str], "FSMLoop | str"]
"""Returns the loop of this name, or a string that says why there is none."""


# ── the fields ─────────────────────────────────────────────────────────────────────────────────


_OUTCOME_SCHEMAS = ({"type": "integer", "minimum": 0, "maximum": 255}, {"$ref": "#/$defs/outcome"})
_OUTCOMES = {"type": "array", "minItems": 1, "items": {"anyOf": _OUTCOME_SCHEMAS}}
_GIVEN = {"type": "object", "additionalProperties": {"anyOf": (*_OUTCOME_SCHEMAS, _OUTCOMES)}}
_PATH = {"type": "array", "items": {"type": "string"}}
_VETO_SCHEMA = {
    "type": "object",
    "properties": {"fail": {"type": "string", "pattern": r"\S"}},
    "required": ["fail"],
    "additionalProperties": False,
}
_OPINION = {"anyOf": [{"enum": ["pass", "error"]}, _VETO_SCHEMA]}
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string", "pattern": r"\S"}}


class GivenKind(OtherKind):
    """Outcomes by state: one, or a list of them."""

    words = "mapping: state to [outcome](#an-outcome) or list of outcomes"
    schema = _GIVEN


class Path(OtherKind):
    """The states of a run in order, or a list with `...` for any states."""

    words = "list of states"
    schema = _PATH


class CountsKind(OtherKind):
    """Numbers by state."""

    words = "mapping: state to number"
    schema = _COUNTS


class TextsKind(OtherKind):
    """Texts by the name of a state or a capture."""

    words = "mapping: state or capture to text"
    schema = _TEXTS


class Opinion(OtherKind):
    """What a judge answers: `pass`, `error`, or `{fail: reason}`."""

    words = "`pass`, `error` or `{fail: reason}`"
    schema = _OPINION


class OwnTable(OtherKind):
    """A mapping with the fields of a table of this module."""

    def __init__(self, name: str, words: str) -> None:
        self.name = name
        self.words = words
        self.schema = {"$ref": f"#/$defs/{name}"}


OUTCOME = table(
    "an outcome",
    Field("exit", Whole(0, LARGEST_CODE), "exit code of the action", "0", "1"),
    Field("output", Str(), "what it prints", "no output", '"3 errors"'),
    Field("stderr", Str(), "what it prints on standard error", "no output"),
    Field("signal", Whole(1, 64), "the signal that kills it", "none", "9"),
    Field("timeout", Flag(), "whether it exceeds its `timeout`", "false"),
    Field("agent", OneOf(AGENT_KINDS), "how the agent's turn ends", "success", "rate_limited"),
    Field("verdict", Plain(), "the verdict that an agent gives", "`pass` if one is needed", "fail"),
    Field("cost_usd", Num(0), "what the agent's turn costs", "0", "0.4"),
    Field(
        "handoff", Str(), "the notes that the action leaves when it hands off", "none", "half done"
    ),
    Field(
        "changes",
        ListOf(InProject()),
        "paths that it changes",
        "a change of its own; none for a check",
        "[src/a.py]",
    ),
    Field("takes", Time(zero=True), "how long it runs", "0", "90s"),
    Field(
        "ends",
        OneOf(tuple(ENDS)),
        "for a state that starts a loop: how that loop's run ends",
        "completed",
        "max_iterations",
    ),
    Field(
        "conflict",
        Flag(),
        "for a state with `worktree`: whether its work cannot be merged, even after `resolve`",
        "false",
        "true",
    ),
    Field(
        "judge",
        Opinion(),
        "for a check with a judge: the judge's answer if the check passes",
        "pass",
        "{fail: a test was weakened}",
    ),
)
EXPECT = table(
    "`expect`",
    Field("status", OneOf(STATUSES), "the run's status", example="completed"),
    Field("reason", Plain(), "why the run ended", example="max_iterations"),
    Field("exit", Whole(0, LARGEST_CODE), "exit code of `ll-loop run`", example="0"),
    Field("state", Plain(), "the last state", example="done"),
    Field(
        "path",
        Path(),
        "all states in order; `...` matches any states",
        example="[check, ..., done]",
    ),
    Field("iterations", Whole(0), "number of iterations", example="2"),
    Field("visits", CountsKind(), "how many times each state is entered", example="{fix: 2}"),
    Field("cost_usd", Num(0), "the run's cost", example="0.8"),
    Field("captured", TextsKind(), "outputs at the end of the run", example='{check: "3 errors"}'),
    Field(
        "rendered",
        TextsKind(),
        "actions as they last ran, with their values filled in; `...` matches any text",
        example='{fix: "Fix ... in src/"}',
    ),
    Field("tampered", ListOf(InProject()), "protected paths that were changed", example="[]"),
    Field(
        "kept",
        Num(),
        "for `keep: best`: the number measured for the files that are kept",
        example="98",
    ),
)
TEST = table(
    "a test",
    Field("name", Str(), "what the test shows", required=True, example="two rounds are enough"),
    Field(
        "given",
        GivenKind(),
        "what each state's action does, in order; the last outcome repeats",
        "{}",
        "{check: [1, 0], fix: {agent: success}}",
    ),
    Field(
        "expect",
        OwnTable("expect", "[mapping](#what-to-expect)"),
        "how the run ends",
        required=True,
        example="{status: completed}",
    ),
    Field(
        "kill", OneOf((EVERYWHERE,)), "kill the run after each event, and resume it", "not at all"
    ),
)
FILE = table(
    "a test file",
    Field("loop", Name("loop", LOOP_NAME), "the loop to test", required=True, example="fix-types"),
    Field(
        "tests",
        ListOf(OwnTable("test", "[test](#a-test)"), 1),
        "the tests",
        required=True,
        example="[{name: …, given: {…}, expect: {…}}]",
    ),
)
TABLES = {"outcome": OUTCOME, "expect": EXPECT, "test": TEST, "file": FILE}


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def load_tests(text: str | bytes, file: str, find: FindLoop) -> LoopTestFile:
    """Read a test file; problems are returned, never raised, and then there are no tests.

    `find` returns the loop with a name, or why there is none.
    """
    from little_loops.authoring.yaml.source import parse  # only here is YAML read

    document = parse(text, file)
    reader = LoopTestReader(document.source)
    reader.problems.extend(document.problems)
    root = document.root
    if not isinstance(root, Map):
        if not reader.problems:  # otherwise, what it is cannot be told
            message = "a test file is a mapping with `loop` and `tests`"
            mark = Mark(0, 0, 1) if root is None else root.mark
            reader.report("LL501", message, mark, "see `ll-loop help tests`")
        return LoopTestFile(None, (), tuple(reader.problems))
    reader.loop = _loop(reader, root, find)
    given = reader.record(root, FILE, "the test file")
    tests: tuple[LoopTest, ...] = tuple(given.get("tests", ()))
    _check_names(reader, tests)
    return LoopTestFile(reader.loop, () if reader.problems else tests, in_order(reader.problems))


class LoopTestReader(Reader):
    """Reads a test file. `loop` is None if it is unknown: then nothing is said about states."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.loop: FSMLoop | None = None

    def check_state(self, key: Text, known: Mapping[str, Any], that: str = "") -> bool:
        """Return whether `known` has a state of that name, and report it if not; also True if the
        loop is unknown."""
        if self.loop is None or key.text in known:
            return True
        message = f"loop `{self.loop.name}` has no state named `{shown(key.text)}`{that}"
        self.report("LL502", message, key.mark, self.suggest(key.text, known) or _known(known))
        return False


def _loop(reader: LoopTestReader, root: Map, find: FindLoop) -> FSMLoop | None:
    """Return the loop that the file names; None if there is none, which is reported."""
    name = root.get("loop")
    if not isinstance(name, Text) or name.kind != "str":
        return None
    found = find(name.text)
    if isinstance(found, str):
        reader.report("LL503", found, name.mark, "`ll-loop list` shows the loops in this project")
        return None
    return found


def _check_names(reader: Reader, tests: tuple[LoopTest, ...]) -> None:
    """Report tests with the same name."""
    seen: set[str] = set()
    for test in tests:
        if test.name in seen:
            message = f"two tests are named `{shown(test.name)}`"
            reader.problems.append(Problem("LL504", message, test.place, "rename one of them"))
        seen.add(test.name)


def _own_table(reader: LoopTestReader, kind: OwnTable, node: Node, label: str) -> Any:
    """Read a test or its `expect`; INVALID if a required field is missing."""
    given = reader.record(node, TABLES[kind.name], label if kind.name != "test" else "the test")
    if given is INVALID:
        return INVALID
    if kind.name == "expect":
        return _expectation(reader, node, given)
    if "name" not in given or "expect" not in given:
        return INVALID  # the problem has been noted
    place = reader.source.place(node.mark)
    return LoopTest(given["name"], given.get("given", {}), given["expect"], "kill" in given, place)


def _expectation(reader: LoopTestReader, node: Node, given: dict[str, Any]) -> Any:
    """Return what a test expects; report an empty mapping, and a state that the loop does not
    have."""
    assert isinstance(node, Map)
    if not node.entries:
        message = "`expect` is empty, so the test cannot fail"
        return reader.report("LL111", message, node.mark, "add `status: completed`")
    state = node.get("state")
    if isinstance(state, Text) and "state" in given:
        reader.check_state(state, _states(reader))
    if "tampered" in given:
        given["tampered"] = tuple(given["tampered"])
    return Expectation(**given)


def _given(reader: LoopTestReader, kind: GivenKind, node: Node, label: str) -> Any:
    """Read the outcomes of each state's action; states without an action are reported and left
    out."""
    if not isinstance(node, Map):
        return reader.wrong(label, "a mapping of states to outcomes", node)
    found: dict[str, tuple[ScriptedOutcome, ...]] = {}
    for key, value in node.entries:
        if reader.check_state(key, _acting(reader), " that runs an action"):
            found[key.text] = _outcomes(reader, key.text, value)
    return found


def _outcomes(reader: LoopTestReader, state: str, node: Node) -> tuple[ScriptedOutcome, ...]:
    """Read one outcome or a list of them; those that could not be read are left out."""
    items = node.items if isinstance(node, List) else (node,)
    if not items:
        reader.report(
            "LL111", f"`{shown(state)}` is empty", node.mark, f"write `{shown(state)}: 0`"
        )
    outcomes = [_outcome(reader, state, item) for item in items]
    return tuple(each for each in outcomes if each is not INVALID)


def _outcome(reader: LoopTestReader, state: str, node: Node) -> Any:
    """Read an outcome: an exit code, or a mapping."""
    label = f"`{shown(state)}`"
    if isinstance(node, Text) and node.kind == "int":
        code = reader.read(OUTCOME.by_name["exit"].kind, node, label)
        return code if code is INVALID else ScriptedOutcome(code)
    if not isinstance(node, Map):
        return reader.wrong(label, "an exit code, or a mapping such as `{exit: 1}`", node)
    given = reader.record(node, OUTCOME, "an outcome")
    if "changes" in given:
        given["changes"] = tuple(given["changes"])
    _check_outcome(reader, state, node, given)
    return ScriptedOutcome(**given)


OUTCOME_KEYS = ("exit", "signal", "timeout", "agent", "ends")
"""The ways an action can end; only one can apply."""
FOR_AGENTS = ("agent", "verdict", "cost_usd")


def _all_of(names: Sequence[str]) -> str:
    """Return two or more field names for a message."""
    *others, last = [f"`{name}`" for name in names]
    return f"{'both ' if len(others) == 1 else ''}{', '.join(others)} and {last}"


def _check_outcome(reader: LoopTestReader, state: str, node: Map, given: dict[str, Any]) -> None:
    """Report an outcome that ends in more than one way, or has fields for agents in a shell
    state."""
    ends = [name for name in OUTCOME_KEYS if name in given]
    if len(ends) > 1:
        message = f"an action can end in only one way; it cannot have {_all_of(ends)}"
        reader.report("LL505", message, node.mark, "keep one of them")
    config = _states(reader).get(state)
    if "judge" in given and config is not None and config.judge is None:
        message = f"`{shown(state)}` has no judge"
        reader.report("LL505", message, node.mark, "remove `judge`")
    if "conflict" in given and config is not None and worktree_of(config) is None:
        message = f"`{shown(state)}` has no `worktree`, so nothing is merged"
        reader.report("LL505", message, node.mark, "remove `conflict`")
    if config is None or not is_shells(action_in(reader.loop, config)):
        return
    for key, _ in node.entries:
        if key.text in FOR_AGENTS:
            message = f"`{key.text}` is for agents, but `{shown(state)}` runs none"
            reader.report("LL505", message, key.mark, "write `exit: 0` or `exit: 1`")


def action_in(loop: FSMLoop | None, state: StateConfig) -> Action | None:
    """Return the action of a state that has one; None if it is not known until it runs."""
    context = {} if loop is None else loop.context
    try:
        return action_of(state, author_context(context, state))
    except (TemplateError, Unresolved):
        return None


def _opinion(reader: LoopTestReader, kind: Opinion, node: Node, label: str) -> Any:
    """Read what a judge answers."""
    if isinstance(node, Map):
        given = reader.record(node, _VETO, label)
        return f"fail: {given['fail']}" if "fail" in given else INVALID
    return reader.read(OneOf(("pass", "error")), node, label)


_VETO = table("`judge`", Field("fail", Str(), "why the judge says no", required=True))


def _path(reader: LoopTestReader, kind: Path, node: Node, label: str) -> Any:
    """Read a list of states, in which `ANY_STATES` stands for any number of them."""
    if not isinstance(node, List):
        return reader.wrong(label, "a list of states", node)
    names = [item for item in node.items if isinstance(item, Text)]
    if len(names) < len(node.items):
        return reader.wrong(label, "a list of states", node)
    for name in names:
        if name.text != ANY_STATES:
            reader.check_state(name, _states(reader))
    return tuple(name.text for name in names)


def _counts(reader: LoopTestReader, kind: CountsKind, node: Node, label: str) -> Any:
    return _by_name(reader, node, label, Whole(0), _states(reader))


def _texts(reader: LoopTestReader, kind: TextsKind, node: Node, label: str) -> Any:
    captures = {state.capture for state in _states(reader).values() if state.capture}
    return _by_name(reader, node, label, Str(), {**_states(reader), **dict.fromkeys(captures)})


def _by_name(
    reader: LoopTestReader, node: Node, label: str, kind: Whole | Str, known: Mapping[str, Any]
) -> Any:
    """Read a mapping of states to values of a kind; entries that could not be read are left out."""
    if not isinstance(node, Map):
        return reader.wrong(label, "a mapping of states", node)
    found = {
        key.text: reader.read(kind, value, f"`{shown(key.text)}`")
        for key, value in node.entries
        if reader.check_state(key, known)
    }
    return {name: value for name, value in found.items() if value is not INVALID}


LoopTestReader.kinds = {
    **READ,
    GivenKind: _given,
    Path: _path,
    CountsKind: _counts,
    TextsKind: _texts,
    Opinion: _opinion,
    OwnTable: _own_table,
}


def _states(reader: LoopTestReader) -> Mapping[str, StateConfig]:
    return {} if reader.loop is None else reader.loop.states


def _acting(reader: LoopTestReader) -> Mapping[str, StateConfig]:
    return {name: state for name, state in _states(reader).items() if state.action is not None}


def _known(names: Mapping[str, Any]) -> str:
    return f"known: {listed(names)}" if names else "it has none"


def in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return problems by their place; those without a place come first."""

    def position(problem: Problem) -> tuple[int, int]:
        return (0, 0) if problem.place is None else (problem.place.line, problem.place.column)

    return tuple(sorted(dict.fromkeys(problems), key=position))


# ── a first test file ──────────────────────────────────────────────────────────────────────────

FIRST_TESTS = """\
loop: {name}
tests:
  - name: a check that passes needs no fix
    given: {{evaluate: 0}}
    expect: {{status: completed, path: [evaluate, done]}}
  - name: after a fix the check runs again
    given: {{evaluate: [{failing}, 0], fix: 0}}
    expect: {{status: completed, path: [evaluate, fix, evaluate, done]}}
  - name: a check that cannot run is an error, not something to fix
    given: {{evaluate: 127}}
    expect: {{status: failed, reason: error}}
"""


def first_tests(name: str, failing: int = 1) -> str:
    """Return a test file for a loop of one `check` and one `fix`, to begin with; `failing` is an
    exit code that counts as a failure of the check."""
    return FIRST_TESTS.format(name=name, failing=failing)
