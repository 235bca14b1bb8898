"""Find the program of a host, and refuse one that comes with the project.

A cloned repository must not decide what runs as `claude`: a program on PATH that is inside the
project is not trusted. One that the loop's author wrote as a path is: `command: [./tools/agent, …]`
states as plainly as a shell action what is run.
"""

from __future__ import annotations

import os
import shutil

from little_loops.records import NamedTuple


class Program(NamedTuple):
    """The path of a program; `why_not` says why it cannot be run."""

    path: str
    why_not: str | None = None


def find_program(name: str, search: str | None, project: str) -> Program:
    """Look up a name in `search` (a PATH), or resolve a path relative to the project.

    `why_not` is set if there is no such program, or if PATH leads to one inside the project.
    """
    if os.path.dirname(name):
        return _at_path(os.path.join(project, name), name)
    found = shutil.which(name, path=search)
    if found is None:
        return Program(name, f"`{name}` is not on PATH")
    real, inside = os.path.realpath(found), os.path.realpath(project)
    if os.path.commonpath([real, inside]) == inside:
        return Program(
            name, f"`{name}` was found inside the project ({real}), which is not trusted"
        )
    return Program(found)


def _at_path(path: str, name: str) -> Program:
    """Return the program at a path, if it is executable."""
    if shutil.which(path) is None:
        return Program(name, f"`{name}` does not exist or is not executable")
    return Program(os.path.normpath(path))
