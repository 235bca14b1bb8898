"""What each event changes in what a run knows of its tree."""

from __future__ import annotations

from little_loops.fsm.actions import action_of_event, is_agents, starts_a_loop
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    CheckResult,
    ChildStart,
    Cycle,
    Event,
    Forked,
    HookRun,
    HostWait,
    JudgeComplete,
    JudgeStart,
    KeepBest,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Restored,
    Resume,
    StateEnter,
    Tampered,
    TransitionTaken,
    Tree,
    TreeUnread,
)
from little_loops.fsm.evidence import (
    MAX_PATHS,
    NOT_PASSED,
    PASSED,
    landed_commits,
    scope_finding,
    stalls_after,
    tampered_finding,
)
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import ERROR, OUT_OF_SCOPE, PASS
from little_loops.fsm.state import (
    FORK,
    Best,
    Blame,
    CheckRecord,
    Confirmation,
    Finding,
    LoopState,
    Move,
    NotPassed,
    Trees,
)
from little_loops.light_typing import assert_never

MAX_NOT_PASSED = 64
"""How many failures of one check are remembered."""
MAX_WRITES = 64
WHOLE = "."


def evolve_trees(run: LoopState, trees: Trees, event: Event) -> Trees:
    """Return the trees after an event; `run` is the run before the event."""
    match event:
        case ActionStart():
            return _action_start(trees, event)
        case ActionComplete():
            return _action_complete(run, trees)
        case ActionInterrupted(started=False) if trees.best is not None:
            best = trees.best._replace(changing=trees.best.had_change)
            return trees._replace(best=best)
        case KeepBest():
            from little_loops.fsm.best import evolve_best  # few loops keep the best

            return trees._replace(best=evolve_best(trees.best or Best(), event))
        case Tree():
            return _tree(trees, event)
        case TreeUnread():
            return _unread(trees, event)
        case Tampered() | OutOfScope() | Restored() | ReferenceMoved():
            return _apply_finding(trees, event)
        case CheckResult():
            return _check_result(run, trees, event)
        case Resume():
            return _resume(run, trees, event)
        case _:
            return _apply_movement(run, trees, event)


def _apply_movement(run: LoopState, trees: Trees, event: Event) -> Trees:
    """Apply a rerun, a transition, the entry of a state, or a wait during which the user may edit
    files; other events change nothing."""
    match event:
        case Recheck():
            headed = run.move or trees.headed
            if headed is None and event.state != run.current_state:
                # Resumed in a success state, to which the run returns.
                headed = Move(run.current_state, run.entered_by or "", passed=run.at_limit)
            return trees._replace(place=event.place, headed=headed, finding=None)
        case TransitionTaken():
            trees = _passed_runs(run, trees)
            return trees._replace(place="here", headed=None, finding=None)
        case StateEnter(state=state):
            confirmed = {name: of for name, of in trees.confirmed.items() if name != state}
            return trees._replace(unsettled=0, confirmed=confirmed)
        case JudgeStart() | JudgeComplete():
            return _judge(run, trees, event)
        case Cycle():
            trees = _expect_edits_by_user(trees) if event.wait_ms else trees
            trees = trees._replace(checks={}, stalls=0, unsettled=0, agent_acted=False)
            return trees._replace(best=None)
        case HostWait():
            return _expect_edits_by_user(trees)
        case HookRun() | ChildStart():
            return _others_begin(trees, event)
        case Forked(redefined=True):
            return trees._replace(reference=None)  # other paths may be protected now
        case _:
            return trees


def _passed_runs(run: LoopState, trees: Trees) -> Trees:
    """Remember the tree on which the runs that a state started have passed, as for an agent's
    check: it is not repeated, but becomes stale."""
    name = run.current_state
    result, known = run.captured.get(name), trees.checks.get(name)
    if result is None or result.verdict not in PASSED:
        return trees
    if known is not None and (known.step, known.attempt) == (run.step, run.attempt):
        return trees  # an agent's check
    record = CheckRecord(
        result.verdict,
        run.step,
        run.attempt,
        trees.before or "",
        trees.tree or "",
        trees.project or "",
    )
    return trees._replace(checks={**trees.checks, name: record})


def _judge(run: LoopState, trees: Trees, event: JudgeStart | JudgeComplete) -> Trees:
    """A judge may only read; what changes before its answer is recorded is blamed on it. What it
    has confirmed are the files that its check has passed on."""
    if isinstance(event, JudgeComplete) and event.verdict == PASS and run.ruling is not None:
        found = Confirmation(trees.project or "", run.ruling.question)
        trees = trees._replace(confirmed={**trees.confirmed, event.state: found})
    is_over = isinstance(event, JudgeComplete) and event.verdict not in ("lost", "unanswered")
    return trees._replace(blame=None if is_over else "agent")


