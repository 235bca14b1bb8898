"""The hidden verbs `ll-loop relay prepare` and `ll-loop relay settle`.

The states of a relay that version one started run them as commands, because a run keeps its
machine. Current relays have built-in actions instead, which are called here.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence

from little_loops.errors import UsageError
from little_loops.light_typing import Any, BinaryIO, NoReturn
from little_loops.relay.call import Call
from little_loops.relay.record import marked_at
from little_loops.relay.turns import perform

NEEDED = ("LL_RUN_DIR", "LL_RUN_ID", "LL_LOOP", "LL_ITERATION")
UNKNOWN_START = 1
"""Used if the guard is gone: any metadata then counts, because `prepare` moved older files away."""


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop relay prepare` or `settle`, and return its exit code.

    Prints the warnings, and sleeps if the next turn has to wait.
    """
    args = vars(_parser().parse_args(argv))
    name, scope = f"relay.{args.pop('verb')}", tuple(args.pop("scope") or ["."])
    started_ns = marked_at(args["metadata"]) or UNKNOWN_START
    call = _call({**args, "started_ns": started_ns}, scope, os.environ)
    done = perform(name, call)
    for warning in done.warnings:
        call.warn(warning)
    time.sleep(done.wait_ms / 1000)  # its machine has no such wait
    return done.exit_code


def _call(inputs: Mapping[str, Any], scope: tuple[str, ...], environ: Mapping[str, str]) -> Call:
    """Build the call for a built-in action from the environment; raise `UsageError` outside a run."""
    missing = [name for name in NEEDED if not environ.get(name)]
    if missing:
        raise UsageError(
            f"`{missing[0]}` is not set: only relay loops run this command",
            "run the loop instead: ll-loop run LOOP",
        )
    return Call(
        inputs=inputs,
        project=os.getcwd(),
        run_dir=environ["LL_RUN_DIR"],
        run=environ["LL_RUN_ID"],
        loop=environ["LL_LOOP"],
        iteration=_number(environ["LL_ITERATION"]) or 1,
        iteration_limit=_number(environ.get("LL_ITERATION_LIMIT", "")),
        scope=scope,
        environ=environ,
        stdout=lambda text: _write(sys.stdout.buffer, text),
        stderr=lambda text: _write(sys.stderr.buffer, text),
    )


def _write(stream: BinaryIO, text: bytes) -> None:
    stream.write(text)
    stream.flush()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "only relay loops run this command")


def _parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments that version one wrote into its machines."""
    parser = _Parser(prog="ll-loop relay", add_help=False, allow_abbrev=False)
    parser.add_argument("verb", choices=("prepare", "settle"))
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--plan", default="")
    parser.add_argument("--session", default="")
    parser.add_argument("--cwd", default="")
    parser.add_argument("--scope", action="append")
    parser.add_argument("--no-commit", dest="commit", action="store_false")
    parser.add_argument("--after", default="turn")
    parser.add_argument("--exit", default="")
    parser.add_argument("--output", default="")
    return parser
