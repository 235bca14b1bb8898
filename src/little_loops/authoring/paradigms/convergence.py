"""Paradigm `convergence`: drive a number towards a target, and stop when it no longer moves.

`measure` gets the number, `apply` tries to improve it, and so on. The command and the numbers are
in the loop's context, where `--context target=5` can override them for one run.
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
from little_loops.authoring.yaml.nodes import Map, MapEntry, Node, Text, mapping, text

GIVEN_BY = {"metric_cmd": "check", "target": "toward", "tolerance": "tolerance"}
"""The variables that this paradigm sets, and the field that each comes from."""
JUDGED_BY = ("patience", "direction", "keep", "min_gain")
"""The fields that belong to the condition."""
KEYS = ("check", "toward", "using", "tolerance", *JUDGED_BY, "context")


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this paradigm into the native form."""
    pieces = [
        _measure(root),
        step("apply", root.get("using"), next="measure"),
        finish("done", root.get("toward")),
    ]
    native = document(root, KEYS, pieces, stem)
    context = MapEntry(text("context", root), _context(root))
    return native._replace(entries=(*native.entries, context))


def _measure(root: Map) -> Piece:
    """Return the state that runs the check."""
    check = root.get("check")
    transitions = {"on_target": "done", "on_progress": "apply", "on_stall": "done"}
    measure = step("measure", _check_fields(root, own_fields(check)), **transitions)
    measure = with_field(measure, "capture", text("current_value", check))
    return flag(measure, "check")._replace(near=check)


def _check_fields(root: Map, check: Map) -> Map:
    """Return the check's fields with `${context.metric_cmd}` as action, and a complete condition."""
    action = check.get("action")
    more = tuple(entry for entry in root.entries if entry.key.text in JUDGED_BY)
    others = [_with_entries(entry, more) for entry in check.entries if entry.key.text != "action"]
    if more and not any(entry.key.text == "condition" for entry in others):
        others.append(_implied(root, more))
    refers = MapEntry(text("action", action), text("${context.metric_cmd}", action))
    return Map((refers, *others), check.mark)


def _with_entries(entry: MapEntry, more: tuple[MapEntry, ...]) -> MapEntry:
    """Return the author's own condition with the paradigm's fields for it added.

    If its type does not have these keys, the reader reports them at their place.
    """
    if entry.key.text != "condition" or not isinstance(entry.value, Map):
        return entry
    return entry._replace(value=entry.value._replace(entries=(*entry.value.entries, *more)))


def _implied(root: Map, more: tuple[MapEntry, ...]) -> MapEntry:
    """Return the condition that `on_target` implies, with the paradigm's fields for it."""
    near, toward = more[0].value, root.get("toward")
    fields: dict[str, Node] = {
        "type": text("convergence", near),
        "target": text("${context.target}", toward),
        "tolerance": text("${context.tolerance}", root.get("tolerance") or toward),
    }
    implied = mapping(fields, near)
    return MapEntry(text("condition", near), Map((*implied.entries, *more), near.mark))


def _context(root: Map) -> Map:
    """Return the paradigm's three variables and the author's own; the reader reports duplicates."""
    toward, tolerance = root.get("toward"), root.get("tolerance")
    check = root.get("check")
    own: dict[str, Node | None] = {
        "metric_cmd": own_fields(check).get("action") or _missing_command(check),
        "target": toward,
        "tolerance": tolerance if tolerance is not None else _zero(toward),
    }
    made = tuple(MapEntry(text(key, node), node) for key, node in own.items() if node is not None)
    written = root.get("context")
    theirs = written.entries if isinstance(written, Map) else ()
    return Map((*made, *theirs), root.mark)


def _missing_command(near: Node | None) -> Text:
    """Return a placeholder for a missing command, which the reader has reported."""
    return Text("", "broken", None, near.mark if near is not None else None)


def _zero(near: Node | None) -> Text:
    return Text("0", "int", 0, near.mark if near is not None else None)
