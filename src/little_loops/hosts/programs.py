"""Find the program of a host, and refuse one that a project brings along.

A cloned repository must not decide what runs as an agent: a program on PATH that lies inside the
project is not trusted.  One that the loop's author named by its whole path is.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple


class Program(NamedTuple):
    """Where it is; `why_not` says why it cannot be run."""

    path: str
    why_not: str | None = None


def find_program(name: str, search: str | None, project: str) -> Program:
    """Look for a program in the directories of `search` (a PATH)."""
    found = shutil.which(name, path=search)
    if found is None:
        return Program(name, f"`{name}` is not on PATH")
    real, inside = os.path.realpath(found), os.path.realpath(project)
    if not os.path.isabs(name) and os.path.commonpath([real, inside]) == inside:
        return Program(
            name, f"`{name}` was found inside the project ({real}), which is not trusted"
        )
    return Program(found)
