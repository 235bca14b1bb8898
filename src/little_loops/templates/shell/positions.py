"""Positions of values in a shell script, and the findings about them: the data types.

Apart from the code that determines them (`reader`) and explains them (`refusals`), because a loop
without data in its scripts needs neither.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from little_loops.records import NamedTuple
from little_loops.templates.parse import Escape, Reference

HOLE = "\0"
"""Stands in a script where a value will be inserted."""

Quote: TypeAlias = Literal["bare", "double", "single", "document", "literal", "comment"]
"""How the shell reads a text.  `document`: a here-document.  `literal`: nothing is expanded."""

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
    """A variable, or the output of `$(…)` if `name` is empty, in a place that is evaluated."""

    name: str
    reason: Reason
    of: str


class Place(NamedTuple):
    quote: Quote
    refused: Reason = ""
    of: str = ""  # the program whose text this is, or what the reader could not follow
    splits: bool = False  # several words may stand here
    option_of: str = ""  # the program that would read a leading `-` as an option
    file_of: str = ""  # the program that runs the file named here
    used: Use | None = None  # how the script evaluates the value later


class Refusal(NamedTuple):
    """Why a value may not stand where it does; a warning if it may."""

    reference: Reference | Escape
    message: str
    help: str
    warning: bool = False
