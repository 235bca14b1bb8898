"""Print past runs as a table: endings, figures, the path they took, and what they have in common.

The figures below the table also cover runs that it has no room for, but only the newest of them, so
that ten thousand runs take no longer than a thousand.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from little_loops.fsm.values import duration_text
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.path_taken import Visit, compressed, letters, measurements, sparkline, visits
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView, as_json
from little_loops.terminal.durations import compact, minute, zone
from little_loops.terminal.summaries import ending_of, money, shown_name, signed
from little_loops.terminal.tables import Column, Style, table

EVENTS_READ = 1000
MOST_READ = 1000
NAME = Column("NAME", least=20)
STARTED = Column("STARTED")
ENDED = Column("RESULT", least=17)
COST = Column("COST", leaves=2)
_PATH = Column("PATH", least=7, leaves=3)
COLUMNS = (
    STARTED,
    ENDED,
    Column("ITER", leaves=4),
    Column("TIME", leaves=1),
    COST,
    _PATH,
)
PATH = COLUMNS.index(_PATH)
FIRST_TO_LEAVE = 9
METRIC = Column("METRIC", leaves=5)
FORK = Column("FORK OF", leaves=1)
RUN = Column("RUN")
"""The name to use with `logs --run`."""
MOST_LEGENDS = 3


class PathSummary(NamedTuple):
    """The path a run took, as far as the last part of its log shows it."""

    path: list[Visit]
    measured: list[float]
    is_whole: bool


def path_summary(runs: Runs, view: RunView) -> PathSummary:
    """Read the last part of a run's log, and return the path it took."""
    entries = runs.last_events(view, EVENTS_READ)
    is_whole = not entries or entries[0].seq == 1
    return PathSummary(visits(entries), measurements(entries), is_whole)


class Past(NamedTuple):
    """Past runs: those in the table, and the figures of all of them."""

    shown: list[RunView]
    names: set[str]
    totals: Totals


class Totals(NamedTuple):
    """The figures of the newest `read` of `runs` past runs."""

    runs: int
    read: int
    completed: int
    iterations: float | None
    duration_ms: float | None
    cost_usd: float | None


def gather(views: Iterable[RunView], limit: int, runs: int) -> Past:
    """Keep the first `limit` runs for the table, and only figures of the next ones.

    `runs` is the total number of runs.
    """
    shown: list[RunView] = []
    names: set[str] = set()
    read = completed = 0
    iterations, durations, costs = array("q"), array("q"), array("d")
    for view in islice(views, max(limit, MOST_READ)):
        read += 1
        completed += view.status == "completed"
        names.add(view.name)
        if len(shown) < limit:
            shown.append(view)
        if view.summary is not None:
            iterations.append(view.summary.iteration)
            durations.append(view.summary.ran_ms)
            if cost := view.summary.cost_usd:
                costs.append(cost)
    # Runs that could not be read are not counted.
    runs = runs if read >= MOST_READ else read
    totals = Totals(runs, read, completed, median(iterations), median(durations), median(costs))
    return Past(shown, names, totals)


def median(values: Sequence[float]) -> float | None:
    """Return the median; None without values."""
    if not values:
        return None
    ordered, middle = sorted(values), len(values) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


# ── for people ─────────────────────────────────────────────────────────────────────────────────


def lines(runs: Runs, past: Past, style: Style, *, utc: bool = False) -> list[str]:
    """Return the table, its legend, and the line with the totals."""
    shown = past.shown
    summaries = [path_summary(runs, view) for view in shown]
    rows = [_row(view, style, utc=utc) for view in shown]
    short = _fill_in_paths(rows, shown, summaries, style)
    is_path_explained = len(short) <= MOST_LEGENDS
    columns = _columns(shown, utc=utc, is_path_explained=is_path_explained)
    if any(len(summary.measured) > 1 for summary in summaries):
        # Few of many loops have one.
        columns.append(METRIC if is_path_explained else METRIC._replace(leaves=FIRST_TO_LEAVE + 1))
        for row, summary in zip(rows, summaries, strict=True):
            row.append(_metric(summary.measured, style))
    if any(view.summary is not None and view.summary.fork for view in shown):
        columns.append(FORK)
        for row, view in zip(rows, shown, strict=True):
            row.append(_fork(view, style))
    if style.width is None:  # on a terminal there is no room for it
        columns.append(RUN)
        for row, view in zip(rows, shown, strict=True):
            row.append(visible(view.files.stem or view.name))
    if len(past.names) > 1 or not all(view.has_file for view in shown):
        # If cut shorter, the endings of different loops would look the same.
        columns[COLUMNS.index(ENDED)] = ENDED._replace(least=20)
        columns.insert(0, NAME)
        for row, view in zip(rows, shown, strict=True):
            row.insert(0, shown_name(view))
    head, *body = table(columns, rows, style)
    legend = _legend(short, style) if COLUMNS[PATH].title in head else []
    return [head, *body, *legend, _totals_line(past, style)]


