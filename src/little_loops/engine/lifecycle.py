"""Runs that survive the process: claim, log, snapshot, resume, archive.

A run is started or resumed; both take the same claim, drive the same machine and are archived in
the same way.

Not here: decisions (`machine`), the layout of files (`runs.storage`), what a user reads (`cli`,
which subscribes to the events), the library's interface to this (`persistent_executor`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from little_loops.engine.action_process import Workplace, inherited
from little_loops.engine.drive import drive, new_run
from little_loops.engine.local_world import LocalWorld, Services, SessionNote, end_processes
from little_loops.errors import StorageError, StoreError, UsageError
from little_loops.fsm.commands import Ending
from little_loops.fsm.endings import is_gate, not_resumable
from little_loops.fsm.evidence import has_agent, tampering_of, trees_of, wants_evidence
from little_loops.fsm.happenings import Happening, Resumed, Started
from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.path_text import listed
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Answer, Limits, LoopState, Result
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.fsm.values import written_env
from little_loops.records import NamedTuple
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observers
from little_loops.reporting.reporter import Reporter
from little_loops.runs import storage
from little_loops.runs.claims import Claim, alive, claim, nested_in, nesting
from little_loops.runs.history import archive
from little_loops.runs.layout import RunFiles
from little_loops.runs.output_files import RunOutput, rescue
from little_loops.runs.project import loops_of, resolve_scope
from little_loops.runs.seals import Sealing, release_name
from little_loops.runs.storage import RunWriter
from little_loops.runs.stored_run import StoredRun, current, find, take_over
from little_loops.system import process_tree
from little_loops.system.clock import RunClock, wall_ms
from little_loops.system.files import Folder
from little_loops.system.own_command import path_with_own_command
from little_loops.system.user_state import has_edits, state_home

if TYPE_CHECKING:
    from little_loops.engine.run_trees import RunTrees
    from little_loops.spending.rules import Rules

ARCHIVED = ("completed", "failed", "stopped")


class RunRequest(NamedTuple):
    """What to run; plain data, so that it can be passed to a background process."""

    root: str
    name: str
    context: Mapping[str, Any] = {}
    limits: Limits = Limits()
    scope: tuple[str, ...] | None = None
    queue: bool = False
    fresh: bool = False
    skip_permissions: bool = False
    from_state: str | None = None
    evidence: bool = True
    host: Mapping[str, str] = {}  # the agent program and model chosen for this run
    started_in: tuple[str, ...] = ()  # the runs that enclose the action that started it
    file: str | None = None  # the loop's own file, relative to the project
    until: Mapping[str, Any] | None = None  # the command of a run without a file
    over_budget: bool = False  # this resume disregards the budget


def nested_request(request: RunRequest, environ: Mapping[str, str]) -> RunRequest:
    """Add the enclosing runs of this process: they cannot end while it waits for the start."""
    return request._replace(started_in=nesting(environ).runs)


class RunOutcome(NamedTuple):
    run: LoopState
    ending: Ending
    files: RunFiles


# ── starting ───────────────────────────────────────────────────────────────────────────────────


def start(loop: FSMLoop, request: RunRequest, services: Services) -> RunOutcome:
    """Run a loop from its beginning to its ending, and archive the run if it is over.

    Raises `UsageError` if the name has an unfinished run (with `fresh`, that is archived),
    `ConflictError` if another run holds the name or scope, `WaitStopped` in the queue,
    `StorageError`.
    """
    return _start_next_session(_start(loop, request, services), loop, request, services)


def _start(loop: FSMLoop, request: RunRequest, services: Services) -> RunOutcome:
    """Claim the name and scope, archive the previous run, create the files of the new one and drive
    it."""
    run_id = new_run_id()
    if request.queue:
        _refuse_early(request)
    with ExitStack() as stack:
        stack.enter_context(_claim(loop, request.scope or loop.scope, request, services, run_id))
        _archive_previous(request, services)
        clock = _clock(services, 0)
        rules = _rules(loop, {**loop.context, **request.context}, request, services)
        run = new_run(
            loop,
            run_id,
            clock.now(),
            context=request.context,
            scope=request.scope,
            limits=request.limits,
            evidence=_evidence(loop, request, services),
            metered=rules is not None,
        )
        kept = {"run": run_id, "loop": loop.to_dict(), "context": dict(run.context)}
        if request.host:
            kept["host"] = dict(request.host)
        if request.file is not None:
            kept["file"] = request.file
        if request.until is not None:
            kept["until"] = dict(request.until)
        release_name(request.root, request.name, services.environ)
        sealing = _sealing(run, request, services)
        writer = storage.create(request.root, request.name, kept, sealing)
        stack.callback(writer.close)
        started = Started(clock.now())
        return _carry_out(loop, run, started, request, services, writer, clock, rules=rules)


def _evidence(loop: FSMLoop, request: RunRequest, services: Services) -> str | None:
    """Return `on`, or why the run keeps no evidence; None if no agent works in the loop.

    Warns if evidence cannot be kept although nobody turned it off.
    """
    if not (wants_evidence(loop) or loop.evidence.enabled is False):
        return None
    from little_loops.engine.run_trees import evidence_for  # loops without agents pay nothing

    kept = evidence_for(loop, request.root, services.environ, wanted=request.evidence)
    if kept not in ("on", "off", None):
        services.warn(f"warning: no evidence is recorded of what agents change: {kept}")
    return kept


def _rules(
    loop: FSMLoop, context: Mapping[str, Any], request: RunRequest, services: Services
) -> Rules | None:
    """Return the limits on agents from the config files, or None if there are none; loops without
    agents do not read them. Raises `UsageError`."""
    if not has_agent(loop._replace(context=context)):
        return None
    from little_loops.spending.rules import rules_of

    return rules_of(request.root, services.environ)


def _sealing(run: LoopState, request: RunRequest, services: Services) -> Sealing | None:
    """Return how the run's files are sealed, so that what agents write into them does not count.

    None without evidence, or if the user's state directory is inside the project.
    """
    if trees_of(run) is None:
        return None
    from little_loops.trees.git import is_inside  # loops without agents pay nothing

    home = os.path.realpath(state_home(services.environ))
    if is_inside(home, os.path.realpath(request.root)):
        return None  # nothing is stored there, and the first snapshot reports it
    return Sealing(run.run, services.environ)


def new_run_id() -> str:
    stamp = timestamp(wall_ms())[:19].replace("-", "").replace(":", "")
    return f"{stamp}-{os.urandom(4).hex()}"


def _claim(
    loop: FSMLoop, scope: tuple[str, ...], request: RunRequest, services: Services, run_id: str
) -> Claim:
    """Claim the run's name and scope; with `request.queue`, wait for them. Tell other runs of the
    project that this one starts.

    Raises `ConflictError` if another run holds them, `WaitStopped` if a stop ended the wait.
    """
    taken = claim(
        request.root,
        request.name,
        resolve_scope(request.root, scope),
        run_id,
        loop=loop.name,
        started_at=timestamp(wall_ms()),
        outer=nesting(services.environ).runs,
        queue=request.queue,
        within=request.started_in,
        say=services.say,
        stop=services.stop,
    )
    if taken.others:
        from little_loops.runs.neighbours import leave_note  # most runs are alone

        evidence = wants_evidence(loop)
        leave_note(request.root, taken.holder, taken.others, services.environ, evidence=evidence)
    return taken


def _archive_previous(request: RunRequest, services: Services) -> None:
    """Archive the previous run of this name; raise `UsageError` if it is unfinished, except with
    `fresh`.

    Then processes that it left are ended, and protected files that its agent may have changed are
    restored.
    """
    before = _unfinished(request)
    if before is not None and not request.fresh:
        raise unfinished(request.name, before.run, has_file=request.until is None)
    if request.fresh:  # otherwise there is no unfinished run
        _end_orphans_of(RunFiles(request.root, request.name))
    restored = () if before is None else _restore_after_cut_turn(before, services)
    past = archive(request.root, request.name)
    if restored and past is not None:
        from little_loops.engine.run_trees import CUT_TURN_PATCH  # loops without agents pay nothing

        patch = os.path.relpath(os.path.join(past.data, CUT_TURN_PATCH), request.root)
        services.warn(
            f"warning: {listed(restored, len(restored))} changed during an interrupted turn of an"
            f" agent: restored; if the change is yours, `git apply {patch}` gets it back"
        )


def _unfinished(request: RunRequest) -> StoredRun | None:
    """Return the unfinished run of this name, or None.

    A damaged run raises `StorageError`; with `fresh`, it gives None, so that it can be archived.
    """
    try:
        before = current(request.root, request.name)
    except StorageError:
        if request.fresh:
            return None  # a damaged run can be archived, too
        raise
    return before if before is not None and before.run.status in UNFINISHED else None


def _restore_after_cut_turn(before: StoredRun, services: Services) -> tuple[str, ...]:
    """Restore protected files that an agent may have changed before its run was killed, and return
    them.

    Warns about those that were not restored, because that failed or the loop does not ask for it.
    """
    paths = _changed_by_cut_turn(before, services)
    restored: tuple[str, ...] = ()
    if paths and tampering_of(before.loop.evidence) == "restore":
        from little_loops.engine.run_trees import (
            restore_after_cut_turn,  # loops without agents pay nothing
        )

        with suppress(StoreError, StorageError):
            done = restore_after_cut_turn(before.loop, before.run, before.files, services.environ)
            restored = done.paths
    if paths := tuple(path for path in paths if path not in restored):
        services.warn(
            f"warning: {listed(paths, len(paths))} changed during an interrupted turn of an agent,"
            " and this run starts with the change; review it with `git diff`"
        )
    return restored


def _changed_by_cut_turn(before: StoredRun, services: Services) -> tuple[str, ...]:
    """Return protected files that differ, if an agent was working when its run was killed; else
    nothing."""
    trees = trees_of(before.run)
    if trees is None or trees.blame != "agent" or before.run.phase != "running":
        return ()
    from little_loops.engine.run_trees import (
        changed_since_start,  # loops without agents pay nothing
    )

    return changed_since_start(before.loop, before.run, before.files, services.environ)


def _refuse_early(request: RunRequest) -> None:
    """Raise `UsageError` before queueing if the name has an unfinished run: waiting would be in
    vain."""
    if alive(request.root, request.name) is None and not request.fresh:
        before = current(request.root, request.name)
        if before is not None and before.run.status in UNFINISHED:
            raise unfinished(request.name, before.run, has_file=request.until is None)


def _end_orphans_of(files: RunFiles) -> None:
    """End the processes of a killed run before it is archived, so that they do not run beside the
    next one."""
    # Imported on demand: rare.
    from little_loops.runs.leftovers import end_leftovers
    from little_loops.runs.reading import Runs

    found = Runs(files.root).view(files.name)
    if found is not None and found.summary is not None and found.summary.status == "running":
        end_leftovers(files, found.summary.run)


def unfinished(name: str, run: LoopState, *, has_file: bool = True) -> UsageError:
    """Return the error for starting a loop that has an unfinished run; `has_file`: it has a loop
    file, and `ll-loop run` starts it."""
    how = "interrupted (crashed)" if run.status == "running" else run.status.replace("_", " ")
    again = f"`ll-loop run {name} --fresh`" if has_file else "the same command with `--fresh`"
    return UsageError(
        f"`{name}` has an unfinished run: {how} in state `{run.current_state}`",
        f"`ll-loop resume {name}` continues it, {again} starts again",
    )


# ── resuming ───────────────────────────────────────────────────────────────────────────────────


def resume(
    loop: FSMLoop | None, request: RunRequest, services: Services, before: StoredRun | None = None
) -> RunOutcome:
    """Continue the newest run of that name with `loop`, or with its original definition if that is
    None.

    `before` is that run, if the caller has already read it. Raises `UsageError` if it cannot be
    resumed, `ConflictError` if another run holds the name or the scope, and `StorageError`.
    """
    before = before or find(request.root, request.name)
    return _start_next_session(
        _resume(loop, request, services, before), loop or before.loop, request, services
    )


def _resume(
    loop: FSMLoop | None, request: RunRequest, services: Services, before: StoredRun
) -> RunOutcome:
    """Claim the run, take its files over, end what a killed runner left running, and drive it.

    Also records the cost of a turn that was killed, and stores a new definition. Raises
    `UsageError` if it cannot be resumed.
    """
    scope = request.scope or before.run.scope
    if trees_of(before.run) is not None:
        _refuse_without_snapshots(before.files, services)
    with ExitStack() as stack:
        stack.enter_context(_claim(before.loop, scope, request, services, before.run.run))
        stored = take_over(before)
        run, machine = stored.run, loop or stored.loop
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
            sealing=_sealing(run, request, services),
        )
        stack.callback(writer.close)
        answer = _answer(run, machine, writer.data, request.from_state)
        if loop is not None:
            writer.keep({**stored.start, "loop": loop.to_dict()})
        orphans = _end_orphans(run, machine, writer, services)
        clock = _clock(services, run.ran_ms + _unrecorded_ms(run, stored.files))
        context = {**_changed_context(before, loop), **request.context}
        lost = _lost_turn(run, machine, writer)
        if lost is not None:
            from little_loops.engine.metering import record_lost_turn  # only agents cost anything

            record_lost_turn(machine, run, request.root, lost, services.environ)
        request = request._replace(file=stored.start.get("file"))
        rules = _rules(machine, {**run.context, **context}, request, services)
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
        )
        if request.over_budget:
            from little_loops.engine.metering import record_over_budget

            record_over_budget(run, request.root, services.environ)
        return _carry_out(
            machine,
            run,
            happening,
            request,
            services,
            writer,
            clock,
            is_redefined=loop is not None,
            rules=rules,
        )


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
            f"move it back to resume; {again} here",
        )
    if not found.is_there:
        raise UsageError(
            f"the snapshots of this run are not in `{found.store}`",
            "resume it as the user who started it, with the same XDG_STATE_HOME, if they are there;"
            f" {again}",
        )


def _refuse_agents_definition(before: StoredRun, name: str, services: Services) -> None:
    """Raise `UsageError` if a loop file was changed during an interrupted turn of an agent."""
    own = before.start.get("file")
    for path in _changed_by_cut_turn(before, services):
        if path == own or path.startswith(f"{loops_of(before.files.root)}/"):
            raise UsageError(
                f"`{path}` changed during an interrupted turn of an agent",
                f"review it with `git diff`; `ll-loop resume {name} --definition original` continues"
                " with the definition that the run was started with",
            )


def _answer(run: LoopState, loop: FSMLoop, data: Folder, from_state: str | None) -> Answer | None:
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


def _lost_turn(run: LoopState, loop: FSMLoop, writer: RunWriter) -> Result | None:
    """Return what an agent had reported when its runner was killed; None if no agent was working
    then."""
    if run.phase != "running" or run.session_id is None:
        return None
    from little_loops.engine.agent_actions import reported  # only agents pay for hosts

    options = loop.host.under(loop.states[run.current_state].host)
    return reported(writer.data, options, run.step, run.attempt)


def _clock(services: Services, before_ms: int) -> RunClock:
    """Return the clock of a run that has run for `before_ms`. It stops while Ctrl-Z suspends us."""
    clock = services.clock(before_ms)
    if services.stop is not None:
        clock.leave_out(services.stop.suspended_ms)
    return clock


def _unrecorded_ms(run: LoopState, files: RunFiles) -> int:
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
        raise UsageError(f"nothing to resume in `{name}`: {why}")


def _end_orphans(
    run: LoopState, loop: FSMLoop, writer: RunWriter, services: Services
) -> tuple[str, ...]:
    """End processes of a killed runner's action before anything runs again. Return their names."""
    if run.status != "running":
        return ()
    from little_loops.runs.leftovers import end_leftovers  # only after a kill

    copy = _copy_of(run, writer.files.root, services) if loop.evidence.clean else None
    ended = end_leftovers(writer.files, run.run, loop.kill_grace, copy)
    return tuple(f"{member.name} (pid {member.pid})" for member in ended)


