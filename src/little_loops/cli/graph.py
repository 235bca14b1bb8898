"""`ll-loop graph`: print a loop's states and transitions as text, Mermaid or DOT."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.authoring.graph import as_dot, as_mermaid, as_text
from little_loops.cli.options import OutputArgs, operand, value
from little_loops.definitions.loading import load_loop
from little_loops.errors import OK
from little_loops.fsm.schema import FSMLoop, transitions
from little_loops.runs.project import find_project
from little_loops.terminal import paint
from little_loops.terminal.console import ascii_only, print_json, print_unchanged, say


class GraphArgs(
    OutputArgs,
    verb="graph",
    summary="Show a loop's states and the transitions between them.",
    examples=[
        ("ll-loop graph fix-types", "as text"),
        ("ll-loop graph fix-types --format mermaid", "for a README"),
    ],
):
    loop: str = operand("a loop's name or file")
    format: str = value("default: text", choices=("text", "mermaid", "dot", "json"), default="text")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop graph`: print the loop in the wanted format, and return 0."""
    args = GraphArgs.read(argv)
    loop = load_loop(args.loop, find_project(os.getcwd())).loop
    match "json" if args.json else args.format:
        case "json":
            print_json(document(loop))
        case "mermaid":
            print_unchanged(as_mermaid(loop).rstrip("\n"))
        case "dot":
            print_unchanged(as_dot(loop).rstrip("\n"))
        case _:
            say(as_text(loop, ascii_only=ascii_only(sys.stdout)).rstrip("\n"), paint.graph)
    return OK


def document(loop: FSMLoop) -> dict[str, object]:
    """Return the states and transitions of a loop as JSON data."""
    return {
        "schema": 1,
        "name": loop.name,
        "initial": loop.initial,
        "states": {
            name: {
                "terminal": state.terminal,
                "transitions": {
                    verdict: transition._asdict()
                    for verdict, transition in transitions(state).items()
                },
            }
            for name, state in loop.states.items()
        },
    }
