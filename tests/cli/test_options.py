"""What a verb takes is declared once, and read the same with and without argparse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.cli.commands import VERBS
from little_loops.cli.options import (
    Args,
    BadValue,
    OutputArgs,
    _parse_simple,
    args_of,
    flag,
    operand,
    positive,
    seconds,
    value,
)
from little_loops.cli.parsing import parser_of
from little_loops.errors import UsageError


class DrawArgs(OutputArgs, verb="draw", summary="Draw it.", examples=[("draw x", "x")]):
    shape: str = operand("what to draw", choices=("square", "circle"))
    fill: bool = flag("fill it", "-F")
    width: int = value("how wide", "-w", convert=positive, metavar="N", default=3)
    at: str | None = value("where", "--position", metavar="PLACE")
    tag: Sequence[str] = value("a tag", many=True, default=())
    after: float | None = value("wait", convert=seconds, optional=True, implied=1.0)


class ListArgs(Args, verb="list-them", summary="List them."):
    files: Sequence[str] = operand("files", many=True, default=())


class NoArgs(Args, verb="nothing", summary="Do nothing."):
    pass


def told(args: Args) -> str:
    """What is not as it is by default."""
    found = {name: getattr(args, name) for name, option in args.table.items()}
    default = {name: option.default for name, option in args.table.items()}
    return " ".join(f"{name}={each!r}" for name, each in found.items() if each != default[name])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("square", "shape='square'"),
        ("square -F --json", "shape='square' fill=True json=True"),
        ("-w 5 circle", "shape='circle' width=5"),
        ("circle --width 5 -w 6", "shape='circle' width=6"),
        ("circle --width=5", "shape='circle' width=5"),
        ("circle --position here", "shape='circle' at='here'"),
        ("circle --tag a --tag b", "shape='circle' tag=['a', 'b']"),
        ("circle -q -q -v", "shape='circle' quiet=2 verbose=1"),
        ("circle -qqv", "shape='circle' quiet=2 verbose=1"),
        ("circle --color never", "shape='circle' color='never'"),
        ("circle --after", "shape='circle' after=1.0"),
        ("circle --after 2m", "shape='circle' after=120.0"),
        ("circle --after 1h30m", "shape='circle' after=5400"),
        ("-- circle", "shape='circle'"),
    ],
)
def test_what_is_given_is_found(line, found):
    assert told(DrawArgs.read(line.split())) == found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "the following arguments are required: shape"),
        ("line", "argument shape: invalid choice: 'line' (choose from 'square', 'circle')"),
        ("square circle", "unrecognized arguments: circle"),
        ("square --fil", "unrecognized arguments: --fil"),
        ("square --width", "argument -w/--width: expected one argument"),
        ("square --width 0", "argument -w/--width: must be at least 1"),
        ("square --width x", "argument -w/--width: must be a whole number, not 'x'"),
        ("square --width --json", "argument -w/--width: expected one argument"),
        ("square --color red", "argument --color: invalid choice: 'red' (choose from"),
        (
            "square --after x",
            "argument --after: 'x' is not a duration (for example, 90s, 10m, 2h or 1h30m)",
        ),
    ],
)
def test_a_mistake_is_named(line, problem):
    with pytest.raises(UsageError) as caught:
        DrawArgs.read(line.split())
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("line", "help"),
    [
        pytest.param("square --fil", "did you mean `--fill`? see `ll-loop draw --help`", id="cut"),
        pytest.param(
            "square --colour=never",
            "did you mean `--color`? see `ll-loop draw --help`",
            id="with a value",
        ),
        pytest.param("square --rounded-corners", "see `ll-loop draw --help`", id="like no other"),
        pytest.param("square circle", "see `ll-loop draw --help`", id="no option"),
    ],
)
def test_a_mistyped_option_is_recognized(line, help):
    with pytest.raises(UsageError) as caught:
        DrawArgs.read(line.split())
    assert caught.value.help == help


def test_operands_that_are_many_or_none():
    assert told(ListArgs.read(["a", "b"])) == "files=['a', 'b']"
    assert told(ListArgs.read([])) == ""
    assert told(NoArgs.read([])) == ""
    with pytest.raises(UsageError):
        NoArgs.read(["a"])


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        DrawArgs.read(["--help"])
    text = capsys.readouterr().out
    shown = [option for option in DrawArgs.table.values() if not option.hidden]
    flags = {flag for option in shown for flag in option.flags}
    assert {flag for flag in flags if flag not in text} == set()
    assert "--verbose" not in text, "it would do nothing"
    assert DrawArgs.read(["circle", "-v"]).verbose == 1, "and does no harm"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_declares_what_it_takes(verb):
    found = args_of(verb)
    assert (found.verb, bool(found.summary)) == (verb, True)


@pytest.mark.parametrize(
    ("text", "found"),
    [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("1d", 86400.0)],
)
def test_times(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "x", "s", "0", "-1", "nan", "1e308", "99999d"])
def test_what_is_no_time(text):
    with pytest.raises(BadValue):
        seconds(text)


TABLES: list[type[Args]] = [DrawArgs, ListArgs, NoArgs, *map(args_of, VERBS)]
WORDS = {
    cls: st.lists(
        st.sampled_from(
            [
                *(flag for option in cls.table.values() for flag in option.flags),
                *(word for option in cls.table.values() for word in option.choices),
                *("a", "5", "0", "10m", "x=y", "--", "-", "-5", "--none", "", "-qq", "--json=1"),
            ]
        ),
        max_size=6,
    )
    for cls in TABLES
}


@given(st.data(), st.sampled_from(list(WORDS)))
def test_plain_words_mean_what_argparse_makes_of_them(data, cls):
    argv = data.draw(WORDS[cls])
    found = _parse_simple(cls.table, argv)
    if found is not None:
        assert told(cls(**found)) == told(cls(**vars(parser_of(cls).parse_args(argv))))


def test_two_dashes_are_a_value_and_not_dropped():
    assert args_of("tell").read(["fix", "--", "--"]).text == "--"  # type: ignore[attr-defined]
    assert DrawArgs.read(["square", "--position=--"]).at == "--"
    assert DrawArgs.read(["--", "square"]).shape == "square"
    for words in (["--", "--"], ["square", "--width=--"]):
        with pytest.raises(UsageError, match=r"invalid (value|choice): '--'"):
            DrawArgs.read(words)
