"""What a mutation test found, as text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tools.mutants.modules import Module
from tools.mutants.mutators import Mutant

Key = tuple[str, str]


class Result(NamedTuple):
    module: Module
    mutant: Mutant
    killed: bool

    @property
    def key(self) -> Key:
        return self.module.path, self.mutant.title

    def __str__(self) -> str:
        return f"{self.module.path}:{self.mutant.line}: {self.mutant.title}"


def read_expected(text: str) -> dict[Key, str]:
    """The reasons why some mutants survive; a line is `path scope: before -> after  # reason`."""
    entries = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            which, _, reason = line.rpartition("  # ")
            path, _, title = which.partition(" ")
            entries[path, title] = reason
    return entries


def read_survivors(text: str) -> frozenset[Key]:
    """The mutants that survived, by an earlier report; lines may have moved since."""
    found = re.findall(r"^survived: (.+?):\d+: (.+)$", text, re.MULTILINE)
    return frozenset(found)


def score(results: list[Result], expected: dict[Key, str]) -> float:
    counted = _counted(results, expected)
    return sum(each.killed for each in counted) / len(counted) if counted else 1.0


def report(results: list[Result], expected: dict[Key, str], modules: list[Module]) -> Iterator[str]:
    survivors = [each for each in results if not each.killed]
    survivors.sort(key=lambda each: (each.module.path, each.mutant.line))
    yield from (
        f"expected: {each}  # {expected[each.key]}" for each in survivors if each.key in expected
    )
    yield from (f"survived: {each}" for each in survivors if each.key not in expected)
    yield from (f"no such mutant: {path} {title}" for path, title in _gone(expected, modules))
    yield from (
        f"killed although expected: {each}" for each in results if _is_wrong(each, expected)
    )
    counted = _counted(results, expected)
    yield from _by_module(counted)
    killed = sum(each.killed for each in counted)
    yield f"{killed} of {len(counted)} mutants killed: {score(results, expected):.1%}"


def _counted(results: list[Result], expected: dict[Key, str]) -> list[Result]:
    return [each for each in results if each.killed or each.key not in expected]


def _gone(expected: dict[Key, str], modules: list[Module]) -> list[Key]:
    present = {(module.path, mutant.title) for module in modules for mutant in module.mutants}
    return [key for key in expected if key not in present]


def _is_wrong(result: Result, expected: dict[Key, str]) -> bool:
    return result.killed and result.key in expected


def _by_module(results: list[Result]) -> Iterator[str]:
    modules: dict[str, list[bool]] = defaultdict(list)
    for each in results:
        modules[each.module.path].append(each.killed)
    for path, killed in sorted(modules.items()):
        if not all(killed):
            yield f"{sum(killed):4} of {len(killed):3} killed in {path}"
