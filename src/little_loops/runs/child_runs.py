"""The runs that a run has started, as their files describe them.

A child has the same files as any run, in a directory of its parent's. It holds its own `.pid` file
while its process is alive; the claim on name and scope is that of the root.

Not here: starting children and waiting for them (`engine.children`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from little_loops.errors import StorageError
from little_loops.fsm.endings import is_gate
from little_loops.fsm.gates import is_answered
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.joins import CRASHED, ENDED
from little_loops.fsm.state import Children, Counted, LoopState
from little_loops.records import NamedTuple
from little_loops.runs.answers import read_answer
from little_loops.runs.folders import folder_of, make_folder_of
from little_loops.runs.holders import Holder, from_bytes, send, still_same, this_process, to_bytes
from little_loops.runs.layout import CHILD, DATA, PID, RunFiles, child_folder
from little_loops.runs.leftovers import end_leftovers, sessions_of
from little_loops.runs.stored_run import StoredRun, read_stored
from little_loops.system import process_tree
from little_loops.system.files import write_all
from little_loops.system.lock_files import held, hold

UNDER_WAY = ("running", "interrupted")
"""The status of a run that has not ended."""
LAST_WAIT_S = 3.0
"""How long a child has to notice that its parent is gone, before it is killed."""
LOOK_EACH_S = 0.02


class Child(NamedTuple):
    """A run that a state started: its name, its path below the parent, its files, and what they
    say, if anything."""

    name: str
    path: str
    files: RunFiles
    stored: StoredRun | None = None


def files_of(parent: RunFiles, children: Children, name: str) -> RunFiles:
    """Return the files of a child."""
    return parent.child(child_folder(children.step, children.attempt, name))


def unfinished_children(parent: RunFiles, children: Children) -> Iterator[Child]:
    """Yield the children that have begun and not ended, as far as the parent knows. One that cannot
    be read has no stored run."""
    begun = [
        name
        for name, stage in zip(children.names, children.stages, strict=True)
        if stage not in ENDED and stage != "waiting"
    ]
    if children.beside is not None:
        begun.append(children.beside.name)
    for name in begun:
        files = files_of(parent, children, name)
        yield Child(name, children.path(name), files, _stored(files))


def _stored(files: RunFiles) -> StoredRun | None:
    with suppress(StorageError):
        return read_stored(files)
    return None


def outcome_of(files: RunFiles, stored: StoredRun | None) -> ChildOutcome:
    """Return how a child has ended, by what was read from its files; `crashed` if they do not say."""
    if stored is None:
        return ChildOutcome(CRASHED, "crash")
    return outcome_of_run(stored.run, used_by_children(files, stored.run.children))


def end_child(files: RunFiles) -> ChildOutcome:
    """Return how a child has ended; what one that was killed has left running is ended, its own
    children included."""
    stored = _stored(files)
    if stored is not None and stored.run.status == "running":
        end_leftovers(files, stored.run.run, stored.loop.kill_grace)
    return outcome_of(files, stored)


def used_by_children(parent: RunFiles, children: Children | None) -> dict[str, Counted]:
    """Return what each child that has started but not ended has used, at any depth."""
    found: dict[str, Counted] = {}
    for each in () if children is None else unfinished_children(parent, children):
        if each.stored is not None:
            run = each.stored.run
            found[each.name] = used_in_all(run, used_by_children(each.files, run.children))
    return found


def used_in_all(run: LoopState, below: Mapping[str, Counted]) -> Counted:
    """Return what a run has used, with what its unfinished children have used (`below`) and it has
    not counted yet."""
    own = run.costs.values()
    tokens, turns = sum(each.tokens for each in own), sum(each.turns for each in own)
    cost_usd = sum(each.cost_usd for each in own)
    for name, used in below.items():
        counted = Counted() if run.children is None else run.children.counted.get(name, Counted())
        tokens += max(0, used.tokens - counted.tokens)
        cost_usd += max(0.0, used.cost_usd - counted.cost_usd)
        turns += max(0, used.turns - counted.turns)
    return Counted(tokens, round(cost_usd, 6), turns)


def outcome_of_run(run: LoopState, below: Mapping[str, Counted]) -> ChildOutcome:
    """Return how a child has ended, and what it has used; `below` is what its own unfinished
    children have used."""
    is_dead = run.status == "running" or is_answered(run)
    used = used_in_all(run, below)
    return ChildOutcome(
        CRASHED if is_dead else run.status,
        "crash" if is_dead else run.reason or "",
        run.current_state,
        run.iteration,
        run.ran_ms,
        "" if is_dead else run.error or "",
        used.cost_usd,
        used.tokens,
        used.turns,
        run.run,
    )


def is_under_way(run: LoopState) -> bool:
    """Return whether a child has not come to an end: it runs, was interrupted, or was killed right
    after the answer to its gate was recorded."""
    return run.status in UNDER_WAY or is_answered(run)


# ── who is alive ───────────────────────────────────────────────────────────────────────────────


def hold_pid(files: RunFiles) -> int:
    """Lock the `.pid` file of a child that is about to be forked, and return its descriptor.

    The child inherits the lock, so there is no moment in which its process cannot be seen.
    """
    with make_folder_of(files) as folder:
        descriptor = folder.open(CHILD + PID, os.O_RDWR | os.O_CREAT)
        hold(descriptor)
        os.ftruncate(descriptor, 0)
    return descriptor


def write_pid(descriptor: int, files: RunFiles, run: LoopState) -> None:
    """Write who holds the `.pid` file: this process, a child."""
    holder = this_process(files.name, run.scope, run.run, loop=run.loop, started_at=run.started_at)
    write_all(descriptor, to_bytes(holder))


def living(files: RunFiles) -> Holder | None:
    """Return the process of a child if it is alive, else None."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        raw = held(folder, CHILD + PID)
    return None if raw is None else from_bytes(raw, files.name, files.root)


