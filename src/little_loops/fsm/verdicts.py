"""What the end of an action means: a judgement, or a request for one.

Simple conditions are judged in place. A pattern, a jq path, a template or an output in a file
leaves as a `Judge` command, because those need files, the environment or a time limit.

Not here: judging itself (`conditions`), the transition for a verdict (`machine`).
"""

from __future__ import annotations

from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.commands import Judge
from little_loops.fsm.conditions import Observation, failed_to_run, judge, needs_bound
from little_loops.fsm.schema import (
    CONFLICT,
    ERROR,
    FAIL,
    PASS,
    TIMEOUT,
    All,
    AnyOf,
    Condition,
    Convergence,
    ExitCode,
    FSMLoop,
    Not,
    StateConfig,
    VerdictWords,
    effective_condition,
    starts_runs,
    transitions,
)
from little_loops.fsm.state import COST_LIMIT_REACHED, Judgement, LoopState, Metric, Result
from little_loops.fsm.values import seconds_text


def judge_action(
    state: StateConfig, run: LoopState, idle_s: float | None = None
) -> Judgement | Judge:
    """Return the verdict on the action that just ended in `state`, or the command to judge it;
    `idle_s` is the loop's `idle_timeout`."""
    result = run.captured[run.current_state]
    if result.cut_by == "action":
        return Judgement(TIMEOUT, f"timed out after {state.timeout or 0:g} s")
    if result.cut_by == "silence":
        return Judgement(TIMEOUT, f"silent for {seconds_text(state.idle_timeout or idle_s or 0)}")
    if result.failure is not None:
        return Judgement(ERROR, result.failure)
    if starts_runs(state):
        return _judge_runs(state, run, result)
    if result.agent is not None:
        return _judge_agent(state, run, result)
    return _judge_shell(state, run, result)


def _judge_runs(state: StateConfig, run: LoopState, result: Result) -> Judgement | Judge:
    """Judge the runs that a state started: by their join, or by the condition of the state."""
    condition = effective_condition(state)
    if condition is not None and result.verdict != CONFLICT:
        return _judge_or_request(condition, run, run.current_state)
    return Judgement(result.verdict or ERROR, result.reason or "")


def judge_source(state: StateConfig, run: LoopState) -> Judgement | Judge:
    """Return the verdict of a decision state, which has a condition and no action, or the command
    to judge it."""
    condition = effective_condition(state)
    assert condition is not None, "a state without an action has a condition"
    return _judge_or_request(condition, run, None)


def judged_later(loop: FSMLoop, run: LoopState) -> Judgement | None:
    """Return the verdict that a later state will give on the exit code of the current action, which
    has just ended; None if no state does, or by something else than the exit code."""
    name = run.current_state
    conditions = (state.condition for state in loop.states.values())
    later = next(
        (each for each in conditions if isinstance(each, ExitCode) and each.source == name), None
    )
    if later is None or not loop.states[name].capture_exit or name not in run.captured:
        return None
    return judge(later, _observation(run.captured[name]))


def asks_verdict(state: StateConfig) -> tuple[str, ...] | None:
    """Return the words that an agent has to choose from, or None if its exit alone decides."""
    condition = effective_condition(state)
    if isinstance(condition, VerdictWords):
        return condition.words
    if condition is not None or state.terminal:
        return None
    return (PASS, FAIL) if state.capture_exit or not ignores_failure(state) else None


def ignores_failure(state: StateConfig) -> bool:
    """Return whether pass and fail lead to the same state."""
    table = transitions(state)
    passed, failed = table.get(PASS), table.get(FAIL)
    return passed is not None and failed is not None and passed.target == failed.target


def _judge_shell(state: StateConfig, run: LoopState, result: Result) -> Judgement | Judge:
    """Judge a shell command by its condition, or without one by its exit code. With `capture_exit`
    and no condition, it passes unless it failed to run."""
    condition = effective_condition(state)
    if condition is None and not state.capture_exit:
        return judge(ExitCode(), _observation(result))
    if not isinstance(condition, ExitCode) and (broken := failed_to_run(_observation(result))):
        return broken
    if condition is None:
        return Judgement(PASS, f"exit {result.exit_code}, judged later")
    is_last = bool(run.samples) and len(run.samples) + 1 >= state.repeat
    return _judge_or_request(condition, run, run.current_state, is_last=is_last)


def _judge_agent(state: StateConfig, run: LoopState, result: Result) -> Judgement | Judge:
    """Judge an agent's turn by its result, then by the state's condition, else by the verdict it
    gave. A failed turn that the transitions would ignore is an error."""
    reason = result.reason or ""
    condition = effective_condition(state)
    if result.agent == "error":
        return Judgement(ERROR, reason)
    if result.agent == "fail":
        alone = condition is None and not state.capture_exit and ignores_failure(state)
        alone = alone and result.kind != COST_LIMIT_REACHED  # the next state sees what is left
        return Judgement(ERROR if alone else FAIL, reason)
    if condition is not None:
        return _judge_or_request(condition, run, run.current_state)
    if state.capture_exit or asks_verdict(state) is None:
        return Judgement(PASS, reason)
    return Judgement(result.verdict or ERROR, reason)


def _judge_or_request(
    condition: Condition, run: LoopState, of: str | None, *, is_last: bool = False
) -> Judgement | Judge:
    """Judge a condition on the result of the state `of`, or return the command to judge it if that
    needs templates, a time limit or a file. `is_last`: the earlier samples count too."""
    memory, source = _memory(condition, run), condition.source
    if source is not None and source in run.captured:
        of = source  # the bare name of a state or capture
    elif source is not None:
        return Judge(condition, None, memory)
    samples = tuple(sample.value for sample in run.samples) if is_last else ()
    result = run.captured.get(of) if of is not None else None
    if result is None or result.output is None or not _plain(condition):
        return Judge(condition, of, memory, samples)
    return judge(condition, _observation(result)._replace(samples=samples), memory)


def _memory(condition: Condition, run: LoopState) -> Metric | None:
    """Return what a convergence condition remembers: the best tree, or the best number so far."""
    if isinstance(condition, Convergence) and condition.keep is not None:
        from little_loops.fsm.best import memory_of  # few loops keep the best

        return memory_of(run.trees)
    return run.metrics.get(run.current_state)


def with_source(state: StateConfig, judgement: Judgement) -> Judgement:
    """Add the source of the judged result to the error of a decision state; other judgements stay
    the same."""
    condition = state.condition
    if judgement.verdict != ERROR or state.action is not None or condition is None:
        return judgement
    looked_at = f"the condition reads `{condition.source}`; set `source` to judge another result"
    return judgement._replace(reason=f"{judgement.reason} ({looked_at})")


def _observation(result: Result) -> Observation:
    output = without_colours(result.output or "")
    return Observation(result.exit_code, result.signal, output, verdict=result.verdict)


def _plain(condition: Condition) -> bool:
    """Return whether the condition has no template, and no pattern or path that could take
    forever."""
    match condition:
        case All() | AnyOf():
            return all(_plain(each) and each.source is None for each in condition.of)
        case Not():
            return _plain(condition.of) and condition.of.source is None
        case _:
            own = condition._replace(source=None)
            return not needs_bound(own) and not any(
                isinstance(field, str) and "${" in field for field in own
            )
