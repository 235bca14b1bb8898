"""Decide what a loop does next.

`advance` is the only function that moves a run from state to state. It runs nothing and waits for
nothing: results and the time arrive in a happening, work leaves as a command.

A run cycles through `arrive` (limits, waits) → `act` (its action leaves as a command) → `settle`
(what the end of the action means) → `route` (the transition for the verdict) → `arrive` …, until
`end`.

Not here: judging output (`verdicts`, `conditions`), applying events (`evolve`), saving anything
(`lifecycle`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.actions import type_of
from little_loops.fsm.admission import admission_due, deny, limited, queue
from little_loops.fsm.check_steps import (
    check_fields,
    disproved,
    end_stalled,
    headed_for,
    note_rerun,
    verdict_after_rules,
    verdict_of_runs,
)
from little_loops.fsm.commands import (
    Command,
    Ending,
    EndLeftovers,
    Finish,
    GatherChildren,
    Judge,
)
from little_loops.fsm.events import (
    ActionStart,
    Entry,
    HostWait,
    Iteration,
    LoopStart,
    RetryWait,
    RunWarning,
    StateEnter,
    TransitionTaken,
)
from little_loops.fsm.evidence import Rerun, is_best_moved, trees_of
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    BaseFound,
    BranchesFound,
    CannotContinue,
    ChildEnded,
    ChildrenOutOfTime,
    Denied,
    Happening,
    HookEnded,
    JudgeAnswered,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    NothingCollected,
    PathsRestored,
    Queued,
    Resumed,
    SnapshotCut,
    SnapshotTaken,
    Started,
    StopAsked,
    StoreFailed,
    WaitOver,
    WorktreeFailed,
    WorktreeHappening,
    WorktreePrepared,
)
from little_loops.fsm.last_check import (
    has_passed,
    is_new_iteration,
    is_used_up,
    may_judge,
    path_to_check,
)
from little_loops.fsm.limits import (
    exceeded,
    exceeded_by_agent,
    iterations_allowed,
    time_left_ms,
    wait_for,
)
from little_loops.fsm.next_action import action_due
from little_loops.fsm.record_events import (
    end_of_step,
    note_cut,
    note_debt,
    note_end,
    note_ended,
    note_evaluated,
    note_leftovers,
    note_lost,
    note_not_begun,
    note_resume,
)
from little_loops.fsm.routing import find_transition, no_transition
from little_loops.fsm.schema import (
    AS_ERROR,
    CURRENT,
    ERROR,
    STALLED,
    TIMEOUT,
    FSMLoop,
    Transition,
    effective_condition,
    keeper_of,
    keeps_best,
    starts_runs,
)
from little_loops.fsm.signals import SIGNALS
from little_loops.fsm.state import FORMAT, Halt, Judgement, LoopState, Note, Result
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.terminal_states import (
    MAINTAIN,
    end_in_terminal,
    note_cycle,
    warn_of_failure,
)
from little_loops.fsm.tree_steps import (
    after_action,
    after_leftovers,
    before_action,
    before_end,
    before_success,
    first_snapshot,
    found_verdict,
    in_success,
    undo_change,
)
from little_loops.fsm.turn_hosts import collects_judge, gives_way, is_asked
from little_loops.fsm.verdicts import judge_action, judge_source, with_source
from little_loops.fsm.waits import host_wait, retry_wait_ms, to_ms
from little_loops.light_typing import TYPE_CHECKING, assert_never
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved

if TYPE_CHECKING:
    from little_loops.fsm.gates import AfterGate
    from little_loops.fsm.hooks import Point
    from little_loops.fsm.record_trees import Look

ENGINE_SIGNALS = tuple(SIGNALS.values())
"""Signals with an effect; those from a user's own patterns are recorded and change nothing."""


class Step(NamedTuple):
    run: LoopState
    events: tuple[Entry, ...]
    command: Command


def advance(
    loop: FSMLoop, run: LoopState, happening: Happening, notes: tuple[Note, ...] = ()
) -> Step:
    """Return the next step: the new run, the events that led to it, and the command to carry out.

    `notes` are what people have sent the run since the last call.
    """
    builder = StepBuilder(loop, run, happening.at, notes)
    if not isinstance(happening, Resumed):  # its event comes first
        _receive_notes(builder)
    command = _answer(builder, happening)
    if isinstance(command, EndLeftovers):
        command = before_end(builder, command.ending)
    if isinstance(command, EndLeftovers):  # what agents did to the files is known before the hook
        command = _hook(builder, "end", ending=command.ending) or command
    return Step(builder.finished(), tuple(builder.events), command)


