"""Problems as text, so that a test can show all of one: code, what is pointed at, words, help."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.authoring.load import load
from little_loops.errors import Problem


def told(source: str) -> str:
    """Everything that is said about a file."""
    return "\n".join(map(shown, load(dedent(source), "a.yaml", "a").problems))


def shown(problem: Problem) -> str:
    place = problem.place
    assert place is not None
    pointed = place.source[place.column - 1 : place.column - 1 + place.length]
    return "\n".join(
        [
            f"{problem.severity}[{problem.code}] {place.line}:{place.column} {pointed}",
            f"  {problem.message}",
            f"  help: {problem.help}",
        ]
    )


def row(name: str, source: str, expected: str) -> Any:
    return pytest.param(source, dedent(expected).strip("\n"), id=name)
