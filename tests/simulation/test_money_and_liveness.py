"""The laws of money and liveness (`ledger`), tried on histories generated from numbers.

In any history of runs, crashes, resumes and stops every resume runs an action, waits visibly or
ends; every session or agent process is counted against a limit before it starts; no history
without an end of an action starts more than `max_continuations` sessions; every start of an agent,
for whatever reason, is counted, spaced and paid for; reservations and costs of all runs together
never exceed the budget they share, but for one call each (`purse`); a note reaches one step, an answer is
used once, and a second one is refused (`people`); and every prefix of every log is a place to continue from.

A failing seed is played again with `pytest tests/simulation/test_money_and_liveness.py --seed N`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest

from little_loops.fsm.commands import Job, RunAgent
from little_loops.fsm.endings import ENDINGS
from little_loops.fsm.events import KINDS, WorktreeEvent
from little_loops.fsm.ledger import AgentTurn
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.state import AgentResult, Limits, LoopState, Note, Spending
from tests.simulation.ledger import LAWS, ContractBroken, Ledger
from tests.simulation.people import People
from tests.simulation.pure_history import ACCIDENTS, Figures, play
from tests.simulation.purse import CALL_USD, OTHERS, Purse

pytestmark = pytest.mark.untraced  # the pure modules have rows of their own

SEEDS = 250
MANY_SEEDS = 10_000
AT_ONCE = 50
WHOLE_LOGS = 25
MANY_WHOLE_LOGS = 1_000


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--seed", default=None)
    if "seeds" in metafunc.fixturenames:
        rows = [range(first, first + AT_ONCE) for first in range(0, SEEDS, AT_ONCE)]
        rows = rows if chosen is None else [range(chosen, chosen + 1)]
        metafunc.parametrize("seeds", rows, ids=lambda row: f"{row[0]}-{row[-1]}")


def play_all(seeds: Sequence[int], prefixes: int) -> Figures:
    total = Figures()
    for seed in seeds:
        try:
            played = play(seed, prefixes=prefixes)
        except ContractBroken as broken:
            broken.add_note(f"seed {seed}: pytest {__name__.replace('.', '/')}.py --seed {seed}")
            raise
        total = Figures(*map(sum, zip(total, played, strict=True)))
    return total


def count(record_property: Callable[..., None], seeds: Sequence[int], played: Figures) -> None:
    record_property("figure: histories with agents, budgets and sessions", len(seeds))
    for name, value in played._asdict().items():
        record_property(f"figure: {name} in those", value)


def test_a_history_obeys_the_laws(seeds, record_property):
    count(record_property, seeds, play_all(seeds, prefixes=4))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MANY_SEEDS, 1000))
def test_many_histories_obey_the_laws(first, record_property):
    seeds = range(first, first + 1000)
    count(record_property, seeds, play_all(seeds, prefixes=8))


def test_histories_that_once_broke_a_law_obey_it(record_property):
    """After a resume more checks run again before a success, which is no other way; a resume
    `--from` that was cut was forgotten at a gate; a handler of the timeout waited for a budget
    without an end."""
    seeds = (1940, 2939, 4727, 8006, 506, 5720, 5816)
    count(record_property, seeds, play_all(seeds, prefixes=8))


def test_histories_in_which_people_act_between_two_events(record_property):
    """A runner that is killed after it recorded the ending, with mail that it had not removed, has
    come to rest; a note after a handoff does not change that a resume is the new session."""
    seeds = (140, 252)
    count(record_property, seeds, play_all(seeds, prefixes=10_000))


def test_a_seed_is_one_history():
    assert play(7) == play(7)


ACTORS = {
    *("resume by a session", "--definition current", "from_state", "context", "orphans", "lost"),
    *Limits._fields,
    *("over_budget", "agent_wait: slot", "agent_wait: budget", "agent_wait: launches"),
    *("approve", "approve --to", "reject", "answer too late"),
    *("tell", "crash before mail is removed"),
    *ACCIDENTS,
    *KINDS,
    *(f"action_complete: {way}" for way in get_args(AgentResult)),
    *("action_complete: action", "action_complete: silence", "action_complete: loop"),
    *("action_interrupted: crash", "action_interrupted: stop"),
    *("signal: handoff", "signal: error", "signal: stop"),
    *("handoff: pause", "handoff: continue", "handoff: spawn"),
    *(f"{row.status}, {row.reason}" for row in ENDINGS.values()),
}
"""All that can happen to a run: how its actions end, flags of `resume`, accidents, events, endings."""

ELSEWHERE = (
    *("failed, stale_evidence", "failed, stalled", "report"),
    *("failed, hook", "hook", "forked", "join", "keep_best", "sampled"),
    *("judge_start", "judge_complete"),
    *("children", "child_start", "child_end", "children_stop"),
    *(name for name, kind in KINDS.items() if kind in get_args(WorktreeEvent)),
    "failed, conflict",
    "failed, consent",
)
"""What takes more of a plan than chance has: see `tests/fsm/test_evidence.py`, `tests/relay`, and in
`tests/engine` and `tests/cli` the tests of hooks, judges, `fork` and `keep: best`. Children have histories of
their own: `test_trees_of_loops`. Worktrees are killed at each operation in `tests/engine/test_worktrees`.
Only a fleet ends a run because of consent: `tests/fleet/test_commands`."""


def test_everything_that_can_happen_happens_in_some_history():
    actors = Counter[str]()
    for seed in range(SEEDS):
        play(seed, prefixes=0, actors=actors)
    assert sorted(each for each in ACTORS if not actors[each]) == sorted(ELSEWHERE)


def test_every_prefix_of_a_log_can_be_continued(record_property):
    """In the other histories only some are tried."""
    seeds = range(0, SEEDS, SEEDS // WHOLE_LOGS)
    count(record_property, seeds, play_all(seeds, prefixes=10_000))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MANY_WHOLE_LOGS, 100))
def test_every_prefix_of_many_logs_can_be_continued(first, record_property):
    seeds = range(first, first + 100)
    count(record_property, seeds, play_all(seeds, prefixes=10_000))


# ── a law that cannot be broken says nothing ───────────────────────────────────────────────────

LOOP = FSMLoop(
    name="l",
    initial="a",
    states={"a": StateConfig(action="/x")},
    on_handoff="continue",
    max_continuations=2,
    max_cost_usd=1.0,
)
RUN = LoopState("r", "l", "a", "2026-01-15T10:30:00.000Z", "2026-01-15T10:30:00.000Z")
BROKE = RUN._replace(costs={"a": Spending(0, 1.0)})
START = {"event": "action_start"}
END = {"event": "action_complete"}
PAID = {"event": "cost", "cost_usd": 0.2}
WAIT = {
    "event": "host_wait",
    "until_wall_ms": 1_768_473_001_000,
    "ts": "2026-01-15T10:30:00.000Z",
    "ran_ms": 0,
}
LAST = {"event": "loop_error"}
REFUSED = {"event": "host_unavailable", "host": "claude"}
CHOSEN = {"event": "host_chosen", "host": "claude"}


def begins(book: Ledger) -> None:
    book.process_begins(resumed=True)


def only_spawns(book: Ledger) -> None:
    book.process_ends(spawns=True)


def ends(book: Ledger) -> None:
    book.process_ends(spawns=False)


def hands_off(book: Ledger) -> None:
    book.handed_off(took_ms=20_000, ran_ms=0)


def hands_off_quickly(book: Ledger) -> None:
    book.handed_off(took_ms=5, ran_ms=0)


def starts(book: Ledger) -> None:
    book.agent_starts(RUN, ran_ms=0)


def starts_broke(book: Ledger) -> None:
    book.agent_starts(BROKE, ran_ms=0)


def spawns(book: Ledger) -> None:
    book.session_spawned(ran_ms=0)


def uses(book: Ledger) -> None:
    book.agent_used(0.2, "a turn")


def is_limited(book: Ledger) -> None:
    book.limited(ran_ms=0)


def waits_too_long(book: Ledger) -> None:
    book.waited("host", lasted_ms=1001, ran_ms=1001)


def goes_on_and_on(book: Ledger) -> None:
    for _ in range(3_001):
        book.command()


def told(*records: dict[str, Any]) -> Callable[[Ledger], None]:
    return lambda book: book.records(records)


@pytest.mark.parametrize(
    ("law", "entries"),
    [
        pytest.param(1, [begins, only_spawns], id="a resume that only spawns"),
        pytest.param(2, [told(PAID), spawns], id="a session nobody asked for"),
        pytest.param(2, [hands_off, starts] * 3, id="one session too many"),
        pytest.param(3, [is_limited, starts], id="no wait after a usage limit"),
        pytest.param(3, [told(REFUSED, CHOSEN)], id="an agent that was refused, without a wait"),
        pytest.param(
            3,
            [hands_off, hands_off_quickly, told(PAID), spawns],
            id="no wait after a quick handoff",
        ),
        pytest.param(4, [starts_broke], id="no money left"),
        pytest.param(4, [uses, starts], id="the turn before is not paid for"),
        pytest.param(4, [uses, told(LAST), ends], id="the last turn is not paid for"),
        pytest.param(4, [hands_off, spawns], id="the session is not paid for"),
        pytest.param(5, [told(WAIT), waits_too_long], id="a wait longer than announced"),
        pytest.param(6, [told(START, START)], id="two actions at once"),
        pytest.param(6, [told(START, LAST)], id="an action without an end"),
        pytest.param(6, [told(END)], id="an end without an action"),
        pytest.param(7, [goes_on_and_on], id="no end"),
    ],
)
def test_what_breaks_a_law(law, entries):
    *before, last = entries
    book = Ledger(LOOP)
    for entry in before:
        entry(book)
    with pytest.raises(ContractBroken) as found:
        last(book)
    assert found.value.law == law
    # By the other laws alone there is nothing to say against it.
    book = Ledger(LOOP, laws=[each for each in LAWS if each != law])
    for entry in entries:
        entry(book)


def test_what_breaks_the_law_of_the_budget() -> None:
    purse = Purse(random.Random(1))
    assert purse.budget.day is not None
    most_usd = purse.budget.day + CALL_USD * (OTHERS + 1)
    purse.lines.append(AgentTurn("r/1/1", 1, "/p", "l", "r", "claude", cost_usd=most_usd))
    purse.check()
    purse.lines.append(AgentTurn("r/2/1", 2, "/p", "l", "r", "claude", cost_usd=0.01))
    with pytest.raises(ContractBroken) as found:
        purse.check()
    assert found.value.law == 9


# ── people ─────────────────────────────────────────────────────────────────────────────────────

GATED = FSMLoop.from_dict(
    {
        "name": "l",
        "initial": "a",
        "states": {
            "a": {"action": "/x", "next": "look"},
            "look": {"terminal": True, "outcome": "review", "next": "a", "choices": ["a"]},
        },
    }
)
AT_GATE = LoopState.from_dict(
    {**RUN.to_dict(), "seq": 5, "gate": 5, "current_state": "look", "phase": "ended"}
    | {"status": "needs_review", "reason": "review"}
)
NOTE = Note("0000000000001-00000000", "note 1")
RECEIVED = {"event": "note_received", "id": NOTE.id}
DELIVERED = {"event": "note_delivered", "id": NOTE.id, "step": 1}
TURN_ENDS = {"event": "action_complete", "agent": "success"}
APPROVED = {"event": "gate_answered", "state": "look", "gate": 5, "verdict": "approved"}


def turn(step: int, *notes: str) -> RunAgent:
    job = Job("a", step, 1, 1, 10, {}, {}, None, 1.0, None, "action")
    return RunAgent(job, "/x", True, HostOptions(), "s", notes=notes)


def sees(*records: dict[str, Any]) -> Callable[[People], None]:
    def see(people: People) -> None:
        for record in records:
            people.record(record, GATED, None)

    return see


def agent(step: int, *notes: str) -> Callable[[People], None]:
    return lambda people: people.agent_starts(turn(step, *notes))


def approves_by_resume(people: People) -> None:
    people.settled(AT_GATE)


def comes_to_its_end(people: People) -> None:
    people.ends(RUN._replace(notes=(NOTE,)), {"event": "loop_error"})


def is_over(people: People) -> None:
    people.history_ends(RUN)


@pytest.mark.parametrize(
    ("law", "entries"),
    [
        pytest.param(10, [sees(RECEIVED, RECEIVED)], id="a note received twice"),
        pytest.param(10, [sees(RECEIVED), agent(1)], id="an agent without its note"),
        pytest.param(10, [agent(1, "note 1")], id="a note that was not received"),
        pytest.param(
            10,
            [sees(RECEIVED), agent(1, "note 1"), sees(TURN_ENDS), agent(2, "note 1")],
            id="two steps",
        ),
        pytest.param(10, [sees(RECEIVED), sees(DELIVERED)], id="delivered to nobody"),
        pytest.param(
            10,
            [sees(RECEIVED), agent(1, "note 1"), sees(TURN_ENDS, DELIVERED), agent(2, "note 1")],
            id="given again after its delivery",
        ),
        pytest.param(10, [sees(RECEIVED), comes_to_its_end], id="an ending that names nothing"),
        pytest.param(10, [sees(RECEIVED), is_over], id="a note that is nowhere"),
        pytest.param(11, [sees(APPROVED)], id="an answer that nobody gave"),
        pytest.param(11, [approves_by_resume, sees(APPROVED, APPROVED)], id="an answer used twice"),
        pytest.param(
            11,
            [approves_by_resume, sees({**APPROVED, "text": "later"})],
            id="not the first answer",
        ),
        pytest.param(
            11,
            [approves_by_resume, sees(APPROVED, {"event": "transition", "to": "look"})],
            id="the run goes elsewhere",
        ),
    ],
)
def test_what_breaks_a_law_about_people(law, entries):
    people = People(random.Random(1))
    people.post(NOTE)
    people.mail.clear()
    *before, last = entries
    for entry in before:
        entry(people)
    with pytest.raises(ContractBroken) as found:
        last(people)
    assert found.value.law == law
