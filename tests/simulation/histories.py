"""One number, one history: a machine, a run of it, the accidents on the way, and what must hold.

`tell(seed)` plays the whole of it and raises AssertionError where a promise is broken.  What is
generated from the number is all there is: the same number gives the same history.
"""

from __future__ import annotations

import errno
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from little_loops.engine.following import follow
from little_loops.engine.lifecycle import ARCHIVED
from little_loops.errors import DamagedRun
from little_loops.fsm.codec import from_record
from little_loops.fsm.evolve import evolve, first_state, replay
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.runs.history import past_files
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.recordings import RecordedDefinition, RecordedRun
from little_loops.runs.stored_run import StoredRun, current, read_stored
from little_loops.system.files import SYNC, WRITE
from tests.entries import log_of as records_of
from tests.fsm.test_laws import never_twice, transitions
from tests.simulation.disk import Disk, Fault, Killed, PowerCut, heard
from tests.simulation.engine import NAME, Cue, Ended, Simulation, is_about_storage
from tests.simulation.machines import Key, Nature, machine

MOST_SEGMENTS = 60
AT_THE_END = 35
"""Operations from the last event to the last file in the history."""
Record = dict[str, Any]


class Told(NamedTuple):
    """What came of a history, to be counted."""

    power_cuts: int = 0
    kills: int = 0
    errors: int = 0
    stops: int = 0
    operations: int = 0


def tell(seed: int, place: str) -> Told:
    """Play a history in a directory of its own; AssertionError where a promise is broken."""
    dice = random.Random(seed)
    loop = machine(dice)
    nature = Nature(seed, stops_after=dice.randint(5, 25))
    unbroken = _unbroken(loop, nature, os.path.join(place, "unbroken"))
    history = History(loop, nature, os.path.join(place, "cut"), dice, unbroken)
    try:
        return history.play()
    finally:
        history.world.close()


class Unbroken(NamedTuple):
    """The run as it goes when nothing happens to it."""

    log: list[Record]
    operations: int


def _unbroken(loop: FSMLoop, nature: Nature, place: str) -> Unbroken:
    os.makedirs(place)
    world = Simulation(loop, nature.deed, Disk(place))
    is_resume = False
    for _ in range(MOST_SEGMENTS):
        ended = world.segment(is_resume=is_resume)
        assert ended.ran is not None, ended
        if ended.ran.run.status in ARCHIVED:
            break
        is_resume = True
    world.close()
    return Unbroken(log_of(place), world.disk.operations)


