"""Print the problems of a loop file: as text with the line and a caret, as JSON, for GitHub.

Not here: finding problems (`authoring`), what a code means in detail (`explain`).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

from little_loops.errors import Place, Problem
from little_loops.light_typing import Any, TextIO
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.terminal.console import ascii_only, columns_of, print_json, talk

MOST_PRINTED = 100
TAB = 4


class ExcerptWidth(NamedTuple):
    """The width of an excerpt, and the mark for what is left out."""

    widest: int = 102
    cut: str = "…"


def excerpt_width(stream: TextIO) -> ExcerptWidth:
    """Return the width of excerpts on this stream."""
    widest = min(columns_of(stream) or ExcerptWidth().widest, ExcerptWidth().widest)
    return ExcerptWidth(widest, "..." if ascii_only(stream) else "…")


def render(problem: Problem, width_limit: ExcerptWidth = ExcerptWidth()) -> str:  # noqa: B008
    """Return the problem as text, on several lines."""
    lines = [f"{problem.severity}[{problem.code}]: {_one_line(problem.message)}"]
    place = problem.place
    width = 2
    if place is not None:
        width = max(width, len(str(place.line)))
        lines.append(f"{' ' * width}--> {position(place)}")
        lines.extend(_excerpt(place, width, width_limit))
    if problem.help is not None:
        lines.append(f"{' ' * (width + 1)}= help: {_one_line(problem.help)}")
    return "\n".join(lines)


def render_all(
    problems: Sequence[Problem],
    width_limit: ExcerptWidth = ExcerptWidth(),  # noqa: B008
    most: int = MOST_PRINTED,
) -> str:
    """Return all problems, separated by blank lines; beyond `most`, only their number."""
    shown = [render(problem, width_limit) for problem in problems[:most]]
    if len(problems) > most:
        shown.append(f"{width_limit.cut} and {len(problems) - most:,} more")
    return "\n\n".join(shown)


def as_dict(problem: Problem) -> dict[str, Any]:
    """Return the problem as JSON data."""
    place = problem.place
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "help": problem.help,
    }


def annotation(problem: Problem) -> str:
    """Return the problem as a GitHub workflow command, which displays it beside the line."""
    place = problem.place
    properties = [("title", problem.code)]
    if place is not None:
        position = [("file", place.file), ("line", str(place.line)), ("col", str(place.column))]
        properties = [*position, *properties]
    said = ",".join(f"{name}={_github(value, property=True)}" for name, value in properties)
    hint = f" ({problem.help})" if problem.help is not None else ""
    return f"::{problem.severity} {said}::{_github(problem.message + hint)}"


def report_problems(problems: Sequence[Problem], *, json_wanted: bool) -> None:
    """Print why a command could not use a loop file: to stderr, or as JSON to stdout."""
    if not json_wanted:
        talk(render_all(problems, excerpt_width(sys.stderr)))
        return
    errors = [each for each in problems if each.severity == "error"] or problems
    first = as_dict(errors[0]) if errors else None
    print_json({"error": first, "problems": [as_dict(each) for each in problems[:MOST_PRINTED]]})


def position(place: Place) -> str:
    """Return `file:line:column`, which editors and terminals make clickable."""
    return f"{_one_line(place.file)}:{place.line}:{place.column}"


def _excerpt(place: Place, width: int, width_limit: ExcerptWidth) -> list[str]:
    """Return the line of the file, with a caret below the problem."""
    gutter = f"{' ' * (width + 1)}|"
    room = width_limit.widest - len(gutter) - 1 - len(width_limit.cut)
    text, start, length = _cells(place, room, width_limit.cut)
    caret = f"{gutter} {' ' * start}{'^' * length}"
    return [gutter, f"{place.line:>{width}} | {text}".rstrip(), caret]


def _cells(place: Place, room: int, cut: str) -> tuple[str, int, int]:
    """Return the line as displayed, and start and length of the caret, in terminal columns."""
    begin = place.column - 1
    first = max(0, begin - room * 5 // 8) if len(place.source) > room else 0
    text = cut if first else ""
    start = at = len(text)
    end = at
    for index in range(first, len(place.source)):
        if at >= room:
            text += cut
            break
        cell = _cell(place.source[index], at)
        if index == begin:
            start = end = at
        at += _columns(cell)
        text += cell
        if begin <= index < begin + place.length:
            end = at
    if begin >= len(place.source):
        start, end = at, at + 1
    return text, start, max(1, end - start)


def _cell(char: str, at: int) -> str:
    return " " * (TAB - at % TAB) if char == "\t" else visible(char, newlines=False)


def _columns(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _one_line(text: str) -> str:
    return visible(text, newlines=False)


def _github(text: str, property: bool = False) -> str:
    """Escape a text for a workflow command, or for the value of one of its properties."""
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    if property:
        escapes |= {":": "%3A", ",": "%2C"}
    return "".join(escapes.get(char, char) for char in text)
