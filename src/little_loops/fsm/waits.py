"""How long to wait: between retries, handoffs that come too fast, and for an agent's service."""

from __future__ import annotations

from little_loops.fsm.happenings import Moment
from little_loops.fsm.schema import FSMLoop, HostOptions, Retry, StateConfig
from little_loops.fsm.state import LoopState, Result
from little_loops.records import NamedTuple

SPACING_MS = 10_000
LONGEST_SPACING_MS = 60_000
HOST_WAIT_MS = 10_000
LONGEST_HOST_WAIT_MS = 600_000
MAX_HOST_WAIT_S = 6 * 3600.0


def retry_wait_ms(loop: FSMLoop, state: StateConfig, retries: int) -> int:
    retry = state.retry or Retry()
    written = retry.backoff if retry.backoff is not None else loop.backoff
    first = 1.0 if written is None else written
    try:
        return to_ms(min(first * retry.factor**retries, retry.max_backoff))
    except OverflowError:
        return to_ms(retry.max_backoff)


def spacing_ms(run: LoopState, at: Moment) -> int:
    """Handoffs that follow each other too fast are spaced out: 1, 2, 4 … 60 s."""
    last = run.handed_off_ms
    if last is None or not 0 <= at.wall_ms - last < SPACING_MS:
        return 0
    return min(1000 << min(run.handoff_waits, 16), LONGEST_SPACING_MS)


class HostWait(NamedTuple):
    until_wall_ms: int
    reason: str
    too_long: bool


def host_wait(run: LoopState, host: HostOptions, result: Result, at: Moment) -> HostWait:
    """Until the reset the host names, else with backoff; never longer than `max_wait` in all."""
    longest_s = MAX_HOST_WAIT_S if host.max_wait is None else host.max_wait
    backoff_ms = min(HOST_WAIT_MS << min(run.host_waits, 16), LONGEST_HOST_WAIT_MS)
    asked = at.wall_ms + backoff_ms if result.retry_at_ms is None else result.retry_at_ms
    until = max(asked, at.wall_ms)
    since = at.ran_ms if run.host_waiting_since_ms is None else run.host_waiting_since_ms
    waited_ms = at.ran_ms - since + until - at.wall_ms
    reason = result.reason or result.kind or "the agent's service is busy"
    return HostWait(until, reason, waited_ms > to_ms(longest_s))


def to_ms(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1000)
