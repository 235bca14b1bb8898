"""The real world of one run: processes, files, clocks.

Decisions of the machine are recorded here before they are carried out; `PERFORM` has the function
for each type of command.

Not here: decisions (`machine`), running an action (`shell_actions`, `agent_actions`,
`builtin_actions`), claims and starting or resuming a run (`lifecycle`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

from little_loops.engine.action_output import Trimmer
from little_loops.engine.action_process import Workplace
from little_loops.engine.drive import ActionOutcome, Drive, Performer, Performers, drive
from little_loops.engine.resolve import Filled, Values, fill, judge_now, shown_text
from little_loops.engine.shell_actions import run_shell
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import (
    WORKTREE_COMMANDS,
    Admit,
    AskJudge,
    CheckMerged,
    ClearWorktrees,
    CollectJudge,
    Command,
    CommitWork,
    EndLeftovers,
    FindBase,
    FindBranches,
    GatherChildren,
    Judge,
    LandTrain,
    LookUpLimits,
    MergeBranch,
    PrepareWorktree,
    PutBack,
    RestoreBest,
    RestoreProtected,
    RunAction,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    StartTrain,
    TakeSnapshot,
    TreeCommand,
    Wait,
    WorktreeCommand,
)
from little_loops.fsm.events import ActionStart, Entry
from little_loops.fsm.evidence import has_agent, trees_of
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.plain import masked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Note, Result
from little_loops.light_typing import TYPE_CHECKING, TypeVar, assert_never
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker, looks_secret
from little_loops.reporting.observers import Observer
from little_loops.runs.layout import MAIL, SESSION
from little_loops.runs.storage import RunWriter
from little_loops.system import process_tree
from little_loops.system.clock import RunClock
from little_loops.system.files import Folder, to_json
from little_loops.system.output import Scanner, SignalScanner
from little_loops.system.stops import STOPS, StopFlag

if TYPE_CHECKING:
    from little_loops.engine.children import ChildProcesses
    from little_loops.engine.event_hooks import EventHooks
    from little_loops.engine.gate import AgentAdmission
    from little_loops.engine.handoff_handler import HandoffHandler
    from little_loops.engine.kept_judges import JudgePlaces
    from little_loops.engine.lifecycle import RunRequest
    from little_loops.engine.notifying import Notifier
    from little_loops.engine.run_trees import RunTrees
    from little_loops.engine.worktree_runs import WorktreePlace
    from little_loops.runs.imported import Imported
    from little_loops.spending.shares import Share

SHARED_SIGNAL_WINDOW_S = 0.2
MAX_FILLED = 4096
"""How many characters of a filled-in action are kept in its event."""


class Services(NamedTuple):
    """What a run needs from its process.

    `owns_process`: the process does nothing else, so every orphan below it belongs to the run.
    `performers` replace the real ones; `clock` creates the run's clock, given the milliseconds it
    has already run; `scanner` finds signals in one output; `handoff` starts the session of a
    handoff that spawns, if there is a custom handler.
    """

    environ: Mapping[str, str]
    stop: StopFlag | None = None
    onlookers: Sequence[Observer] = ()
    say: Callable[[str], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    ready: Callable[[LoopState], None] = lambda _: None
    owns_process: bool = False
    performers: Mapping[type[Command], Performer] = {}
    clock: Callable[[int], RunClock] = RunClock
    scanner: Callable[[], Scanner] = SignalScanner
    handoff: HandoffHandler | None = None
    shares: Sequence[Share] = ()
    """The limits of the enclosing runs, if another run started this one."""
    outer: Values | None = None
    """The values of the state that started this run, if the run executes that state's action."""
    drive: Drive = drive
    """The main loop; a different one carries out decisions that are made elsewhere."""


