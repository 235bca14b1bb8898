"""Past runs as a table: endings, figures, the way they came, and what they have in common.

The figures below the table are those of all runs asked about, also of those it has no room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from little_loops.fsm.values import duration_text
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.inspect import Seen, as_json, last_told
from little_loops.runs.path_taken import Visit, compressed, letters, measurements, sparkline, visits
from little_loops.terminal.durations import compact
from little_loops.terminal.summaries import ending_of, money, signed
from little_loops.terminal.tables import Column, Style, table

EVENTS_READ = 1000
NAME = Column("NAME", least=8)
COST = Column("COST", leaves=4)
COLUMNS = (
    Column("RUN"),
    Column("ENDED AS", least=19),
    Column("ITER", leaves=3),
    Column("TIME", leaves=1),
    COST,
    Column("PATH", least=9, leaves=5),
)
METRIC = Column("METRIC", leaves=2)


class Came(NamedTuple):
    """The way a run came, as far as a bounded end of its log tells."""

    way: list[Visit]
    measured: list[float]
    is_whole: bool


def came(one: Seen) -> Came:
    records = last_told(one.files, EVENTS_READ)
    is_whole = not records or records[0]["seq"] == 1
    return Came(visits(records), measurements(records), is_whole)


def lines(past: Sequence[Seen], limit: int, style: Style) -> list[str]:
    shown = past[:limit]
    courses = [came(one) for one in shown]
    names = {one.name for one in past}
    costly = any(one.facts and one.facts.cost_usd for one in shown)
    columns = [c if costly or c is not COST else c._replace(leaves=9) for c in COLUMNS]
    rows = [_row(one, style) for one in shown]
    _spell_paths(rows, shown, courses, style)
    if any(len(course.measured) > 1 for course in courses):
        columns.append(METRIC)
        for row, course in zip(rows, courses, strict=True):
            row.append(_metric(course.measured, style))
    if len(names) > 1:
        columns.insert(0, NAME)
        for row, one in zip(rows, shown, strict=True):
            row.insert(0, visible(one.name))
    return [*table(columns, rows, style), _summary_line(past, len(shown), style)]


def _row(one: Seen, style: Style) -> list[str]:
    facts, none = one.facts, style.signs.none
    return [
        visible(one.files.stem or one.name),
        signed(one, visible(ending_of(one), newlines=False), style),
        str(facts.iteration) if facts else none,
        compact(facts.ran_ms) if facts else none,
        money(facts.cost_usd, none) if facts else none,
        none,
    ]


PATH = 5


def _spell_paths(
    rows: Sequence[list[str]], shown: Sequence[Seen], courses: Sequence[Came], style: Style
) -> None:
    """A state has the same letters in every run of its loop."""
    states: dict[str, list[str]] = {}
    ways = [_without_end(one, course.way) for one, course in zip(shown, courses, strict=True)]
    for one, way in zip(shown, ways, strict=True):
        states.setdefault(one.loop, []).extend(visit.state for visit in way)
    short = {loop: letters(names) for loop, names in states.items()}
    for row, one, way, course in zip(rows, shown, ways, courses, strict=True):
        words = [visible(short[one.loop][visit.state], newlines=False) for visit in way]
        before = [] if course.is_whole else [style.signs.more]
        row[PATH] = " ".join([*before, compressed(words, style.signs.times)]) or style.signs.none


def _without_end(one: Seen, way: list[Visit]) -> list[Visit]:
    """The state it ended in stands in another column, if nothing was done in it."""
    ended = one.facts is not None and one.reason == "terminal"
    return way[:-1] if ended and way and way[-1].verdict is None else way


def _metric(values: Sequence[float], style: Style) -> str:
    """`12 █▃▁ 0`: from where to where, and how."""
    if not values:
        return style.signs.none
    first, last = f"{values[0]:g}", f"{values[-1]:g}"
    if len(values) == 1:
        return first
    between = sparkline(values) if style.signs.good == "✓" else style.signs.to
    return f"{first} {between} {last}"


# ── in sum ─────────────────────────────────────────────────────────────────────────────────────


class Summary(NamedTuple):
    runs: int
    completed: int
    iterations: float | None
    duration_ms: float | None
    cost_usd: float | None


def summary(past: Sequence[Seen]) -> Summary:
    known = [one.facts for one in past if one.facts is not None]
    costs = [facts.cost_usd for facts in known if facts.cost_usd]
    return Summary(
        len(past),
        sum(one.status == "completed" for one in past),
        median([facts.iteration for facts in known]),
        median([facts.ran_ms for facts in known]),
        median(costs),
    )


def median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    ordered, middle = sorted(values), len(values) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _summary_line(past: Sequence[Seen], shown: int, style: Style) -> str:
    found, dot = summary(past), f" {style.signs.dot} "
    parts = [f"{found.runs} run{'' if found.runs == 1 else 's'}"]
    if shown < found.runs:
        parts[0] += f" ({shown} shown)"
    parts.append(f"{found.completed / found.runs:.0%} completed")
    if found.iterations is not None and found.duration_ms is not None:
        once = "" if found.iterations == 1 else "s"
        middle = f"median {found.iterations:g} iteration{once}"
        middle += f", {duration_text(round(found.duration_ms))}"
        middle += f", {money(found.cost_usd, '')}" if found.cost_usd else ""
        parts.append(middle)
    return dot.join(parts)


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def document(past: Sequence[Seen], limit: int, now: int) -> dict[str, Any]:
    found = summary(past)
    return {
        "runs": [_with_course(one, now) for one in past[:limit]],
        "summary": {
            "runs": found.runs,
            "completed": found.completed,
            "median_iterations": found.iterations,
            "median_duration_ms": found.duration_ms,
            "median_cost_usd": found.cost_usd,
        },
    }


def _with_course(one: Seen, now: int) -> dict[str, Any]:
    course = came(one)
    return as_json(one, now) | {
        "path": [visit._asdict() for visit in course.way],
        "path_is_whole": course.is_whole,
        "measurements": course.measured,
    }
