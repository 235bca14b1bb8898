"""Which agent takes a turn, and what happens when it cannot: stories, rows and laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.commands import Admit, Command, LookUpLimits, RunAgent, RunShell
from little_loops.fsm.happenings import Happening, StopAsked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, SignalLine
from little_loops.fsm.turn_hosts import MISSING, name_of
from tests.fsm.scripted import START_MS, Crash, Says, ScriptedWorld, begin, go_on, rebuilt

HOUR_MS = 3_600_000


def loop_of(**fields: Any) -> FSMLoop:
    states = {
        "fix": {"action": "Do it.", "action_type": "prompt", "next": "check"},
        "check": {"action": "make", "on_pass": "done", "on_fail": "fix"},
        "done": {"terminal": True},
    }
    given = {"name": "l", "initial": "fix", "states": states, "fallback": [{"name": "codex"}]}
    return FSMLoop.from_dict(given | fields)


def limited(after_ms: int | None = HOUR_MS, now_ms: int = START_MS + 1000) -> Says:
    """A turn that meets a usage limit, which ends so long after `now_ms`."""
    reset = None if after_ms is None else now_ms + after_ms
    return Says(2, agent="wait", kind="rate_limited", reason="usage limit", retry_at_ms=reset)


def done(**given: Any) -> Says:
    return Says(0, agent="success", **given)


def missing(name: str) -> Says:
    return Says(None, takes_ms=0, failure=f"`{name}` is not on PATH", kind=MISSING)


def refused(kind: str) -> Says:
    return Says(2, agent=kind, kind=kind, reason="not logged in")


def agents(world: ScriptedWorld) -> list[str]:
    """The agents whose turns started, in their order."""
    return [name_of(each.host) for each in world.commands if isinstance(each, RunAgent)]


def said(world: ScriptedWorld) -> list[str]:
    """What the log says about agents and waits, in short."""
    found = []
    for event in world.log:
        match event["event"]:
            case "host_chosen":
                found.append(event["host"])
            case "host_unavailable":
                until = event.get("until_wall_ms")
                found.append(f"{event['host']} until {None if until is None else until - START_MS}")
            case "host_wait":
                found.append(f"wait {event['wait_ms']}")
            case "action_start" if event["action_type"] == "prompt":
                found.append(f"attempt {event['attempt']}")
            case "loop_error":
                found.append(f"{event['reason']}: {event['error']}")
            case _:
                pass
    return found


def told(script: list[Any], known: dict[str, int] | None = None, **fields: Any) -> list[str]:
    world = ScriptedWorld(loop_of(**fields), script)
    world.limited = known or {}
    begin(world)
    return said(world)


@pytest.mark.parametrize(
    ("script", "story"),
    [
        pytest.param([done(), 0], ["claude", "attempt 1"], id="the first one works"),
        pytest.param(
            [limited(), done(), 0],
            ["claude", "attempt 1", f"claude until {HOUR_MS + 1000}", "codex", "attempt 2"],
            id="a usage limit",
        ),
        pytest.param(
            [limited(None), done(), 0],
            ["claude", "attempt 1", "claude until 11000", "codex", "attempt 2"],
            id="an overloaded service",
        ),
        pytest.param(
            [missing("claude"), done(), 0],
            ["claude", "attempt 1", "claude until None", "codex", "attempt 2"],
            id="a missing program",
        ),
        pytest.param(
            [limited(), limited(9000, START_MS + 2000), done(), 0],
            ["claude", "attempt 1", f"claude until {HOUR_MS + 1000}"]
            + ["codex", "attempt 2", "codex until 11000", "wait 9000", "codex", "attempt 3"],
            id="both are limited: the earliest",
        ),
        pytest.param(
            [missing("claude"), missing("codex")],
            ["claude", "attempt 1", "claude until None", "codex", "attempt 2"]
            + ["error: `codex` is not on PATH"],
            id="both are missing",
        ),
        pytest.param(
            [missing("claude"), limited(9000), done(), 0],
            ["claude", "attempt 1", "claude until None", "codex", "attempt 2"]
            + ["codex until 10000", "wait 9000", "codex", "attempt 3"],
            id="one is missing, the other limited",
        ),
        pytest.param(
            [refused("auth")],
            ["claude", "attempt 1", "auth: not logged in"],
            id="a failed login ends the run",
        ),
        pytest.param(
            [Says(1, agent="fail", kind="refused", reason="no"), 0],
            ["claude", "attempt 1", "error: no"],
            id="never because of a bad answer",
        ),
        pytest.param(
            [limited(), done(), 1, done(), 0],
            ["claude", "attempt 1", f"claude until {HOUR_MS + 1000}", "codex", "attempt 2"]
            + ["codex", "attempt 1"],
            id="the next turn does not try the limited one",
        ),
        pytest.param(
            [limited(), done(takes_ms=HOUR_MS), 1, done(), 0],
            ["claude", "attempt 1", f"claude until {HOUR_MS + 1000}", "codex", "attempt 2"]
            + ["claude", "attempt 1"],
            id="the first comes back after its reset",
        ),
    ],
)
def test_who_takes_the_turn(script, story):
    assert told(script) == story


@pytest.mark.parametrize("kind", ["auth", "billing"])
@pytest.mark.parametrize("where", ["loop", "state"])
def test_fallback_on_adds_failures(kind, where):
    loop = loop_of(fallback_on=[kind] if where == "loop" else [])
    if where == "state":
        fix = loop.states["fix"]._replace(fallback_on=(kind,))
        loop = loop._replace(states={**loop.states, "fix": fix})
    world = ScriptedWorld(loop, [refused(kind), done(), 1, done(), 0])
    begin(world)
    assert agents(world) == ["claude", "codex", "codex"]  # it is not tried again in this run


def test_a_failed_login_of_the_last_agent_ends_the_run():
    world = ScriptedWorld(loop_of(fallback_on=["auth"]), [refused("auth"), refused("auth")])
    _, ending = begin(world)
    assert (ending.reason, agents(world)) == ("auth", ["claude", "codex"])
    go_on(world, [done(), 0])
    assert agents(world) == ["claude", "codex", "claude"]  # a resume tries all of them again


def test_what_one_state_found_missing_counts_in_another():
    """Both are unavailable until the run is resumed, so the first is tried."""
    hosts = {"one": ["claude", "codex"], "two": ["codex", "command"], "three": ["claude", "codex"]}
    states: dict[str, Any] = {"done": {"terminal": True}}
    for (name, names), after in zip(hosts.items(), ("two", "three", "done"), strict=True):
        host, other = ({"name": each} for each in names)
        own = {"host": host, "fallback": [other], "next": after, "on_error": "done"}
        states[name] = {"action": "Do it.", "action_type": "prompt", **own}
    loop = FSMLoop.from_dict({"name": "l", "initial": "one", "states": states})
    script = [missing("claude"), done(), missing("codex"), done(), missing("claude")]
    world = ScriptedWorld(loop, script)
    begin(world)
    assert agents(world) == ["claude", "codex", "codex", "command", "claude"]


def test_another_run_has_met_the_limit():
    known = {"claude": START_MS + HOUR_MS}
    assert told([done(), 0], known) == ["codex", "attempt 1"]


def test_other_runs_have_met_the_limits_of_all():
    known = {"claude": START_MS + 2 * HOUR_MS, "codex": START_MS + HOUR_MS}
    assert told([done(), 0], known) == [f"wait {HOUR_MS}", "codex", "attempt 1"]


def test_a_state_that_ends_the_run_does_not_wait():
    states = {"end": {"action": "Say it.", "action_type": "prompt", "terminal": True}}
    known = {"claude": START_MS + HOUR_MS, "codex": START_MS + HOUR_MS}
    assert told([limited()], known, states=states, initial="end") == ["claude", "attempt 1"]


def test_the_state_after_the_timeout_does_not_wait():
    states = {
        "fix": {"action": "make", "next": "fix"},
        "late": {"action": "Say it.", "action_type": "prompt", "next": "fix"},
    }
    fields = {"states": states, "timeout": 1, "on_timeout": "late"}
    known = {"claude": START_MS + HOUR_MS, "codex": START_MS + HOUR_MS}
    assert told([0, limited()], known, **fields) == ["claude", "attempt 1"]


def test_max_wait_runs_over_all_of_them():
    story = told([limited(None)] * 4, host={"max_wait": 15})
    assert story == [
        *("claude", "attempt 1", "claude until 11000", "codex", "attempt 2", "codex until 12000"),
        *("wait 9000", "claude", "attempt 3", "claude until 32000"),
        *("codex", "attempt 4", "codex until 33000"),
        "error: all agents are limited; longer than `max_wait`",
    ]


def test_an_agent_that_failed_is_not_tried_again_before_a_wait():
    """A reset that has just passed must not let two agents hand a turn to and fro for ever."""
    story = told([limited(-5000), limited(-5000, START_MS + 2000), done(), 0])
    assert [each for each in story if each.startswith(("wait", "attempt"))] == [
        *("attempt 1", "attempt 2", "wait 1000", "attempt 3"),
    ]


def test_it_is_the_same_step_and_iteration_with_the_same_text_in_a_fresh_session():
    world = ScriptedWorld(loop_of(), [limited(), done(), 0])
    run, _ = begin(world)
    turns = [each for each in world.commands if isinstance(each, RunAgent)]
    assert [(each.job.step, each.job.iteration, each.text) for each in turns] == [
        (1, 1, "Do it.")
    ] * 2
    assert turns[0].session_id != turns[1].session_id
    assert run.iteration == 1


def test_the_notes_of_an_earlier_session_reach_the_agent_that_takes_over():
    loop = loop_of(on_handoff="continue", fallback_on=["auth"])
    handoff = done(line=SignalLine("handoff", "half done"), takes_ms=20_000)
    world = ScriptedWorld(loop, [handoff, refused("auth"), done(), 0])
    begin(world)
    turns = [each.job.continuation for each in world.commands if isinstance(each, RunAgent)]
    assert turns == [None, "half done", "half done"]


def test_each_attempt_is_admitted_before_it_starts():
    """Every agent that starts is counted against the user's limits first."""
    world = ScriptedWorld(loop_of(), [limited(), done(), 0])
    begin(world, metered=True)
    asked: set[tuple[int, int]] = set()
    for command in world.commands:
        if isinstance(command, Admit):
            asked.add((command.step, command.attempt))
        if isinstance(command, RunAgent):
            assert (command.job.step, command.job.attempt) in asked
    assert len(asked) == 2


