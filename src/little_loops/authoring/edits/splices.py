"""Write changes into the text of a document, as splices.

Everything outside of the splices stays as it is: comments, blank lines, order, quotes, line breaks.
New text follows the file's own indentation and line breaks; inside brackets and braces, it stays on
one line.

A value has a head, on the line of its key or dash, and a body below it, such as the lines of a block.
A comment after the head is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from little_loops.authoring.dump import LONGEST_FLOW, entry_lines, on_one_line, scalar
from little_loops.authoring.edits.changes import (
    Change,
    Drop,
    Put,
    RenameKey,
    RenameResult,
    results_of,
)
from little_loops.authoring.edits.layout import Layout, Splice, Unclear
from little_loops.authoring.edits.operations import Path
from little_loops.authoring.edits.plan import node_at
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Node, Text
from little_loops.light_typing import assert_never
from little_loops.records import NamedTuple

QUOTES = ("'", '"')


class _Written(NamedTuple):
    """A value as YAML: what stands after its key, and the lines below."""

    head: str
    body: Sequence[str]


def splices(root: Map, layout: Layout, changes: Iterable[Change]) -> list[Splice]:
    """Return the splices for some changes, in the order of the text. Raises `Unclear`."""
    found: list[Splice] = []
    dropped: dict[Path, list[str | int]] = {}
    for change in changes:
        match change:
            case Put():
                found += _put(root, layout, change)
            case RenameKey(path, to):
                found.append(_quoted_like(layout, _key(root, path), to))
            case RenameResult(path, old, to):
                found += _results(layout, node_at(root, path), old, to)
            case Drop(path):
                dropped.setdefault(path[:-1], []).append(path[-1])
            case _:
                assert_never(change)
    for above, keys in dropped.items():
        found += _drop(root, layout, above, keys)
    return _ended(layout, sorted(found, key=lambda each: each.start))


def _ended(layout: Layout, found: list[Splice]) -> list[Splice]:
    """Return the splices; new lines at the end of a file end in a line break, as blocks need one."""
    if found and found[-1].end == len(layout.text) and layout.newline in found[-1].text:
        last = found[-1]
        return [*found[:-1], last._replace(text=last.text + layout.newline)]
    return found


def spliced(text: str, found: Sequence[Splice]) -> str:
    """Return the text with its splices."""
    parts, done = [], 0
    for each in found:
        parts += [text[done : each.start], each.text]
        done = each.end
    return "".join([*parts, text[done:]])


def _key(root: Map, path: Path) -> Text:
    """Return the key of an entry."""
    holder = node_at(root, path[:-1])
    assert isinstance(holder, Map), "only an entry of a mapping has a key"
    return next(entry.key for entry in holder.entries if entry.key.text == path[-1])


# ── Setting a value ────────────────────────────────────────────────────────────────────────────


def _put(root: Map, layout: Layout, change: Put) -> list[Splice]:
    """Return the splices that set a value: replace it, or insert an entry or item."""
    holder, key = node_at(root, change.path[:-1]), change.path[-1]
    flow = any(layout.is_flow(each) for each in _above(root, change.path))
    if isinstance(holder, List):
        index = int(key)
        if index == len(holder.items):
            return [_appended(layout, holder, change, flow)]
        item = holder.items[index]
        after = layout.start(item) if flow else layout.dash(holder, index) + 1
        return _replaced(layout, item, change, flow, after, layout.column(holder))
    assert isinstance(holder, Map), "`plan` makes sure that something can hold the value"
    entry = next((each for each in holder.entries if each.key.text == key), None)
    if entry is None:
        return [_inserted(layout, holder, str(key), change, flow)]
    after = layout.colon(entry.key)
    return _replaced(layout, entry.value, change, flow, after, layout.column(holder))


def _above(root: Map, path: Path) -> list[Node]:
    """Return the mappings and lists that contain the value at a path."""
    found = [node_at(root, path[:depth]) for depth in range(len(path))]
    return [each for each in found if each is not None]


def _replaced(
    layout: Layout, old: Node, change: Put, flow: bool, after: int, indent: int
) -> list[Splice]:
    """Return the splices that replace a value. `flow`: it is inside `[…]` or `{…}`; `after` is the end
    of its colon or dash, `indent` the column of the mapping or list that contains it."""
    text = layout.text
    if isinstance(old, Text) and isinstance(change.value, str) and _keeps_quotes(layout, old):
        same = _quoted_like(layout, old, change.value)
        if "\n" not in change.value:
            return [same]
    start, end = layout.start(old), layout.end(old)
    if flow:
        return [Splice(start, end, _after(text, start, on_one_line(change.value)))]
    new = _write(change, indent, _step(layout, old, indent))
    head, body = _parts(layout, old, after)
    if not new.head and text[after : head.start].isspace():
        head = head._replace(start=after)
    lines = "".join(layout.newline + line for line in new.body)
    return [
        head._replace(text=_after(text, head.start, new.head)),
        body._replace(text=lines),
    ]


def _parts(layout: Layout, old: Node, after: int) -> tuple[Splice, Splice]:
    """Return the parts of the text that are a value's head and body."""
    start, end = layout.start(old), layout.end(old)
    if isinstance(old, Text) and start == end:  # nothing is there
        below = layout.line_end(after)
        return Splice(after, after, ""), Splice(below, below, "")
    if layout.is_block_text(old):
        header = layout.header_end(old)
        return Splice(start, header, ""), Splice(layout.line_end(header), end, "")
    below = layout.line_end(end)
    if isinstance(old, Text) or layout.is_flow(old):
        return Splice(start, end, ""), Splice(below, below, "")
    if layout.line_start(after) == layout.line_start(start):  # a mapping beside its dash
        return Splice(start, below, ""), Splice(below, below, "")
    return Splice(after, after, ""), Splice(layout.line_end(after), below, "")


