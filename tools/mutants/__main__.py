"""Change one thing in a pure module, and see whether a test notices; again for many such changes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.mutants.modules import ROOT, Module, pure_modules, read_settings, sample, test_files
from tools.mutants.report import Result, read_expected, read_survivors, report, score
from tools.mutants.tracing import trace
from tools.mutants.trials import load_heavy_modules, results

AT_LEAST = 0.9
EXPECTED = ROOT / "tools" / "mutants_survivors.txt"
NOTHING_FAILED = (0, 5)
"""Exit codes of pytest: all tests passed, or there was none."""


def main(words: Sequence[str] | None = None) -> int:
    args = _arguments().parse_args(words)
    everything = pure_modules(read_settings())
    chosen = [module for module in everything if _is_wanted(module, args)]
    if not chosen:
        print("mutants: no such pure module", file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="mutants-") as tempfile.tempdir:
        found = _try(everything, chosen, args)
    expected = read_expected(EXPECTED.read_text())
    print(*report(found, expected, everything), sep="\n")
    return 0 if score(found, expected) >= AT_LEAST else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    add = parser.add_argument
    add("--sample", type=int, default=800, help="try about this many mutants [%(default)s]")
    add("--seed", type=int, default=0, help="which ones [%(default)s]")
    add("--all", action="store_true", help="try every mutant; takes hours")
    add("--module", action="append", default=[], help="only this module or package")
    add("--files", nargs="+", default=[], help="only these files")
    add("--again", metavar="FILE", help="only the mutants that survived, by the output in FILE")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes [%(default)s]")
    return parser


def _is_wanted(module: Module, args: argparse.Namespace) -> bool:
    named = any(f".{name}." in f".{module.name}." for name in args.module)
    at_path = any(Path(file).resolve() == ROOT / module.path for file in args.files)
    return named or at_path or not (args.module or args.files)


def _try(everything: list[Module], chosen: list[Module], args: argparse.Namespace) -> list[Result]:
    if args.again is not None:
        survived = read_survivors(Path(args.again).read_text())
        everyone = ((module, mutant) for module in chosen for mutant in module.mutants)
        picked = [each for each in everyone if (each[0].path, each[1].title) in survived]
    elif args.all:
        picked = [(module, mutant) for module in chosen for mutant in module.mutants]
    else:
        picked = sample(chosen, args.sample, args.seed)
    load_heavy_modules()
    files = test_files(everything)
    traced = trace(files, everything, args.jobs)
    trials = [traced.trial(number, *each) for number, each in enumerate(picked)]
    found = []
    for trial, code in results(trials, files, args.jobs):
        found.append(Result(trial.module, trial.mutant, code not in NOTHING_FAILED))
        if not found[-1].killed:
            print(f"{len(found)} of {len(picked)}: {found[-1]}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
