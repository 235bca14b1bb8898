"""What a word of a command can be to the shell and to the programs it starts: the words for it.

A word is known only as far as the script shows it.  Marks stand in its text for the rest.

Not here: finding out (`shell_programs`, `shell_builtins`).
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import HOLE

UNKNOWN = "\1"
"""Stands for what the shell will put there itself."""
PRINTED = "\2"
"""Stands for what a `$(…)` prints that has a value in it."""
PROCESS = "\3"
"""Stands for the file that is a `<(…)` with a value in it."""
VALUES = (HOLE, PRINTED)

Role: TypeAlias = Literal[
    "command",
    "vanishing",  # the name of a command, if an expansion before it gives nothing
    "program",
    "name",  # of a variable
    "variable",  # the value of a variable that the shell runs
    "operator",  # could be one of `[ … ]`, or its operand
    "value",  # exactly one word belongs here
    "option",  # could be read as an option that brings a program along
    "file",  # names a file that is run
    "script",  # the same, or an option
    "input",  # no word, but the text on the program's standard input
    "argument",  # nothing special
]


class Word(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def bare(self) -> bool: ...


class Finding(NamedTuple):
    at: int
    role: Role
    of: str
