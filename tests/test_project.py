"""The project's own lists agree with each other and with the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {each["id"]: each for each in PROJECT["tool"]["importlinter"]["contracts"]}
PURE = CONTRACTS["pure"]["source_modules"]

# Names the design documents, for things that live in `engine`, and the package front that has them.
FACADES = {
    f"little_loops.fsm{name}" for name in ("", ".executor", ".persistence", ".handoff_handler")
}


def modules() -> set[str]:
    files = (ROOT / "src").rglob("*.py")
    dotted = (".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files)
    return {name.removesuffix(".__init__") for name in dotted}


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def normal(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def pure_modules() -> set[str]:
    return {name for name in modules() if within(name, set(PURE))} - FACADES


def test_the_modules_held_pure_are_those_that_must_be_covered():
    report = PROJECT["tool"]["coverage"]["report"]
    files = {name: f"src/{name.replace('.', '/')}.py" for name in modules()}

    def matches(file: str, patterns: list[str]) -> bool:
        return any(fnmatch(file, each) or fnmatch(f"{file[:-3]}/", each) for each in patterns)

    covered = {
        name
        for name, file in files.items()
        if matches(file, report["include"]) and not matches(file, report["omit"])
    } - FACADES
    assert covered == pure_modules()


@pytest.mark.parametrize("module", sorted(pure_modules()))
def test_a_pure_module_loads_no_processes(module: str):
    code = (
        f"import sys, {module}\n"
        "rings = ('little_loops.engine', 'little_loops.system')\n"
        "print([name for name in sys.modules if name == 'subprocess' or name.startswith(rings)])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_the_tests_pass_where_their_caller_ignores_signals():
    """As with `nohup make test`: what a test starts must not inherit that."""
    ignored = "trap '' HUP INT QUIT TERM TSTP; exec \"$@\""
    words = ["-q", "tests/cli/test_endings.py", "-k", "signal"]
    ran = subprocess.run(
        ["sh", "-c", ignored, "sh", sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_every_dependency_is_pinned_for_development():
    declared = PROJECT["project"]["dependencies"] + [
        requirement
        for extra in PROJECT["project"]["optional-dependencies"].values()
        for requirement in extra
    ]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.]+", pin)] == []
    assert {normal(each) for each in declared} - {normal(pin) for pin in pins} == set()


def source_of(module: str) -> ast.Module:
    place = ROOT / "src" / module.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(file.read_text())


def expressions(but: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """Every expression of the sources with its position, but for those of some modules."""
    for name in sorted(modules() - but):
        for node in ast.walk(source_of(name)):
            if isinstance(node, ast.expr):
                yield f"{name}:{node.lineno}", node


def test_every_test_file_has_a_test():
    """`make mutants` runs the files one by one, and pytest fails if one has none."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    assert [
        name
        for name, text in texts.items()
        if not re.search(r"^\s*(async )?def test_", text, re.MULTILINE)
    ] == []


def test_no_two_classes_have_the_same_name():
    """So that a name says which idea is meant, wherever it is read."""
    places: dict[str, list[str]] = {}
    for name in sorted(modules()):
        for node in ast.walk(source_of(name)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Names of variables that hold an event, an entry of a log, or one of their JSON objects.
RECORDS = ("record", "event", "entry", "fields")
# Keys that only an entry of a log has, whatever the variable is called.
KEYS = ("event", "ts")


def reads_a_key(node: ast.expr) -> bool:
    """Return whether this is `record["…"]`, `record.get("…")` or `"…" in record`."""
    match node:
        case ast.Subscript(value=read, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return _is_record(read) or key in KEYS
        case ast.Call(
            func=ast.Attribute(value=read, attr="get"),
            args=[ast.Constant(value=str(key)), *_],
        ):
            return _is_record(read) or key in KEYS
        case ast.Compare(
            left=ast.Constant(value=str()),
            ops=[ast.In() | ast.NotIn()],
            comparators=[read],
        ):
            return _is_record(read)
        case _:
            return False


def _is_record(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in RECORDS


# Other objects with these names: the nodes of a loop file, the fields of a definition, what an agent
# or git prints, a claim, a slot. The journal looks at the two keys that make a line an event.
OTHER_RECORDS = {
    *("authoring.edits.plan", "authoring.paradigms.check_fix", "fsm.schema"),
    "hosts.claude_reader",
    *("relay.turns", "runs.entries", "runs.holders", "runs.journal", "spending.slots"),
    *("trees.worktrees",),
}


def test_only_the_codec_looks_into_a_record():
    others = {f"little_loops.{name}" for name in OTHER_RECORDS}
    found = [
        at for at, node in expressions(but={"little_loops.fsm.codec"} | others) if reads_a_key(node)
    ]
    assert found == []


@pytest.mark.parametrize("module", sorted(OTHER_RECORDS))
def test_the_list_of_other_records_has_no_module_too_many(module: str):
    own = modules() - {f"little_loops.{module}"}
    assert [at for at, node in expressions(but=own) if reads_a_key(node)]


# They write, show, move or copy the log for people as it is; what happened is read from the events.
LOG_USERS = {
    *("runs.storage", "runs.follow", "runs.history", "sharing.exporting", "sharing.landing"),
}


def test_nothing_else_opens_the_log_for_people():
    users = set()
    for name in modules():
        for node in ast.walk(source_of(name)):
            if isinstance(node, ast.ImportFrom) and node.module == "little_loops.runs.layout":
                if any(each.name == "LOG" for each in node.names):
                    users.add(name.removeprefix("little_loops."))
    assert users == LOG_USERS


ACTIONS = {"Shell", "Agent", "Builtin", "Loop", "RunShell", "RunAgent", "RunBuiltin"}
TYPES = {"shell", "slash", "prompt", "builtin"}


def asks_for_a_kind(node: ast.expr) -> bool:
    """Return whether an expression asks for the kind of an action other than by `match`."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, wanted]):
            return any(
                isinstance(each, ast.Name) and each.id in ACTIONS for each in ast.walk(wanted)
            )
        case ast.Compare(left=left, comparators=others, ops=ops):
            sides = [left, *others]
            if any(isinstance(each, ast.Constant) and each.value in TYPES for each in sides):
                return True
            by_identity = all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
            named = (
                isinstance(each, ast.Attribute) and each.attr == "action_type" for each in sides
            )
            return any(named) and not by_identity
        case _:
            return False


def test_nothing_asks_for_the_kind_of_an_action_but_by_match():
    """The two fields of a file are read once, in `fsm.actions`; everything else matches on the type.
    Only `engine` and `hosts`, where one module serves one kind, may ask for theirs."""
    read = {"little_loops.fsm.actions"}
    # It tells a field called `prompt` from the type of that name.
    read.add("little_loops.authoring.fields.reader")
    for module in modules():
        if module.startswith(("little_loops.engine.", "little_loops.hosts.")):
            read.add(module)
    assert [at for at, node in expressions(but=read) if asks_for_a_kind(node)] == []
