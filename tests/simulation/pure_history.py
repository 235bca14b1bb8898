"""One number, one history without files or processes: a loop, the people and sessions that resume
it, its agents, clocks that jump, and accidents at every event.

`play(seed)` runs the real machine against all of them and raises `Broken` where a law is.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple, cast

from little_loops.engine.drive import new_run
from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.commands import (
    Admit,
    Ending,
    EndLeftovers,
    Finish,
    Judge,
    LookUpLimits,
    PutBack,
    RestoreProtected,
    RunAgent,
    TakeSnapshot,
    TreeCommand,
    Wait,
)
from little_loops.fsm.endings import not_resumable
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.evolve import evolve, first_state
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    PathsRestored,
    Queued,
    Resumed,
    Started,
    StopAsked,
    StoreFailed,
    WaitOver,
)
from little_loops.fsm.ledger import session_id, turn_id
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.spending import LOST
from little_loops.fsm.state import Judgement, Limits, LoopState, Note, Result
from little_loops.fsm.timestamps import Moment
from little_loops.system.waiting import wait_until
from tests.fsm.fake_trees import FakeTrees
from tests.simulation.budget_loops import (
    HOUR_MS,
    Nature,
    Turn,
    budget_loop,
    redefined,
    with_fallback,
)
from tests.simulation.ledger import FINAL, LAWS, ContractBroken, Ledger
from tests.simulation.people import People, with_choices
from tests.simulation.purse import Purse

START_MS = 1_768_473_000_000  # 2026-01-15T10:30:00Z
DAY_MS = 86_400_000
MOST_PROCESSES = 16
TRUE_COST_USD = 0.2
"""What a turn used that could not say so."""
Record = dict[str, Any]


class Gone(Exception):
    """The process is gone."""


class Accident(NamedTuple):
    """What happens to a process, at the n-th time it could."""

    kind: str
    number: int


ACCIDENTS = (
    *(
        "clock set in an action",
        "crash at an event",
        "crash at an event",
        "crash in an action",
        "crash in a wait",
    ),
    *("stop before a command", "stop in an action", "stop in a wait", "store fails"),
)
NOTHING = Accident("nothing", 0)
ACCIDENTAL = ("signal", "storage", "budget")
"""Endings for which an accident is the reason, or what others spend."""
METERED_EACH = 4
"""Every fourth history shares a budget with others."""
PEOPLE_OF, PEOPLE_AT = 7, (0, 3)
"""In two of seven histories people answer gates and send notes."""
FALLBACK_OF, FALLBACK_AT = 5, 3
"""In one of five histories the turn of an agent may go to another one."""


class Session(NamedTuple):
    """A spawned session: how often it types `resume` before it dies, and how long that takes."""

    resumes: int
    takes_ms: int


class World:
    """Everything around one run."""

    def __init__(
        self,
        loop: FSMLoop,
        nature: Nature,
        dice: random.Random,
        laws: Collection[int] = LAWS,
        purse: Purse | None = None,
        people: People | None = None,
    ) -> None:
        self.loop = loop
        self.purse = purse
        self.people = people
        self.is_over_budget = False
        self.nature = nature
        self.dice = dice
        self.ledger = Ledger(loop, laws)
        self.wall_ms = START_MS
        self.ran_ms = 0
        self.log: list[Record] = []
        self.run: LoopState | None = None
        self.sessions: list[Session] = []
        self.processes = 0
        self.jumps = 0
        self.actors: Counter[str] = Counter()  # what has happened to the run, by kind
        self.definitions = [(0, loop)]  # from which event on
        self.trees = FakeTrees()
        self.files = [(0, dict(self.trees.files))]  # from which event on
        self._accident = NOTHING
        self._from_state: str | None = None
        self._met = 0
        self._last: Turn | None = None

    # ── one process ────────────────────────────────────────────────────────────────────────────

    def process(self, accident: Accident = NOTHING, **resumed: Any) -> Ending | None:
        """Start the run, or resume what its log says of it; None if the process is gone."""
        self.processes += 1
        self._accident, self._met = accident, 0
        self.ledger.process_begins(resumed=self.run is not None)
        self._from_state = resumed.get("from_state")
        if self.people is not None:
            self.people.process_begins(self._from_state)
        try:
            return self._drive(**resumed)
        except Gone:
            if self.purse is not None:
                self.purse.die()
            if self.log and self.log[-1]["event"] in FINAL:
                self.ledger.comes_to_rest()  # it had already said how the run ended
            self.run = rebuilt(self.log, self.loop)
            self.ran_ms = self.run.ran_ms if self.run is not None else 0
            return None
        except ContractBroken:
            raise
        except Exception as error:
            raise ContractBroken(7, f"a bug: {error!r}") from error

    def redefine(self, loop: FSMLoop) -> None:
        """The file was changed, and `resume --definition current` takes it as it is now."""
        self.loop = loop
        self.ledger.redefine(loop)
        self.definitions.append((len(self.log), loop))

    def definition_at(self, cut: int) -> FSMLoop:
        return [loop for since, loop in self.definitions if since < cut or since == 0][-1]

    def _drive(self, **resumed: Any) -> Ending:
        at = self.now()
        metered = self.purse is not None
        self.is_over_budget = metered and bool(resumed.get("over_budget"))
        happening: Happening = Started(at)
        if self.run is not None:
            answer = None if self.people is None else self.people.settled(self.run)
            happening = Resumed(at, metered=metered, answer=answer, **resumed)
        run = (
            self.run
            if self.run is not None
            else new_run(
                self.loop,
                "run-1",
                at,
                evidence="on" if self.loop.evidence.enabled else None,
                metered=metered,
            )
        )
        while True:
            notes = self._notes(run)
            step = advance(self.loop, run, happening, notes)
            self._append([to_record(entry) for entry in step.events])
            if self.people is not None and not self.people.discard(notes):
                raise Gone
            self.run = run = step.run
            if isinstance(step.command, Finish):
                self._finish(step.command.ending)
                return step.command.ending
            self.ledger.command()
            happening = self._perform(run, step.command)

    def _notes(self, run: LoopState) -> tuple[Note, ...]:
        """What people have sent; a run without agents, or without a first event, does not look."""
        if self.people is None or not run.seq or not has_agent(self.loop):
            return ()
        return self.people.unread(run)

    def _append(self, records: Sequence[Record]) -> None:
        for record in records:
            self._crash("crash at an event")
            self.log.append(record)
            self.actors.update(_kinds(record))
            self.ledger.records([record])
            if self.people is not None:
                self.people.record(record, self.loop, self._from_state)
            if record["event"] == "action_complete":
                self._enter_in_book(record)

    def _finish(self, ending: Ending) -> None:
        self.ledger.process_ends(spawns=ending.spawn)
        if self.people is not None and self.run is not None:
            self.people.ends(self.run, self.log[-1])
        if ending.spawn:
            self._pay_for_session()
            self.ledger.session_spawned(self.ran_ms)
            dice = self.dice
            self.sessions.append(Session(dice.choice([0, 1, 1, 1, 2, 3]), dice.choice([5, 20_000])))
        self.ledger.comes_to_rest()

    def _pay_for_session(self) -> None:
        """A session reports nothing, so it costs what is reserved for it."""
        run = self.run
        if self.purse is not None and run is not None:
            self.purse.starts(session_id(run.run, run.step, run.attempt))
            self.purse.settle(None)

    def _due(self, kind: str) -> bool:
        if self._accident.kind != kind:
            return False
        self._met += 1
        is_due = self._met == self._accident.number
        self.actors[kind] += is_due
        return is_due

    def _crash(self, kind: str) -> None:
        if self._due(kind):
            raise Gone

    # ── carrying out ───────────────────────────────────────────────────────────────────────────

    def _perform(self, run: LoopState, command: Any) -> Happening:
        if self.people is not None:
            self.people.tell(run)
        is_enough = self.loop.maintain and run.step > 2 * self.nature.stops_after
        if not isinstance(command, EndLeftovers) and getattr(command, "ending", None) is None:
            if is_enough or self._due("stop before a command"):
                return StopAsked(self.now(), 15)
        if self.purse is not None and not _belongs_to_turn(command):
            self.purse.release()
        match command:
            case Admit() | LookUpLimits():
                return self._before_turn(run, command)
            case TakeSnapshot() | RestoreProtected() | PutBack():
                return self._look(command)
            case Judge():
                return Judged(self.now(), self._judge(run))
            case Wait():
                return self._wait(command)
            case EndLeftovers():
                return LeftoversEnded(self.now(), command.ending)
            case _:
                return self._act(run, command)

    def _before_turn(self, run: LoopState, command: Admit | LookUpLimits) -> Happening:
        if isinstance(command, Admit):
            return self._admit(run, command)
        return LimitsKnown(self.now(), self._limits(command))

    def _limits(self, command: LookUpLimits) -> dict[str, int]:
        """What other runs of the user have met."""
        dice = random.Random(f"{self.nature.seed}/limits")
        ends = {name: START_MS + dice.choice([0, 0, 5000, HOUR_MS]) for name in command.hosts}
        return {name: until_ms for name, until_ms in ends.items() if until_ms > self.wall_ms}

    def _admit(self, run: LoopState, command: Admit) -> Happening:
        assert self.purse is not None, "only a metered run asks"
        while True:
            over = self.is_over_budget
            answer = self.purse.admit(run, command, self.now(), over_budget=over)
            if not isinstance(answer, Queued) or not command.waits:
                return answer
            self._crash("crash in a wait")
            if self._due("stop in a wait"):
                return StopAsked(self.now(), 15)
            self.wall_ms += 100  # the clock of the run stands still
            self.purse.let_one_end(self.now())

    def _look(self, command: TakeSnapshot | RestoreProtected | PutBack) -> Happening:
        if self._due("store fails"):
            return StoreFailed(self.now(), "the disk is full")
        match command:
            case TakeSnapshot():
                self.trees.cut = self._unread(command)
                return self.trees.last_look(self.now(), command)
            case RestoreProtected():
                paths, failed = self.trees.restore(command.reference, command.existing_only)
                self._remember_files()
                return PathsRestored(self.now(), "protected", paths, failed, command.ending)
            case PutBack():
                paths = self.trees.put_back(command.project, command.reference)
                self._remember_files()
                return PathsRestored(self.now(), "outside", paths, (), command.ending)

    def _unread(self, command: TakeSnapshot) -> Literal["content", "all"] | None:
        """Some stops cannot wait for the last look at the tree, some not even for a part of it."""
        if command.ending is None or command.ending.status != "interrupted":
            return None
        choices: tuple[Literal["content", "all"] | None, ...] = ("content", "all", None)
        return choices[self._accident.number % len(choices)]

    def _write(self, turn: Turn) -> None:
        self.trees.write(turn.writes)
        self._remember_files()

    def _remember_files(self) -> None:
        self.files.append((len(self.log), dict(self.trees.files)))

    def files_at(self, cut: int) -> dict[str, str]:
        return dict([files for since, files in self.files if since <= cut][-1])

    def _judge(self, run: LoopState) -> Judgement:
        judged = sum(1 for each in self.log if each["event"] == "condition_eval")
        return Judgement(self.nature.verdict(run.step, judged, ("pass", "fail", "fail", "error")))

    def _act(self, run: LoopState, command: Any) -> ActionEnded:
        is_agent, job = isinstance(command, RunAgent), command.job
        turn = self.nature.turn(job.step, self._results(job.step), is_agent=is_agent)
        self.ledger.action_starts()
        if is_agent:
            self._agent_starts(run, command)
        deadline = job.deadline_ms
        silent = job.idle_s is not None and turn.takes_ms >= job.idle_s * 1000
        if silent:
            deadline = min(filter(None, (deadline, round(job.idle_s * 1000))))
        late = deadline is not None and turn.takes_ms >= deadline
        took_ms = turn.takes_ms if not late else cast(int, deadline)
        self._write(turn)
        if self._due("crash in an action"):
            self._pass(took_ms // 2)
            if is_agent:
                self.ledger.agent_used(TRUE_COST_USD, "a turn that was lost")
            raise Gone
        self._pass(took_ms)
        if self._due("clock set in an action"):
            self.jump(self.dice.choice([-DAY_MS, -5000, 5000, DAY_MS]))
        if self._due("stop in an action"):
            return self._cut(turn, took_ms, is_agent, "stop", stop=15)
        if silent:
            return self._cut(turn, took_ms, is_agent, "silence")
        if late:
            return self._cut(turn, took_ms, is_agent, job.deadline_of)
        self._last = turn
        return self._said(turn, is_agent)

    def _agent_starts(self, run: LoopState, command: RunAgent) -> None:
        self.ledger.agent_starts(run, self.ran_ms)
        if self.purse is not None:
            self.purse.starts(turn_id(run.run, command.job.step, command.job.attempt))
        if self.people is not None:
            self.people.agent_starts(command)

    def _results(self, step: int) -> int:
        """How many results this step has had."""
        count = 0
        for record in reversed(self.log):
            if record["event"] == "action_complete":
                count += 1
            elif record["event"] == "state_enter" and record["step"] != step:
                break
        return count

    def _cut(
        self, turn: Turn, took_ms: int, is_agent: bool, by: str, stop: int | None = None
    ) -> ActionEnded:
        fields: dict[str, Any] = {"signal": 15, "cut_by": by}
        if is_agent:
            # A CLI that is cut has told its tokens so far, at most, and never what they cost.
            fields |= {"agent": "error", "tokens": turn.tokens}
            self._settle(None)
            self.ledger.agent_used(TRUE_COST_USD, "a turn that was cut")
        self._last = None
        return ActionEnded(self.now(), Result(None, took_ms, **fields), stop=stop)

    def _enter_in_book(self, record: Record) -> None:
        """What an action's result means, once it is in the log; before, a crash may lose it."""
        state = record["state"]
        turn = self._last
        is_over = self.run is not None and self.run.timed_out_in is not None
        if turn is None or is_over or self.loop.states[state].terminal:
            self.ledger.ended()
        elif turn.hands_off:
            self.ledger.handed_off(turn.takes_ms, self.ran_ms)
        elif record.get("gives_way"):
            self.ledger.gave_way()
        elif turn.agent == "wait":
            self.ledger.limited(self.ran_ms)
        else:
            self.ledger.ended()

    def _said(self, turn: Turn, is_agent: bool) -> ActionEnded:
        if not is_agent:
            return ActionEnded(self.now(), Result(turn.exit_code, turn.takes_ms), turn.line)
        self.ledger.agent_used(turn.cost_usd or 0.0, "a turn")
        self._settle(turn.cost_usd)
        retry_at = None if turn.reset_ms is None else self.wall_ms + turn.reset_ms
        verdict = {0: "pass", 1: "fail"}.get(turn.exit_code)
        result = Result(
            turn.exit_code,
            turn.takes_ms,
            agent=cast(Any, turn.agent),
            verdict=verdict,
            tokens=turn.tokens,
            cost_usd=turn.cost_usd,
            retry_at_ms=retry_at,
        )
        return ActionEnded(self.now(), result, turn.line)

    def _settle(self, cost_usd: float | None) -> None:
        if self.purse is not None:
            self.purse.settle(cost_usd)

    # ── time ───────────────────────────────────────────────────────────────────────────────────

    def now(self) -> Moment:
        return Moment(self.wall_ms, self.ran_ms)

    def _pass(self, ms: int) -> None:
        self.wall_ms += ms
        self.ran_ms += ms

    def jump(self, ms: int) -> None:
        """Somebody sets the wall clock."""
        self.jumps += 1
        self.wall_ms = max(0, self.wall_ms + ms)

    def _wait(self, command: Wait) -> Happening:
        self._crash("crash in a wait")
        if self._due("stop in a wait"):
            return StopAsked(self.now(), 15)
        began = self.ran_ms
        if self.dice.random() < 0.3:
            self.jump(self.dice.choice([-DAY_MS, -60_000, 60_000, DAY_MS]))
        wait_until(command, cast(Any, self), cast(Any, _Sleeper(self)))
        self.ledger.waited(command.wait.kind, self.ran_ms - began, self.ran_ms)
        return WaitOver(self.now())


