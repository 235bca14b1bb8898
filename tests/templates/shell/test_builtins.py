"""Which operands of the shell's own words are code.

`@` is where a value will be put, `&` a `$(…)` with a value in it, `&&` the same in quotes.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from little_loops.templates.shell.builtins import Effects, builtin, effects
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.roles import PRINTED


class Word(NamedTuple):
    text: str
    bare: bool


def words(line: str) -> list[Word]:
    marks = str.maketrans({"@": HOLE, "&": PRINTED})
    return [
        Word(text.replace("&&", "&").translate(marks), "&&" not in text) for text in line.split()
    ]


def told(line: str) -> str:
    name, *rest = line.split()
    found = {each.at: each for each in builtin(name, words(line), 1)}
    roles = [
        f"{text} {found[at].role}" if at in found else text
        for at, text in enumerate(rest, start=1)
        if "@" in text or "&" in text
    ]
    return ", ".join([*roles, *(["input"] if -1 in found else [])])


@pytest.mark.parametrize(
    ("line", "roles"),
    [
        ("eval echo @", "@ program"),
        ("let x=@", "x=@ program"),
        ("alias x=@", "x=@ program"),
        ("compgen -W @", "@ program"),
        ("complete -C @ x", "@ program"),
        ("jobs -x @", "@ program"),
        ("trap -- @ EXIT", "@ program"),
        (". @", "@ program"),
        ("source -- @ @", "@ program, @"),
        ("source", ""),
        (". /dev/stdin @", "@, input"),
        ("read -p @ @", "@ value, @ name"),
        ("unset @", "@ name"),
        ("wait @ -n -p @", "@, @ name"),
        ("declare @", "@ name"),
        ("declare x=@", "x=@ value"),
        ("declare -a x=@", "x=@ name"),
        ("declare -i x=@", "x=@ name"),
        ("local x+=@", "x+=@ value"),
        ("export @", "@ value"),
        ("export PS4=@", "PS4=@ variable"),
        ("declare OPTIND+=@", "OPTIND+=@ variable"),
        ("printf @", "@ option"),
        ("printf -v @ %s", "@ name"),
        ("printf", ""),
        ("echo @", "@"),
        # tests
        ("test @", "@ value"),
        ("test -n @", "@ value"),
        ("test -v @", "@ name"),
        ("test ! -R @", "@ name"),
        ("test @ = @", "@ value, @ value"),
        ("test @ -gt 3 -a @ -lt 5", "@ value, @ value"),
        ("test @ @", "@ operator, @ operator"),
        ("test ! @ @", "@ operator, @ operator"),
        ("test -@ a@", "-@ operator, a@ operator"),
        ("test a@ @", "a@ value, @ value"),
        ("test @ x", "@ value"),
        ("test && @", "&& operator, @ operator"),
        ("test && = x", "&& value"),
        ("test & = x", "& operator"),
        ("test x& = x", "x& operator"),
    ],
)
def test_what_an_operand_is(line, roles):
    assert told(line) == roles


X = frozenset("x")
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Effects()),
        ("echo x=1", Effects()),
        ("export x=1", Effects((("x", 1),))),
        ("readonly -p", Effects()),
        ("declare x=1 -r", Effects((("x", 1),), makes_lists=True)),
        ("builtin declare x", Effects((("x", 2),), makes_lists=True)),
        (
            "local -ri x",
            Effects((("x", 2),), integers=X, makes_integers=True, makes_lists=True),
        ),
        (
            "declare -n x",
            Effects((("x", 2),), integers=X, makes_integers=True, makes_lists=True),
        ),
        ("typeset -A x", Effects((("x", 2),), arrays=X, makes_lists=True)),
        ("declare -i @", Effects(makes_integers=True, makes_lists=True)),
        ("read -r x", Effects(read=X)),
        ("read -a x", Effects(read=X, arrays=X)),
        ("mapfile -t x", Effects(read=X, arrays=X)),
        ("set -- a @", Effects((("1", 1), ("1", 2), ("1", 3)))),
    ],
)
def test_what_a_command_does_to_variables(line, expected):
    assert effects(words(line)) == expected