def test_the_cost_limit_is_that_of_the_agent_that_takes_the_turn():
    haiku = {"name": "claude", "model": "haiku", "max_cost_usd": 0.5}
    loop = loop_of(host={"max_cost_usd": 1}, fallback=[haiku])
    world = ScriptedWorld(loop, [limited(), done(), 0])
    begin(world, metered=True)
    assert [each.most_usd for each in world.commands if isinstance(each, Admit)] == [1, 0.5]


class Agents(ScriptedWorld):
    """Agents take their turns in the order of a list, and work after that; each check passes."""

    def __init__(self, loop: FSMLoop, turns: list[Any]) -> None:
        super().__init__(loop, [])
        self.turns = list(turns)

    def perform(self, run: LoopState, command: Command) -> Happening:
        if isinstance(command, RunAgent):
            self.script = [self.turns.pop(0) if self.turns else done()]
        elif isinstance(command, RunShell):
            self.script = [0]
        return super().perform(run, command)


def test_a_stop_while_limits_are_looked_up_starts_nothing():
    class Stopped(ScriptedWorld):
        def perform(self, run: LoopState, command: Command) -> Happening:
            if isinstance(command, LookUpLimits):
                return StopAsked(self.now(), 15)
            return super().perform(run, command)

    world = Stopped(loop_of(), [])
    _, ending = begin(world)
    assert (ending.status, agents(world)) == ("interrupted", [])


