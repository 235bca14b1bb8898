"""How long to wait: between retries, after quick handoffs, and for an agent's service."""

from __future__ import annotations

from little_loops.fsm.schema import FSMLoop, HostOptions, Retry, StateConfig
from little_loops.fsm.state import LoopState, Result, WaitFor
from little_loops.fsm.timestamps import Moment
from little_loops.records import NamedTuple

FIRST_RETRY_S = 1.0
FIRST_SPACING_MS = 1_000
QUICK_MS = 10_000
LONGEST_SPACING_MS = 60_000
FIRST_HOST_WAIT_MS = 10_000  # if a service is overloaded, or gives no time for its limit's reset
LONGEST_HOST_WAIT_MS = 600_000
MAX_TOTAL_HOST_WAIT_S = 6 * 3600.0


def retry_wait_ms(loop: FSMLoop, state: StateConfig, retries: int) -> int:
    """Return the wait before a retry: the backoff times `factor` for each of the earlier `retries`,
    at most `max_backoff`."""
    retry = state.retry or Retry()
    written = retry.backoff if retry.backoff is not None else loop.backoff
    first = FIRST_RETRY_S if written is None else written
    try:
        return to_ms(min(first * retry.factor**retries, retry.max_backoff))
    except OverflowError:
        return to_ms(retry.max_backoff)


def spacing_ms(run: LoopState, took_ms: int) -> int:
    """Return the wait after quick consecutive handoffs: 1, 2, 4 … 60 s."""
    if run.continuations == 0 or took_ms >= QUICK_MS:
        return 0
    return _doubled(FIRST_SPACING_MS, run.handoff_waits, LONGEST_SPACING_MS)


class WaitPlan(NamedTuple):
    wait_ms: int
    least_ms: int
    reason: str
    too_long: bool


def host_wait(run: LoopState, host: HostOptions, result: Result, at: Moment) -> WaitPlan:
    """Return the wait until the reset that the host reported, else with backoff; it is `too_long`
    if all waits together would exceed `max_wait`.

    Each consecutive wait lasts at least twice as long as the one before had to, because a reset
    that has just passed is not reliable.
    """
    reason = result.reason or result.kind or "the agent's service is busy"
    return bounded(run, host, asked_ms(run, result, at), reason)


def asked_ms(run: LoopState, result: Result, at: Moment) -> int:
    """Return how long to wait by the reset that the host reported, else with backoff."""
    if result.retry_at_ms is not None:
        return result.retry_at_ms - at.wall_ms
    return _doubled(FIRST_HOST_WAIT_MS, run.host_waits, LONGEST_HOST_WAIT_MS)


def bounded(run: LoopState, host: HostOptions, asked_ms: int, reason: str) -> WaitPlan:
    """Return a wait of at least `asked_ms`, within the bounds of `host_wait`."""
    longest_s = MAX_TOTAL_HOST_WAIT_S if host.max_wait is None else host.max_wait
    least_ms = _doubled(FIRST_SPACING_MS, run.host_waits, LONGEST_HOST_WAIT_MS)
    wait_ms = max(asked_ms, least_ms)
    too_long = run.host_waited_ms + wait_ms > to_ms(longest_s)
    return WaitPlan(wait_ms, least_ms, reason, too_long)


def left_ms(wait: WaitFor, at: Moment) -> int:
    """Return how much longer a wait lasts; not positive once it is over."""
    ends = []
    if wait.until_ran_ms is not None:
        ends.append(wait.until_ran_ms - at.ran_ms)
    if wait.until_wall_ms is not None:
        ends.append(wait.until_wall_ms - at.wall_ms)
    return max(min(ends, default=0), (wait.least_ran_ms or 0) - at.ran_ms)


def _doubled(first_ms: int, times: int, longest_ms: int) -> int:
    return min(first_ms << min(times, 16), longest_ms)


def to_ms(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1000)
