"""What each event does to a run.

A run is the sum of its events: `advance` decides which events happen and this module adds them
up, and so does a resume that reads them back from the log.  There is no other way to change a
`LoopState`, which is why a damaged snapshot can always be made again.

Not here: whether something may happen (`machine`), files (`runs.journal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from little_loops.fsm.endings import is_final
from little_loops.fsm.events import RawEvent, timestamp
from little_loops.fsm.plain import decode
from little_loops.fsm.state import (
    Judgement,
    Limits,
    LoopState,
    Metric,
    Move,
    Receipt,
    Result,
    SignalLine,
    WaitFor,
)

Fields = Mapping[str, Any]


def first_state(run: str, start: RawEvent, context: Mapping[str, Any]) -> LoopState:
    """The run its `loop_start` event begins; headed for its first state, not there yet."""
    fields, now = start.fields, timestamp(start.wall_ms)
    return LoopState(
        run=run,
        loop=fields["loop"],
        current_state=fields["initial"],
        started_at=now,
        updated_at=now,
        scope=tuple(fields["scope"]),
        context=context,
        move=Move(fields["initial"], "initial"),
        limits=Limits(**fields.get("limits", {})),
    )


def evolve(run: LoopState, event: RawEvent) -> LoopState:
    change = CHANGES.get(event.kind)
    if change is not None:
        run = change(run, event)
    return run._replace(updated_at=timestamp(event.wall_ms), ran_ms=event.ran_ms, seq=run.seq + 1)


def replay(run: LoopState, events: Iterable[RawEvent]) -> LoopState:
    for event in events:
        run = evolve(run, event)
    return run


def _state_enter(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    again = fields["step"] == run.step
    return run._replace(
        phase="entered",
        current_state=fields["state"],
        iteration=fields["iteration"],
        step=fields["step"],
        attempt=run.attempt if again else 0,
        retries=run.retries + 1 if again else 0,
        visited=_with(run.visited, fields["state"]),
        entered_by=fields["reason"],
        move=None,
        wait=None,
        judgement=None,
        signal_line=None,
    )


def _action_start(run: LoopState, event: RawEvent) -> LoopState:
    return run._replace(
        phase="running",
        attempt=event.fields["attempt"],
        session_id=event.fields.get("session_id"),
        wait=None,
    )


def _action_complete(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    result = decode(Result, fields)
    stored = {fields["state"]: result}
    if fields.get("capture"):
        stored[fields["capture"]] = result
    line = fields.get("signal_line")
    handed_off = line is not None and line["type"] == "handoff"
    waits = result.agent == "wait"
    return run._replace(
        phase="judging",
        captured={**run.captured, **stored},
        prev_state=fields["state"],
        signal_line=SignalLine(**line) if line else None,
        judgement=None,
        continuation_prompt=run.continuation_prompt if handed_off else None,
        continuations=run.continuations if handed_off else 0,
        handoff_waits=run.handoff_waits if handed_off else 0,
        host_waits=run.host_waits if waits else 0,
        host_waiting_since_ms=run.host_waiting_since_ms if waits else None,
    )


def _action_interrupted(run: LoopState, event: RawEvent) -> LoopState:
    return run._replace(phase="interrupted" if event.fields.get("started", True) else "entered")


def _condition_eval(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    metrics = run.metrics
    if fields.get("best") is not None:
        memory = Metric(fields["best"], fields["stalled"])
        metrics = {**metrics, run.current_state: memory}
    judgement = Judgement(fields["result"], fields["reason"])
    return run._replace(phase="judged", judgement=judgement, metrics=metrics)


def _transition(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    move = Move(fields["to"], fields["reason"], fields.get("retry", False))
    return run._replace(
        phase="moving",
        move=move,
        wait=None,
        timed_out_in=fields.get("loop_timeout", run.timed_out_in),
    )


def _iteration(run: LoopState, event: RawEvent) -> LoopState:
    return run._replace(
        iteration=event.fields["iteration"], visited=(), wait=_waiting("backoff", event)
    )


def _cycle(run: LoopState, event: RawEvent) -> LoopState:
    return run._replace(
        cycle=event.fields["cycle"],
        iteration=1,
        visited=(),
        metrics={},
        wait=_waiting("maintain", event),
    )


def _retry_wait(run: LoopState, event: RawEvent) -> LoopState:
    return run._replace(wait=_waiting("retry", event))


def _host_wait(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    since = run.host_waiting_since_ms
    return run._replace(
        phase="entered",
        wait=WaitFor("host", until_wall_ms=fields["until_wall_ms"], why=fields["reason"]),
        host_waits=run.host_waits + 1,
        host_waiting_since_ms=event.ran_ms if since is None else since,
    )


def _handoff_detected(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    return run._replace(
        phase="entered",
        continuation_prompt=fields["continuation"],
        continuations=run.continuations + 1,
        handed_off_ms=event.wall_ms,
        handoff_waits=run.handoff_waits + 1 if fields.get("wait_ms") else 0,
        wait=_waiting("handoff", event),
        signal_line=None,
    )


def _cost(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    so_far = run.costs.get(fields["state"], Receipt())
    receipt = Receipt(
        so_far.tokens + fields["tokens"],
        so_far.cost_usd + fields["cost_usd"],
        so_far.turns + fields["turns"],
    )
    return run._replace(costs={**run.costs, fields["state"]: receipt})


def _resume(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    limits = {key: value for key, value in fields.get("limits", {}).items() if value is not None}
    run = run._replace(
        status="running",
        reason=None,
        error=None,
        limits=run.limits._replace(**limits),
        context={**run.context, **fields.get("context", {})},
        timed_out_in=None,
    )
    if "max_continuations" in limits:
        run = run._replace(continuations=0)
    if fields.get("again"):
        return run._replace(phase="entered", judgement=None, signal_line=None, wait=None)
    return run


def _final(run: LoopState, event: RawEvent) -> LoopState:
    fields = event.fields
    run = run._replace(
        status=fields["status"],
        reason=fields["reason"],
        error=fields.get("error") or fields.get("message") or None,
    )
    if is_final(fields["status"], fields["reason"]):
        return run._replace(phase="ended")
    return run


CHANGES: dict[str, Callable[[LoopState, RawEvent], LoopState]] = {
    "state_enter": _state_enter,
    "action_start": _action_start,
    "action_complete": _action_complete,
    "action_interrupted": _action_interrupted,
    "condition_eval": _condition_eval,
    "transition": _transition,
    "iteration": _iteration,
    "cycle": _cycle,
    "retry_wait": _retry_wait,
    "host_wait": _host_wait,
    "handoff_detected": _handoff_detected,
    "cost": _cost,
    "resume": _resume,
    "loop_complete": _final,
    "loop_error": _final,
    "loop_timeout": _final,
    "loop_paused": _final,
    "loop_interrupted": _final,
    "handoff": _final,
}


def _waiting(kind: Any, event: RawEvent) -> WaitFor | None:
    wait_ms = event.fields.get("wait_ms")
    return WaitFor(kind, until_ran_ms=event.ran_ms + wait_ms) if wait_ms else None


def _with(visited: tuple[str, ...], state: str) -> tuple[str, ...]:
    return visited if state in visited else (*visited, state)
