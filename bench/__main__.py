"""`python -m bench`: measure, print the table, exit 1 if a bar does not hold."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence

from bench.measure import clean_environment, measure, sampler, warm
from bench.model import ROOT, Question, Setting
from bench.report import block, document, holds, table
from bench.rows import beside, rows

# On the disk of the tree: in a temporary directory in memory, a sync would cost nothing.
WORK = os.path.join(ROOT, ".cache", "bench")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    ours = shlex.join([sys.executable, "-m", "little_loops"])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="number, or part of the name")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    parser.add_argument("--ours", metavar="CMD", default=ours, help="instead of this tree's")
    parser.add_argument("--compare", metavar="CMD", help="measure this tool in the same turns")
    parser.add_argument("--repeats", metavar="N", type=int, help="instead of each row's own")
    scale = parser.add_mutually_exclusive_group()
    for name, words in (("quick", "a minute: few repeats, small"), ("full", "all of it: an hour")):
        scale.add_argument(f"--{name}", dest="scale", action="store_const", const=name, help=words)
    parser.set_defaults(scale="normal")
    return parser.parse_args(arguments)


def wanted(row: Question, asked: Sequence[str]) -> bool:
    def meant(ask: str) -> bool:
        return ask == str(row.number) if ask.isdigit() else ask in row.name

    return not asked or any(map(meant, asked))


def build(args: argparse.Namespace, place: str, environment: Mapping[str, str]) -> list[Question]:
    def rows_for(tool: str, name: str) -> list[Question]:
        own_place = os.path.join(place, name)
        argv = tuple(shlex.split(tool))
        return rows(Setting(argv, own_place, sys.executable, environment, args.scale))

    built = rows_for(args.ours, "ours")
    if args.compare:
        built = list(map(beside, built, rows_for(args.compare, "compared")))
    return [row for row in built if wanted(row, args.rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    os.makedirs(WORK, exist_ok=True)
    warm("little_loops", "bench")
    with tempfile.TemporaryDirectory(dir=WORK) as place:
        environment = clean_environment(place, os.environ)
        chosen = build(args, place, environment)
        if not chosen:
            print(f"bench: no row is called {' or '.join(args.rows)}", file=sys.stderr)
            return 2
        results = []
        for row in chosen:
            results.append(measure(row, args.repeats, sampler(environment)))
            print("\n".join(block(results[-1])), file=sys.stderr, flush=True)
    print(table(results))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(document(results), file, indent=2)
            file.write("\n")
    return 0 if holds(results) else 1


if __name__ == "__main__":
    sys.exit(main())
