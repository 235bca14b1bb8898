"""A run that another run started, in the process that was forked for it.

It is started or resumed like any run, except that it works under the claim of the root, asks for
nothing, and is not archived. Its lines go to its parent. When its parent is gone, it stops.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from little_loops import __version__
from little_loops.engine import lifecycle
from little_loops.engine.drive import NO_LIMITS, new_run
from little_loops.engine.local_world import Services
from little_loops.fsm.branching import action_loop, protected_alike, shares_tree, without_evidence
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    ChildEnd,
    Cost,
    Entry,
    Event,
    FinalEvent,
    TransitionTaken,
)
from little_loops.fsm.happenings import Resumed, Started
from little_loops.fsm.limits import cost_allowed_usd, iterations_allowed
from little_loops.fsm.schema import ChildLimits, FSMLoop, StateConfig, Worktree, worktree_of
from little_loops.fsm.spending import owed
from little_loops.fsm.state import Limits, LoopState
from little_loops.fsm.values import written_env
from little_loops.light_typing import TYPE_CHECKING, Any, get_args
from little_loops.records import NamedTuple
from little_loops.reporting.held_end import Mark, WithVerdict
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.reporting.reporter import Reporter
from little_loops.runs import storage
from little_loops.runs.child_runs import answered_children, write_pid
from little_loops.runs.claims import nested_in, nesting
from little_loops.runs.imported import read_imported
from little_loops.runs.layout import RunFiles
from little_loops.runs.stored_run import StoredRun
from little_loops.spending.shares import Share, begin, settle, share_name
from little_loops.system.files import to_json
from little_loops.system.process_tree import adopt_orphans
from little_loops.system.stops import STOPS, StopFlag, listen
from little_loops.templates.splice import with_data

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld
    from little_loops.engine.resolve import Values
    from little_loops.engine.worktree_runs import WorktreePlace

EVERYTHING = (".",)
ALONE_S = 1.2
"""How long a child that has lost its parent gives its action before ending it immediately. It has two
such rounds before `runs.child_runs.LAST_WAIT_S` is over."""


class ChildSpec(NamedTuple):
    """What a child is to do; `stored` is what its files say, None for a new run.

    `parent` is the run that starts it, in its state `state`. `data` are the names of values in
    `context` that are data. `step` is what it runs: the state, or one of its branches; `outer` are
    the values of the state, if that is an action. `lock` is the descriptor of its `.pid` file, locked.
    `run_id` is chosen by whoever starts it from elsewhere; `most` is what the runs above leave to
    one that cannot share their limits.
    """

    parent: LoopState
    state: str
    name: str
    files: RunFiles
    stored: StoredRun | None
    lock: int
    context: Mapping[str, Any]
    data: tuple[str, ...]
    step: StateConfig
    outer: Values | None = None
    run_id: str | None = None
    most: Limits = NO_LIMITS


Onlooker = Callable[[FSMLoop, LoopState], Observer]
"""Returns who follows the run of a child, with this machine."""


def run_child(world: LocalWorld, spec: ChildSpec, pipe: int, life: int) -> None:
    """Carry out a child's run to its end. Its lines go to `pipe`; the end of `life` means that its
    parent is gone."""
    stop = StopFlag()
    listen(stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_stop_when_alone, args=(life,), daemon=True).start()
    if world.services.owns_process:
        adopt_orphans()  # programs start faster then, those that prepare the child, too
    services = services_of_child(world, spec, stop)._replace(
        warn=lambda line: _send(pipe, line), shares=_shares(world, spec)
    )
    carry_out_child(world, spec, services, partial(_lines_of, spec, pipe, services.environ))


def services_of_child(world: LocalWorld, spec: ChildSpec, stop: StopFlag | None) -> Services:
    """Return what a child needs from its process, which is not that of its parent."""
    outer = world.services
    return Services(
        {**outer.environ, **nested_in(spec.parent.run, nesting(outer.environ))},
        stop,
        owns_process=outer.owns_process,
        performers=outer.performers,
        clock=outer.clock,
        scanner=outer.scanner,
        outer=spec.outer,
    )


def carry_out_child(
    world: LocalWorld, spec: ChildSpec, services: Services, onlooker: Onlooker
) -> None:
    """Start or resume a child in the world of its parent, and carry it out to its end."""
    if spec.stored is None:
        _start(world, spec, services, onlooker)
    else:
        _resume(world, spec, spec.stored, services, onlooker)


def _shares(world: LocalWorld, spec: ChildSpec) -> tuple[Share, ...]:
    """Return the limits above a child: those above its parent, and the parent's own, if any."""
    loop, run = world.loop, spec.parent
    name = share_name(spec.files)
    above = tuple(each._replace(path=f"{each.path}/{name}") for each in world.services.shares)
    has_tokens = loop.max_tokens is not None or run.limits.max_tokens is not None
    if cost_allowed_usd(loop, run) is None and not has_tokens:
        return above
    return (*above, Share(world.run_dir, name))


