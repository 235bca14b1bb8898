"""The words a verb takes, declared once: a class for each verb, an attribute for each word.

    class GraphArgs(OutputArgs, verb="graph", summary="Show a loop as a graph."):
        loop: str = operand("a loop's name or file")
        format: str = value("default: text", choices=("text", "dot"), default="text")

`GraphArgs.read(argv)` returns an instance.  Plain command lines are read right here, without the
cost of argparse; help, mistakes, `--name=value` and `-qq` go to argparse, built from the same table.
Completion and the reference pages use the table, too.

Not here: argparse itself (`parsing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module

from little_loops.cli.commands import VERBS
from little_loops.light_typing import Any, ClassVar, Literal, Self, TypeAlias
from little_loops.records import NamedTuple

MOST_USD = 1e6
OLDEST_S = 1e12
"""Longer than any history, but still valid in milliseconds."""

Examples: TypeAlias = Sequence[tuple[str, str]]


class Option(NamedTuple):
    """One operand or option of a verb."""

    kind: Literal["operand", "flag", "count", "value"]
    help: str = ""
    flags: tuple[str, ...] = ()
    convert: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    many: bool = False  # may be given several times
    optional: bool = False  # the operand, or the value of the option, may be left out
    implied: Any = None  # the value of an option that is given without one
    names: str = ""  # the kind of names that completion offers as its value
    hidden: bool = False  # accepted, but not documented


class BadValue(ValueError):
    """A value that an option does not accept; the text says why."""


# Typed as `Any`, because the attribute has the type of the parsed value.


def operand(help: str = "", **more: Any) -> Any:
    return Option("operand", help, **more)


def flag(help: str = "", *flags: str) -> Any:
    return Option("flag", help, flags, default=False)


def count(help: str = "", *flags: str) -> Any:
    return Option("count", help, flags, default=0)


def value(help: str = "", *flags: str, **more: Any) -> Any:
    """Declare an option with a value; `flags` are short ones, or replace the one derived from the
    name."""
    return Option("value", help, flags, **more)


def _with_flags(name: str, option: Option) -> Option:
    """Return the option with the flag derived from its attribute's name."""
    if option.kind == "operand" or any(each.startswith("--") for each in option.flags):
        return option
    return option._replace(flags=(*option.flags, f"--{name.replace('_', '-')}"))


class Args:
    """The parsed arguments of a verb; a subclass declares them."""

    verb: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    examples: ClassVar[Examples] = ()
    table: ClassVar[Mapping[str, Option]] = {}

    def __init_subclass__(cls, verb: str = "", summary: str = "", examples: Examples = ()) -> None:
        """Build the table of a verb from the options that its class and its bases declare."""
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        table = {name: _with_flags(name, each) for name, each in own.items()}
        cls.verb, cls.summary, cls.examples = verb, summary, examples
        # Its own options come first, and override those of its base.
        cls.table = {**table, **cls.table, **table}

    def __init__(self, **given: Any) -> None:
        for name, option in self.table.items():
            found = given.get(name)
            setattr(self, name, option.default if found in (None, []) else found)

    @classmethod
    def read(cls, argv: Sequence[str]) -> Self:
        """Parse a command line; raise `UsageError` for arguments that the verb does not have.

        `--help` prints the help page and raises `SystemExit`.
        """
        given = _parse_simple(cls.table, argv)
        if given is None:
            from little_loops.cli.parsing import parse_all  # few command lines need it

            given = parse_all(cls, argv)
        return cls(**given)


class OutputArgs(Args):
    """Options of most verbs; `-v` is only documented by those that have more to print."""

    json: bool = flag("print JSON")
    quiet: int = count("print less; -qq: print nothing", "-q")
    verbose: int = Option("count", flags=("-v",), default=0, hidden=True)  # type: ignore[assignment]
    color: str | None = value(
        "when to use colour; default: auto", choices=("auto", "always", "never")
    )


class WatchArgs(OutputArgs):
    """Options of verbs that show a run in progress."""

    quiet: int = count("print only errors and the last line; -qq: print nothing", "-q")
    verbose: int = count(
        "show what actions print; -vv: also full commands, times and reasons", "-v"
    )


def args_of(verb: str) -> type[Args]:
    """Return the arguments class of a verb."""
    page = import_module(f"little_loops.cli.{VERBS[verb].module}")
    found = (each for each in vars(page).values() if isinstance(each, type))
    return next(each for each in found if issubclass(each, Args) and each.verb == verb)


