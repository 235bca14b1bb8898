"""A fork at every step of every recorded run, driven on with the recorded results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from little_loops.engine.drive import drive
from little_loops.engine.following import Exchange, follow, is_same
from little_loops.engine.replaying import ReplayWorld
from little_loops.fsm.commands import AskJudge, Command, RunHook, RunShell, TakeSnapshot
from little_loops.fsm.events import Entry, Event, Forked, Resume, StateEnter
from little_loops.fsm.evolve import evolve, replay
from little_loops.fsm.forking import cannot_fork, events_until, renamed, state_after
from little_loops.fsm.happenings import Happening, HookEnded, Resumed, SnapshotTaken
from little_loops.fsm.machine import Step
from little_loops.fsm.recorded import NotRecorded, Recording
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Changed, LoopState, Note
from little_loops.fsm.step_trees import trees_after
from little_loops.fsm.timestamps import Moment
from little_loops.runs.recordings import RecordedRun
from tests.engine.recordings import collection

WITH_TREES = collection().with_trees()
RUNS = [name for name in collection() if name not in WITH_TREES]


class ForkWorld:
    """A world in which that happens which the run recorded after the step."""

    def __init__(self, loop: FSMLoop, run: LoopState, rest: list[Entry]) -> None:
        self.loop = loop
        self.run = run
        self.recording = Recording(rest)
        self.more: list[Event] = []

    def emit(self, step: Step) -> None:
        recording, first = self.recording, self.recording.position
        for number, entry in enumerate(step.events):
            is_cut = recording.position > first and recording.is_at_resume
            if recording.is_over or (is_cut and not isinstance(entry.event, Resume)):
                self.run = replay(self.run, step.events[:number])
                raise NotRecorded  # the process of the run was killed while it wrote this
            if is_same(recording.entries[recording.position].event, entry.event):
                recording.position += 1
            else:
                self.more.append(entry.event)
        self.run = step.run

    def save(self, run: LoopState) -> None:
        """Store nothing."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        return self.recording.notes()

    def perform(self, run: LoopState, command: Command) -> Happening:
        return self.recording.answer(self.loop, run, command)

    def drive_on(self, happening: Happening) -> None:
        """Drive the fork to the end of the recording, through every resume of the run."""
        while True:
            with suppress(NotRecorded):
                drive(self.loop, self.run, happening, self)
            if self.recording.is_over:
                return
            assert self.recording.is_at_resume, (self.recording.position, self.more)
            happening = self.recording.resumed(self.run)


def forked(run: RecordedRun, step: int) -> tuple[LoopState, list[Entry]] | None:
    """The state of a fork after a step, and the events that the run wrote after that step; None if
    it ended in that step."""
    begun = events_until(run.entries, step)
    state = state_after(renamed(begun, "fork"), run.context)
    rest = list(run.entries[len(begun) :])
    if cannot_fork(run.definitions[-1].loop, state, step) is not None or not rest:
        return None
    last = begun[-1]
    entry = Entry(Forked(last.run, "x", step, "p"), last.wall_ms, last.ran_ms, "fork", last.seq + 1)
    return evolve(state, entry), rest


def steps_of(run: RecordedRun) -> list[int]:
    steps = (each.event.step for each in run.entries if isinstance(each.event, StateEnter))
    return list(dict.fromkeys(steps))


@pytest.mark.parametrize("name", RUNS)
def test_a_fork_at_every_step_ends_as_the_run_did(name, record_property):
    run = collection()[name]
    final = follow(run).run
    count = 0
    for step in steps_of(run):
        found = forked(run, step)
        if found is None:
            continue
        state, rest = found
        world = ForkWorld(run.definitions[-1].loop, state, rest)
        at = Moment(rest[0].wall_ms, rest[0].ran_ms)
        world.drive_on(Resumed(at, metered=state.metered))
        assert [type(each) for each in world.more] == [Resume], (step, world.more)
        assert ending_of(world.run) == ending_of(final), step
        count += 1
    record_property("figure: forks of recorded runs, driven on", count)


