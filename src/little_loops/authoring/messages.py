"""Parts of messages: the author's text in displayable form, and suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60
SHORTEST_MISSPELT = 3


def shown(text: str, longest: int = _LONGEST) -> str:
    """Return a piece of the author's text for a message: on one line, printable, shortened."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)


def quoted(text: str) -> str:
    """Return the text in quotes, as the author would write it in YAML."""
    bare = shown(text.strip())
    if '"' in bare or "\\" in bare:
        return "'" + bare.replace("'", "''") + "'"
    return f'"{bare}"'


def suggest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that `name` was probably meant to be; None if none is similar.

    People drop, double and swap letters, but rarely get the first one wrong; and short names are
    similar to many others.
    """
    wanted = name.lower().replace("-", "_")
    most = max(1, len(wanted) // 4) if len(wanted) >= SHORTEST_MISSPELT else 0
    best: tuple[int, str] | None = None
    for each in names:
        if abs(len(each) - len(wanted)) <= most:
            other = each.lower().replace("-", "_")
            far = distance(wanted, other, most)
            likely = far == 0 or not _begin_differently(wanted, other)
            if far <= most and likely and (best is None or far < best[0]):
                best = far, each
    return best[1] if best else None


def _begin_differently(a: str, b: str) -> bool:
    """Return whether two names start with different letters, unless two were swapped or one
    dropped."""
    swapped = a[:2] == b[1::-1]
    return a[:1] != b[:1] and not swapped and a[1:] != b and b[1:] != a


def distance(a: str, b: str, most: int) -> int:
    """Return the number of letters to change, add, drop or swap; at most `most` + 1."""
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
    """Return the help line for a name that does not exist; None without a suggestion."""
    meant = suggest(name, names)
    return f"did you mean `{meant}`?" if meant is not None else None


def listed(names: Iterable[str]) -> str:
    """Return the names in backticks, joined by commas and `or`."""
    quoted_names = [f"`{name}`" for name in names]
    if len(quoted_names) < 2:
        return "".join(quoted_names)
    return f"{', '.join(quoted_names[:-1])} or {quoted_names[-1]}"