def _stop_when_alone(life: int) -> None:
    """Ask this process to stop when its parent is gone; soon after, to stop at once."""
    with suppress(OSError):
        os.read(life, 1)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ALONE_S)


class LinesToParent(Reporter):
    """Sends the plain lines of a child, and of its own children, to its parent."""

    def __init__(self, pipe: int, teller: PlainLines, masker: Masker) -> None:
        super().__init__(self._write_lines, teller, masker, output=True)
        self._pipe = pipe
        self._half = ""
        self._spent_usd = 0.0

    def records(self, entries: Sequence[Entry]) -> None:
        super().records(entries)
        costs = [each.event.cost_usd for each in entries if isinstance(each.event, Cost)]
        if costs:
            self._spent_usd += sum(costs)
            _send(self._pipe, "", used=(self._spent_usd,))

    def below(self, child: str, text: str) -> None:
        _send(self._pipe, text, child)

    def _queue_lines(self, shown: WithVerdict) -> None:
        """Send a line about the end of a branch as one of that branch."""
        if not isinstance(shown[0], ChildEnd):
            super()._queue_lines(shown)
            return
        self._flush()
        for line in self._lines(*shown):
            path, is_marked, text = line.removeprefix("[").partition("] ")
            self.below(path if is_marked else "", text if is_marked else line)

    def _write_lines(self, text: str) -> None:
        """Send complete lines; keep an incomplete one."""
        whole, newline, self._half = (self._half + text).rpartition("\n")
        if newline:
            _send(self._pipe, whole)


def _send(pipe: int, text: str, path: str = "", used: tuple[float, ...] = ()) -> None:
    """Send lines to the parent, unless that is gone; `path` is that of an inner child. `used` is
    what this one has spent so far."""
    data = to_json([path, text, *used]) + b"\n"
    with suppress(OSError):
        while data:
            data = data[os.write(pipe, data) :]


