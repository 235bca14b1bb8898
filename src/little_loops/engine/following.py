"""Follow a recorded run: feed what happened in it to the machine again.

Each event that the machine gives must be the next one in the log; otherwise the log is damaged, or
another version wrote it. `happenings_of` yields everything that happened, as pairs of a command and
its answer, for whoever drives another machine with it.

Nothing is started, written or judged again: the verdicts are in the log, too.

Not here: what the events of a log say about what happened (`fsm.recorded`), another definition
(`replaying`), reading the log (`runs.recordings`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from little_loops.engine.drive import drive
from little_loops.fsm.commands import Command
from little_loops.fsm.events import ActionStart, Event, Resume, StateEnter
from little_loops.fsm.evolve import first_state, replay
from little_loops.fsm.happenings import Happening, Started
from little_loops.fsm.machine import Step
from little_loops.fsm.recorded import NotRecorded, Recording, Unexpected
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Note
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.masking import MASK
from little_loops.runs.recordings import RecordedRun

IMPOSSIBLE = (KeyError, TypeError, ValueError, AttributeError, AssertionError)
"""What the machine raises for a happening that cannot have happened."""


class Exchange(NamedTuple):
    """A command of the machine and what answered it, `wall_ms` and `ran_ms` after the one before.

    `happening` is None if the process was killed meanwhile; the next one then resumes the run.
    `entry` says for which time the run was in its state, `notes` are what people sent meanwhile. A
    start or resume answers no command. `written` is how many of the events that followed were
    written, if the process was killed meanwhile.
    """

    run: LoopState
    entry: int
    command: Command | None
    happening: Happening | None
    wall_ms: int = 0
    ran_ms: int = 0
    notes: tuple[Note, ...] = ()
    written: int | None = None


class Mismatch(NamedTuple):
    """Where a log is not what its machine would have written: the number of the event, the event in
    the log, and the one that the machine gives; None if it gives none here."""

    seq: int
    recorded: Event
    expected: Event | None


class Followed(NamedTuple):
    """What happened in a recorded run, in order."""

    run: LoopState
    exchanges: Sequence[Exchange]
    mismatch: Mismatch | None = None


def happenings_of(recorded: RecordedRun) -> Iterator[Exchange]:
    """Yield everything that happened in a recorded run, with the command that each happening
    answered; ends where the log is damaged."""
    yield from follow(recorded).exchanges


# ── the same definition ────────────────────────────────────────────────────────────────────────


class _Differs(Exception):
    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(mismatch)
        self.mismatch = mismatch


class FollowingWorld:
    """A world in which exactly that happens again which the log records."""

    def __init__(
        self,
        loop: FSMLoop,
        recording: Recording,
        run: LoopState,
        is_expected: Callable[[Event, Event], bool],
    ) -> None:
        """`is_expected` says whether an event of the log is the one that the machine gives."""
        self.loop = loop
        self.run = run
        self._is_expected = is_expected
        self.recording = recording
        self.exchanges: list[Exchange] = []
        self._entries = Entries()
        self._at = recording.at

    def emit(self, step: Step) -> None:
        """Compare the events with the log. Raises `_Differs` at the first difference, and
        `NotRecorded` if the log ends, or is cut off by a kill, before the last of them."""
        recording, first = self.recording, self.recording.position
        for entry in step.events:
            is_cut = recording.position > first and recording.is_at_resume
            if recording.is_over or (is_cut and not isinstance(entry.event, Resume)):
                written = recording.entries[first : recording.position]
                self.run = replay(self.run, written)
                self.exchanges[-1] = self.exchanges[-1]._replace(written=len(written))
                raise NotRecorded
            recorded = recording.entries[recording.position]
            if not self._is_expected(recorded.event, entry.event):
                raise _Differs(Mismatch(recorded.seq, recorded.event, entry.event))
            recording.position += 1
            self._entries.count(recorded.event)
        self.run = step.run

    def save(self, run: LoopState) -> None:
        """Store nothing."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return the notes that arrived now."""
        if notes := self.recording.notes():
            self.exchanges[-1] = self.exchanges[-1]._replace(notes=notes)
        return notes

    def perform(self, run: LoopState, command: Command) -> Happening:
        """Return what the log has as the answer to a command, and keep both. Raises `NotRecorded` if
        the log has none, `_Differs` if its next event answers something else."""
        recording = self.recording
        try:
            happening = recording.answer(self.loop, run, command)
        except NotRecorded:
            self.keep(command, None)
            raise
        except Unexpected:
            raise _Differs(self.unexpected()) from None
        self.keep(command, happening)
        return happening

    def unexpected(self) -> Mismatch:
        """Return that the machine does not give the next event of the log."""
        recording = self.recording
        entry = recording.entries[min(recording.position, len(recording.entries) - 1)]
        return Mismatch(entry.seq, entry.event, None)

    def keep(self, command: Command | None, happening: Happening | None) -> None:
        """Remember what answered a command, and how long that took."""
        at = self._at if happening is None else happening.at
        passed = (at.wall_ms - self._at.wall_ms, at.ran_ms - self._at.ran_ms)
        entry = self._entries.of(self.run.current_state)
        self.exchanges.append(Exchange(self.run, entry, command, happening, *passed))
        self._at = at

    def skip_to_resume(self) -> None:
        """Apply what is left of the events of a process that was killed while it wrote them, and a
        fork."""
        recording = self.recording
        while not recording.is_over and (recording.is_at_fork or not recording.is_at_resume):
            entry = recording.entries[recording.position]
            self.run = replay(self.run, [entry])
            self._entries.count(entry.event)
            recording.position += 1


