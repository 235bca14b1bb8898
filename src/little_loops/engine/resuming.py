"""Continue a run that has stopped, or was killed.

Its files are taken over, what a killed runner left running is ended, and the run is carried out from
where it was.

Not here: what a resume decides (`machine`), starting and carrying out a run (`lifecycle`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack

from little_loops.engine.lifecycle import (
    ARCHIVED,
    RunOutcome,
    RunRequest,
    after_release,
    carry_out,
    changed_by_cut_turn,
    claim_run,
    clock_for,
    report_crash,
    rules_for,
    sealing_of,
)
from little_loops.engine.local_world import Services
from little_loops.errors import UsageError
from little_loops.fsm.endings import is_gate, not_resumable
from little_loops.fsm.evidence import (
    trees_of,
)
from little_loops.fsm.happenings import Resumed
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Counted, LoopState, Result
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.fsm.turn_hosts import collects_judge, host_of, is_turn_open, turn_attempt
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.runs import storage
from little_loops.runs.history import archive
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import loops_of
from little_loops.runs.storage import RunWriter
from little_loops.runs.stored_run import StoredRun, find, take_over
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder
from little_loops.system.process_tree import marks_of
from little_loops.system.user_state import state_home

if TYPE_CHECKING:
    from little_loops.engine.worktree_runs import WorktreePlace


def resume(
    loop: FSMLoop | None, request: RunRequest, services: Services, before: StoredRun | None = None
) -> RunOutcome:
    """Continue the newest run of that name with `loop`, or with its original definition if that is
    None.

    `before` is that run, if the caller has already read it. Raises `UsageError` if it cannot be
    resumed, `ConflictError` if another run holds the name or the scope, and `StorageError`.
    """
    before = before or find(request.root, request.name)
    return after_release(
        _resume(loop, request, services, before), loop or before.loop, request, services
    )


def _resume(
    loop: FSMLoop | None, request: RunRequest, services: Services, before: StoredRun
) -> RunOutcome:
    """Claim the run, take its files over, end what a killed runner left running, and drive it.

    Also records the cost of a turn that was killed, and stores a new definition. Raises
    `UsageError` if it cannot be resumed.
    """
    from little_loops.runs.imported import read_imported  # a start needs none of it

    scope = request.scope or before.run.scope
    imported = read_imported(before.files)
    if imported is not None:
        from little_loops.engine.imported_runs import check_imported  # few runs were imported

        check_imported(imported, before, loop, request.context, request.from_state)
    if trees_of(before.run) is not None:
        _refuse_without_snapshots(before.files, services)
    with ExitStack() as stack:
        place = workplace_of(before, request.root)
        stack.enter_context(claim_run(before.loop, scope, request, services, before.run.run, place))
        stored = take_over(before)
        if loop is not None:  # where it works was decided when it started
            loop = loop._replace(worktree=stored.loop.worktree)
        run, machine = stored.run, loop or stored.loop
        report_crash(stored, services)
        if run.status in ARCHIVED and not_resumable(machine, run):
            archive(request.root, request.name)  # it was killed before it could be archived
        check_resumable(request.name, machine, run)
        if loop is not None:
            _refuse_agents_definition(stored, request.name, services)
        writer = storage.reopen(
            request.root,
            request.name,
            stored.stamps,
            has_snapshot=stored.has_snapshot,
            end=stored.end,
            sealing=sealing_of(run, request, services),
        )
        stack.callback(writer.close)
        answer = answer_for(run, machine, writer.data, request.from_state)
        if loop is not None:
            from little_loops.runs.recordings import with_definition  # few runs are redefined

            writer.keep(with_definition(stored.start, loop, run.seq))
        collects = collects_judge(machine, run, request.from_state)
        orphans = end_orphans(run, machine, writer, services, place, collects=collects)
        clock = clock_for(services, run.ran_ms + unrecorded_ms(run, stored.files))
        context = {**_changed_context(before, loop), **request.context}
        lost = None if collects else lost_turn(run, machine, writer)
        if lost is not None:
            from little_loops.engine.metering import record_lost_turn  # only agents cost anything

            record_lost_turn(machine, run, request.root, lost, services.environ)
        request = request._replace(file=stored.start.get("file"))
        rules = rules_for(machine, {**run.context, **context}, request, services)
        happening = Resumed(
            clock.now(),
            orphans,
            request.from_state,
            request.limits,
            context,
            lost,
            metered=rules is not None,
            answer=answer,
            over_budget=request.over_budget,
            answered=_answered(run, writer.files),
            used=used_below(run, writer.files),
        )
        if request.over_budget:
            from little_loops.engine.metering import record_over_budget

            record_over_budget(run, request.root, services.environ)
        return carry_out(
            machine,
            run,
            happening,
            request,
            services,
            writer,
            clock,
            is_redefined=loop is not None,
            rules=rules,
            imported=imported,
            place=place,
            worktree=worktree_place(stored),
        )


def worktree_place(stored: StoredRun) -> WorktreePlace | None:
    """Return the place of a run's own worktree; None for a run without one, or a fork."""
    if "worktree" not in stored.start:
        return None
    from little_loops.engine.worktree_runs import WorktreePlace  # few runs have worktrees

    return WorktreePlace.of(stored.start)


