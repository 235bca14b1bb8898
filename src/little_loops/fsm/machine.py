"""Decide what a loop does next.

`advance` is the only function that moves a run from state to state.  It runs nothing and waits
for nothing: results and the time arrive inside a happening, work leaves as a command.

A run goes round: `arrive` (limits, waits) → `act` (its action leaves as a command) → `settle`
(what its end means) → `route` (the way the verdict takes) → `arrive` …, until `end`.

Not here: judging output (`verdicts`, `conditions`), adding events up (`evolve`), saving anything
(`persistence`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never

from little_loops.fsm import endings
from little_loops.fsm.actions_due import action_due
from little_loops.fsm.commands import Command, Ending, EndLeftovers, Finish, Judge, Wait
from little_loops.fsm.events import Event
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    Resumed,
    Started,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.interpolation import TemplateError, Unresolved
from little_loops.fsm.limits import exceeded, iterations_allowed, time_left_ms
from little_loops.fsm.routing import find_way
from little_loops.fsm.schema import (
    AS_ERROR,
    CURRENT,
    ERROR,
    PASS,
    TIMEOUT,
    TYPE_OF,
    FSMLoop,
    Way,
    effective_condition,
    outcome_of,
)
from little_loops.fsm.state import Judgement, LoopState, Result, result_to_dict
from little_loops.fsm.turn import Turn
from little_loops.fsm.verdicts import judge_action, judge_source
from little_loops.fsm.waits import host_wait, retry_wait_ms, spacing_ms, to_ms

OBEYED = ("handoff", "error", "stop")
"""Signals with an effect; one of a user's own patterns is noted and changes nothing."""


class Step(NamedTuple):
    run: LoopState
    events: tuple[Event, ...]
    command: Command


def advance(loop: FSMLoop, run: LoopState, happening: Happening) -> Step:
    turn = Turn(loop, run, happening.at)
    command = _answer(turn, happening)
    return Step(turn.run, tuple(turn.events), command)


def _answer(turn: Turn, happening: Happening) -> Command:
    match happening:
        case Started():
            return _start(turn)
        case Resumed():
            return _resume(turn, happening)
        case ActionEnded():
            return _ended(turn, happening)
        case Judged():
            return _route(turn, happening.judgement, by_condition=True)
        case WaitOver():
            return _waited(turn)
        case StopAsked():
            return _stopped(turn, happening.signal)
        case LeftoversEnded():
            return _finish(turn, happening)
        case _:
            assert_never(happening)


def _start(turn: Turn) -> Command:
    run = turn.run
    given = {name: value for name, value in run.limits._asdict().items() if value is not None}
    turn.note(
        "loop_start",
        loop=run.loop,
        initial=turn.loop.initial,
        scope=list(run.scope),
        **({"limits": given} if given else {}),
    )
    return _arrive(turn)


# ── arriving in a state ────────────────────────────────────────────────────────────────────────


def _arrive(turn: Turn) -> Command:
    """Go where the run is headed, unless a limit or a wait stands before it."""
    move = turn.run.move
    assert move is not None, "a moving run is headed somewhere"
    if move.target in turn.run.visited:
        if turn.run.iteration >= iterations_allowed(turn.loop, turn.run):
            return _out_of_iterations(turn)
        _count_iteration(turn, waits_itself=move.retry)
    if turn.run.wait is not None:
        return _wait(turn)
    return _enter(turn)


def _count_iteration(turn: Turn, *, waits_itself: bool) -> None:
    run, loop = turn.run, turn.loop
    pause = {"wait_ms": to_ms(loop.backoff)} if loop.backoff and not waits_itself else {}
    turn.note("iteration", iteration=run.iteration + 1, **pause)
    if waits_itself and (wait_ms := retry_wait_ms(loop, turn.state, run.retries)):
        turn.note("retry_wait", state=run.current_state, attempt=run.attempt + 1, wait_ms=wait_ms)


def _enter(turn: Turn) -> Command:
    run, move = turn.run, turn.run.move
    assert move is not None, "a moving run is headed somewhere"
    target = turn.loop.states[move.target]
    limited = target.action is not None and run.timed_out_in is None
    if limited and (ending := exceeded(turn.loop, run, turn.at)) is not None:
        return _out_of(turn, ending, move.target)
    turn.note(
        "state_enter",
        state=move.target,
        iteration=run.iteration,
        step=run.step if move.retry else run.step + 1,
        reason=move.reason,
    )
    return _act(turn)


