"""Runs that survive the process: claim, log, snapshot, archive.

A run is started here or resumed in `resuming`; both take the same claim, drive the same machine and
are archived in the same way.

Not here: decisions (`machine`), the layout of files (`runs.storage`), what a user reads (`cli`,
which subscribes to the events), the library's interface to this (`persistent_executor`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from little_loops import __version__
from little_loops.engine.action_process import Redirect, Workplace, inherited
from little_loops.engine.drive import new_run
from little_loops.engine.local_world import LocalWorld, Services, SessionNote, end_processes
from little_loops.errors import StorageError, UsageError
from little_loops.fsm.commands import Ending
from little_loops.fsm.evidence import (
    has_agent,
    needs_evidence,
    trees_of,
    turned_off,
    wants_evidence,
)
from little_loops.fsm.happenings import Happening, Started
from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Limits, LoopState
from little_loops.fsm.timestamps import timestamp
from little_loops.fsm.values import written_env
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observers
from little_loops.reporting.reporter import Reporter
from little_loops.runs import storage
from little_loops.runs.claims import Claim, alive, claim, nested_in, nesting
from little_loops.runs.config_files import NOTIFY, mentions, user_config
from little_loops.runs.history import archive
from little_loops.runs.layout import RunFiles
from little_loops.runs.output_files import RunOutput, rescue
from little_loops.runs.project import loops_of, resolve_scope
from little_loops.runs.sealed import release_name
from little_loops.runs.storage import RunWriter
from little_loops.runs.stored_run import StoredRun, current
from little_loops.system import process_tree
from little_loops.system.clock import RunClock, wall_ms
from little_loops.system.own_command import path_with_own_command
from little_loops.system.user_state import has_edits, state_home

if TYPE_CHECKING:
    from little_loops.engine.event_hooks import EventHooks
    from little_loops.engine.gate import Permit
    from little_loops.engine.notifying import Notifier
    from little_loops.engine.run_trees import RunTrees
    from little_loops.engine.worktree_runs import WorktreePlace
    from little_loops.runs.imported import Imported
    from little_loops.runs.seals import Sealing
    from little_loops.spending.rules import SpendingRules

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
    run_id: str | None = None  # chosen by whoever starts it from elsewhere


def nested_request(request: RunRequest, environ: Mapping[str, str]) -> RunRequest:
    """Add the enclosing runs of this process: they cannot end while it waits for the start."""
    return request._replace(started_in=nesting(environ).runs)


class RunOutcome(NamedTuple):
    """How a run ended; `permit` is for the session that the ending asks for, if agents have
    limits; `notifier` is still sending notifications."""

    run: LoopState
    ending: Ending
    files: RunFiles
    permit: Permit | None = None
    notifier: Notifier | None = None


# ── starting ───────────────────────────────────────────────────────────────────────────────────


def start(loop: FSMLoop, request: RunRequest, services: Services) -> RunOutcome:
    """Run a loop from its beginning to its ending, and archive the run if it is over.

    Raises `UsageError` if the name has an unfinished run (with `fresh`, that is archived),
    `ConflictError` if another run holds the name or scope, `WaitStopped` in the queue,
    `StorageError`.
    """
    return after_release(_start(loop, request, services), loop, request, services)


def _start(loop: FSMLoop, request: RunRequest, services: Services) -> RunOutcome:
    """Claim the name and scope, archive the previous run, create the files of the new one and drive
    it."""
    run_id = request.run_id or new_run_id()
    if request.queue:
        _refuse_early(request, services)
    with ExitStack() as stack:
        worktree = _own_worktree(loop, run_id, request, services)
        place = None if worktree is None else worktree.project
        scope = request.scope or loop.scope
        stack.enter_context(claim_run(loop, scope, request, services, run_id, place))
        before = _archive_previous(request, services)
        evidence = evidence_of(loop, request, services)
        if evidence == "on":
            _settle_interrupted_turns(request, services, run_id, before)
        clock = clock_for(services, 0)
        rules = rules_for(loop, {**loop.context, **request.context}, request, services)
        run = new_run(
            loop,
            run_id,
            clock.now(),
            context=request.context,
            scope=request.scope,
            limits=request.limits,
            evidence=evidence,
            metered=rules is not None,
        )
        kept = {
            "run": run_id,
            "loop": loop.to_dict(),
            "context": dict(run.context),
            "version": __version__,
        }
        if request.host:
            kept["host"] = dict(request.host)
        if request.file is not None:
            kept["file"] = request.file
        if request.until is not None:
            kept["until"] = dict(request.until)
        if worktree is not None:
            kept["worktree"] = worktree.written()
        release_name(request.root, request.name, services.environ)
        sealing = sealing_of(run, request, services)
        writer = storage.create(request.root, request.name, kept, sealing)
        stack.callback(writer.close)
        started = Started(clock.now())
        return carry_out(
            loop,
            run,
            started,
            request,
            services,
            writer,
            clock,
            rules=rules,
            place=place,
            worktree=worktree,
        )


def _own_worktree(
    loop: FSMLoop, run_id: str, request: RunRequest, services: Services
) -> WorktreePlace | None:
    """Return the place for the worktree of a run; None if it works in the project. Raises
    `UsageError` if there can be none."""
    if loop.worktree is None:
        return None
    from little_loops.engine.worktree_runs import choose_place  # few runs have worktrees

    root = os.path.realpath(request.root)
    name = request.name.partition("@")[2] or loop.name
    return choose_place(root, root, loop.name, run_id, name, request.name, services.environ)


def evidence_of(loop: FSMLoop, request: RunRequest, services: Services) -> str | None:
    """Return `on`, or why the run keeps no evidence; None if no agent works in the loop.

    Warns if evidence cannot be kept although nobody turned it off. Raises `UsageError` if the loop
    has settings that depend on it, and a repository is there, but cannot be used: an agent of an
    earlier run may have damaged it.
    """
    if not wants_evidence(loop):
        return turned_off(loop)
    from little_loops.engine.run_trees import evidence_for  # loops without agents pay nothing
    from little_loops.trees.repository_files import repository_of

    kept = evidence_for(loop, request.root, services.environ, wanted=request.evidence)
    if kept not in ("on", "off", None):
        if needs_evidence(loop) and repository_of(request.root) is not None:
            raise UsageError(
                f"the evidence that this loop requires cannot be recorded: {kept}",
                "repair the repository, or run the loop with `--no-evidence`",
            )
        services.warn(f"warning: no evidence is recorded of what agents change: {kept}")
    return kept


def rules_for(
    loop: FSMLoop, context: Mapping[str, Any], request: RunRequest, services: Services
) -> SpendingRules | None:
    """Return the limits on agents from the config files, or None if there are none; loops without
    agents do not read them. Raises `UsageError`."""
    if not has_agent(loop._replace(context=context)):
        return None
    from little_loops.spending.rules import SpendingRules, rules_of

    return rules_of(request.root, services.environ) or (
        SpendingRules() if services.shares else None
    )


def sealing_of(run: LoopState, request: RunRequest, services: Services) -> Sealing | None:
    """Return how the run's files are sealed, so that what agents write into them does not count.

    None without evidence, or if the user's state directory is inside the project.
    """
    if trees_of(run) is None:
        return None
    # Loops without agents pay nothing.
    from little_loops.runs.seals import Sealing
    from little_loops.trees.git import is_inside

    home = os.path.realpath(state_home(services.environ))
    if is_inside(home, os.path.realpath(request.root)):
        return None  # nothing is stored there, and the first snapshot reports it
    return Sealing(run.run, services.environ)


def new_run_id() -> str:
    stamp = timestamp(wall_ms())[:19].replace("-", "").replace(":", "")
    return f"{stamp}-{os.urandom(4).hex()}"


def claim_run(
    loop: FSMLoop,
    scope: tuple[str, ...],
    request: RunRequest,
    services: Services,
    run_id: str,
    place: str | None = None,
) -> Claim:
    """Claim the run's name and scope; with `request.queue`, wait for them. Tell other runs of the
    project that this one starts. `place` is where the run works, if that is not the project.

    Raises `ConflictError` if another run holds them, `WaitStopped` if a stop ended the wait.
    """
    taken = claim(
        request.root,
        request.name,
        resolve_scope(place or request.root, scope),
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


def _archive_previous(request: RunRequest, services: Services) -> LoopState | None:
    """Archive the previous run of this name; raise `UsageError` if it is unfinished, except with
    `fresh`. Then processes that it left are ended, and it is returned."""
    before = _unfinished(request)
    if before is not None:
        report_crash(before, services)
    if before is not None and not request.fresh:
        raise unfinished(request.name, before.run, has_file=request.until is None)
    files = RunFiles(request.root, request.name)
    was_killed = before is None or before.run.status == "running"  # None, if it is damaged
    if request.fresh and was_killed and any(map(os.path.lexists, (files.state, files.events))):
        _end_orphans_of(files)  # without `fresh`, there is no unfinished run
    archive(request.root, request.name)
    return None if before is None else before.run


def _settle_interrupted_turns(
    request: RunRequest, services: Services, run_id: str, before: LoopState | None
) -> None:
    """Restore protected files that changed while an agent or a check of a killed run worked, before
    the run `run_id` takes them as its reference; `before` is the unfinished run that was archived.

    Warns about them, and about those that were not restored, because that failed or the loop does
    not want it.
    """
    from little_loops.engine import interrupted_turns  # loops without agents pay nothing

    root, environ = request.root, services.environ
    try:
        if before is not None and _was_cut(before):
            interrupted_turns.require_note(root, environ, before.run)
        found = list(interrupted_turns.settle(root, environ, run_id))
    except StorageError as error:
        services.warn(
            "warning: an agent's turn was interrupted, and what it changed is not known:"
            f" {error.message}; this run starts with those changes; review them with `git diff`"
        )
        return
    for one in found:
        for warning in one.warnings():
            services.warn(f"warning: {warning}")
    _refuse_changed_definition(request, [path for one in found for path in one.restored])


def _refuse_changed_definition(request: RunRequest, restored: Sequence[str]) -> None:
    """Raise `UsageError` if the loop's own file, or another one in `.loops`, was restored just now:
    this process has read what the agent made of it."""
    own = [
        path
        for path in restored
        if path == request.file or path.startswith(f"{loops_of(request.root)}/")
    ]
    if own:
        raise UsageError(
            f"{listed_paths(own, len(own))} changed during an agent's interrupted turn: restored, but"
            " this command has read the changed version",
            "run the same command again",
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


def _was_cut(run: LoopState) -> bool:
    """Return whether an agent was working when the run was killed."""
    trees = trees_of(run)
    return trees is not None and trees.blame == "agent" and run.phase == "running"


def changed_by_cut_turn(before: StoredRun, services: Services) -> tuple[str, ...]:
    """Return protected files that differ, if an agent was working when its run was killed; else
    nothing."""
    if not _was_cut(before.run):
        return ()
    from little_loops.engine.run_trees import (
        changed_since_start,  # loops without agents pay nothing
    )

    try:
        return changed_since_start(before.loop, before.run, before.files, services.environ)
    except StorageError as error:
        services.warn(
            "warning: an agent's turn was interrupted, and what it changed is not known:"
            f" {error.message}; this run starts with those changes; review them with `git diff`"
        )
        return ()


def report_crash(before: StoredRun, services: Services) -> None:
    """Notify people if the process of a run is gone, whose claim nobody else holds."""
    wanted = before.loop.notify or mentions(user_config(services.environ), NOTIFY)
    if before.run.status == "running" and wanted:
        from little_loops.engine.crash_reports import report_crash  # few users are notified

        report_crash(before.files, before.loop, before.run, services.environ)


def _refuse_early(request: RunRequest, services: Services) -> None:
    """Raise `UsageError` before queueing if the name has an unfinished run: waiting would be in
    vain."""
    if alive(request.root, request.name) is None and not request.fresh:
        before = current(request.root, request.name)
        if before is not None and before.run.status in UNFINISHED:
            report_crash(before, services)
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
    from little_loops.runs import refusals  # only to refuse

    why = refusals.unfinished(name, run.status, run.current_state, has_file=has_file)
    return UsageError(*why)


def clock_for(services: Services, before_ms: int) -> RunClock:
    """Return the clock of a run that has run for `before_ms`. It stops while Ctrl-Z suspends us."""
    clock = services.clock(before_ms)
    if services.stop is not None:
        clock.leave_out(services.stop.suspended_ms)
    return clock


# ── carrying out ───────────────────────────────────────────────────────────────────────────────


def carry_out(
    loop: FSMLoop,
    run: LoopState,
    happening: Happening,
    request: RunRequest,
    services: Services,
    writer: RunWriter,
    clock: RunClock,
    *,
    is_redefined: bool = False,
    rules: SpendingRules | None = None,
    imported: Imported | None = None,
    place: str | None = None,
    worktree: WorktreePlace | None = None,
) -> RunOutcome:
    """Drive a run from `happening` to its ending, save it, and archive it if it is over.

    `is_redefined`: it was resumed with another definition; `imported`: what it lacks; `place`: where
    it works, if that is not the project, and its own `worktree`. Raises `StorageError`; if the
    directory of runs was removed meanwhile, the processes of the run are ended first.
    """
    services = _with_ports(loop, worktree, services)
    redirect = _redirect(loop, request.root, place, services)
    masker = Masker({**services.environ, **written_env(loop)})
    if services.owns_process:
        process_tree.adopt_orphans()
    with ExitStack() as stack:
        log = writer.open_log()
        stack.callback(os.close, log)
        event_hooks = _event_hooks(
            loop, request.root, place or request.root, redirect, services, stack
        )
        notifier = _notifier(loop, run, place, services, writer.files, masker, stack)
        beside = [each for each in (event_hooks, notifier) if each is not None]
        keeper = _log_keeper(log, writer.files.shown_name, loop, run, masker)
        onlookers = Observers([keeper, *beside, *services.onlookers])

        def workplace() -> Workplace:
            """Create the workplace; its files are closed when the run ends."""
            session = SessionNote(writer.data)
            stack.callback(session.close)
            output = RunOutput(writer.data, masker)
            stack.callback(output.close)
            at = _workplace(run.run, request, services, writer, onlookers, output, session)
            return at._replace(project=place or request.root, redirect=redirect)

        _begin_beside_edits(request, run, services)
        if run.seq:
            rescue(writer.data, run.step, run.attempt)
        if run.children is not None:
            onlookers.continues(run.children)

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
                place=place,
                is_working=True,
            )
            stack.callback(opened.close, services.stop)
            return opened

        gate = None
        if rules is not None:
            from little_loops.engine.gate import (
                AgentAdmission,  # few users have set limits on agents
            )

            gate = AgentAdmission(rules, request.root, over_budget=request.over_budget)
            stack.callback(gate.release)
        world = LocalWorld(
            loop,
            writer,
            workplace,
            clock,
            masker,
            onlookers,
            services,
            trees,
            gate,
            beside,
            imported,
        )
        world.request = request
        world.place, world.worktree = place or request.root, worktree
        try:
            run, ending = services.drive(loop, run, happening, world)
        except StorageError as error:
            if writer.folder.is_in_place():
                raise
            end_processes(world, run)  # no resume will find them
            raise _removed(writer) from error
        world.end_work()
        permit = gate.hand_over() if gate is not None and ending.spawn else None
    if ending.status == "completed" and any(each.agent for each in run.captured.values()):
        from little_loops.engine.metering import record_pass  # only agents cost anything

        record_pass(loop, run, ending, request.root, services.environ)
    writer.save(run, sync=True)
    completed = loop.name if ending.status == "completed" else None
    _end_beside_edits(request, run, completed, services)
    # The files of a child stay with those of its parent.
    is_over = run.status in ARCHIVED and not writer.files.below
    past = _archive_run(request, services, writer) if is_over else None
    return RunOutcome(run, ending, past or writer.files, permit, notifier)


def _redirect(loop: FSMLoop, root: str, place: str | None, services: Services) -> Redirect:
    """Return what makes programs use the files in `place`, if that is in a worktree of the project
    `root`. If that cannot be done, it warns, unless `setup` of the worktree may have done it."""
    if place is None or place == root:
        return dict
    from little_loops.trees.python_paths import INSTALL, StandIn  # few runs have worktrees

    stand_in = StandIn.of(root, place)
    has_setup = loop.worktree is not None and loop.worktree.setup is not None
    said: set[str] = set()

    def redirect(environ: Mapping[str, str]) -> dict[str, str]:
        found = stand_in.environment(environ)
        why = None if has_setup or not os.path.isdir(place) else stand_in.leads_back(found)
        if why is not None and why not in said:
            said.add(why)
            services.warn(f"warning: in the worktree, {why}; {INSTALL}")
        return found

    return redirect


def _with_ports(loop: FSMLoop, worktree: WorktreePlace | None, services: Services) -> Services:
    """Return the services with the ports of the run's worktree in its environment."""
    if worktree is None:
        return services
    from little_loops.engine.worktree_runs import variables  # few runs have worktrees

    ports = variables(loop.worktree, worktree)
    return services._replace(environ={**services.environ, **ports})


