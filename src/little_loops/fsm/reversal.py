"""Decide which files to change to get from one state of a project to an earlier one, and which of
those someone else has changed meanwhile.

Not here: the files themselves (`trees`), where the states come from (`engine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from little_loops.light_typing import Literal
from little_loops.records import NamedTuple


class Version(NamedTuple):
    """A file or link at one moment; `id` identifies its content."""

    kind: Literal["file", "link"]
    mode: int
    id: str


Versions = Mapping[str, Version]
"""The files at one point in time, by path; a path that is not in it did not exist."""


class Reversal(NamedTuple):
    """The paths to change, and those of them that were changed by someone else."""

    changes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def plan_reversal(
    left: Versions, now: Versions, target: Versions, *, is_unsure: bool = False
) -> Reversal:
    """Return how to get from `now` to `target`, as far as `left`, which is what we left there last,
    differs from it.

    What differs only between `left` and `now` is someone else's, and stays. If both differ, that is
    a conflict; so is a file in the place of a directory that is needed, or below a path that has to
    be a file. If `is_unsure`, what differs between `left` and `now` may be ours: it is a conflict,
    too.
    """
    paths = left.keys() | target.keys()
    touched = {path for path in paths if left.get(path) != target.get(path)}
    if is_unsure:
        paths = left.keys() | now.keys()
        touched |= {path for path in paths if left.get(path) != now.get(path)}
    changes = {path for path in touched if now.get(path) != target.get(path)}
    conflicts = {path for path in changes if now.get(path) != left.get(path)}
    in_the_way = set(_in_the_way((path for path in changes if path in target), now)) - changes
    return Reversal(tuple(sorted(changes | in_the_way)), tuple(sorted(conflicts | in_the_way)))


def _in_the_way(wanted: Iterable[str], now: Versions) -> Iterator[str]:
    """Yield the paths that exist now where a wanted file needs a directory, or is to be a file."""
    folders = {above for path in now for above in _above(path)}
    for path in wanted:
        yield from (above for above in _above(path) if above in now)
        if path in folders:
            yield from (below for below in now if below.startswith(f"{path}/"))


def _above(path: str) -> Iterator[str]:
    """Yield the directories above a path."""
    while path := path.rpartition("/")[0]:
        yield path


Change = Literal["changed", "restored", "removed"]


def change_of(path: str, now: Versions, target: Versions) -> Change:
    """Return what happens to a path that is changed."""
    if path not in target:
        return "removed"
    return "changed" if path in now else "restored"