def _receive_notes(builder: StepBuilder) -> None:
    """Record the notes that people have sent, if any."""
    if builder.notes:
        from little_loops.fsm.notes import receive  # few runs get notes

        receive(builder)


def _answer(builder: StepBuilder, happening: Happening) -> Command:
    """Handle a happening. Return the next command."""
    match happening:
        case Started() | Resumed():
            return _begin(builder, happening)
        case ActionEnded() | BranchesFound() | ChildEnded() | ChildrenOutOfTime():
            return _ended(builder, happening)
        case Admitted() | Queued() | Denied() | LimitsKnown():
            return _admission(builder, happening)
        case HookEnded():
            return _after_hook(builder, happening)
        case Judged() | JudgeAnswered() | NothingCollected():
            return _judgement(builder, happening)
        case WaitOver():
            return _after_wait(builder)
        case StopAsked() | CannotContinue():
            return _stopped(builder, happening)
        case SnapshotTaken() | SnapshotCut() | PathsRestored() | StoreFailed():
            return _after_snapshot(builder, happening)
        case LeftoversEnded():
            return _end(builder, happening)
        case _:
            return _of_worktree(builder, happening)


def _judgement(builder: StepBuilder, answer: Judged | JudgeAnswered | NothingCollected) -> Command:
    """Continue with the verdict of a condition, or of the judge, which is recorded first."""
    if isinstance(answer, Judged):
        return _judged(builder, answer.judgement, by_condition=True)
    from little_loops.fsm.judges import note_answer  # few loops have a judge

    note_answer(builder, answer)
    if isinstance(answer, JudgeAnswered) and answer.stop is not None:
        return EndLeftovers(endings.interrupted(answer.stop))
    return _route_judged(builder)


def _begin(builder: StepBuilder, happening: Started | Resumed) -> Command:
    return _start(builder) if isinstance(happening, Started) else _resume(builder, happening)


def _end(builder: StepBuilder, ended: LeftoversEnded) -> Command:
    """Record the end and finish, unless another snapshot is needed because processes had to be
    ended."""
    note_leftovers(builder, ended)
    if (look := after_leftovers(builder, ended)) is not None:
        return look
    return _finish(builder, ended)


def _finish(builder: StepBuilder, ended: LeftoversEnded) -> Command:
    """Record the end and finish, once the work of a run in a worktree is saved."""
    if builder.run.workspace is not None:
        from little_loops.fsm.worktree_steps import at_end  # few runs have worktrees

        due = at_end(builder, ended)
        if not isinstance(due, LeftoversEnded):
            return due
        ended = due
    note_end(builder, ended)
    return Finish(ended.ending)


def _start(builder: StepBuilder) -> Command:
    """Record the start of the run, and move to its initial state."""
    run = builder.run
    trees = run.trees
    evidence = None if trees is None else trees.off or "on"
    builder.note(
        LoopStart(
            run.loop, builder.loop.initial, run.scope, FORMAT, run.limits, evidence, run.metered
        )
    )
    if trees_of(run) is None and keeper_of(builder.loop) is not None:
        return EndLeftovers(endings.failed("error", "`keep: best` needs evidence"))
    return _prepare(builder) or _hook(builder, "start") or _arrive(builder)


# ── arriving in a state ────────────────────────────────────────────────────────────────────────


def _arrive(builder: StepBuilder) -> Command:
    """Enter the next state, unless a limit or a wait comes first."""
    move = builder.run.move
    assert move is not None, "a run between states has a next state"
    if is_used_up(builder.loop, builder.run, move):
        if may_judge(builder.loop, builder.run, move):
            return _enter(builder, at_limit=True)
        return _out_of_iterations(builder)
    if is_new_iteration(builder.loop, builder.run, move):
        _count_iteration(builder, waits_itself=move.retry)
    if builder.run.wait is not None:
        return wait_for(builder.loop, builder.run, builder.at)
    return _enter(builder)


def _count_iteration(builder: StepBuilder, *, waits_itself: bool) -> None:
    """Record a new iteration, with the loop's backoff; a retry (`waits_itself`) has its own wait
    instead."""
    wait_ms = (
        0 if waits_itself else max(to_ms(builder.loop.backoff), _requested_wait_ms(builder.run))
    )
    builder.note(Iteration(builder.run.iteration + 1, wait_ms))
    if waits_itself:
        _note_retry_wait(builder)


def _requested_wait_ms(run: LoopState) -> int:
    """Return how long the last action asked the next iteration to wait."""
    left = run.captured.get(run.current_state)
    return 0 if left is None else left.wait_ms


