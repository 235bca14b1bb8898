"""Paradigm `convergence`: drive a number toward a target, and stop where it no longer moves.

`measure` takes the number, `apply` tries to better it, and back.  The command and the numbers
stand in the loop's context, where `--context target=5` can change them for one run.
"""

from __future__ import annotations

from little_loops.authoring.paradigms.assembly import (
    Piece,
    document,
    finish,
    flag,
    own_fields,
    step,
    with_field,
)
from little_loops.authoring.yaml.nodes import Entry, Map, Node, Text, mapping, text

GIVEN_BY = {"metric_cmd": "check", "target": "toward", "tolerance": "tolerance"}
"""The variables this paradigm makes, each with the field it takes it from."""
KEYS = ("check", "toward", "using", "tolerance", "patience", "direction", "context")


def expand(root: Map, stem: str) -> Map:
    """The native document that `root` stands for."""
    pieces = [
        _measure(root),
        step("apply", root.get("using"), next="measure"),
        finish("done", root.get("toward")),
    ]
    native = document(root, KEYS, pieces, stem)
    context = Entry(text("context", root), _context(root))
    return native._replace(entries=(*native.entries, context))


def _measure(root: Map) -> Piece:
    check = root.get("check")
    transitions = {"on_target": "done", "on_progress": "apply", "on_stall": "done"}
    measure = step("measure", _referring(root, own_fields(check)), **transitions)
    measure = with_field(measure, "capture", text("current_value", check))
    return flag(measure, "check")._replace(near=check)


def _referring(root: Map, check: Map) -> Map:
    """The check with its command left to the context, and its condition completed."""
    action = check.get("action")
    more = tuple(entry for entry in root.entries if entry.key.text in ("patience", "direction"))
    others = [_completed(entry, more) for entry in check.entries if entry.key.text != "action"]
    if more and not any(entry.key.text == "condition" for entry in others):
        others.append(_implied(root, more))
    refers = Entry(text("action", action), text("${context.metric_cmd}", action))
    return Map((refers, *others), check.mark)


def _completed(entry: Entry, more: tuple[Entry, ...]) -> Entry:
    """The author's own condition with `patience` and `direction`.

    One of another type does not know these keys; the reader says so at their place.
    """
    if entry.key.text != "condition" or not isinstance(entry.value, Map):
        return entry
    return entry._replace(value=entry.value._replace(entries=(*entry.value.entries, *more)))


def _implied(root: Map, more: tuple[Entry, ...]) -> Entry:
    """The condition that `on_target` implies, with what was written besides."""
    near, toward = more[0].value, root.get("toward")
    fields: dict[str, Node] = {
        "type": text("convergence", near),
        "target": text("${context.target}", toward),
        "tolerance": text("${context.tolerance}", root.get("tolerance") or toward),
    }
    implied = mapping(fields, near)
    return Entry(text("condition", near), Map((*implied.entries, *more), near.mark))


def _context(root: Map) -> Map:
    """The paradigm's three values, then the author's own; a name given twice is the reader's."""
    toward, tolerance = root.get("toward"), root.get("tolerance")
    check = root.get("check")
    own: dict[str, Node | None] = {
        "metric_cmd": own_fields(check).get("action") or _unread(check),
        "target": toward,
        "tolerance": tolerance if tolerance is not None else _zero(toward),
    }
    made = tuple(Entry(text(key, node), node) for key, node in own.items() if node is not None)
    written = root.get("context")
    theirs = written.entries if isinstance(written, Map) else ()
    return Map((*made, *theirs), root.mark)


def _unread(near: Node | None) -> Text:
    """A command that is not there; the reader has said so."""
    return Text("", "broken", None, near.mark if near is not None else None)


def _zero(near: Node | None) -> Text:
    return Text("0", "int", 0, near.mark if near is not None else None)