class History:
    """A run and its accidents."""

    def __init__(
        self, loop: FSMLoop, nature: Nature, place: str, dice: random.Random, unbroken: Unbroken
    ) -> None:
        os.makedirs(place)
        self.place = place
        self.dice = dice
        self.unbroken = unbroken
        os.mkdir(os.path.join(place, "0"))
        self.world = Simulation(loop, nature.deed, Disk(os.path.join(place, "0")))
        self.count: Counter[str] = Counter()
        self.accidents = dice.randint(1, 6)

    @property
    def root(self) -> str:
        return self.world.disk.root

    def play(self) -> Told:
        for number in range(MOST_SEGMENTS):
            found = self._found()
            if found is not None and found.run.status in ARCHIVED:
                break
            self._segment(found, with_accident=number < self.accidents)
        else:
            raise AssertionError("it never came to its end")
        self._check_story()
        self._check_next_run()
        done = self.count
        operations = self.world.disk.operations
        return Told(done["cut"], done["kill"], done["error"], done["stop"], operations)

    def _found(self) -> StoredRun | None:
        """The run as its files tell it; a single accident never makes it unreadable."""
        try:
            with heard(self.world.disk):
                found = current(self.root, NAME)
                past = [] if found else past_files(self.root, NAME)
                return read_stored(past[0]) if past else found
        except DamagedRun as error:
            raise AssertionError(f"unreadable after an accident: {error}") from error

    def _segment(self, found: StoredRun | None, *, with_accident: bool) -> None:
        if found is None:
            assert not self.world.begun, "an action was begun, and nothing is known of it"
        fault, cue = self._accident() if with_accident else (None, None)
        ended = self.world.segment(is_resume=found is not None, fault=fault, cue=cue)
        self.world.forbidden |= set(keys_of(self._safe_log()))
        self._check_end(ended, with_accident=with_accident)
        if ended.gone is PowerCut:
            number = self.count["cut"] + 1
            again = os.path.join(self.place, str(number))
            self.world.disk = self.world.disk.after_power_cut(self.dice, again)
        self._count(ended)

    def _check_end(self, ended: Ended, *, with_accident: bool) -> None:
        if ended.error is not None:
            assert with_accident, f"an error though nothing happened: {ended.error!r}"
            assert is_about_storage(ended.error), repr(ended.error)

    def _count(self, ended: Ended) -> None:
        if ended.gone is not None:
            self.count["cut" if ended.gone is PowerCut else "kill"] += 1
        elif ended.error is not None:
            self.count["error"] += 1
        elif ended.ran is not None and ended.ran.run.status == "interrupted":
            self.count["stop"] += 1

    def _safe_log(self) -> list[Record]:
        safe = self.world.disk.safe_files()
        logs = [text for name, text in safe if name.endswith(".events.jsonl")]
        return [record for text in logs for record in parsed(text)]

    # What happens

    def _accident(self) -> tuple[Fault | None, Cue | None]:
        gone = self.dice.choice([PowerCut, PowerCut, Killed])
        kind = self.dice.random()
        if kind < 0.25:
            what: list[type[BaseException] | int] = [gone, gone, 15, 2]
            cue = Cue(self.dice.randint(1, 6), self.dice.choice(what), self.dice.random() < 0.5)
            return None, cue
        number = self._moment()
        if kind < 0.75:
            return self._dies(number, gone), None
        return self._fails(number), None

    def _moment(self) -> int:
        """Anywhere; often near an end, where a run is moved to the history."""
        whole = max(self.unbroken.operations, AT_THE_END)
        if self.dice.random() < 0.3:
            return self.dice.randint(whole - AT_THE_END, whole) or 1
        return self.dice.randint(1, whole)

    def _dies(self, number: int, gone: type[BaseException]) -> Fault:
        """The process is gone before an operation; a write may be half done by then."""
        disk, last, part = self.world.disk, self.world.disk.operations + number, self.dice.random()

        def fault(what: str, arguments: tuple[Any, ...]) -> None:
            if disk.operations == last:
                if what == WRITE:
                    _write_part(arguments, part)
                disk.kill(gone)

        return fault

    def _fails(self, number: int) -> Fault:
        """An operation is refused: once, or from then on."""
        disk, first, part = self.world.disk, self.world.disk.operations + number, self.dice.random()
        code = self.dice.choice([errno.EIO, errno.ENOSPC, errno.EMFILE])
        for_good = self.dice.random() < 0.3

        def fault(what: str, arguments: tuple[Any, ...]) -> None:
            if disk.operations == first or (for_good and disk.operations > first):
                if code == errno.EMFILE and what in (WRITE, SYNC):
                    return  # has its descriptor already
                if what == WRITE:
                    _write_part(arguments, part)
                raise OSError(code, os.strerror(code))

        return fault

    # What must hold

    def _check_story(self) -> None:
        log, unbroken = log_of(self.root), self.unbroken.log
        assert [record["seq"] for record in log] == list(range(1, len(log) + 1))
        assert never_twice(log)
        assert completions(log) == completions(unbroken)
        assert _own_ways(log) == _own_ways(unbroken)
        assert _ending(log) == _ending(unbroken)
        self._check_executions(log)
        seen = self._found()
        assert seen is not None
        assert seen.run == replayed(log, self.world.loop)
        check_replays(log, self.world.loop)

    def _check_executions(self, log: list[Record]) -> None:
        begun = Counter(key for key, _ in self.world.begun)
        interrupted = Counter(interrupted_keys(log))
        for key, _, _ in completions(log):
            assert 1 <= begun[key] <= 1 + interrupted[key], f"{key} ran {begun[key]} times"
        accidents = (
            self.count["cut"] + self.count["kill"] + self.count["error"] + self.count["stop"]
        )
        assert sum(begun.values()) <= len(completions(log)) + accidents

    def _check_next_run(self) -> None:
        """The next run of that name begins, and this one is in the history, whole."""
        before = log_of(self.root)
        ended = self.world.begin_anew()
        assert ended.ran is not None, ended
        logs = [records_of(files) for files in past_files(self.root, NAME)]
        assert before in logs, "the run before is not in the history"
        left = [name for name in os.listdir(RunFiles(self.root, NAME).directory) if "tmp-" in name]
        assert left == []


def check_replays(log: list[Record], loop: FSMLoop) -> None:
    """The log replays without a difference, whole and up to each of its events."""
    entries = [from_record(record) for record in log]
    recorded = RecordedRun(entries, [RecordedDefinition(loop)], loop.context)
    followed = follow(recorded)
    assert followed.mismatch is None
    assert followed.run == replayed(log, loop)
    for count in range(1, len(entries)):
        part = follow(recorded._replace(entries=entries[:count]))
        assert part.mismatch is None, (count, part.mismatch, entries[max(0, count - 6) : count + 2])


def _write_part(arguments: tuple[Any, ...], part: float) -> None:
    descriptor, data = arguments
    os.write(descriptor, data[: int(len(data) * part)])


# ── reading a log ──────────────────────────────────────────────────────────────────────────────


def log_of(root: str) -> list[Record]:
    run = Runs(root).view(NAME)
    return [] if run is None else records_of(run.files)


def parsed(text: bytes) -> Iterator[Record]:
    for line in text.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def replayed(log: list[Record], loop: FSMLoop) -> LoopState:
    entries = [from_record(record) for record in log]
    return replay(first_state(entries[0], loop.context), entries)


def keys_of(log: list[Record]) -> list[Key]:
    """The actions whose results stand in a log."""
    return [key for key, record in _keyed(log) if record["event"] == "action_complete"]


def interrupted_keys(log: list[Record]) -> list[Key]:
    return [key for key, record in _keyed(log) if record["event"] == "action_interrupted"]


def _keyed(log: list[Record]) -> Iterator[tuple[Key, Record]]:
    run: LoopState | None = None
    for record in log:
        entry = from_record(record)
        if run is None or run.run != entry.run:
            run = first_state(entry, {})
        yield Key(run.step, run.retries, run.continuations), record
        run = evolve(run, entry)


def completions(log: list[Record]) -> list[tuple[Key, int | None, str | None]]:
    return [
        (key, record["exit_code"], record["output"])
        for key, record in _keyed(log)
        if record["event"] == "action_complete"
    ]


def _own_ways(log: list[Record]) -> list[tuple[str, str, str]]:
    return transitions(log)


def _ending(log: list[Record]) -> tuple[str, str, str]:
    last = log[-1]
    return last["event"], last["status"], last["reason"]
