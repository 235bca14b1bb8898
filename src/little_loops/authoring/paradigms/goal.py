"""Paradigm `goal`: what the loop should achieve, a command that checks it, and commands that fix it.

The first tool is the check (`evaluate`); when it fails, the others run in order (`fix`, `fix_2`, …)
and lead back to it. A single tool is run again until it passes.
"""

from __future__ import annotations

import re
import unicodedata

from little_loops.authoring.paradigms.assembly import (
    chain,
    document,
    finish,
    flag,
    items,
    step,
)
from little_loops.authoring.yaml.nodes import Map, Node, Text

KEYS = ("goal", "tools")
PREPOSITIONS = frozenset(
    {
        *("in", "on", "at", "of", "for", "from", "to", "with", "within", "by"),
        *("into", "under", "across", "through"),
    }
)
MOST_WORDS = 6
MOST_CHARACTERS = 100


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this paradigm into the native form."""
    tools = items(root.get("tools"))
    fixes = [_fix_name(number) for number in range(1, len(tools))]
    judge = tools[0] if tools else None
    evaluate = step("evaluate", judge, on_pass="done", on_fail=[*fixes, "evaluate"][0])
    pieces = [
        flag(evaluate, "check"),
        *chain(fixes, tools[1:], "evaluate"),
        finish("done", root.get("goal")),
    ]
    return document(root, KEYS, pieces, derived_name(root.get("goal")) or stem)


def derived_name(goal: Node | None) -> str | None:
    """Return `goal-` and the words up to the first preposition; None if none are left.

    >>> derived_name(text("No type errors in src/"))
    'goal-no-type-errors'
    """
    if not isinstance(goal, Text):
        return None
    # Accents are dropped from their letters, so that `Éliminer` does not become `liminer`.
    plain = unicodedata.normalize("NFKD", goal.text).encode("ascii", "ignore").decode().lower()
    words: list[str] = []
    for word in plain.replace("'", "").split():
        word = re.sub(r"[^a-z0-9]+", "-", word).strip("-")
        if word in PREPOSITIONS or len(words) == MOST_WORDS:
            break
        if word:
            words.append(word)
    if not words:
        return None
    return "-".join(["goal", *words])[:MOST_CHARACTERS].rstrip("-")


def _fix_name(number: int) -> str:
    return "fix" if number == 1 else f"fix_{number}"