class LocalWorld:
    """The real world of one run; `workplace` is created when the first action needs it."""

    def __init__(
        self,
        loop: FSMLoop,
        writer: RunWriter,
        make_workplace: Callable[[], Workplace],
        clock: RunClock,
        masker: Masker,
        onlookers: Observer,
        services: Services,
        open_trees: Callable[[], RunTrees],
        gate: AgentAdmission | None = None,
        beside: Sequence[EventHooks | Notifier] = (),
        imported: Imported | None = None,
    ) -> None:
        """`open_trees` is called when evidence is first needed; `gate` is None if agents have no
        limits; `beside` have commands that run beside it; `imported` is what a run from a run file
        lacks.

        Whoever carries out the run sets `request`, and, if it does not work in the project, `place`
        and its own `worktree`."""
        self.loop = loop
        self.gate = gate
        self.beside = beside
        self.imported = imported
        self.writer = writer
        self.clock = clock
        self.masker = masker
        self.services = services
        self.onlookers = onlookers
        self.run_dir = writer.files.data
        self.is_ready = False
        self.request: RunRequest | None = None
        self.place = writer.files.root
        self.worktree: WorktreePlace | None = None
        self.performers = {**PERFORM, **services.performers}
        self._make_workplace = make_workplace
        self._filled: tuple[RunAction, Filled | str] | None = None
        self._values: tuple[LoopState, Values] | None = None
        self._open_trees = open_trees
        self._trimmer = Trimmer(self.run_dir)
        self._mail: tuple[Note, ...] = ()

    @cached_property
    def workplace(self) -> Workplace:
        return self._make_workplace()

    @cached_property
    def trees(self) -> RunTrees:
        return self._open_trees()

    def end_work(self) -> None:
        """Record in the store, if the run has used it, that its end is recorded."""
        if "trees" in self.__dict__:
            self.trees.end_work(self.services.stop)

    @cached_property
    def children(self) -> ChildProcesses:
        """The processes of the runs that this one starts."""
        from little_loops.engine.children import ChildProcesses  # few loops start others

        return ChildProcesses(self)

    @cached_property
    def judges(self) -> JudgePlaces | None:
        """Where the judges of the run are kept; None if the loop has none."""
        if all(state.judge is None for state in self.loop.states.values()):
            return None
        from little_loops.engine.kept_judges import JudgePlaces  # few loops have a judge

        return JudgePlaces(self.services.environ)

    def emit(self, step: Step) -> None:
        """Append the events to the log, with secrets masked, and sync it; then pass them to the
        observers.

        Notes that were read for this step are recorded now, so their files are removed.
        """
        if not step.events:
            return
        events = self._with_filled_action(step)
        if self.masker.words:
            events = [masked(entry, self.masker.mask_excerpt) for entry in events]
        if self.judges is not None:
            self.judges.before(step)
        self.writer.append(map(to_record, events), sync=True)
        if self.judges is not None:
            self.judges.after(step)
        if self._mail:
            self._discard_mail()
        self.onlookers.records(events)

    def save(self, run: LoopState) -> None:
        """Write the snapshot; the first one also reports that the run has started. Raises
        `LostOwnership` if another process wrote it meanwhile."""
        self.writer.save(run)
        if not self.is_ready:
            self.is_ready = True
            self.services.ready(run)

    @cached_property
    def _takes_notes(self) -> bool:
        return has_agent(self.loop)

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return the notes that people sent to the run; their files stay until `emit` has recorded
        them."""
        if not self._takes_notes or not run.seq or self.writer.data.stamp(MAIL) is None:
            return ()
        from little_loops.runs.mailbox import unread  # few runs get notes

        self._mail = unread(self.writer.data, run.notes)
        return self._mail

    def _discard_mail(self) -> None:
        """Remove the files of the notes that have been recorded."""
        from little_loops.runs.mailbox import discard  # few runs get notes

        discard(self.writer.data, self._mail)
        self._mail = ()

    def perform(self, run: LoopState, command: Command) -> Happening:
        """Carry out a command. A requested stop has priority, unless the command is part of ending
        the run.

        A command that is not part of an agent's turn gives back what an admitted turn holds.
        """
        if (asked := self.stop_asked()) and not _ends_run(command):
            return asked
        if self.gate is not None and not _belongs_to_turn(command):
            self.gate.release()  # the turn that was admitted does not start after all
        return self.performers[type(command)](self, run, command)

    def _with_filled_action(self, step: Step) -> Sequence[Entry]:
        """Return the events; the start of an action gets the text that will run, masked and then
        cut to `MAX_FILLED` characters."""
        *before, last = step.events
        if not isinstance(last.event, ActionStart) or not isinstance(step.command, RunAction):
            return step.events
        shown, filled = last.event.action, self.filled(step.run, step.command)
        text = shown_text(shown, step.command, filled, self.values(step.run))
        if text == shown:
            return step.events
        # Masked, then cut: half a secret would not be recognised.
        text = self.masker.mask(text)
        text = text if len(text) <= MAX_FILLED else text[: MAX_FILLED - 1] + "…"
        return [*before, last._replace(event=last.event._replace(filled=text))]

    def filled(self, run: LoopState, command: RunAction) -> Filled | str:
        """Return the action with its values, or why it cannot run; from now on its secrets are
        masked.

        The last one is remembered: it is needed when the action is announced and when it runs.
        """
        if self._filled is None or self._filled[0] is not command:
            filled = fill(command, self.values(run))
            if not isinstance(filled, str):
                self.learn(filled.env)
            self._filled = command, filled
        return self._filled[1]

    def values(self, run: LoopState) -> Values:
        """Return what templates may refer to at this point of the run.

        The last ones are remembered: they are needed when an action is announced and when it runs.
        """
        if self._values is None or self._values[0] is not run:
            self._values = run, self.own_values(run, self.services.outer)
        return self._values[1]

    def own_values(self, run: LoopState, outer: Values | None = None) -> Values:
        """Return the values of this run, and not those of the state that started it."""
        environ = self.services.environ
        return Values(self.loop, run, environ, self.run_dir, imported=self.imported, outer=outer)

    def own_request(self) -> RunRequest:
        """Return what was asked of this run."""
        assert self.request is not None, "there is a run to carry out"
        return self.request

    def learn(self, environ: Mapping[str, str]) -> None:
        """Mask secrets among the variables of an action, here and in what observers print."""
        if any(looks_secret(name) for name in environ):
            self.masker.learn(environ)
            self.onlookers.learn(environ)

    def stop_asked(self) -> StopAsked | None:
        """Return the stop that was requested, or None."""
        stop = self.services.stop
        if stop is None or stop.signal is None:
            return None
        return StopAsked(self.clock.now(), stop.signal)

    def ended(self, acted: ActionOutcome) -> ActionEnded:
        self._trimmer.count(acted.result)
        stop = self._stopped_by(acted.result)
        return ActionEnded(self.clock.now(), *acted[:3], stop)

    def _stopped_by(self, result: Result) -> int | None:
        """Return the signal of the stop that ended the action through us, or together with us; else
        None.

        A shutdown, or stopping an enclosing run, signals the action and its runner at once:
        whichever receives it first, the action was interrupted and did not fail.
        """
        stop = self.services.stop
        if stop is None:
            return None
        together = result.signal in STOPS and stop.wait(SHARED_SIGNAL_WINDOW_S)
        return stop.signal if together or result.cut_by == "stop" else None


def _ends_run(command: Command) -> bool:
    """Return whether a command is carried out in spite of a stop, because it ends the run."""
    match command:
        case EndLeftovers():
            return True
        case RunChildren():
            return command.is_last
        case TakeSnapshot() | RestoreProtected() | PutBack() | RestoreBest() | RunHook():
            return command.ending is not None
        case _:
            return False


def _belongs_to_turn(command: Command) -> bool:
    """Return whether an admitted turn may follow the command; for a session, the run ends first."""
    if isinstance(command, EndLeftovers):
        return command.ending.spawn
    return isinstance(command, Admit | RunAgent | AskJudge | TreeCommand)


# ── a performer for each type of command ───────────────────────────────────────────────────────


def _shell(world: LocalWorld, run: LoopState, command: RunShell) -> ActionEnded:
    """Run a shell action, or a check in a clean copy."""
    if command.copy is None:
        return _act(world, run, command, run_shell)
    from little_loops.engine.copy_checks import run_in_copy  # only a proof needs a clean copy

    return _act(world, run, command, partial(run_in_copy, world.trees))


def _perform_on_trees(world: LocalWorld, run: LoopState, command: TreeCommand) -> Happening:
    from little_loops.engine import evidence  # loops without agents pay nothing for it

    match command:
        case TakeSnapshot():
            return evidence.take_snapshot(world, command)
        case RestoreProtected():
            return evidence.restore_protected(world, command)
        case PutBack():
            return evidence.put_back(world, command)
        case RestoreBest():
            from little_loops.engine.best import restore_best  # few loops keep the best

            return restore_best(world, command)
        case _:
            assert_never(command)


def _agent(world: LocalWorld, run: LoopState, command: RunAgent) -> ActionEnded:
    """Run an agent's turn, and record its cost in the ledger."""
    # Only agents pay for hosts and the ledger.
    from little_loops.engine.agent_actions import run_agent
    from little_loops.engine.metering import recorded

    return _act(world, run, command, partial(recorded, world, run_agent))


