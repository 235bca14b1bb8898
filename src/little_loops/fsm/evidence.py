"""The rules of evidence: what snapshots of the tree around actions say about a pass.

Every rule is one function that decides from tree ids and lists of paths. `machine` applies them in
the order of a step: before an action, after it, to a check's verdict, before a success state, and
before the end.

Not here: snapshots, restoring and copies (`trees`), when the rules apply (`tree_steps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from little_loops.fsm.actions import Action, action_of, is_agents, is_shells
from little_loops.fsm.happenings import PathChange
from little_loops.fsm.path_text import listed_paths, path_text
from little_loops.fsm.schema import (
    ERROR,
    FAIL,
    FLAKY,
    PASS,
    PROGRESS,
    STALL,
    STALLED,
    TARGET,
    Evidence,
    FSMLoop,
    Place,
    StateConfig,
    Tampering,
    acting_states,
    child_loops,
    inner_steps,
    keeper_of,
    loops_started_by,
    outcome_of,
    own_worktree,
    starts_runs,
    worktree_of,
)
from little_loops.fsm.state import (
    CheckRecord,
    Finding,
    Judgement,
    LandedCommits,
    LoopState,
    Move,
    NotPassed,
    Trees,
)
from little_loops.fsm.values import author_context
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved

PASSED = (PASS, TARGET)
NOT_PASSED = (FAIL, PROGRESS, STALL)
"""Verdicts that tell something about a tree; errors and timeouts do not."""
DEFAULT_STALL_AFTER = {"goal": 3, "invariants": 3, "convergence": 3}
"""The default of `stall_after` by paradigm; 0 for the others."""
MAX_UNSETTLED = 3
MAX_RESTORES = 3
MAX_PATHS = 20
REPORT: Tampering = "report"


# ── what a loop asks for ───────────────────────────────────────────────────────────────────────


def wants_evidence(loop: FSMLoop) -> bool:
    """Return whether a loop asks for evidence: as `enabled` says; if it is not set, with any other
    setting of `evidence`, an agent action, or a loop that it starts and that asks for it."""
    if loop.evidence.enabled is not None:
        return loop.evidence.enabled
    if loop.evidence != Evidence() or has_agent(loop) or keeper_of(loop) is not None:
        return True
    return any(wants_evidence(child) for child in child_loops(loop))


def turned_off(loop: FSMLoop) -> str | None:
    """Return `off` if a loop does not ask for evidence although agents work in it, else None."""
    return "off" if loop.evidence.enabled is False and has_agent(loop) else None


def needs_evidence(loop: FSMLoop) -> bool:
    """Return whether a loop has settings that mean nothing without evidence."""
    return loop.evidence != Evidence() or loop.scope_writes == "enforce"


def has_agent(loop: FSMLoop) -> bool:
    """Return whether an agent runs an action of this loop, or of one that it starts, or judges."""
    return any(runs_agent(state, loop.context) for _, state in acting_states(loop))


def starts_agents(state: StateConfig, context: Mapping[str, Any]) -> bool:
    """Return whether an agent works in one of the runs that a state starts."""
    inner = inner_steps(state).values()
    return any(runs_agent(each, context) for each in (state, *inner))


def has_agents_in_tree(state: StateConfig, context: Mapping[str, Any]) -> bool:
    """Return whether an agent works where the run itself does, in one of the runs that a state
    starts; those in worktrees do not."""
    if worktree_of(state) is not None:
        return False
    if state.loop is not None:
        loop = state.loop
        return any(has_agents_in_tree(each, loop.context) for _, each in acting_states(loop))
    inner = inner_steps(state).values()
    if inner:
        return any(has_agents_in_tree(each, context) for each in inner)
    return runs_agent(state, context)


def runs_agent(state: StateConfig, context: Mapping[str, Any]) -> bool:
    """Return whether an agent runs the action of a state, or one of the loop that it starts, or
    judges it."""
    if state.judge is not None:
        return True
    if state.loop is not None:
        return has_agent(state.loop)
    return is_agents(_action(state, context))


def tampering_of(evidence: Evidence) -> Tampering:
    if evidence.tampering is not None:
        return evidence.tampering
    return "report" if evidence.protect is None else "restore"


def stall_after(loop: FSMLoop, run: LoopState) -> int:
    """Return after how many agent actions without progress a run is stalled; 0 means never. The
    run's limit comes first, then the loop's, then the default of the paradigm."""
    given = run.limits.stall_after
    if given is None:
        given = loop.evidence.stall_after
    return DEFAULT_STALL_AFTER.get(loop.paradigm, 0) if given is None else given


# ── what is known ──────────────────────────────────────────────────────────────────────────────


def trees_of(run: LoopState) -> Trees | None:
    """Return what the run knows of its tree, or None if it keeps no evidence."""
    trees = run.trees
    return trees if trees is not None and trees.off is None else None


def is_shell_check(loop: FSMLoop, run: LoopState, name: str) -> bool:
    return loop.states[name].check and is_shells(_action(loop.states[name], run.context))


def is_observed(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether snapshots are taken around the action of the current state."""
    state = loop.states[run.current_state]
    if starts_runs(state):
        asked = any(wants_evidence(child) for child in loops_started_by(state))
        return asked or starts_agents(state, run.context)
    keeps = run.trees is not None and run.trees.best is not None and not state.terminal
    return state.check or keeps or is_agent(loop, run)


