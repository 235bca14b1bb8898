"""`ll-loop wait`: wait for a run to end, and exit as it did."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from little_loops.cli.console import print_json, say, talk
from little_loops.cli.naming import run_named
from little_loops.cli.parsing import Parser, add_output_options, seconds
from little_loops.errors import LIMIT, UsageError
from little_loops.world.history import newest
from little_loops.world.lines import last_line
from little_loops.world.locks import alive, waiting
from little_loops.world.project import find_project
from little_loops.world.storage import last_events

LOOK_EACH_S = 0.05


def parser() -> Parser:
    it = Parser(
        "wait",
        "Wait for a run to end, and exit with the code it ended with.",
        [
            ("ll-loop wait fix-types", "until it ends"),
            ("ll-loop wait fix-types --timeout 90s", "or for 90 s: then exit 3, it runs on"),
        ],
    )
    it.add_argument("loop", help="a loop's name, or NAME@ID")
    it.add_argument("--timeout", type=seconds, metavar="TIME", help="wait no longer: 90s, 10m")
    add_output_options(it)
    return it


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    root = find_project(os.getcwd())
    name = run_named(args.loop, root)
    until = None if args.timeout is None else time.monotonic() + args.timeout
    while _is_under_way(root, name):
        if until is not None and time.monotonic() >= until:
            if not args.quiet and not args.json:
                talk(f"{name} is still running")
            return LIMIT
        time.sleep(LOOK_EACH_S)
    return _tell_end(root, name, json=args.json, quiet=args.quiet)


def _is_under_way(root: str, name: str) -> bool:
    return alive(root, name) is not None or any(one.name == name for one in waiting(root))


def _tell_end(root: str, name: str, *, json: bool, quiet: int) -> int:
    run = newest(root, name)
    last = last_events(run.files, 1) if run is not None else []
    if not last:
        raise UsageError(f"there is no run of `{name}` to wait for")
    record = last[0]
    if "status" not in record:
        raise UsageError(
            f"`{name}` was interrupted (crashed)", f"`ll-loop resume {name}` goes on with it"
        )
    if json:
        print_json({"schema": 1, "name": name, "event": record})
    elif quiet < 2:
        say(last_line(record))
    return exit_code_of(record)


def exit_code_of(record: dict[str, object]) -> int:
    """The exit code the run's own process ended with."""
    from little_loops.fsm.endings import exit_code_of_end  # waits end once

    return exit_code_of_end(record)