class Entries:
    """How often each state was entered; a retry is not another entry."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._step = 0

    def count(self, event: Event) -> None:
        if isinstance(event, StateEnter) and event.step != self._step:
            self._times[event.state] += 1
            self._step = event.step

    def of(self, state: str) -> int:
        return self._times[state]


def follow(recorded: RecordedRun) -> Followed:
    """Feed a recorded run to the definitions it had, up to the end of its log or to the first event
    that is not the expected one."""
    recording = Recording(recorded.entries)
    first = recorded.entries[0]
    run = first_state(first, recorded.context)
    is_expected = is_same if recorded.is_of_this_version else is_alike
    world = FollowingWorld(_definition_at(recorded, first.seq), recording, run, is_expected)
    happening: Happening = Started(recording.at)
    while True:
        world.keep(None, happening)
        try:
            world.run, _ = drive(world.loop, world.run, happening, world)
            if not recording.is_over and not recording.is_at_resume:
                return Followed(world.run, world.exchanges, world.unexpected())
        except NotRecorded:
            pass
        except _Differs as found:
            return Followed(world.run, world.exchanges, found.mismatch)
        except IMPOSSIBLE:  # such as a state that the definition does not have
            return Followed(world.run, world.exchanges, world.unexpected())
        world.skip_to_resume()
        if recording.is_over:
            return Followed(world.run, world.exchanges)
        world.loop = _definition_at(recorded, recording.entries[recording.position].seq)
        happening = recording.resumed(world.run)


def _definition_at(recorded: RecordedRun, seq: int) -> FSMLoop:
    """Return the definition that the run had when it wrote an event."""
    return next(
        each.loop for each in recorded.definitions if each.until is None or seq <= each.until
    )


def is_same(recorded: Event, expected: Event) -> bool:
    """Return whether an event of a log is the expected one. A secret may be masked in it, and it
    has the filled-in text of its action."""
    if type(recorded) is not type(expected):
        return False
    if isinstance(recorded, ActionStart) and isinstance(expected, ActionStart):
        recorded = recorded._replace(filled=None)
        if recorded.session_id is not None and expected.session_id is not None:
            # It follows from the id of the run; a fork has copies of another run's events.
            recorded = recorded._replace(session_id=expected.session_id)
    return recorded == expected or _is_same_value(recorded, expected)


PATH_FIELDS = [
    "state",
    "from_",
    "to",
    "retry",
    "result",
    "verdict",
    "status",
    "final_state",
    "step",
    "attempt",
    "iteration",
    "when",
    "place",
]
"""The event fields that record which path a run took."""


def is_alike(recorded: Event, expected: Event) -> bool:
    """Return whether an event recorded by another version says the same about the path."""
    if type(recorded) is not type(expected):
        return False
    pairs = ((getattr(recorded, name, None), getattr(expected, name, None)) for name in PATH_FIELDS)
    return all(
        old == new or old is None or not isinstance(old, str | int | bool) for old, new in pairs
    )


def _is_same_value(recorded: Any, expected: Any) -> bool:
    """Return whether two values are equal, where a mask stands for any text."""
    if isinstance(recorded, str) and MASK in recorded:
        return _fits(recorded, expected)
    if isinstance(recorded, Mapping) and isinstance(expected, Mapping):
        return recorded.keys() == expected.keys() and all(
            _is_same_value(value, expected[name]) for name, value in recorded.items()
        )
    if isinstance(recorded, tuple | list) and isinstance(expected, tuple | list):
        return len(recorded) == len(expected) and all(map(_is_same_value, recorded, expected))
    return bool(recorded == expected)


def _fits(masked: str, text: object) -> bool:
    """Return whether a text may be what a masked one was made from."""
    pattern = ".*".join(re.escape(part) for part in masked.split(MASK))
    return isinstance(text, str) and re.fullmatch(pattern, text, re.DOTALL) is not None
