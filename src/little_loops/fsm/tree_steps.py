"""What has to be done about the tree at each point of a step.

A function here gives the command that comes first, or None: then the step goes on.  Each looks at
the run alone, so a resume that finds half of it done does the rest.

Not here: the rules themselves (`evidence`), doing any of it (`engine.evidence`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import (
    CleanCopy,
    Ending,
    EndLeftovers,
    PutBack,
    RestoreProtected,
    TakeSnapshot,
    TreeCommand,
)
from little_loops.fsm.events import (
    CheckResult,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Restored,
    RunWarning,
    Tampered,
    Tree,
    TreeUnread,
)
from little_loops.fsm.evidence import (
    MAX_PATHS,
    MAX_RESTORES,
    PASSED,
    REPORT,
    Attributed,
    Rerun,
    failure_on,
    forbidden,
    is_observed,
    is_out_of_scope,
    is_shell_check,
    is_tampering,
    known,
    latest_agent_pass,
    leads_to_success,
    never_settles,
    one_report_each,
    recheck_due,
    tampering_of,
    weigh,
)
from little_loops.fsm.happenings import LeftoversEnded, PathsRestored, SnapshotCut, SnapshotTaken
from little_loops.fsm.path_text import listed
from little_loops.fsm.schema import TAMPERED, Place
from little_loops.fsm.state import CheckRecord, Judgement, LoopState, Move, Trees, When
from little_loops.fsm.turn import Turn

WITHOUT_TREE = ("storage",)
"""Endings for which the tree cannot be looked at any more."""


# ── the points of a step ───────────────────────────────────────────────────────────────────────


def before_action(turn: Turn) -> TreeCommand | EndLeftovers | None:
    trees = known(turn.run)
    if trees is None or not is_observed(turn.loop, turn.run):
        return None
    if (unfinished := _to_put_back(turn, trees)) is not None:
        return unfinished
    is_fresh = trees.snapshot == "before" or (trees.place == "clean" and trees.snapshot is not None)
    if not is_fresh:
        return _snapshot(turn, trees, "before")
    if trees.finding is not None:  # of an action that was cut: there is no verdict to route
        return EndLeftovers(endings.failed(trees.finding.verdict, trees.finding.reason))
    return None


def after_action(turn: Turn) -> TreeCommand | None:
    trees = known(turn.run)
    if trees is None or not is_observed(turn.loop, turn.run):
        return None
    if (unfinished := _to_put_back(turn, trees)) is not None:
        return unfinished
    return (
        None if trees.snapshot == "after" else _snapshot(turn, trees, "after", late=turn.run.late)
    )


def before_success(turn: Turn) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    """What has to be known before the run enters a success state."""
    return None if turn.run.move is None else _proof_for(turn, turn.run.move)


def in_success(turn: Turn) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    """The same in a success state: nothing, unless the run was cut there and is resumed."""
    trees = known(turn.run)
    if trees is not None and trees.snapshot == "before":  # proved: its own action is next
        return None
    return _proof_for(turn, Move(turn.run.current_state, turn.run.entered_by or ""))


def _proof_for(turn: Turn, move: Move) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    trees = known(turn.run)
    if trees is None or not leads_to_success(turn.loop, turn.run, move):
        return None
    if trees.project is None:  # neither an agent nor a check has run
        return None
    if (unfinished := _to_put_back(turn, trees)) is not None:
        return unfinished
    if trees.snapshot != "end":
        return _snapshot(turn, trees, "end")
    if trees.finding is not None:
        return Judgement(*trees.finding)
    return _committed(turn, trees) or never_settles(trees) or _unproved(turn, trees)


def _unproved(turn: Turn, trees: Trees) -> EndLeftovers | Rerun | None:
    rerun = recheck_due(turn.loop, turn.run, trees)
    if rerun is None and trees.stale and turn.loop.evidence.strict:
        files = "1 file has" if trees.stale == 1 else f"{trees.stale} files have"
        return EndLeftovers(
            endings.failed("stale_evidence", f"{files} changed since the last check passed")
        )
    return rerun


def _committed(turn: Turn, trees: Trees) -> Judgement | None:
    """No rule moves a commit; one that still holds what was put back is named."""
    if not trees.committed or tampering_of(turn.loop.evidence) != "fail":
        return None
    return Judgement(TAMPERED, f"a commit changes {listed(trees.committed, len(trees.committed))}")


def before_end(turn: Turn, ending: Ending) -> TreeCommand | EndLeftovers:
    """The last look at the tree; what an agent did to protected paths does not outlive the run."""
    trees = known(turn.run)
    if trees is None or trees.project is None or ending.reason in WITHOUT_TREE:
        return EndLeftovers(ending)
    if (unfinished := _to_put_back(turn, trees, ending)) is not None:
        return unfinished
    if trees.snapshot not in ("end", "last"):
        return _snapshot(turn, trees, "end", ending=ending)
    if trees.finding is not None and ending.status == "completed":
        ending = endings.failed(trees.finding.verdict, trees.finding.reason)
    return EndLeftovers(ending)


def after_leftovers(turn: Turn, ended: LeftoversEnded) -> TakeSnapshot | None:
    """One more look where processes were ended: a dying one may have changed what was proved."""
    trees = known(turn.run)
    if trees is None or trees.snapshot != "end" or not ended.names:
        return None
    return _snapshot(turn, trees, "last", ending=ended.ending)


def true_ending(taken: SnapshotTaken) -> Ending | None:
    """The ending that the look was taken for; no success if the tree has changed since the last."""
    if taken.when != "last" or taken.ending is None or taken.ending.status != "completed":
        return taken.ending
    if not taken.changed.files:
        return taken.ending
    paths = listed(taken.changed.paths, taken.changed.files)
    message = f"{paths} changed after the last check passed, while leftover processes were ended"
    return endings.failed("stale_evidence", message)


def _to_put_back(turn: Turn, trees: Trees, ending: Ending | None = None) -> TreeCommand | None:
    if trees.restore and trees.reference is not None:
        return RestoreProtected(trees.reference, turn.loop.evidence.existing_only, ending)
    if trees.put_back is not None:
        only_reported = tampering_of(turn.loop.evidence) == REPORT
        return PutBack(trees.put_back, None if only_reported else trees.reference, ending)
    return None


def _snapshot(
    turn: Turn, trees: Trees, when: When, *, ending: Ending | None = None, late: bool = False
) -> TakeSnapshot:
    run = turn.run
    return TakeSnapshot(
        run.current_state,
        run.step,
        run.attempt + (when == "before"),
        when,
        trees.project,
        trees.reference,
        _to_compare(turn, trees) if when in ("end", "last") else (),
        ending,
        late,
    )


def _to_compare(turn: Turn, trees: Trees) -> tuple[str, ...]:
    """The project at the start, and the one that the latest agent's check has passed."""
    passed = latest_agent_pass(turn.loop, turn.run, trees)
    given = (trees.first, passed.project if passed is not None else None)
    return tuple(project for project in given if project is not None)


