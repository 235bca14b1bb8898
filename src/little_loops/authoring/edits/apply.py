"""Carry out an operation on the text of a loop file.

The operation becomes changes (`plan`), and these become splices (`splices`). The new text is then
parsed and compared with what the changes mean for the data: an edit that would change anything else
is refused, so a file is edited correctly or not at all.
"""

from __future__ import annotations

from little_loops.authoring.edits.changes import changed
from little_loops.authoring.edits.layout import Layout, Splice, Unclear
from little_loops.authoring.edits.operations import Operation
from little_loops.authoring.edits.plan import Refused, plan
from little_loops.authoring.edits.splices import spliced, splices
from little_loops.authoring.yaml.nodes import Map, plain
from little_loops.authoring.yaml.source import parse
from little_loops.records import NamedTuple

_BOM = "\ufeff"
_IN_THE_TEXT = "edit the text instead"


class Edited(NamedTuple):
    """The new text, and the parts of the old text that were replaced, as offsets of characters."""

    text: str
    splices: tuple[Splice, ...]


def apply(text: str, operation: Operation) -> Edited:
    """Return the text after an operation. Raises `Refused` if it does not fit the file, if the file
    is not plain YAML, or if its layout leaves no place for the edit."""
    document = parse(text, "")
    if document.problems:
        first = document.problems[0]
        line = f"line {first.place.line}: " if first.place is not None else ""
        raise Refused(f"{line}{first.message}", "fix this in the text first")
    root = document.root
    if not isinstance(root, Map):
        raise Refused("the file is not a mapping of fields", _IN_THE_TEXT)
    changes = plan(root, operation)
    bare = text.removeprefix(_BOM)
    try:
        found = splices(root, Layout(bare), changes)
    except Unclear:
        raise Refused("this part of the file has an unusual layout", _IN_THE_TEXT) from None
    new = spliced(bare, found)
    again = parse(new, "")
    wanted = changed(plain(root), changes)
    if again.problems or again.root is None or plain(again.root) != wanted:
        raise Refused("this edit would change more than it should", _IN_THE_TEXT)
    shift = len(text) - len(bare)
    moved = (each._replace(start=each.start + shift, end=each.end + shift) for each in found)
    return Edited(text[:shift] + new, tuple(moved))
