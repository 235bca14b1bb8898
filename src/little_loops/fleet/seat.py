"""The process that holds a run on a worker: the engine of this computer, decided for elsewhere.

It starts or resumes the run in its clone as always, with the same performers, files and claims. Only
its main loop is another one: the workflow decides, from the same happenings and by the same
`advance`, and sends an order for each action. What leads to the next one, such as a judgement or a
snapshot, is an order of its own.

    worker → seat    {"order": 7, "steps": [{}, {"happening": …, "notes": […]}]}
    seat → worker    {"happenings": […], "filled": {…}, …}

Each step is advanced with the last happening of this process, or with the given one; the command
of the last step is carried out.

A run that another one has started has a process and a clone of its own, here or on another worker
(`seat_children`). When it has ended, the process of the run that started it gets an order for that.

Not here: the clone and its checkpoints (`workspace`), connecting to Temporal (`worker`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from little_loops import __version__
from little_loops.engine.hooks import Tail
from little_loops.engine.lifecycle import ARCHIVED, RunRequest, sealing_of, start
from little_loops.engine.local_world import LocalWorld, Services
from little_loops.engine.request_data import request_from
from little_loops.engine.worktree_runs import problem_of, run_script
from little_loops.errors import LittleLoopsError
from little_loops.fleet import seat_children
from little_loops.fleet.channel import Channel, WorkerGone
from little_loops.fleet.consent import consent_for
from little_loops.fleet.names import checkpoints_of_child
from little_loops.fleet.outputs import has_whole_output
from little_loops.fleet.seat_children import folder_of, parent_of, take_in
from little_loops.fleet.snapshots import adopt, store_at
from little_loops.fleet.workspace import Checkpoint, ClonePlace, LostClaim, RunClone
from little_loops.fsm.codec import decode_happening, encode_happening, from_record
from little_loops.fsm.commands import (
    AskJudge,
    CheckMerged,
    CollectJudge,
    Command,
    Ending,
    EndLeftovers,
    Finish,
    PrepareWorktree,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    Wait,
)
from little_loops.fsm.events import ActionStart, Entry
from little_loops.fsm.happenings import (
    SETUP_FAILED,
    CannotContinue,
    ChildEnded,
    Happening,
    SnapshotTaken,
    StopAsked,
)
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.machine import Step, advance
from little_loops.fsm.next_action import side_job
from little_loops.fsm.plain import decode, masked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Answer, LoopState, Note
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.observers import Observer
from little_loops.runs import storage
from little_loops.runs.answers import settled_answer
from little_loops.runs.folders import data_of
from little_loops.runs.layout import RunFiles
from little_loops.runs.stored_run import find
from little_loops.system import process_tree
from little_loops.system.stops import StopFlag, listen

ACTIONS = (
    RunShell,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    AskJudge,
    CollectJudge,
    CheckMerged,
    PrepareWorktree,
)
"""After one of these, the workflow decides how to continue."""
BEGIN_ORDERS = (*ACTIONS, Wait, Finish)
"""Also before one of these, so that `status` shows what the run is doing, not what it did before."""
ALONE_S = 1.2
"""How long the action has to end after the worker is gone, before it is killed."""


class FilledTexts(Observer):
    """Remembers the texts of actions with their values, secrets masked, by the numbers of their
    events."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}

    def record(self, entry: Entry) -> None:
        if isinstance(entry.event, ActionStart) and entry.event.filled is not None:
            self.texts[entry.seq] = entry.event.filled

    def take(self) -> dict[str, str]:
        found, self.texts = self.texts, {}
        return {str(seq): text for seq, text in found.items()}


class Conditions(NamedTuple):
    """What a worker asks of a run that it takes up: the `setup` of its workspace, and `refusal`, why
    its agents may not work here."""

    worker: str
    setup: str | None = None
    refusal: str | None = None


