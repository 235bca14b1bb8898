"""Parse the references in a text together with its mistakes.

Not here: the parser itself (`templates.parse`), whether a value exists (`check_values`).
"""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.records import NamedTuple
from little_loops.templates.parse import Reference, TemplateError, references, template_errors

COVER = "é"
"""A letter in every shell, and not the start of any namespace."""
MOST_IN_ONE = 100
"""The maximum number of problems reported for one text."""


class Read(NamedTuple):
    """The references and the mistakes in a text."""

    references: tuple[Reference, ...] = ()
    errors: tuple[TemplateError, ...] = ()


def read(text: str) -> Read:
    """Parse a text; if it is full of mistakes, return only the first."""
    if "${" not in text:
        return Read()
    try:
        return Read(references(text))
    except TemplateError as error:
        if text.count("${") > MOST_IN_ONE:
            return Read(errors=(error,))
    errors = tuple(template_errors(text))
    return Read(references(covered(text, [(each.start, each.end) for each in errors])), errors)


def beginning(text: str, most: int) -> str:
    """Return the start of a text that contains at most `most` occurrences of `${`."""
    at = 0
    for _ in range(most + 1):
        at = text.find("${", at) + 2
    return text[: at - 2] if most >= 0 else ""


def covered(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with these spans replaced by letters, so that other positions stay valid."""
    parts, done = [], 0
    for start, end in sorted(spans):
        parts += [text[done:start], COVER * (end - max(start, done))]
        done = max(done, end)
    return "".join([*parts, text[done:]])
