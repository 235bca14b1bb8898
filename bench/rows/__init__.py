"""The rows, one file for each group of them."""

from __future__ import annotations

from bench.model import Row, Setting
from bench.rows import startup, transition

GROUPS = (startup.rows, transition.rows)


def rows(setting: Setting) -> list[Row]:
    """All rows for one tool, with the files they need written into its place."""
    return [row for group in GROUPS for row in group(setting)]


def beside(row: Row, other: Row) -> Row:
    """The row with another tool's candidate measured in the same turns."""
    return row._replace(others=(*row.others, other.ours._replace(name="compared")))