class Orders:
    """The main loop of a run whose decisions are made by its workflow."""

    def __init__(
        self,
        channel: Channel,
        workspace: RunClone,
        claim: int,
        filled: FilledTexts,
        stop: StopFlag,
        stored: Sequence[Mapping[str, Any]],
        conditions: Conditions,
    ) -> None:
        """`stored` are the happenings that a checkpoint has, of an order whose worker was lost."""
        self._channel = channel
        self._workspace = workspace
        self._claim = claim
        self._filled = filled
        self._stop = stop
        self._stored = stored
        self._conditions = conditions
        self._arrived: Mapping[str, Any] | None = None
        self.order = 0
        self.run_dir = self._root = ""
        self.ended: Ending | None = None
        self._stored_trees: set[tuple[str | None, ...]] = set()

    def drive(
        self, loop: FSMLoop, run: LoopState, happening: Happening, world: LocalWorld
    ) -> tuple[LoopState, Ending]:
        """Carry out orders until one of them finishes the run."""
        files = world.writer.files
        self.run_dir, self._root = folder_of(files), files.root
        first = [decode_happening(each) for each in self._stored] or [happening]
        for each in first[:-1]:
            run = _take(world, advance(loop, run, each))
        before = run
        if (obstacle := self._prepare(loop, run, first[-1], world)) is not None:
            run = _take(world, advance(loop, run, first[-1]))
            first.append(obstacle)
        reply: dict[str, Any] = {
            "run": before.to_dict(),
            "happenings": [encode_happening(each) for each in first],
            **_about_child(loop, files),
        }
        happening = first[-1]
        while True:
            order = self._exchange(reply)
            run, command = _follow(loop, run, happening, order, world)
            if isinstance(command, Finish):
                self.ended = command.ending
                return run, command.ending
            if order.get("signal"):
                self._stop.ask(order["signal"])
            self._arrived = order.get("arrived")
            run, done = _perform(loop, run, command, world)
            happening = done[-1]
            reply = {"happenings": [encode_happening(each) for each in done]}
            reply |= self._keep(reply, done, is_base=_starts_children(loop, run, happening))
            self._forget(done)

    def _prepare(
        self, loop: FSMLoop, run: LoopState, first: Happening, world: LocalWorld
    ) -> CannotContinue | StopAsked | None:
        """Run `setup`, unless the run ends anyway, or its agents may not work here. Return what keeps
        it from continuing."""
        if isinstance(advance(loop, run, first).command, EndLeftovers):
            return None
        asked = self._conditions
        if asked.refusal is not None:
            return CannotContinue(world.clock.now(), "consent", asked.refusal)
        if asked.setup is None:
            return None
        return _set_up(loop, run, asked.setup, asked.worker, world)

    def run_children(self, world: LocalWorld, run: LoopState, command: RunChildren) -> Happening:
        """Take in a run that has ended elsewhere. Those that work in worktrees of this clone are
        carried out here."""
        if self._arrived is None:
            return world.children.carry_out(run, command)
        return take_in(world, command, self._arrived, self._workspace)

    def _forget(self, done: Sequence[Happening]) -> None:
        """Delete the checkpoints of a run that is over, now that those of this run have all of it."""
        arrived, ended = self._arrived, done[-1]
        if arrived is not None and isinstance(ended, ChildEnded):
            if ended.outcome.status not in UNFINISHED:
                self._workspace.forget(arrived["checkpoints"])

    def _exchange(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the last order, and return the next one."""
        self._channel.send({**reply, "filled": self._filled.take()})
        order = self._channel.receive()
        self.order = order["order"]
        return order

    def _keep(
        self, result: Mapping[str, Any], done: Sequence[Happening], *, is_base: bool
    ) -> dict[str, Any]:
        """Push a checkpoint with the result if the files have changed, or if runs begin with it.
        Return what the workflow must know of it."""
        self._channel.check()
        # New snapshots are needed wherever the run continues, whole outputs wherever it is read.
        taken = {_identity(each) for each in done if isinstance(each, SnapshotTaken)}
        has_child = isinstance(done[-1], ChildEnded)
        always = not taken <= self._stored_trees or has_whole_output(done) or has_child or is_base
        store = store_at(self._root)
        made = self._workspace.checkpoint(
            self.run_dir, store, self._claim, self.order, result, always=always
        )
        if made is None:
            return {}
        self._stored_trees |= taken
        return _reported(made)


def _about_child(loop: FSMLoop, files: RunFiles) -> dict[str, Any]:
    """Return what the workflow of a run does not know if another run has started it."""
    if not files.below:
        return {}
    start = storage.read_start(files)
    kept = {name: start[name] for name in ("parent", "data") if name in start}
    return {"loop": loop.to_dict(), "start": kept}


def _starts_children(loop: FSMLoop, run: LoopState, happening: Happening) -> bool:
    """Return whether runs start next, which begin with the files as they are now."""
    ahead = advance(loop, run, happening).command
    return isinstance(ahead, RunChildren) and bool(ahead.start)


def _set_up(
    loop: FSMLoop, run: LoopState, setup: str, worker: str, world: LocalWorld
) -> CannotContinue | StopAsked | None:
    """Run `setup` where the run works. Return why it failed, or the stop that ended it."""
    left_ms = time_left_ms(loop, run, world.clock.now()) or None
    job, tail = side_job(loop, run, left_ms)._replace(deadline_of="loop"), Tail()
    ended = run_script(world, run, job, loop.shell, setup, tail)
    if isinstance(ended, StopAsked):
        return ended
    if problem := problem_of(ended, tail):
        why = f"{SETUP_FAILED} on `{worker}`: {problem}"
        return masked(CannotContinue(world.clock.now(), "error", why), world.masker.mask_excerpt)
    return None


def _identity(taken: SnapshotTaken) -> tuple[str | None, ...]:
    """Return what a snapshot has stored: two with the same need to be pushed only once."""
    return taken.tree, taken.project, taken.guard, taken.original


def _reported(made: Checkpoint) -> dict[str, Any]:
    """Return what the workflow must know of a checkpoint."""
    return {"checkpoint": made.commit, "files": made.files, "left_out": list(made.left_out)}


def _take(world: LocalWorld, step: Step) -> LoopState:
    """Record a step in the files of the run. Return the run after it."""
    world.emit(step)
    world.save(step.run)
    return step.run


def _follow(
    loop: FSMLoop,
    run: LoopState,
    happening: Happening,
    order: Mapping[str, Any],
    world: LocalWorld,
) -> tuple[LoopState, Command]:
    """Advance the run as the workflow did. Return it, and the command to carry out."""
    command: Command | None = None
    for given in order["steps"]:
        if "happening" in given:
            happening = decode_happening(given["happening"])
        notes = tuple(decode(Note, each) for each in given.get("notes", ()))
        step = advance(loop, run, happening, notes)
        run, command = _take(world, step), step.command
    assert command is not None, "an order has a step"
    return run, command


def _perform(
    loop: FSMLoop, run: LoopState, command: Command, world: LocalWorld
) -> tuple[LoopState, list[Happening]]:
    """Carry out a command, and what follows it up to the next action. Return the run, and what
    happened; the last happening is not in the run yet."""
    done: list[Happening] = []
    while True:
        happening = masked(world.perform(run, command), world.masker.mask_excerpt)
        done.append(happening)
        if isinstance(command, ACTIONS):
            return run, done
        ahead = advance(loop, run, happening)
        if isinstance(ahead.command, BEGIN_ORDERS):
            return run, done
        run, command = _take(world, ahead), ahead.command


# ── the process ────────────────────────────────────────────────────────────────────────────────


def main(silence_s: float) -> int:
    """Hold the run that the worker describes, until it ends or the worker is gone."""
    channel = Channel(*_streams(), silence_s)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopFlag()
    listen(stop)
    channel.listen(_end_alone)
    try:
        channel.send(_held(channel.receive(), channel, stop))
    except WorkerGone:
        return 1
    except LostClaim as error:
        with suppress(WorkerGone):
            channel.send({"lost": error.message})
    except LittleLoopsError as error:
        with suppress(WorkerGone):
            channel.send({"error": error.message, "help": error.help, "exit_code": error.exit_code})
    return 0


def _streams() -> tuple[int, int]:
    """Keep the standard streams for messages: what else this process prints must not be among
    them."""
    reading, writing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    os.close(null)
    return reading, writing


def _held(given: dict[str, Any], channel: Channel, stop: StopFlag) -> dict[str, Any]:
    """Prepare the clone, carry out the run, and return the last answer."""
    request = request_from(given["request"])
    files = files_of(given)
    loop = machine_of(given)
    place = ClonePlace(given["folder"], loop.name, checkpoints_of(given), tuple(given["scope"]))
    workspace = RunClone(place, os.environ)
    stored = prepare(workspace, given, files)
    workspace.fence(given["claim"])
    conditions, skips = _conditions(given, loop, request)
    request = request._replace(skip_permissions=skips)
    channel.send({"prepared": workspace.last.commit})
    filled = FilledTexts()
    orders = Orders(channel, workspace, given["claim"], filled, stop, stored, conditions)
    services = Services(
        {**os.environ, "LL_PROJECT": request.root},
        owns_process=True,
        stop=stop,
        onlookers=[filled],
        warn=lambda line: None,
        drive=orders.drive,
        performers={RunChildren: orders.run_children},
    )
    os.chdir(request.root)
    last: dict[str, Any] = {}
    try:
        run_dir = _carry_out(given, loop, request, services, files)
    except LittleLoopsError as error:
        if orders.ended is None:
            raise
        last["warning"] = error.message  # the run has recorded its ending
        run_dir = orders.run_dir
    store = store_at(request.root)
    workspace.checkpoint(run_dir, store, given["claim"], orders.order, {}, always=True)
    workspace.close()
    is_over = orders.ended is not None and orders.ended.status in ARCHIVED
    if is_over and not files.below:
        last["branch"] = workspace.publish()
    return {**last, **_reported(workspace.last), "filled": filled.take()}


def checkpoints_of(given: Mapping[str, Any]) -> str:
    """Return under which name the run keeps its checkpoints."""
    child, run = given["child"], given["run"]
    return checkpoints_of_child(child["root"], run) if child else run


def files_of(given: Mapping[str, Any]) -> RunFiles:
    """Return the files of the run that a worker has claimed."""
    request, child = given["request"], given["child"]
    return RunFiles(request["root"], request["name"], below=tuple(child["below"]) if child else ())


def machine_of(given: Mapping[str, Any]) -> FSMLoop:
    """Return the machine that a run comes from: its own, or that of the run that has started it."""
    child = given["child"]
    return FSMLoop.from_dict(child["parent"]["loop"] if child else given["loop"])


def _conditions(
    given: Mapping[str, Any], loop: FSMLoop, request: RunRequest
) -> tuple[Conditions, bool]:
    """Return what this worker asks of the run, and whether its agents skip permission prompts."""
    child, worker = given["child"], given["worker"]
    state = child["parent"]["state"] if child else given["state"]
    before = {} if state is None else LoopState.from_dict(state).context
    context = {**before, **request.context}
    consent = consent_for(loop, context, request.root, given, os.environ)
    own = FSMLoop.from_dict(given["loop"]) if given["loop"] else loop
    inherited = child["setup"] if child else None
    setup = inherited if own.workspace is None else own.workspace.setup
    return Conditions(worker, setup, consent.refusal), consent.skips


def _carry_out(
    given: Mapping[str, Any],
    loop: FSMLoop,
    request: RunRequest,
    services: Services,
    files: RunFiles,
) -> str:
    """Start or continue the run, and carry it out. Return the directory of its files."""
    if files.below:
        seat_children.carry_out(given, request, services, files, services.onlookers[0])
        return folder_of(files)
    if given["verb"] == "start":
        return start(loop, request, services).files.data
    from little_loops.engine.resuming import resume  # a start needs none of it

    if answer := given.get("answer"):
        before = find(request.root, request.name)
        if before.run.children is None:  # else one of its children waits for it
            with data_of(before.files) as data:
                settled_answer(data, before.run, decode(Answer, answer))
    return resume(None, request, services).files.data


def prepare(
    workspace: RunClone, given: Mapping[str, Any], files: RunFiles
) -> list[Mapping[str, Any]]:
    """Bring the clone and the files of the run to where the workflow is. Return the happenings of
    the last order, if a checkpoint has its result."""
    url, claim, child = given["repository"], given["claim"], given["child"]
    published = workspace.published(url)
    if published and workspace.is_at(published, claim):
        return []
    if published:
        workspace.rebuild(url, published, claim)
    elif child is None:
        workspace.clone(url, given["commit"])
    else:
        workspace.begin_from(url, child["parent"]["checkpoints"])
    if child is not None:
        _plant_parent(workspace, child["parent"], parent_of(files))
    stored = workspace.restore(folder_of(files), store_at(files.root)) if published else None
    if given["state"] is not None:
        _plant(given, files)
        adopt(files, given["run"])
    if stored and workspace.last.order == given["order"]:
        found: list[Mapping[str, Any]] = stored.get("happenings", [])
        return found
    return []


def _plant(given: Mapping[str, Any], files: RunFiles) -> None:
    """Write the files of the run as the workflow has it."""
    run = LoopState.from_dict(given["state"])
    request = request_from(given["request"])
    storage.create_start(files, _start_of(given["loop"], run, given["start"]))
    sealing = sealing_of(run, request, Services(os.environ))
    for record in given["records"]:
        from_record(record)
    storage.plant(files, given["records"], run, sealing, "")


def _plant_parent(workspace: RunClone, parent: Mapping[str, Any], files: RunFiles) -> None:
    """Write the files of the run that has started this one."""
    workspace.restore_base(files.data)
    run = LoopState.from_dict(parent["state"])
    storage.create_start(files, _start_of(parent["loop"], run, parent["start"]))
    storage.plant(files, (), run, None, "")


def _start_of(
    loop: Mapping[str, Any], run: LoopState, more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what a run was started with, for its files."""
    kept = {"run": run.run, "loop": loop, "context": dict(run.context), "version": __version__}
    return kept | dict(more or {})


def _end_alone() -> None:
    """End this process and everything below it: the worker is gone."""
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ALONE_S)
    process_tree.sweep("", (), 0.0, roots=[os.getpid()])
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