def _out_of_iterations(turn: Turn) -> Command:
    allowed = iterations_allowed(turn.loop, turn.run)
    where = f"still in `{turn.run.current_state}`"
    return EndLeftovers(endings.limit("max_iterations", f"{_times(allowed)}, {where}"))


def _times(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"


def _out_of(turn: Turn, ending: Ending, next_state: str) -> Command:
    if ending.reason == "loop_timeout":
        return _time_is_up(turn, next_state)
    return EndLeftovers(ending)


# ── acting ─────────────────────────────────────────────────────────────────────────────────────


def _act(turn: Turn) -> Command:
    """Do what the state is there for: its action, its decision, or the end."""
    state = turn.state
    if state.action is None:
        if state.terminal:
            return _end_in_terminal(turn)
        return _judge_or_ask(turn, judge_source(state, turn.run))
    try:
        due = action_due(turn.loop, turn.run, turn.at)
    except (Unresolved, TemplateError) as problem:
        return _cannot_act(turn, str(problem))
    turn.note(
        "action_start",
        action=due.shown,
        state=turn.run.current_state,
        attempt=due.command.attempt,
        action_type=due.command.kind,
        **({"terminal": True} if state.terminal else {}),
        **({"session_id": due.command.session_id} if due.command.session_id else {}),
    )
    return due.command


def _cannot_act(turn: Turn, why: str) -> Command:
    message = f"state `{turn.run.current_state}`: {why}"
    if turn.state.terminal:
        turn.note("warning", message=message, state=turn.run.current_state)
        return _end_in_terminal(turn)
    return _route(turn, Judgement(ERROR, message))


# ── what the end of an action means ────────────────────────────────────────────────────────────


def _ended(turn: Turn, ended: ActionEnded) -> Command:
    result = ended.result
    if ended.stop is not None:
        return _cut_by_stop(turn, result, ended.stop)
    line = {"signal_line": ended.signal_line._asdict()} if ended.signal_line else {}
    capture = {"capture": turn.state.capture} if turn.state.capture else {}
    turn.note(
        "action_complete",
        state=turn.run.current_state,
        **result_to_dict(result),
        **line,
        **capture,
    )
    _note_cost(turn, result)
    if ended.signal_line is not None:
        turn.note("signal", state=turn.run.current_state, **ended.signal_line._asdict())
    return _settle(turn)


def _note_cost(turn: Turn, result: Result) -> None:
    if result.tokens or result.cost_usd:
        turn.note(
            "cost",
            state=turn.run.current_state,
            tokens=result.tokens,
            cost_usd=result.cost_usd or 0.0,
            turns=result.turns or 0,
        )


def _settle(turn: Turn) -> Command:
    """Stop, timeout, signal line, host, condition: the first that speaks decides."""
    run, result = turn.run, turn.result
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    if turn.state.terminal:
        return _end_after_action(turn, result)
    if result.cut_by == "loop":
        return _time_is_up(turn, run.current_state)
    if result.cut_by == "none" and run.signal_line is not None and run.signal_line.type in OBEYED:
        return _obey(turn)
    if result.agent in ("auth", "billing"):
        return EndLeftovers(endings.failed(result.agent, result.reason or result.agent))
    if result.agent == "wait":
        return _wait_for_host(turn, result)
    return _judge_or_ask(turn, judge_action(turn.state, run))


def _obey(turn: Turn) -> Command:
    line = turn.run.signal_line
    assert line is not None, "there is a signal line to obey"
    if line.type == "handoff":
        return _hand_off(turn, line.payload)
    if line.type == "stop":
        return EndLeftovers(endings.STOPPED._replace(message=line.payload))
    return _route(turn, Judgement(ERROR, line.payload or "FATAL_ERROR"))


def _judge_or_ask(turn: Turn, judged: Judgement | Judge) -> Command:
    if isinstance(judged, Judge):
        return judged
    condition_spoke = judged.verdict != TIMEOUT and turn.run.phase in ("judging", "entered")
    return _route(turn, judged, by_condition=condition_spoke)


def _wait_for_host(turn: Turn, result: Result) -> Command:
    """A usage limit or an overloaded service: no iteration, but not for ever."""
    host = turn.loop.host.under(turn.state.host)
    wait = host_wait(turn.run, host, result, turn.at)
    if wait.too_long:
        return _route(turn, Judgement(ERROR, f"{wait.reason}; longer than `max_wait`"))
    turn.note(
        "host_wait",
        state=turn.run.current_state,
        reason=wait.reason,
        until_wall_ms=wait.until_wall_ms,
    )
    return _wait(turn)


# ── handoff ────────────────────────────────────────────────────────────────────────────────────


def _hand_off(turn: Turn, continuation: str) -> Command:
    run, loop = turn.run, turn.loop
    if loop.on_handoff == "terminate":
        return EndLeftovers(endings.TERMINATED._replace(message="the action handed off"))
    spacing = spacing_ms(run, turn.at)
    turn.note(
        "handoff_detected",
        state=run.current_state,
        iteration=run.iteration,
        continuation=continuation,
        **({"wait_ms": spacing} if spacing else {}),
    )
    allowed = run.limits.max_continuations or loop.max_continuations
    if turn.run.continuations > allowed:
        message = f"{allowed} handoffs in a row in `{run.current_state}`"
        return EndLeftovers(endings.HANDED_OFF._replace(message=message))
    if not _goes_on_alone(turn):
        return EndLeftovers(endings.HANDED_OFF)
    return _wait(turn) if spacing else _after_handoff(turn)


def _goes_on_alone(turn: Turn) -> bool:
    """`continue`, or `spawn` for an agent: what a command printed never starts a session."""
    by_agent = turn.result.agent is not None
    return turn.loop.on_handoff == "continue" or (turn.loop.on_handoff == "spawn" and by_agent)


def _after_handoff(turn: Turn) -> Command:
    if turn.loop.on_handoff == "spawn":
        return EndLeftovers(endings.HANDED_OFF._replace(spawn=True))
    return _act(turn)


# ── routing ────────────────────────────────────────────────────────────────────────────────────


def _route(turn: Turn, judgement: Judgement, *, by_condition: bool = False) -> Command:
    """Take the way the verdict has, or end for want of one."""
    condition = effective_condition(turn.state)
    if by_condition and condition is not None:
        memory = judgement.metric._asdict() if judgement.metric else {}
        turn.note(
            "condition_eval",
            type=TYPE_OF[type(condition)],
            result=judgement.verdict,
            reason=judgement.reason,
            **memory,
        )
    way = find_way(turn.loop, turn.run, judgement.verdict)
    if way is None:
        return _no_way(turn, judgement)
    return _take(turn, way)


def _take(turn: Turn, way: Way, **more: Any) -> Command:
    here = turn.run.current_state
    again = way.target == CURRENT
    if again:
        more["retry"] = True
    turn.note(
        "transition",
        **{"from": here, "to": here if again else way.target},
        reason=way.reason,
        **more,
    )
    return _arrive(turn)


def _no_way(turn: Turn, judgement: Judgement) -> Command:
    verdict, where = judgement.verdict, turn.run.current_state
    if verdict in (ERROR, TIMEOUT):
        message = judgement.reason or verdict
        return EndLeftovers(endings.failed(verdict, message))
    message = f"state `{where}` has no way for the verdict `{verdict}` ({judgement.reason})"
    return EndLeftovers(endings.failed("no_transition", message))


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


def _wait(turn: Turn) -> Command:
    wait = turn.run.wait
    assert wait is not None, "a waiting run knows until when"
    left = time_left_ms(turn.loop, turn.run, turn.at)
    return Wait(wait, None if left is None else turn.at.ran_ms + left)


def _waited(turn: Turn) -> Command:
    """The wait is over, or the loop's time is: entering and acting check that."""
    run = turn.run
    if run.phase == "moving":
        return _enter(turn)
    assert run.wait is not None, "a wait that is over was one"
    if (ending := exceeded(turn.loop, run, turn.at)) is not None:
        return _out_of(turn, ending, run.current_state)
    return _after_handoff(turn) if run.wait.kind == "handoff" else _act(turn)


# ── time, stop, endings ────────────────────────────────────────────────────────────────────────


def _time_is_up(turn: Turn, next_state: str) -> Command:
    """The loop's `on_timeout` state runs once; its transitions are not followed."""
    handler = turn.loop.on_timeout
    if handler is None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    turn.note(
        "transition",
        **{"from": turn.run.current_state, "to": handler},
        reason="on_timeout",
        loop_timeout=next_state,
    )
    return _enter(turn)


def _cut_by_stop(turn: Turn, result: Result, signal: int) -> Command:
    kept = ("exit_code", "duration_ms", "output", "stderr", "output_file", "stderr_file", "signal")
    told = {name: item for name, item in result_to_dict(result).items() if name in kept}
    turn.note(
        "action_interrupted",
        state=turn.run.current_state,
        attempt=turn.run.attempt,
        cause="stop",
        **told,
    )
    return EndLeftovers(endings.interrupted(signal))


def _stopped(turn: Turn, signal: int) -> Command:
    if turn.run.phase == "running":  # announced, but never begun: `on_interrupt` has no say
        turn.note(
            "action_interrupted",
            state=turn.run.current_state,
            attempt=turn.run.attempt,
            cause="stop",
            started=False,
        )
    return EndLeftovers(endings.interrupted(signal))


def _end_after_action(turn: Turn, result: Result) -> Command:
    judged = judge_action(turn.state, turn.run)
    if isinstance(judged, Judgement) and judged.verdict != PASS:
        message = f"the action of `{turn.run.current_state}` failed: {judged.reason}"
        turn.note("warning", message=message, state=turn.run.current_state)
    return _end_in_terminal(turn)


def _end_in_terminal(turn: Turn) -> Command:
    run, loop, state = turn.run, turn.loop, turn.state
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    outcome = outcome_of(run.current_state, state, run.entered_by)
    if outcome == "review":
        return EndLeftovers(endings.REVIEW._replace(message=_last_said(turn)))
    if outcome == "failure":
        return EndLeftovers(endings.FAILURE_STATE._replace(message=_last_said(turn)))
    if not loop.maintain:
        return EndLeftovers(endings.COMPLETED)
    target = state.on_maintain or loop.initial
    turn.note("transition", **{"from": run.current_state, "to": target}, reason="on_maintain")
    turn.note("cycle", cycle=run.cycle + 1, wait_ms=to_ms(loop.maintain_interval))
    return _arrive(turn)


def _last_said(turn: Turn) -> str:
    """What the action of the last state had to say about it."""
    if turn.state.action is None or turn.run.prev_state != turn.run.current_state:
        return ""
    text = turn.result.output or turn.result.tail or ""
    return text.rstrip().rpartition("\n")[2].strip()


def _finish(turn: Turn, ended: LeftoversEnded) -> Command:
    if ended.names:
        names = ", ".join(ended.names)
        turn.note("warning", message=f"ended what the actions had left running: {names}")
    turn.note(ended.ending.event, **endings.last_words(turn.run, ended.ending, turn.at.ran_ms))
    return Finish(ended.ending)


# ── going on ───────────────────────────────────────────────────────────────────────────────────


def _resume(turn: Turn, resumed: Resumed) -> Command:
    before = turn.run
    _note_resume(turn, resumed)
    if resumed.from_state is not None:
        return _take(turn, Way(resumed.from_state, "resume"))
    if before.status == "needs_review":
        return _take(turn, Way(turn.state.next or turn.loop.initial, "next"))
    if before.timed_out_in is not None:
        return _take(turn, Way(before.timed_out_in, "resume"))
    return _go_on(turn)


def _go_on(turn: Turn) -> Command:
    """From wherever the run was cut; every prefix of a log is a place to go on from."""
    run = turn.run
    match run.phase:
        case "running" | "interrupted":
            return _after_interrupt(turn)
        case "entered":
            return _act(turn) if run.wait is None else _wait(turn)
        case "judging":
            return _settle(turn)
        case "judged":
            assert run.judgement is not None, "a judged run has its judgement"
            return _route(turn, run.judgement)
        case "moving":
            return _arrive(turn)
        case "ended":
            # Only a crash between the final event and the archive leaves a run here.
            return _end_in_terminal(turn)
        case _:
            assert_never(run.phase)


def _note_resume(turn: Turn, resumed: Resumed) -> None:
    run = turn.run
    again = run.status == "failed" and (run.reason in endings.REDO or _timed_out(run))
    limits = {name: item for name, item in resumed.limits._asdict().items() if item is not None}
    turn.note(
        "resume",
        state=run.current_state,
        iteration=run.iteration,
        status=run.status,
        **({"orphans": list(resumed.orphans)} if resumed.orphans else {}),
        **({"limits": limits} if limits else {}),
        **({"context": dict(resumed.context)} if resumed.context else {}),
        **({"again": True} if again else {}),
        **({"continuation": run.continuation_prompt} if run.continuation_prompt else {}),
    )


def _timed_out(run: LoopState) -> bool:
    """The loop's time ran out during an action, not on the way to one."""
    return run.reason == "loop_timeout" and run.phase == "judging"


def _after_interrupt(turn: Turn) -> Command:
    run = turn.run
    if run.phase == "running":  # nobody was left to write how it ended
        turn.note("action_interrupted", state=run.current_state, attempt=run.attempt, cause="crash")
    wish = turn.state.on_interrupt or turn.loop.on_interrupt
    if wish == CURRENT:
        return _act(turn)
    if wish == AS_ERROR:
        return _route(turn, Judgement(ERROR, "the action was interrupted"))
    return _take(turn, Way(wish, "on_interrupt"))