def ending_of(run: LoopState) -> tuple[object, ...]:
    return run.status, run.reason, run.current_state, run.step, run.iteration


# ── with snapshots ─────────────────────────────────────────────────────────────────────────────


class ForkOfTrees(ReplayWorld):
    """A world in which a fork gets the recorded answers of the steps after it.

    A fork looks at its files before it begins, and does not trust the passes in its log, so it gives
    more commands than the run: a snapshot shows the files as they are, a check that is repeated on
    the same files gives what it gave, and so does its judge. Its first hook runs, as at any resume.
    """

    def __init__(self, recorded: RecordedRun, state: LoopState, step: int) -> None:
        exchanges = follow(recorded).exchanges
        before = [each for each in exchanges if each.run.seq < state.seq - 1]
        after = [each for each in exchanges if each.run.seq >= state.seq - 1]
        at = Moment(recorded.entries[state.seq - 2].wall_ms, state.ran_ms)
        begin = Exchange(state, 0, None, Resumed(at, metered=state.metered))
        super().__init__(recorded.definitions[-1].loop, recorded, [begin, *after], {})
        self.run = state
        for entry in recorded.entries[: state.seq - 1]:
            self._entries.count(entry.event)
        self.tree = trees_after(recorded.entries)[step]
        self.checked: dict[tuple[str, str], Exchange] = {}
        self.opinions: dict[str, Exchange] = {}
        for each in before:
            self._remember(each)

    def perform(self, run: LoopState, command: Command) -> Happening:
        happening = super().perform(run, command)
        self._remember(Exchange(run, 0, command, happening))
        if isinstance(happening, SnapshotTaken):
            self.tree = self.tree._replace(
                id=happening.tree, project=happening.project, guard=happening.guard
            )
        return happening

    def _remember(self, exchange: Exchange) -> None:
        if isinstance(exchange.command, RunShell) and exchange.happening is not None:
            self.checked[_check_of(exchange.run, exchange.command)] = exchange
        if isinstance(exchange.command, AskJudge) and exchange.happening is not None:
            self.opinions[exchange.run.current_state] = exchange

    def _unrecorded(self, run: LoopState, command: Command) -> Happening:
        if isinstance(command, TakeSnapshot):
            tree, now = self.tree, self._now
            same = tuple(Changed() for _ in command.compare)
            ids = (tree.id, tree.project, tree.guard)
            return SnapshotTaken(now, command.when, *ids, Changed(), same, ending=command.ending)
        if isinstance(command, RunHook) and command.name == "before_run":
            return HookEnded(self._now, command.name, ending=command.ending)
        if isinstance(command, AskJudge) and run.current_state in self.opinions:
            return self._later(self.opinions[run.current_state])
        if isinstance(command, RunShell) and run.trees is not None and run.trees.headed is not None:
            return self._later(self.checked[_check_of(run, command)])
        return super()._unrecorded(run, command)


def _check_of(run: LoopState, command: RunShell) -> tuple[str, str]:
    return run.current_state, "here" if command.copy is None else "clean"


def path_of(entries: Sequence[Entry]) -> list[tuple[str, int, int]]:
    """The states that were entered, with step and iteration; a repeated check enters none."""
    events = (entry.event for entry in entries)
    return [(e.state, e.step, e.iteration) for e in events if isinstance(e, StateEnter)]


@pytest.mark.parametrize("name", WITH_TREES)
def test_a_fork_at_every_step_ends_with_the_same_tree(name, record_property):
    run = collection()[name]
    final = follow(run).run
    assert final.trees is not None
    count = 0
    for step in steps_of(run):
        found = forked(run, step)
        if found is None or step not in trees_after(run.entries):
            continue
        state, rest = found
        world = ForkOfTrees(run, state, step)
        missing = world.play()
        assert missing is None, (step, missing)
        assert path_of(world.log) == path_of(rest), step
        assert world.run.trees is not None
        ended = (world.run.status, world.run.reason, world.run.trees.tree)
        assert ended == (final.status, final.reason, final.trees.tree), step
        count += 1
    record_property("figure: forks with snapshots, driven on to the same tree", count)