WHOLE = 16
"""The events of a run whose first agent is limited."""


@pytest.mark.parametrize("count", range(1, WHOLE))
def test_a_run_that_was_killed_after_any_event_continues(count):
    whole = Agents(loop_of(), [limited()])
    begin(whole)
    assert len(whole.log) == WHOLE
    cut = Agents(loop_of(), [])
    cut.log = whole.log[:count]
    cut.saved = rebuilt(cut.log, cut.loop)
    cut.wall_ms, cut.ran_ms = START_MS + cut.saved.ran_ms, cut.saved.ran_ms
    _, ending = go_on(cut, [])
    assert ending.status == "completed"
    # A limit is known once the end of its turn is recorded.
    assert set(agents(cut)) <= {"codex" if count > 4 else "claude"}


def test_a_choice_is_made_again_after_a_resume():
    world = ScriptedWorld(loop_of(), [limited(), Crash])
    with pytest.raises(Crash):
        begin(world)
    world.wall_ms += HOUR_MS
    go_on(world, [done(), 0])
    assert agents(world) == ["claude", "codex", "claude"]


# ── laws ───────────────────────────────────────────────────────────────────────────────────────

TURNS = st.lists(
    st.one_of(
        st.builds(limited, st.integers(-HOUR_MS, HOUR_MS)),
        st.just(limited(None)),
        st.just(missing("x")),
        st.just(refused("auth")),
        st.just(done()),
    ),
    max_size=12,
)
KNOWN = st.dictionaries(
    st.sampled_from(["claude", "codex"]), st.integers(START_MS, START_MS + HOUR_MS)
)


@given(TURNS, KNOWN, st.booleans())
def test_no_turn_starts_inside_a_known_limit_and_waits_stay_within_max_wait(turns, known, auth):
    """However agents fail: each turn goes to one that is not known to be limited, all waits together
    are no longer than allowed, and the log replays (`begin` checks it)."""
    loop = loop_of(host={"max_wait": 7200}, fallback_on=["auth"] if auth else [])
    world = Agents(loop, turns)
    world.limited = known
    begin(world)
    limits: dict[str, int] = dict(known)
    for event in world.log:
        at_ms = START_MS + event["ran_ms"]
        if event["event"] == "host_unavailable":
            limits[event["host"]] = event.get("until_wall_ms") or 1 << 60
        if event["event"] == "host_chosen":
            assert limits.get(event["host"], 0) <= at_ms
    waits = [event["wait_ms"] for event in world.log if event["event"] == "host_wait"]
    assert sum(waits) <= 7200 * 1000
