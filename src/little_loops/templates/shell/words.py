"""The words of a command, and the roles they can have for the shell or the program.

Not here: reading words from a script (`reader`), determining roles (`rules`).
"""

from __future__ import annotations

from little_loops.light_typing import Literal, TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import ScriptPosition

UNKNOWN = "\1"
"""Stands for a shell expansion in a word's text."""

Role: TypeAlias = Literal[
    "command",
    "vanishing",  # the name of a command, if the expansion before it is empty
    "program",
    "name",  # of a variable
    "variable",  # assigned to a variable that the shell evaluates
    "operator",  # could be an operator of `[ … ]`, or its operand
    "value",  # exactly one word belongs here
    "option",  # could be read as an option that contains a program
    "file",  # names a file that is run
    "script",  # the same, or an option
    "input",  # not a word, but the program's standard input
    "argument",  # nothing special
]


class Word(NamedTuple):
    """A word, as far as the script shows it; `bare` if nothing in it is quoted."""

    text: str
    bare: bool = True
    holes: tuple[tuple[int, ScriptPosition], ...] = ()
    start: int = 0
    stop: int = 0


class ArgumentRole(NamedTuple):
    """The word at index `at` has this role for the program `of`; -1 means the standard input."""

    at: int
    role: Role
    of: str