def has_unmeasured_change(run: LoopState) -> bool:
    """Return whether an action may have changed the best tree since it was measured."""
    trees = trees_of(run)
    best = None if trees is None else trees.best
    return best is not None and best.changing and best.tree is not None


def is_best_moved(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether the files are not the best tree although no action of the run has changed
    them; the current state must be about to change them."""
    trees, state = trees_of(run), loop.states[run.current_state]
    best = None if trees is None else trees.best
    if trees is None or best is None or best.tree is None or state.check or state.terminal:
        return False
    return not best.changing and trees.tree != best.tree


def is_agent(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether an agent runs the action of the current state, in this run itself."""
    state = loop.states[run.current_state]
    return not starts_runs(state) and is_agents(_action(state, run.context))


def _action(state: StateConfig, context: Mapping[str, Any]) -> Action | None:
    """Return the action of a state, or None if it has none or an invalid one."""
    if state.action is None:
        return None
    try:
        return action_of(state, author_context(context, state))
    # The action is invalid, which is reported when it is due to run.
    except (TemplateError, Unresolved):
        return None


def leads_to_success(loop: FSMLoop, run: LoopState, move: Move) -> bool:
    """Return whether a move ends the run in a success state; never after the loop's timeout."""
    state = loop.states[move.target]
    return (
        state.terminal
        and run.timed_out_in is None
        and outcome_of(move.target, state, move.reason) == "success"
    )


# ── rule 1: protected paths ────────────────────────────────────────────────────────────────────


def forbidden(evidence: Evidence, changes: Sequence[PathChange]) -> tuple[str, ...]:
    """Return the changed protected paths that an agent may not change; with `existing_only`, it may
    add files."""
    return tuple(
        each.path for each in changes if each.kind != "added" or not evidence.existing_only
    )


def is_tampering(evidence: Evidence, trees: Trees, guard: str, when: str) -> bool:
    """Return whether protected paths were changed without permission: nobody with permission acted,
    there is no finding yet, and `guard`, the hash of the paths, is new. After an action, an older
    change counts too, unless changes are only reported."""
    if trees.blame is None or trees.finding is not None:
        return False
    must_not_last = when == "after" and tampering_of(evidence) != "report"
    return guard != trees.guard or must_not_last


def tampered_finding(tampering: str, by: str, paths: Sequence[str], count: int) -> Finding | None:
    """Return the finding if `tampering` is `fail`, else None. `by` is `agent` or `check`; `paths`
    are the first of `count` changed ones."""
    if tampering != "fail":
        return None
    changed = listed_paths(paths, count)
    if by == "agent":
        return Finding("tampered", f"the agent changed {changed}")
    if by == "apart":
        return Finding("tampered", f"{changed} changed while agents worked in worktrees")
    exempt = f"if the check writes there itself, add `!/{path_text(paths[0])}` to `protect`"
    return Finding("tampered", f"{changed} changed while the check ran; {exempt}")


# ── rule 2: changes outside the scope ──────────────────────────────────────────────────────────


def scope_finding(scope_writes: str, paths: Sequence[str], count: int) -> Finding | None:
    """Return the finding if `scope_writes` is `enforce`, else None; `paths` are the first of `count`
    changed ones."""
    if scope_writes != "enforce":
        return None
    return Finding(
        "out_of_scope", f"the agent changed {listed_paths(paths, count)}, outside the scope"
    )


def is_out_of_scope(loop: FSMLoop, trees: Trees) -> bool:
    """Return whether an agent changed files outside the scope since the last snapshot, and the loop
    cares."""
    return loop.scope_writes != "ignore" and trees.blame == "agent" and trees.finding is None


def watches_original(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether the next snapshot includes the project that the run's worktree comes from:
    agents have worked since the last one, or are about to."""
    if own_worktree(loop) is None or loop.scope_writes == "ignore":
        return False
    trees, state = trees_of(run), loop.states[run.current_state]
    if trees is not None and trees.blame in ("agent", "apart"):
        return True
    return starts_agents(state, run.context) if starts_runs(state) else is_agent(loop, run)


def landed_commits(run: LoopState, trees: Trees) -> LandedCommits | None:
    """Return what was or may have been merged from worktrees since the last snapshot."""
    train = run.train
    if train is None or train.tip == train.head:
        return trees.landed
    return LandedCommits(train.head, train.tip)


class Attributed(NamedTuple):
    """Paths that were changed against a rule: protected, watched, or outside the scope."""

    protected: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


def one_report_each(loop: FSMLoop, found: Attributed) -> Attributed:
    """Report a path that breaks two rules only under the one that undoes the change.

    An enforced scope applies to all paths outside it, even if another rule restores them.
    """
    if loop.scope_writes != "enforce":
        return found._replace(outside=without(found.outside, found.protected + found.watched))
    only_reported = tampering_of(loop.evidence) == REPORT
    protected = without(found.protected, found.outside if only_reported else ())
    return found._replace(protected=protected, watched=without(found.watched, found.outside))


def without(paths: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    hidden = frozenset(others)
    return tuple(path for path in paths if path not in hidden)


# ── rule 3: a pass is bound to a tree ──────────────────────────────────────────────────────────


class Rerun(NamedTuple):
    """A check has to run again before its pass counts; `passes` of the `needed` ones are there."""

    state: str
    place: Place
    why: str
    passes: int = 0
    needed: int = 1


def recheck_due(loop: FSMLoop, run: LoopState, trees: Trees) -> Rerun | None:
    """Return the first check whose pass is not for the current tree, or not confirmed in a clean
    copy; None if all passes count."""
    needed = loop.evidence.confirm
    for name in loop.states:
        record = trees.checks.get(name)
        if record is None or record.verdict not in PASSED or not is_shell_check(loop, run, name):
            continue
        if loop.evidence.clean:
            if record.clean != trees.tree:
                passes = record.passes if needed > 1 and record.before == trees.tree else 0
                return Rerun(name, "clean", "to confirm its pass in a clean copy", passes, needed)
        elif record.after != trees.tree:
            return Rerun(name, "here", "the tree has changed since it passed", 0, needed)
    return None


def never_settles(trees: Trees) -> Judgement | None:
    """Return an error if the tree keeps changing while the checks run, else None."""
    if trees.unsettled < MAX_UNSETTLED:
        return None
    reason = (
        f"the tree changed {MAX_UNSETTLED} times while the checks ran, so their passes don't count"
    )
    return Judgement(ERROR, f"{reason}; add the files that the checks write to .gitignore")


def latest_agent_pass(loop: FSMLoop, run: LoopState, trees: Trees) -> CheckRecord | None:
    """Return the last pass of an agent's check, or of runs with checks that a state started: these
    are never repeated. None if there is none, or if a shell check is confirmed in a clean copy
    instead."""
    passed = {
        name: record
        for name, record in trees.checks.items()
        if record.verdict in PASSED and _can_prove(loop.states[name])
    }
    by_shell = {name for name in passed if is_shell_check(loop, run, name)}
    if by_shell and loop.evidence.clean:
        return None
    found = [record for name, record in passed.items() if name not in by_shell]
    return max(found, key=lambda record: (record.step, record.attempt), default=None)


def _can_prove(state: StateConfig) -> bool:
    return state.check or any(map(_has_check, loops_started_by(state)))


def has_shell_pass(loop: FSMLoop, run: LoopState, trees: Trees) -> bool:
    """Return whether a shell check passed, on this tree or an earlier one."""
    checks = [name for name in trees.checks if is_shell_check(loop, run, name)]
    return any(trees.checks[name].verdict in PASSED for name in checks)


def no_check_passed(loop: FSMLoop, run: LoopState, trees: Trees) -> bool:
    """Return whether shell checks ran and none of them passed, as after `resume --from done`."""
    checks = [name for name in trees.checks if is_shell_check(loop, run, name)]
    return bool(checks) and not has_shell_pass(loop, run, trees)


def merged_with_others(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether the run's branch was merged with commits that it did not begin with, and no
    check has judged the result."""
    train = run.train
    if train is None or run.workspace is None or loop.worktree is None or not train.merged:
        return False
    return train.head != run.workspace.base and loop.worktree.check is None


def is_stale(loop: FSMLoop, run: LoopState, trees: Trees) -> bool:
    """Return whether the tree has changed since its last check passed.

    Shell checks are repeated before a run enters a success state, but not after the action of that
    state.
    """
    return trees.stale > 0 or recheck_due(loop, run, trees) is not None


def why_runs_prove_nothing(run: LoopState, state: StateConfig) -> str | None:
    """Return why a pass of the runs that a state started does not count: their checks may have
    passed on protected files that were changed, and that were restored when they had ended. None if
    it counts."""
    trees = trees_of(run)
    if trees is None or not trees.restores or not any(map(_has_check, loops_started_by(state))):
        return None
    paths = listed_paths(trees.restored, len(trees.restored))
    return f"its checks ran on changed files that have been restored since: {paths}"


def _has_check(loop: FSMLoop) -> bool:
    return any(map(_can_prove, loop.states.values()))


# ── rules 5 and 6: flaky and stalled checks ────────────────────────────────────────────────────


def apply_check_rules(loop: FSMLoop, run: LoopState, judgement: Judgement) -> Judgement | Rerun:
    """Return the verdict of the current shell check, given its earlier results on this tree, or the
    check to rerun. Its latest result must be recorded."""
    trees, name = trees_of(run), run.current_state
    assert trees is not None, "check rules apply only to a run with evidence turned on"
    record = trees.checks[name]
    if trees.place == "clean":
        return _weigh_clean(judgement)
    if judgement.verdict in PASSED:
        return _weigh_pass(loop, trees, record, name, judgement)
    if judgement.verdict in NOT_PASSED:
        return _weigh_failure(loop, run, trees, record, judgement)
    return judgement


def _weigh_clean(judgement: Judgement) -> Judgement:
    """Return the verdict of a check in a clean copy. If it is not a pass, the reason says so, and a
    stall becomes progress."""
    if judgement.verdict in PASSED:
        return judgement
    where = "fails" if judgement.verdict in NOT_PASSED else "cannot be judged"
    # A number that does not improve in the copy is not a stall: no turn has worked on it yet.
    verdict = PROGRESS if judgement.verdict == STALL else judgement.verdict
    return Judgement(verdict, f"passes here, {where} in a clean copy ({judgement.reason})")


def _weigh_pass(
    loop: FSMLoop, trees: Trees, record: CheckRecord, name: str, judgement: Judgement
) -> Judgement | Rerun:
    """Accept a pass, or ask for a rerun to confirm it, or call the check flaky."""
    confirm, failed = loop.evidence.confirm, failure_on(trees, record)
    if failed is not None and confirm > 1:
        return Judgement(FLAKY, _flaky_reason(record, failed))
    needed = max(confirm, 2 if failed is not None else 1)
    if record.passes >= needed:
        return judgement
    if failed is None:
        why = f"pass {record.passes} of {needed}"
    else:
        why = f"it failed on the same tree in iteration {failed.iteration}"
    return Rerun(name, "here", why, record.passes, needed)


def _weigh_failure(
    loop: FSMLoop, run: LoopState, trees: Trees, record: CheckRecord, judgement: Judgement
) -> Judgement:
    """Accept a failure, or call the check flaky, or the run stalled."""
    failed = record.not_passed[-1]
    if loop.evidence.confirm > 1 and record.passes:
        return Judgement(FLAKY, _flaky_reason(record, failed))
    limit = stall_after(loop, run)
    if not limit or trees.stalls < limit:
        return judgement
    earlier = [each for each in record.not_passed[:-1] if _is_same(each, failed)]
    if len({each.tree for each in record.not_passed[-limit - 1 :]}) == 1:
        return Judgement(STALLED, f"{trees.stalls} attempts in a row changed nothing")
    return Judgement(STALLED, f"the tree is the same as in iteration {earlier[-1].iteration}")


def failure_on(trees: Trees, record: CheckRecord) -> NotPassed | None:
    """Return the latest failure of this check, with the same action, on the tree that it just ran
    on; None if there is none."""
    same = [
        each for each in record.not_passed if each.tree == record.before and each.text == trees.text
    ]
    return same[-1] if same else None


def stalls_after(trees: Trees, earlier: Sequence[NotPassed], failed: NotPassed) -> int:
    """Return how many agent actions in a row left a tree on which the check had failed before;
    unchanged if no agent has acted since the last check."""
    if not trees.agent_acted:
        return trees.stalls
    return trees.stalls + 1 if any(_is_same(each, failed) for each in earlier) else 0


def _is_same(one: NotPassed, other: NotPassed) -> bool:
    return (one.tree, one.text, one.exit_code) == (other.tree, other.text, other.exit_code)


def _flaky_reason(record: CheckRecord, failed: NotPassed) -> str:
    return f"it both passed and failed on the same tree ({failed.tree[:7]})"
