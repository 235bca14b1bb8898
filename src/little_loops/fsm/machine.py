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

from typing import TYPE_CHECKING, assert_never

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
)
from little_loops.fsm.commands import Command, Ending, EndLeftovers, Finish, Judge
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
from little_loops.fsm.evidence import Rerun
from little_loops.fsm.handoffs import after_handoff, hand_off
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    Denied,
    Happening,
    Judged,
    LeftoversEnded,
    PathsRestored,
    Queued,
    Resumed,
    SnapshotCut,
    SnapshotTaken,
    Started,
    StopAsked,
    StoreFailed,
    WaitOver,
)
from little_loops.fsm.last_check import (
    has_passed,
    is_new_iteration,
    is_used_up,
    may_judge,
    path_to_check,
)
from little_loops.fsm.limits import exceeded, iterations_allowed, time_left_ms, wait_for
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
from little_loops.fsm.record_trees import Look, note_tree_result
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
)
from little_loops.fsm.signals import SIGNALS
from little_loops.fsm.state import FORMAT, Judgement, LoopState, Note, Result
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
    found_verdict,
    in_success,
)
from little_loops.fsm.turn import Turn
from little_loops.fsm.verdicts import judge_action, judge_source, with_source
from little_loops.fsm.waits import host_wait, retry_wait_ms, to_ms
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved

if TYPE_CHECKING:
    from little_loops.fsm.gates import AfterGate

ENGINE_SIGNALS = tuple(SIGNALS.values())
"""Signals with an effect; signals of a user's own patterns are recorded and change nothing."""


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
    turn = Turn(loop, run, happening.at, notes)
    if not isinstance(happening, Resumed):  # its event comes first
        _receive_notes(turn)
    command = _answer(turn, happening)
    if isinstance(command, EndLeftovers):
        command = before_end(turn, command.ending)
    return Step(turn.run, tuple(turn.events), command)


def _receive_notes(turn: Turn) -> None:
    """Record the notes that people have sent, if any."""
    if turn.notes:
        from little_loops.fsm.notes import receive  # few runs get notes

        receive(turn)


def _answer(turn: Turn, happening: Happening) -> Command:
    """Handle a happening. Return the next command."""
    match happening:
        case Started():
            return _start(turn)
        case Resumed():
            return _resume(turn, happening)
        case ActionEnded():
            return _ended(turn, happening)
        case Admitted() | Queued() | Denied():
            return _admission(turn, happening)
        case Judged():
            return _route(turn, happening.judgement, by_condition=True)
        case WaitOver():
            return _after_wait(turn)
        case StopAsked():
            return _stopped(turn, happening.signal)
        case SnapshotTaken() | SnapshotCut() | PathsRestored() | StoreFailed():
            return _after_snapshot(turn, happening)
        case LeftoversEnded():
            return _end(turn, happening)
        case _:
            assert_never(happening)


def _end(turn: Turn, ended: LeftoversEnded) -> Command:
    """Record the end and finish, unless another snapshot is needed because processes had to be
    ended."""
    note_leftovers(turn, ended)
    if (look := after_leftovers(turn, ended)) is not None:
        return look
    note_end(turn, ended)
    return Finish(ended.ending)


def _start(turn: Turn) -> Command:
    """Record the start of the run, and move to its initial state."""
    run = turn.run
    trees = run.trees
    evidence = None if trees is None else trees.off or "on"
    turn.note(
        LoopStart(run.loop, turn.loop.initial, run.scope, FORMAT, run.limits, evidence, run.metered)
    )
    return _arrive(turn)


# ── arriving in a state ────────────────────────────────────────────────────────────────────────


def _arrive(turn: Turn) -> Command:
    """Enter the next state, unless a limit or a wait comes first."""
    move = turn.run.move
    assert move is not None, "a moving run is headed somewhere"
    if is_used_up(turn.loop, turn.run, move):
        if may_judge(turn.loop, turn.run, move):
            return _enter(turn, at_limit=True)
        return _out_of_iterations(turn)
    if is_new_iteration(turn.loop, turn.run, move):
        _count_iteration(turn, waits_itself=move.retry)
    if turn.run.wait is not None:
        return wait_for(turn.loop, turn.run, turn.at)
    return _enter(turn)


