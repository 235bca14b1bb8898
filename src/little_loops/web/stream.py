"""Live: what changes in the list of runs, and what a run does, as lines of JSON until the reader leaves.

A stream watches the directories of what is on the screen. Events go by their number: a reader that
comes back asks for those after the last one it got, and gets each exactly once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse
from starlette.routing import Route

from little_loops.errors import LittleLoopsError, UsageError
from little_loops.fsm.events import ActionComplete, ActionInterrupted, ActionStart
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.runs.follow import GrowingLog, open_events
from little_loops.runs.layout import DATA, EVENTS, LIVE, PID, QUEUE, RUNNING, SPAWN, STATE, named
from little_loops.runs.outputs import open_outputs
from little_loops.runs.project import loops_of
from little_loops.system.files import to_json
from little_loops.system.watching import POLL_S, Change, Watch, watch
from little_loops.terminal.durations import now_ms
from little_loops.web.endpoints import error_response, looked_for
from little_loops.web.questions import Query
from little_loops.web.rows import row
from little_loops.web.run_page import last_step, recent_events, run_row

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from little_loops.web.site import FoundRun, Project, Site

PING_S = 15.0
ALIVE_S = 2.0
"""How often to check that a live run is still alive: a process that is killed changes no file."""
TOGETHER_S = 0.05
"""Changes within this time are reported together."""
EVENTS_AT_ONCE = 1000
LIST_SUFFIXES = (STATE, EVENTS, PID, SPAWN, DATA)

Item = Mapping[str, Any]


def routes(site: Site) -> list[Route]:
    async def lists(request: Request) -> Response:
        return _response(ListStream(site).items())

    async def one(request: Request) -> Response:
        try:
            query = Query(request.path_params, request.query_params, {})
            stream = await run_sync(RunStream, site, query)
        except Exception as error:
            return error_response(error)
        return _response(stream.items())

    return [
        Route("/api/stream", lists, methods=["GET"]),
        Route("/api/runs/{run}/stream", one, methods=["GET"]),
    ]


def _response(items: AsyncIterator[list[Item]]) -> Response:
    async def lines() -> AsyncIterator[bytes]:
        async for found in items:
            yield b"".join(to_json(item) + b"\n" for item in found)

    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


class Changes:
    """Waits for changes without a thread."""

    def __init__(self, watched: Watch, closing: asyncio.Event) -> None:
        self.watch = watched
        self._closing = closing
        self._ready = asyncio.Event()
        self._is_closed = False
        descriptor = watched.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._ready.set)

    async def wait(self, longest_s: float) -> set[Change]:
        """Return what has changed; empty after `longest_s`, or if the server ends."""
        polls = self.watch.fileno() is None
        deadline = time.monotonic() + longest_s
        while not self._closing.is_set():
            left_s = deadline - time.monotonic()
            await self._sleep(min(left_s, POLL_S) if polls else left_s)
            self._ready.clear()
            found = self.watch.changes()
            if found:
                await asyncio.sleep(0 if polls else TOGETHER_S)
                return found | self.watch.changes()
            if time.monotonic() >= deadline:
                break
        return set()

    async def _sleep(self, longest_s: float) -> None:
        """Wait until the kernel reports something, the server ends, or the time is over."""
        waiting = [asyncio.ensure_future(each.wait()) for each in (self._ready, self._closing)]
        try:
            await asyncio.wait(
                waiting, timeout=max(longest_s, 0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()

    @property
    def is_over(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        descriptor = self.watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        self.watch.close()


# ── the lists ──────────────────────────────────────────────────────────────────────────────────


class ListStream:
    """Reports the current runs that change, and that loop files have changed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._folders = {
            os.path.join(project.root, loops_of(project.root)): project for project in site.projects
        }
        self._known: dict[tuple[str, str], Item] = {}
        self._looked_s = 0.0

    async def items(self) -> AsyncGenerator[list[Item], None]:
        changes = Changes(watch(kind=self._site.live), self._site.closing)
        try:
            self._add_folders(changes.watch)
            yield [{"type": "hello", "live": changes.watch.kind, "at_ms": now_ms()}]
            await run_sync(self._look, None)  # what the page has just loaded is not news
            pinged_s = time.monotonic()
            while not changes.is_over:
                found = await changes.wait(ALIVE_S if self._has_alive() else PING_S)
                self._add_folders(changes.watch)
                news = await run_sync(self._news, found)
                if time.monotonic() - pinged_s >= PING_S:
                    pinged_s = time.monotonic()
                    news.append({"type": "ping", "at_ms": now_ms()})
                if news:
                    yield news
        finally:
            changes.close()

    def _add_folders(self, watched: Watch) -> None:
        for folder in self._folders:
            watched.add(folder)
            watched.add(os.path.join(folder, RUNNING))
            watched.add(os.path.join(folder, RUNNING, QUEUE))

    def _has_alive(self) -> bool:
        return any(item["pid"] for item in self._known.values())

    def _news(self, found: set[Change]) -> list[Item]:
        """Return what is new, given what has changed in the watched directories."""
        news: list[Item] = []
        if any(path in self._folders and _is_loop_file(name) for path, name in found):
            news.append({"type": "loops"})
        touched: set[tuple[str, str]] = set()
        for path, name in found:
            folder, last = os.path.split(path.removesuffix(os.sep + QUEUE))
            if last == RUNNING and folder in self._folders:
                project = self._folders[folder]
                touched |= {(project.key, run) for run in named([name], *LIST_SUFFIXES)}
                if not name:
                    return news + self._look(None)
                if path.endswith(QUEUE) or name == QUEUE or name.endswith(PID):
                    touched |= self._queued(project)  # they may wait for another one now
        if not found and time.monotonic() - self._looked_s >= ALIVE_S:
            return news + self._look(self._alive())
        return news + self._look(touched)

    def _queued(self, project: Project) -> set[tuple[str, str]]:
        """Return the runs of a project that are queued, or were."""
        were = {p for p, item in self._known.items() if item["status"] == "queued"}
        now = {(project.key, view.name) for view in project.runs.queued()}
        return {place for place in were if place[0] == project.key} | now

    def _alive(self) -> set[tuple[str, str]]:
        """Return the runs that were alive, and are so no more by their locks."""
        found = set()
        for place, item in self._known.items():
            if item["pid"] and self._site.project(place[0]).runs.is_alive(place[1]) is None:
                found.add(place)
        self._looked_s = time.monotonic()
        return found

    def _look(self, touched: set[tuple[str, str]] | None) -> list[Item]:
        """Return the rows of these runs that have changed, or of all runs."""
        if touched is None:
            return self._look_at_all()
        news: list[Item] = []
        for key, name in sorted(touched):
            project = self._site.project(key)
            try:
                view = project.runs.view(name)
            except LittleLoopsError:
                continue
            if view is not None:
                view = project.full(view)
            if view is None or (view.files.stem is not None and not view.is_alive):
                news += self._gone(key, name, project)
                if view is not None:
                    news.append({"type": "run", "run": row(self._site.policy, project, view)})
            else:
                news += self._changed(key, name, row(self._site.policy, project, view))
        return news

    def _look_at_all(self) -> list[Item]:
        news: list[Item] = []
        seen = set()
        for project in self._site.projects:
            loops = project.loops.by_name()
            for view in project.current():
                seen.add((project.key, view.name))
                item = row(self._site.policy, project, view, loops=loops)
                news += self._changed(project.key, view.name, item)
        for key, name in self._known.keys() - seen:
            news += self._gone(key, name, self._site.project(key))
        return news

    def _changed(self, key: str, name: str, item: Item) -> list[Item]:
        before = self._known.get((key, name))
        self._known[key, name] = item
        return [] if _is_same(before, item) else [{"type": "run", "run": item}]

    def _gone(self, key: str, name: str, project: Project) -> list[Item]:
        before = self._known.pop((key, name), None)
        return [] if before is None else [{"type": "gone", "key": before["key"]}]


