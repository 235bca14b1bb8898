"""Find the project, the loop files in it, and the file a word of the user's names.

By the texts of names and paths alone: what is inside a loop file is known to a function that is
handed in, so that finding a file costs no YAML.  This is also the one place that says which names
may become part of a path.

Not here: reading a loop file (`authoring`), the files of a run (`storage`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from little_loops.errors import UsageError
from little_loops.fsm.scope import contains

LOOPS = ".loops"


class Elsewhere(str):
    """A project whose loops lie in a directory of another name, as the library allows."""

    __slots__ = ("loops",)
    loops: str


def project_of(loops_dir: str) -> str:
    """The project that a directory of loops belongs to."""
    directory, name = os.path.split(os.path.abspath(loops_dir))
    if name == LOOPS:
        return directory
    root = Elsewhere(directory)
    root.loops = name
    return root


def loops_of(root: str) -> str:
    """The name of the directory that holds a project's loops."""
    return root.loops if isinstance(root, Elsewhere) else LOOPS


SUFFIXES = (".yaml", ".yml")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
LOOP_NAME = re.compile(_NAME)
RUN_NAME = re.compile(f"{_NAME}(@{_NAME})?")

NameOf = Callable[[str], str | None]
"""The name a loop file gives itself; none if it cannot be read."""


def is_loop_name(text: str) -> bool:
    return LOOP_NAME.fullmatch(text) is not None


def is_run_name(text: str) -> bool:
    """A loop's name, or `name@ID` for a run that was given an id."""
    return RUN_NAME.fullmatch(text) is not None


def check_run_name(text: str) -> str:
    if not is_run_name(text):
        raise UsageError(
            f"{text!r} is not the name of a loop or run",
            "a name has letters, digits, `.`, `_` and `-`, begins with a letter or digit, and is"
            " at most 100 characters long; a run may be `name@id`",
        )
    return text


def run_name(loop: str, run_id: str | None = None) -> str:
    """What a run is called, in its file names too."""
    return check_run_name(loop if run_id is None else f"{loop}@{run_id}")


def find_project(start: str, *, home: str | None = None) -> str:
    """The nearest directory upwards that has `.loops`; else the git root, else `start`.

    The walk ends with the git root or home, and before a directory that belongs to somebody else:
    what a stranger put above us is not ours to run.
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
    """The loop files of a project, in order of their names."""
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
    """The file a word names; several if only the names inside files match, none if nothing does."""
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
    """Also by what is no file: whoever reads it says so."""
    return os.path.exists(path) and not os.path.isdir(path)


def files_named(name: str, root: str, name_of: NameOf) -> tuple[str, ...]:
    """Every loop file of the project that gives itself this name."""
    return tuple(path for path in loop_files(root) if name_of(path) == name)


def path_in_project(path: str, root: str) -> str | None:
    """A path seen from the project; None if it lies outside.  A link at its end is not followed."""
    folder, name = os.path.split(os.path.abspath(path))
    home, place = os.path.realpath(root), os.path.join(os.path.realpath(folder), name)
    return os.path.relpath(place, home) if contains(home, place) else None


def resolve_scope(root: str, scope: Iterable[str]) -> tuple[str, ...]:
    """Scope paths made absolute, links followed; they need not exist."""
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
    """Absolute scope paths for people: relative to the project."""
    return ", ".join(f"`{os.path.relpath(path, root)}`" for path in scope)
