"""One way to read options: argparse with our words and our exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from little_loops.errors import UsageError
from little_loops.terminal.console import columns_of, say

Args = argparse.Namespace


WIDEST = 78


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Asks the terminal itself: argparse's way costs 3 ms at every start, help or not."""

    def __init__(self, prog: str) -> None:
        columns = columns_of(sys.stdout) or WIDEST
        super().__init__(prog, width=min(columns, WIDEST))

    def _split_lines(self, text: str, width: int) -> list[str]:
        from textwrap import wrap  # only for a page of help

        return wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A page's options; examples come first in its help, mistakes end as a `UsageError`."""

    def __init__(self, verb: str, summary: str, examples: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(
            prog=f"ll-loop {verb}",
            description=_description(summary, examples),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, help=f"see `{self.prog} --help`")

    def print_help(self, file: object = None) -> None:
        say(self.format_help().rstrip("\n"))


def _description(summary: str, examples: Sequence[tuple[str, str]]) -> str:
    if not examples:
        return summary
    width = max(len(command) for command, _ in examples) + 2
    lines = [f"  {command:<{width}}{what}".rstrip() for command, what in examples]
    return "\n".join([summary, "", "Examples:", *lines])


def add_output_options(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "-q", "--quiet", action="count", default=0, help="errors and the last line; -qq: nothing"
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="show what actions print; -vv: whole commands, times, reasons too",
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default=None, help="default: auto"
    )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def seconds(text: str) -> float:
    """`90`, `90s`, `10m`, `2h`."""
    from little_loops.authoring.fields.kinds import LONGEST_S  # only where a time is given

    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no length of time like 90s, 10m, 2h"
        ) from None
    if not value > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    if value > LONGEST_S:
        raise argparse.ArgumentTypeError("is longer than ten years")
    return value