def _after(text: str, at: int, new: str) -> str:
    """Return new text with the blank that it needs after a colon, dash or comma."""
    needs_blank = bool(new) and text[at - 1 : at] in (":", "-")
    return f" {new}" if needs_blank else new


def _step(layout: Layout, node: Node, indent: int) -> int:
    """Return by how much the file indents what is in a block."""
    inside = not isinstance(node, Text) and not layout.is_flow(node)
    step = layout.column(node) - indent if inside and isinstance(node, Map) else 2
    return step if step > 0 else 2


def _write(change: Put, indent: int, step: int, start: str = "") -> _Written:
    """Return a value as YAML: on one line if it is short, else with lines below."""
    value = change.value
    if isinstance(value, Mapping) and value and not change.block:
        line = on_one_line(value)
        if "\\n" not in line and indent + len(start) + len(line) + 1 <= LONGEST_FLOW:
            return _Written(line, ())
    first, *body = entry_lines(start, value, indent, step)
    return _Written(first[len(start) :].removeprefix(" "), body)


def _keeps_quotes(layout: Layout, old: Text) -> bool:
    return layout.text[layout.start(old) : layout.start(old) + 1] in QUOTES


def _quoted_like(layout: Layout, old: Text, new: str) -> Splice:
    """Return the splice that replaces a scalar by another text in the same quotes."""
    start, end = layout.start(old), layout.end(old)
    quote = layout.text[start]
    match quote:
        case "'" if new.isprintable():
            return Splice(start, end, "'" + new.replace("'", "''") + "'")
        case '"':
            plain = new.isprintable() and '"' not in new and "\\" not in new
            return Splice(start, end, f'"{new}"' if plain else scalar(new))
        case _:
            return Splice(start, end, scalar(new))


# ── Inserting ──────────────────────────────────────────────────────────────────────────────────


def _inserted(layout: Layout, holder: Map, key: str, change: Put, flow: bool) -> Splice:
    """Return the splice for a new entry of a mapping."""
    if flow or layout.is_flow(holder):
        ends = [_entry_end(layout, entry) for entry in holder.entries]
        return _in_braces(layout, holder, ends, f"{scalar(key)}: {on_one_line(change.value)}")
    names = [entry.key.text for entry in holder.entries]
    at = names.index(change.after) if change.after in names else len(names) - 1
    before = holder.entries[at]
    indent = layout.column(holder)
    start = f"{scalar(key)}:"
    new = _write(change, indent, _step(layout, before.value, indent), start)
    head = f"{start} {new.head}" if new.head else start
    lines = [f"{' ' * indent}{head}", *new.body]
    if _stands_apart(layout, holder, at):
        lines = ["", *lines]
    return _below(layout, before.value, layout.start(before.key), lines)


def _appended(layout: Layout, holder: List, change: Put, flow: bool) -> Splice:
    """Return the splice for a new item at the end of a list."""
    if flow or layout.is_flow(holder):
        ends = [layout.end(item) for item in holder.items]
        return _in_braces(layout, holder, ends, on_one_line(change.value))
    indent = layout.column(holder)
    new = _write(change, indent, 2, "-")
    lines = [f"{' ' * indent}- {new.head}".rstrip(), *new.body]
    last = len(holder.items) - 1
    return _below(layout, holder.items[last], layout.dash(holder, last), lines)


def _in_braces(layout: Layout, holder: Map | List, ends: Sequence[int], new: str) -> Splice:
    """Return the splice for a new last part of a flow collection."""
    if not ends:
        at = layout.start(holder) + 1
        return Splice(at, at, new)
    return Splice(ends[-1], ends[-1], f", {new}")


def _below(layout: Layout, before: Node, begins: int, lines: Sequence[str]) -> Splice:
    """Return the splice for lines after a block's part, or before it if blank lines belong to it."""
    if layout.keeps_blank_lines(before):
        at = layout.line_start(begins)
        if not layout.is_first(begins):
            raise Unclear
        return Splice(at, at, "".join(line + layout.newline for line in lines))
    at = layout.line_end(max(layout.end(before), begins))
    return Splice(at, at, "".join(layout.newline + line for line in lines))


