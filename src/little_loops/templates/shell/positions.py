"""Data types for the positions of values in a shell script, and the findings about them.

They are separate from the code that determines them (`reader`) and explains them (`refusals`),
because a loop without data in its scripts needs neither.
"""

from __future__ import annotations

from little_loops.light_typing import Literal, TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.parse import Escape, Reference

HOLE = "\0"
"""Marks the places in a script where a value will be inserted."""

Quote: TypeAlias = Literal["bare", "double", "single", "document", "literal", "comment"]
"""How the shell reads a piece of text; `document` is a here-document, `literal` expands nothing."""

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
    """A variable, or the output of `$(…)` if `name` is empty, in a place that the shell evaluates."""

    name: str
    reason: Reason
    of: str


class ScriptPosition(NamedTuple):
    """How the shell reads the text at a position, and why a value is not allowed there, if so."""

    quote: Quote
    refused: Reason = ""
    of: str = ""  # the program whose code this is, or what could not be parsed
    splits: bool = False  # several words are allowed here
    option_of: str = ""  # the program that would read a leading `-` as an option
    file_of: str = ""  # the program that runs the file named here
    used: Use | None = None  # how the script evaluates the value later


class RefusedValue(NamedTuple):
    """Why a value is not allowed in its place; or a warning, if it is allowed but risky."""

    reference: Reference | Escape
    message: str
    help: str
    warning: bool = False
