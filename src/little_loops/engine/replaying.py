"""Replay a recorded run with another definition.

What happened in the run (`following`) is fed to the machine of that definition. An answer belongs to
a state, its n-th entry and the attempt; where the recording has none, the replay ends: it never
guesses. A recorded verdict is used again if its condition and what it judged are unchanged;
otherwise the stored output is judged. Nothing is started and nothing is written.

Not here: the definitions that the run had (`following`), printing (`terminal.replay_report`).
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from little_loops.engine.drive import drive
from little_loops.engine.following import (
    Entries,
    Exchange,
    Followed,
)
from little_loops.engine.resolve import Values, condition_sources, fill, judge_now, shown_text
from little_loops.engine.scripted import ScriptedValues, action_text, within_deadline
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.commands import (
    Admit,
    AskJudge,
    CollectJudge,
    Command,
    Ending,
    EndLeftovers,
    FindBranches,
    Finish,
    GatherChildren,
    Judge,
    LookUpLimits,
    PutBack,
    RestoreBest,
    RestoreProtected,
    RunAction,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    TakeSnapshot,
    Wait,
)
from little_loops.fsm.endings import not_resumable
from little_loops.fsm.events import (
    Entry,
    FinalEvent,
    LoopInterrupted,
    LoopStart,
    StateEnter,
    TransitionTaken,
)
from little_loops.fsm.evolve import first_state, replay
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    Happening,
    HookEnded,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    PathsRestored,
    Resumed,
    SnapshotCut,
    SnapshotTaken,
    WaitOver,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import FileRef, LoopState, Note, Result
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.waits import left_ms
from little_loops.light_typing import assert_never
from little_loops.records import NamedTuple
from little_loops.reporting.masking import MASK, Masker
from little_loops.runs.recordings import RecordedRun


class RecordedMove(NamedTuple):
    """A transition that a run took, or how it ended (`status` and `reason`).

    The first move, to the initial state, comes from none. `position` is its place among the events.
    """

    from_: str | None
    to: str | None
    reason: str
    iteration: int
    position: int
    is_retry: bool = False
    status: str | None = None

    @property
    def is_transition(self) -> bool:
        return self.from_ is not None and self.status is None

    def goes_as(self, other: RecordedMove) -> bool:
        """Return whether both lead to the same state, or end the run in the same way."""
        if self.status is not None or other.status is not None:
            return (self.status, self.reason, self.from_) == (
                other.status,
                other.reason,
                other.from_,
            )
        return (self.from_, self.to, self.is_retry) == (other.from_, other.to, other.is_retry)


class WouldRun(NamedTuple):
    """What would have been run: the state and its action with all values."""

    state: str
    text: str


class Difference(NamedTuple):
    """The first move that differs; `number` counts the transitions from 1, 0 is the start.

    `would_run` is what the replay would have run then, `ends` how it ended if it ran nothing more.
    """

    number: int
    recorded: RecordedMove
    replayed: RecordedMove
    would_run: WouldRun | None = None
    ends: RecordedMove | None = None


class Replayed(NamedTuple):
    """How far a run goes with another definition.

    `missing` says what the recording does not have, if the replay had to end there.
    """

    transitions: int
    difference: Difference | None = None
    missing: str | None = None
    notes: tuple[str, ...] = ()


class NoAnswer(Exception):
    """The recording has no answer to a command. `ending` is that of the run, if it was ending."""

    def __init__(self, why: str, ending: Ending | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.ending = ending


class Gone(Exception):
    """The process of the recorded run was killed while it carried out a command."""


Key = tuple[str, str, int]
"""What a command is for, its state, and how many times the run has entered that state."""


def replay_with(
    loop: FSMLoop, recorded: RecordedRun, followed: Followed, environ: Mapping[str, str]
) -> Replayed:
    """Feed what happened in a run to another definition, as far as the recording has answers."""
    world = ReplayWorld(loop, recorded, followed.exchanges, environ)
    missing = world.play()
    before = list(moves_of(recorded.entries))
    after = list(moves_of(world.log))
    if missing is not None and missing.ending is not None:
        after.append(_ended_by(missing.ending, world))
    difference = _first_difference(before, after)
    if difference is not None:
        would_run = world.would_run(difference.replayed.position)
        ends = after[-1] if would_run is None and after[-1].status is not None else None
        difference = difference._replace(would_run=would_run, ends=ends)
    why = None if missing is None else missing.why
    return Replayed(count_transitions(after), difference, why, world.remarks())


def count_transitions(moves: Iterable[RecordedMove]) -> int:
    return sum(move.is_transition for move in moves)


def _first_difference(
    before: Sequence[RecordedMove], after: Sequence[RecordedMove]
) -> Difference | None:
    """Return the first move that differs, as far as both runs go; None if there is none."""
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        if not old.goes_as(new):
            return Difference(number, old, new)
    return None


def moves_of(entries: Sequence[Entry]) -> Iterator[RecordedMove]:
    """Yield the transitions of a run, and how it ended. An interruption is not an end, unless
    nothing follows."""
    iteration, is_first = 1, True
    for index, entry in enumerate(entries):
        match entry.event:
            case StateEnter() as event:
                iteration = event.iteration
                if is_first:
                    yield RecordedMove(None, event.state, event.reason, iteration, index)
                is_first = False
            case TransitionTaken() as event:
                yield RecordedMove(
                    event.from_, event.to, event.reason, iteration, index, is_retry=event.retry
                )
            case LoopInterrupted() if index < len(entries) - 1:
                continue
            case event if isinstance(event, FinalEvent):
                yield RecordedMove(
                    event.final_state, None, event.reason, iteration, index, status=event.status
                )
            case _:
                continue


def _ended_by(ending: Ending, world: ReplayWorld) -> RecordedMove:
    run = world.run
    return RecordedMove(
        run.current_state,
        None,
        ending.reason,
        run.iteration,
        len(world.log),
        status=ending.status,
    )


class ReplayWorld:
    """A world in which the answers of a recording are given again, by state, entry and attempt."""

    def __init__(
        self,
        loop: FSMLoop,
        recorded: RecordedRun,
        exchanges: Sequence[Exchange],
        environ: Mapping[str, str],
    ) -> None:
        first = recorded.entries[0]
        assert isinstance(first.event, LoopStart), "the recorded run was followed from its start"
        start = first._replace(event=first.event._replace(initial=loop.initial))
        self.loop = loop
        self.run = first_state(start, context_for(loop, recorded))
        self.log: list[Entry] = []
        self._recorded = recorded
        self._environ = environ
        self._now = Moment(first.wall_ms, first.ran_ms)
        self._entries = Entries()
        self._notes: tuple[Note, ...] = ()
        self._written: int | None = None
        self._sessions = deque(each for each in exchanges if each.command is None)
        self._answers = _by_key(exchanges)
        self._asked: list[tuple[int, LoopState, RunAction]] = []
        self._remarks: dict[str, None] = {}

    def play(self) -> NoAnswer | None:
        """Run to the end of the recording. Return what was missing there, or None if the run came
        to its own end."""
        while True:
            session = self._sessions.popleft()
            try:
                self._check_resumable(session.happening)
                happening = self._later(session)
                self._notes, self._written = session.notes, session.written
                self.run, _ = drive(self.loop, self.run, happening, self)
                if not self._is_resumed():
                    return None
            except Gone:
                if not self._sessions:
                    return NoAnswer("the recording ends there")
            except NoAnswer as missing:
                return missing

    def _is_resumed(self) -> bool:
        """Return whether the recorded run was resumed after it had ended like this."""
        before = self._sessions[0].run if self._sessions else None
        return before is not None and (before.status, before.reason) == (
            self.run.status,
            self.run.reason,
        )

    def _check_resumable(self, happening: Happening | None) -> None:
        """Raise `NoAnswer` if the recorded resume is not possible with this definition."""
        if not isinstance(happening, Resumed):
            return
        if why := not_resumable(self.loop, self.run):
            raise NoAnswer(f"the recorded run was resumed here, which is not possible: {why}")
        answer = None if happening.answer is None else happening.answer.to
        for state in (happening.from_state, answer):
            if state is not None and state not in self.loop.states:
                raise NoAnswer(
                    f"the recorded run was resumed from `{state}`, but the loop has no such state"
                )

    # ── the world ──────────────────────────────────────────────────────────────────────────────

    def emit(self, step: Step) -> None:
        """Keep the events; only those that were written if the process was killed meanwhile, which
        raises `Gone`."""
        written, self._written = self._written, None
        events = step.events[:written]
        for entry in events:
            self._entries.count(entry.event)
        self.log.extend(events)
        if written is not None:
            self.run = replay(self.run, events)
            raise Gone
        self.run = step.run

    def save(self, run: LoopState) -> None:
        """Store nothing."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        notes, self._notes = self._notes, ()
        return notes

    def perform(self, run: LoopState, command: Command) -> Happening:
        """Return the recorded answer to a command, or one that follows from the definition. Raises
        `NoAnswer` if there is none, and `Gone` if the process was killed there."""
        if isinstance(command, RunAction):
            self._asked.append((len(self.log), run, command))
        answers = self._answers.get(_key(command, run, self._entries.of(run.current_state)))
        if not answers:
            return self._unrecorded(run, command)
        exchange = answers.popleft()
        if exchange.happening is None:
            raise Gone
        self._notes, self._written = exchange.notes, exchange.written
        return self._adapted(run, command, exchange)

    def _later(self, exchange: Exchange, ms: int = 0) -> Happening:
        """Let the time of an exchange pass, and `ms` more or less. Return its happening."""
        assert exchange.happening is not None, "the process was not killed"
        self._pass(exchange.wall_ms + ms, exchange.ran_ms + ms)
        happening: Happening = exchange.happening._replace(at=self._now)
        return self._without_known_context(happening) if exchange.command is None else happening

    def _pass(self, wall_ms: int, ran_ms: int) -> Moment:
        self._now = Moment(self._now.wall_ms + wall_ms, self._now.ran_ms + max(0, ran_ms))
        return self._now

    def _without_known_context(self, happening: Happening) -> Happening:
        """Return a resume without the context that came from the definition of that time."""
        if not isinstance(happening, Resumed):
            return happening
        known = [each.loop.context for each in self._recorded.definitions]
        given = {
            name: value
            for name, value in happening.context.items()
            if not any(name in context and context[name] == value for context in known)
        }
        return happening._replace(context=given)

    # ── answers ────────────────────────────────────────────────────────────────────────────────

    def _adapted(self, run: LoopState, command: Command, exchange: Exchange) -> Happening:
        """Return a recorded answer as an answer to this command, which may differ in details."""
        match exchange.happening:
            case ActionEnded() as ended if isinstance(command, RunAction | GatherChildren):
                return self._action(run, command, exchange, ended)
            case Judged() if isinstance(command, Judge):
                return self._judged(run, command, exchange)
            case WaitOver() if isinstance(command, Wait):
                return self._waited(command, exchange)
            case SnapshotTaken() as taken if isinstance(command, TakeSnapshot):
                if len(command.compare) != len(taken.compared):
                    raise NoAnswer("the recorded run did not compare the files here")
                self._remark_rules()
                taken = taken._replace(when=command.when, ending=command.ending, late=command.late)
                return self._later(exchange._replace(happening=taken))
            case SnapshotCut() as cut if isinstance(command, TakeSnapshot) and command.ending:
                return self._later(exchange._replace(happening=cut._replace(ending=command.ending)))
            case PathsRestored() as done if isinstance(
                command, RestoreProtected | PutBack | RestoreBest
            ):
                done = done._replace(ending=command.ending)
                return self._later(exchange._replace(happening=done))
            case LeftoversEnded() as left if isinstance(command, EndLeftovers):
                left = left._replace(ending=command.ending)
                return self._later(exchange._replace(happening=left))
            case HookEnded() as hook if isinstance(command, RunHook):
                hook = hook._replace(ending=command.ending)
                return self._later(exchange._replace(happening=hook))
            case _:
                return self._later(exchange)

    def _unrecorded(self, run: LoopState, command: Command) -> Happening:
        """Return the answer to a command that needs nothing from the recording. Raises `NoAnswer`
        for others."""
        match command:
            case Wait() | EndLeftovers() | Admit() | LookUpLimits():
                return self._without_effect(command)
            case Judge():
                return self._judged(run, command, None)
            case RunShell() | RunAgent() | RunBuiltin():
                entry = self._entries.of(run.current_state)
                which = f"visit {entry}, attempt {command.job.attempt}"
                raise NoAnswer(f"there is no recorded result for `{run.current_state}` ({which})")
            case FindBranches() | RunChildren() | GatherChildren():
                here = run.current_state
                raise NoAnswer(f"the recording does not say how the run that `{here}` starts ended")
            case AskJudge() | CollectJudge():
                here = run.current_state
                raise NoAnswer(f"there is no recorded answer from the judge of `{here}`")
            case RunHook():
                raise NoAnswer(f"there is no recorded result for the hook `{command.name}`")
            case TakeSnapshot() | RestoreProtected() | PutBack() | RestoreBest():
                here = run.current_state
                raise NoAnswer(
                    f"the recorded run has no snapshot for this step in `{here}`", command.ending
                )
            case Finish():
                raise NoAnswer("nothing follows the end")
            case _:
                raise NoAnswer("the recording does not say what git would have done")

    def _without_effect(self, command: Wait | EndLeftovers | Admit | LookUpLimits) -> Happening:
        """Return the answer to a command that has no effect outside the machine; a wait moves the
        clock of the replay on."""
        match command:
            case Wait():
                return WaitOver(self._pass_left(command))
            case EndLeftovers():
                return LeftoversEnded(self._now, command.ending)
            case Admit():
                return Admitted(self._now)
            case LookUpLimits():
                return LimitsKnown(self._now)
            case _:
                assert_never(command)

    def _action(
        self,
        run: LoopState,
        command: RunAction | GatherChildren,
        exchange: Exchange,
        ended: ActionEnded,
    ) -> Happening:
        """Return the recorded end of an action, cut at its new deadline if that is shorter, or the
        result of the runs that a state started.

        Raises `NoAnswer` if it was cut at its recorded deadline, and would have had more time.
        """
        result, here = ended.result, run.current_state
        self._remark_action(here)
        if isinstance(command, GatherChildren) or not isinstance(exchange.command, RunAction):
            ended = ended._replace(result=_joined(command, result))
            return self._later(exchange._replace(happening=ended))
        old, new = exchange.command.job.deadline_ms, command.job.deadline_ms
        is_longer = old is not None and (new is None or new > old)
        if is_longer and result.cut_by in ("action", "loop"):
            raise NoAnswer(f"`{here}` was stopped at its timeout, and has a longer one now")
        if old != new:
            result = within_deadline(command, result)
        return self._later(
            exchange._replace(happening=ended._replace(result=result)),
            result.duration_ms - ended.result.duration_ms,
        )

    def _waited(self, command: Wait, exchange: Exchange) -> Happening:
        """Let a wait pass: as long as recorded if it is the same one."""
        is_same = command == exchange.command
        return self._later(exchange) if is_same else WaitOver(self._pass_left(command))

    def _pass_left(self, command: Wait) -> Moment:
        left = left_ms(command.wait, self._now)
        if command.deadline_ms is not None:
            left = min(left, command.deadline_ms - self._now.ran_ms)
        return self._pass(max(0, left), left)

    def _judged(self, run: LoopState, command: Judge, exchange: Exchange | None) -> Happening:
        """Return the recorded verdict if condition and results are unchanged, else judge again."""
        if exchange is not None and _is_unchanged(run, command, exchange):
            return self._later(exchange)
        if exchange is not None:
            self._pass(exchange.wall_ms, exchange.ran_ms)
        self._check_outputs(run, command)
        return Judged(self._now, judge_now(command, run, self._values(run)))

    def _check_outputs(self, run: LoopState, command: Judge) -> None:
        """Raise `NoAnswer` if an output is gone that has to be judged."""
        names = {command.of, *condition_sources(command.condition)}
        for name, result in run.captured.items():
            if name not in names and not any(f"captured.{name}." in (each or "") for each in names):
                continue
            file = result.output_file if result.output is None else None
            if file is not None and not os.path.exists(self._values(run).path_of(file)):
                raise NoAnswer(f"the stored output of `{name}` is gone, so it cannot be judged")

    def _values(self, run: LoopState) -> Values:
        return ScriptedValues(self.loop, run, self._environ, self._recorded.data)

    # ── what to report ─────────────────────────────────────────────────────────────────────────

    def _remark_action(self, state: str) -> None:
        before = self._recorded.definitions[-1].loop.states.get(state)
        now = self.loop.states[state]
        what = "action" if now.loop is None else "loop"
        if before is None or _work_of(before) != _work_of(now):
            self._remarks[
                f"the {what} of `{state}` has changed; its recorded results were used"
            ] = None

    def _remark_rules(self) -> None:
        before = self._recorded.definitions[-1].loop
        if (before.evidence, before.scope) != (self.loop.evidence, self.loop.scope):
            self._remarks["the snapshots were taken with the recorded rules"] = None

    def remarks(self) -> tuple[str, ...]:
        return tuple(self._remarks)

    def would_run(self, position: int) -> WouldRun | None:
        """Return the first action after that event, with all values and secrets masked; None if
        nothing would have been run."""
        for count, run, command in self._asked:
            if count > position:
                values = ShownValues(self.loop, run, self._environ, self._recorded.data)
                text = shown_text(action_text(command), command, fill(command, values), values)
                return WouldRun(run.current_state, Masker(self._environ).mask(text))
        return None


