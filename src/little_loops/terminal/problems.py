"""Show what is wrong with a loop file: as text with the line and a caret, as JSON, for GitHub.

Not here: finding problems (`authoring`), what a code means at length (`explain`).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

from little_loops.errors import Place, Problem
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.terminal.console import ascii_only, columns_of, print_json, talk

MOST_PRINTED = 100
TAB = 4


class ExcerptWidth(NamedTuple):
    """What an excerpt is written on: so many columns, and how what is left out is marked."""

    widest: int = 102
    cut: str = "…"


def paper_of(stream: TextIO) -> ExcerptWidth:
    widest = min(columns_of(stream) or ExcerptWidth().widest, ExcerptWidth().widest)
    return ExcerptWidth(widest, "..." if ascii_only(stream) else "…")


def render(problem: Problem, paper: ExcerptWidth = ExcerptWidth()) -> str:  # noqa: B008
    """The problem as people read it, over several lines."""
    lines = [f"{problem.severity}[{problem.code}]: {_one_line(problem.message)}"]
    place = problem.place
    width = 2
    if place is not None:
        width = max(width, len(str(place.line)))
        lines.append(f"{' ' * width}--> {position(place)}")
        lines.extend(_excerpt(place, width, paper))
    if problem.help is not None:
        lines.append(f"{' ' * (width + 1)}= help: {_one_line(problem.help)}")
    return "\n".join(lines)


def render_all(
    problems: Sequence[Problem],
    paper: ExcerptWidth = ExcerptWidth(),  # noqa: B008
    most: int = MOST_PRINTED,
) -> str:
    """All of a file's problems, a blank line between them; beyond `most` only their number."""
    shown = [render(problem, paper) for problem in problems[:most]]
    if len(problems) > most:
        shown.append(f"{paper.cut} and {len(problems) - most:,} more")
    return "\n\n".join(shown)


def as_dict(problem: Problem) -> dict[str, Any]:
    """The problem for programs."""
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
    """The problem as a GitHub workflow command, which puts it beside the line."""
    place = problem.place
    properties = [("title", problem.code)]
    if place is not None:
        position = [("file", place.file), ("line", str(place.line)), ("col", str(place.column))]
        properties = [*position, *properties]
    said = ",".join(f"{name}={_github(value, property=True)}" for name, value in properties)
    hint = f" ({problem.help})" if problem.help is not None else ""
    return f"::{problem.severity} {said}::{_github(problem.message + hint)}"


def report_problems(problems: Sequence[Problem], *, json_wanted: bool) -> None:
    """Why a command could not use a loop file: on stderr, or as JSON the first of them and all."""
    if not json_wanted:
        talk(render_all(problems, paper_of(sys.stderr)))
        return
    errors = [each for each in problems if each.severity == "error"] or problems
    first = as_dict(errors[0]) if errors else None
    print_json({"error": first, "problems": [as_dict(each) for each in problems[:MOST_PRINTED]]})


def position(place: Place) -> str:
    """`file:line:column`, which editors and terminals make clickable."""
    return f"{_one_line(place.file)}:{place.line}:{place.column}"


def _excerpt(place: Place, width: int, paper: ExcerptWidth) -> list[str]:
    gutter = f"{' ' * (width + 1)}|"
    room = paper.widest - len(gutter) - 1 - len(paper.cut)
    text, start, length = _cells(place, room, paper.cut)
    caret = f"{gutter} {' ' * start}{'^' * length}"
    return [gutter, f"{place.line:>{width}} | {text}".rstrip(), caret]


def _cells(place: Place, room: int, cut: str) -> tuple[str, int, int]:
    """The line as it is shown, and where the caret stands under it, in columns of a terminal."""
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
    """How many columns of a terminal the text takes."""
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
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    if property:
        escapes |= {":": "%3A", ",": "%2C"}
    return "".join(escapes.get(char, char) for char in text)
