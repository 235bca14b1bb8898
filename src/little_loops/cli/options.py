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
from typing import Any, ClassVar, Literal, Self, TypeAlias

from little_loops.cli.commands import VERBS
from little_loops.records import NamedTuple

MOST_USD = 1e6
OLDEST_S = 1e12
"""Longer ago than anything, and still a number of milliseconds."""

Examples: TypeAlias = Sequence[tuple[str, str]]


class Option(NamedTuple):
    """One word that a verb takes."""

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
    hidden: bool = False  # accepted, and named nowhere


class BadValue(ValueError):
    """A value that an option does not take; the text says why."""


# Typed as `Any`, because what they declare is the type of the attribute.


def operand(help: str = "", **more: Any) -> Any:
    return Option("operand", help, **more)


def flag(help: str = "", *flags: str) -> Any:
    return Option("flag", help, flags, default=False)


def count(help: str = "", *flags: str) -> Any:
    return Option("count", help, flags, default=0)


def value(help: str = "", *flags: str, **more: Any) -> Any:
    """An option with a value; `flags` are short, or replace the one made of the attribute's name."""
    return Option("value", help, flags, **more)


def _with_flags(name: str, option: Option) -> Option:
    if option.kind == "operand" or any(each.startswith("--") for each in option.flags):
        return option
    return option._replace(flags=(*option.flags, f"--{name.replace('_', '-')}"))


class Args:
    """The words a verb was given; a subclass declares which it takes."""

    verb: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    examples: ClassVar[Examples] = ()
    table: ClassVar[Mapping[str, Option]] = {}

    def __init_subclass__(cls, verb: str = "", summary: str = "", examples: Examples = ()) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        table = {name: _with_flags(name, each) for name, each in own.items()}
        cls.verb, cls.summary, cls.examples = verb, summary, examples
        # Its own words come first; one that its base has too says here what it means.
        cls.table = {**table, **cls.table, **table}

    def __init__(self, **given: Any) -> None:
        for name, option in self.table.items():
            found = given.get(name)
            setattr(self, name, option.default if found in (None, []) else found)

    @classmethod
    def read(cls, argv: Sequence[str]) -> Self:
        """Raises `UsageError` for words that the verb does not take."""
        given = _plain(cls.table, argv)
        if given is None:
            from little_loops.cli.parsing import parser_of  # few command lines need it

            given = vars(parser_of(cls).parse_args(argv))
        return cls(**given)


class OutputArgs(Args):
    """What most verbs take; `-v` is named only by those that have more to show."""

    json: bool = flag("print JSON")
    quiet: int = count("print less; -qq: print nothing", "-q")
    verbose: int = Option("count", flags=("-v",), default=0, hidden=True)  # type: ignore[assignment]
    color: str | None = value(
        "when to use colour; default: auto", choices=("auto", "always", "never")
    )


class WatchArgs(OutputArgs):
    """What verbs take that show a run as it goes on."""

    quiet: int = count("print only errors and the last line; -qq: print nothing", "-q")
    verbose: int = count(
        "show what actions print; -vv: also whole commands, times and reasons", "-v"
    )


def args_of(verb: str) -> type[Args]:
    """What a verb takes, as its page declares it."""
    page = import_module(f"little_loops.cli.{VERBS[verb].module}")
    found = (each for each in vars(page).values() if isinstance(each, type))
    return next(each for each in found if issubclass(each, Args) and each.verb == verb)


def _plain(table: Mapping[str, Option], argv: Sequence[str]) -> dict[str, Any] | None:
    """What was given; None if argparse has to read it."""
    by_flag = {each: name for name, option in table.items() for each in option.flags}
    given: dict[str, Any] = {}
    operands = []
    words = iter(argv)
    for word in words:
        name = by_flag.get(word, "")
        if not word.startswith("-"):
            operands.append(word)
        elif not name or not _takes(table[name], name, words, given):
            return None
    return given if _take_operands(table, operands, given) else None


def _takes(option: Option, name: str, words: Iterator[str], given: dict[str, Any]) -> bool:
    """Note an option, and the word after it if it has a value."""
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
    """Note the operands, in the order in which they are declared."""
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
    """Note several operands of one word each; those that may be left out come last."""
    needed = sum(not option.optional for _, option in wanted)
    if not needed <= len(operands) <= len(wanted):
        return False
    given.update(
        (name, _converted(option, word))
        for (name, option), word in zip(wanted, operands, strict=False)
    )
    return None not in given.values()


def _converted(option: Option, word: str) -> Any:
    """The value, or None if argparse has to say what is wrong with it."""
    if word.startswith("-") or (option.choices and word not in option.choices):
        return None
    try:
        return option.convert(word)
    except ValueError:
        return None


def positive(text: str) -> int:
    found = int(text)
    if found < 1:
        raise BadValue("must be at least 1")
    return found


def dollars(text: str) -> float:
    """A sum in US dollars: `5`, `0.50`, `$5`."""
    try:
        found = float(text.removeprefix("$"))
    except ValueError:
        raise BadValue(f"{text!r} is not an amount in US dollars like 5 or 0.50") from None
    if not 0 < found <= MOST_USD:
        raise BadValue(f"must be more than 0, and at most {MOST_USD:,.0f}")
    return found


def seconds(text: str) -> float:
    """A time that a run may take: `90`, `90s`, `10m`, `2h`."""
    from little_loops.authoring.fields.kinds import LONGEST_S  # only where a time is given

    found = age(text)
    if found > LONGEST_S:
        raise BadValue("is longer than ten years")
    return found


def age(text: str) -> float:
    """A time to look back, written in the same way."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        found = float(number) * unit
    except ValueError:
        raise BadValue(f"{text!r} is not a duration like 90s, 10m, 2h") from None
    if not found > 0:
        raise BadValue("must be more than 0")
    return min(found, OLDEST_S)