def _copy_of(run: LoopState, root: str, services: Services) -> str | None:
    """Return where the clean copy of a run is; None if it keeps no evidence."""
    if trees_of(run) is None:
        return None
    from little_loops.trees.copies import base_of  # only a proof needs a clean copy
    from little_loops.trees.rules import plain_scope

    return base_of(root, plain_scope(run.scope, root), state_home(services.environ))


# ── carrying out ───────────────────────────────────────────────────────────────────────────────


def _carry_out(
    loop: FSMLoop,
    run: LoopState,
    happening: Happening,
    request: RunRequest,
    services: Services,
    writer: RunWriter,
    clock: RunClock,
    *,
    is_redefined: bool = False,
    rules: Rules | None = None,
) -> RunOutcome:
    """Drive a run from `happening` to its ending, save it, and archive it if it is over.

    `is_redefined`: it was resumed with another definition. Raises `StorageError`; if the directory
    of runs was removed meanwhile, the processes of the run are ended first.
    """
    masker = Masker({**services.environ, **written_env(loop)})
    if services.owns_process:
        process_tree.adopt_orphans()
    with ExitStack() as stack:
        log = writer.open_log()
        stack.callback(os.close, log)
        onlookers = Observers([_log_keeper(log, loop, run, masker), *services.onlookers])

        def workplace() -> Workplace:
            """Create the workplace; its files are closed when the run ends."""
            session = SessionNote(writer.data)
            stack.callback(session.close)
            output = RunOutput(writer.data, masker)
            stack.callback(output.close)
            return _workplace(run.run, request, services, writer, onlookers, output, session)

        _begin_beside_edits(request, run, services)
        if run.seq:
            rescue(writer.data, run.step, run.attempt)

        def trees() -> RunTrees:
            """Create the trees; they are closed when the run ends."""
            from little_loops.engine.run_trees import RunTrees  # only with evidence

            opened = RunTrees(
                loop,
                run,
                request.root,
                writer.files.data,
                services.environ,
                file=request.file,
                is_redefined=is_redefined,
            )
            stack.callback(opened.close, services.stop)
            return opened

        gate = None
        if rules is not None:
            from little_loops.engine.gate import Gate  # few users have set limits on agents

            gate = Gate(rules, request.root, over_budget=request.over_budget)
            stack.callback(gate.release)
        world = LocalWorld(loop, writer, workplace, clock, masker, onlookers, services, trees, gate)
        try:
            run, ending = drive(loop, run, happening, world)
        except StorageError as error:
            if writer.folder.is_in_place():
                raise
            end_processes(world, run)  # no resume will find them
            raise _removed(writer) from error
    if ending.status == "completed" and any(each.agent for each in run.captured.values()):
        from little_loops.engine.metering import record_pass  # only agents cost anything

        record_pass(loop, run, ending, request.root, services.environ)
    writer.save(run, sync=True)
    completed = loop.name if ending.status == "completed" else None
    _end_beside_edits(request, run, completed, services)
    past = _archive_run(request, services, writer) if run.status in ARCHIVED else None
    return RunOutcome(run, ending, past or writer.files)


