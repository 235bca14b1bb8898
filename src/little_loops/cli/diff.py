"""`ll-loop diff`: print what a run changed, turn by turn, like `git diff`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.options import OutputArgs, operand, value
from little_loops.cli.run_views import story_of, view_of
from little_loops.errors import OK, UsageError
from little_loops.receipts.file_versions import Span, span_of, spans
from little_loops.receipts.run_trees import TreesAndRules, trees_of
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.terminal.console import colour_wanted, print_json, print_unchanged, talk

STEPS = re.compile(r"(\d+)(?:\.\.(\d+))?")
TINTS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
PLAIN = "\x1b[0m"


class DiffArgs(
    OutputArgs,
    verb="diff",
    summary="Show what a run changed, turn by turn, like `git diff`.",
    examples=[
        ("ll-loop diff fix-tests", "each turn of its last run"),
        ("ll-loop diff fix-tests 4", "what step 4 changed"),
        ("ll-loop diff fix-tests 2..6", "from before step 2 to after step 6"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    steps: str | None = operand("STEP or STEP..STEP; default: each turn", optional=True)
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop diff`: print the diff of each turn, or of the given steps. Return 0.

    A single argument such as `4` or `2..6` means steps of the last run, unless a run has that name.
    """
    args = DiffArgs.read(argv)
    root = find_project(os.getcwd())
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import diff_run  # few users have a fleet

        return diff_run(root, address, args.loop, args.steps or args.run)
    runs = Runs(root)
    loop, steps = args.loop, args.steps
    if steps is None and loop is not None and STEPS.fullmatch(loop) and not runs.has(loop):
        loop, steps = None, loop
    view = view_of(runs, loop, args.run)
    story, trees = story_of(runs, view), trees_of(view.files, os.environ)
    if steps is None:
        found = [each for each in _texts(trees, spans(story)) if each[1]]
    else:
        found = list(_texts(trees, [span_of(story, *_numbers(steps))]))
    if args.json:
        print_json({"schema": 1, "name": view.name, "steps": [_as_json(*each) for each in found]})
    else:
        for span, text in found:
            _print(args, span, text, titled=steps is None)
        if not found and not args.quiet:
            talk(f"{view.name} changed nothing")
    return OK


def _numbers(text: str) -> tuple[int, int]:
    """Parse `4` or `2..6`; raise `UsageError` for anything else."""
    match = STEPS.fullmatch(text)
    if match is None:
        raise UsageError(f"`{text}` is not a step", "write `4`, or `2..6`")
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
        raise UsageError(
            f"`{text}` is not a range of steps: the first step must not come after the last"
        )
    return first, last


def _texts(trees: TreesAndRules, wanted: Iterable[Span]) -> Iterator[tuple[Span, bytes]]:
    """Yield each span with its diff; empty if nothing changed."""
    for span in wanted:
        same = span.before.id == span.after.id
        yield span, b"" if same else trees.store.diff(span.before.id, span.after.id)


def _print(args: DiffArgs, span: Span, text: bytes, *, titled: bool) -> None:
    """Print a diff: escaped on a terminal, otherwise unchanged, so that git can apply it."""
    if titled and not args.quiet:
        by = f" ({span.host})" if span.host else ""
        print_unchanged(f"step {span.first}: {span.state}{by}")
    if not sys.stdout.isatty() and not colour_wanted(sys.stdout, args.color):
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        return
    colour = colour_wanted(sys.stdout, args.color)
    for line in visible(text.decode("utf-8", "replace")).splitlines():
        tint = TINTS.get(line[:1], "") if colour else ""
        print_unchanged(f"{tint}{line}{PLAIN}" if tint else line)


def _as_json(span: Span, text: bytes) -> dict[str, object]:
    """Return a span of steps and its diff as JSON data."""
    return {
        "first": span.first,
        "last": span.last,
        "state": span.state,
        "host": span.host,
        "before": span.before.id,
        "after": span.after.id,
        "diff": text.decode("utf-8", "replace"),
    }
