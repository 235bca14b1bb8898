"""Markdown for generated pages: tables, code and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from little_loops.reporting.escape import visible


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_row(head), "|" + "---|" * len(head)]
    return [*lines, *(_row(each) for each in rows), ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(each.split()).replace("|", "\\|") for each in cells) + " |"


def code(text: str) -> str:
    """Text as inline code, also if it contains backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(text: str, language: str) -> list[str]:
    shown = visible(text.rstrip("\n"), newlines=True).splitlines()
    return [f"```{language}", *shown, "```", ""]


def sentence(text: str) -> str:
    """A help text as a sentence; a name at its start keeps its case."""
    text = text.strip()
    first = text.split(maxsplit=1)[0].rstrip(":,;")
    shown = text if set("/._<`").intersection(first) else text[:1].upper() + text[1:]
    return shown + ("" if text.endswith((".", "?", "!", ":")) else ".")
