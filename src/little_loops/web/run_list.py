"""The list of runs: the current ones, then past ones in pages, and what agents have cost."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby

from little_loops.errors import LittleLoopsError
from little_loops.fsm.ledger import account
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.runs.history_index import PastRun
from little_loops.runs.layout import RunFiles, stem_order
from little_loops.runs.view import RunView
from little_loops.spending.ledger import read as read_ledger
from little_loops.terminal.durations import now_ms
from little_loops.web.errors import bad_request
from little_loops.web.questions import Query, Question
from little_loops.web.rows import GROUPS, group_of, page_word, row

if TYPE_CHECKING:
    from little_loops.web.site import Project, Site

PAGE = 50
WEEK_DAYS = 7
DAY_MS = 86_400_000
FILTERS = ("", "waiting", "running", "queued", "ended", "completed", "failed", "interrupted")
OF_PAST = ("", "ended", "completed", "failed", "interrupted")
MOST_EAST = 24 * 60
LONGEST_TEXT = 200


class Listed(NamedTuple):
    """What filters and orders look at; a current run and a past one have the same."""

    name: str
    stem: str
    run: str
    loop: str
    status: str
    reason: str | None
    state: str
    started_ms: int
    ran_ms: int
    cost_usd: float


Wanted = Callable[[Listed | PastRun], bool]
Measure = Callable[[Listed | PastRun], float]
Place = tuple["Project", PastRun]

SORTS: Mapping[str, Measure] = {
    "": lambda run: 0,
    "oldest": lambda run: -run.started_ms,
    "longest": lambda run: run.ran_ms,
    "costliest": lambda run: run.cost_usd,
}
"""What runs are sorted by, the largest first; equal ones, the newest first."""


def questions() -> list[Question]:
    return [Question("/api/runs", run_list)]


def run_list(site: Site, query: Query) -> Mapping[str, Any]:
    """Return a page of runs: the first with the current ones, each with up to `PAGE` past ones."""
    status = _one_of(query, "status", FILTERS)
    measure = SORTS[_one_of(query, "sort", tuple(SORTS))]
    wanted = _wanted(query, status)
    before = query.query.get("before", "")
    past = _past(site, wanted, measure) if status in OF_PAST else []
    start = _after(past, before, measure)
    shown = past[start : start + PAGE]
    more = start + PAGE < len(past)
    return {
        "schema": 1,
        "current": [] if before else _current(site, status, wanted, measure),
        "past": list(_past_rows(site, shown)),
        "total": len(past),
        "next": _mark(shown[-1], measure) if more else None,
        "cost": cost_totals(site, query.number("zone", _own_zone(), MOST_EAST)),
        "loops": _loops(site),
    }


def _one_of(query: Query, name: str, known: Sequence[str]) -> str:
    """Return a word of the query. Raises `ApiError` if it is none of these; the first is no word."""
    word = query.query.get(name, "")
    if word not in known:
        raise bad_request(
            f"`{name}` must be one of " + ", ".join(f"`{each}`" for each in known[1:])
        )
    return word


def _loops(site: Site) -> list[str]:
    """Return the names of all loops, also of those of which only runs are left."""
    names: set[str] = set()
    for project in site.projects:
        names.update(project.past.gathered().of_loop)
        names.update(entry.name for entry in project.loops.entries())
    return sorted(names)


# ── filters ────────────────────────────────────────────────────────────────────────────────────


def _wanted(query: Query, status: str) -> Wanted | None:
    """Return whether a run matches the filters of the query; None if there are none."""
    loop, day = query.query.get("loop", ""), query.query.get("day", "")
    text = query.query.get("text", "")[:LONGEST_TEXT].casefold()
    words = [word.lstrip("#") for word in text.split()]  # the list shows an id as `#1f2e`
    first_ms = _day_start(day, query.number("zone", 0)) if day else None
    is_status = status in ("completed", "failed", "interrupted")
    if not (loop or words or is_status) and first_ms is None:
        return None

    def is_wanted(run: Listed | PastRun) -> bool:
        if (loop and run.loop != loop) or (is_status and run.status != status):
            return False
        if first_ms is not None and not first_ms <= run.started_ms < first_ms + DAY_MS:
            return False
        return not words or _has_words(run, words)

    return is_wanted


def _has_words(run: Listed | PastRun, words: Sequence[str]) -> bool:
    """Return whether each of these words is somewhere in what a list shows of a run."""
    shown = (run.name, run.loop, run.run, run.stem, run.state, _word(run.status, run.reason))
    text = "\n".join(shown).casefold()
    return all(word in text for word in words)


@lru_cache(maxsize=256)  # thousands of runs have the same few endings
def _word(status: str, reason: str | None) -> str:
    return page_word(RunView(RunFiles("", ""), status, reason))


def _day_start(day: str, zone: int) -> int:
    """Return the first millisecond of a day in a zone, given in minutes east of UTC. Raises
    `ApiError`."""
    try:
        start = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise bad_request("`day` must be a day such as 2026-11-18") from None
    return int(start.timestamp() * 1000) - zone * 60_000


# ── past runs ──────────────────────────────────────────────────────────────────────────────────


def _past(site: Site, wanted: Wanted | None, measure: Measure) -> Sequence[Place]:
    """Return the past runs that match, in order, without those that are queued to continue."""
    found: list[Place] = []
    for project in site.projects:
        queued = {(view.name, view.files.stem) for view in project.queued()}
        found += [
            (project, run)
            for run in project.past.all()
            if (wanted is None or wanted(run)) and (not queued or run.place not in queued)
        ]
    if len(site.projects) > 1 or measure is not SORTS[""]:
        found.sort(key=lambda place: _rank(place, measure), reverse=True)
    return found


def _rank(place: Place, measure: Measure) -> tuple[float, tuple[str, int], str, str]:
    """Return what the order of past runs goes by: no two have the same."""
    project, run = place
    return measure(run), stem_order(run.stem), run.name, project.key


def _mark(place: Place, measure: Measure) -> str:
    """Return the mark of a run, after which the next page begins."""
    project, run = place
    return f"{measure(run)!r}:{project.key}:{run.name}~{run.stem}"


def _after(past: Sequence[Place], mark: str, measure: Measure) -> int:
    """Return where the page after a mark begins, even if the run of the mark is gone."""
    if not mark:
        return 0
    value, _, place = mark.partition(":")
    key, _, run = place.partition(":")
    name, _, stem = run.rpartition("~")
    try:
        last = float(value), stem_order(stem), name, key
    except ValueError:
        raise bad_request("`before` must be the `next` of another page") from None
    return bisect_left(past, True, key=lambda each: _rank(each, measure) < last)


def _past_rows(site: Site, shown: Sequence[Place]) -> Iterator[dict[str, Any]]:
    """Yield the rows of past runs, without those that were deleted meanwhile."""
    for project, places in groupby(shown, key=lambda place: place[0]):
        files = [project.past.files(run) for _, run in places]
        newest, loops = project.past.gathered().newest, project.loops.by_name()
        for view in project.runs.views(files):
            is_newest = newest.get(view.files.name) == view.files.stem
            yield row(site.policy, project, view, is_newest=is_newest, loops=loops)


# ── current runs ───────────────────────────────────────────────────────────────────────────────


def _current(
    site: Site, status: str, wanted: Wanted | None, measure: Measure
) -> list[dict[str, Any]]:
    """Return the current runs that match: waiting for the user first, then running, then queued."""
    is_plain = wanted is None and measure is SORTS[""]
    found = []
    for project in site.projects:
        loops = project.loops.by_name()
        for view in project.current():
            group = group_of(view)
            if status in GROUPS and group != status:
                continue
            # Most readers ask for all of them, in the usual order.
            listed = None if is_plain else _listed(view)
            if listed is None or wanted is None or wanted(listed):
                size = 0 if listed is None else measure(listed)
                rank = (-GROUPS.index(group), size, view.updated_ms)
                found.append((rank, row(site.policy, project, view, loops=loops)))
    found.sort(key=lambda each: each[0], reverse=True)
    return [each for _, each in found]


def _listed(view: RunView) -> Listed:
    summary = view.summary
    return Listed(
        view.name,
        view.files.stem or "",
        summary.run if summary else "",
        view.loop,
        view.status,
        view.reason,
        summary.current_state if summary else "",
        view.started_ms,
        view.ran_ms(now_ms()),
        summary.cost_usd if summary else 0,
    )


# ── cost ───────────────────────────────────────────────────────────────────────────────────────


def cost_totals(site: Site, zone: int) -> dict[str, Any]:
    """Return what the agents of these projects have cost today and in the last seven days."""
    now = datetime.now(UTC) + timedelta(minutes=zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(minutes=zone)
    today_ms = int(midnight.timestamp() * 1000)
    week_ms = today_ms - (WEEK_DAYS - 1) * DAY_MS
    roots = {os.path.realpath(project.root) for project in site.projects}
    try:
        turns = account(read_ledger(site.environ, week_ms)).turns
    except LittleLoopsError:
        turns = ()
    ours = [turn for turn in turns if os.path.realpath(turn.project) in roots]
    return {
        "today_usd": round(sum(turn.cost_usd or 0 for turn in ours if turn.at_ms >= today_ms), 6),
        "week_usd": round(sum(turn.cost_usd or 0 for turn in ours), 6),
        "estimated": any(turn.estimated for turn in ours),
    }


def _own_zone() -> int:
    offset = datetime.now().astimezone().utcoffset()
    return 0 if offset is None else round(offset.total_seconds() / 60)
