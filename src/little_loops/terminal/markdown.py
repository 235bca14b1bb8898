"""Write foreign text into Markdown so that it stays text.

Everything that is not our own, such as output, names and paths, becomes a code span or a code
block, whose fence is longer than any in the text. So it cannot become markup, a link, a mention or
HTML.

Not here: what is written (`markdown_report`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from little_loops.reporting.escape import visible

MAX_SPAN = 300
"""The maximum number of characters in a code span."""


def code(text: str) -> str:
    """Return a text as a code span on one line; a long one is cut."""
    text = visible(text, newlines=False).replace("\t", " ").strip()
    if len(text) > MAX_SPAN:
        text = text[: MAX_SPAN - 1] + "…"
    fence = "`" * (_longest_run(text) + 1)
    # A space on both sides is not part of the code, and keeps backticks apart.
    room = " " if text[:1] == "`" or text[-1:] == "`" or not text else ""
    return f"{fence}{room}{text}{room}{fence}" if text else "—"


def block(text: str) -> str:
    """Return a text as a code block."""
    text = visible(text).strip("\n")
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar in a cell does not end it."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for run in re.findall("`+", text)), default=0)
