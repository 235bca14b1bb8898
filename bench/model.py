"""What a measurement is made of: commands, candidates, rows; readings and gauges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeVar

Metric = Literal["cpu", "wall"]
Scale = Literal["quick", "normal", "full"]
Choice = TypeVar("Choice")

# The directory of the project, from which `bench` itself can be imported.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class NotMeasured(Exception):
    """Something did not do its work, so its figures say nothing."""


class Missing(NotMeasured):
    """A program that the row needs is not installed."""


class Command(NamedTuple):
    """A program to start, and the exit code that says it did its work.

    `before` puts things back as they were; it is not measured.
    """

    argv: tuple[str, ...]
    cwd: str
    exit_code: int = 0
    before: Callable[[], object] | None = None


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
    """One question, and the ratio to the floor that is good enough (`bar`) or better (`beyond`).

    `around` holds for as long as the row is measured.  What is not `comparable` rests on files of
    our own making, which another tool would not understand.
    """

    number: int
    name: str
    floor: Candidate
    ours: Candidate
    bar: float
    beyond: float
    judged: tuple[Metric, ...] = ("cpu",)
    repeats: int = 20
    others: tuple[Candidate, ...] = ()
    during: Callable[[], AbstractContextManager[object]] = nullcontext
    comparable: bool = True

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return (self.floor, *self.others, self.ours)


class Reading(NamedTuple):
    """A way to measure a quantity once."""

    name: str
    take: Callable[[], float]


class Gauge(NamedTuple):
    """A question whose answer is a quantity: its median may be `bar`, or better `beyond`."""

    number: int
    name: str
    unit: str
    ours: Reading
    bar: float
    beyond: float
    repeats: int = 3
    others: tuple[Reading, ...] = ()
    comparable: bool = False

    @property
    def readings(self) -> tuple[Reading, ...]:
        return (*self.others, self.ours)


Question = Row | Gauge


class Setting(NamedTuple):
    """What rows are built for: a tool under test, a directory to work in, how much to measure."""

    tool: tuple[str, ...]
    place: str
    python: str
    environment: Mapping[str, str]
    scale: Scale

    def by_scale(self, *, quick: Choice, normal: Choice, full: Choice) -> Choice:
        return {"quick": quick, "normal": normal, "full": full}[self.scale]

    def project(self, name: str, loops: Mapping[str, str]) -> str:
        """A project of that name with these loop files."""
        root = os.path.join(self.place, name)
        os.makedirs(f"{root}/.loops", exist_ok=True)
        for loop, text in loops.items():
            with open(f"{root}/.loops/{loop}.yaml", "w") as file:
                file.write(text)
        return root

    def command(
        self,
        cwd: str,
        *arguments: str,
        exit_code: int = 0,
        before: Callable[[], object] | None = None,
    ) -> Command:
        return Command((*self.tool, *arguments), cwd, exit_code, before)


class Sample(NamedTuple):
    """One start of one command.  CPU is user and system time, of its children too."""

    cpu_ms: float
    wall_ms: float
