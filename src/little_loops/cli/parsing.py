"""Parse options that are not simple, with argparse, our messages and our exit code.

Not here: what a verb takes, and the simple way to parse it (`options`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from little_loops.cli.options import Args, BadValue, Option
from little_loops.errors import UsageError
from little_loops.light_typing import Any, NoReturn
from little_loops.terminal import paint
from little_loops.terminal.console import columns_of, say

WIDEST = 78


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Gets the width from the terminal itself: argparse's way takes 3 ms at every start."""

    def __init__(self, prog: str) -> None:
        columns = columns_of(sys.stdout) or WIDEST
        super().__init__(prog, width=min(columns, WIDEST))

    def _split_lines(self, text: str, width: int) -> list[str]:
        from textwrap import wrap  # only for a page of help

        return wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """The parser of a verb; its help starts with examples, and mistakes raise `UsageError`."""

    def __init__(self, verb: str, summary: str, examples: Sequence[tuple[str, str]] = ()) -> None:
        """Set up the parser of a verb; each example is a command and what it does."""
        super().__init__(
            prog=f"ll-loop {verb}",
            description=_description(summary, examples),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """Parse a command line; `validate a --strict b` means `validate a b --strict`."""
        if any(action.nargs == "*" for action in self._actions):
            return self.parse_intermixed_args(args, namespace)
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        meant = self._option_meant(message)
        suggestion = f"did you mean `{meant}`? " if meant else ""
        raise UsageError(message, help=f"{suggestion}see `{self.prog} --help`")

    def _option_meant(self, message: str) -> str | None:
        """Return the option that is nearest to the first unknown one in an error message."""
        from difflib import get_close_matches  # only for a mistake

        _, _, unknown = message.partition("unrecognized arguments: ")
        if not unknown.startswith("--"):
            return None
        shown = [each for each in self._actions if each.help is not argparse.SUPPRESS]
        flags = [flag for each in shown for flag in each.option_strings if flag.startswith("--")]
        near = get_close_matches(unknown.split()[0].partition("=")[0], flags, n=1)
        return near[0] if near else None

    def print_help(self, file: object = None) -> None:
        say(self.format_help().rstrip("\n"), paint.help_page)


def _description(summary: str, examples: Sequence[tuple[str, str]]) -> str:
    """Return the summary, followed by the examples in two columns if there are any."""
    if not examples:
        return summary
    width = max(len(command) for command, _ in examples) + 2
    lines = [f"  {command:<{width}}{what}".rstrip() for command, what in examples]
    return "\n".join([summary, "", "Examples:", *lines])


def parse_all(args: type[Args], argv: Sequence[str]) -> dict[str, Any]:
    """Parse a command line with argparse. Raises `UsageError` for arguments that the verb lacks."""
    parser = parser_of(args)
    given = vars(parser.parse_args(argv))
    for name, option in args.table.items():
        if given[name] == [] and not option.many:
            given[name] = _two_dashes(parser, name, option)
    return given


def _two_dashes(parser: Parser, name: str, option: Option) -> str:
    """Return `--`, given as a value: argparse takes it for the end of options and drops it."""
    if option.choices or option.convert is not str:
        parser.error(f"argument {'/'.join(option.flags) or name}: invalid value: '--'")
    return "--"


def parser_of(args: type[Args]) -> Parser:
    """Build the parser of a verb from its declarations."""
    parser = Parser(args.verb, args.summary, args.examples)
    for name, option in args.table.items():
        text = argparse.SUPPRESS if option.hidden else option.help or None
        keywords = {"help": text, **_keywords(name, option)}
        parser.add_argument(*(option.flags or (name,)), **keywords)
    return parser


def _keywords(name: str, option: Option) -> dict[str, Any]:
    """Return the argparse keywords for an option."""
    match option.kind:
        case "flag":
            return {"action": "store_true", "dest": name}
        case "count":
            return {"action": "count", "dest": name, "default": 0}
        case "operand":
            nargs = "*" if option.many else "?" if option.optional else None
            return {**_of_value(option), "nargs": nargs}
        case "value" if option.many:
            return {**_of_value(option), "dest": name, "action": "append"}
        case "value":
            more = {"nargs": "?", "const": option.implied} if option.optional else {}
            return {**_of_value(option), "dest": name, **more}


def _of_value(option: Option) -> dict[str, Any]:
    choices = option.choices or None
    return {"type": _type(option.convert), "metavar": option.metavar, "choices": choices}


def _type(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wrap a converter so that argparse prints the text of a `BadValue`."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except BadValue as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    converted.__name__ = convert.__name__  # argparse uses it in the message for an invalid number
    return converted