def _admit(world: LocalWorld, run: LoopState, command: Admit) -> Happening:
    assert world.gate is not None, "only a run with a gate is metered"
    return world.gate.admit(world, run, command)


def _look_up_limits(world: LocalWorld, run: LoopState, command: LookUpLimits) -> Happening:
    from little_loops.spending.host_limits import known  # few loops have a fallback

    at = world.clock.now()
    found = known(world.services.environ, at.wall_ms)
    return LimitsKnown(at, {name: found[name] for name in command.hosts if name in found})


def _ask_judge(world: LocalWorld, run: LoopState, command: AskJudge) -> Happening:
    from little_loops.engine.judge_turns import ask_judge  # few loops have a judge

    return ask_judge(world, run, command)


def _collect_judge(world: LocalWorld, run: LoopState, command: CollectJudge) -> Happening:
    from little_loops.engine.judge_turns import collect_judge  # only after a kill

    return collect_judge(world, run, command)


def _builtin(world: LocalWorld, run: LoopState, command: RunBuiltin) -> ActionEnded:
    from little_loops.engine.builtin_actions import run_builtin  # only a relay has these

    return _act(world, run, command, run_builtin)


def _hook(world: LocalWorld, run: LoopState, command: RunHook) -> Happening:
    from little_loops.engine.hooks import run_hook  # few loops have hooks

    return run_hook(world, run, command)


