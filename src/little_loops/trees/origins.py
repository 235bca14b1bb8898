"""Record what git ignores and you have made, as opposed to what appeared while a run worked.

The clean copy has the ignored files that were there when its run started. An agent of an earlier run
may have put them there, or added the rule that hides them. So the store has a record of them: what
appears or changes in ignored places while a run works is not yours, until you make or change it
between runs. If a run did not record its end, everything since its start counts as made by its agent.

    STORE/origins.json    `working`: the runs whose end is not recorded; `ended_ns`: when one last
                          ended; `paths`: for each ignored path what you made, or null

Not here: what a directory has in it that is yours (`installed` notices changes there).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from little_loops.errors import StoreError
from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.system.files import to_json
from little_loops.trees import files as store_files
from little_loops.trees.files import StoreFiles
from little_loops.trees.rules import IgnoredFile, Rules

NAME: Final = "origins.json"

Made = tuple[int, str]
"""What is at an ignored path: mode and content id of a small file."""
LINKED: Made = (0, "")
"""What is linked in the clean copy: a directory, a repository or a large file."""


class Origins(NamedTuple):
    """The record of a project; `paths` has None for what appeared while a run worked."""

    working: frozenset[str] = frozenset()
    ended_ns: int = 0
    paths: Mapping[str, Made | None] = {}


def found_by(rules: Rules) -> dict[str, Made]:
    """Return all ignored paths of the project and the repositories in it."""
    linked = dict.fromkeys((*rules.linked, *rules.nested), LINKED)
    return linked | {one.path: (one.mode, one.id) for one in rules.files}


def begin(
    before: Origins,
    found: Mapping[str, Made],
    run: str,
    alive: Collection[str],
    changed_since: Callable[[str, int], bool],
) -> Origins:
    """Return the record when a run starts or continues.

    `alive` are the runs that work beside it; `changed_since` says whether a path has nothing in it
    that is older than a time.
    """

    def yours(path: str, here: Made) -> Made | None:
        old = before.paths.get(path)
        if before.working:
            return old
        is_new = path not in before.paths or (here != old and changed_since(path, before.ended_ns))
        return here if is_new else old

    working = frozenset((run, *before.working.intersection(alive)))
    paths = {path: yours(path, here) for path, here in found.items()}
    return Origins(working, before.ended_ns, paths)


def end(before: Origins, found: Collection[str], run: str, now_ns: int) -> Origins:
    """Return the record when the end or a pause of a run is recorded."""
    paths = {path: before.paths.get(path) for path in found}
    return Origins(before.working - {run}, now_ns, paths)


def yours_only(rules: Rules, origins: Origins, is_stored: Callable[[str], bool]) -> Rules:
    """Return the rules of a run with the ignored files as you have made them. `not_yours` are those
    that differ from what is there now: the clean copy does not have them, or as they were before."""
    files = {one.path: one for one in rules.files}
    differing = []
    for path, here in found_by(rules).items():
        copied = _in_copy(origins.paths.get(path), here, is_stored)
        if copied == here:
            continue
        differing.append(path)
        if copied is None:
            files.pop(path, None)
        else:
            files[path] = IgnoredFile(path, *copied)
    return rules._replace(files=tuple(files.values()), not_yours=tuple(sorted(differing)))


def _in_copy(yours: Made | None, here: Made, is_stored: Callable[[str], bool]) -> Made | None:
    """Return what the clean copy has at a path. A file of yours that is not stored any more is
    there as it is now."""
    if yours is None or LINKED in (yours, here):
        return yours if yours == here else None
    return yours if is_stored(yours[1]) else here


def changed_since(project: str, path: str, since_ns: int) -> bool:
    """Return whether everything at a path was changed after a time: of a directory, all its files."""
    full = os.path.join(project, path)
    return all(_changed_ns(each) > since_ns for each in _files_at(full))


def _files_at(full: str) -> Iterator[str]:
    """Yield a file, or all files of a directory and its subdirectories."""
    if os.path.islink(full) or not os.path.isdir(full):
        yield full
    for folder, _, names in os.walk(full):
        yield from (os.path.join(folder, name) for name in names)


def _changed_ns(full: str) -> int:
    """Return when a file was last changed, by a time that no program can set; the present if it is
    gone."""
    try:
        return os.lstat(full).st_ctime_ns
    except OSError:
        return time.time_ns()


# ── the file ───────────────────────────────────────────────────────────────────────────────────


def read(files: StoreFiles) -> Origins:
    """Return the record of a store; an empty one if no run has worked yet. Raises `StoreError` if
    it is damaged."""
    raw = store_files.read(files.place(NAME))
    if raw is None:
        return Origins()
    try:
        return _from_json(json.loads(raw))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(
            f"`{files.place(NAME)}` is damaged",
            "delete it; all ignored files that exist now will then be treated as yours",
        ) from error


def _from_json(plain: dict[str, Any]) -> Origins:
    paths = {
        path: None if made is None else (int(made[0]), str(made[1]))
        for path, made in plain["paths"].items()
    }
    return Origins(frozenset(plain["working"]), int(plain["ended_ns"]), paths)


def write(files: StoreFiles, origins: Origins) -> None:
    """Store the record. Raises `StoreError`."""
    plain = {**origins._asdict(), "working": sorted(origins.working)}
    store_files.replace(files.place(NAME), to_json(plain), sync=True)