def _belongs_to_turn(command: Any) -> bool:
    """Whether an admitted turn, or an admitted session, may still start after this command."""
    if isinstance(command, EndLeftovers):
        return command.ending.spawn
    return isinstance(command, Admit | RunAgent | TreeCommand)


class _Sleeper:
    """Waits by the clock of the simulation; a wait of more than two days is not waited out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.until = world.ran_ms + 2 * DAY_MS

    def wait(self, seconds: float | None) -> bool:
        left = max(1, round((seconds or 0.0) * 1000))
        # A wait by the wall looks at the clock every minute; here it is enough to sleep on.
        self.world._pass(left)
        return self.world.ran_ms > self.until


def rebuilt(log: Sequence[Record], loop: FSMLoop) -> LoopState | None:
    """The run, from nothing but its log."""
    if not log:
        return None
    records = json.loads(json.dumps(log))
    run = first_state(from_record(records[0]), loop.context)
    for record in records:
        run = evolve(run, from_record(record))
    return LoopState.from_dict(json.loads(json.dumps(run.to_dict())))


# ── histories ──────────────────────────────────────────────────────────────────────────────────


def _kinds(record: Record) -> Iterable[str]:
    """What an event says about who did what to the run."""
    name = record["event"]
    yield name
    for field in ("agent", "cut_by", "type", "cause", "behavior", "wait_for"):
        if field in record:
            yield f"{name}: {record[field]}"
    if name in FINAL:
        yield f"{record['status']}, {record['reason']}"


class Figures(NamedTuple):
    """What came of a history, to be counted."""

    processes: int = 0
    agents: int = 0
    sessions: int = 0
    events: int = 0
    prefixes: int = 0


def play(
    seed: int,
    laws: Collection[int] = LAWS,
    *,
    prefixes: int = 4,
    actors: Counter[str] | None = None,
) -> Figures:
    dice = random.Random(seed)
    # Its own dice: the histories of earlier seeds stay as they were.
    purse = Purse(random.Random(f"{seed}/purse")) if seed % METERED_EACH == 0 else None
    with_people = seed % PEOPLE_OF in PEOPLE_AT
    people = People(random.Random(f"{seed}/people")) if with_people else None
    loop = budget_loop(dice)
    if people is not None:
        loop = with_choices(loop, people.dice)
    if seed % FALLBACK_OF == FALLBACK_AT:
        loop = with_fallback(loop, random.Random(f"{seed}/fallback"))
    world = World(loop, Nature(seed, dice.randint(6, 25)), dice, laws, purse, people)
    while world.processes < MOST_PROCESSES and _can_go_on(world):
        _next_process(world)
    if people is not None:
        people.history_ends(world.run)
        world.actors.update(people.actors)
    cuts = _check_prefixes(world, dice, prefixes)
    ledger = world.ledger
    if actors is not None:
        actors.update(world.actors)
    return Figures(world.processes, ledger.agents, ledger.sessions, len(world.log), cuts)


def _can_go_on(world: World) -> bool:
    return world.run is None or not_resumable(world.loop, world.run) is None


def _next_process(world: World) -> None:
    """A session resumes if one is there, else a person starts or resumes."""
    dice = world.dice
    accident = NOTHING
    if dice.random() < 0.45:
        accident = Accident(dice.choice(ACCIDENTS), dice.choice([1, 1, 2, 3, 5, 9, 17, 30]))
    if world.sessions:
        session = world.sessions.pop()
        world.wall_ms += session.takes_ms
        if session.resumes > 0:
            world.sessions.append(session._replace(resumes=session.resumes - 1))
            world.actors["resume by a session"] += 1
            world.process(accident, **_known(world))
        return
    if dice.random() < 0.3:
        world.jump(dice.choice([-DAY_MS, -5000, 5000, DAY_MS]))
    if world.run is None:
        world.process(accident)
    else:
        if world.people is not None:
            world.people.tell(world.run)
            world.people.answer(world.loop, world.run)
        world.process(accident, **_flags(world), **_known(world))


def _known(world: World) -> dict[str, Any]:
    """What a runner finds out by itself: processes that were left, how far a lost turn came."""
    dice, known = world.dice, dict[str, Any]()
    if dice.random() < 0.1:
        known["orphans"] = ("sleep (12)",)
    if dice.random() < 0.3:
        known["lost"] = LOST._replace(tokens=dice.choice([0, 800, 40_000]))
    world.actors.update(known.keys())
    return known


def _flags(world: World) -> dict[str, Any]:
    """What a person may type behind `resume`."""
    dice, run = world.dice, world.run
    assert run is not None
    flags: dict[str, Any] = {}
    if dice.random() < 0.12:
        flags["from_state"] = dice.choice(sorted(world.loop.states))
    if dice.random() < 0.4:
        flags["limits"] = Limits(
            dice.choice([None, run.iteration + 2]),
            dice.choice([None, run.ran_ms / 1000 + 10]),
            dice.choice([None, None, 1, 2]),
        )
    if (limits := _money(world)) != Limits():
        flags["limits"] = flags.get("limits", Limits()).under(limits)
    if dice.random() < 0.1:
        flags["context"] = {"note": "again"}
    if dice.random() < 0.1:
        world.redefine(redefined(world.loop, dice))
        world.actors["--definition current"] += 1
    if world.purse is not None and world.purse.dice.random() < 0.3:
        flags["over_budget"] = True
    world.actors.update(flags.keys() - {"limits"})
    limits = flags.get("limits", Limits())._asdict()
    world.actors.update(name for name, value in limits.items() if value is not None)
    return flags


def _money(world: World) -> Limits:
    """`--max-cost`, `--max-tokens` and `--stall-after`.

    They have dice of their own, and a third of the seeds goes without them: those are the histories
    that they were before these flags, some of which once broke a law.
    """
    seed = world.nature.seed
    dice = random.Random(f"{seed}/{world.processes}/money")
    if seed % 3 == 2 or dice.random() < 0.6:
        return Limits()
    return Limits(
        max_cost_usd=dice.choice([None, None, 0.3, 2.0, 20.0]),
        max_tokens=dice.choice([None, None, 500, 2_000_000]),
        stall_after=dice.choice([None, None, 1, 3]),
    )


# ── every prefix is a place to continue from ───────────────────────────────────────────────────


def _check_prefixes(world: World, dice: random.Random, count: int) -> int:
    """Cuts anywhere, and right after some resumes: what they were asked for is not lost."""
    anywhere = dice.sample(range(1, len(world.log) + 1), min(count, len(world.log)))
    resumes = [at for at, record in enumerate(world.log, 1) if record["event"] == "resume"]
    after_resumes = dice.sample(resumes, min(2, len(resumes)))
    return sum(_check_prefix(world, cut) for cut in sorted({*anywhere, *after_resumes}))


def _check_prefix(world: World, cut: int) -> bool:
    """A log cut anywhere is continued by the next resume, and comes to an end in words."""
    loop = world.definition_at(cut)
    copy = World(loop, world.nature, random.Random(cut), world.ledger.laws)
    copy.log = [dict(record) for record in world.log[:cut]]
    copy.trees.stored = world.trees.stored
    copy.trees.files = world.files_at(cut)
    copy.run = rebuilt(copy.log, loop)
    assert copy.run is not None
    if not_resumable(loop, copy.run) is not None:
        return False
    copy.wall_ms, copy.ran_ms = START_MS + copy.run.ran_ms, copy.run.ran_ms
    copy.ledger.records(_since_last_start(copy.log))
    copy.ledger.comes_to_rest()
    copy.process()
    _check_path(world.log, cut, copy)
    return True


def _check_path(log: Sequence[Record], cut: int, copy: World) -> None:
    """A process that is cut between two actions, and resumed, goes the way it would have gone."""
    rest = list(takewhile(lambda record: record["event"] != "resume", log[cut:]))
    is_whole = bool(rest) and rest[-1]["event"] in FINAL and rest[-1]["reason"] not in ACCIDENTAL
    if copy.loop.fallback:
        return  # which agents are limited depends on the clock
    if not is_whole or _may_go_another_way(log[:cut], rebuilt(log[:cut], copy.loop)):
        return
    expected, found = _path(rest), _path(copy.log[cut:])
    if "…" in (*expected, *found):
        shared = min(len(expected), len(found)) - 1
        expected, found = expected[:shared], found[:shared]
    copy.ledger.hold(8, expected == found, f"cut after event {cut} it went {found}, not {expected}")


REMARKS = (
    *("cost", "signal", "warning", "report"),
    *("tree", "tampered", "restored", "out_of_scope", "reference_moved"),
    *("note_received", "note_delivered"),
)
"""Events that follow from the one before them, or that people cause between two others."""


def _may_go_another_way(log: Sequence[Record], run: LoopState | None) -> bool:
    """An action was cut (`on_interrupt` decides), or handed off (the resume is its new session), or
    the clock was set in a wait, or what an action changed may be somebody else's work by now."""
    marks = [each["event"] for each in log if each["event"] not in REMARKS]
    waits = run.wait if run is not None else None
    waits_by_wall = waits is not None and waits.kind in ("host", "slot", "budget")
    was_cut = run is not None and run.phase in ("running", "interrupted")
    not_looked_at = run is not None and run.trees is not None and run.phase == "judging"
    # Whether its agent may start is asked again, and depends on the clock.
    in_handler = run is not None and run.metered and run.timed_out_in is not None
    return (
        was_cut or waits_by_wall or not_looked_at or in_handler or marks[-1] == "handoff_detected"
    )


def _path(records: Sequence[Record]) -> list[str]:
    """The way taken, up to the first wait whose length depends on the clock, a handoff, or a check
    that runs again before a success: after a resume more of them do, and each has its own result."""
    path: list[str] = []
    for record in records:
        match record["event"]:
            case "host_wait" | "agent_wait" | "handoff_detected" | "recheck":
                return [*path, "…"]
            case "warning" if " did not run: " in record["message"]:
                return [*path, "…"]  # an agent that may start at another time
            case "transition":
                path.append(f"{record['from']} -> {record['to']}")
            case "action_complete":
                path.append(f"{record['state']}: {record['exit_code']}")
            case name if name in FINAL:
                path.append(f"{record['status']}, {record['reason']}")
            case _:
                pass
    return path


def _since_last_start(log: Sequence[Record]) -> Iterable[Record]:
    """So much of a log that the book knows what is allowed and whether an action is open."""
    starts = [n for n, record in enumerate(log) if record["event"] == "action_start"]
    last = starts[-1] if starts else 0
    return [*(record for record in log[:last] if record["event"] == "resume"), *log[last:]]