def _count_iteration(turn: Turn, *, waits_itself: bool) -> None:
    """Record a new iteration, with the loop's backoff; a retry (`waits_itself`) has its own wait
    instead."""
    wait_ms = 0 if waits_itself else max(to_ms(turn.loop.backoff), _requested_wait_ms(turn.run))
    turn.note(Iteration(turn.run.iteration + 1, wait_ms))
    if waits_itself:
        _note_retry_wait(turn)


def _requested_wait_ms(run: LoopState) -> int:
    """Return how long the last action asked the next iteration to wait."""
    left = run.captured.get(run.current_state)
    return 0 if left is None else left.wait_ms


def _note_retry_wait(turn: Turn) -> None:
    run = turn.run
    if wait_ms := retry_wait_ms(turn.loop, turn.state, run.retries):
        turn.note(RetryWait(run.current_state, run.attempt + 1, wait_ms))


def _enter(turn: Turn, *, at_limit: bool = False) -> Command:
    """Enter the state that the run is moving to, unless a limit or a missing proof prevents it."""
    run, move = turn.run, turn.run.move
    assert move is not None, "a moving run is headed somewhere"
    if (ending := exceeded(turn.loop, run, turn.at, move.target)) is not None:
        return _end_at_limit(turn, ending, move.target)
    if (due := before_success(turn)) is not None:
        return _recheck_before_success(turn, due)
    step = run.step if move.retry else run.step + 1
    turn.note(StateEnter(move.target, run.iteration, step, move.reason, at_limit))
    return _act(turn)


def _recheck_before_success(turn: Turn, due: Command | Judgement | Rerun) -> Command:
    """Rerun checks that have not passed on the current tree before a success state is entered."""
    if isinstance(due, Rerun):
        if (ending := exceeded(turn.loop, turn.run, turn.at, due.state)) is not None:
            return _end_at_limit(turn, ending, due.state)
        note_rerun(turn, due)
        return _act(turn)
    return _route(turn, due) if isinstance(due, Judgement) else due


def _out_of_iterations(turn: Turn) -> Command:
    allowed = iterations_allowed(turn.loop, turn.run)
    where = f"still in `{turn.run.current_state}`"
    return EndLeftovers(endings.failed("max_iterations", f"{_iterations_text(allowed)}, {where}"))


