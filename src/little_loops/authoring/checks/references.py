"""What a text refers to, and what in it only tries to: references and mistakes, side by side.

Not here: the parser itself (`templates.parse`), whether there is such a value (`check_values`).
"""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.records import NamedTuple
from little_loops.templates.parse import Reference, TemplateError, references, template_errors

COVER = "é"
"""A letter to every shell, with which no namespace begins."""
MOST_IN_ONE = 100
"""Of problems in one text; no more of them are ever shown."""


class Read(NamedTuple):
    """A text, read: its references and its mistakes."""

    references: tuple[Reference, ...] = ()
    errors: tuple[TemplateError, ...] = ()


def read(text: str) -> Read:
    """What a text refers to; of one that is full of mistakes only the first is told."""
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
    """The text before a `${`, with so many of them in it at most."""
    at = 0
    for _ in range(most + 1):
        at = text.find("${", at) + 2
    return text[: at - 2] if most >= 0 else ""


def covered(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with plain letters in these places; every other place stays where it is."""
    parts, done = [], 0
    for start, end in sorted(spans):
        parts += [text[done:start], COVER * (end - max(start, done))]
        done = max(done, end)
    return "".join([*parts, text[done:]])
