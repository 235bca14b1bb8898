"""Pieces of messages: the author's text made showable, and the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60


def shown(text: str, longest: int = _LONGEST) -> str:
    """A piece of the author's text inside a message: on one line, visible, not too long."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)


def quoted(text: str) -> str:
    """How the author would write this text in quotes."""
    bare = shown(text.strip())
    if '"' in bare or "\\" in bare:
        return "'" + bare.replace("'", "''") + "'"
    return f'"{bare}"'


def suggest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` was probably meant to be."""
    wanted = name.lower().replace("-", "_")
    most = max(1, len(wanted) // 3)
    best: tuple[int, str] | None = None
    for each in names:
        if abs(len(each) - len(wanted)) <= most:
            far = distance(wanted, each.lower().replace("-", "_"), most)
            if far <= most and (best is None or far < best[0]):
                best = far, each
    return best[1] if best else None


def distance(a: str, b: str, most: int) -> int:
    """Letters to change, add, drop or swap with a neighbour; more than `most` is only `most` + 1."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        older, before = before, row
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (char != other))
            if older and j > 1 and char == b[j - 2] and a[i - 2] == other:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """The help line for a name that does not exist."""
    meant = suggest(name, names)
    return f"did you mean `{meant}`?" if meant is not None else None


def listed(names: Iterable[str]) -> str:
    """Names in backticks, as a sentence has them."""
    quoted_names = [f"`{name}`" for name in names]
    if len(quoted_names) < 2:
        return "".join(quoted_names)
    return f"{', '.join(quoted_names[:-1])} or {quoted_names[-1]}"