def _iterations_text(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"


def _end_at_limit(turn: Turn, ending: Ending, next_state: str) -> Command:
    """End the run at a limit. The loop's timeout runs `on_timeout` first, once; `next_state` is
    where a resume continues."""
    if turn.run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    if ending.reason == "loop_timeout":
        return _time_is_up(turn, next_state)
    return EndLeftovers(ending)


# ── acting ─────────────────────────────────────────────────────────────────────────────────────


def _act(turn: Turn, admitted: Admitted | None = None) -> Command:
    """Return the command for the current state: its action, which is recorded as started, its
    decision, or the end.

    What must come first is returned instead: a rerun, a snapshot, or the request for an agent to
    start unless it is `admitted`.
    """
    state = turn.state
    if (unproved := in_success(turn)) is not None:
        return _recheck_before_success(turn, unproved)
    if state.action is None:
        if state.terminal:
            return end_in_terminal(turn) or _arrive(turn)
        return _judge_or_ask(turn, judge_source(state, turn.run))
    if admitted is None and (request := admission_due(turn)) is not None:
        return request
    if (first := before_action(turn)) is not None:
        return first
    try:
        due = action_due(turn.loop, turn.run, turn.at)
    except Unresolved as problem:
        return _cannot_act(turn, _why_missing(turn.run, problem))
    except TemplateError as problem:
        return _cannot_act(turn, str(problem))
    command = limited(due.command, admitted)
    turn.note(
        ActionStart(
            due.shown,
            turn.run.current_state,
            command.job.attempt,
            type_of(due.action),
            state.terminal,
            due.session_id,
            state.label,
            **check_fields(turn),
        )
    )
    return command


def _admission(turn: Turn, answer: Admitted | Queued | Denied) -> Command:
    """Start an agent's turn, or wait until it may start, or pause."""
    match answer:
        case Admitted():
            return _act(turn, answer)
        case Queued():
            return queue(turn, answer)
        case Denied():
            return deny(turn, answer)
        case _:
            assert_never(answer)


def _why_missing(run: LoopState, problem: Unresolved) -> str:
    """Return why a value is missing; usually the state that should provide it has not run."""
    match problem.name.split("."):
        case ["captured", result, *_] if result not in run.captured:
            return f"`{problem.name}` has no value yet, because `{result}` has no result"
        case _:
            return str(problem)


def _cannot_act(turn: Turn, why: str) -> Command:
    """Handle an action that cannot be started: continue as with an error, and record why."""
    warning = RunWarning(f"state `{turn.run.current_state}`: {why}", turn.run.current_state)
    if turn.state.terminal:
        turn.note(warning)
        return end_in_terminal(turn) or _arrive(turn)
    if find_transition(turn.loop, turn.run, ERROR) is not None:
        turn.note(warning)  # the run continues elsewhere, and no other event would say why
    return _route(turn, Judgement(ERROR, why))


# ── what the end of an action means ────────────────────────────────────────────────────────────


def _ended(turn: Turn, ended: ActionEnded) -> Command:
    """Record the end of an action, and decide what follows; if a stop ended it, the run is
    interrupted."""
    if ended.stop is not None:
        note_cut(turn, ended.result)
        return EndLeftovers(endings.interrupted(ended.stop))
    note_ended(turn, ended)
    return _settle(turn)


def _settle(turn: Turn) -> Command:
    """Decide what the end of an action means: stop, timeout, signal line, host or condition, in
    this order."""
    if (first := after_action(turn)) is not None:
        return first
    run, result = turn.run, turn.result
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    if turn.state.terminal:
        warn_of_failure(turn)
        return end_in_terminal(turn) or _arrive(turn)
    if result.cut_by == "loop":
        return _time_is_up(turn, run.current_state)
    if (found := found_verdict(turn)) is not None:
        return _route(turn, found)
    if (
        result.cut_by == "none"
        and run.signal_line is not None
        and run.signal_line.type in ENGINE_SIGNALS
    ):
        return _handle_signal_line(turn)
    if result.agent in ("auth", "billing"):
        return EndLeftovers(endings.failed(result.agent, result.reason or result.agent))
    if result.agent == "wait":
        return _wait_for_host(turn, result)
    return _judge_or_ask(turn, judge_action(turn.state, run, turn.loop.idle_timeout))


def _handle_signal_line(turn: Turn) -> Command:
    """Hand off, stop, or continue as with an error, as the action's signal line requires."""
    line = turn.run.signal_line
    assert line is not None, "there is a signal line to obey"
    if line.type == "handoff":
        return hand_off(turn, line.payload) or _act(turn)
    if line.type == "stop":
        return EndLeftovers(endings.STOPPED._replace(message=line.payload))
    return _route(turn, Judgement(ERROR, line.payload or "the action printed FATAL_ERROR"))


def _judge_or_ask(turn: Turn, judged: Judgement | Judge) -> Command:
    """Route a verdict, or return the command to judge what only the engine can judge."""
    if isinstance(judged, Judge):
        return judged
    condition_spoke = judged.verdict != TIMEOUT and turn.run.phase in ("judging", "entered")
    return _route(turn, judged, by_condition=condition_spoke)


def _wait_for_host(turn: Turn, result: Result) -> Command:
    """Wait for a usage limit or an overloaded service; not an iteration, but bounded."""
    host = turn.loop.host.under(turn.state.host)
    wait = host_wait(turn.run, host, result, turn.at)
    if wait.too_long:
        return _route(turn, Judgement(ERROR, f"{wait.reason}; longer than `max_wait`"))
    here, until_wall_ms = turn.run.current_state, turn.at.wall_ms + wait.wait_ms
    turn.note(HostWait(here, wait.reason, until_wall_ms, wait.wait_ms, wait.least_ms))
    return wait_for(turn.loop, turn.run, turn.at)


# ── routing ────────────────────────────────────────────────────────────────────────────────────


def _route(turn: Turn, judgement: Judgement, *, by_condition: bool = False) -> Command:
    """Take the transition of the verdict, or end the run if there is none."""
    condition = effective_condition(turn.state)
    if by_condition and condition is not None:
        judgement = with_source(turn.state, judgement)
        note_evaluated(turn, condition, judgement)
    if turn.run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    decided = verdict_after_rules(turn, judgement)
    if isinstance(decided, Rerun):
        return _recheck_before_success(turn, decided)
    return _follow(turn, decided, judgement)


def _follow(turn: Turn, judgement: Judgement, judged: Judgement) -> Command:
    """Take the transition of a verdict, or end the run if there is none; `judged` is the verdict
    before the rules of evidence were applied."""
    if (headed := headed_for(turn, judgement)) is not None:
        return _take(turn, Transition(headed.target, headed.reason), passed=headed.passed)
    transition = find_transition(turn.loop, turn.run, judgement.verdict)
    if transition is None and judgement.verdict == STALLED:
        return end_stalled(turn, judgement, judged)
    if transition is None:
        return EndLeftovers(no_transition(turn.loop, turn.run, judgement))
    if (end := disproved(turn, judgement, transition)) is not None:
        return end
    if has_passed(turn.run, judgement.verdict):
        return _take(turn, path_to_check(turn.loop, turn.run, transition), passed=True)
    return _take(turn, transition)


def _take(turn: Turn, transition: Transition, *, passed: bool = False) -> Command:
    """Record a transition and move to its target; `passed` marks the pass of a check at the
    iteration limit."""
    here = turn.run.current_state
    again = transition.target == CURRENT
    to = here if again else transition.target
    if not again:
        end_of_step(turn)
    turn.note(TransitionTaken(here, to, transition.reason, again, passed=passed))
    return _arrive(turn)


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


def _after_wait(turn: Turn) -> Command:
    """Continue after a wait; entering and acting check the loop's timeout."""
    run = turn.run
    if run.phase == "moving":
        return _enter(turn)
    assert run.wait is not None, "a wait that is over was one"
    if (ending := exceeded(turn.loop, run, turn.at, run.current_state)) is not None:
        return _end_at_limit(turn, ending, run.current_state)
    if run.wait.kind == "handoff":
        return after_handoff(turn) or _act(turn)
    return _act(turn)


# ── looking at the tree ────────────────────────────────────────────────────────────────────────


def _after_snapshot(turn: Turn, seen: Look) -> Command:
    """Continue where the run stopped to take a snapshot."""
    ending = note_tree_result(turn, seen)
    return _back_to_step(turn) if ending is None else EndLeftovers(ending)


def _back_to_step(turn: Turn) -> Command:
    """Continue the step after a snapshot, where its phase shows that it stopped."""
    run = turn.run
    if run.phase == "judging":
        return _settle(turn)
    if run.phase == "moving" and run.move is not None:
        return _enter(turn, at_limit=is_used_up(turn.loop, run, run.move))
    return _act(turn)


# ── time and stop ──────────────────────────────────────────────────────────────────────────────


def _time_is_up(turn: Turn, next_state: str) -> Command:
    """Run the loop's `on_timeout` state once; its transitions are not taken."""
    handler = turn.loop.on_timeout
    if handler is None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    here = turn.run.current_state
    end_of_step(turn)
    turn.note(TransitionTaken(here, handler, "on_timeout", loop_timeout=next_state))
    return _enter(turn)


def _stopped(turn: Turn, signal: int) -> Command:
    if turn.run.phase == "running":
        note_not_begun(turn)
    return EndLeftovers(endings.interrupted(signal))


# ── resuming ───────────────────────────────────────────────────────────────────────────────────


def _resume(turn: Turn, resumed: Resumed) -> Command:
    """Record the resume with all that belongs to it (an answer, notes, a lost action, its cost),
    and continue at the requested state, or else where the run stopped."""
    before = turn.run
    gate = _answered_gate(turn, resumed)
    target = _resume_target(turn, resumed, gate)
    note_resume(turn, resumed, target)
    _receive_notes(turn)
    if before.phase == "running":
        note_lost(turn)
    note_debt(turn, resumed)
    if target is not None:
        return _take(turn, target)
    if gate is not None and gate.rejection is not None:
        return EndLeftovers(gate.rejection)
    if before.timed_out_in is not None:
        return _resume_timed_out(turn, before)
    return _continue_run(turn)


def _answered_gate(turn: Turn, resumed: Resumed) -> AfterGate | None:
    """Record the answer if the run waits at a gate, and return what it leads to."""
    run = turn.run
    if run.gate is None and not endings.is_gate(run.status, run.reason):
        return None
    from little_loops.fsm.gates import pass_gate  # few runs have gates

    return pass_gate(turn, resumed)


def _resume_target(turn: Turn, resumed: Resumed, gate: AfterGate | None) -> Transition | None:
    """Return the transition to the requested state, of this resume or of an interrupted earlier
    one; None to continue where the run stopped."""
    run = turn.run
    if resumed.from_state is not None:
        return Transition(resumed.from_state, "resume")
    transition = None if gate is None else gate.transition
    # A later `resume --from` overrides the answer, also if it was interrupted.
    if run.resume_to is None or (transition is not None and transition.target == run.resume_to):
        return transition
    return Transition(run.resume_to, "resume")


def _resume_timed_out(turn: Turn, before: LoopState) -> Command:
    """Continue where the run was going if there is more time, else finish the `on_timeout`
    state."""
    assert before.timed_out_in is not None, "the loop's time was up"
    if time_left_ms(turn.loop, turn.run, turn.at) != 0:
        return _take(turn, Transition(before.timed_out_in, "resume"))
    return _continue_run(turn)


def _continue_run(turn: Turn) -> Command:
    """Continue from any phase: every prefix of a log is a valid place to resume."""
    run = turn.run
    match run.phase:
        case "running" | "interrupted":
            return _after_interrupt(turn)
        case "entered":
            return _act_if_allowed(turn) if run.wait is None else wait_for(turn.loop, run, turn.at)
        case "judging":
            return _settle(turn)
        case "judged":
            assert run.judgement is not None, "a judged run has its judgement"
            return _route(turn, run.judgement)
        case "moving":
            _record_missing_wait(turn)
            return _arrive(turn) if run.timed_out_in is None else _enter(turn)
        case "ended":
            # Only a crash between the final event and archiving leaves a run here.
            return end_in_terminal(turn) or _arrive(turn)
        case _:
            assert_never(run.phase)


def _record_missing_wait(turn: Turn) -> None:
    """Record the wait that belongs to a transition, if a crash came between the two."""
    run, move = turn.run, turn.run.move
    if move is None or run.wait is not None:
        return
    if move.reason == MAINTAIN:
        note_cycle(turn)
    elif move.retry and move.target not in run.visited:
        _note_retry_wait(turn)


def _act_if_allowed(turn: Turn) -> Command:
    """Act, unless a limit was already reached; a resume does not reset limits."""
    ending = exceeded(turn.loop, turn.run, turn.at, turn.run.current_state)
    return _act(turn) if ending is None else EndLeftovers(ending)


def _after_interrupt(turn: Turn) -> Command:
    """Continue after an interrupted action as `on_interrupt` says: run it again, treat it as an
    error, or move to a state."""
    request = turn.state.on_interrupt or turn.loop.on_interrupt
    if request == CURRENT:
        return _act_if_allowed(turn)
    if request == AS_ERROR or turn.run.timed_out_in is not None:
        return _route(turn, Judgement(ERROR, "the action was interrupted"))
    return _take(turn, Transition(request, "on_interrupt"))
