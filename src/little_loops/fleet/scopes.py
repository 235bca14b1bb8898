"""Which runs of a repository work on which scopes: one workflow per repository hands them out.

The rule is that of one computer: two runs whose scopes overlap never work at once, and whoever asks
first gets a scope first. A run asks when it starts or continues, and gives its scope back when it
ends or pauses.

Not here: what overlaps (`fsm.scope`), asking (`workflow`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any  # Temporal reads the hints of what it calls

from temporalio import workflow
from temporalio.exceptions import FailureError

from little_loops.fleet import names
from little_loops.fsm.scope import normalise, overlaps
from little_loops.records import NamedTuple

FIRST_LOOK_S = 2.0
LONGEST_LOOK_S = 60.0
"""How often holders are looked for while others wait: at first after the one, later after the other."""
IDLE = timedelta(seconds=30)
"""How long the workflow stays when nobody holds or wants a scope."""


class ScopeRequest(NamedTuple):
    """A run that holds a scope or waits for it. `workflow` is that of the run, `ticket` tells its
    sessions apart."""

    ticket: str
    workflow: str
    name: str
    scope: tuple[str, ...]


def scope_in_repository(prefix: str, scope: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of a scope from the root of the repository, for a project at `prefix`."""
    return tuple(normalise(f"{prefix}/{path}" if prefix else path) for path in scope)


class ScopeQueue:
    """Who holds a scope, and who waits, in the order in which they asked."""

    def __init__(
        self, holders: Iterable[ScopeRequest] = (), waiting: Iterable[ScopeRequest] = ()
    ) -> None:
        self.holders = list(holders)
        self.waiting = list(waiting)

    def ask(self, wanted: ScopeRequest) -> None:
        """Put a run at the end of the queue, unless it is there or holds the scope. What it had in
        an earlier session is over."""
        if wanted not in (*self.holders, *self.waiting):
            self.drop(wanted.workflow)
            self.waiting.append(wanted)

    def drop(self, workflow_id: str, ticket: str | None = None) -> None:
        """Remove a run, or only what it had with this ticket."""

        def stays(each: ScopeRequest) -> bool:
            return each.workflow != workflow_id or ticket not in (None, each.ticket)

        self.holders = [each for each in self.holders if stays(each)]
        self.waiting = [each for each in self.waiting if stays(each)]

    def blocker(self, wanted: ScopeRequest) -> ScopeRequest | None:
        """Return the run that this one waits for: one that holds its scope, else one that came
        before it."""
        earlier = self.waiting[: self.waiting.index(wanted)]
        found = (each for each in (*self.holders, *earlier) if overlaps(wanted.scope, each.scope))
        return next(found, None)

    def grant(self) -> list[ScopeRequest]:
        """Hand out what is free, and return who got it."""
        granted = []
        for each in list(self.waiting):
            if self.blocker(each) is None:
                self.waiting.remove(each)
                self.holders.append(each)
                granted.append(each)
        return granted


@workflow.defn(name=names.SCOPES_WORKFLOW, sandboxed=False)
class ScopesWorkflow:
    """The scopes of one repository, as long as a run holds or wants one."""

    @workflow.init
    def __init__(self, given: dict[str, Any]) -> None:
        """`given` is what an earlier execution has left; empty for the first one."""
        self.queue = ScopeQueue(
            map(_ticket, given.get("holders", ())), map(_ticket, given.get("waiting", ()))
        )
        self.told: dict[str, str] = {}
        self.is_changed = True
        self.look_s = FIRST_LOOK_S

    @workflow.run
    async def run(self, given: dict[str, Any]) -> None:
        while True:
            await self._hand_out()
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._left())
            if not self.queue.holders and not self.queue.waiting:
                if not await self._changes(IDLE):
                    return
            elif self.queue.waiting:
                if not await self._changes(timedelta(seconds=self.look_s)):
                    self.look_s = min(2 * self.look_s, LONGEST_LOOK_S)
                    await self._look()
            else:
                await self._changes(None)

    @workflow.signal
    def ask(self, wanted: dict[str, Any]) -> None:
        self.queue.ask(_ticket(wanted))
        self.is_changed, self.look_s = True, FIRST_LOOK_S

    @workflow.signal
    def give_back(self, held: dict[str, Any]) -> None:
        self.queue.drop(held["workflow"], held["ticket"])
        self.is_changed = True

    @workflow.query
    def tickets(self) -> dict[str, Any]:
        return self._left()

    async def _changes(self, within: timedelta | None) -> bool:
        """Wait until somebody asks or gives back; return False if nobody does."""
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self.is_changed, timeout=within)
        return self.is_changed

    async def _hand_out(self) -> None:
        """Tell runs that they have their scope, and others for whom they wait."""
        self.is_changed = False
        for each in self.queue.grant():
            self.told.pop(each.ticket, None)
            await self._tell(each, names.SCOPE_GRANTED, each.ticket)
        for each in list(self.queue.waiting):
            blocker = self.queue.blocker(each) if each in self.queue.waiting else None
            if blocker is not None and self.told.get(each.ticket) != blocker.ticket:
                self.told[each.ticket] = blocker.ticket
                await self._tell(each, names.SCOPE_BLOCKED, _words(blocker))

    async def _look(self) -> None:
        """Drop holders whose workflows are gone."""
        for each in list(self.queue.holders):
            await self._tell(each, names.SCOPE_HELD)

    async def _tell(self, to: ScopeRequest, signal: str, *about: str) -> None:
        """Send a signal to a run; drop it if it is gone."""
        try:
            await workflow.get_external_workflow_handle(to.workflow).signal(signal, args=about)
        except FailureError:
            self.queue.drop(to.workflow, to.ticket)
            self.is_changed = True

    def _left(self) -> dict[str, Any]:
        return {
            "holders": [each._asdict() for each in self.queue.holders],
            "waiting": [each._asdict() for each in self.queue.waiting],
        }


def _ticket(data: Mapping[str, Any]) -> ScopeRequest:
    return ScopeRequest(data["ticket"], data["workflow"], data["name"], tuple(data["scope"]))


def _words(holder: ScopeRequest) -> str:
    """Return whom a run waits for, in words."""
    return f"`{holder.name}`, whose scope overlaps ({', '.join(holder.scope)})"
