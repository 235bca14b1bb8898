"""The steps that an operation consists of, on the data of a document.

Paths are the document's own keys. Each step is carried out twice: here on plain data, which says
what the file has to mean afterwards, and in `splices` on its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy

from little_loops.authoring.edits.operations import Path
from little_loops.light_typing import Any, assert_never
from little_loops.records import NamedTuple


class Put(NamedTuple):
    """Set a value. A new key of a mapping is inserted after the entry `after`; the default is the
    end. With `block`, it is never written on one line."""

    path: Path
    value: Any
    after: str | None = None
    block: bool = False


class Drop(NamedTuple):
    """Remove an entry or an item."""

    path: Path


class RenameKey(NamedTuple):
    """Give an entry another key."""

    path: Path
    to: str


class RenameResult(NamedTuple):
    """Let the templates of a text refer to the result of a state by its new name."""

    path: Path
    old: str
    to: str


Change = Put | Drop | RenameKey | RenameResult


def results_of(state: str) -> re.Pattern[str]:
    """Return a pattern for the references to a result, in group 1 of those matches that are not
    escapes."""
    return re.compile(rf"\$\$\{{|\$\{{captured\.({re.escape(state)})(?![\w-])")


def renamed_results(text: str, old: str, to: str) -> str:
    """Return a text whose references to a result have its new name."""

    def renamed(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else found[0][: -len(old)] + to

    return results_of(old).sub(renamed, text)


def changed(data: Any, changes: Iterable[Change]) -> Any:
    """Return the data of a document after these changes."""
    whole = {"": deepcopy(data)}
    dropped: list[Path] = []
    renamed: list[RenameKey] = []
    for change in changes:
        holder, key = _holder(whole, change.path)
        match change:
            case Put(_, value):
                _put(holder, key, value)
            case RenameResult(_, old, to):
                holder[key] = renamed_results(holder[key], old, to)
            case Drop(path):
                dropped.append(path)
            case RenameKey():
                renamed.append(change)
            case _:
                assert_never(change)
    for path in sorted(dropped, key=_from_the_end):
        holder, key = _holder(whole, path)
        del holder[key]
    for each in renamed:
        holder, key = _holder(whole, each.path)
        holder[each.to] = holder.pop(key)
    return whole[""]


def _holder(whole: Any, path: Path) -> tuple[Any, Any]:
    """Return what contains the value at a path, and its key there."""
    *above, key = ("", *path)
    for step in above:
        whole = whole[step]
    return whole, key


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, list) and key == len(holder):
        holder.append(value)
    else:
        holder[key] = value


def _from_the_end(path: Path) -> list[int]:
    """Return a sort key that removes later items of a list before earlier ones."""
    return [-each if isinstance(each, int) else 0 for each in path]