def workplace_of(run: StoredRun, root: str) -> str:
    """Return the directory in which the actions of a run work: the project, or for a fork the
    project in its worktree. Raises `UsageError` if that is gone."""
    worktree = run.start.get("worktree")
    if worktree is None:
        return root
    place: str = worktree["project"]
    space = run.run.workspace
    # Before it is made, and after its work is committed, it need not be there.
    is_needed = "origin" not in worktree or (space is not None and not space.is_committed)
    if is_needed and not os.path.isdir(place):
        raise UsageError(
            f"the worktree of `{run.files.name}` is gone: `{place}`",
            f"`ll-loop run {run.run.loop} --fresh` starts again"
            if run.run.fork is None
            else "fork the original run again",
        )
    return place


def _refuse_without_snapshots(files: RunFiles, services: Services) -> None:
    """Raise `UsageError` if the snapshots of a run cannot be found, before any of its actions runs
    again."""
    from little_loops.engine.run_trees import (
        where_snapshots_are,
    )  # loops without agents pay nothing

    found = where_snapshots_are(files, services.environ)
    again = f"`ll-loop run {files.name} --fresh` starts again"
    if found is None:
        return
    if found.project != os.path.realpath(files.root):
        raise UsageError(
            f"the project was moved from `{found.project}` after the run had started",
            f"to resume it, move it back; {again} here",
        )
    if not found.is_there:
        raise UsageError(
            f"this run's snapshots are not in `{found.store}`",
            "if they still exist, resume the run as the user who started it, with the same XDG_STATE_HOME;"
            f" {again}",
        )


def _refuse_agents_definition(before: StoredRun, name: str, services: Services) -> None:
    """Raise `UsageError` if a loop file was changed during an agent's interrupted turn."""
    own = before.start.get("file")
    for path in changed_by_cut_turn(before, services):
        if path == own or path.startswith(f"{loops_of(before.files.root)}/"):
            raise UsageError(
                f"`{path}` changed during an agent's interrupted turn",
                f"review it with `git diff`; `ll-loop resume {name} --definition original` continues"
                " with the definition that the run was started with",
            )


def _answered(run: LoopState, files: RunFiles) -> tuple[str, ...]:
    """Return the children at a gate that continue: those that are answered, or the only one."""
    if run.children is None:
        return ()
    from little_loops.runs.child_runs import answered_children  # few runs have children

    return answered_children(files, run.children)


def used_below(run: LoopState, files: RunFiles) -> Mapping[str, Counted]:
    """Return what the unfinished children of a run have used, which it counts when it continues."""
    if run.children is None:
        return {}
    from little_loops.runs.child_runs import used_by_children  # few runs have children

    return used_by_children(files, run.children)


