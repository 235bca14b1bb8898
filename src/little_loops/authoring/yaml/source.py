"""Parse YAML text into nodes that know their positions.

The parser's events become nodes one by one, so the limits on bytes, nodes and levels apply before
anything is built. Everything beyond plain data (tags, anchors, aliases, merge keys, several
documents) is rejected here with its place, and the rest of the file is still read.

Not here: the parser itself (`pyyaml`), what a plain scalar means (`scalars`), explaining the parser's
errors (`syntax`), what keys are for (`fields`).
"""

from __future__ import annotations

from itertools import repeat
from operator import itemgetter

from little_loops.authoring.messages import shown
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Mark, Node, Text
from little_loops.authoring.yaml.places import Source
from little_loops.authoring.yaml.pyyaml import (
    FASTEST,
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    YAMLError,
)
from little_loops.authoring.yaml.scalars import WORDS, other_than_words
from little_loops.errors import Problem
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

MOST_BYTES = 1 << 20
MOST_NODES = 50_000
MOST_LEVELS = 50
_PLAIN_BYTES = b"\t\n\r" + bytes(range(32, 127))
_BROKEN = Text("", "broken", None)
_TEXT_ONLY = {Text}
_QUOTE = "if you mean text, quote it"
_text_of = itemgetter(0)
_new = tuple.__new__  # twice as fast as a NamedTuple's constructor


class Document(NamedTuple):
    """The content of a file, or None if it cannot be read; its problems; its lines."""

    root: Node | None
    problems: tuple[Problem, ...]
    source: Source


def parse(text: str | bytes, file: str, parser: Any = FASTEST) -> Document:
    """Parse a YAML text; problems are returned, never raised."""
    decoded = _decoded(text, file)
    if isinstance(decoded, Problem):
        return Document(None, (decoded,), Source(file, ()))
    decoded = decoded.removeprefix("\ufeff")
    source = Source(file, decoded.splitlines())
    refused = _unreadable(decoded, source)
    if refused is not None:
        return Document(None, (refused,), source)
    tree = _Tree(source)
    try:
        root = tree.build(parser(decoded))
    except YAMLError as error:
        from little_loops.authoring.yaml.syntax import explain  # only for broken files

        tree.problems.append(explain(error, source))
        root = None
    except _Refused:
        root = None
    return Document(root, tuple(tree.problems), source)


def _decoded(text: str | bytes, file: str) -> str | Problem:
    """Decode a text; return a problem if it is too large or not UTF-8."""
    size = len(text) if isinstance(text, bytes) else len(text.encode(errors="replace"))
    if size > MOST_BYTES:
        return Problem(
            "LL001",
            f"`{shown(file)}` is larger than 1 MiB",
            help="move data to files that actions read",
        )
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        good = text[: error.start].decode()
        line = good.count("\n")
        rest = text[error.start :].split(b"\n", 1)[0].decode(errors="replace")
        before = good.rpartition("\n")[2]
        source = Source(file, [*[""] * line, before + rest])
        mark = Mark(line, len(before), len(before) + 1)
        return Problem(
            "LL002",
            f"the file is not UTF-8: byte 0x{text[error.start]:02x} is not allowed here",
            source.place(mark),
            "save the file as UTF-8",
        )


def _unreadable(text: str, source: Source) -> Problem | None:
    """Return a problem for the first character that YAML does not allow; None if there is none."""
    if text.isascii() and not text.encode().translate(None, _PLAIN_BYTES):
        return None
    bad = [char for char in set(text) if not _allowed(char)]
    if not bad:
        return None
    first = min(bad, key=text.index)
    lines = (text[: text.index(first)] + "x").splitlines()
    line, column = len(lines) - 1, len(lines[-1]) - 1
    return Problem(
        "LL003",
        f"the character U+{ord(first):04X} is not allowed in YAML",
        source.place(Mark(line, column, column + 1)),
        'remove it, or write it as an escape in double quotes, such as "\\x1b"',
    )


