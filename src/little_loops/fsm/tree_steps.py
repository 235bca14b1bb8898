"""What has to be done about the tree at each point of a step.

A function here gives the command that comes first, or None: then the step goes on.  Each looks at
the run alone, so a resume that finds half of it done does the rest.

Not here: the rules themselves (`evidence`), what a look has shown (`record_trees`), what a check's
verdict comes to (`check_steps`), doing any of it (`engine.evidence`).
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
from little_loops.fsm.evidence import (
    REPORT,
    Rerun,
    is_observed,
    known,
    latest_agent_pass,
    leads_to_success,
    never_settles,
    recheck_due,
    tampering_of,
)
from little_loops.fsm.happenings import LeftoversEnded
from little_loops.fsm.path_text import listed
from little_loops.fsm.schema import TAMPERED
from little_loops.fsm.state import Judgement, LoopState, Move, Trees, When
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


def found_verdict(turn: Turn) -> Judgement | None:
    """The verdict that the rules give an action, whatever it says itself."""
    trees = known(turn.run)
    return None if trees is None or trees.finding is None else Judgement(*trees.finding)


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