def _begin_beside_edits(request: RunRequest, run: LoopState, services: Services) -> None:
    """Note how the files of loops that the user is editing are now."""
    if has_edits(services.environ):
        from little_loops.runs import editing  # few users edit a loop at the moment

        editing.begin(request.root, run.run, services.environ)


def _end_beside_edits(
    request: RunRequest, run: LoopState, completed: str | None, services: Services
) -> None:
    """End consent to loops that the user is editing, if `completed` or changed during the run."""
    if has_edits(services.environ):
        from little_loops.runs import editing  # few users edit a loop at the moment

        editing.end(request.root, run.run, completed, services.environ)


def _removed(writer: RunWriter) -> StorageError:
    """Return the error for a run whose directory was removed while it was running."""
    place = os.path.relpath(writer.folder.path, writer.files.root)
    return StorageError(
        f"`{place}` was removed while `{writer.files.name}` was running, and the run with it",
        f"`git clean -fdx` does that, `git clean -fdx -e {place}` does not",
    )


def _archive_run(request: RunRequest, services: Services, writer: RunWriter) -> RunFiles | None:
    """Move the run to the history, and return its files there. If that fails, warn and return None:
    the run has ended all the same."""
    try:
        return archive(request.root, request.name, writer.folder)
    except StorageError as error:
        services.warn(f"warning: the run was not moved to the history: {error.message}")
        return None


