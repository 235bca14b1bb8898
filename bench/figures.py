"""From samples to figures, ratios and an answer.  Arithmetic only.

The minimum is what the work costs when nothing gets in its way, and ratios of CPU time are taken of
it.  Wall time depends on the disk, which may be quick for once: there the median counts, and so it
does for a quantity (memory, a delay, a count).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from statistics import median
from typing import NamedTuple

from bench.model import Candidate, Command, Gauge, Metric, Question, Row, Sample


class Standing(IntEnum):
    """How a row came out, best first; what a skipped one needs is not installed."""

    BEYOND = 0
    HOLDS = 1
    MISSED = 2
    BROKEN = 3
    SKIPPED = -1


class Figure(NamedTuple):
    min_ms: float
    median_ms: float


class Outcome(NamedTuple):
    """What one candidate was measured at, and how often the floor's cost that is."""

    name: str
    cpu: Figure
    wall: Figure
    cpu_ratio: float
    wall_ratio: float

    def ratio(self, metric: Metric) -> float:
        return self.cpu_ratio if metric == "cpu" else self.wall_ratio


class Level(NamedTuple):
    """What one reading of a gauge came to."""

    name: str
    least: float
    median: float
    most: float


class Result(NamedTuple):
    row: Question
    outcomes: tuple[Outcome | Level, ...]
    standing: Standing
    problem: str = ""


Samples = Mapping[Command, Sequence[Sample]]


def cpu_of(sample: Sample) -> float:
    return sample.cpu_ms


def wall_of(sample: Sample) -> float:
    return sample.wall_ms


def figure(candidate: Candidate, samples: Samples, metric: Callable[[Sample], float]) -> Figure:
    """What the candidate's work costs: all of it, or one step of it."""
    long = [metric(sample) for sample in samples[candidate.long]]
    if candidate.short is None:
        return Figure(min(long), median(long))
    short = [metric(sample) for sample in samples[candidate.short]]
    return Figure(
        (min(long) - min(short)) / candidate.steps,
        (median(long) - median(short)) / candidate.steps,
    )


def ratio(measured_ms: float, floor_ms: float) -> float:
    # A difference of two noisy figures can come out below zero: then nothing was measured, and
    # an endless ratio keeps that from passing as a good one.
    if floor_ms <= 0 or measured_ms <= 0:
        return math.inf
    return measured_ms / floor_ms


def standing(judged: Sequence[float], bar: float, beyond: float) -> Standing:
    """The worst of the judged figures decides."""
    worst = max(judged)
    if worst <= beyond:
        return Standing.BEYOND
    return Standing.HOLDS if worst <= bar else Standing.MISSED


def result(row: Row, samples: Samples) -> Result:
    floor_cpu = figure(row.floor, samples, cpu_of)
    floor_wall = figure(row.floor, samples, wall_of)
    outcomes = []
    for candidate in row.candidates:
        cpu, wall = figure(candidate, samples, cpu_of), figure(candidate, samples, wall_of)
        cpu_ratio = ratio(cpu.min_ms, floor_cpu.min_ms)
        wall_ratio = ratio(wall.median_ms, floor_wall.median_ms)
        outcomes.append(Outcome(candidate.name, cpu, wall, cpu_ratio, wall_ratio))
    ours = outcomes[-1]
    judged = [ours.ratio(metric) for metric in row.judged]
    return Result(row, tuple(outcomes), standing(judged, row.bar, row.beyond))


def gauged(gauge: Gauge, values: Mapping[str, Sequence[float]]) -> Result:
    """What the readings of a gauge came to, by the name of each."""
    levels = tuple(
        Level(each.name, min(values[each.name]), median(values[each.name]), max(values[each.name]))
        for each in gauge.readings
    )
    return Result(gauge, levels, standing([levels[-1].median], gauge.bar, gauge.beyond))