def _start(world: LocalWorld, spec: ChildSpec, services: Services, onlooker: Onlooker) -> None:
    """Start a child from its beginning."""
    loop = child_machine(world, spec)
    request = world.own_request()._replace(over_budget=False, limits=Limits(), from_state=None)
    worktree = _worktree_for(world, spec)
    place = world.place if worktree is None else worktree.project
    clock = lifecycle.clock_for(services, 0)
    context = {**loop.context, **with_data(spec.context, spec.data)}
    rules = lifecycle.rules_for(loop, context, request, services)
    is_own = spec.step.loop is not None or loop.evidence.enabled is not False
    is_kept = is_own and not shares_tree(world.loop.states[spec.state])
    run = new_run(
        loop,
        spec.run_id or lifecycle.new_run_id(),
        clock.now(),
        context=context,
        # A loop that does not limit its scope works on that of its parent.
        scope=spec.parent.scope if loop.scope == EVERYTHING else None,
        limits=lowered(loop, _limits_of(spec), spec.most),
        # That of branches which share files, and of single actions there, is kept by their parent.
        evidence=lifecycle.evidence_of(loop, request, services) if is_kept else None,
        metered=rules is not None,
    )
    kept: dict[str, Any] = {
        "run": run.run,
        "loop": loop.to_dict(),
        "context": dict(run.context),
        "version": __version__,
    }
    kept["parent"] = {"run": spec.parent.run, "state": spec.state, "child": spec.name}
    if spec.data:
        kept["data"] = list(spec.data)
    if worktree is not None:
        kept["worktree"] = worktree.written()
    with ExitStack() as stack:
        sealing = lifecycle.sealing_of(run, request, services)
        writer = storage.create_in(spec.files, kept, sealing)
        stack.callback(writer.close)
        write_pid(spec.lock, spec.files, run)
        services = services._replace(onlookers=[onlooker(loop, run)])
        begin(services.shares)
        started = Started(clock.now())
        lifecycle.carry_out(
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


def _worktree_for(world: LocalWorld, spec: ChildSpec) -> WorktreePlace | None:
    """Return the place for the worktree of a child; None if it works where its parent does."""
    if worktree_of(world.loop.states[spec.state]) is None:
        return None
    from little_loops.engine.worktree_runs import choose_place  # few runs have worktrees

    if _is_resolver(spec):
        from little_loops.engine.resolving import place_to_resolve  # few branches are in conflict

        return place_to_resolve(world, spec.parent)
    root = os.path.realpath(world.own_request().root)
    parent, name = spec.parent, spec.name
    owner = f"{world.own_request().name}/{name}"
    environ = world.services.environ
    return choose_place(root, world.place, parent.loop, parent.run, name, owner, environ)


def _resume(
    world: LocalWorld,
    spec: ChildSpec,
    stored: StoredRun,
    services: Services,
    onlooker: Onlooker,
) -> None:
    """Continue a child where it was interrupted or paused."""
    from little_loops.engine import resuming  # most children are only started

    given = world.own_request()
    request = given._replace(limits=Limits(), from_state=None, context={})
    loop, run = stored.loop, stored.run
    with ExitStack() as stack:
        writer = storage.reopen_in(
            spec.files,
            stored.stamps,
            has_snapshot=stored.has_snapshot,
            end=stored.end,
            sealing=lifecycle.sealing_of(run, request, services),
        )
        stack.callback(writer.close)
        write_pid(spec.lock, spec.files, run)
        answer = resuming.answer_for(run, loop, writer.data, None) if run.children is None else None
        orphans = resuming.end_orphans(run, loop, writer, services)
        clock = lifecycle.clock_for(
            services, run.ran_ms + resuming.unrecorded_ms(run, stored.files)
        )
        lost = resuming.lost_turn(run, loop, writer)
        if lost is not None:
            from little_loops.engine.metering import record_lost_turn  # only agents cost anything

            record_lost_turn(loop, run, request.root, lost, services.environ)
        rules = lifecycle.rules_for(loop, run.context, request, services)
        services = services._replace(onlookers=[onlooker(loop, run)])
        begin(services.shares)
        if (spent := owed(loop, run, lost)) is not None:  # the resume records the same
            settle(services.shares, spent.cost_usd, spent.tokens)
        answered = () if run.children is None else answered_children(spec.files, run.children)
        resumed = Resumed(
            clock.now(),
            orphans,
            lost=lost,
            metered=rules is not None,
            answer=answer,
            over_budget=request.over_budget,
            answered=answered,
            used=resuming.used_below(run, spec.files),
        )
        worktree = resuming.worktree_place(stored)
        lifecycle.carry_out(
            loop,
            run,
            resumed,
            request,
            services,
            writer,
            clock,
            rules=rules,
            imported=read_imported(spec.files),
            place=world.place if worktree is None else worktree.project,
            worktree=worktree,
        )


def child_machine(world: LocalWorld, spec: ChildSpec) -> FSMLoop:
    """Return the loop of a child. A handoff pauses it, because only the root starts sessions."""
    state = world.loop.states[spec.state]
    # Whether a branch fits now is seen when it is merged: no agent is asked for that.
    judged = StateConfig(next=spec.state) if _is_resolver(spec) else state
    loop = spec.step.loop or action_loop(world.loop, judged, spec.step, spec.name)
    if shares_tree(state):
        loop = without_evidence(loop)
    apart = worktree_of(state) is not None
    loop = protected_alike(loop, world.loop.evidence, apart=apart)
    loop = loop._replace(worktree=_prepared_by_child(world, spec))
    return loop._replace(on_handoff="pause") if loop.on_handoff == "spawn" else loop


def _prepared_by_child(world: LocalWorld, spec: ChildSpec) -> Worktree | None:
    """Return the worktree that a child prepares for itself. Merging and removing it is left to its
    parent, which has chosen the commit that it starts from."""
    worktree, train = worktree_of(world.loop.states[spec.state]), spec.parent.train
    if worktree is None or train is None:
        return None
    setup = None if _is_resolver(spec) else worktree.setup  # it has run there
    return worktree._replace(
        from_=train.base,
        setup=setup,
        merge="none",
        check=None,
        resolve=None,
        tries=1,
        keep="always",
    )


def _is_resolver(spec: ChildSpec) -> bool:
    """Return whether a child resolves a branch that cannot be merged."""
    train = spec.parent.train
    return train is not None and train.resolving == spec.name


def _limits_of(spec: ChildSpec) -> ChildLimits:
    """Return what the state allows its child; its `timeout` is one for the child's run."""
    limits = spec.step.limits or ChildLimits()
    times = [each for each in (limits.timeout, spec.step.timeout) if each is not None]
    return limits._replace(timeout=min(times, default=None))


def lowered(loop: FSMLoop, limits: ChildLimits, most: Limits = NO_LIMITS) -> Limits:
    """Return limits that lower those of the loop, and are not above `most`; a limit that the loop
    does not exceed stays its own."""
    costs = [each for each in (limits.max_cost_usd, most.max_cost_usd) if each is not None]
    return Limits(
        max_iterations=_lower(loop.max_iterations, limits.max_iterations),
        timeout=_lower(loop.timeout, limits.timeout),
        max_cost_usd=_lower(loop.max_cost_usd, min(costs, default=None)),
        max_tokens=_lower(loop.max_tokens, most.max_tokens),
    )


def _lower(own: float | None, given: float | None) -> Any:
    return None if given is None or (own is not None and own <= given) else given


class BranchLines(PlainLines):
    """The lines of a branch. That it has ended, its parent says; of an action, only output and
    failures are shown."""

    hidden: tuple[type, ...] = ()

    def lines(self, event: Event, mark: Mark | None = None) -> list[str]:
        has_failed = isinstance(event, ActionComplete) and mark == "bad"
        is_hidden = isinstance(event, self.hidden) and not has_failed
        return [] if is_hidden else super().lines(event, mark)


def _lines_of(
    spec: ChildSpec, pipe: int, environ: Mapping[str, str], loop: FSMLoop, run: LoopState
) -> LinesToParent:
    """Return an observer that sends the lines of the run to its parent."""
    most, name = iterations_allowed(loop, run), spec.files.shown_name
    teller = PlainLines(loop.name, most, name=name)
    if spec.parent.children is not None and spec.parent.children.several:
        teller = BranchLines(loop.name, most, name=name)
        of_action = (ActionStart, ActionComplete, ActionInterrupted, TransitionTaken)
        teller.hidden = (*get_args(FinalEvent), *(of_action if spec.step.loop is None else ()))
    return LinesToParent(pipe, teller, Masker({**environ, **written_env(loop)}))
