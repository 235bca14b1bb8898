"""`ll-loop compile`: print the machine that a loop compiles to, as a loop file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.authoring.dump import dump
from little_loops.cli.options import OutputArgs, operand, value
from little_loops.definitions.compiled import header
from little_loops.definitions.loading import load_loop, shown_path
from little_loops.errors import OK, UsageError
from little_loops.runs.project import find_project
from little_loops.system.plain_files import writing
from little_loops.terminal.console import print_json, talk

EXAMPLES = (
    ("ll-loop compile fix-types", "print the states it compiles to"),
    ("ll-loop compile my-goal -o my-goal.fsm.yaml", "write them to a file"),
)


class CompileArgs(
    OutputArgs,
    verb="compile",
    summary="Print the state machine that a loop compiles to.",
    examples=EXAMPLES,
):
    loop: str = operand("a loop's name or file")
    output: str | None = value("write to this file instead of stdout", "-o", metavar="FILE")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop compile`: print the machine, or write it to a file. Return 0."""
    args = CompileArgs.read(argv)
    found = load_loop(args.loop, find_project(os.getcwd()))
    if args.json:
        print_json({"schema": 1, "loop": found.loop.to_dict()})
        return OK
    text = header(found.path) + dump(found.loop)
    if args.output is None:
        os.write(1, text.encode())
        return OK
    write(args.output, text, found.path)
    if not args.quiet:
        talk(f"wrote {shown_path(args.output)}")
    return OK


def write(output: str, text: str, source: str) -> None:
    """Write the text to a file; raise `UsageError` if that is the source, or cannot be written."""
    try:
        if os.path.exists(output) and os.path.samefile(output, source):
            raise UsageError(f"`{shown_path(output)}` is the input file")
        with writing(output) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot write `{shown_path(output)}`: {error.strerror}") from error
