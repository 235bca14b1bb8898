"""Paradigm `imperative`: run these steps in order, until a condition passes.

The condition judges one of the steps (`source`, by default the first). That step is judged later,
so its own failure does not stop the iteration (`capture_exit`).
"""

from __future__ import annotations

import re

from little_loops.authoring.fields.kinds import STATE_NAME
from little_loops.authoring.paradigms.assembly import Piece, chain, document, finish, flag, items
from little_loops.authoring.yaml.nodes import Map, MapEntry, Node, Text, mapping, text

KEYS = ("steps", "condition")


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this paradigm into the native form."""
    commands = items(root.get("steps"))
    names = [_name(command, number) for number, command in enumerate(commands)]
    steps = chain(names, [_unnamed(command) for command in commands], "evaluate")
    written = root.get("condition")
    source = written.get("source") if isinstance(written, Map) else None
    judged = _judged_step(steps, source)
    pieces = [_judged_later(each) if each is judged else each for each in steps]
    first = names[0] if names else "evaluate"
    pieces += [_evaluate(written, source, first), finish("done", written)]
    return document(root, KEYS, pieces, stem)


def _judged_later(step: Piece) -> Piece:
    """Return the step with the fields that leave judging it to `evaluate`; the ending of a loop is
    judged there anyway."""
    if "loop" in step.fields:
        return step
    return flag(flag(step, "capture_exit"), "check")


def _name(command: Node, number: int) -> str:
    """Return the name of a step's state; an invalid one is reported where it is written."""
    own = command.get("name") if isinstance(command, Map) else None
    is_named = isinstance(own, Text) and re.fullmatch(STATE_NAME, own.text)
    return own.text if isinstance(own, Text) and is_named else f"step_{number}"


def _unnamed(command: Node) -> Node:
    """Return the step without its name, which becomes the state's."""
    if not isinstance(command, Map):
        return command
    kept = tuple(entry for entry in command.entries if entry.key.text != "name")
    return command._replace(entries=kept)


def _evaluate(written: Node | None, source: Node | None, first: str) -> Piece:
    """Return the state with the condition, which judges the first step by default."""
    condition = written
    if isinstance(written, Map) and source is None:
        default = MapEntry(text("source", written), text(first, written))
        condition = written._replace(entries=(*written.entries, default))
    fields: list[tuple[str, Node]] = [("condition", condition)] if condition is not None else []
    fields += [("on_pass", text("done", written)), ("on_fail", text(first, written))]
    return Piece("evaluate", mapping(fields, written), written)


def _judged_step(steps: list[Piece], source: Node | None) -> Piece | None:
    """Return the step whose result the condition judges; None if it is not one of these."""
    if source is None:
        return steps[0] if steps else None
    if not isinstance(source, Text):
        return None
    looked_at = source.text
    if "${prev." in looked_at:
        return steps[-1] if steps else None
    for each in steps:
        names = [each.name, *_capture(each)]
        if any(looked_at == name or f"${{captured.{name}." in looked_at for name in names):
            return each
    return None


def _capture(piece: Piece) -> list[str]:
    capture = piece.fields.get("capture")
    return [capture.text] if isinstance(capture, Text) else []