def _note_retry_wait(builder: StepBuilder) -> None:
    run = builder.run
    if wait_ms := retry_wait_ms(builder.loop, builder.state, run.retries):
        builder.note(RetryWait(run.current_state, run.attempt + 1, wait_ms))


def _enter(builder: StepBuilder, *, at_limit: bool = False) -> Command:
    """Enter the state that the run is moving to, unless its time, cost or tokens, a missing proof, or
    a change that has to be undone first prevents it. With `at_limit`, no iteration is left, and the
    state only judges the last change (see `last_check`)."""
    run, move = builder.run, builder.run.move
    assert move is not None, "a run between states has a next state"
    if (ending := exceeded(builder.loop, run, builder.at, move.target)) is not None:
        return _end_at_limit(builder, ending, move.target)
    if (due := before_success(builder)) is not None:
        return _recheck_before_success(builder, due)
    if builder.loop.states[move.target].terminal and (undo := undo_change(builder)) is not None:
        return undo
    step = run.step if move.retry else run.step + 1
    builder.note(StateEnter(move.target, run.iteration, step, move.reason, at_limit))
    return _act(builder)


def _recheck_before_success(builder: StepBuilder, due: Command | Judgement | Rerun) -> Command:
    """Rerun checks that have not passed on the current tree before a success state is entered."""
    if isinstance(due, Rerun):
        if (ending := exceeded(builder.loop, builder.run, builder.at, due.state)) is not None:
            return _end_at_limit(builder, ending, due.state)
        note_rerun(builder, due)
        return _act(builder)
    return _route(builder, due) if isinstance(due, Judgement) else due


def _out_of_iterations(builder: StepBuilder) -> Command:
    allowed = iterations_allowed(builder.loop, builder.run)
    where = f"still in `{builder.run.current_state}`"
    return EndLeftovers(endings.failed("max_iterations", f"{_iterations_text(allowed)}, {where}"))


