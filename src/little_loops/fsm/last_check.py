"""Judge the last change: at its iteration limit, a run may still enter a check.

The check runs once more and is not counted. If it passes, the run may also enter the next state, as
long as that only judges or ends; anything else ends the run at its limit.
"""

from __future__ import annotations

from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.schema import CURRENT, PASS, TARGET, FSMLoop, Transition, transitions
from little_loops.fsm.state import LoopState, Move


def is_used_up(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """Return whether no iteration is left for the next state."""
    needs_one = run.at_limit or is_new_iteration(loop, run, move)
    return needs_one and run.iteration >= iterations_allowed(loop, run)


def is_new_iteration(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """Return whether the run returns to a visited state; a terminal state never counts."""
    return move.target in run.visited and not loop.states[move.target].terminal


def may_judge(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """Return whether the run may enter this state although its iterations are used up: a check of
    work that was done since it last ran, or, after its pass, a state that only judges or ends."""
    target = loop.states[move.target]
    if run.at_limit:
        return move.passed and (target.check or target.terminal or target.action is None)
    # Otherwise nothing was done since it last ran.
    return target.check and run.prev_state != move.target


def has_passed(run: LoopState, verdict: str) -> bool:
    """Return whether a check ran after the last iteration and passed."""
    return run.at_limit and verdict in (PASS, TARGET)


def path_to_check(loop: FSMLoop, run: LoopState, transition: Transition) -> Transition:
    """Return a transition to the state that judges a stored result, if passes lead straight to it;
    else the transition itself."""
    if not loop.states[run.current_state].capture_exit:
        return transition
    name, seen = transition.target, {run.current_state, CURRENT}
    while name not in seen:
        state, passed = loop.states[name], transitions(loop.states[name]).get(PASS)
        if state.action is None and not state.terminal:
            return transition._replace(target=name)
        if passed is None:
            break
        seen.add(name)
        name = passed.target
    return transition