def _is_starting(holder: Holder) -> bool:
    """Return whether a child has been forked and has not written who it is."""
    return holder.pid < 1


def end_children(parent: RunFiles, children: Children) -> None:
    """End the processes of children whose parent was killed, and of their last actions.

    They notice that their parent is gone and stop by themselves; one that does not is killed.
    """
    begun = list(unfinished_children(parent, children))
    for each in begun:
        _wait_for_end(each.files)
    for each in begun:
        end_child(each.files)


def _wait_for_end(files: RunFiles) -> None:
    """Wait until a child without a parent has ended; then kill it."""
    until = time.monotonic() + LAST_WAIT_S
    while (holder := living(files)) is not None:
        is_late = time.monotonic() > until
        if is_late:
            send(holder, signal.SIGKILL)
        if not still_same(holder) and (is_late or not _is_starting(holder)):
            return
        time.sleep(LOOK_EACH_S)


def left_by_children(parent: RunFiles, children: Children) -> list[process_tree.Member]:
    """Return the living processes of the last actions of children whose parent was killed."""
    found: list[process_tree.Member] = []
    for each in unfinished_children(parent, children):
        if each.stored is None or each.stored.run.status != "running":
            continue
        run = each.stored.run
        if run.children is not None:
            found += left_by_children(each.files, run.children)
        elif run.phase == "running":
            marks = process_tree.marks_of(run.run, run.step, run.attempt)
            found += process_tree.members(run.run, sessions_of(each.files), marks=marks)
    return found


# ── gates ──────────────────────────────────────────────────────────────────────────────────────


def open_gates(parent: RunFiles, children: Children) -> list[Child]:
    """Return the runs below a run that wait at a gate, at any depth; each with its path, and the
    name of the child that it is, or is part of."""
    found: list[Child] = []
    for each in unfinished_children(parent, children):
        if each.stored is None:
            continue
        run = each.stored.run
        if run.children is not None:
            inner = open_gates(each.files, run.children)
            found += [one._replace(name=each.name, path=f"{each.path}/{one.path}") for one in inner]
        elif is_gate(run.status, run.reason):
            found.append(each)
    return found


def answered_children(parent: RunFiles, children: Children) -> tuple[str, ...]:
    """Return the children that a resume continues although they wait at a gate: those with an
    answer, or the only one. One that contains several gates continues if one is answered."""
    gates = open_gates(parent, children)
    ready = gates if len(gates) == 1 else [each for each in gates if has_answer(each)]
    return tuple(dict.fromkeys(each.name for each in ready))


def has_answer(child: Child) -> bool:
    """Return whether somebody has answered the gate of a child."""
    assert child.stored is not None, "only a child at a gate is read"
    folder = folder_of(child.files)
    data = None if folder is None else folder.child(CHILD + DATA)
    if folder is not None:
        folder.close()
    if data is None:
        return False
    with data:
        return read_answer(data, child.stored.run) is not None
