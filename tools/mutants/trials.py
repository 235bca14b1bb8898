"""Run tests in a forked process, perhaps with one module changed.

The parent has loaded everything that costs time except the package and its tests, so a child starts
at once and still imports the mutated module like any other.
"""

from __future__ import annotations

import ast
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing import connection, get_context
from types import CodeType
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings

from tools.mutants.modules import ROOT, Module
from tools.mutants.mutators import Mutant

HEAVY = ("hypothesis.strategies", "jq", "jsonschema", "psutil", "re2", "rich.console", "syrupy")
MEMORY_LIMIT = 4 << 30
START_S = 60.0
"""Real time a child may take beyond its tests; other people may use the machine."""
SLOWER = 10
"""A test that takes this many times as long as it did is stuck in a loop."""

# No shrinking and no second example: one failure is all a mutant needs.
settings.register_profile(
    "mutants",
    settings.get_profile("ci"),
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)


class Task(NamedTuple):
    """What a child does, and how long it may take; its result is its exit code."""

    key: Any
    work: Callable[[], int]
    limit_s: float


def load_heavy_modules() -> None:
    for name in HEAVY:
        import_module(name)


# ── children ───────────────────────────────────────────────────────────────────────────────────


def outcomes(tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Any, int]]:
    """Exit codes as the children end; a negative one is a signal."""
    waiting = iter(tasks)
    running: dict[Any, tuple[Any, Any, float]] = {}
    fork = get_context("fork")
    while True:
        while len(running) < jobs and (task := next(waiting, None)) is not None:
            child = fork.Process(target=_child, args=(task.work,))
            child.start()
            running[child.sentinel] = child, task.key, time.monotonic() + task.limit_s
        if not running:
            return
        soonest = min(limit for _, _, limit in running.values())
        ended = connection.wait(list(running), max(0.0, soonest - time.monotonic()))
        late = [each for each, (_, _, limit) in running.items() if limit <= time.monotonic()]
        for sentinel in {*ended, *late}:
            child, key, _ = running.pop(sentinel)
            _end_group(child.pid)
            child.kill()  # it may not have a group of its own yet
            child.join()
            yield key, child.exitcode


def _child(work: Callable[[], int]) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silence, number)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os._exit(work())


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


# ── running tests ──────────────────────────────────────────────────────────────────────────────


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
        order = {name: place for place, name in enumerate(self.seconds)}
        chosen = [item for item in items if item.nodeid in order]
        items[:] = sorted(chosen, key=lambda item: order[item.nodeid])

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # Processor time, so that a busy machine kills no mutant; the signal ends the process.
        limit_s = math.ceil(5 + SLOWER * self.seconds[item.nodeid])
        signal.setitimer(signal.ITIMER_PROF, limit_s)


def trial(module: Module, mutant: Mutant, tests: dict[str, float]) -> Task:
    def work() -> int:
        mutant.apply()
        sys.meta_path.insert(0, Substitute(module))
        return run_tests(dict.fromkeys(_file(name) for name in tests), Selection(tests))

    return Task((module, mutant), work, START_S + SLOWER * sum(tests.values()))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


# ── importing a mutated module ─────────────────────────────────────────────────────────────────


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
        with warnings.catch_warnings(action="ignore"):
            return compile(self.tree, self.path, "exec", dont_inherit=True)
