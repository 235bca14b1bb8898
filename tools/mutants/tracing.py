"""Which tests depend on which line, and how long each takes.

Lines of functions are traced.  A line that runs when its module is loaded belongs to no test; there
the names count that it contributes to, and the tests are those that run a line using one of them.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import coverage
import pytest

from tools.mutants.children import Task, outcomes
from tools.mutants.modules import ROOT, SOURCES, Module
from tools.mutants.mutators import Mutant
from tools.mutants.trials import Trial, run_tests

CACHE = ROOT / ".cache" / "mutants"
BUDGET_S = 10.0
"""Only the quickest tests of a line are run, as many as need this long together."""

NO_FILE = ""
"""Stands for a trace of the package alone, while its modules are loaded."""

Line = tuple[str, int]


class Traced:
    """Traces the lines of the package while the tests of one file run."""

    def __init__(self) -> None:
        self.tracer = coverage.Coverage(
            data_file=None, config_file=False, branch=False, source=[str(SOURCES)]
        )
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.tracer.switch_context(item.nodeid)
        begun = time.process_time()
        result = yield
        self.seconds[item.nodeid] = round(time.process_time() - begun, 4)
        self.tracer.switch_context("")
        return result

    def lines(self) -> dict[str, list[Line]]:
        data = self.tracer.get_data()
        found = defaultdict(list)
        for file in data.measured_files():
            path = str(Path(file).relative_to(ROOT))
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    found[context].append((path, line))
        return found


def trace(files: list[str], modules: list[Module], jobs: int) -> Coverage:
    """Results are kept in the cache, by all that a test file may depend on."""
    CACHE.mkdir(parents=True, exist_ok=True)
    common = _digest(sorted([*SOURCES.rglob("*.py"), *_support_files()]))
    kept = {file: CACHE / f"{_digest([ROOT / file], common)}.json" for file in files}
    kept[NO_FILE] = CACHE / f"{common}.json"
    tasks = [_tracing(file, place, modules) for file, place in kept.items() if not place.exists()]
    for file, code in outcomes(tasks, jobs):
        if code:
            sys.exit(f"mutants: the tests of {file} fail without any mutant (exit code {code})")
    traces = {file: json.loads(place.read_text()) for file, place in kept.items()}
    return Coverage(traces, modules)


def _support_files() -> Iterator[Path]:
    for file in (ROOT / "tests").rglob("*"):
        if file.suffix in (".py", ".yaml") and not file.name.startswith("test_"):
            yield file


def _digest(files: Iterable[Path], salt: str = "") -> str:
    digest = hashlib.sha256(salt.encode())
    for file in files:
        digest.update(b"\0".join([str(file).encode(), file.read_bytes()]))
    return digest.hexdigest()[:24]


def _tracing(file: str, place: Path, modules: list[Module]) -> Task:
    def work() -> int:
        sys.dont_write_bytecode = False  # the trials will load the same tests many times
        traced = Traced()
        traced.tracer.start()
        if file == NO_FILE:
            code = 0
            for module in modules:
                import_module(module.name)
        else:
            code = run_tests([file], traced)
        traced.tracer.stop()
        if code == 0:
            draft = place.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps({"seconds": traced.seconds, "lines": traced.lines()}))
            draft.replace(place)
        return code

    return Task(file, work, 1200.0)


class Coverage:
    def __init__(self, traces: dict[str, Any], modules: list[Module]) -> None:
        self.loading = {(path, line) for path, line in traces.pop(NO_FILE)["lines"][""]}
        self.collecting: set[Line] = set()
        self.seconds: dict[str, float] = {}
        self.tests_of_line: dict[Line, set[str]] = defaultdict(set)
        self.tests_of_file = {file: set(trace["seconds"]) for file, trace in traces.items()}
        for file, trace in traces.items():
            self.seconds |= trace["seconds"]
            for test, lines in trace["lines"].items():
                self._add(file, test, {(path, line) for path, line in lines})
        self.uses = Uses(modules, {file: (ROOT / file).read_text() for file in traces})

    def _add(self, file: str, test: str, lines: set[Line]) -> None:
        tests = {test}
        if not test:
            # What ran while the tests of a file were collected may be in the parameters of any.
            tests = self.tests_of_file[file]
            lines -= self.loading
            self.collecting |= lines
        for line in lines:
            self.tests_of_line[line] |= tests

    def trial(self, number: int, module: Module, mutant: Mutant) -> Trial:
        lines = {(module.path, line) for line in mutant.lines}
        tests = {test for line in lines for test in self.tests_of_line.get(line, ())}
        if lines & self.loading:
            used, files = self.uses.of(mutant.names)
            files |= self.uses.whole.get(module.name, set()) | self._own(module)
            tests |= {test for line in used for test in self.tests_of_line.get(line, ())}
            tests |= {test for file in files for test in self.tests_of_file[file]}
        quick = not lines & (self.loading | self.collecting)
        return Trial(number, module, mutant, self._quickest(tests, self._own(module)), quick)

    def _own(self, module: Module) -> set[str]:
        """The test file that has the module's name."""
        path = Path(module.path)
        folder = Path("tests").joinpath(*path.parts[2:-1])
        return {str(folder / f"test_{path.name}")} & self.tests_of_file.keys()

    def _quickest(self, tests: set[str], own: set[str]) -> dict[str, float]:
        """Those of the module's own file first."""
        chosen: dict[str, float] = {}
        spent = 0.0
        order = sorted(
            (test.partition("::")[0] not in own, self.seconds[test], test) for test in tests
        )
        for _, seconds, test in order:
            spent += seconds
            if chosen and spent > BUDGET_S:
                break
            chosen[test] = seconds
        return chosen


class Uses:
    """Where a name is used: in functions of the package, in other names, in test files.

    A test file that imports a module as a whole may look at any name of it: `whole`.
    """

    def __init__(self, modules: list[Module], tests: dict[str, str]) -> None:
        self.lines: dict[str, set[Line]] = defaultdict(set)
        self.names: dict[str, set[str]] = defaultdict(set)
        self.files: dict[str, set[str]] = defaultdict(set)
        self.whole: dict[str, set[str]] = defaultdict(set)
        for module in modules:
            self._read(module)
        for file, text in tests.items():
            tree = ast.parse(text)
            for name, _ in _used(tree):
                self.files[name].add(file)
            for name in _imported(tree):
                self.whole[name].add(file)

    def _read(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                for name, line in _used(node):
                    self.lines[name].add((module.path, line))
        for statement in module.tree.body:
            if not isinstance(statement, ast.FunctionDef | ast.ImportFrom):
                bound = _bound(statement)
                for name, _ in _used(statement):
                    self.names[name] |= bound

    def of(self, names: Iterable[str]) -> tuple[set[Line], set[str]]:
        every: set[str] = set()
        new = set(names)
        while new:
            every |= new
            new = {other for name in new for other in self.names.get(name, ())} - every
        lines = {line for name in every for line in self.lines.get(name, ())}
        return lines, {file for name in every for file in self.files.get(name, ())}


def _used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) | ast.Attribute(attr=name):
                yield name, node.lineno
            case ast.MatchClass(cls=ast.Name(name)):
                yield name, node.lineno
            case _:
                pass


def _imported(tree: ast.AST) -> Iterator[str]:
    """The full names of what is imported, among them those of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}