def _others_begin(trees: Trees, event: HookRun | ChildStart) -> Trees:
    """Apply the run of a hook, or the start of a child: after a pause, its agents are responsible
    again."""
    if isinstance(event, HookRun):
        return _hook_run(trees, event)
    return trees._replace(blame=trees.blame or trees.started_by)


def _hook_run(trees: Trees, event: HookRun) -> Trees:
    """A hook may change protected files, like a shell action, and is named if it does.

    Changes that are not in a snapshot yet are still attributed to whoever made them. After an action, its own
    snapshot stays the latest: what it proves does not include what the hook did. What is done before
    an action is part of the change that the action makes.
    """
    if trees.best is not None and event.hook in ("before", "before_state"):
        trees = trees._replace(best=trees.best._replace(changing=True))
    if trees.snapshot is None:
        return trees
    keeps = event.hook in ("after", "after_state")
    return trees._replace(
        snapshot=trees.snapshot if keeps else None, blame=None, moved_by=f"`{event.hook}`"
    )


def _action_complete(run: LoopState, trees: Trees) -> Trees:
    """Return the trees after an action. An agent was told about everything that was restored; what
    was merged from the worktrees of a state's runs is remembered for the next snapshot."""
    if run.own_children is not None:
        return trees._replace(landed=landed_commits(run, trees))
    if run.session_id is None:
        return trees
    best = trees.best
    if best is not None and best.not_kept is not None:
        trees = trees._replace(best=best._replace(not_kept=None))
    return trees._replace(restored=())


def _expect_edits_by_user(trees: Trees) -> Trees:
    """Expect changes by a person: the agent has ended, and the wait may take hours."""
    return trees._replace(blame=None, moved_by="while the run waited")


def _action_start(trees: Trees, event: ActionStart) -> Trees:
    """Begin an action: the tree of the last snapshot becomes `before`, earlier findings are cleared, and
    somebody becomes responsible for changes: an agent, a check, agents in worktrees, or nobody."""
    action = action_of_event(event.action, event.action_type)
    by_agent = event.has_agents or is_agents(action)
    blame = _responsible(event, by_agent=by_agent)
    if trees.best is not None and not event.is_check and not event.terminal:
        best = trees.best._replace(changing=True, had_change=trees.best.changing)
        trees = trees._replace(best=best)
    return trees._replace(
        before=trees.tree if trees.snapshot is not None else None,
        snapshot=None,
        blame=blame,
        moved_by=None if blame in ("agent", "check") else f"`{event.state}`",
        restores=0,
        finding=None,
        text=_digest(event.action),
        place=event.place,
        agent_acted=trees.agent_acted or by_agent or event.apart,
        started_by=blame if starts_a_loop(action) else None,
        landed=None,
    )


def _responsible(event: ActionStart, *, by_agent: bool) -> Blame | None:
    """Return who is responsible for changes while an action runs; None: someone with permission."""
    if event.apart:
        return "apart"
    return "agent" if by_agent else "check" if event.is_check else None


def _digest(text: str) -> str:
    from hashlib import sha256  # 2 ms that only runs with evidence pay

    return sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _tree(trees: Trees, event: Tree) -> Trees:
    """Store a snapshot. The first one is also the start of the run, and the reference for protected
    paths unless there is one."""
    total, *stale = event.compared or (trees.total,)
    return trees._replace(
        first=trees.first or event.project,
        tree=event.id,
        project=event.project,
        guard=event.guard,
        reference=trees.reference or event.guard,
        snapshot=event.when,
        unread=False,
        committed=event.committed,
        total=total,
        stale=stale[0].files if stale else 0,
        writes=_writes(trees, event),
        original=event.original or trees.original,
    )


def _writes(trees: Trees, event: Tree) -> tuple[str, ...]:
    """Return the paths that checks have changed in the project so far; only `WHOLE` if there are
    too many or not all are known."""
    if event.when != "after" or trees.blame != "check" or trees.place != "here":
        return trees.writes
    changed = event.changed
    writes = tuple(dict.fromkeys((*trees.writes, *changed.paths)))
    is_all = changed.files == len(changed.paths) and len(writes) <= MAX_WRITES
    return writes if is_all else (WHOLE,)


def _unread(trees: Trees, event: TreeUnread) -> Trees:
    """Record a snapshot that was cut off; without `guard`, not even the protected paths could be
    read."""
    return trees._replace(
        guard=event.guard or trees.guard,
        reference=trees.reference or event.guard,
        snapshot=event.when,
        unread=event.guard is None,
    )


