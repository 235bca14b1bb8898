"""Where the parts of a document are in its text, as offsets.

The nodes know where they begin, and scalars and flow collections where they end. A block ends where
its last part ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Mark, Node, Text
from little_loops.records import NamedTuple

_HEADER = re.compile(r"[|>][-+0-9]*")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class Unclear(Exception):
    """The text is laid out in a way that edits do not handle, such as `? key`."""


class Splice(NamedTuple):
    """A part of the text, from `start` to before `end`, and what replaces it."""

    start: int
    end: int
    text: str


class Layout:
    """A text with its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        first = _BREAK.search(text)
        self.newline = first[0] if first is not None else "\n"
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self._starts[min(line, len(self._starts) - 1)] + column

    def line_number(self, at: int) -> int:
        """Return the number of the line that contains an offset, from 1."""
        return bisect_right(self._starts, at)

    def line_start(self, at: int) -> int:
        """Return the start of the line that contains an offset."""
        return self._starts[bisect_right(self._starts, at) - 1]

    def line_end(self, at: int) -> int:
        """Return the end of the line that contains an offset, before its line break."""
        found = _BREAK.search(self.text, at)
        return found.start() if found is not None else len(self.text)

    def after_break(self, at: int) -> int:
        """Return the offset after the line break that begins here; the same at the end of the
        text."""
        found = _BREAK.match(self.text, at)
        return found.end() if found is not None else at

    def is_first(self, at: int) -> bool:
        """Return whether there is only indentation before this in its line."""
        return not self.text[self.line_start(at) : at].strip(" ")

    def is_blank(self, at: int) -> bool:
        """Return whether the line that begins here is blank, and not the end of the text."""
        return at < len(self.text) and not self.text[at : self.line_end(at)].strip()

    def start(self, node: Node) -> int:
        return self.at(*_mark(node)[:2])

    def column(self, node: Node) -> int:
        return _mark(node).column

    def is_flow(self, node: Node) -> bool:
        return not isinstance(node, Text) and self.text[self.start(node)] in "{["

    def is_block_text(self, node: Node) -> bool:
        return isinstance(node, Text) and node.quoted and self.text[self.start(node)] in "|>"

    def header_end(self, node: Node) -> int:
        """Return the end of the `|` or `>` of a block text, with its indicators."""
        found = _HEADER.match(self.text, self.start(node))
        assert found is not None, "only for block scalars"
        return found.end()

    def end(self, node: Node) -> int:
        """Return the end of a node: of a block, that of its last line that is not blank."""
        if self.is_block_text(node):
            return self._block_text_end(node)
        if isinstance(node, Text) or self.is_flow(node):
            mark = _mark(node)
            return self.at(mark.line if mark.end_line is None else mark.end_line, mark.end_column)
        last = node.entries[-1] if isinstance(node, Map) else node.items[-1]
        return self.end(last.value if isinstance(last, MapEntry) else last)

    def _block_text_end(self, node: Node) -> int:
        mark = _mark(node)
        assert mark.end_line is not None, "scalars have both ends"
        end = min(self.at(mark.end_line, mark.end_column), len(self.text))
        header = self.line_end(self.start(node))
        body = self.text[header:end]
        # Lines of blanks may be part of the text, but never its last ones.
        return header + len(body.rstrip()) + len(self._blanks(body))

    def _blanks(self, body: str) -> str:
        """Return the blanks after the last visible character, in the same line."""
        rest = body[len(body.rstrip()) :]
        return _BREAK.split(rest)[0] if body.strip() else ""

    def keeps_blank_lines(self, node: Node) -> bool:
        """Return whether the blank lines after a node are part of its value."""
        if self.is_block_text(node):
            return "+" in self.text[self.start(node) : self.header_end(node)]
        if isinstance(node, Text) or self.is_flow(node):
            return False
        last = node.entries[-1] if isinstance(node, Map) else node.items[-1]
        return self.keeps_blank_lines(last.value if isinstance(last, MapEntry) else last)

    def colon(self, key: Text) -> int:
        """Return the offset after the colon of a key; raise `Unclear` if it is not beside it."""
        at = self.end(key)
        while self.text[at : at + 1] in (" ", "\t"):
            at += 1
        if self.text[at : at + 1] != ":":
            raise Unclear
        return at + 1

    def dash(self, items: List, index: int) -> int:
        """Return the offset of the dash of an item in a block list."""
        line, column = _mark(items.items[index]).line, _mark(items).column
        # There may be comments between the dash and the item.
        while not self._is_dash(line, column, first=line == _mark(items).line):
            line -= 1
        return self.at(line, column)

    def _is_dash(self, line: int, column: int, *, first: bool) -> bool:
        at = self.at(line, column)
        return self.text[at : at + 1] == "-" and (first or self.is_first(at))


def _mark(node: Node) -> Mark:
    assert node.mark is not None, "nodes of a file have marks"
    return node.mark