def _workplace(
    run_id: str,
    request: RunRequest,
    services: Services,
    writer: RunWriter,
    onlookers: Observers,
    output: RunOutput,
    session: SessionNote,
) -> Workplace:
    """Return where the actions of the run work. Their PATH begins with a directory that has our own
    command, which is created here; their environment names the enclosing runs."""
    path = path_with_own_command(writer.data, services.environ.get("PATH"))
    nested = nested_in(run_id, nesting(services.environ))
    return Workplace(
        request.root,
        writer.files.data,
        inherited({**services.environ, **nested, "PATH": path}),
        stop=services.stop,
        onlookers=onlookers,
        output=output,
        skip_permissions=request.skip_permissions,
        on_started=session.keep,
        scanner=services.scanner,
    )


def _start_next_session(
    ran: RunOutcome, loop: FSMLoop, request: RunRequest, services: Services
) -> RunOutcome:
    """If the ending asks for a fresh session, start it, now that the claim is released, and record
    its cost. Return `ran` unchanged.

    Waits for a slot if slots are limited; after a stop, no session is started.
    """
    if not ran.ending.spawn or (services.performers and services.handoff is None):
        return ran
    # Only a handoff starts sessions.
    from little_loops.engine.handoff_handler import SPAWNING
    from little_loops.engine.metering import record_session
    from little_loops.engine.spawn_session import Spawner

    kept_open: tuple[int, ...] = ()
    rules = _rules(loop, ran.run.context, request, services)
    if rules is not None and rules.slots is not None:
        from little_loops.engine.gate import slot_of_session  # few users have set slots

        slot = slot_of_session(rules.slots, ran.run, request.root, services)
        if slot is None:  # stopped while it waited; a person can still resume the run
            return ran
        kept_open = (slot,)
    options = loop.host.under(loop.states[ran.run.current_state].host)
    # The same run continues, so the consent for it still applies.
    agreed = {"LL_ALLOW_SKIP_PERMISSIONS": "1"} if request.skip_permissions else {}
    environ = {**services.environ, **agreed}
    spawner = Spawner(ran.files, options, environ, ran.run.seq, kept_open)
    handler = (services.handoff or SPAWNING).started_by(spawner.start)
    try:
        handler.handle(ran.files.name, ran.run.continuation_prompt)
    finally:
        for descriptor in kept_open:
            os.close(descriptor)
    record_session(loop, ran.run, request.root, options, services.environ)
    return ran


def _log_keeper(log: int, loop: FSMLoop, run: LoopState, masker: Masker) -> Reporter:
    """Return an observer that writes the lines of the run and all output to the log, secrets
    masked."""

    def write(text: str) -> None:
        os.write(log, text.encode("utf-8", "replace"))

    teller = PlainLines(loop.name, iterations_allowed(loop, run), commands=True)
    return Reporter(write, teller, masker, output=True)