def _find_branches(world: LocalWorld, run: LoopState, command: FindBranches) -> Happening:
    from little_loops.engine.branches import find_branches  # few states have branches

    return find_branches(world, run, command)


def _run_children(world: LocalWorld, run: LoopState, command: RunChildren) -> Happening:
    return world.children.carry_out(run, command)


def _gather(world: LocalWorld, run: LoopState, command: GatherChildren) -> Happening:
    from little_loops.engine.children import gather  # few loops start others

    return world.ended(ActionOutcome(gather(world, run, command)))


def _perform_on_worktrees(world: LocalWorld, run: LoopState, command: WorktreeCommand) -> Happening:
    from little_loops.engine import merge_trains, worktree_runs  # few runs have worktrees

    match command:
        case PrepareWorktree():
            return worktree_runs.prepare(world, run, command)
        case CommitWork():
            return worktree_runs.commit(world, run, command)
        case FindBase():
            return merge_trains.find_base(world, run, command)
        case StartTrain():
            return merge_trains.start(world, run, command)
        case MergeBranch():
            return merge_trains.merge(world, run, command)
        case CheckMerged():
            return merge_trains.check(world, run, command)
        case LandTrain():
            return merge_trains.land(world, run, command)
        case ClearWorktrees():
            return worktree_runs.clear(world, run, command)
        case _:
            assert_never(command)


Act = TypeVar("Act", RunShell, RunAgent, RunBuiltin)