class ShownValues(ScriptedValues):
    """Values for people: an output in which a secret was printed is masked as a whole."""

    def read(self, file: FileRef) -> str:
        return MASK if file.has_secrets is not False else super().read(file)


def _joined(command: Command, result: Result) -> Result:
    """Return the recorded result of the runs that a state started, with the verdict that they give
    now: another `join` may give another one."""
    if not isinstance(command, GatherChildren) or command.judgement.verdict == result.verdict:
        return result
    verdict, reason = command.judgement.verdict, command.judgement.reason
    exit_code = agent_exit_code("success", verdict)
    return result._replace(exit_code=exit_code, verdict=verdict, reason=reason)


def _work_of(state: StateConfig) -> tuple[object, ...]:
    """Return what a state runs."""
    return state.action, state.action_type, state.loop, state.with_, state.branches


def context_for(loop: FSMLoop, recorded: RecordedRun) -> Mapping[str, object]:
    """Return the context of a run with another definition: its own, with the values that were given
    when the recorded run started."""
    before = recorded.definitions[0].loop.context
    given = {
        name: value
        for name, value in recorded.context.items()
        if name not in before or before[name] != value
    }
    return {**loop.context, **given}


def _by_key(exchanges: Sequence[Exchange]) -> Mapping[Key, deque[Exchange]]:
    """Return the answers to commands, in order, by what each command was for."""
    found: defaultdict[Key, deque[Exchange]] = defaultdict(deque)
    for each in exchanges:
        if each.command is not None:
            found[_key(each.command, each.run, each.entry)].append(each)
    return found


def _key(command: Command, run: LoopState, entry: int) -> Key:
    """Return what a command is for, in which state, and for which time the run is there."""
    return _purpose(command), run.current_state, entry


def _purpose(command: Command) -> str:
    match command:
        case RunShell(copy=copy):
            return "action" if copy is None else "action in a clean copy"
        case RunAgent() | RunBuiltin():
            return "action"
        case Wait(wait=wait):
            return f"wait: {wait.kind}"
        case TakeSnapshot(when=when):
            return f"snapshot: {when}"
        case RunHook(name=name):
            return f"hook: {name}"
        case _:
            return type(command).__name__


def _is_unchanged(run: LoopState, command: Judge, exchange: Exchange) -> bool:
    """Return whether a condition and everything that it can refer to are as recorded."""
    before = exchange.run
    return (command, run.captured, run.context) == (
        exchange.command,
        before.captured,
        before.context,
    )
