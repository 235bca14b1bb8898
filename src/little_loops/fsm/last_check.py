"""What was done gets judged: at the limit of its iterations a run may still enter a check.

It is entered once more and not counted.  If it passes, what it leads to may be entered too as long
as that only judges or ends; anything else ends the run at its limit.
"""

from __future__ import annotations

from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.schema import CURRENT, PASS, TARGET, FSMLoop, Transition, transitions
from little_loops.fsm.state import LoopState, Move


def is_used_up(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """No iteration is left for where the run is headed."""
    needs_one = run.at_limit or is_new_iteration(loop, run, move)
    return needs_one and run.iteration >= iterations_allowed(loop, run)


def is_new_iteration(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """The run comes to a state again; to a terminal one only if it was cut there."""
    return move.target in run.visited and not loop.states[move.target].terminal


def may_judge(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    target = loop.states[move.target]
    if run.at_limit:
        return move.passed and (target.check or target.terminal or target.action is None)
    return target.check and run.prev_state != move.target  # else nothing was done since it ran


def has_passed(run: LoopState, verdict: str) -> bool:
    """A check was run once more, and it passed."""
    return run.at_limit and verdict in (PASS, TARGET)


def path_to_check(loop: FSMLoop, run: LoopState, transition: Transition) -> Transition:
    """Where a result that is kept for a later state is judged: straight there, no step between."""
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
