"""The short form of a goal: `check` and `fix`, without `paradigm` or `states`.

The checks run in order (`evaluate`, `evaluate_2`, …).  The first that fails leads to `fix`, after
which all of them run again, so `${prev.*}` in a fix is the result of the failed check.

A shell check without a `condition` fails on every exit code from 1 to 125: `make` exits with 2 and
`cargo` with 101, and the loop must fix what they report instead of ending with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from little_loops.authoring.paradigms.assembly import (
    Piece,
    chain,
    document,
    finish,
    flag,
    items,
    step,
    with_field,
)
from little_loops.authoring.paradigms.goal import derived_name
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Node, Text, mapping, text
from little_loops.fsm.actions import is_shells, parse_action
from little_loops.fsm.schema import JUDGE, ActionType

KEYS = ("goal", "check", "fix")
FAILURES = "1-125"


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this form into the native form."""
    checks, fixes = items(root.get("check")), items(root.get("fix"))
    fix_names = list(_names("fix", fixes))
    check_names = list(_names("evaluate", checks))
    first = [*check_names, "done"][0]
    pieces = [
        _check(name, command, on_pass=after, on_fail=[*fix_names, first][0])
        for (name, after), command in zip(pairwise([*check_names, "done"]), checks, strict=True)
    ]
    pieces += [*chain(fix_names, fixes, first), finish("done", root.get("check"))]
    named = root._replace(entries=(*root.entries, _paradigm(root)))
    return document(named, KEYS, pieces, derived_name(root.get("goal")) or stem)


def _names(stem: str, commands: Sequence[Node]) -> Iterator[str]:
    return (stem if number == 1 else f"{stem}_{number}" for number in range(1, len(commands) + 1))


def _check(name: str, command: Node, **transitions: str) -> Piece:
    """Return the state for a check; a shell check fails on exit codes 1 to 125 by default."""
    piece = flag(step(name, command, **transitions), "check")
    if not _is_shell(piece.fields):
        return piece
    condition = {"type": text("exit_code", command), "fail": text(FAILURES, command)}
    default = mapping(condition, command)
    return with_field(_with_judge(piece, default), "condition", default)


def _with_judge(piece: Piece, default: Map) -> Piece:
    """Return the piece with its judge, if that is its only condition, after the default one."""
    entries = tuple(
        entry._replace(value=_both(default, entry.value)) if _is_judge(entry) else entry
        for entry in piece.fields.entries
    )
    return piece._replace(fields=piece.fields._replace(entries=entries))


def _is_judge(entry: MapEntry) -> bool:
    kind = entry.value.get("type") if isinstance(entry.value, Map) else None
    is_condition = entry.key.text in ("condition", "check_condition")
    return is_condition and isinstance(kind, Text) and kind.text == JUDGE


def _both(default: Map, judge: Node) -> Map:
    of = List((default, judge), judge.mark)
    return mapping({"type": text("all", judge), "of": of}, judge)


def _is_shell(fields: Map) -> bool:
    """Return whether the state's action is for a shell."""
    action, declared = fields.get("action"), fields.get("action_type")
    kinds: dict[str, ActionType] = {"slash": "slash", "prompt": "prompt"}
    kind = kinds.get(declared.text) if isinstance(declared, Text) else None
    return isinstance(action, Text) and is_shells(parse_action(action.text, kind))


def _paradigm(root: Map) -> MapEntry:
    """Return the entry `paradigm: goal`, which is displayed for this loop."""
    return MapEntry(text("paradigm", root), text("goal", root))
