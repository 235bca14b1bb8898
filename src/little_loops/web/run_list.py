"""The list of runs: the current ones, then past ones in pages, and what agents have cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby

from little_loops.errors import LittleLoopsError
from little_loops.fsm.ledger import account
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.runs.history_index import PastRun
from little_loops.runs.layout import stem_order
from little_loops.runs.view import RunView
from little_loops.spending.ledger import read as read_ledger
from little_loops.web.errors import bad_request
from little_loops.web.questions import Query, Question
from little_loops.web.rows import GROUPS, row

if TYPE_CHECKING:
    from little_loops.web.site import Project, Site

PAGE = 50
WEEK_DAYS = 7
DAY_MS = 86_400_000
FILTERS = ("", "waiting", "running", "queued", "ended", "completed", "failed", "interrupted")
OF_PAST = ("", "ended", "completed", "failed", "interrupted")
MOST_EAST = 24 * 60

Wanted = Callable[[str, str, int], bool]
"""Whether a run with this loop, status and start is wanted."""


def questions() -> list[Question]:
    return [Question("/api/runs", run_list)]


def run_list(site: Site, query: Query) -> Mapping[str, Any]:
    """Return a page of runs: the first with the current ones, each with up to `PAGE` past ones."""
    status = query.query.get("status", "")
    if status not in FILTERS:
        raise bad_request("`status` must be one of " + ", ".join(f"`{f}`" for f in FILTERS[1:]))
    wanted = _wanted(query, status)
    before = query.query.get("before", "")
    past = _past(site, wanted) if status in OF_PAST else []
    start = _after(past, before)
    shown = past[start : start + PAGE]
    newest = _newest(site)
    more = start + PAGE < len(past)
    return {
        "schema": 1,
        "current": [] if before else _current(site, status, wanted),
        "past": list(_past_rows(site, shown, newest)),
        "total": len(past),
        "next": _mark(shown[-1]) if more else None,
        "cost": cost_totals(site, query.number("zone", _own_zone(), MOST_EAST)),
        "loops": sorted(
            {run.loop for _, run in past}
            | {entry.name for project in site.projects for entry in project.loops.entries()}
        ),
    }


def _wanted(query: Query, status: str) -> Wanted:
    """Return whether a run matches the filters of the query."""
    loop, day = query.query.get("loop", ""), query.query.get("day", "")
    first_ms = _day_start(day, query.number("zone", 0)) if day else None

    def is_wanted(of_loop: str, of_status: str, started_ms: int) -> bool:
        in_day = first_ms is None or first_ms <= started_ms < first_ms + DAY_MS
        is_status = status in ("", "ended", "waiting", "running", "queued") or of_status == status
        return in_day and is_status and (not loop or of_loop == loop)

    return is_wanted


def _day_start(day: str, zone: int) -> int:
    """Return when a day begins in a zone, given in minutes east of UTC. Raises `ApiError`."""
    try:
        start = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise bad_request("`day` must be a day such as 2026-11-18") from None
    return int(start.timestamp() * 1000) - zone * 60_000


def _past(site: Site, wanted: Wanted) -> list[tuple[Project, PastRun]]:
    """Return the past runs that match, newest first, without those that are queued to continue."""
    found = []
    for project in site.projects:
        queued = {(view.name, view.files.stem) for view in project.queued()}
        found += [
            (project, run)
            for run in project.past.all()
            if wanted(run.loop, run.status, run.started_ms) and (run.name, run.stem) not in queued
        ]
    if len(site.projects) > 1:
        found.sort(key=lambda each: stem_order(each[1].stem), reverse=True)
    return found


def _mark(place: tuple[Project, PastRun]) -> str:
    project, run = place
    return f"{project.key}:{run.name}~{run.stem}"


def _after(past: list[tuple[Project, PastRun]], mark: str) -> int:
    """Return where the page after a mark begins; if its run is gone, by its time."""
    if not mark:
        return 0
    stem = stem_order(mark.rpartition("~")[2])
    for number, place in enumerate(past):
        if _mark(place) == mark:
            return number + 1
        if stem_order(place[1].stem) < stem:
            return number
    return len(past)


def _newest(site: Site) -> set[tuple[str, str, str]]:
    """Return the newest past run of each name that has no current run."""
    found: dict[tuple[str, str], str] = {}
    for project in site.projects:
        for run in project.past.all():
            found.setdefault((project.key, run.name), run.stem)
    return {(*place, stem) for place, stem in found.items()}


def _past_rows(
    site: Site, shown: list[tuple[Project, PastRun]], newest: set[tuple[str, str, str]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of past runs, without those that were deleted meanwhile."""
    for project, places in groupby(shown, key=lambda place: place[0]):
        files = [project.past.files(run) for _, run in places]
        for view in project.runs.views(files):
            is_newest = (project.key, view.files.name, view.files.stem or "") in newest
            yield row(site.policy, project, view, is_newest=is_newest)


def _current(site: Site, status: str, wanted: Wanted) -> list[dict[str, Any]]:
    """Return the current runs that match: waiting for the user first, then running, then queued."""
    found = [
        row(site.policy, project, view)
        for project in site.projects
        for view in project.current()
        if _is_wanted_now(view, wanted)
    ]
    if status in GROUPS:
        found = [each for each in found if each["group"] == status]
    return sorted(found, key=lambda each: (GROUPS.index(each["group"]), -each["updated_ms"]))


def _is_wanted_now(view: RunView, wanted: Wanted) -> bool:
    return wanted(view.loop, view.status, view.started_ms)


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
