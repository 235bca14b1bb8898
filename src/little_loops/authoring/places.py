"""Where the pieces of a machine stand in the author's file.

A compiled state is made of the author's own nodes, so a path into the machine (`states`, `check`,
`on_fail`) leads to a mark, and a mark to a place that can be shown.  Nothing is looked up before a
problem asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from little_loops.authoring.nodes import Entry, List, Map, Mark, Node, Text
from little_loops.errors import Place

Part = Literal["key", "value"]

ALIASES = {
    "condition": ("check_condition", "until"),
    "on_pass": ("on_met",),
    "on_fail": ("on_unmet",),
}
"""The other names under which a field may have been written; `fields` holds the same."""


class Source(NamedTuple):
    """A file and its lines, to make places of marks."""

    file: str
    lines: Sequence[str]

    def place(self, mark: Mark | None) -> Place | None:
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
        """The place of what the path leads to, or of the nearest thing around it that exists.

        The last name's key with `part="key"`, else its value.
        """
        found = self._find(path)
        wanted = found[-1]
        if len(found) <= len(path) or part == "key" or _is_nothing(wanted.value):
            wanted_mark = wanted.key.mark or wanted.value.mark
        else:
            wanted_mark = wanted.value.mark or wanted.key.mark
        return self.source.place(wanted_mark)

    def has(self, *path: str | int) -> bool:
        """Is there something at the path, or would `at` have to look around it?"""
        return len(self._find(path)) > len(path)

    def within(self, snippet: str, *path: str | int) -> Place | None:
        """The place of a piece of the text that the path leads to; of the whole if it is not there.

        Looked for in the file's own lines, where escapes and folding may have changed it.
        """
        found = self._find(path)
        mark = found[-1].value.mark
        if len(found) <= len(path) or mark is None or not snippet:
            return self.at(*path)
        last = mark.line if mark.end_line is None else mark.end_line
        for number in range(mark.line, min(last + 1, len(self.source.lines))):
            start = mark.column if number == mark.line else 0
            column = self.source.lines[number].find(snippet, start)
            if column >= 0:
                return self.source.place(Mark(number, column, column + len(snippet)))
        return self.at(*path)

    def _find(self, path: Sequence[str | int]) -> list[Entry]:
        """The entries along the path, as far as it goes; the document itself is the first."""
        document = self.root if self.root is not None else Map(())
        found = [Entry(Text("", "str", "", document.mark), document)]
        for name in path:
            entry = _child(found[-1].value, name)
            if entry is None:
                break
            found.append(entry)
        return found


def _child(node: Node, name: str | int) -> Entry | None:
    match node:
        case Map():
            by_name = {entry.key.text: entry for entry in reversed(node.entries)}
            names = (str(name), *ALIASES.get(str(name), ()))
            return next((by_name[each] for each in names if each in by_name), None)
        case List(items) if isinstance(name, int) and name < len(items):
            return Entry(Text("", "str", "", items[name].mark), items[name])
        case _:
            return None


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Text) and node.kind == "null" and not node.text
