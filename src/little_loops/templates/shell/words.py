"""The words of a command, and what each can be to the shell or to the program it starts.

Not here: reading words out of a script (`reader`), deciding what a word is (`rules`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import Place

UNKNOWN = "\1"
"""Stands in a word's text for what the shell will expand there."""

Role: TypeAlias = Literal[
    "command",
    "vanishing",  # the name of a command, if the expansion before it is empty
    "program",
    "name",  # of a variable
    "variable",  # assigned to a variable that the shell evaluates
    "operator",  # could be an operator of `[ … ]`, or its operand
    "value",  # exactly one word belongs here
    "option",  # could be read as an option that brings a program along
    "file",  # names a file that is run
    "script",  # the same, or an option
    "input",  # not a word, but the program's standard input
    "argument",  # nothing special
]


class Word(NamedTuple):
    """A word as far as the script shows it; `bare`: nothing in it is quoted."""

    text: str
    bare: bool = True
    holes: tuple[tuple[int, Place], ...] = ()
    start: int = 0
    stop: int = 0


class Finding(NamedTuple):
    """The word at index `at` has this role for the program `of`; -1 is the standard input."""

    at: int
    role: Role
    of: str
