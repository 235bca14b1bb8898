"""What the verdict of a check leads to, given the trees it ran on.

Not here: the rules themselves (`evidence`), taking snapshots (`tree_steps`).
"""

from __future__ import annotations

from typing import Any

from little_loops.fsm import endings
from little_loops.fsm.commands import EndLeftovers
from little_loops.fsm.events import CheckResult, Recheck, RunWarning, TransitionTaken
from little_loops.fsm.evidence import (
    PASSED,
    Rerun,
    apply_check_rules,
    failure_on,
    is_shell_check,
    trees_of,
)
from little_loops.fsm.routing import find_transition
from little_loops.fsm.schema import CURRENT, STALLED, Place, Transition
from little_loops.fsm.state import CheckRecord, Judgement, Move
from little_loops.fsm.turn import Turn


def check_fields(turn: Turn) -> dict[str, Any]:
    """Return the fields of `ActionStart` that only runs with evidence have: where the action runs,
    and whether it is a check. Empty without evidence."""
    trees = trees_of(turn.run)
    return {} if trees is None else {"place": trees.place, "is_check": turn.state.check}


def verdict_after_rules(turn: Turn, judgement: Judgement) -> Judgement | Rerun:
    """Record the result of a check. Return its verdict under the rules of evidence, or the check to
    rerun first.

    The verdict stays the same without evidence, and for anything but a shell check that is judged
    by its own result.
    """
    _note_check(turn, judgement)
    run = turn.run
    if trees_of(run) is None or run.phase != "judged" or not _has_verdict(turn):
        return judgement
    decided = apply_check_rules(turn.loop, run, judgement)
    if isinstance(decided, Judgement) and decided.verdict in PASSED:
        _warn_of_flaky(turn)
    return decided


def _note_check(turn: Turn, judgement: Judgement) -> None:
    """Record the result of a check, once per attempt; do nothing for other states or without
    evidence."""
    run, trees = turn.run, trees_of(turn.run)
    if trees is None or not turn.state.check or run.phase not in ("judging", "judged"):
        return
    name, old = run.current_state, trees.checks.get(run.current_state)
    if old is not None and (old.step, old.attempt) == (run.step, run.attempt):
        return
    before, after = trees.before or "", trees.tree or ""
    passes = _passes(old, before, judgement.verdict, trees.place)
    turn.note(
        CheckResult(name, judgement.verdict, judgement.reason, before, after, trees.place, passes)
    )


def _passes(old: CheckRecord | None, before: str, verdict: str, place: Place) -> int:
    """Return the number of consecutive passes on this tree; a failure keeps them for comparison."""
    earlier = old.passes if old is not None and old.before == before else 0
    if place == "clean" or verdict not in PASSED:
        return earlier
    return earlier + 1 if old is not None and old.verdict in PASSED else 1


def _has_verdict(turn: Turn) -> bool:
    """Return whether this is a shell check that is judged by its own result, in this attempt."""
    run, trees = turn.run, trees_of(turn.run)
    assert trees is not None, "only a run with evidence has checks"
    record = trees.checks.get(run.current_state)
    is_this_one = record is not None and (record.step, record.attempt) == (run.step, run.attempt)
    return (
        is_this_one
        and not turn.state.capture_exit
        and is_shell_check(turn.loop, run, run.current_state)
    )


def _warn_of_flaky(turn: Turn) -> None:
    """Record a warning if the check, which passes now, has failed on the same tree; not in a clean
    copy."""
    trees = trees_of(turn.run)
    assert trees is not None, "only a run with evidence has checks"
    name = turn.run.current_state
    failed = failure_on(trees, trees.checks[name])
    if failed is not None and trees.place == "here":
        message = (
            f"`{name}` failed in iteration {failed.iteration} and passes now, on the same tree"
        )
        turn.note(RunWarning(message, name))


def note_rerun(turn: Turn, rerun: Rerun) -> None:
    turn.note(Recheck(rerun.state, rerun.place, rerun.why))


def headed_for(turn: Turn, judgement: Judgement) -> Move | None:
    """Return where the run was going before a check was rerun; None if the check has not passed, or
    this is not a rerun."""
    trees = trees_of(turn.run)
    if trees is None or judgement.verdict not in PASSED or turn.state.capture_exit:
        return None
    return trees.headed


def disproved(turn: Turn, judgement: Judgement, transition: Transition) -> EndLeftovers | None:
    """Return the ending if a rerun check did not pass and only `next` applies, which would ignore
    that; else None."""
    trees = trees_of(turn.run)
    if trees is None or trees.headed is None or turn.state.capture_exit:
        return None
    if transition.reason != "next":
        return None
    message = f"`{turn.run.current_state}` no longer passes: {judgement.reason}"
    return EndLeftovers(endings.failed("stale_evidence", message))


def end_stalled(turn: Turn, judgement: Judgement, judged: Judgement) -> EndLeftovers:
    """Record the transition of the verdict `judged`, from which a resume continues, and return the
    ending `stalled`."""
    transition, here = find_transition(turn.loop, turn.run, judged.verdict), turn.run.current_state
    assert transition is not None, "the check has failed before, and that led somewhere"
    to = here if transition.target == CURRENT else transition.target
    turn.note(TransitionTaken(here, to, transition.reason, transition.target == CURRENT))
    return EndLeftovers(endings.failed(STALLED, judgement.reason))