def copy_for(loop_setup: str | None, run: LoopState) -> CleanCopy | None:
    """The clean copy that the action of the current state runs in; None: in the project."""
    trees = known(run)
    if trees is None or trees.place == "here":
        return None
    assert trees.project is not None, "a clean copy is of a stored project"
    assert trees.reference is not None, "a stored project has its protected paths stored too"
    return CleanCopy(trees.project, trees.reference, loop_setup, trees.writes)


# ── writing down ───────────────────────────────────────────────────────────────────────────────


def note_snapshot(turn: Turn, taken: SnapshotTaken) -> None:
    """What was found first, then the tree itself: a log cut between them is looked at again."""
    run, trees = turn.run, known(turn.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    for warning in taken.warnings:
        turn.note(RunWarning(warning, run.current_state))
    if trees.blame is None:
        _note_reference(turn, trees, taken)
    else:
        _note_changes(turn, trees, taken, taken.watched, taken.outside)
    turn.note(
        Tree(
            run.current_state,
            run.step,
            run.attempt + (taken.when == "before"),
            taken.when,
            taken.tree,
            taken.project,
            taken.guard,
            taken.changed,
            taken.compared,
            taken.committed,
            taken.late,
        )
    )


def note_cut_snapshot(turn: Turn, cut: SnapshotCut) -> None:
    """Protected paths are judged as ever, if they could be read."""
    trees = known(turn.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    if cut.guard is not None and trees.blame is None:
        _note_reference(turn, trees, cut)
    elif cut.guard is not None:
        _note_changes(turn, trees, cut)
    turn.note(TreeUnread(turn.run.current_state, cut.when, cut.guard))


def _note_reference(turn: Turn, trees: Trees, taken: SnapshotTaken | SnapshotCut) -> None:
    """Somebody has changed protected paths who may."""
    if taken.tampered and taken.guard != trees.guard:
        paths = tuple(each.path for each in taken.tampered)
        turn.note(ReferenceMoved(len(paths), paths[:MAX_PATHS], trees.moved_by or "unknown"))


def _note_changes(
    turn: Turn,
    trees: Trees,
    taken: SnapshotTaken | SnapshotCut,
    watched: tuple[str, ...] = (),
    outside: tuple[str, ...] = (),
) -> None:
    evidence, here = turn.loop.evidence, turn.run.current_state
    by = trees.blame or "agent"
    is_tampered = is_tampering(evidence, trees, taken.guard or "", taken.when)
    found = one_report_each(
        turn.loop,
        Attributed(
            forbidden(evidence, taken.tampered) if is_tampered else (),
            watched if by == "agent" else (),
            outside if is_out_of_scope(turn.loop, trees) else (),
        ),
    )
    tampering = tampering_of(evidence)
    if tampering == "restore" and trees.restores >= MAX_RESTORES:
        tampering = "fail"  # somebody changes them as fast as they are put back
    for paths, then in ((found.watched, REPORT), (found.protected, tampering)):
        if paths:
            turn.note(Tampered(here, len(paths), paths[:MAX_PATHS], then, by))
    if paths := found.outside:
        turn.note(OutOfScope(here, len(paths), paths[:MAX_PATHS], turn.loop.scope_writes))


def note_restored(turn: Turn, restored: PathsRestored) -> None:
    turn.note(
        Restored(
            turn.run.current_state,
            len(restored.paths),
            restored.paths[:MAX_PATHS],
            restored.of,
            restored.failed[:MAX_PATHS],
        )
    )


def note_check(turn: Turn, judgement: Judgement) -> None:
    """Write down what a check has shown, once per attempt."""
    run, trees = turn.run, known(turn.run)
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
    """Passes in a row on this tree; a failure leaves them to be compared with."""
    earlier = old.passes if old is not None and old.before == before else 0
    if place == "clean" or verdict not in PASSED:
        return earlier
    return earlier + 1 if old is not None and old.verdict in PASSED else 1


def weighed(turn: Turn, judgement: Judgement) -> Judgement | Rerun:
    """The verdict of the state's action, after the rules about checks."""
    run = turn.run
    if known(run) is None or run.phase != "judged" or not _has_verdict(turn):
        return judgement
    decided = weigh(turn.loop, run, judgement)
    if isinstance(decided, Judgement) and decided.verdict in PASSED:
        _warn_of_flaky(turn)
    return decided


def _has_verdict(turn: Turn) -> bool:
    """A shell check that is judged by its own result, in this attempt."""
    run, trees = turn.run, known(turn.run)
    assert trees is not None, "only a run with evidence has checks"
    record = trees.checks.get(run.current_state)
    is_this_one = record is not None and (record.step, record.attempt) == (run.step, run.attempt)
    return (
        is_this_one
        and not turn.state.capture_exit
        and is_shell_check(turn.loop, run, run.current_state)
    )


def _warn_of_flaky(turn: Turn) -> None:
    trees = known(turn.run)
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
