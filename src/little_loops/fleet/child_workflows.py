"""The workflows of the runs that a run has started, as its own workflow knows them.

A child reports its end with a signal, because a workflow that continues as another execution hears
nothing else of workflows that it started before. What one that paused needs to continue is kept here.

Not here: which children start and stop (`fsm.joins`), taking in their work (`seat_children`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any  # Temporal reads the hints of what it calls

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from little_loops.fleet import names
from little_loops.fsm.branching import branch_names
from little_loops.fsm.commands import RunChildren
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.joins import CRASHED
from little_loops.fsm.limits import cost_allowed_usd
from little_loops.fsm.plain import encode
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import Limits, LoopState
from little_loops.records import NamedTuple


class Running(NamedTuple):
    """A child that runs: its workflow, and what it may spend of the limits of its parent."""

    workflow: str
    most: Limits


class ChildWorkflows:
    """The children of one run, by the names of their directories."""

    def __init__(self, carried: Mapping[str, Any] | None) -> None:
        """`carried` is what an earlier execution had (`carried`)."""
        found = carried or {}
        self.running = {
            key: Running(each["workflow"], Limits(**each["most"]))
            for key, each in found.get("running", {}).items()
        }
        self.arrived: dict[str, dict[str, Any]] = found.get("arrived", {})
        self._paused: dict[str, dict[str, Any]] = found.get("paused", {})
        self._starts: dict[str, int] = found.get("starts", {})

    def carried(self) -> dict[str, Any]:
        """Return what another execution of this workflow continues with."""
        running = {
            key: {"workflow": each.workflow, "most": each.most._asdict()}
            for key, each in self.running.items()
        }
        starts = {"starts": self._starts} if self._starts else {}
        return {"running": running, "arrived": self.arrived, "paused": self._paused, **starts}

    def workflows(self) -> dict[str, str]:
        """Return the ids of the workflows of the children that run."""
        return {key: each.workflow for key, each in self.running.items()}

    def knows(self, key: str) -> bool:
        """Return whether a child runs, or has ended and is not recorded yet."""
        return key in self.running or key in self.arrived

    def end(self, report: Mapping[str, Any]) -> None:
        """Note that a child has ended. One that nobody waits for any more is ignored, and so is a late
        report of an earlier workflow of one that continues."""
        child = self.running.get(report["key"])
        if child is not None and report.get("workflow", child.workflow) == child.workflow:
            del self.running[report["key"]]
            self.arrived[report["key"]] = dict(report)

    def recorded(self, name: str) -> None:
        """Forget that a child has arrived, now that its end is recorded."""
        for key, report in list(self.arrived.items()):
            if report["name"] == name:
                del self.arrived[key]
                if report["left"] is not None:
                    self._paused[key] = report["left"]

    def paused(self, key: str) -> dict[str, Any] | None:
        """Return what a child has left that continues now, once; None if there is none."""
        return self._paused.pop(key, None)

    async def start(self, key: str, given: Mapping[str, Any], most: Limits) -> None:
        """Start the workflow of a child."""
        about = given["child"]
        before = self._starts.get(key, 0)
        self._starts[key] = before + 1
        folder = f"{key}~{before}" if before else key  # the one before may not have closed yet
        identity = names.child_workflow_id(about["owner"], about["parent"]["run"], folder)
        self.running[key] = Running(identity, most)
        try:
            handle = await workflow.start_child_workflow(
                names.CHILD_WORKFLOW,
                given,
                id=identity,
                task_queue=names.RUNS_QUEUE,
                task_timeout=names.DECIDE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                # The parent also closes when it continues as another execution.
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            return  # an earlier execution has started it
        asyncio.ensure_future(self._watch(key, about["name"], handle))  # noqa: RUF006

    async def _watch(
        self, key: str, name: str, handle: workflow.ChildWorkflowHandle[Any, Any]
    ) -> None:
        """Note that a child was lost: somebody has ended its workflow from outside."""
        try:
            await handle
        except FailureError:
            self.end(_lost(key, name, ChildOutcome(CRASHED, "crash")))

    async def stop(self, keys: Iterable[str], signum: int) -> None:
        """Ask children to stop."""
        for key in keys:
            child = self.running.get(key)
            if child is None:
                continue  # it has ended, perhaps while others were asked
            handle = workflow.get_external_workflow_handle(child.workflow)
            try:
                await handle.signal("stop", signum)
            except FailureError:  # there is no such workflow any more
                name = key.split("-", 2)[2]
                self.end(_lost(key, name, ChildOutcome("interrupted", "signal")))

    async def abandon(self, signum: int) -> None:
        """Stop all children: what they were started for is over."""
        with suppress(FailureError):
            await self.stop(list(self.running), signum)
        self.running, self.arrived, self._paused = {}, {}, {}

    def share(self, loop: FSMLoop, run: LoopState, command: RunChildren, name: str) -> Limits:
        """Return what a child that starts now may spend of the limits of its parent: its part of what
        neither is spent nor was promised to others."""
        free = max(1, command.width - len(self.running))
        used = run.costs.values()
        usd, tokens = cost_allowed_usd(loop, run), run.limits.max_tokens or loop.max_tokens
        if usd is not None:
            usd -= sum(each.cost_usd for each in used)
            usd -= sum(each.most.max_cost_usd or 0 for each in self.running.values())
            usd = round(max(0.0, usd / free), 6)
        if tokens is not None:
            tokens -= sum(each.tokens for each in used)
            tokens -= sum(each.most.max_tokens or 0 for each in self.running.values())
            tokens = max(0, tokens // free)
        return _lowered(
            Limits(max_cost_usd=usd, max_tokens=tokens), loop.states[command.state], name
        )


def _lost(key: str, name: str, outcome: ChildOutcome) -> dict[str, Any]:
    """Return the report of a child that cannot report its end."""
    return {"key": key, "name": name, "checkpoints": "", "outcome": encode(outcome), "left": None}


def _step(state: StateConfig, name: str) -> StateConfig:
    """Return what a child runs, as far as it does not depend on its item."""
    if state.branches is None or not state.branches.named:
        return state
    keys = list(state.branches.named)
    return state.branches.named[keys[branch_names(state.branches, ()).index(name)]]


def labels_of_child(state: StateConfig, name: str, parent: Mapping[str, Any]) -> Sequence[str]:
    """Return which labels the worker of a child must have: those of the state, else of its loop,
    else of its parent."""
    loop = _step(state, name).loop
    for each in (state.runs_on, None if loop is None else loop.runs_on):
        if each is not None:
            return each.labels
    labels: Sequence[str] = parent.get("labels") or ()
    return labels


def _lowered(most: Limits, state: StateConfig, name: str) -> Limits:
    """Return no more than the child needs by its own limits, so that others get the rest."""
    step = _step(state, name)
    own = [] if step.loop is None else [step.loop.max_cost_usd]
    limits = step.limits or state.limits
    own += [] if limits is None else [limits.max_cost_usd]
    known = [each for each in own if each is not None]
    if most.max_cost_usd is None or not known:
        return most
    return most._replace(max_cost_usd=min(most.max_cost_usd, *known))