def _iterations_text(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"


def _end_at_limit(builder: StepBuilder, ending: Ending, next_state: str) -> Command:
    """End the run at a limit. The loop's timeout runs `on_timeout` first, once; `next_state` is
    where a resume continues."""
    if builder.run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    if ending.reason == "loop_timeout":
        return _time_is_up(builder, next_state)
    return EndLeftovers(ending)


# ── worktrees ───────────────────────────────────────────────────────────────────────────────────


def _prepare(builder: StepBuilder) -> Command | None:
    """Return the command that gives the run its worktree; None if it has it, or needs none."""
    if builder.loop.worktree is None:
        return None
    from little_loops.fsm.worktree_steps import preparation_due  # few runs have worktrees

    return preparation_due(builder)


def _of_worktree(builder: StepBuilder, happening: WorktreeHappening) -> Command:
    """Record what was done for a worktree or for merging, and continue where that was needed."""
    from little_loops.fsm import child_steps, worktree_steps  # few runs have worktrees

    worktree_steps.record(builder, happening)
    match happening:
        case WorktreePrepared():
            return _hook(builder, "start") or _take_up(builder)
        case BaseFound():
            return child_steps.begin(builder)
        case WorktreeFailed():
            return _worktree_failed(builder, happening)
        case _ if happening.ended is not None:
            return _finish(builder, happening.ended)
        case _:
            return child_steps.follow(builder)


def _worktree_failed(builder: StepBuilder, failed: WorktreeFailed) -> Command:
    """End the run, or continue with the verdict `error` in the state whose branches it was for."""
    if failed.ended is not None:
        ending = endings.failed(ERROR, failed.problem)
        note_end(builder, failed.ended._replace(ending=ending))
        return Finish(ending)
    if builder.run.step == 0:  # its own worktree
        return EndLeftovers(endings.failed(ERROR, failed.problem))
    children = builder.run.own_children
    if children is None:
        return _cannot_act(builder, failed.problem)
    return GatherChildren(children.state, children, Judgement(ERROR, failed.problem))


# ── acting ─────────────────────────────────────────────────────────────────────────────────────


def _act(builder: StepBuilder, admitted: Admitted | None = None) -> Command:
    """Return the command for the current state: its action, which is recorded as started, its
    decision, or the end.

    What must come first is returned instead: a rerun, a snapshot, or the request for an agent to
    start unless it is `admitted`.
    """
    state = builder.state
    if (unproved := in_success(builder)) is not None:
        return _recheck_before_success(builder, unproved)
    if state.action is None:
        if state.terminal:
            return end_in_terminal(builder) or _arrive(builder)
        return _judge_or_ask(builder, judge_source(state, builder.run))
    if (hook := _hook(builder, "entry")) is not None:
        return hook
    if admitted is None and (request := _host_due(builder) or admission_due(builder)) is not None:
        return request
    if (first := before_action(builder)) is not None:
        return first
    if is_best_moved(builder.loop, builder.run):
        from little_loops.fsm.measuring import measure_first  # few loops keep the best

        return _take(builder, measure_first(builder))
    return _start_action(builder, admitted)


def _start_action(builder: StepBuilder, admitted: Admitted | None) -> Command:
    """Return the command for the current state's action, which is recorded as started."""
    state = builder.state
    if starts_runs(state):
        from little_loops.fsm.child_steps import begin  # few loops start others

        return begin(builder)
    try:
        due = action_due(builder.loop, builder.run, builder.at)
    except Unresolved as problem:
        return _cannot_act(builder, _why_missing(builder.run, problem))
    except TemplateError as problem:
        return _cannot_act(builder, str(problem))
    command = limited(due.command, admitted)
    builder.note(
        ActionStart(
            due.shown,
            builder.run.current_state,
            command.job.attempt,
            type_of(due.action),
            state.terminal,
            due.session_id,
            state.label,
            **check_fields(builder),
        )
    )
    return command


def _of_children(
    builder: StepBuilder, happening: BranchesFound | ChildEnded | ChildrenOutOfTime
) -> Command:
    """Start the branches of a state, continue after the end of a child, or stop all of them at the
    loop's timeout."""
    from little_loops.fsm import child_steps  # few loops start others

    if isinstance(happening, BranchesFound):
        if happening.problem:
            return _cannot_act(builder, happening.problem)
        return child_steps.start_branches(builder, happening.names)
    if isinstance(happening, ChildrenOutOfTime):
        child_steps.halt(builder, child_steps.OUT_OF_TIME)
        return child_steps.follow(builder)
    command = child_steps.ended(builder, happening)
    if isinstance(command, EndLeftovers) and child_steps.is_out_of_time(builder):
        return _time_is_up(builder, builder.run.current_state)
    return command


def _act_again(builder: StepBuilder) -> Command:
    """Run the action of the current state again in the same step, unless a limit was reached."""
    here = builder.run.current_state
    if (ending := exceeded(builder.loop, builder.run, builder.at, here)) is not None:
        return _end_at_limit(builder, ending, here)
    return _act(builder)


def _host_due(builder: StepBuilder) -> Command | None:
    """Return the command that precedes the choice of an agent; None with only one."""
    if not (builder.loop.fallback or builder.state.fallback):
        return None
    from little_loops.fsm.fallbacks import choice_due  # few loops have a fallback

    return choice_due(builder)


def _choose_host(builder: StepBuilder, known: LimitsKnown) -> Command:
    """Start the turn of the agent that is available, or wait for one."""
    from little_loops.fsm.fallbacks import choose  # few loops have a fallback

    found = choose(builder, known)
    if found is None:
        return _act(builder)
    return _route(builder, found) if isinstance(found, Judgement) else found


def _give_way(builder: StepBuilder) -> Command:
    """Let the next agent take the turn, in the same step."""
    from little_loops.fsm.fallbacks import give_way  # few loops have a fallback

    give_way(builder)
    return _act_again(builder)


def _admission(builder: StepBuilder, answer: Admitted | Queued | Denied | LimitsKnown) -> Command:
    """Start an agent's turn or session, or wait until it may start, or pause."""
    match answer:
        case LimitsKnown():
            return _choose_host(builder, answer)
        case Admitted() if builder.run.phase == "judged":
            builder.admitted = answer
            return _route_judged(builder)
        case Admitted():
            return _act_after_handoff(builder, answer)
        case Queued():
            return queue(builder, answer)
        case Denied():
            return deny(builder, answer)
        case _:
            assert_never(answer)


def _why_missing(run: LoopState, problem: Unresolved) -> str:
    """Return why a value is missing; usually the state that should provide it has not run."""
    match problem.name.split("."):
        case ["captured", result, *_] if result not in run.captured:
            return f"`{problem.name}` has no value yet, because `{result}` has no result"
        case _:
            return str(problem)


def _cannot_act(builder: StepBuilder, why: str) -> Command:
    """Handle an action that cannot be started: continue as with an error, and record why."""
    warning = RunWarning(f"state `{builder.run.current_state}`: {why}", builder.run.current_state)
    if builder.state.terminal:
        builder.note(warning)
        return end_in_terminal(builder) or _arrive(builder)
    if find_transition(builder.loop, builder.run, ERROR) is not None:
        builder.note(warning)  # the run continues elsewhere, and no other event would say why
    return _route(builder, Judgement(ERROR, why))


# ── what the end of an action means ────────────────────────────────────────────────────────────


def _ended(
    builder: StepBuilder, ended: ActionEnded | BranchesFound | ChildEnded | ChildrenOutOfTime
) -> Command:
    """Record the end of an action, and decide what follows; if a stop ended it, the run is
    interrupted."""
    if not isinstance(ended, ActionEnded):
        return _of_children(builder, ended)
    if ended.stop is not None:
        note_cut(builder, ended.result)
        return EndLeftovers(endings.interrupted(ended.stop))
    note_ended(builder, ended)
    return _settle(builder)


def _settle(builder: StepBuilder) -> Command:
    """Decide what the end of an action means: stop, timeout, signal line, host or condition, in
    this order."""
    if (first := after_action(builder)) is not None:
        return first
    run, result = builder.run, builder.result
    if run.timed_out_in is not None or builder.state.terminal:
        return _finish_state(builder)
    if result.cut_by == "loop":
        return _time_is_up(builder, run.current_state)
    if (found := found_verdict(builder)) is not None:
        return _route(builder, found)
    if (
        result.cut_by == "none"
        and run.signal_line is not None
        and run.signal_line.type in ENGINE_SIGNALS
    ):
        return _handle_signal_line(builder)
    if gives_way(builder.loop, run, result):
        return _give_way(builder)
    if result.agent in ("auth", "billing"):
        return EndLeftovers(endings.failed(result.agent, result.reason or result.agent))
    if result.agent == "wait":
        return _wait_for_host(builder, result)
    return _judge_or_ask(builder, judge_action(builder.state, run, builder.loop.idle_timeout))


def _finish_state(builder: StepBuilder) -> Command:
    """End the run, or start its next cycle, after the action of a state whose verdict changes
    nothing."""
    if (hook := _hook(builder, "exit")) is not None:
        return hook
    if builder.run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    warn_of_failure(builder)
    return end_in_terminal(builder) or _arrive(builder)


def _handle_signal_line(builder: StepBuilder) -> Command:
    """Hand off, stop, or continue as with an error, as the action's signal line requires."""
    line = builder.run.signal_line
    assert line is not None, "there is a signal line to act on"
    match line.type:
        case "handoff":
            from little_loops.fsm.handoffs import hand_off  # most actions hand nothing off

            return hand_off(builder, line.payload) or _act(builder)
        case "stop":
            return EndLeftovers(endings.STOPPED._replace(message=line.payload))
        case other:
            assert other == "error", f"the machine does not act on the signal `{other}`"
            why = line.payload or "the action printed FATAL_ERROR"
            return _route(builder, Judgement(ERROR, why))


def _judge_or_ask(builder: StepBuilder, judged: Judgement | Judge) -> Command:
    """Route a verdict, or return the command to judge what only the engine can judge."""
    if isinstance(judged, Judge):
        return judged
    condition_spoke = judged.verdict != TIMEOUT and builder.run.phase in ("judging", "entered")
    return _judged(builder, judged, by_condition=condition_spoke)


def _judged(builder: StepBuilder, judgement: Judgement, *, by_condition: bool) -> Command:
    """Route a verdict under the rules of evidence, unless the check has to be measured again first."""
    state = builder.state
    if starts_runs(state):
        judgement = verdict_of_runs(builder, judgement)
    if state.repeat > 1 or keeps_best(state):
        from little_loops.fsm.measuring import AGAIN, after_measurement  # few loops measure so

        measured = after_measurement(builder, judgement)
        if measured == AGAIN:
            return _act_again(builder)
        judgement = measured
    return _route(builder, judgement, by_condition=by_condition)


def _wait_for_host(builder: StepBuilder, result: Result) -> Command:
    """Wait for a usage limit or an overloaded service; not an iteration, but bounded."""
    host = builder.loop.host.under(builder.state.host)
    wait = host_wait(builder.run, host, result, builder.at)
    if wait.too_long:
        return _route(builder, Judgement(ERROR, f"{wait.reason}; longer than `max_wait`"))
    here, until_wall_ms = builder.run.current_state, builder.at.wall_ms + wait.wait_ms
    builder.note(HostWait(here, wait.reason, until_wall_ms, wait.wait_ms, wait.least_ms))
    return wait_for(builder.loop, builder.run, builder.at)


# ── routing ────────────────────────────────────────────────────────────────────────────────────


def _route(builder: StepBuilder, judgement: Judgement, *, by_condition: bool = False) -> Command:
    """Take the transition of the verdict, or end the run if there is none."""
    condition = effective_condition(builder.state)
    if by_condition and condition is not None:
        judgement = with_source(builder.state, judgement)
        note_evaluated(builder, condition, judgement)
    if builder.run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    decided = verdict_after_rules(builder, judgement)
    if isinstance(decided, Rerun):
        return _recheck_before_success(builder, decided)
    return _follow(builder, decided, judgement)


def _route_judged(builder: StepBuilder) -> Command:
    """Continue after a verdict was recorded; a finding since then, such as a file that could not be
    restored, comes first."""
    assert builder.run.judgement is not None, "a judged run has its judgement"
    return _route(builder, found_verdict(builder) or builder.run.judgement)


def _follow(builder: StepBuilder, judgement: Judgement, judged: Judgement) -> Command:
    """Take the transition of a verdict, or end the run if there is none; `judged` is the verdict
    before the rules of evidence were applied."""
    if builder.state.judge is not None:
        ruled = _second_opinion(builder, judgement)
        if not isinstance(ruled, Judgement):
            return ruled
        judgement = ruled
    if keeps_best(builder.state) and (first := _weigh(builder, judgement, judged)) is not None:
        return first
    if (headed := headed_for(builder, judgement)) is not None:
        return _take(builder, Transition(headed.target, headed.reason), passed=headed.passed)
    transition = find_transition(builder.loop, builder.run, judgement.verdict)
    leaves = transition is None or transition.target != CURRENT
    if leaves and (hook := _hook(builder, "exit", judgement=judgement)) is not None:
        return hook
    if transition is None and judgement.verdict == STALLED:
        return end_stalled(builder, judgement, judged)
    if transition is None:
        return EndLeftovers(no_transition(builder.loop, builder.run, judgement))
    if (end := disproved(builder, judgement, transition)) is not None:
        return end
    if has_passed(builder.run, judgement.verdict):
        return _take(builder, path_to_check(builder.loop, builder.run, transition), passed=True)
    return _take(builder, transition)


def _second_opinion(builder: StepBuilder, judgement: Judgement) -> Command | Judgement:
    """Return the verdict with that of the judge; if it has to be asked first, the command, or the
    ending at a limit."""
    from little_loops.fsm import judges  # few loops have a judge

    if not judges.is_due(builder, judgement):
        return judgement
    if (found := judges.ruled(builder, judgement)) is not None:
        return found
    ending = exceeded_by_agent(builder.loop, builder.run, builder.at)
    if ending is not None and not is_asked(builder.run):
        return _end_at_limit(builder, ending, builder.run.current_state)
    return judges.ask(builder, judgement)


def _weigh(builder: StepBuilder, judgement: Judgement, judged: Judgement) -> Command | None:
    """Decide what becomes of the files that were measured. Return what comes first: restoring files
    or another measurement; else None."""
    from little_loops.fsm.measuring import AGAIN, weigh  # few loops keep the best

    first = weigh(builder, judgement, judged)
    return _act_again(builder) if first == AGAIN else first


def _take(builder: StepBuilder, transition: Transition, *, passed: bool = False) -> Command:
    """Record a transition and move to its target; `passed` marks the pass of a check at the
    iteration limit."""
    here = builder.run.current_state
    again = transition.target == CURRENT
    to = here if again else transition.target
    if not again:
        end_of_step(builder)
    builder.note(TransitionTaken(here, to, transition.reason, again, passed=passed))
    return _arrive(builder)


# ── hooks ──────────────────────────────────────────────────────────────────────────────────────


def _hook(
    builder: StepBuilder,
    point: Point,
    *,
    judgement: Judgement | None = None,
    ending: Ending | None = None,
) -> Command | None:
    """Return the next hook to run at this point of the run, or the first snapshot, if the hook would
    be the first to change files; None if there is no hook."""
    state = builder.state
    if builder.loop.hooks is None and state.before is None and state.after is None:
        return None  # as in most loops
    from little_loops.fsm.hooks import hook_due  # few loops have hooks

    hook = hook_due(builder, point, judgement, ending)
    if hook is None or ending is not None:
        return hook
    return first_snapshot(builder) or hook


def _after_hook(builder: StepBuilder, ended: HookEnded) -> Command:
    """Record the end of a hook, and continue where it was run; a required one that failed prevents
    what comes after it."""
    if ended.stop is not None:
        return EndLeftovers(ended.ending or endings.interrupted(ended.stop))
    from little_loops.fsm.hooks import note_hook  # few loops have hooks

    problem = note_hook(builder, ended)
    if ended.ending is not None:
        return EndLeftovers(ended.ending)
    if ended.name == "before_run":
        return _take_up(builder) if not problem else EndLeftovers(endings.failed("hook", problem))
    if problem and builder.run.phase == "entered":
        return _route(builder, Judgement(ERROR, problem))
    match builder.run.phase:
        case "judging":
            return _settle(builder)
        case "judged":
            return _route_judged(builder)
        case _:
            return _act(builder)


def _take_up(builder: StepBuilder) -> Command:
    """Start or continue a run whose first hook has run; the log has what a resume is to do."""
    resumed = Resumed(builder.at)
    gate = _answered_gate(builder, resumed)
    return _follow_resume(builder, _resume_target(builder, resumed, gate), gate)


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


def _after_wait(builder: StepBuilder) -> Command:
    """Continue after a wait; entering and acting check the loop's timeout."""
    run = builder.run
    if run.phase == "moving":
        return _enter(builder)
    assert run.wait is not None, "only a waiting run can finish waiting"
    if run.phase == "judged":
        return _route_judged(builder)
    if (ending := exceeded(builder.loop, run, builder.at, run.current_state)) is not None:
        return _end_at_limit(builder, ending, run.current_state)
    return _act_after_handoff(builder)


def _act_after_handoff(builder: StepBuilder, admitted: Admitted | None = None) -> Command:
    """Run the action of the state again, or start the session that a handoff has asked for."""
    from little_loops.fsm.handoffs import after_handoff  # only after a wait, or for an agent

    return after_handoff(builder, admitted) or _act(builder, admitted)


# ── looking at the tree ────────────────────────────────────────────────────────────────────────


def _after_snapshot(builder: StepBuilder, seen: Look) -> Command:
    """Continue where the run stopped to take a snapshot."""
    from little_loops.fsm.record_trees import note_tree_result  # loops without agents pay nothing

    ending = note_tree_result(builder, seen)
    return _back_to_step(builder) if ending is None else EndLeftovers(ending)


def _back_to_step(builder: StepBuilder) -> Command:
    """Continue the step after a snapshot, where its phase shows that it stopped."""
    run = builder.run
    if (hook := _hook(builder, "start")) is not None:
        return hook
    if run.phase == "judging":
        return _settle(builder)
    if run.phase == "judged":
        return _route_judged(builder)
    if run.phase == "moving" and run.move is not None:
        return _enter(builder, at_limit=is_used_up(builder.loop, run, run.move))
    return _act(builder)


# ── time and stop ──────────────────────────────────────────────────────────────────────────────


def _time_is_up(builder: StepBuilder, next_state: str) -> Command:
    """Run the loop's `on_timeout` state once; its transitions are not taken."""
    handler = builder.loop.on_timeout
    if handler is None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    here = builder.run.current_state
    end_of_step(builder)
    builder.note(TransitionTaken(here, handler, "on_timeout", loop_timeout=next_state))
    return _enter(builder)


def _stopped(builder: StepBuilder, why: StopAsked | CannotContinue) -> Command:
    """Stop the run; children that are under way are stopped first."""
    if builder.run.phase == "running" and builder.run.own_children is not None:
        from little_loops.fsm import child_steps  # few loops start others

        child_steps.halt(builder, _halt(why))
        return child_steps.follow(builder)
    if builder.run.phase == "running":
        note_not_begun(builder)
    if builder.run.ruling is not None:
        from little_loops.fsm import judges  # few loops have a judge

        judges.note_unanswered(builder, "stopped", judges.STOPPED)
    return EndLeftovers(endings.of_halt(_halt(why)))


def _halt(why: StopAsked | CannotContinue) -> Halt:
    """Return why the run stops, and its children with it."""
    if isinstance(why, StopAsked):
        return Halt("interrupted", "signal", signal=why.signal)
    return Halt("failed", why.reason, why.problem)


# ── resuming ───────────────────────────────────────────────────────────────────────────────────


def _resume(builder: StepBuilder, resumed: Resumed) -> Command:
    """Record the resume with all that belongs to it (an answer, notes, a lost action, its cost),
    and continue at the requested state, or else where the run stopped."""
    was_running = builder.run.phase == "running"
    gate = _answered_gate(builder, resumed)
    target = _resume_target(builder, resumed, gate)
    collects = collects_judge(builder.loop, builder.run, target and target.target)
    note_resume(builder, resumed, target)
    _receive_notes(builder)
    if was_running:
        note_lost(builder)
    elif builder.run.ruling is not None and not collects:
        from little_loops.fsm import judges  # few loops have a judge

        judges.note_unanswered(builder, "lost", judges.LEFT)
    if not collects:  # else its cost is recorded with its answer
        note_debt(builder, resumed)
    if resumed.used:
        from little_loops.fsm.child_steps import note_used  # few loops start others

        for child, used in resumed.used.items():
            note_used(builder, child, used)
    if (first := _prepare(builder) or _hook(builder, "start")) is not None:
        return first
    return _follow_resume(builder, target, gate)


def _follow_resume(
    builder: StepBuilder, target: Transition | None, gate: AfterGate | None
) -> Command:
    """Return the first command of a resumed run: for the requested state; else for a gate that was
    rejected, or a run that has timed out; else for the place where it stopped."""
    if target is not None:
        return _take(builder, target)
    if gate is not None and gate.rejection is not None:
        return EndLeftovers(gate.rejection)
    if builder.run.timed_out_in is not None:
        return _resume_timed_out(builder, builder.run)
    return _continue_run(builder)


def _answered_gate(builder: StepBuilder, resumed: Resumed) -> AfterGate | None:
    """Record the answer if the run waits at a gate, and return what it leads to."""
    run = builder.run
    if run.gate is None and not endings.is_gate(run.status, run.reason):
        return None
    from little_loops.fsm.gates import pass_gate  # few runs have gates

    return pass_gate(builder, resumed)


def _resume_target(
    builder: StepBuilder, resumed: Resumed, gate: AfterGate | None
) -> Transition | None:
    """Return the transition to the requested state, of this resume or of an interrupted earlier
    one; None to continue where the run stopped."""
    run = builder.run
    if resumed.from_state is not None:
        return Transition(resumed.from_state, "resume")
    transition = None if gate is None else gate.transition
    # A later `resume --from` overrides the answer, also if it was interrupted.
    if run.resume_to is None or (transition is not None and transition.target == run.resume_to):
        return transition
    return Transition(run.resume_to, "resume")


def _resume_timed_out(builder: StepBuilder, before: LoopState) -> Command:
    """Continue where the run was going if there is more time, else finish the `on_timeout`
    state."""
    assert before.timed_out_in is not None, "the loop's time was up"
    if time_left_ms(builder.loop, builder.run, builder.at) != 0:
        return _take(builder, Transition(before.timed_out_in, "resume"))
    return _continue_run(builder)


def _continue_run(builder: StepBuilder) -> Command:
    """Continue from any phase: every prefix of a log is a valid place to resume."""
    run = builder.run
    match run.phase:
        case "running" | "interrupted":
            return _after_interrupt(builder)
        case "entered":
            return (
                _act_if_allowed(builder)
                if run.wait is None
                else wait_for(builder.loop, run, builder.at)
            )
        case "judging":
            return _settle(builder)
        case "judged":
            return _route_judged(builder)
        case "moving":
            _record_missing_wait(builder)
            return _arrive(builder) if run.timed_out_in is None else _enter(builder)
        case "ended":
            # Only a crash between the final event and archiving leaves a run here.
            return end_in_terminal(builder) or _arrive(builder)
        case _:
            assert_never(run.phase)


def _record_missing_wait(builder: StepBuilder) -> None:
    """Record the wait that belongs to a transition, if a crash came between the two."""
    run, move = builder.run, builder.run.move
    if move is None or run.wait is not None:
        return
    if move.reason == MAINTAIN:
        note_cycle(builder)
    elif move.retry and move.target not in run.visited:
        _note_retry_wait(builder)


def _act_if_allowed(builder: StepBuilder) -> Command:
    """Act, unless a limit was already reached; a resume does not reset limits."""
    ending = exceeded(builder.loop, builder.run, builder.at, builder.run.current_state)
    return _act(builder) if ending is None else EndLeftovers(ending)


def _after_interrupt(builder: StepBuilder) -> Command:
    """Continue after an interrupted action as `on_interrupt` says: run it again, treat it as an
    error, or move to a state."""
    request = builder.state.on_interrupt or builder.loop.on_interrupt
    if request == CURRENT:
        return _act_if_allowed(builder)
    if request == AS_ERROR or builder.run.timed_out_in is not None:
        return _route(builder, Judgement(ERROR, "the action was interrupted"))
    return _take(builder, Transition(request, "on_interrupt"))
