"""Which agent takes a turn, if a state has more than one: `host`, then those of `fallback`.

Each turn goes to the first that is not inside a known usage limit. One that meets a limit, is
overloaded or missing gives its turn to the next, in a fresh session; `fallback_on` adds failed
logins and billing. If all are limited, the run waits for the earliest of them.

Not here: the agents of a state (`turn_hosts`), remembering limits for other runs
(`spending.host_limits`), how long a wait may be (`waits`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.commands import Command, LookUpLimits
from little_loops.fsm.events import HostChosen, HostUnavailable, HostWait
from little_loops.fsm.evidence import is_agent
from little_loops.fsm.happenings import LimitsKnown
from little_loops.fsm.limits import wait_for
from little_loops.fsm.schema import ERROR, HostOptions
from little_loops.fsm.state import Hosts, Judgement
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.turn_hosts import host_of, hosts_of, name_of
from little_loops.fsm.waits import asked_ms, bounded


def choice_due(builder: StepBuilder) -> LookUpLimits | None:
    """Return the command that precedes the choice of an agent for the next attempt; None if there
    is nothing to choose, or it is chosen."""
    run = builder.run
    hosts = hosts_of(builder.loop, builder.state)
    if len(hosts) == 1 or not is_agent(builder.loop, run) or run.spawns:
        return None
    chosen = run.hosts or Hosts()
    if (chosen.state, chosen.step, chosen.attempt) == (
        run.current_state,
        run.step,
        run.attempt + 1,
    ):
        return None
    return LookUpLimits(tuple(map(name_of, hosts)))


def choose(builder: StepBuilder, known: LimitsKnown) -> Command | Judgement | None:
    """Record which agent takes the next attempt, and return None. If all are limited, return the
    wait for the earliest, or the verdict if that is too long."""
    run, hosts = builder.run, hosts_of(builder.loop, builder.state)
    names = [name_of(each) for each in hosts]
    limited = _limited(run.hosts or Hosts(), known.limited)
    now_ms = builder.at.wall_ms
    free = [name for name in names if _is_free(name, run.hosts, limited, now_ms)]
    times = [until_ms for name in names if (until_ms := limited.get(name)) is not None]
    can_wait = times and not builder.state.terminal and run.timed_out_in is None
    if not free and can_wait:
        return _wait(builder, hosts[0], min(times))
    name = (free or names)[0]
    here, place = run.current_state, names.index(name)
    builder.note(HostChosen(here, run.step, run.attempt + 1, name, place))
    return None


def _limited(hosts: Hosts, known: Mapping[str, int]) -> dict[str, int | None]:
    """Return until when agents are limited, as this run and others know; the later of the two."""
    found: dict[str, int | None] = {**known}
    for name, until_ms in hosts.limited.items():
        other = known.get(name, 0)
        found[name] = None if until_ms is None else max(until_ms, other)
    return found


def _is_free(
    name: str, hosts: Hosts | None, limited: Mapping[str, int | None], now_ms: int
) -> bool:
    """Return whether an agent can be tried: it is not limited, and has not failed since the last
    wait."""
    if hosts is not None and name in hosts.passed:
        return False
    until_ms = limited.get(name, 0)
    return until_ms is not None and until_ms <= now_ms


def _wait(builder: StepBuilder, first: HostOptions, earliest_ms: int) -> Command | Judgement:
    """Record the wait for the agent that is available first. Return it, or the verdict if all waits
    together would exceed the `max_wait` of `host`."""
    reason = "all agents are limited"
    wait = bounded(builder.run, first, earliest_ms - builder.at.wall_ms, reason)
    if wait.too_long:
        return Judgement(ERROR, f"{reason}; longer than `max_wait`")
    here, until_ms = builder.run.current_state, builder.at.wall_ms + wait.wait_ms
    builder.note(HostWait(here, reason, until_ms, wait.wait_ms, wait.least_ms))
    return wait_for(builder.loop, builder.run, builder.at)


def give_way(builder: StepBuilder) -> None:
    """Record that the agent of the turn that has ended is not available."""
    run, result = builder.run, builder.result
    host = host_of(builder.loop, run)
    until_ms = None
    if result.agent == "wait":
        until_ms = builder.at.wall_ms + asked_ms(run, result, builder.at)
    reason = result.reason or result.failure or result.kind or "not available"
    builder.note(HostUnavailable(run.current_state, name_of(host), reason, until_ms))