def _apply_finding(trees: Trees, event: Tampered | OutOfScope | Restored | ReferenceMoved) -> Trees:
    """Apply a forbidden change of files, its restoration, or a permitted change of protected
    paths."""
    match event:
        case Tampered():
            finding = tampered_finding(event.tampering, event.by, event.paths, event.files)
            is_undone = event.tampering == "restore"
            return trees._replace(
                # The user may have changed them, so what they contain now is right from now on.
                reference=None if event.by == "apart" else trees.reference,
                restore=is_undone,
                tampered=_merge_paths(trees.tampered, () if is_undone else event.paths),
                finding=finding or trees.finding,
            )
        case OutOfScope():
            finding = scope_finding(event.scope_writes, event.paths, event.files)
            if finding is None:
                return trees
            if event.beside:
                return trees._replace(finding=trees.finding or _strayed(event))
            return trees._replace(put_back=trees.project, finding=trees.finding or finding)
        case Restored():
            return _restored(trees, event)
        case ReferenceMoved():
            # A step can run code that an agent wrote; what the user edits in a pause is known to them.
            paths = event.paths if event.by.startswith("`") else ()
            return trees._replace(reference=None, tampered=_merge_paths(trees.tampered, paths))
        case _:
            assert_never(event)


def _strayed(event: OutOfScope) -> Finding:
    paths = listed_paths(event.paths, event.files)
    changed = f"files in the original project changed: {paths}"
    return Finding(OUT_OF_SCOPE, f"while agents worked in worktrees, {changed}")


def _restored(trees: Trees, event: Restored) -> Trees:
    """Discard the last snapshot after files were restored; a file that could not be restored
    becomes a finding."""
    finding = trees.finding
    if event.failed:
        more = f" and {len(event.failed) - 1} more" if len(event.failed) > 1 else ""
        finding = Finding(ERROR, f"could not be restored: {event.failed[0]}{more}")
    trees = trees._replace(snapshot=None, finding=finding)
    if event.of == "outside":
        return trees._replace(project=trees.put_back, put_back=None)
    if event.of == "change":
        assert trees.best is not None, "the best tree was restored"
        best = trees.best._replace(undo=False, changing=False)
        return trees._replace(project=event.project or trees.project, best=best)
    restored = (
        _merge_paths(trees.restored, event.paths) if trees.blame == "agent" else trees.restored
    )
    return trees._replace(restore=False, restores=trees.restores + 1, restored=restored)


def _merge_paths(paths: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, *(path for path in more if path not in paths))[:MAX_PATHS]


def _check_result(run: LoopState, trees: Trees, event: CheckResult) -> Trees:
    """Store the result of a check. Count the tree as unsettled if it changed during a rerun before
    a success state."""
    old = trees.checks.get(event.state)
    earlier = old.not_passed if old is not None else ()
    record = CheckRecord(
        event.verdict,
        run.step,
        run.attempt,
        event.before,
        event.after,
        trees.project or "",
        event.passes,
        # A check in the project invalidates what a clean copy showed: a result that a later state
        # judges passes in a copy whatever it is.
        clean=event.before if event.place == "clean" and event.verdict in PASSED else None,
        not_passed=earlier,
    )
    if event.place == "clean":
        trees = trees._replace(checks={**trees.checks, event.state: record})
    else:
        trees = _record_in_project(run, trees, event, record)
    is_moving_target = trees.headed is not None and event.after != event.before
    return trees._replace(unsettled=trees.unsettled + is_moving_target)


def _record_in_project(
    run: LoopState, trees: Trees, event: CheckResult, record: CheckRecord
) -> Trees:
    """Store the result of a check in the project: a failure is kept to compare later ones with, and
    may count as a stall; a pass resets the stalls."""
    if event.verdict in NOT_PASSED:
        result = run.captured.get(event.state)
        code = None if result is None else result.exit_code
        failed = NotPassed(event.before, trees.text, code, run.iteration)
        stalls = stalls_after(trees, record.not_passed, failed)
        not_passed = (*record.not_passed, failed)[-MAX_NOT_PASSED:]
        record = record._replace(not_passed=not_passed)
    else:
        stalls = 0 if event.verdict in PASSED else trees.stalls
    return trees._replace(
        checks={**trees.checks, event.state: record}, stalls=stalls, agent_acted=False
    )


def _resume(run: LoopState, trees: Trees, event: Resume) -> Trees:
    """Require a new snapshot and new passes. If the end of the run was recorded, nobody is
    responsible for changes since then."""
    # Passes in the log are checked again before they count, because an agent can write a log.
    passed = {name: each._replace(after="", clean=None) for name, each in trees.checks.items()}
    # A fork continues the counts of the run that it was forked from; any other resume was asked for.
    stalls = trees.stalls if run.reason == FORK else 0
    trees = trees._replace(snapshot=None, stalls=stalls, checks=passed)
    # The end of the run and its tree were recorded, so whoever changed files since is not an agent.
    if run.status != "running" and not trees.unread:
        trees = trees._replace(blame=None, moved_by="while the run was paused")
    return trees._replace(finding=None) if event.again else trees
