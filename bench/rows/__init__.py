"""The rows, one file for each group of them."""

from __future__ import annotations

from bench.model import Gauge, Question, Row, Setting
from bench.rows import (
    branches,
    evidence,
    fleet,
    growth,
    idle,
    output,
    page,
    page_browser,
    resuming,
    scripted,
    seen,
    startup,
    transition,
    trees,
)

GROUPS = (
    *(startup.rows, seen.rows, transition.rows, output.rows),
    *(
        growth.rows,
        resuming.rows,
        idle.rows,
        trees.rows,
        evidence.rows,
        scripted.rows,
        branches.rows,
        page.rows,
        page_browser.rows,
        fleet.rows,
    ),
)


def rows(setting: Setting) -> list[Question]:
    """All rows for one tool in the order of their numbers; small files are written, nothing runs."""
    found = [row for group in GROUPS for row in group(setting)]
    return sorted(found, key=lambda row: row.number)


def beside(row: Question, other: Question) -> Question:
    """The row with another tool's candidate measured in the same turns."""
    if not row.comparable:
        return row
    match row, other:
        case Row(), Row():
            return row._replace(others=(*row.others, other.ours._replace(name="compared")))
        case Gauge(), Gauge():
            return row._replace(others=(*row.others, other.ours._replace(name="compared")))
        case _:
            raise AssertionError("the same rows are built for every tool")
