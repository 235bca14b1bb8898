"""What happened in a recorded run: the happenings that its events came from.

The machine gives a command, and the next happening answers it. So while the machine follows a log,
its command and the next events together say what happened. Times come from the events, too. A log
that was cut lacks some: the end of an action or a hook, for example.

Not here: following a log (`engine.following`), reading one (`runs.recordings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile

from little_loops.fsm.admission import did_not_run
from little_loops.fsm.commands import (
    WORKTREE_COMMANDS,
    Admit,
    AskJudge,
    CheckMerged,
    ChildCommand,
    ClearWorktrees,
    CollectJudge,
    Command,
    CommitWork,
    EndLeftovers,
    FindBase,
    FindBranches,
    Finish,
    GatherChildren,
    Judge,
    LandTrain,
    LookUpLimits,
    MergeBranch,
    PrepareWorktree,
    PutBack,
    RestoreBest,
    RestoreProtected,
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
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    AgentWait,
    BranchBase,
    BranchMerged,
    ChildEnd,
    ChildrenHalted,
    ChildrenPlanned,
    ConditionEval,
    Cost,
    Entry,
    Event,
    FinalEvent,
    Forked,
    GateAnswered,
    HookRun,
    HostChosen,
    HostWait,
    JudgeComplete,
    KeepBest,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
    MergeChecked,
    NoteReceived,
    OutOfScope,
    PartialResult,
    ReferenceMoved,
    Report,
    Restored,
    Resume,
    RunWarning,
    Sampled,
    Tampered,
    TrainLanded,
    TrainStart,
    TransitionTaken,
    Tree,
    TreeUnread,
    WorkCommitted,
    WorktreeReady,
    WorktreesCleared,
)
from little_loops.fsm.evidence import REPORT
from little_loops.fsm.evolve_children import used_with
from little_loops.fsm.happenings import (
    SETUP_FAILED,
    ActionEnded,
    Admitted,
    BaseFound,
    BranchesFound,
    CannotContinue,
    ChildEnded,
    ChildOutcome,
    ChildrenOutOfTime,
    Denied,
    Happening,
    HookEnded,
    JudgeAnswered,
    Judged,
    LandingTried,
    LeftoversEnded,
    LimitsKnown,
    MergedTreeChecked,
    MergeTried,
    NothingCollected,
    PathChange,
    PathsRestored,
    Queued,
    Resumed,
    SnapshotCut,
    SnapshotTaken,
    StopAsked,
    StoreFailed,
    TrainReady,
    WaitOver,
    WorkSaved,
    WorktreeFailed,
    WorktreePrepared,
    WorktreesGone,
)
from little_loops.fsm.joins import CRASHED
from little_loops.fsm.record_events import LEFT_RUNNING
from little_loops.fsm.schema import ERROR, PROGRESS, FSMLoop
from little_loops.fsm.state import (
    Judgement,
    LoopState,
    Metric,
    Note,
    Result,
    Trees,
    Workspace,
)
from little_loops.fsm.terminal_states import failed_action
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.verdicts import with_source
from little_loops.light_typing import Any, Literal, TypeGuard

OF_COMMAND: dict[type[TreeCommand], Literal["protected", "outside", "change"]] = {
    RestoreProtected: "protected",
    PutBack: "outside",
    RestoreBest: "change",
}
ENDLESS_MS = 1 << 60
"""A limit longer than any wait."""
UNKNOWN_SIGNAL = 15
"""The signal of a stop whose final event is missing."""
_OF_AN_END = (
    TreeUnread,
    Tampered,
    OutOfScope,
    ReferenceMoved,
    Restored,
    RunWarning,
    Report,
    NoteReceived,
)


_ACTIONS = (RunShell, RunAgent, RunBuiltin, RunChildren, AskJudge, CollectJudge)


class NotRecorded(Exception):
    """The recording has no answer to a command: it ends here, or its process was killed here."""


class Unexpected(Exception):
    """The next event of the recording cannot be the answer to the machine's command."""


