"""Whether two scopes overlap, by comparing path components.

A scope is the paths a loop works on. Two overlap if a path of one is equal to or above a path of
the other: `src` and `src/api` do, `src/api` and `src/api2` do not. `.` is above everything.

Not here: links and the current directory (the caller resolves them and compares absolute paths),
which run holds a scope now (`runs.claims`).
"""

from __future__ import annotations

from collections.abc import Iterable


def normalise(path: str) -> str:
    """Return the path without `.`, `..`, doubled or trailing slashes; `.` if nothing is left.

    Works on the text alone: `..` removes the component before it, so resolve links first.
    """
    root = "/" if path.startswith("/") else ""
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            kept.append(part)
        elif kept and kept[-1] != "..":
            kept.pop()
        elif not root:
            kept.append(part)
    return root + "/".join(kept) or "."


def contains(upper: str, lower: str) -> bool:
    """Return whether `lower` is the same path as `upper`, or below it."""
    above, below = normalise(upper), normalise(lower)
    return above in (".", below) or below.startswith(above.rstrip("/") + "/")


def overlaps(a: Iterable[str], b: Iterable[str]) -> bool:
    """Return whether two scopes have a path in common."""
    others = list(b)
    return any(contains(mine, its) or contains(its, mine) for mine in a for its in others)
