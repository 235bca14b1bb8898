"""`python -m bench.false_done`: play every case with every tool, and print who said "done" wrongly.

Exits 1 if our own tool, with `protect` and `clean`, has a red cell among what it can see.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.false_done.cheats import CHEATS
from bench.false_done.honest import HONEST
from bench.false_done.model import Case, Outcome
from bench.false_done.report import document, page, table
from bench.false_done.tools import Tool, our_command, play, tools
from bench.false_done.unseen import UNSEEN

CASES: tuple[Case, ...] = (*CHEATS, *HONEST, *UNSEEN)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.false_done", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="the name of a case, or a kind")
    parser.add_argument("--tool", action="append", metavar="NAME", help="only this tool")
    parser.add_argument(
        "--compare", action="append", default=[], metavar="CMD", help="another runner, for bash"
    )
    parser.add_argument("--ours", metavar="CMD", help="instead of this tree's ll-loop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    parser.add_argument("--page", metavar="FILE", help="also write the page of the manual to FILE")
    return parser.parse_args(arguments)


def chosen(names: Sequence[str]) -> list[Case]:
    return [case for case in CASES if not names or case.name in names or case.kind in names]


def play_all(
    cases: Sequence[Case], played: Sequence[Tool], ours: Sequence[str], jobs: int
) -> list[Outcome]:
    """Every case with every tool, as many at once as there are cores."""
    pairs = [(case, tool) for case in cases for tool in played]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda pair: play(pair[0], pair[1], ours), pairs))


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    # A shell starts what it puts into the background with SIGINT ignored; a case needs it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours = tuple(shlex.split(args.ours)) if args.ours else our_command()
    cases = chosen(args.cases)
    if not cases:
        print(f"bench.false_done: no case is called {' or '.join(args.cases)}", file=sys.stderr)
        return 2
    played = [one for one in tools(ours, args.compare) if not args.tool or one.name in args.tool]
    outcomes = play_all(cases, played, ours, args.jobs)
    print(table(cases, outcomes))
    if args.json:
        Path(args.json).write_text(json.dumps(document(cases, outcomes), indent=2) + "\n")
    if args.page:
        Path(args.page).write_text(page(cases, outcomes))
    return 0 if holds(cases, outcomes) else 1


def holds(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> bool:
    strict = {one.name for one in tools(()) if one.is_strict}
    seen = {case.name for case in cases if case.kind != "unseen"}
    return not any(one.is_red and one.tool in strict and one.case in seen for one in outcomes)


if __name__ == "__main__":
    sys.exit(main())
