"""Loop documents for laws: sound ones made along the table of fields, and damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

from hypothesis import strategies as st

from little_loops.authoring.fields import kinds, table
from little_loops.fsm.events import HOOK_KINDS
from little_loops.fsm.schema import BRANCH_FIELDS, HOST_NAMES

Data = st.SearchStrategy[Any]

STATES = ("check", "fix", "notify", "done")
WORDS = ("good", "bad")
TEMPLATE = st.just("${context.limit}")
LINES = st.sampled_from(
    [
        "pytest -q",
        "/ll:check_code fix",
        "make all # now",
        "echo 'a: b'",
        "true",
        "12",
        "first\nsecond\n",
        "if true; then\n  echo $HOME\nfi",
        "\n leading",
        "tab\there",
        "café ✓ 日本",
        '"quoted" \\ back',
        "- dash",
        "null",
        "a\n\n\n",
        "\u2028odd\x85\ufeff",
        "%x @y `z`",
    ]
)


@cache
def names(pattern: str) -> Data:
    return st.from_regex(pattern, fullmatch=True).map(lambda name: name[:20])


@cache
def scalars() -> Data:
    numbers = st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9)
    return st.none() | st.booleans() | numbers | LINES | words(8)


def words(max_size: int) -> Data:
    """Text without NUL, which no loop file may have."""
    return st.text(st.characters(codec=None, exclude_characters="\0"), max_size=max_size)


@cache
def data() -> Data:
    def deeper(inner: Data) -> Data:
        return st.lists(inner, max_size=3) | st.dictionaries(words(5), inner, max_size=3)

    return st.recursive(scalars(), deeper, max_leaves=5)


def durations(kind: kinds.Time) -> Data:
    texts = st.sampled_from(["90s", "10m", "2h", "1h30m", "1.5m", "1d"])
    return texts | st.integers(0 if kind.zero else 1, 9999) | st.floats(kind.least or 0.5, 1e6)


def targets(special: tuple[str, ...]) -> Data:
    return st.sampled_from([*STATES, *special])


def whole(kind: kinds.Whole) -> Data:
    numbers = st.integers(kind.least, min(kind.most, 1000))
    either = numbers | numbers.map(float)
    return either | TEMPLATE if kind.template else either


def number(kind: kinds.Num) -> Data:
    least = kind.least if kind.least is not None else -1000
    numbers = st.integers(int(least) + 1, 1000) | st.floats(least, 1000, exclude_min=kind.above)
    if kind.words:
        numbers = numbers | st.sampled_from(kind.words)
    return numbers | TEMPLATE if kind.template else numbers


def conditions(kind: kinds.ConditionKind) -> Data:
    plain = ["exit_code", "output_contains", "output_json", "output_numeric"]
    return st.sampled_from(plain).flatmap(condition)


@cache
def condition(type_name: str) -> Data:
    def with_type(given: dict[str, Any]) -> dict[str, Any]:
        return {"type": type_name, **given}

    fields = [f for f in table.CONDITIONS[type_name].fields if f.name not in ("type", "source")]
    if type_name == "exit_code":
        fields = [f for f in fields if f.name != "fail"]
        codes = st.lists(st.integers(1, 255), max_size=3)
        return record(fields).flatmap(
            lambda given: (
                st.just(with_type(given))
                | codes.map(lambda fail: with_type({**given, "target": 0, "fail": fail}))
            )
        )
    if type_name == "output_json":
        fields = [f for f in fields if f.name != "operator"]
    return record(fields).map(with_type)


OF_KIND: dict[type, Callable[[Any], Data]] = {
    kinds.Str: lambda kind: LINES,
    kinds.Plain: lambda kind: LINES,
    kinds.Identifier: lambda kind: LINES | st.integers(0, 9999),
    kinds.Flag: lambda kind: st.booleans(),
    kinds.Whole: whole,
    kinds.Num: number,
    kinds.Time: durations,
    kinds.OneOf: lambda kind: st.sampled_from(kind.words),
    kinds.Name: lambda kind: names(kind.pattern),
    kinds.TargetKind: lambda kind: targets(kind.special),
    kinds.InProject: lambda kind: st.sampled_from([".", "src/", "a/b/../c"]),
    kinds.PatternKind: lambda kind: st.sampled_from(["tests/", "*.cfg", "/Makefile", "!tests/new"]),
    kinds.Protected: lambda kind: (
        of_kind(kinds.ListOf(kinds.PatternKind(), 1)) | record(table.EXISTING.fields)
    ),
    kinds.Proof: lambda kind: st.booleans() | record(table.EVIDENCE.fields),
    kinds.Words: lambda kind: st.just(list(WORDS)),
    kinds.Variables: lambda kind: st.dictionaries(
        names(r"[a-z_][a-z0-9_]{0,5}"), data(), max_size=3
    ),
    kinds.Environment: lambda kind: st.dictionaries(
        names(r"[A-Z_][A-Z0-9_]{0,5}"), LINES | st.integers() | st.booleans(), max_size=3
    ),
    kinds.AnyScalar: lambda kind: scalars(),
    kinds.ListOf: lambda kind: st.lists(
        of_kind(kind.item), min_size=max(1, kind.least), max_size=3
    ),
    kinds.ConditionKind: conditions,
    kinds.HostKind: lambda kind: st.sampled_from(HOST_NAMES) | record(table.HOST.fields),
    kinds.PartKind: lambda kind: record(table.PARTS[kind.table].fields),
    kinds.SubLoop: lambda kind: st.just(
        {"initial": "a", "states": {"a": {"action": "make", "next": "b"}, "b": {"terminal": True}}}
    ),
    kinds.ForEach: lambda kind: st.lists(LINES | st.integers(), max_size=3) | LINES,
    kinds.Matrix: lambda kind: st.dictionaries(
        names(r"[b-h][a-z0-9_]{0,5}"),
        st.lists(LINES | st.integers(), min_size=1, max_size=3),
        min_size=1,
        max_size=2,
    ),
    kinds.Join: lambda kind: st.sampled_from(["all", "any", 2, "80%"]),
    kinds.BranchMap: lambda kind: st.dictionaries(
        names(r"[a-z0-9._-]{1,5}").filter(lambda name: name[0] not in "._-0123456789"),
        st.fixed_dictionaries({"action": LINES}, optional={"timeout": st.integers(1, 99)}),
        min_size=1,
        max_size=3,
    ),
    kinds.OwnTree: lambda kind: (
        st.booleans()
        | record(table.WORKTREE_TABLES[kind.table].fields).filter(
            lambda found: "tries" not in found or "resolve" in found
        )
    ),
    kinds.Resolver: lambda kind: st.fixed_dictionaries(
        {"action": LINES}, optional={"timeout": st.integers(1, 99)}
    ),
    kinds.Ports: lambda kind: st.dictionaries(
        names(r"[A-Z_][A-Z0-9_]{0,5}"), st.integers(1, 65_535), max_size=2
    ),
    kinds.ActionKind: lambda kind: LINES | record(table.COMMANDS[kind.table].fields),
    kinds.HookCommand: lambda kind: LINES | record(table.HOOK_TABLES[kind.table].fields),
    kinds.EventCommands: lambda kind: st.dictionaries(
        st.sampled_from(HOOK_KINDS), of_kind(kinds.HookCommand("beside_hook")), max_size=2
    ),
    kinds.Recipient: lambda kind: st.sampled_from(
        ["ntfy://ntfy.example.org/loops", "https://hooks.example.org/${env.HOOK}", "./tell.sh"]
    ),
}


def of_kind(kind: Any) -> Data:
    return OF_KIND[type(kind)](kind)


def record(fields: Any) -> Data:
    """A mapping with the required fields and some of the others, now and then by another name."""
    required = {f.name: of_kind(f.kind) for f in fields if f.required}
    optional = {name: of_kind(f.kind) for f in fields if not f.required for name in _one_name(f)}
    return st.fixed_dictionaries(required, optional=optional)


def _one_name(field: Any) -> list[str]:
    return [(*field.aliases, field.name)[0]]


def states() -> Data:
    left_out = {"route", "terminal", "outcome", "on_maintain", "capture"}
    left_out |= {"loop", "with", "limits", "worktree", *BRANCH_FIELDS}
    fields = [f for f in table.STATE.fields if f.name not in left_out]
    plain = record(fields).map(lambda given: {**given, "action": given.get("action", "make")})
    asking = st.fixed_dictionaries(
        {
            "action": st.just("/review"),
            "condition": st.just({"type": "verdict", "words": list(WORDS)}),
            "on_good": targets(("$current",)),
        },
        optional={"route": st.just({"bad": "fix"}), "x-mine": data()},
    )
    inner = {
        "initial": "a",
        "states": {"a": {"action": "make", "next": "b"}, "b": {"terminal": True}},
    }
    starting = st.fixed_dictionaries(
        {"loop": st.just({**inner, "context": {"dir": "src"}}), "next": targets(())},
        optional={
            "with": st.fixed_dictionaries({"dir": LINES}),
            "limits": record(table.LIMITS.fields),
            "worktree": of_kind(kinds.OwnTree("worktree")),
            "timeout": st.integers(1, 99),
        },
    )
    return plain | asking | starting | branching()


def branching() -> Data:
    """States with branches."""
    optional = {
        name: of_kind(table.STATE.by_name[name].kind)
        for name in ("max_parallel", "join", "fail_fast", "timeout", "on_pass")
    }
    runs = {"action": LINES, "next": targets(())}
    each = {"for_each": of_kind(kinds.ForEach()), **runs}
    over = {"matrix": of_kind(kinds.Matrix()), **runs}
    named = {"branches": of_kind(kinds.BranchMap()), "next": targets(())}
    made = [st.fixed_dictionaries(fields, optional=optional) for fields in (each, over, named)]
    return st.one_of(*made)


@cache
def natives() -> Data:
    """Loops in their native form; nearly all of them are sound."""
    common = record([f for f in table.COMMON if f.name != "paradigm"])
    machine = st.fixed_dictionaries({name: states() for name in STATES[:-1]})
    return st.tuples(common, machine).map(
        lambda both: {
            **both[0],
            "context": {"limit": 5, "target": 0, **both[0].get("context", {})},
            "initial": "check",
            "states": {**both[1], "done": {"terminal": True}},
        }
    )


@cache
def paradigms() -> Data:
    """Loops in the other paradigms."""

    @cache
    def of(name: str) -> Data:
        skipped = {"paradigm", "on_error", "on_timeout", "on_interrupt"}
        wanted = [f for f in table.PARADIGM_TABLES[name].fields if f.name not in skipped]
        return record(wanted).map(lambda given: {"paradigm": name, **_fitting(deepcopy(given))})

    return st.sampled_from(sorted(table.OWN)).flatmap(of)


def _fitting(given: dict[str, Any]) -> dict[str, Any]:
    """Constraints get different names, a number is not also judged by a condition, and a gain is
    only asked for where the best is kept."""
    if "keep" not in given:
        given.pop("min_gain", None)
    if "toward" in given and isinstance(given["check"], dict):
        given["check"].pop("check_condition", None)
    for index, constraint in enumerate(given.get("constraints", [])):
        constraint["name"] = f"c{index}"
    given["context"] = {"limit": 5, **given.get("context", {})}
    return given


@cache
def documents() -> Data:
    return natives() | paradigms()


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A document with one to three things changed anywhere in it."""
    document = deepcopy(draw(documents()))
    for _ in range(draw(st.integers(1, 3))):
        _damage(draw, document)
    return document


def _damage(draw: st.DrawFn, document: Any) -> None:
    mappings = [each for each in _containers(document) if each]
    chosen = draw(st.sampled_from(mappings))
    keys = list(chosen) if isinstance(chosen, dict) else list(range(len(chosen)))
    key = draw(st.sampled_from(keys))
    how = draw(st.sampled_from(["value", "drop", "rename", "add"]))
    if how == "value" or isinstance(chosen, list):
        chosen[key] = draw(_ODD_VALUES)
    elif how == "drop":
        del chosen[key]
    else:
        new = draw(st.sampled_from(["on_fial", "states", "tools", "type", "x-mine", "of", "1"]))
        chosen[new] = chosen.pop(key) if how == "rename" else draw(data())


_ODD_VALUES = data() | st.sampled_from([-1, 0, 1.5, float("nan"), "$current", "", "\0"])


def _containers(document: Any) -> list[Any]:
    found = [document] if isinstance(document, (dict, list)) else []
    inner = document.values() if isinstance(document, dict) else document
    for each in inner if found else ():
        found.extend(_containers(each))
    return found
