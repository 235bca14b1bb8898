"""What a measurement is made of: commands, candidates, rows."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

Metric = Literal["cpu", "wall"]

# The directory of the project, from which `bench` itself can be imported.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Command(NamedTuple):
    """A program to start, and the exit code that says it did its work."""

    argv: tuple[str, ...]
    cwd: str
    exit_code: int = 0


class Candidate(NamedTuple):
    """One way to do a row's work.

    With `short`, the figure is what one step costs: `long` less `short`, divided by the `steps` the
    one does more than the other, so that start and end of the process cancel out.
    """

    name: str
    long: Command
    short: Command | None = None
    steps: int = 1

    @property
    def commands(self) -> tuple[Command, ...]:
        return (self.long,) if self.short is None else (self.short, self.long)


class Row(NamedTuple):
    """One question, and the ratio to the floor that is good enough (`bar`) or better (`beyond`)."""

    number: int
    name: str
    floor: Candidate
    ours: Candidate
    bar: float
    beyond: float
    judged: tuple[Metric, ...] = ("cpu",)
    repeats: int = 20
    others: tuple[Candidate, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return (self.floor, *self.others, self.ours)


class Setting(NamedTuple):
    """What rows are built for: a tool under test and a directory to work in."""

    tool: tuple[str, ...]
    place: str
    python: str


class Sample(NamedTuple):
    """One start of one command.  CPU is user and system time, of its children too."""

    cpu_ms: float
    wall_ms: float