class Recording:
    """A log and the position up to which it was followed."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self._cut_hook_at = -1
        self.position = 0

    @property
    def is_over(self) -> bool:
        return self.position >= len(self.entries)

    @property
    def is_at_resume(self) -> bool:
        """Whether a resume is next; nothing of the process before it follows."""
        if self.is_over:
            return False
        return isinstance(self.entries[self.position].event, Resume | GateAnswered | Forked)

    @property
    def is_at_fork(self) -> bool:
        """Whether the rest is that of a fork, which continues with a resume."""
        return not self.is_over and isinstance(self.entries[self.position].event, Forked)

    @property
    def at(self) -> Moment:
        """The time of the next event; at the end, that of the last one."""
        entry = self.entries[min(self.position, len(self.entries) - 1)]
        return Moment(entry.wall_ms, entry.ran_ms)

    def ahead(self) -> Iterator[Event]:
        """Yield the next events, without notes that people sent, which may come anywhere."""
        for entry in self._following():
            if not isinstance(entry.event, NoteReceived):
                yield entry.event

    def _following(self) -> Iterator[Entry]:
        for index in range(self.position, len(self.entries)):  # a slice would copy a long log
            yield self.entries[index]

    @property
    def _next(self) -> Event | None:
        return next(self.ahead(), None)

    def notes(self) -> tuple[Note, ...]:
        """Return the notes that arrived now: the next events, or those after a resume."""
        found: list[Note] = []
        for entry in self._following():
            match entry.event:
                case NoteReceived(id=id, text=text):
                    found.append(Note(id, text))
                case Resume() | GateAnswered() if not found:
                    continue
                case _:
                    break
        return tuple(found)

    # ── answers ────────────────────────────────────────────────────────────────────────────────

    def answer(self, loop: FSMLoop, run: LoopState, command: Command) -> Happening:
        """Return what answered a command. Raises `NotRecorded` if the recording ends here or its
        process was killed, `Unexpected` if the next event is no answer to it."""
        if self._next is None or isinstance(self._next, Resume | GateAnswered | Forked):
            raise NotRecorded
        can_be_stopped = _can_be_stopped(command)
        stop = self._stop() if can_be_stopped else None
        may_be_refused = can_be_stopped or isinstance(command, _ACTIONS)
        return (
            stop
            or (self._refusal() if may_be_refused else None)
            or self._answer_to(loop, run, command)
        )

    def _answer_to(self, loop: FSMLoop, run: LoopState, command: Command) -> Happening:
        match command:
            case RunShell() | RunAgent() | RunBuiltin():
                return self._action(loop, run)
            case RunHook():
                return self._hook(command)
            case FindBranches() | RunChildren() | GatherChildren():
                return self._children(loop, run, command)
            case TakeSnapshot() | RestoreProtected() | PutBack() | RestoreBest():
                return self._tree_command(run, command)
            case EndLeftovers():
                return self._leftovers(run, command)
            case Judge() | AskJudge() | CollectJudge():
                return self._judged(loop, run) if isinstance(command, Judge) else self._by_judge()
            case Wait():
                return WaitOver(self.at)
            case Admit() | LookUpLimits():
                return self._before_turn(command)
            case Finish():
                raise Unexpected
            case _:
                return self._worktree(command)

    def _stop(self) -> StopAsked | None:
        """Return the stop that arrived instead of the answer: only the end of the run follows."""
        for event in self.ahead():
            if isinstance(event, LoopInterrupted):
                return StopAsked(self.at, event.signal)
            if isinstance(event, Resume | GateAnswered | Forked):
                break
            if not _may_end(event):
                return None
        return StopAsked(self.at, UNKNOWN_SIGNAL)

    def _refusal(self) -> CannotContinue | None:
        """Return why nobody could carry out the command, if the run ended because of that."""
        for event in self.ahead():
            match event:
                case LoopError(reason=reason, error=why):
                    return self._refused(reason, why)
                case ChildrenHalted(halt=halt):
                    return self._refused(halt.reason, halt.message)
                case ActionInterrupted(started=False):
                    continue
                case _ if _may_end(event):
                    continue
                case _:
                    return None
        return None

    def _refused(self, reason: str, why: str) -> CannotContinue | None:
        """Return what led to an ending with this reason, if it was that nobody could continue."""
        if reason == "consent":
            return CannotContinue(self.at, "consent", why)
        if reason == "error" and why.startswith(SETUP_FAILED):
            return CannotContinue(self.at, "error", why)
        return None

    def _action(self, loop: FSMLoop, run: LoopState) -> ActionEnded | StopAsked:
        """Return the end of an action, or the stop that interrupted it or came before it."""
        match self._next:
            case ActionComplete(result=result, signal_line=line):
                return ActionEnded(self.at, result, line, self._warnings_of_action(loop, run))
            case ActionInterrupted(started=False):
                return StopAsked(self.at, self._signal())
            case ActionInterrupted(result=result):
                partial = _whole_result(result, self._cost_after(1))
                return ActionEnded(self.at, partial, stop=self._signal())
            case _:
                raise Unexpected

    def _branches(self, state: str) -> BranchesFound:
        """Return the branches that were planned, or why they were not known."""
        for event in self.ahead():
            match event:
                case ChildrenPlanned(names=names):
                    return BranchesFound(self.at, names)
                case RunWarning(message=message, state=where) if where == state:
                    return BranchesFound(
                        self.at, problem=message.removeprefix(f"state `{state}`: ")
                    )
                case LoopError(error=error):
                    return BranchesFound(self.at, problem=error)
                case ActionStart() | HookRun() | RunWarning():
                    continue
                case Resume() | Forked() | GateAnswered():
                    break
                case _:
                    raise Unexpected
        return BranchesFound(self.at)  # which ones there were, the process did not live to record

    def _children(self, loop: FSMLoop, run: LoopState, command: ChildCommand) -> Happening:
        """Return what the log says about a state's children: which branches there are
        (`FindBranches`); the end of one, or of its process (`RunChildren`); or their result
        (`GatherChildren`). Instead of the last two, all children may have been halted, by a stop
        or the timeout. Raises `Unexpected`."""
        if isinstance(command, FindBranches):
            return self._branches(command.state)
        is_wait = isinstance(command, RunChildren)
        match self._next:
            case (ChildEnd(child=name) | Cost(child=str(name))) as end if is_wait:
                return ChildEnded(self.at, name, self._outcome(run, end))
            case ChildrenHalted(halt=halt) if halt.signal is not None:
                return StopAsked(self.at, halt.signal)
            case ChildrenHalted():
                return ChildrenOutOfTime(self.at)
            case _ if not is_wait:
                return self._action(loop, run)
            case _:
                raise Unexpected

    def _outcome(self, run: LoopState, event: ChildEnd | Cost) -> ChildOutcome:
        """Return how a child has ended; its cost is recorded first, and if the process was killed
        then, nothing else is known of it."""
        if isinstance(event, ChildEnd):
            return outcome_of_event(event)
        end = next(islice(self.ahead(), 1, None), None)
        if isinstance(end, ChildEnd):
            return outcome_of_event(end)
        used = used_with(run.children, event.child or "", event)
        return ChildOutcome(CRASHED, "crash", **used._asdict())

    def _worktree(self, command: WorktreeCommand) -> Happening:
        """Return what git did for a worktree or for merging, or why it failed, or the stop that came
        instead. Raises `Unexpected`."""
        at = self.at
        if isinstance(command, PrepareWorktree | FindBase):
            return self._worktree_begun(command)
        ended, event = command.ended, self._next
        match event:
            case WorkCommitted() if isinstance(command, CommitWork):
                return WorkSaved(at, command.ended, event.commit, event.files)
            case TrainStart(again=True) if isinstance(command, LandTrain):
                return LandingTried(at, moved_to=event.head, ended=ended)
            case TrainStart() if isinstance(command, StartTrain):
                return TrainReady(at, event.head, ended)
            case BranchMerged() if isinstance(command, MergeBranch):
                files, reason = event.files, event.reason
                return MergeTried(at, event.branch, event.commit, files, reason, ended)
            case MergeChecked() if isinstance(command, CheckMerged):
                return MergedTreeChecked(at, event.branch, event.passed, event.reason, ended)
            case TrainLanded() if isinstance(command, LandTrain):
                return LandingTried(at, reason=event.reason, command=event.command, ended=ended)
            case WorktreesCleared() if isinstance(command, ClearWorktrees):
                return WorktreesGone(at, event.removed, event.kept, ended)
            case ChildrenHalted(halt=halt) if halt.signal is not None:
                return StopAsked(at, halt.signal)
            case _:
                return WorktreeFailed(at, self._problem(), ended)

    def _worktree_begun(self, command: PrepareWorktree | FindBase) -> Happening:
        """Return what a worktree begins with."""
        event = self._next
        match event:
            case WorktreeReady() if isinstance(command, PrepareWorktree):
                space = Workspace(event.path, event.branch, event.base, event.onto)
                return WorktreePrepared(self.at, space, self._warnings_after_first())
            case BranchBase() if isinstance(command, FindBase):
                return BaseFound(self.at, event.base, event.onto)
            case _:
                return WorktreeFailed(self.at, self._problem())

    def _warnings_after_first(self) -> tuple[str, ...]:
        """Return the warnings that directly follow the next event."""
        following = islice(self.ahead(), 1, None)
        found = takewhile(lambda event: isinstance(event, RunWarning), following)
        return tuple(event.message for event in found if isinstance(event, RunWarning))

    def _problem(self) -> str:
        """Return why git failed, as the next event says it. Raises `Unexpected` if that does not."""
        match self._next:
            case LoopError(error=why):
                return why
            case RunWarning(message=why, state=here):  # the machine adds the state
                return why.removeprefix(f"state `{here}`: ")
            case ActionComplete(result=result) if result.verdict == ERROR:
                return result.reason or ""
            case _:
                raise Unexpected

    def _warnings_of_action(self, loop: FSMLoop, run: LoopState) -> tuple[str, ...]:
        """Return the warnings that came with the result: those directly after it, at the same time.

        The machine's own warning about a terminal state is not one of them.
        """
        here, at = run.current_state, self.at
        found: list[str] = []
        for entry in self._following():
            match entry.event:
                case NoteReceived() | ActionComplete() | Cost():
                    continue
                case RunWarning(message=message, state=state) if state == here and _is_at(
                    entry, at
                ):
                    found.append(message)
                case _:
                    break
        is_own = loop.states[here].terminal and found and found[-1].startswith(failed_action(here))
        return tuple(found[:-1] if is_own else found)

    def _cost_after(self, count: int) -> Cost | None:
        """Return the cost that is recorded after the next `count` events; None if there is none."""
        event = next(islice(self.ahead(), count, None), None)
        return event if isinstance(event, Cost) else None

    def _signal(self) -> int:
        """Return the signal of the stop that the run ended with."""
        for event in self.ahead():
            match event:
                case LoopInterrupted(signal=signal):
                    return signal
                case Resume() | Forked():
                    break
                case _:
                    continue
        return UNKNOWN_SIGNAL

    def _hook(self, command: RunHook) -> HookEnded:
        """Return the end of a hook. One at the end of the run that was not recorded was cut by a
        further stop."""
        event = self._next
        if isinstance(event, HookRun):
            name, took_ms, problem = event.hook, event.duration_ms, event.problem
            return HookEnded(self.at, name, took_ms, problem, ending=command.ending)
        if command.ending is None or self._cut_hook_at == self.position:
            raise Unexpected  # a hook is cut once; the log lacks its end
        self._cut_hook_at = self.position
        return HookEnded(self.at, command.name, stop=UNKNOWN_SIGNAL, ending=command.ending)

    def _judged(self, loop: FSMLoop, run: LoopState) -> Judged:
        """Return the recorded verdict, without what the machine adds to its reason."""
        event = self._next
        if isinstance(event, Sampled):
            return Judged(self.at, Judgement(PROGRESS, value=event.value))
        if isinstance(event, KeepBest) and event.decision == "again":
            return Judged(
                self.at, Judgement(PROGRESS, value=0.0)
            )  # whatever it was, it did not count
        if not isinstance(event, ConditionEval):
            raise Unexpected
        added = with_source(loop.states[run.current_state], Judgement(event.result)).reason
        metric = (
            None if event.best is None else Metric(event.best, event.stalled or 0, event.min_gain)
        )
        judgement = Judgement(event.result, event.reason.removesuffix(added), metric, event.value)
        return Judged(self.at, judgement)

    def _admission(self) -> Admitted | Queued | Denied:
        """Return whether an agent could start, or what it waited for."""
        match self._next:
            case AgentWait(until_wall_ms=None) as wait:
                return Queued(self.at, wait.wait_for, wait.reason)
            case AgentWait() as wait:
                return Denied(self.at, wait.wait_for, wait.reason, wait.until_wall_ms)
            case Cost(cost_usd=reserved_usd):  # of the session that a handoff starts
                return Admitted(self.at, reserved_usd)
            case _:
                return self._denied_at_the_end() or Admitted(self.at)

    def _by_judge(self) -> JudgeAnswered | NothingCollected:
        """Return the answer of a judge, with what it cost."""
        event = self._next
        if not isinstance(event, JudgeComplete):
            raise Unexpected
        cost = self._cost_after(1)
        result = Result(None, event.duration_ms, agent="success")
        if cost is not None:
            result = _with_cost(result, cost)
        match event.verdict:
            case "lost" | "not_started" | "unanswered" as verdict:
                lost = result._replace(agent=None if cost is None else "error", cut_by="stop")
                return NothingCollected(self.at, verdict, event.reason, lost)
            case _:
                pass
        stop = self._signal() if event.verdict == "stopped" else None
        warnings = tuple(
            entry.event.message
            for entry in islice(self._following(), 1, 8)
            if isinstance(entry.event, RunWarning) and _is_at(entry, self.at)
        )
        judgement = Judgement(event.verdict, event.reason)
        quotes, restored = tuple(event.quotes), event.restored
        return JudgeAnswered(self.at, judgement, result, quotes, restored, warnings, stop)

    def _before_turn(self, command: Admit | LookUpLimits) -> Happening:
        return self._admission() if isinstance(command, Admit) else self._limits(command)

    def _limits(self, command: LookUpLimits) -> LimitsKnown:
        """Return which agents were limited: all but the one that was chosen, or all until the
        recorded time. Without a wait, it was longer than allowed."""
        match self._next:
            case HostChosen(host=chosen):
                others = [name for name in command.hosts if name != chosen]
                return LimitsKnown(self.at, dict.fromkeys(others, ENDLESS_MS))
            case HostWait(until_wall_ms=until_ms):
                return LimitsKnown(self.at, dict.fromkeys(command.hosts, until_ms))
            case _:
                return LimitsKnown(self.at, dict.fromkeys(command.hosts, ENDLESS_MS))

    def _denied_at_the_end(self) -> Denied | None:
        """Return the refusal that ended the run: a budget that pauses, a limit of a run above this
        one, or the loop's timeout."""
        before = list(takewhile(_may_end, self.ahead()))
        end = next(islice(self.ahead(), len(before), None))
        if isinstance(end, LoopPaused) and end.reason == "budget":
            return Denied(self.at, "budget", end.message)
        if isinstance(end, LoopError) and end.reason in ("max_cost", "max_tokens"):
            return Denied(self.at, "budget", end.error, limit=end.reason)
        refused = [each.message for each in before if _is_refusal(each)]
        if isinstance(end, LoopTimeout) and refused:
            reason = refused[0].removeprefix(did_not_run(end.final_state))
            return Denied(self.at, "budget", reason, self.at.wall_ms)
        return None

    # ── trees ──────────────────────────────────────────────────────────────────────────────────

    def _tree_command(self, run: LoopState, command: TreeCommand) -> Happening:
        """Return a snapshot, what was restored, or why the store failed."""
        if (failed := self._store_failure()) is not None:
            return failed
        if isinstance(command, TakeSnapshot):
            return self._snapshot(run, command)
        event = self._next
        if not isinstance(event, Restored):
            raise Unexpected
        paths = _padded(event.paths, event.files)
        of = OF_COMMAND[type(command)]
        return PathsRestored(
            self.at, of, paths, event.failed, command.ending, event.project, event.kept
        )

    def _store_failure(self) -> StoreFailed | None:
        """Return why the store failed, if that came instead of the answer, so that only the end of the
        run follows; else None."""
        for event in self.ahead():
            match event:
                case LoopError(reason="storage", error=error):
                    return StoreFailed(self.at, error)
                case RunWarning(state=None) | Report() | HookRun(hook="after_run"):
                    continue
                case _:
                    return None
        return None

    def _snapshot(self, run: LoopState, command: TakeSnapshot) -> SnapshotTaken | SnapshotCut:
        """Return a snapshot with the findings that were recorded before it."""
        assert run.trees is not None, "only a run with evidence takes snapshots"
        warnings: list[str] = []
        found: list[Tampered | ReferenceMoved] = []
        outside: tuple[str, ...] = ()
        strayed: tuple[str, ...] = ()
        patch = ""
        for event in self.ahead():
            match event:
                case RunWarning(message=message):
                    warnings.append(message)
                case Tampered() | ReferenceMoved():
                    found.append(event)
                case OutOfScope(paths=paths, files=files, beside="project"):
                    strayed, patch = _padded(paths, files), event.patch
                case OutOfScope(paths=paths, files=files):
                    outside, patch = _padded(paths, files), event.patch
                case Tree():
                    protected, watched = _changed_paths(found, run.trees, event.guard)
                    return SnapshotTaken(
                        self.at,
                        command.when,
                        event.id,
                        event.project,
                        event.guard,
                        event.changed,
                        event.compared,
                        protected,
                        outside,
                        event.committed,
                        tuple(warnings),
                        command.ending,
                        command.late,
                        watched,
                        _landed(found),
                        event.original,
                        strayed,
                        patch,
                    )
                case TreeUnread(guard=guard) if command.ending is not None:
                    protected, _ = _changed_paths(found, run.trees, guard or "")
                    return SnapshotCut(self.at, command.when, command.ending, guard, protected)
                case Resume() | GateAnswered() | Forked():
                    break
                case _:
                    raise Unexpected
        raise NotRecorded

    # ── the end, and what follows ──────────────────────────────────────────────────────────────

    def _last_result(self) -> Mapping[str, Any] | None:
        """Return the result in the last event of the process. The work of a run in a worktree is
        committed and merged before that event."""
        stops = (FinalEvent, Resume, GateAnswered, Forked)
        event = next((each for each in self.ahead() if isinstance(each, stops)), None)
        return event.result if isinstance(event, FinalEvent) else None

    def _leftovers(self, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
        """Return which processes had to be ended, and what a relay had to report.

        The machine's own warning about notes that no agent has got is left out.
        """
        names: tuple[str, ...] = ()
        warnings: list[str] = []
        report = ""
        result: Mapping[str, Any] | None = None
        for event in self.ahead():
            match event:
                case RunWarning(message=message, state=None):
                    if message.startswith(LEFT_RUNNING) and not names and not warnings:
                        names = (message.removeprefix(LEFT_RUNNING),)
                    else:
                        warnings.append(message)
                case Report(text=text):
                    report = text
                case _:
                    result = self._last_result()
                    break
        is_own = any(not note.heard for note in run.notes) and warnings
        given = warnings[1:] if is_own else warnings
        return LeftoversEnded(self.at, command.ending, names, report, tuple(given), result)

    def resumed(self, run: LoopState) -> Resumed:
        """Return the resume that is next, of this run."""
        answer = None
        resume: Resume | None = None
        cost: Cost | None = None
        used: list[tuple[str, Cost]] = []
        moved_by: str | None = None
        for event in self.ahead():
            match event:
                case GateAnswered(answer=given) if resume is None:
                    answer = given
                case Resume() if resume is None:
                    resume = event
                case ActionInterrupted(cause="crash") | HookRun():
                    continue
                case Cost(child=str(child)):
                    used.append((child, event))
                case Cost() if cost is None:
                    cost = event
                case TransitionTaken(reason=reason):
                    moved_by = reason
                    break
                case _:
                    break
        if resume is None:  # the resume itself was lost; only its answer was recorded
            return Resumed(self.at, answer=answer)
        is_by_gate = answer is not None and answer.to != resume.to
        is_asked = moved_by in ("resume", None) and not is_by_gate
        return Resumed(
            self.at,
            resume.orphans,
            resume.to if is_asked else None,
            resume.limits,
            resume.context,
            None if cost is None else _with_cost(Result(None, 0, cut_by="stop"), cost),
            resume.metered,
            resume.over_budget,
            answer,
            resume.answered,
            {child: used_with(run.children, child, cost) for child, cost in used},
        )


def outcome_of_event(end: ChildEnd) -> ChildOutcome:
    """Return how a run ended, given the event about it. Its reason there may be what the parent
    made of it."""
    reasons = {"interrupted": "signal", "crashed": "crash"}
    return ChildOutcome(
        end.status,
        reasons.get(end.status, end.reason),
        end.final_state,
        end.iterations,
        end.duration_ms,
        end.message,
        end.cost_usd,
        end.tokens,
        end.turns,
        end.run_id,
    )


def _can_be_stopped(command: Command) -> bool:
    """Return whether a stop may come instead of the answer. That of an action is recorded with it,
    and one that comes while the run ends changes nothing."""
    match command:
        case Judge() | Wait() | Admit() | LookUpLimits() | FindBranches():
            return True
        case PrepareWorktree() | FindBase():
            return True
        case RunHook() | TakeSnapshot() | RestoreProtected() | PutBack() | RestoreBest():
            return command.ending is None
        case _:
            return isinstance(command, WORKTREE_COMMANDS) and command.ended is not None


def _may_end(event: Event) -> bool:
    """Return whether an event may come between the decision to end a run and its final event."""
    if isinstance(event, Tree):
        return event.when in ("end", "last")
    if isinstance(event, HookRun):
        return event.hook == "after_run"
    if isinstance(event, KeepBest):
        return event.decision == "put_back"
    return isinstance(event, _OF_AN_END)


def _is_refusal(event: Event) -> TypeGuard[RunWarning]:
    """Return whether an event is the warning that an agent could not start before the end."""
    if not isinstance(event, RunWarning) or event.state is None:
        return False
    return event.message.startswith(did_not_run(event.state))


def _is_at(entry: Entry, at: Moment) -> bool:
    return Moment(entry.wall_ms, entry.ran_ms) == at


def _whole_result(partial: PartialResult | None, cost: Cost | None) -> Result:
    """Return the result of an action that a stop ended, with what it cost."""
    known = {} if partial is None else partial._asdict()
    result = Result(**{"exit_code": None, "duration_ms": 0, **known, "cut_by": "stop"})
    return result if cost is None else _with_cost(result, cost)


def _with_cost(result: Result, cost: Cost) -> Result:
    """Return the result of an agent that used this much; an estimate is made again."""
    cost_usd = None if cost.estimated else cost.cost_usd
    return result._replace(agent="error", tokens=cost.tokens, turns=cost.turns, cost_usd=cost_usd)


def _padded(paths: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return as many paths as there were; an event names only the first ones."""
    return (*paths, *(f"({number})" for number in range(len(paths) + 1, count + 1)))


def _changed_paths(
    found: Sequence[Tampered | ReferenceMoved], trees: Trees, guard: str
) -> tuple[tuple[PathChange, ...], tuple[str, ...]]:
    """Return which protected paths were changed, and which watched ones.

    The events do not say which of the two they are about. Of two events, the first is about watched
    paths if it is only a report; a single one is, if `guard`, the hash of the protected paths, has
    not changed. `ReferenceMoved` is always about protected paths.
    """
    protected: tuple[PathChange, ...] = ()
    watched: tuple[str, ...] = ()
    for event in found:
        paths = _padded(event.paths, event.files)
        is_first_of_two = event is found[0] and len(found) > 1
        is_unprotected = guard == trees.guard or trees.finding is not None
        if _may_be_watched(event) and (is_first_of_two or is_unprotected):
            watched = paths
        else:
            protected = tuple(PathChange(path, "changed") for path in paths)
    return protected, watched


def _may_be_watched(event: Tampered | ReferenceMoved) -> bool:
    """Return whether an event may be about watched paths, which only agents must not change."""
    if not isinstance(event, Tampered):
        return False
    return event.tampering == REPORT and event.by in ("agent", "apart")


def _landed(found: Sequence[Tampered | ReferenceMoved]) -> tuple[str, ...]:
    """Return the protected paths that were merged from worktrees: they are accepted as they are, and
    not reported as changed."""
    moved = [path for each in found if isinstance(each, ReferenceMoved) for path in each.paths]
    reported = {path for each in found if isinstance(each, Tampered) for path in each.paths}
    return tuple(path for path in moved if path not in reported)