def _event_hooks(
    loop: FSMLoop,
    root: str,
    place: str,
    redirect: Redirect,
    services: Services,
    stack: ExitStack,
) -> EventHooks | None:
    """Return the commands that run beside a run of the project `root`, which works in `place`; None
    if the loop has none. They end with the run."""
    if loop.hooks is None or not loop.hooks.events:
        return None
    from little_loops.engine.event_hooks import EventHooks  # few loops have hooks

    cwd = os.path.join(place, loop.cwd or "")
    environ = inherited({**services.environ, "LL_LOOP": loop.name, "LL_PROJECT": root})
    hooks = EventHooks(
        loop.hooks.events,
        loop.shell,
        cwd,
        lambda: redirect(environ),
        services.warn,
        services.stop,
    )
    stack.callback(hooks.close)
    return hooks


def _notifier(
    loop: FSMLoop,
    run: LoopState,
    place: str | None,
    services: Services,
    files: RunFiles,
    masker: Masker,
    stack: ExitStack,
) -> Notifier | None:
    """Return who sends the notifications of the run; None if nobody wants any, or if another run
    started this one, because that one sends its own.

    An error ends what is being sent; otherwise that is left to the caller, because other runs
    should not wait for it.
    """
    if not loop.notify and not mentions(user_config(services.environ), NOTIFY):
        return None
    if files.below or nesting(services.environ).runs:
        return None
    from little_loops.engine.notifying import notifier_for  # few users are notified

    cwd = os.path.join(place or files.root, loop.cwd or "")
    notifier = notifier_for(loop, run, cwd, services, masker)
    if notifier is not None:
        stack.push(lambda kind, *_: notifier.close() if kind is not None else None)
    return notifier


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
        f"`{place}` was removed while `{writer.files.name}` was running, and the run's files with it",
        f"`git clean -fdx` removes it; `git clean -fdx -e {place}` does not",
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
        inherited({**services.environ, **nested, "PATH": path, "LL_PROJECT": request.root}),
        stop=services.stop,
        onlookers=onlookers,
        output=output,
        skip_permissions=request.skip_permissions,
        on_started=session.keep,
        scanner=services.scanner,
    )


