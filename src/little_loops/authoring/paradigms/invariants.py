"""Paradigm `invariants`: constraints that are checked in order, and fixed if they fail.

After a fix, the same check runs again; when the last one passes, the loop is in `all_valid`. With
`recheck: all`, every fix leads back to the first check instead. Then `all_valid` is only reached by
a pass over all constraints in which nothing was fixed, so a fix that breaks an earlier constraint
is noticed.

If a constraint without a fix fails, the run ends in `violated`, a failure.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from little_loops.authoring.paradigms.assembly import (
    Piece,
    document,
    finish,
    flag,
    items,
    step,
)
from little_loops.authoring.yaml.nodes import Map, Node, Text
from little_loops.records import NamedTuple

KEYS = ("constraints", "recheck")


class Constraint(NamedTuple):
    label: str
    check: Node | None
    fix: Node | None


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this paradigm into the native form."""
    constraints = _constraints(root)
    recheck = root.get("recheck")
    from_the_start = isinstance(recheck, Text) and recheck.text == "all"
    first = f"check_{constraints[0].label}" if constraints else "all_valid"
    pieces: list[Piece] = []
    entrances = [*(f"check_{each.label}" for each in constraints), "all_valid"]
    for each, (here, after) in zip(constraints, pairwise(entrances), strict=True):
        again = first if from_the_start else here
        fix = "violated" if each.fix is None else f"fix_{each.label}"
        pieces.append(flag(step(here, each.check, on_pass=after, on_fail=fix), "check"))
        if each.fix is not None:
            pieces.append(step(fix, each.fix, next=again))
    pieces.append(finish("all_valid", root.get("constraints"), on_maintain=first))
    if any(each.fix is None for each in constraints):
        pieces.append(finish("violated", root.get("constraints"), outcome="failure"))
    return document(root, KEYS, pieces, stem)


def _constraints(root: Map) -> list[Constraint]:
    """Return the constraints that could be read, each with a label for its states."""
    written = [item for item in items(root.get("constraints")) if isinstance(item, Map)]
    labels = state_labels([_name(item) for item in written])
    return [
        Constraint(label, item.get("check"), item.get("fix"))
        for label, item in zip(labels, written, strict=True)
    ]


def state_labels(names: list[str]) -> list[str]:
    """Return the first word of each name if it is unique, else the whole name."""
    words = [re.split(r"[-_\s]", name.strip())[0] for name in names]
    often = Counter(words)
    chosen = [
        word if word and often[word] == 1 else name.strip()
        for word, name in zip(words, names, strict=True)
    ]
    return [re.sub(r"[^A-Za-z0-9_]+", "_", label) for label in chosen]


def _name(item: Map) -> str:
    name = item.get("name")
    return name.text if isinstance(name, Text) else ""
