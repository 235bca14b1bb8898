"""`ll-loop stop`: ask a run to stop, and wait until it is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from little_loops.cli.console import print_json, say, talk
from little_loops.cli.naming import newest_run
from little_loops.cli.parsing import Parser, add_output_options
from little_loops.errors import OK
from little_loops.fsm.values import duration_text
from little_loops.world.holders import Holder, send
from little_loops.world.locks import alive, waiting
from little_loops.world.project import find_project

LOOK_EACH_S = 0.02


def parser() -> Parser:
    it = Parser(
        "stop",
        "Stop a running loop: its action is ended, its state saved.",
        [("ll-loop stop fix-types", "and `ll-loop resume fix-types` later")],
    )
    it.add_argument("loop", help="a loop's name, or NAME@ID")
    add_output_options(it)
    return it


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    root = find_project(os.getcwd())
    name, run = newest_run(args.loop, root)
    holder = _holder(root, name)
    if holder is None:
        status = "never ran" if run is None or run.state is None else run.state["status"]
        _answer(
            args.json, args.quiet, name, stopped=False, line=f"{name} is not running ({status})"
        )
        return OK
    began = time.monotonic()
    if send(holder, signal.SIGTERM):
        send(holder, signal.SIGCONT)  # what stands still cannot obey
        _wait_for_end(root, holder)
    took = duration_text(round((time.monotonic() - began) * 1000))
    line = f"{name}: asked to stop (pid {holder.pid}), state saved   {took}"
    _answer(args.json, args.quiet, name, stopped=True, line=line)
    if not args.json and not args.quiet:
        talk(f"next: ll-loop resume {name}")
    return OK


def _holder(root: str, name: str) -> Holder | None:
    queued = (holder for holder in waiting(root) if holder.name == name)
    return alive(root, name) or next(queued, None)


def _is_there(root: str, holder: Holder) -> bool:
    now = _holder(root, holder.name)
    return now is not None and (now.pid, now.created) == (holder.pid, holder.created)


def _wait_for_end(root: str, holder: Holder) -> None:
    while _is_there(root, holder):
        time.sleep(LOOK_EACH_S)


def _answer(json: bool, quiet: int, name: str, *, stopped: bool, line: str) -> None:
    if json:
        print_json({"schema": 1, "name": name, "stopped": stopped})
    elif quiet < 2:
        say(line)
