"""Find the project, its loop files, and the file that an argument names.

Works on names and paths alone: a function that reads the name inside a loop file is passed in, so
that finding a file does not parse YAML. This module also decides which names may become part of a
path.

Not here: reading a loop file (`authoring`), the files of a run (`storage`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from little_loops.errors import UsageError
from little_loops.fsm.scope import contains

LOOPS = ".loops"


class Elsewhere(str):
    """A project whose loops are in a directory with another name, as the library allows."""

    __slots__ = ("loops",)
    loops: str


def project_of(loops_dir: str) -> str:
    """Return the project that a directory of loops belongs to: its parent directory.

    For a directory with another name than `.loops`, the result remembers that name (`loops_of`).
    """
    directory, name = os.path.split(os.path.abspath(loops_dir))
    if name == LOOPS:
        return directory
    root = Elsewhere(directory)
    root.loops = name
    return root


def loops_of(root: str) -> str:
    """Return the name of the directory that contains a project's loops."""
    return root.loops if isinstance(root, Elsewhere) else LOOPS


SUFFIXES = (".yaml", ".yml")
TESTS = "tests"
"""The directory for test files, inside the one for loops."""
TEST_SUFFIXES = (".test.yaml", ".test.yml")
LONGEST_NAME = 100
_MARKS = str.maketrans("", "", "._-")

NameOf = Callable[[str], str | None]
"""Returns the name set in a loop file; None if it cannot be read."""


def is_loop_name(text: str) -> bool:
    # Without a pattern, because every start would compile it, for 0.1 ms.
    is_short = len(text) <= LONGEST_NAME and text.isascii()
    return is_short and text[:1].isalnum() and text.translate(_MARKS).isalnum()


def is_run_name(text: str) -> bool:
    """Return whether this is a loop's name, or `name@ID` for a run with an id."""
    name, at, run_id = text.partition("@")
    return is_loop_name(name) and (not at or is_loop_name(run_id))


def check_run_name(text: str) -> str:
    """Return the name of a run. Raises `UsageError` if it is not valid."""
    if not is_run_name(text):
        raise UsageError(
            f"{text!r} is not a valid name for a loop or run",
            "a name consists of letters, digits, `.`, `_` and `-`, begins with a letter or digit, and"
            " is at most 100 characters long; a run may be named `name@id`",
        )
    return text


def run_name(loop: str, run_id: str | None = None) -> str:
    """Return the name of a run, which is also used in its file names."""
    return check_run_name(loop if run_id is None else f"{loop}@{run_id}")


def find_project(start: str, *, home: str | None = None) -> str:
    """Return the nearest directory upwards that has `.loops`; else the git root, else `start`.

    The search ends at the git root or home, and before a directory that belongs to another user,
    because running someone else's loops would be unsafe.
    """
    start = os.path.realpath(start)
    last = os.path.realpath(os.path.expanduser("~") if home is None else home)
    ours = {os.geteuid(), _owner(start)}
    directory = start
    while _owner(directory) in ours:
        if os.path.isdir(os.path.join(directory, LOOPS)):
            return directory
        if os.path.lexists(os.path.join(directory, ".git")):
            return directory
        parent = os.path.dirname(directory)
        if directory in (last, parent):
            break
        directory = parent
    return start


def _owner(directory: str) -> int | None:
    with suppress(OSError):
        return os.stat(directory).st_uid
    return None


def loop_files(root: str) -> list[str]:
    """Return the paths of a project's loop files, sorted by name; hidden files are left out. Empty
    if the directory cannot be read."""
    directory = os.path.join(root, loops_of(root))
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    paths = [
        os.path.join(directory, name)
        for name in names
        if name.endswith(SUFFIXES) and not name.startswith(".")
    ]
    return [path for path in paths if os.path.isfile(path)]


def resolve(argument: str, root: str, name_of: NameOf, *, cwd: str) -> tuple[str, ...]:
    """Return the file that an argument names: a path, a file in `.loops`, else the files that give
    themselves this name, which may be several. Empty if there is none."""
    if "/" in argument or argument.endswith(SUFFIXES):
        path = os.path.join(cwd, os.path.expanduser(argument))
        if _is_taken(path):
            return (path,)
    if not is_loop_name(argument):
        return ()
    for suffix in ("", *SUFFIXES):
        path = os.path.join(root, loops_of(root), argument + suffix)
        if _is_taken(path):
            return (path,)
    return files_named(argument, root, name_of)


def _is_taken(path: str) -> bool:
    """Return whether the path exists, even as something other than a file; reading it reports
    that."""
    return os.path.exists(path) and not os.path.isdir(path)


def files_named(name: str, root: str, name_of: NameOf) -> tuple[str, ...]:
    """Return every loop file of the project that gives itself this name."""
    return tuple(path for path in loop_files(root) if name_of(path) == name)


def path_in_project(path: str, root: str) -> str | None:
    """Return a path relative to the project; None if it is outside. Links are followed, except for
    a final one."""
    folder, name = os.path.split(os.path.abspath(path))
    home, place = os.path.realpath(root), os.path.join(os.path.realpath(folder), name)
    return os.path.relpath(place, home) if contains(home, place) else None


def resolve_scope(root: str, scope: Iterable[str]) -> tuple[str, ...]:
    """Return scope paths as absolute paths with links followed; they need not exist.

    Raises `UsageError` for a path outside the project.
    """
    home = os.path.realpath(root)
    resolved = tuple(os.path.realpath(os.path.join(home, path)) for path in scope)
    for path, place in zip(scope, resolved, strict=True):
        if not contains(home, place):
            raise UsageError(
                f"scope `{path}` is outside the project",
                f"it resolves to `{place}`, which is not in `{home}`",
            )
    return resolved


def show_scope(root: str, scope: Iterable[str]) -> str:
    """Return absolute scope paths for people: relative to the project."""
    return ", ".join(f"`{os.path.relpath(path, root)}`" for path in scope)