def _allowed(char: str) -> bool:
    """Return whether YAML allows a character."""
    number = ord(char)
    if number < 0xA0:
        return 32 <= number < 127 or char in "\t\n\r\x85"
    return not (0xD800 <= number < 0xE000) and char not in "\ufeff\ufffe\uffff"


class _Refused(Exception):
    """The rest of the file is not read; the problem has been reported."""


_Opened = tuple[list[Node], bool, Any, Any]
"""An open mapping or list: its nodes, whether it is a mapping, where it starts, and its style."""


class _Tree:
    """Builds nodes from the parser's events."""

    def __init__(self, source: Source) -> None:
        """Start with an empty document; nodes are added to the list in `nodes`."""
        self.source = source
        self.problems: list[Problem] = []
        self.top: list[Node] = []
        self.nodes = self.top
        self.opened: list[_Opened] = []
        self.ended: list[Node] = []  # receives nodes after the end of the document

    def build(self, parser: Any) -> Node | None:
        """Return the root of the first document; None for an empty file. Raises `YAMLError`, or
        `_Refused` if it is too large or too deep.

        Most events are scalars, which are handled inline, because calls are expensive.
        """
        count = 0
        nodes = self.nodes
        next_event = parser.get_event
        while True:
            event: Any = next_event()
            if type(event) is ScalarEvent:
                start: Any = event.start_mark
                end: Any = event.end_mark
                text = event.value
                mark = _new(Mark, (start.line, start.column, end.column, end.line))
                if event.style:
                    nodes.append(_new(Text, (text, "str", text, mark, True)))
                else:
                    kind, value = WORDS.get(text) or other_than_words(text)
                    nodes.append(_new(Text, (text, kind, value, mark, False)))
                if event.tag is not None or event.anchor is not None:
                    self.report_decoration(event)
                    if event.tag is not None:  # its value is not known
                        nodes[-1] = _BROKEN._replace(mark=mark)
                count += 1
            else:
                count += self.structure(event)
                if self.nodes is self.ended:
                    return self.top[0] if self.top else None
                nodes = self.nodes
            if count > MOST_NODES:
                self.too_many(event)

    def structure(self, event: Any) -> int:
        """Handle an event that is not a scalar. Return the number of nodes it adds."""
        match event:
            case MappingEndEvent() | SequenceEndEvent():
                node = self.close(event.end_mark)
                self.nodes = self.opened[-1][0] if self.opened else self.top
                self.nodes.append(node)
                return 0
            case MappingStartEvent() | SequenceStartEvent():
                self.open(event)
            case AliasEvent():
                self.nodes.append(self.alias(event))
            case DocumentStartEvent():
                self.begin(event)
                return 0
            case StreamEndEvent():
                self.nodes = self.ended
                return 0
            case _:
                return 0
        return 1

    def open(self, event: Any) -> None:
        """Start a mapping or list. Raises `_Refused` if there are too many levels."""
        start = event.start_mark
        if len(self.opened) >= MOST_LEVELS:
            mark = Mark(start.line, start.column, start.column + 1)
            self.refuse("LL006", f"more than {MOST_LEVELS} levels deep", mark, "flatten it")
        if event.tag is not None or event.anchor is not None:
            self.report_decoration(event)
        self.nodes = []
        self.opened.append((self.nodes, type(event) is MappingStartEvent, start, event.flow_style))

    def close(self, end: Any) -> Node:
        """Finish a mapping or list and return it."""
        nodes, is_map, start, flow = self.opened.pop()
        if flow:
            mark = Mark(start.line, start.column, end.column, end.line)
        else:
            # A block has no end on its first line, so its first node is displayed.
            first = nodes[0].mark if nodes else None
            last = first.end_column if first and first.end_line == start.line else 0
            mark = Mark(start.line, start.column, max(last, start.column + 1), start.line)
        if not is_map:
            return List(tuple(nodes), mark)
        keys, values = nodes[::2], nodes[1::2]
        names = set(map(_text_of, keys))
        if len(names) == len(keys) and "<<" not in names and set(map(type, keys)) <= _TEXT_ONLY:
            return Map(tuple(map(_new, repeat(MapEntry), zip(keys, values, strict=True))), mark)
        return Map(tuple(self.valid_entries(keys, values)), mark)

    def valid_entries(self, keys: list[Node], values: list[Node]) -> list[MapEntry]:
        """Return the entries of a mapping with invalid or duplicate keys, and report those.

        An entry whose key is invalid becomes a gap: a broken key.
        """
        kept: dict[str, MapEntry] = {}
        lost: list[MapEntry] = []
        for key, value in zip(keys, values, strict=True):
            if not isinstance(key, Text):
                self.report(
                    "LL011", "a key must be a string, not a list or a mapping", key.mark, _QUOTE
                )
                lost.append(MapEntry(_BROKEN._replace(mark=key.mark), _BROKEN))
            elif key.text == "<<" and not key.quoted:
                self.report(
                    "LL010",
                    "merge keys (`<<`) are not allowed",
                    key.mark,
                    "write out the keys where they are used",
                )
                lost.append(MapEntry(_BROKEN._replace(mark=key.mark), _BROKEN))
            elif key.kind != "broken" and key.text in kept:
                first = kept[key.text].key.mark
                where = f"line {first.line + 1}, column {first.column + 1}" if first else "above"
                self.report(
                    "LL012",
                    f"the key `{shown(key.text)}` is given twice",
                    key.mark,
                    f"the first one is on {where}; keep one of them",
                )
            elif key.kind != "broken":
                kept[key.text] = MapEntry(key, value)
            else:
                lost.append(MapEntry(key, _BROKEN))
        return [*kept.values(), *lost]

    def alias(self, event: Any) -> Text:
        """Report an alias, and return a broken node."""
        mark = _mark(event)
        self.report(
            "LL008",
            f"aliases are not allowed: `*{shown(event.anchor)}`",
            mark,
            f'write out the value; if you meant it as text, quote it: "*{shown(event.anchor)}"',
        )
        return _BROKEN._replace(mark=mark)

    def report_decoration(self, event: Any) -> None:
        """Report an anchor or a tag in front of a node."""
        mark = self._first_word(event)
        word = shown(self.source.lines[mark.line][mark.column : mark.end_column])
        code, what = ("LL009", "tags") if event.anchor is None else ("LL008", "anchors")
        self.report(
            code,
            f"{what} are not allowed: `{word}`",
            mark,
            "remove it, or quote the whole text",
        )

    def begin(self, event: Any) -> None:
        """Start a document; report a second one, and directives such as `%TAG`."""
        if self.top:
            self.report(
                "LL007",
                "a second document begins here; a loop file can have only one",
                _mark(event),
                "put each loop in its own file",
            )
            self.nodes = self.ended
        elif event.tags:
            self.report(
                "LL009", "tags are not allowed: `%TAG`", self._first_word(event), "remove it"
            )

    def too_many(self, event: Any) -> None:
        """Report that the file has too many nodes, and stop reading."""
        message = f"more than {MOST_NODES:,} nodes (keys, values, items) in one file"
        self.refuse("LL005", message, _mark(event), "move data to files that actions read")

    def report(self, code: str, message: str, mark: Mark | None, help: str | None = None) -> None:
        self.problems.append(Problem(code, message, self.source.place(mark), help))

    def refuse(self, code: str, message: str, mark: Mark, help: str) -> None:
        """Report a problem and stop reading."""
        self.report(code, message, mark, help)
        raise _Refused

    def _first_word(self, event: Any) -> Mark:
        """Return the position of the word at the start of an event."""
        start = event.start_mark
        line = self.source.lines[start.line]
        words = line[start.column :].split(None, 1)
        return Mark(start.line, start.column, start.column + len(words[0] if words else ""))


def _mark(event: Any) -> Mark:
    start, end = event.start_mark, event.end_mark
    return Mark(start.line, start.column, end.column, end.line)