def after_release(
    ran: RunOutcome, loop: FSMLoop, request: RunRequest, services: Services
) -> RunOutcome:
    """Do what is left when the claim is released: if the ending asks for a fresh session, start it
    and record its cost; then wait for notifications. Return `ran` unchanged."""
    try:
        if ran.ending.spawn and not (services.performers and services.handoff is None):
            _start_session(ran, loop, request, services)
    finally:
        if ran.permit is not None:
            ran.permit.close()
        if ran.notifier is not None:
            ran.notifier.close()
    return ran


def _start_session(ran: RunOutcome, loop: FSMLoop, request: RunRequest, services: Services) -> None:
    """Start the session that continues a run after a handoff, with what the run's permit allows, and
    record its cost. Raises `ProgramError` if its program cannot start."""
    # Only a handoff starts sessions.
    from little_loops.engine.handoff_handler import SPAWNING
    from little_loops.engine.metering import record_session
    from little_loops.engine.spawn_session import Spawner
    from little_loops.fsm.spending import SESSION_USD, session

    permit = ran.permit
    kept_open = () if permit is None else permit.kept_open
    receipt = session(loop, ran.run, None if permit is None else permit.usd)
    most_usd = SESSION_USD if receipt is None else receipt.cost_usd
    options = loop.host.under(loop.states[ran.run.current_state].host)
    # The same run continues, so the consent for it still applies.
    agreed = {"LL_ALLOW_SKIP_PERMISSIONS": "1"} if request.skip_permissions else {}
    environ = {**services.environ, **agreed}
    spawner = Spawner(ran.files, options, environ, ran.run.seq, kept_open, most_usd)
    handler = (services.handoff or SPAWNING).started_by(spawner.start)
    handler.handle(ran.files.name, ran.run.continuation_prompt)
    record_session(loop, ran.run, request.root, options, services.environ, permit)


def _log_keeper(log: int, name: str, loop: FSMLoop, run: LoopState, masker: Masker) -> Reporter:
    """Return an observer that writes the lines of the run and all output to the log, secrets
    masked."""

    def write(text: str) -> None:
        os.write(log, text.encode("utf-8", "replace"))

    teller = PlainLines(loop.name, iterations_allowed(loop, run), commands=True, name=name)
    return Reporter(write, teller, masker, output=True)
