"""Where a value may stand in a shell script, and what can be said against it: the words for it.

Apart from those who find out (`script`) and those who explain (`shell_refusals`), because a
loop without data in its scripts needs neither.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from little_loops.records import NamedTuple
from little_loops.templates.parse import Escape, Reference

HOLE = "\0"
"""Stands in a script where a value will be put."""

Quote: TypeAlias = Literal["bare", "double", "single", "document", "literal", "comment"]
"""How the shell reads a text.  `document`: a here-document.  `literal`: nothing is replaced."""

Reason: TypeAlias = Literal[
    "",
    "command",
    "vanishing",
    "program",
    "name",
    "variable",
    "option",
    "operator",
    "arithmetic",
    "test",
    "backticks",
    "parameter",
    "literal document",
    "dollar quotes",
    "delimiter",
    "backslash",
    "dollar",
    "unbalanced",
    "unclear",
]


class Use(NamedTuple):
    """A variable that gets a value and is used where none may stand."""

    name: str
    reason: Reason
    of: str


class Place(NamedTuple):
    quote: Quote
    refused: Reason = ""
    of: str = ""  # the program whose text this is, or what the reader could not follow
    through: str = ""  # what carries the value there: `$(…)`, a pipe
    splits: bool = False  # several words may stand here
    option_of: str = ""  # the program that would take a leading `-` for an option
    file_of: str = ""  # the program that runs the file named here
    evaluated: Use | None = None


class Refusal(NamedTuple):
    """Why a value may not stand where it does; a warning if it may."""

    reference: Reference | Escape
    message: str
    help: str
    warning: bool = False