def _is_loop_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) and not name.startswith(".")


def _is_same(before: Item | None, item: Item) -> bool:
    """Return whether two rows differ only in their times."""
    if before is None:
        return False
    clocks = ("at_ms", "duration_ms")
    return all(before.get(name) == value for name, value in item.items() if name not in clocks)


# ── one run ────────────────────────────────────────────────────────────────────────────────────


class RunStream:
    """Reports the events of a run, its row when it changes, and how its output grows."""

    def __init__(self, site: Site, query: Query) -> None:
        """Find the run. Raises `ApiError` if there is none."""
        self._site = site
        self._key = query.path["run"]
        self._after = max(query.number("after", 0), 0)
        self._run = query.query.get("run") or None
        self._found = site.run(self._key)
        self._log: GrowingLog | None = None
        self._row: Item | None = None
        self._sizes: Item | None = None
        self._has_ended = False

    async def items(self) -> AsyncGenerator[list[Item], None]:
        changes = Changes(watch(kind=self._site.live), self._site.closing)
        try:
            await run_sync(self._watch, changes.watch)
            yield [{"type": "hello", "live": changes.watch.kind, "at_ms": now_ms()}]
            pinged_s = time.monotonic()
            while not changes.is_over:
                news = await run_sync(self._news)
                if news:
                    yield news
                if any(item["type"] == "replaced" for item in news):
                    return
                if sum(item["type"] == "event" for item in news) >= EVENTS_AT_ONCE:
                    continue  # there may be more
                await changes.wait(ALIVE_S if self._found.view.is_alive else PING_S)
                await run_sync(self._watch, changes.watch)
                if time.monotonic() - pinged_s >= PING_S:
                    pinged_s = time.monotonic()
                    yield [{"type": "ping", "at_ms": now_ms()}]
        finally:
            changes.close()
            if self._log is not None:
                self._log.close()

    def _watch(self, watched: Watch) -> None:
        """Watch the files of the run where they are now; before it has any, their directory."""
        files = self._found.view.files
        found = watched.add(files.events)
        watched.add(files.data)
        for name in LIVE.values():  # macOS does not report that a file in a directory grows
            if watched.kind == "kqueue":
                watched.add(os.path.join(files.data, name))
        if not found or self._found.view.is_alive:
            watched.add(files.pid)
        if not found:
            watched.add(files.directory)

    def _news(self) -> list[Item]:
        """Return what is new since the last call."""
        try:
            self._found = looked_for(lambda: self._site.run(self._key))
        except Exception:
            return [{"type": "replaced", "run": None}]
        view = self._found.view
        current = view.summary.run if view.summary else None
        if self._run is None:
            self._run = current
        elif current is not None and current != self._run:
            return [*self._events(), {"type": "replaced", "run": current}]
        # The state first, then the log: an end that is shown has all events before it.
        item = run_row(self._site, self._found, None)
        news = self._events()
        if not _is_same(self._row, item):
            news.append({"type": "run", "run": item})
        self._row = item
        news += self._output()
        return news + self._ending()

    def _events(self) -> list[Item]:
        """Return the events that were not reported yet, at most `EVENTS_AT_ONCE`."""
        if self._log is None and not self._open():
            return []
        assert self._log is not None, "it was opened"
        news: list[Item] = []
        for seq, record in self._log.numbered():
            if seq <= self._after:
                continue
            self._after = seq
            news.append({"type": "event", "seq": seq, "event": record})
            if len(news) >= EVENTS_AT_ONCE:
                break
        return news

    def _open(self) -> bool:
        """Open the log of the run; return False if it has none yet."""
        view = self._found.view
        if view.is_blank:
            return False
        try:
            _, self._log = open_events(self._found.project.runs, view)
        except UsageError:
            return False
        self._log.skip(self._after)
        return True

    def _output(self) -> list[Item]:
        """Return how much the current action has printed, if that has changed."""
        view = self._found.view
        if not view.is_alive or view.status == "queued":
            return []
        outputs = open_outputs(view.files)
        if outputs is None:
            return []
        try:
            live = outputs.live()
        finally:
            outputs.close()
        found = _current_action(self._found)
        if found is None:
            return []
        sizes = {"stdout": live.stdout.size, "stderr": live.stderr.size}
        item = {"type": "output", "step": found[0], "attempt": found[1], **sizes}
        if item == self._sizes:
            return []
        self._sizes = item
        return [item]

    def _ending(self) -> list[Item]:
        """Return an item once for each time that the run has ended."""
        had, self._has_ended = self._has_ended, not self._found.view.is_alive
        return [{"type": "end"}] if self._has_ended and not had else []


def _current_action(found: FoundRun) -> tuple[int, int] | None:
    """Return the step and the attempt of the action that is running; None if none is."""
    entries = recent_events(found.project, found.view)
    for entry in reversed(entries):
        match entry.event:
            case ActionStart(attempt=attempt):
                return last_step(entries), attempt
            case ActionComplete() | ActionInterrupted():
                return None
            case _:
                continue
    return None
