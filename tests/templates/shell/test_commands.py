"""The simple commands of a script; `@` is where a value will be inserted."""

from __future__ import annotations

import pytest

from little_loops.templates.shell.commands import commands_in, is_known
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.words import UNKNOWN, Word


def told(script: str) -> list[str]:
    found = commands_in(script.replace("@", HOLE))
    marks = str.maketrans({HOLE: "@", UNKNOWN: "$"})
    return [" ".join(word.text.translate(marks) for word in command) for command in found]


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("", []),
        ("a b; c | d && e $x @", ["a b", "c", "d", "e $ @"]),
        ("if a; then b; fi", ["a", "b"]),
        ("sh -c 'a b; c'; d", ["sh -c a b; c", "a b", "c", "d"]),
        ("bash -c 'a'", ["bash -c a", "a"]),
        ("dash -c 'a'", ["dash -c a", "a"]),
        ("eval 'a'", ["eval a", "a"]),
        ("sed 'a'; awk 'b'; trap 'c' EXIT", ["sed a", "awk b", "trap c EXIT"]),
        ("sh <<E\na\nE", ["sh"]),
    ],
)
def test_commands_and_those_of_scripts_inside(script, commands):
    assert told(script) == commands


def test_scripts_inside_scripts_are_read_five_levels_deep():
    nested = "a"
    for _ in range(7):
        nested = "eval '" + nested.replace("'", "'\\''") + "'"
    assert len(told(nested)) == 6


@pytest.mark.parametrize(
    ("text", "known"), [("a", True), ("", True), (f"a{HOLE}", False), (f"{UNKNOWN}b", False)]
)
def test_what_the_script_itself_says(text, known):
    assert is_known(Word(text)) is known