def _act(
    world: LocalWorld,
    run: LoopState,
    command: Act,
    act: Callable[[Workplace, LoopState, Act, Filled], ActionOutcome],
) -> ActionEnded:
    """Run an action with `act`, after noting on disk that it starts, in case the run is killed.
    If its values cannot be filled in, it does not run, and its result has a `failure`."""
    filled = world.filled(run, command)
    if isinstance(filled, str):
        return world.ended(ActionOutcome(Result(None, 0, failure=filled)))
    if (trees := trees_of(run)) is not None:
        world.trees.note_action(trees.blame, trees.reference)
    return world.ended(act(world.workplace, run, command, filled))


def _judge(world: LocalWorld, run: LoopState, command: Judge) -> Happening:
    judgement = judge_now(command, run, world.values(run))
    # A stop that came meanwhile has priority; a resume judges again.
    return world.stop_asked() or Judged(world.clock.now(), judgement)


def _wait(world: LocalWorld, run: LoopState, command: Wait) -> Happening:
    """Wait until the command's wait is over or a stop is requested."""
    from little_loops.system.waiting import wait_until  # most runs never wait

    stop = world.services.stop
    if wait_until(command, world.clock, stop, world.onlookers.tick) and stop is not None:
        return StopAsked(world.clock.now(), stop.signal or 0)
    return WaitOver(world.clock.now())


def _end_leftovers(world: LocalWorld, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
    """End what the actions left running. For a relay that is over, also remove its files, and
    return its report."""
    for each in world.beside:
        each.drain()  # their commands are no leftovers
    names = end_processes(world, run)
    ended = LeftoversEnded(world.clock.now(), command.ending, names)
    if world.loop.result:
        from little_loops.engine.results import fill_result  # few loops have one

        result, warnings = fill_result(world.loop, world.own_values(run))
        ended = ended._replace(result=result, warnings=warnings)
    if world.loop.paradigm != "relay":
        return ended
    from little_loops.relay.run_end import close_relay  # only a relay leaves files

    closing = close_relay(run.loop, world.workplace.project, world.run_dir, command.ending)
    return ended._replace(report=closing.report, warnings=(*ended.warnings, *closing.warnings))


def end_processes(world: LocalWorld, run: LoopState) -> tuple[str, ...]:
    """End all processes that actions of the run have left running. Return their names."""
    if process_tree.is_adopting() and process_tree.reap():
        return ()
    # Everything below us, including an orphan that left its session and cleared its environment.
    roots = [os.getpid()] if process_tree.is_adopting() else []
    ended = process_tree.sweep(
        run.run, (), world.loop.kill_grace, roots=roots, stop=world.services.stop
    )
    return tuple(f"{member.name} (pid {member.pid})" for member in ended)


PERFORM: Performers = {
    RunShell: _shell,
    RunAgent: _agent,
    Admit: _admit,
    LookUpLimits: _look_up_limits,
    AskJudge: _ask_judge,
    CollectJudge: _collect_judge,
    RunBuiltin: _builtin,
    RunHook: _hook,
    FindBranches: _find_branches,
    RunChildren: _run_children,
    GatherChildren: _gather,
    Judge: _judge,
    Wait: _wait,
    TakeSnapshot: _perform_on_trees,
    RestoreProtected: _perform_on_trees,
    PutBack: _perform_on_trees,
    RestoreBest: _perform_on_trees,
    EndLeftovers: _end_leftovers,
    **dict.fromkeys(WORKTREE_COMMANDS, _perform_on_worktrees),
}


class SessionNote:
    """Stores the session of the current action, for whoever has to clean up after us.

    A few bytes, overwritten and not synced: after a power cut there are no processes left either.
    """

    WIDTH = 120

    def __init__(self, data: Folder) -> None:
        self._descriptor = data.open(SESSION, os.O_WRONLY | os.O_CREAT)

    def keep(self, pid: int) -> None:
        os.pwrite(self._descriptor, to_json(process_tree.session(pid)).ljust(self.WIDTH) + b"\n", 0)

    def close(self) -> None:
        os.close(self._descriptor)