def _parse_simple(table: Mapping[str, Option], argv: Sequence[str]) -> dict[str, Any] | None:
    """Parse a simple command line; return None if argparse has to do it."""
    by_flag = {each: name for name, option in table.items() for each in option.flags}
    given: dict[str, Any] = {}
    operands = []
    words = iter(argv)
    for word in words:
        name = by_flag.get(word, "")
        if not word.startswith("-"):
            operands.append(word)
        elif not name or not _take_option(table[name], name, words, given):
            return None
    return given if _take_operands(table, operands, given) else None


def _take_option(option: Option, name: str, words: Iterator[str], given: dict[str, Any]) -> bool:
    """Add an option to `given`, with the next word as its value if it has one.

    Return False if argparse has to handle it.
    """
    match option.kind:
        case "flag":
            given[name] = True
            return True
        case "count":
            given[name] = given.get(name, 0) + 1
            return True
        case _:
            found = None if option.optional else _converted(option, next(words, "-"))
            given[name] = [*given.get(name, ()), found] if option.many else found
            return found is not None


def _take_operands(
    table: Mapping[str, Option], operands: Sequence[str], given: dict[str, Any]
) -> bool:
    """Add the operands to `given`; return False if their number or a value is wrong."""
    wanted = [(name, each) for name, each in table.items() if each.kind == "operand"]
    if not wanted:
        return not operands
    if len(wanted) > 1:
        return _take_in_order(wanted, operands, given)
    ((name, option),) = wanted
    found = [_converted(option, word) for word in operands]
    enough = option.many or len(found) == 1 or (option.optional and not found)
    if not enough or None in found:
        return False
    if found:
        given[name] = found if option.many else found[0]
    return True


def _take_in_order(
    wanted: Sequence[tuple[str, Option]], operands: Sequence[str], given: dict[str, Any]
) -> bool:
    """Add several operands of one word each; optional ones come last.

    Return False if their number or a value is wrong.
    """
    needed = sum(not option.optional for _, option in wanted)
    if not needed <= len(operands) <= len(wanted):
        return False
    given.update(
        (name, _converted(option, word))
        for (name, option), word in zip(wanted, operands, strict=False)
    )
    return None not in given.values()


def _converted(option: Option, word: str) -> Any:
    """Return the value; None if argparse has to report what is wrong with it."""
    if word.startswith("-") or (option.choices and word not in option.choices):
        return None
    try:
        return option.convert(word)
    except ValueError:
        return None


def whole(text: str) -> int:
    """Parse a whole number; raise `BadValue` if it is not one."""
    try:
        return int(text)
    except ValueError:
        raise BadValue(f"must be a whole number, not {text!r}") from None


def natural(text: str) -> int:
    """Parse a whole number; raise `BadValue` if it is not one, or negative."""
    found = whole(text)
    if found < 0:
        raise BadValue("must be at least 0")
    return found


def positive(text: str) -> int:
    """Parse a whole number; raise `BadValue` if it is not one, or less than 1."""
    found = whole(text)
    if found < 1:
        raise BadValue("must be at least 1")
    return found


def dollars(text: str) -> float:
    """Parse an amount in US dollars: `5`, `0.50`, `$5`; raise `BadValue` for anything else."""
    try:
        found = float(text.removeprefix("$"))
    except ValueError:
        raise BadValue(
            f"{text!r} is not an amount in US dollars (for example, 5 or 0.50)"
        ) from None
    if not 0 < found <= MOST_USD:
        raise BadValue(f"must be more than 0, and at most {MOST_USD:,.0f}")
    return found


def seconds(text: str) -> float:
    """Parse how long something may take, as in `--timeout`, into seconds: `90`, `90s`, `10m`, `2h`, `1d`.

    Raises `BadValue` if it is not one, or longer than ten years.
    """
    from little_loops.authoring.fields.kinds import LONGEST_S  # only where a time is given

    found = age(text)
    if found > LONGEST_S:
        raise BadValue("is longer than ten years")
    return found


def age(text: str) -> float:
    """Parse a time to look back, such as `90s`, `7d` or `1h30m`, into seconds; a very long one is shortened.

    Raises `BadValue` if it is not a duration, or not more than 0.
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        found = float(number) * unit
    except ValueError:
        found = _with_several_units(text)
    if not found > 0:
        raise BadValue("must be more than 0")
    return min(found, OLDEST_S)


def _with_several_units(text: str) -> float:
    """Parse a time such as `1h30m` as in a loop file. Raises `BadValue` if it is not one."""
    from little_loops.authoring.fields.read_values import seconds  # only where such a time is given

    found = seconds(text)
    if found is None:
        raise BadValue(f"{text!r} is not a duration (for example, 90s, 10m, 2h or 1h30m)")
    return found