def _columns(shown: Sequence[RunView], *, utc: bool, is_path_explained: bool) -> list[Column]:
    """Return the columns; those without content are the first to be dropped."""
    costly = any(view.summary and view.summary.cost_usd for view in shown)
    columns = list(COLUMNS)
    columns[0] = STARTED._replace(title=f"STARTED ({zone(utc=utc)})")
    if not costly:
        columns[COLUMNS.index(COST)] = COST._replace(leaves=FIRST_TO_LEAVE)
    if not is_path_explained:
        columns[PATH] = columns[PATH]._replace(leaves=FIRST_TO_LEAVE)
    return columns


def _legend(short: Mapping[str, Mapping[str, str]], style: Style) -> list[str]:
    """Explain the letters of PATH for each loop; for many loops, only in general."""
    if len(short) > MOST_LEGENDS:
        return ["PATH: the states each run went through, by first letter"]
    explanations = []
    for loop, names in short.items():
        meanings = [f"{letter} {name}" for name, letter in names.items() if letter != name]
        of = f" of {loop}" if len(short) > 1 else ""
        if meanings:
            explanations.append(visible(f"PATH{of}: {', '.join(meanings)}", newlines=False))
    return explanations


def _row(view: RunView, style: Style, *, utc: bool) -> list[str]:
    """Return the cells of a run, except its path."""
    run, none = view.summary, style.signs.none
    return [
        minute(view.started_ms, utc=utc),
        signed(view, visible(ending_of(view), newlines=False), style),
        str(run.iteration) if run else none,
        compact(run.ran_ms) if run else none,
        money(run.cost_usd, none) if run else none,
        none,
    ]


def _fill_in_paths(
    rows: Sequence[list[str]],
    shown: Sequence[RunView],
    summaries: Sequence[PathSummary],
    style: Style,
) -> dict[str, dict[str, str]]:
    """Write the paths into the rows, and return the letters: loop → state → letters.

    A state has the same letters in every run of its loop.
    """
    states: dict[str, list[str]] = {}
    paths = [
        _without_end(view, summary.path) for view, summary in zip(shown, summaries, strict=True)
    ]
    for view, path in zip(shown, paths, strict=True):
        states.setdefault(view.loop, []).extend(visit.state for visit in path)
    short = {loop: letters(names) for loop, names in states.items()}
    for row, view, path, summary in zip(rows, shown, paths, summaries, strict=True):
        words = [visible(short[view.loop][visit.state], newlines=False) for visit in path]
        before = [] if summary.is_whole else [style.signs.more]
        row[PATH] = " ".join([*before, compressed(words, style.signs.times)]) or style.signs.none
    return short


def _without_end(view: RunView, path: list[Visit]) -> list[Visit]:
    """Return the path without the final state, which is in another column, if nothing ran in it."""
    ended = view.summary is not None and view.reason == "terminal"
    return path[:-1] if ended and path and path[-1].verdict is None else path


def _metric(values: Sequence[float], style: Style) -> str:
    """Return the first and last value, and the development between them: `12 █▃▁ 0`."""
    if not values:
        return style.signs.none
    first, last = f"{values[0]:g}", f"{values[-1]:g}"
    if len(values) == 1:
        return first
    between = sparkline(values) if style.signs.good == "✓" else style.signs.to
    return f"{first} {between} {last}"


def _fork(view: RunView, style: Style) -> str:
    """Return which run a run was forked from, and after which step."""
    fork = None if view.summary is None else view.summary.fork
    if fork is None:
        return style.signs.none
    return f"{visible(fork.name, newlines=False)}, step {fork.step}"


def _totals_line(past: Past, style: Style) -> str:
    """Return the line below the table."""
    found, dot = past.totals, f" {style.signs.dot} "
    parts = [f"{found.runs} run{'' if found.runs == 1 else 's'}"]
    if len(past.shown) < found.runs:
        parts[0] += f" ({len(past.shown)} shown)"
    of_last = f"of the last {found.read}: " if found.read < found.runs else ""
    parts.append(f"{of_last}{_share_completed(found)}")
    if found.iterations is not None and found.duration_ms is not None:
        once = "" if found.iterations == 1 else "s"
        middle = f"median {found.iterations:g} iteration{once}"
        middle += f", {duration_text(round(found.duration_ms))}"
        middle += f", {money(found.cost_usd, '')}" if found.cost_usd else ""
        parts.append(middle)
    return dot.join(parts)


def _share_completed(found: Totals) -> str:
    if found.read == 1:
        return "completed" if found.completed else "not completed"
    if found.completed == found.read:
        return "all completed"
    share = f" ({found.completed / found.read:.0%})" if found.completed else ""
    return f"{found.completed or 'none'} completed{share}"


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def document(runs: Runs, past: Past, now: int) -> dict[str, Any]:
    """Return the runs and the totals as JSON data."""
    found = past.totals
    return {
        "runs": [_with_path(runs, view, now) for view in past.shown],
        "summary": {
            "runs": found.runs,
            "read": found.read,
            "completed": found.completed,
            "median_iterations": found.iterations,
            "median_duration_ms": found.duration_ms,
            "median_cost_usd": found.cost_usd,
        },
    }


def _with_path(runs: Runs, view: RunView, now: int) -> dict[str, Any]:
    """Return a run as JSON data, with its path and measurements."""
    summary = path_summary(runs, view)
    return as_json(view, runs.texts(view), now) | {
        "path": [visit._asdict() for visit in summary.path],
        "path_is_whole": summary.is_whole,
        "measurements": summary.measured,
    }
