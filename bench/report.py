"""Results as a table for people and as a document for programs.  Text in, text out."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence

from bench.figures import Figure, Outcome, Result, Standing

HEAD = (
    f"{'#':>3} {'row':<32} {'candidate':<22} {'CPU ms':>8}{'median':>8}"
    f" {'wall ms':>8}{'median':>8} {'CPU x':>7} {'wall x':>7}  {'bar':>5}  {'beyond':>6}"
)


def table(results: Sequence[Result]) -> str:
    """Minima and medians in milliseconds, ratios of minima to the row's first candidate."""
    lines = [HEAD]
    for result in results:
        lines += block(result)
    return "\n".join([*lines, "", summary(results)])


def block(result: Result) -> list[str]:
    row = result.row
    title = f"{row.number:>3} {row.name:<32}"
    if result.standing is Standing.BROKEN:
        return [f"{title} BROKEN: {result.problem}"]
    lines = [
        f"{title if index == 0 else '':<36} {cells(outcome)}"
        for index, outcome in enumerate(result.outcomes)
    ]
    judged = " and ".join("CPU" if metric == "cpu" else metric for metric in row.judged)
    word = result.standing.name
    answer = word if result.standing is Standing.MISSED else word.lower()
    lines[-1] += f"  {times(row.bar):>5}  {times(row.beyond):>6}  {answer} ({judged})"
    return lines


def cells(outcome: Outcome) -> str:
    cpu, wall = outcome.cpu, outcome.wall
    return (
        f"{outcome.name:<22} {cpu.min_ms:8.2f}{cpu.median_ms:8.2f}"
        f" {wall.min_ms:8.2f}{wall.median_ms:8.2f}"
        f" {outcome.cpu_ratio:7.2f} {outcome.wall_ratio:7.2f}"
    )


def times(bar: float) -> str:
    return f"{bar:g}x"


def summary(results: Sequence[Result]) -> str:
    counted = Counter(result.standing for result in results)
    parts = [f"{counted[standing]} {standing.name.lower()}" for standing in Standing]
    return f"{len(results)} rows: {', '.join(parts)}"


def document(results: Sequence[Result]) -> dict[str, object]:
    """The same as plain data, for `--json`."""
    return {
        "schema": 1,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "rows": [row_document(result) for result in results],
        "holds": holds(results),
    }


def holds(results: Sequence[Result]) -> bool:
    return all(result.standing <= Standing.HOLDS for result in results)


def row_document(result: Result) -> dict[str, object]:
    row = result.row
    return {
        "number": row.number,
        "name": row.name,
        "judged": list(row.judged),
        "bar": row.bar,
        "beyond": row.beyond,
        "standing": result.standing.name.lower(),
        "problem": result.problem or None,
        "candidates": [outcome_document(outcome) for outcome in result.outcomes],
    }


def outcome_document(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.name,
        "cpu": figure_document(outcome.cpu, outcome.cpu_ratio),
        "wall": figure_document(outcome.wall, outcome.wall_ratio),
    }


def figure_document(figure: Figure, ratio: float) -> dict[str, float | None]:
    return {
        "min_ms": round(figure.min_ms, 3),
        "median_ms": round(figure.median_ms, 3),
        # JSON has no infinity.
        "ratio": round(ratio, 3) if math.isfinite(ratio) else None,
    }