def _stands_apart(layout: Layout, holder: Map, at: int) -> bool:
    """Return whether blank lines separate this entry of a mapping from the one before it; the first
    from the one after it."""
    if len(holder.entries) == 1:
        return False
    key = holder.entries[at or 1].key
    above = layout.text[: layout.line_start(layout.start(key))].splitlines()
    while above[-1].lstrip().startswith("#"):
        above.pop()
    return not above[-1].strip()


# ── Removing ───────────────────────────────────────────────────────────────────────────────────


def _drop(root: Map, layout: Layout, above: Path, keys: Sequence[str | int]) -> list[Splice]:
    """Return the splices that remove some entries or items of one collection."""
    holder = node_at(root, above)
    assert isinstance(holder, (Map, List)), "`plan` only removes what is there"
    parts = holder.entries if isinstance(holder, Map) else holder.items
    gone = [
        index
        for index, part in enumerate(parts)
        if (part.key.text if isinstance(part, MapEntry) else index) in keys
    ]
    if len(gone) == len(parts):
        return _emptied(root, layout, above, holder)
    spans = [_span(layout, holder, index) for index in range(len(parts))]
    if layout.is_flow(holder):
        return [_without(layout, spans, run) for run in _runs(gone)]
    return [_lines(layout, spans, index, _keeps_blanks(layout, parts, index)) for index in gone]


def _keeps_blanks(layout: Layout, parts: Sequence[MapEntry | Node], index: int) -> bool:
    """Return whether blank lines would become part of the text before this entry or item."""
    before = parts[index - 1] if index else None
    node = before.value if isinstance(before, MapEntry) else before
    return node is not None and layout.keeps_blank_lines(node)


def _emptied(root: Map, layout: Layout, above: Path, holder: Map | List) -> list[Splice]:
    """Return the splices that leave an empty collection."""
    if not above:
        raise Unclear
    return _put(root, layout, Put(above, {} if isinstance(holder, Map) else []))


def _span(layout: Layout, holder: Map | List, index: int) -> tuple[int, int]:
    """Return where an entry or item begins, with its key or dash, and where it ends."""
    if isinstance(holder, Map):
        entry = holder.entries[index]
        if not layout.is_flow(holder):
            layout.colon(entry.key)  # raises `Unclear` for `? key`
        return layout.start(entry.key), _entry_end(layout, entry)
    item = holder.items[index]
    begins = layout.start(item) if layout.is_flow(holder) else layout.dash(holder, index)
    return begins, layout.end(item)


def _entry_end(layout: Layout, entry: MapEntry) -> int:
    return max(layout.end(entry.key), layout.end(entry.value))


def _runs(indices: Sequence[int]) -> list[list[int]]:
    """Return the indices in groups of neighbours."""
    groups = groupby(enumerate(indices), lambda pair: pair[1] - pair[0])
    return [[index for _, index in group] for _, group in groups]


def _without(layout: Layout, spans: Sequence[tuple[int, int]], run: Sequence[int]) -> Splice:
    """Return the splice that removes neighbouring parts of a flow collection, with a comma."""
    first, last = run[0], run[-1]
    if last + 1 < len(spans):
        return Splice(spans[first][0], spans[last + 1][0], "")
    before, end = spans[first - 1][1], spans[last][1]
    if "#" in layout.text[before : spans[first][0]]:  # a comment on what stays
        return Splice(spans[first][0], end, "")
    return Splice(before, end, "")


def _lines(layout: Layout, spans: Sequence[tuple[int, int]], index: int, blanks: bool) -> Splice:
    """Return the splice that removes the lines of an entry or item of a block, and those blank
    lines after them if `blanks`."""
    begins, ends = spans[index]
    if not layout.is_first(begins):  # it stands beside the dash of an item
        return Splice(begins, spans[index + 1][0], "")
    start, end = layout.line_start(begins), layout.line_end(ends)
    after = layout.after_break(end)
    if after == end and start:  # the last line of a file without a line break at its end
        return Splice(layout.line_end(_line_above(layout, start)), end, "")
    while blanks and layout.is_blank(after):
        after = layout.after_break(layout.line_end(after))
    return Splice(start, after, "")


def _line_above(layout: Layout, start: int) -> int:
    return layout.line_start(start - 1)


# ── Renaming in templates ──────────────────────────────────────────────────────────────────────


def _results(layout: Layout, node: Node | None, old: str, to: str) -> list[Splice]:
    """Return a splice for each reference to a result in a text."""
    assert isinstance(node, Text), "`plan` only renames inside strings"
    start, end = layout.start(node), layout.end(node)
    found = results_of(old).finditer(layout.text, start, end)
    return [Splice(*each.span(1), to) for each in found if each[1] is not None]
