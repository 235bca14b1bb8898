"""Results as a table for people and as a document for programs.  Text in, text out."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence

from bench.figures import Figure, Level, Outcome, Result, Standing
from bench.model import Gauge

HEAD = (
    f"{'#':>3} {'row':<40} {'candidate':<22} {'CPU ms':>9}{'median':>9}"
    f" {'wall ms':>9}{'median':>9} {'CPU x':>7} {'wall x':>7}  {'bar':>6}  {'beyond':>6}"
)
TITLE = 44
CELLS = 76


def table(results: Sequence[Result]) -> str:
    """Minima and medians in milliseconds; ratios to the row's first candidate, of minima for CPU
    time and of medians for wall time."""
    lines = [HEAD]
    for result in results:
        lines += block(result)
    return "\n".join([*lines, "", summary(results)])


def block(result: Result) -> list[str]:
    row = result.row
    title = f"{row.number:>3} {row.name:<40}"
    if result.standing is Standing.BROKEN:
        return [f"{title} BROKEN: {result.problem}"]
    if result.standing is Standing.SKIPPED:
        return [f"{title} skipped: {result.problem}"]
    lines = [
        f"{title if index == 0 else '':<{TITLE}} {cells(outcome, unit_of(result)):<{CELLS}}"
        for index, outcome in enumerate(result.outcomes)
    ]
    lines = [*(line.rstrip() for line in lines[:-1]), lines[-1]]
    word = result.standing.name
    answer = word if result.standing is Standing.MISSED else word.lower()
    lines[-1] += f"  {bar(result, row.bar):>6}  {bar(result, row.beyond):>6}  {answer}"
    if not isinstance(row, Gauge):
        judged = " and ".join("CPU" if metric == "cpu" else metric for metric in row.judged)
        lines[-1] += f" ({judged})"
    return lines


def unit_of(result: Result) -> str:
    return result.row.unit if isinstance(result.row, Gauge) else "ms"


def cells(outcome: Outcome | Level, unit: str) -> str:
    if isinstance(outcome, Level):
        spread = f"({outcome.least:.4g} to {outcome.most:.4g})"
        return f"{outcome.name:<22} {outcome.median:9.4g} {unit} {spread}"
    cpu, wall = outcome.cpu, outcome.wall
    return (
        f"{outcome.name:<22} {cpu.min_ms:9.2f}{cpu.median_ms:9.2f}"
        f" {wall.min_ms:9.2f}{wall.median_ms:9.2f}"
        f" {outcome.cpu_ratio:7.2f} {outcome.wall_ratio:7.2f}"
    )


def bar(result: Result, value: float) -> str:
    return f"{value:g}" if isinstance(result.row, Gauge) else f"{value:g}x"


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
    is_gauge = isinstance(row, Gauge)
    return {
        "number": row.number,
        "name": row.name,
        **({"unit": row.unit} if isinstance(row, Gauge) else {"judged": list(row.judged)}),
        "bar": row.bar,
        "beyond": row.beyond,
        "standing": result.standing.name.lower(),
        "problem": result.problem or None,
        "readings" if is_gauge else "candidates": [
            outcome_document(outcome) for outcome in result.outcomes
        ],
    }


def outcome_document(outcome: Outcome | Level) -> dict[str, object]:
    if isinstance(outcome, Level):
        return outcome._asdict()
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
