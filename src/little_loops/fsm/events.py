"""What a run tells: one catalogue of event types, and the event itself.

The catalogue is the contract with every reader of the log: tests check each emitted event against
it, and the reference page is made from it.

Not here: what an event does to a run (`evolve`), how it looks on a screen (`reporting.lines`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from little_loops.records import NamedTuple

LAST_MS = 253_402_300_799_999  # the end of the year 9999


class Event(NamedTuple):
    """One line of the log.  `wall_ms` becomes `ts`; `ran_ms` is the run's own time."""

    kind: str
    fields: Mapping[str, Any]
    wall_ms: int
    ran_ms: int


class EventType(NamedTuple):
    meaning: str
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()


_ENDING = ("status", "reason", "final_state", "iterations", "duration_ms")

EVENTS: dict[str, EventType] = {
    "loop_start": EventType(
        "a run begins",
        ("loop", "initial", "scope"),
        ("limits", "format"),
    ),
    "state_enter": EventType("a state is entered", ("state", "iteration"), ("step", "reason")),
    "action_start": EventType(
        "an action is about to run; written before it does",
        ("action", "state", "attempt", "action_type"),
        ("session_id", "terminal"),
    ),
    "action_complete": EventType(
        "an action has ended by itself or at its deadline",
        ("state", "exit_code", "duration_ms"),
        (
            "output",
            "stderr",
            "output_file",
            "stderr_file",
            "tail",
            "open_ended",
            "stderr_open_ended",
            "order",
            "order_file",
            "signal",
            "cut_by",
            "failure",
            "agent",
        )
        + ("kind", "reason", "verdict", "structured", "session_id", "tokens", "cost_usd", "turns")
        + ("retry_at_ms", "stream_file", "signal_line", "capture"),
    ),
    "action_interrupted": EventType(
        "an action was cut short, or was lost with its runner",
        ("state", "attempt", "cause"),
        ("started", "exit_code", "signal", "duration_ms", "output", "stderr", "output_file")
        + ("stderr_file", "stream_file", "open_ended", "stderr_open_ended", "order", "order_file"),
    ),
    "condition_eval": EventType(
        "a condition was judged", ("type", "result", "reason"), ("state", "best", "stalled")
    ),
    "signal": EventType("a signal line was found in the output", ("type", "payload"), ("state",)),
    "transition": EventType("a way was taken", ("from", "to", "reason"), ("retry", "loop_timeout")),
    "iteration": EventType("a new time around begins", ("iteration",), ("wait_ms",)),
    "cycle": EventType("a `maintain` loop starts again", ("cycle", "wait_ms")),
    "retry_wait": EventType(
        "waiting before the same state runs again", ("state", "attempt", "wait_ms")
    ),
    "host_wait": EventType(
        "waiting for an agent's limit to reset, or for its service",
        ("state", "reason", "until_wall_ms"),
        ("wait_ms",),
    ),
    "handoff_detected": EventType(
        "an action handed off",
        ("state", "iteration", "continuation"),
        ("wait_ms",),
    ),
    "cost": EventType(
        "what an agent used", ("state", "tokens", "cost_usd", "turns"), ("iteration",)
    ),
    "warning": EventType("something to know that changed nothing", ("message",), ("state",)),
    "resume": EventType(
        "an unfinished run goes on",
        ("state", "iteration"),
        ("orphans", "limits", "context", "again", "status", "continuation", "wait", "wait_ms"),
    ),
    "loop_complete": EventType("the run ended as it should", _ENDING, ("message",)),
    "loop_error": EventType("the run failed", (*_ENDING, "state", "error"), ("next_state",)),
    "loop_timeout": EventType(
        "the run used up its time", (*_ENDING, "state", "elapsed_ms"), ("next_state",)
    ),
    "loop_paused": EventType("a person is asked to look", _ENDING, ("message",)),
    "loop_interrupted": EventType("the run was stopped and can go on", (*_ENDING, "signal"), ()),
    "handoff": EventType(
        "the run waits for a fresh session", _ENDING, ("message", "behavior", "continuation")
    ),
}
FINAL_EVENTS = (
    "loop_complete",
    "loop_error",
    "loop_timeout",
    "loop_paused",
    "loop_interrupted",
    "handoff",
)


def to_record(event: Event, run: str, seq: int) -> dict[str, Any]:
    """The event as it is written: common fields around its own."""
    return {
        "event": event.kind,
        **event.fields,
        "ts": timestamp(event.wall_ms),
        "run": run,
        "seq": seq,
        "ran_ms": event.ran_ms,
    }


def from_record(record: Mapping[str, Any]) -> Event:
    common = ("event", "ts", "run", "seq", "ran_ms")
    fields = {key: value for key, value in record.items() if key not in common}
    return Event(record["event"], fields, wall_ms_of(record["ts"]), record["ran_ms"])


@lru_cache(maxsize=8)  # the events of a step share their moment
def timestamp(wall_ms: int) -> str:
    """UTC with milliseconds: `2026-01-15T10:30:00.000Z`."""
    # A clock set beyond the calendar must not end a run.
    seconds, ms = divmod(min(max(wall_ms, 0), LAST_MS), 1000)
    return f"{_to_the_second(seconds)}.{ms:03}Z"


@lru_cache(maxsize=8)  # and steps their second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def wall_ms_of(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)