def answer_for(
    run: LoopState, loop: FSMLoop, data: Folder, from_state: str | None
) -> Answer | None:
    """Return the answer to the gate that the run waits at; None if it waits at none, or it is
    recorded.

    If there is no answer yet, this resume approves, and that is stored. Raises `UsageError` if the
    answer leads to a state in which the run cannot continue, unless `from_state` overrides it.
    """
    if not is_gate(run.status, run.reason):
        return None
    from little_loops.fsm.gates import open_gate, refused_target  # few loops have gates
    from little_loops.runs.answers import settled_answer

    gate = open_gate(run)
    if gate is None:  # recorded by a resume that was killed
        return None
    answer = settled_answer(data, run, Answer(gate, "approved", "resume"))
    if answer.to is None or from_state is not None:
        return answer
    if why := refused_target(loop, run, answer.to):
        raise UsageError(why, "`ll-loop resume --from STATE` continues in a state of your choice")
    return answer


def lost_turn(run: LoopState, loop: FSMLoop, writer: RunWriter) -> Result | None:
    """Return what an agent had reported when its runner was killed; None if no agent was working
    then."""
    if not is_turn_open(run):
        return None
    from little_loops.engine.agent_actions import reported  # only agents pay for hosts

    return reported(writer.data, host_of(loop, run), run.step, turn_attempt(run))


def unrecorded_ms(run: LoopState, files: RunFiles) -> int:
    """Return how long a killed runner ran after its last event, as far as its log shows; 0 if
    unknown."""
    if run.status != "running":
        return 0
    try:
        last_ms = os.stat(files.log).st_mtime_ns // 1_000_000
        last_event_ms = wall_ms_of(run.updated_at)
    except (OSError, ValueError):  # no log, or an edited state
        return 0
    # Beyond these, the clock was changed meanwhile, and the difference means nothing.
    return last_ms - last_event_ms if last_event_ms <= last_ms <= wall_ms() else 0


def _changed_context(before: StoredRun, loop: FSMLoop | None) -> Mapping[str, Any]:
    """Return the context of another definition, with the values that were set when the run started.

    Nothing if the original definition continues.
    """
    if loop is None:
        return {}
    given = {
        name: value
        for name, value in before.run.context.items()
        if before.loop.context.get(name) != value
    }
    return {**loop.context, **given}


def check_resumable(name: str, loop: FSMLoop, run: LoopState) -> None:
    if why := not_resumable(loop, run):
        from little_loops.runs.refusals import nothing_to_resume  # most can be resumed

        raise UsageError(*nothing_to_resume(name, why))


def end_orphans(
    run: LoopState,
    loop: FSMLoop,
    writer: RunWriter,
    services: Services,
    place: str | None = None,
    *,
    collects: bool = False,
) -> tuple[str, ...]:
    """End processes of a killed runner's action, and of the runs that it started, before anything
    runs again; but not a judge whose answer the run `collects`. Return their names."""
    if run.status != "running":
        return ()
    from little_loops.runs.leftovers import end_leftovers  # only after a kill

    copy = _copy_of(run, place or writer.files.root, services) if loop.evidence.clean else None
    spared = marks_of(run.run, run.step, turn_attempt(run)) if collects else None
    ended = end_leftovers(writer.files, run.run, loop.kill_grace, copy, spared)
    return tuple(f"{member.name} (pid {member.pid})" for member in ended)


def _copy_of(run: LoopState, root: str, services: Services) -> str | None:
    """Return where the clean copy of a run is; None if it keeps no evidence."""
    if trees_of(run) is None:
        return None
    from little_loops.trees.copies import base_of  # only a proof needs a clean copy
    from little_loops.trees.rules import plain_scope

    return base_of(root, plain_scope(run.scope, root), state_home(services.environ))
