"""`python -m tools.mutants`: the share of small changes to the pure modules that a test notices."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.mutants.modules import ROOT, Module, pure_modules, read_settings, test_files
from tools.mutants.mutators import Mutant
from tools.mutants.tracing import trace
from tools.mutants.trials import load_heavy_modules, outcomes, trial

AT_LEAST = 0.9
EXPECTED = ROOT / "tools" / "mutants_survivors.txt"
"""Mutants that no test can notice: one line each, `path scope: before -> after  # reason`."""

Key = tuple[str, str]


class Standing(NamedTuple):
    module: Module
    mutant: Mutant
    killed: bool

    @property
    def key(self) -> Key:
        return self.module.path, self.mutant.title

    def __str__(self) -> str:
        mutant = self.mutant
        return f"{self.module.path}:{mutant.line}: {mutant.title}"


def main(words: Sequence[str] | None = None) -> int:
    args = _arguments().parse_args(words)
    everything = pure_modules(read_settings())
    chosen = [module for module in everything if _is_wanted(module, args)]
    if not chosen:
        print("mutants: no such pure module", file=sys.stderr)
        return 2
    picked = _everything(chosen) if args.all else _sample(chosen, args.sample, args.seed)
    load_heavy_modules()
    coverage = trace(test_files(everything), everything, args.jobs)
    tasks = [
        trial((module, mutant), module, mutant, coverage.tests_of(module.path, mutant))
        for module, mutant in picked
    ]
    results = []
    for (module, mutant), code in outcomes(tasks, args.jobs):
        results.append(Standing(module, mutant, code not in (0, 5)))
        if not results[-1].killed:
            print(results[-1], flush=True)
        _show_progress(len(results), len(tasks))
    return report(results, everything)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "--sample", type=int, default=800, help="about so many mutants [%(default)s]"
    )
    parser.add_argument("--seed", type=int, default=0, help="which ones [%(default)s]")
    parser.add_argument("--all", action="store_true", help="every mutant; takes hours")
    parser.add_argument("--module", action="append", default=[], help="a module or package")
    parser.add_argument("--files", nargs="+", default=[], help="the same by paths")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="[%(default)s]")
    return parser


def _is_wanted(module: Module, args: argparse.Namespace) -> bool:
    dotted = f".{module.name}."
    named = any(f".{name}." in dotted for name in args.module)
    at_path = any(Path(file).resolve() == module.file for file in args.files)
    return named or at_path or not (args.module or args.files)


def _everything(modules: list[Module]) -> list[tuple[Module, Mutant]]:
    return [(module, mutant) for module in modules for mutant in module.mutants]


def _sample(modules: list[Module], size: int, seed: int) -> list[tuple[Module, Mutant]]:
    """Each module has a share by its length, and at least one."""
    lines = {module: module.text.count("\n") for module in modules}
    chance = random.Random(seed)
    picked = []
    for module in modules:
        share = max(1, round(size * lines[module] / sum(lines.values())))
        mutants = chance.sample(module.mutants, min(share, len(module.mutants)))
        picked += [(module, mutant) for mutant in mutants]
    chance.shuffle(picked)
    return picked


def _show_progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{of} ", end="" if done < of else "\n", file=sys.stderr, flush=True)


# ── reporting ──────────────────────────────────────────────────────────────────────────────────


def report(results: list[Standing], modules: list[Module]) -> int:
    expected = read_expected(EXPECTED.read_text() if EXPECTED.exists() else "")
    survivors = sorted(
        (each for each in results if not each.killed),
        key=lambda each: (each.key[0], each.mutant.line),
    )
    counted = [each for each in results if each.killed or each.key not in expected]
    _show_modules(counted)
    for each in survivors:
        if each.key in expected:
            print(f"expected: {each}  # {expected[each.key]}")
    for each in survivors:
        if each.key not in expected:
            print(f"survived: {each}")
    for path, title in _stale(expected, results, modules):
        print(f"{EXPECTED.name} is out of date: {path} {title}")
    killed = sum(each.killed for each in counted)
    score = killed / len(counted) if counted else 1.0
    print(f"{killed} of {len(counted)} mutants killed: {score:.1%} (at least {AT_LEAST:.0%})")
    return 0 if score >= AT_LEAST else 1


def _show_modules(results: list[Standing]) -> None:
    by_module: dict[str, list[bool]] = defaultdict(list)
    for each in results:
        by_module[each.module.path].append(each.killed)
    for path, killed in sorted(by_module.items()):
        if not all(killed):
            print(f"{sum(killed):4} of {len(killed):3}  {path}")


def read_expected(text: str) -> dict[Key, str]:
    entries = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            which, _, reason = line.rpartition("  # ")
            path, _, title = which.strip().partition(" ")
            entries[path, title] = reason
    return entries


def _stale(expected: dict[Key, str], results: list[Standing], modules: list[Module]) -> list[Key]:
    """Entries whose mutant is gone, or is killed by now."""
    present = {(module.path, mutant.title) for module in modules for mutant in module.mutants}
    killed = {each.key for each in results if each.killed}
    return [key for key in expected if key not in present or key in killed]


if __name__ == "__main__":
    sys.exit(main())
