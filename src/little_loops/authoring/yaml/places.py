"""Find the position in the author's file for a part of a machine.

A compiled state is made of the author's own nodes, so a path into the machine (`states`, `check`,
`on_fail`) leads to a mark, and a mark to a place that can be displayed. Nothing is looked up until
a problem needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Mark, Node, Text
from little_loops.errors import Place
from little_loops.light_typing import Literal
from little_loops.records import NamedTuple

Part = Literal["key", "value"]
_BLOCK = ("|", ">")

ALIASES = {
    "condition": ("check_condition", "until"),
    "on_pass": ("on_met",),
    "on_fail": ("on_unmet",),
}
"""The aliases of fields, the same as in `fields`."""
NAMED_BY_AUTHOR = frozenset({"branches", "events", "states"})
"""Fields that map names chosen by the author to mappings of fields."""
DATA_OF_AUTHOR = frozenset(
    {"context", "env", "exclude", "matrix", "ports", "result", "route", "with"}
)
"""Fields that hold the author's own data: nothing in them is a field."""


def spellings(above: Sequence[str | int], name: str | int) -> tuple[str | int, ...]:
    """Return the names that a step of a path may have in a file: a field also has its aliases, the
    author's own names do not. `above` is the path to the mapping it is in."""
    holder: str | int = ""
    for step in above:
        if holder in NAMED_BY_AUTHOR:
            holder = ""  # the step is the author's own name
        elif step in DATA_OF_AUTHOR:
            return (name,)
        else:
            holder = step
    return (name,) if holder in NAMED_BY_AUTHOR else (name, *ALIASES.get(str(name), ()))


class Source(NamedTuple):
    """A file and its lines, to convert marks to places."""

    file: str
    lines: Sequence[str]

    def place(self, mark: Mark | None) -> Place | None:
        """Return the place for a mark; None if there is none."""
        if mark is None:
            return None
        line = self.lines[mark.line] if mark.line < len(self.lines) else ""
        one_line = mark.end_line is None or mark.end_line == mark.line
        end = mark.end_column if one_line else len(line.rstrip())
        return Place(self.file, mark.line + 1, mark.column + 1, max(1, end - mark.column), line)


class Places(NamedTuple):
    """The places of a machine; `root` is the native document it was read from."""

    source: Source
    root: Node | None

    def at(self, *path: str | int, part: Part = "value") -> Place | None:
        """Return the place of the node at the path, or of the nearest existing node above it.

        With `part="key"`, the place of its key, else of its value.
        """
        found = self._find(path)
        wanted = found[-1]
        if len(found) <= len(path) or part == "key" or _is_nothing(wanted.value):
            wanted_mark = wanted.key.mark or wanted.value.mark
        else:
            wanted_mark = wanted.value.mark or wanted.key.mark
        return self.source.place(wanted_mark)

    def has(self, *path: str | int) -> bool:
        """Return whether there is a node at the path."""
        return len(self._find(path)) > len(path)

    def spots(self, snippet: str, *path: str | int) -> list[Mark]:
        """Return all positions of `snippet` in the file's lines of the text at the path.

        Some may be missing, because escapes and folding can change the text.
        """
        if not snippet or "\n" in snippet:
            return []
        return [
            Mark(number, column, column + len(snippet))
            for number, start, end in self.lines(*path)
            for column in occurrences(snippet, self.source.lines[number], start, end)
        ]

    def lines(self, *path: str | int) -> Iterator[tuple[int, int, int]]:
        """Yield the lines of the text at the path, each with its first and last column; none if
        there is no such text."""
        found = self._find(path)
        mark = found[-1].value.mark
        if len(found) <= len(path) or mark is None:
            return
        lines = self.source.lines
        last = mark.line if mark.end_line is None else mark.end_line
        # After the sign of a block, there can only be a comment.
        sign = lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
        for number in range(mark.line + (sign in _BLOCK), min(last + 1, len(lines))):
            start = mark.column if number == mark.line else 0
            yield number, start, mark.end_column if number == last else len(lines[number])

    def _find(self, path: Sequence[str | int]) -> list[MapEntry]:
        """Return the entries along the path, as far as it exists; the first is the document itself."""
        document = self.root if self.root is not None else Map(())
        found = [MapEntry(Text("", "str", "", document.mark), document)]
        for depth, name in enumerate(path):
            entry = _child(found[-1].value, spellings(path[:depth], name))
            if entry is None:
                break
            found.append(entry)
        return found


def occurrences(snippet: str, text: str, start: int = 0, end: int | None = None) -> list[int]:
    """Return all positions of `snippet` in a text."""
    found = []
    at = text.find(snippet, start, end)
    while at >= 0:
        found.append(at)
        at = text.find(snippet, at + 1, end)
    return found


def _child(node: Node, names: Sequence[str | int]) -> MapEntry | None:
    """Return the entry with the first of these names that exists, or the item with this index; None
    without one."""
    match node, names:
        case Map(), _:
            by_name = {entry.key.text: entry for entry in reversed(node.entries)}
            return next((by_name[str(each)] for each in names if str(each) in by_name), None)
        case List(items), [int() as index, *_] if index < len(items):
            return MapEntry(Text("", "str", "", items[index].mark), items[index])
        case _:
            return None


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Text) and node.kind == "null" and not node.text
