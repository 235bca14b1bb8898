"""Run tests in a forked process, with one module changed.

A fresh trial starts from a process that has loaded everything but the package and its tests, and
imports the mutated module like any other.  Where only the body of a function differs, and nothing
has called that function yet, a quick trial starts from a process that has collected all tests, and
puts the new code into the function.
"""

from __future__ import annotations

import ast
import gc
import inspect
import math
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings

from tools.mutants.children import FORK, Task, outcomes, silence
from tools.mutants.modules import ROOT, Module
from tools.mutants.mutators import Mutant

HEAVY = ("hypothesis.strategies", "jq", "jsonschema", "psutil", "re2", "rich.console", "syrupy")
START_S = 60.0
"""Real time a child may take beyond its tests; other people may use the machine."""
SLOWER = 10
"""A test that takes this many times as long as it did is stuck in a loop."""
NOT_QUICK = 99
"""The exit code of a trial that has to be a fresh one."""

# No shrinking and no second example: one failure is all a mutant needs.
settings.register_profile(
    "mutants",
    settings.get_profile("ci"),
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)


class Trial(NamedTuple):
    number: int
    module: Module
    mutant: Mutant
    tests: dict[str, float]
    """The tests to run, in order, with the seconds each takes."""
    quick: bool

    @property
    def limit_s(self) -> float:
        return START_S + SLOWER * sum(self.tests.values())


def results(trials: list[Trial], files: list[str], jobs: int) -> Iterator[tuple[Trial, int]]:
    """The exit code of pytest, or of a signal, for each trial."""
    left = {trial.number: trial for trial in trials}
    for number, code in _quick_outcomes([each for each in trials if each.quick], files, jobs):
        if code != NOT_QUICK:
            yield left.pop(number), code
    for number, code in outcomes((_fresh(each) for each in left.values()), jobs):
        yield left[number], code


# ── running tests ──────────────────────────────────────────────────────────────────────────────


def load_heavy_modules() -> None:
    for name in HEAVY:
        import_module(name)


def run_tests(files: Iterable[str], plugin: object) -> int:
    place = tempfile.mkdtemp(prefix="mutants-")
    words = [
        *("-q", "-x", "--tb=no", "--no-header", "--assert=plain", "--hypothesis-profile=mutants"),
        *("-p", "no:xdist", "-p", "no:pytest_cov", "-o", f"cache_dir={place}/cache"),
        f"--rootdir={ROOT}",
        f"--basetemp={place}/tests",
    ]
    try:
        return int(pytest.main([*words, *(str(ROOT / file) for file in files)], [plugin]))
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Selection:
    """Runs the given tests only, in the given order, each within a multiple of its usual time."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = {item.nodeid: item for item in items}
        items[:] = [chosen[name] for name in self.seconds if name in chosen]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # Processor time, so that a busy machine kills no mutant; the signal ends the process.
        limit_s = math.ceil(5 + SLOWER * self.seconds[item.nodeid])
        signal.setitimer(signal.ITIMER_PROF, limit_s)


# ── fresh trials ───────────────────────────────────────────────────────────────────────────────


def _fresh(trial: Trial) -> Task:
    def work() -> int:
        trial.mutant.apply()
        sys.meta_path.insert(0, Substitute(trial.module))
        files = dict.fromkeys(name.partition("::")[0] for name in trial.tests)
        return run_tests(files, Selection(trial.tests))

    return Task(trial.number, work, trial.limit_s)


class Substitute:
    """Finds one module, and loads it from the syntax tree at hand instead of from its file."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.module.name:
            return None
        file = str(ROOT / self.module.path)
        loader = _FromTree(name, file)
        loader.tree = self.module.tree
        return spec_from_file_location(name, file, loader=loader)


class _FromTree(SourceFileLoader):
    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return _compiled(self.tree, self.path)


def _compiled(tree: ast.Module, file: str) -> CodeType:
    with warnings.catch_warnings(action="ignore"):
        return compile(tree, file, "exec", dont_inherit=True)


# ── quick trials ───────────────────────────────────────────────────────────────────────────────


def _quick_outcomes(trials: list[Trial], files: list[str], jobs: int) -> Iterator[tuple[int, int]]:
    """Runs them in a process of its own, as this one must not load the package."""
    if not trials:
        return
    receiver, sender = FORK.Pipe(duplex=False)
    server = FORK.Process(target=_serve, args=(trials, files, jobs, sender))
    server.start()
    sender.close()
    with suppress(EOFError):
        while True:
            yield receiver.recv()
    server.join()


def _serve(trials: list[Trial], files: list[str], jobs: int, sender: Any) -> None:
    silence()
    run_tests(files, _Server(trials, jobs, sender))


class _Server:
    """Collects all tests, and runs some of them for each trial instead of all at once."""

    def __init__(self, trials: list[Trial], jobs: int, sender: Any) -> None:
        self.trials, self.jobs, self.sender = trials, jobs, sender

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.freeze()  # a collection in a child would copy every page it looks at
        items = {item.nodeid: item for item in session.items}
        tasks = (_quick(trial, items) for trial in self.trials)
        for outcome in outcomes(tasks, self.jobs):
            self.sender.send(outcome)
        return True


def _quick(trial: Trial, items: dict[str, pytest.Item]) -> Task:
    def work() -> int:
        try:
            replace_code(trial.module, trial.mutant)
        except LookupError:
            return NOT_QUICK
        return _run([items[name] for name in trial.tests], Selection(trial.tests))

    return Task(trial.number, work, trial.limit_s)


def _run(items: list[pytest.Item], selection: Selection) -> int:
    for item, following in zip(items, [*items[1:], None], strict=True):
        selection.pytest_runtest_setup(item)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return 1
    return 0


def replace_code(module: Module, mutant: Mutant) -> None:
    """Give the function that encloses the change its new code, wherever it is referred to."""
    function = _function(sys.modules[module.name], mutant.scope.split("."))
    old = function.__code__
    mutant.apply()
    for code in _codes(_compiled(module.tree, old.co_filename)):
        same = code.co_name == old.co_name and code.co_firstlineno == old.co_firstlineno
        if same and code.co_freevars == old.co_freevars:
            function.__code__ = code
            return
    raise LookupError(mutant.scope)


def _function(owner: object, path: list[str]) -> FunctionType:
    for name in path:
        owner = _unwrapped(getattr(owner, "__dict__", {})[name])
        if isinstance(owner, FunctionType):
            return owner
    raise LookupError(path)


def _unwrapped(value: Any) -> object:
    match value:
        case property():
            return value.fget
        case cached_property():
            return value.func
        case staticmethod() | classmethod():
            return value.__func__
        case _:
            return inspect.unwrap(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
