"""What the verdict of a check leads to, given the trees it ran on.

Not here: the rules themselves (`evidence`), taking snapshots (`tree_steps`).
"""

from __future__ import annotations

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
    why_runs_prove_nothing,
)
from little_loops.fsm.routing import find_transition
from little_loops.fsm.schema import CURRENT, FAIL, PASS, STALLED, Place, Transition
from little_loops.fsm.state import CheckRecord, Judgement, Move
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.verdicts import judged_later
from little_loops.light_typing import Any


def check_fields(builder: StepBuilder) -> dict[str, Any]:
    """Return the fields of `ActionStart` that only runs with evidence have: where the action runs,
    and whether it is a check. Empty without evidence."""
    trees = trees_of(builder.run)
    return {} if trees is None else {"place": trees.place, "is_check": builder.state.check}


def verdict_after_rules(builder: StepBuilder, judgement: Judgement) -> Judgement | Rerun:
    """Record the result of a check. Return its verdict under the rules of evidence, or the check to
    rerun first.

    The verdict stays the same without evidence, and for anything but a shell check.
    """
    if trees_of(builder.run) is None or builder.run.ruling is not None:
        return judgement  # the judge was asked because the rules are met
    later = judged_later(builder.loop, builder.run) if builder.state.check else None
    known = judgement if later is None or judgement.verdict != PASS else later
    _note_check(builder, known)
    run = builder.run
    if run.phase != "judged" or not _is_judged_check(builder):
        return judgement
    decided = apply_check_rules(builder.loop, run, known)
    if isinstance(decided, Judgement) and decided.verdict in PASSED:
        _warn_of_flaky(builder)
    if decided == known:
        return judgement
    return decided


def verdict_of_runs(builder: StepBuilder, judgement: Judgement) -> Judgement:
    """Return the verdict of the runs that the current state started: not a pass if it rests on
    protected files that were restored since; a warning says so."""
    if judgement.verdict not in PASSED:
        return judgement
    why = why_runs_prove_nothing(builder.run, builder.state)
    if why is None:
        return judgement
    builder.note(RunWarning(f"the pass of `{builder.run.current_state}` does not count: {why}"))
    return Judgement(FAIL, why)


def _note_check(builder: StepBuilder, judgement: Judgement) -> None:
    """Record the result of a check, once per attempt; do nothing for other states."""
    run, trees = builder.run, trees_of(builder.run)
    assert trees is not None, "only a run with evidence has checks"
    if not builder.state.check or run.phase not in ("judging", "judged"):
        return
    name, old = run.current_state, trees.checks.get(run.current_state)
    if old is not None and (old.step, old.attempt) == (run.step, run.attempt):
        return
    before, after = trees.before or "", trees.tree or ""
    # What the check itself has written since its last run, in the same step, is no other tree.
    is_same = old is not None and (
        old.before == before or (old.step == run.step and old.after == before)
    )
    passes = _passes(old if is_same else None, judgement.verdict, trees.place)
    builder.note(
        CheckResult(name, judgement.verdict, judgement.reason, before, after, trees.place, passes)
    )


def _passes(old: CheckRecord | None, verdict: str, place: Place) -> int:
    """Return the number of consecutive passes on this tree, where `old` is the run before, if there
    was one; a failure keeps them for comparison."""
    earlier = 0 if old is None else old.passes
    if place == "clean" or verdict not in PASSED:
        return earlier
    return earlier + 1 if old is not None and old.verdict in PASSED else 1


def _is_judged_check(builder: StepBuilder) -> bool:
    """Return whether the current state is a shell check whose result was recorded in this attempt, and
    is judged by its own exit code, here or in a later state (`capture_exit`)."""
    run, trees = builder.run, trees_of(builder.run)
    assert trees is not None, "only a run with evidence has checks"
    record = trees.checks.get(run.current_state)
    is_this_one = record is not None and (record.step, record.attempt) == (run.step, run.attempt)
    is_known = not builder.state.capture_exit or judged_later(builder.loop, run) is not None
    return is_this_one and is_known and is_shell_check(builder.loop, run, run.current_state)


def _warn_of_flaky(builder: StepBuilder) -> None:
    """Record a warning if the check, which passes now, has failed on the same tree; not in a clean
    copy."""
    trees = trees_of(builder.run)
    assert trees is not None, "only a run with evidence has checks"
    name = builder.run.current_state
    failed = failure_on(trees, trees.checks[name])
    if failed is not None and trees.place == "here":
        message = (
            f"`{name}` failed in iteration {failed.iteration} and passes now, on the same tree"
        )
        builder.note(RunWarning(message, name))


def note_rerun(builder: StepBuilder, rerun: Rerun) -> None:
    builder.note(Recheck(*rerun))


def headed_for(builder: StepBuilder, judgement: Judgement) -> Move | None:
    """Return where the run was going before a check was rerun; None if the check has not passed, or
    this is not a rerun."""
    trees = trees_of(builder.run)
    if trees is None or judgement.verdict not in PASSED or builder.state.capture_exit:
        return None
    return trees.headed


def disproved(
    builder: StepBuilder, judgement: Judgement, transition: Transition
) -> EndLeftovers | None:
    """Return the ending if a rerun check did not pass and only `next` applies, which would ignore
    that; else None."""
    trees = trees_of(builder.run)
    if trees is None or trees.headed is None or builder.state.capture_exit:
        return None
    if transition.reason != "next":
        return None
    message = f"`{builder.run.current_state}` no longer passes: {judgement.reason}"
    return EndLeftovers(endings.failed("stale_evidence", message))


def end_stalled(builder: StepBuilder, judgement: Judgement, judged: Judgement) -> EndLeftovers:
    """Record the transition of the verdict `judged`, from which a resume continues, and return the
    ending `stalled`."""
    transition, here = (
        find_transition(builder.loop, builder.run, judged.verdict),
        builder.run.current_state,
    )
    assert transition is not None, "the check has failed before, and the failure had a transition"
    to = here if transition.target == CURRENT else transition.target
    builder.note(TransitionTaken(here, to, transition.reason, transition.target == CURRENT))
    return EndLeftovers(endings.failed(STALLED, judgement.reason))
