"""The keys that loops and runs have in URLs.

    run     [PROJECT:]NAME[~STEM][,CHILD...]       fix-types~2026-11-18T01-30-00,check
    loop    [PROJECT:]FILE                         fix-types.yaml

A key is parsed into names that are checked one by one. None of it becomes part of a path before the
read model has found a run or file with that name.
"""

from __future__ import annotations

import re

from little_loops.records import NamedTuple
from little_loops.runs.layout import RunFiles, is_stem
from little_loops.runs.project import is_loop_name, is_run_name

CHILD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,199}")
LONGEST = 2000


class RunKey(NamedTuple):
    """Which run is meant: the current or last one of its name, or with `stem` a past one.

    `below` are the names of the runs that lead to a run that another one has started.
    """

    project: str
    name: str
    stem: str | None = None
    below: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Its name for commands."""
        return "/".join((self.name, *self.below))


class LoopKey(NamedTuple):
    project: str
    file: str


def run_key(project: str, files: RunFiles, path: str = "") -> str:
    """Return the key of a run, given the path of a run that another one has started."""
    stem = "" if files.stem is None else f"~{files.stem}"
    below = "".join(f",{name}" for name in path.split("/")) if path else ""
    return f"{_before(project)}{files.name}{stem}{below}"


def loop_key(project: str, file: str) -> str:
    return f"{_before(project)}{file}"


def _before(project: str) -> str:
    return f"{project}:" if project else ""


def parse_run(text: str) -> RunKey | None:
    """Return the run that a key means; None if it is not a key."""
    project, rest = _split(text)
    head, *below = rest.split(",")
    name, tilde, stem = head.partition("~")
    if len(text) > LONGEST or not is_run_name(name) or (tilde and not is_stem(stem)):
        return None
    if not all(CHILD_NAME.fullmatch(each) for each in below):
        return None
    return RunKey(project, name, stem or None, tuple(below))


def parse_loop(text: str) -> LoopKey | None:
    """Return the loop file that a key means; None if it is not a key."""
    project, file = _split(text)
    return LoopKey(project, file) if is_loop_name(file) else None


def _split(text: str) -> tuple[str, str]:
    project, colon, rest = text.partition(":")
    return (project, rest) if colon else ("", text)
