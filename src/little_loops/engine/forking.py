"""Make a fork: a new run that begins where another one was after a step.

The files of the new run are in the same project as those of the other one, which is not touched.
The new run works in a git worktree of its own, or in the project itself. It is made in steps that
can be repeated: `run.json` first, which says what is being made; then the files that the run works
on; the log and the snapshot last. So a kill in between leaves something that the same command
finishes, and nothing that looks like a run.

Not here: where a fork begins (`fsm.forking`), starting it (`lifecycle.resume`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from little_loops.engine.lifecycle import new_run_id
from little_loops.engine.pinned_start import PinnedStart
from little_loops.engine.run_trees import RunTrees
from little_loops.errors import StorageError, StoreError, UsageError
from little_loops.fsm.codec import to_record
from little_loops.fsm.events import Entry, Forked, Tree
from little_loops.fsm.evolve import evolve
from little_loops.fsm.forking import cannot_fork, events_until, renamed, state_after
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.reversal import Version, plan_reversal
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import FORK
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any
from little_loops.receipts.run_trees import TreesAndRules
from little_loops.records import NamedTuple
from little_loops.runs import storage
from little_loops.runs.claims import claim, nesting
from little_loops.runs.folders import folder_of, make_folder
from little_loops.runs.history import past_files
from little_loops.runs.layout import (
    CHILD,
    CHILDREN,
    DATA,
    EVENTS,
    IMPORTED,
    PID,
    RULES,
    RUN_JSON,
    RUNNING,
    SESSION,
    STATE,
    RunFiles,
)
from little_loops.runs.project import resolve_scope, run_name
from little_loops.runs.recordings import with_definition
from little_loops.runs.sealed import release_name
from little_loops.runs.seals import Sealing
from little_loops.runs.stored_run import StoredRun, read_stored
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder, to_json
from little_loops.system.own_command import DIRECTORY as OWN_COMMAND
from little_loops.system.plain_files import read_plain
from little_loops.trees import worktrees
from little_loops.trees.commits import commit_at
from little_loops.trees.files import read
from little_loops.trees.forks import lay_out
from little_loops.trees.rules import Rules, head_of
from little_loops.trees.store import TreeStore

BRANCH = "ll/fork/"
OUTPUT = re.compile(r"(\d+)-")
MAX_FORKS = 1000
OF_PROCESSES = (SESSION, CHILD + PID)
NOT_INHERITED = ("worktree", "with", "parent")
"""The fields that a fork does not inherit. A fork is always a root run."""


class ForkRequest(NamedTuple):
    """What to fork: `parent`, after `step`, whose files `tree` shows; `entries` are all its events.
    `name` is that of the parent, or its path if another run has started it.

    `loop` and `context` are those of the new run; `file` is the file of another definition. `here`:
    in the project, not in a worktree; `links`: with what git ignores. `id` is the ID in the new
    run's name, if one was given.
    """

    root: str
    name: str
    parent: StoredRun
    entries: Sequence[Entry]
    step: int
    tree: Tree
    loop: FSMLoop
    context: Mapping[str, Any] = {}
    file: str | None = None
    here: bool = False
    links: bool = True
    id: str | None = None

    def description(self) -> dict[str, Any]:
        """Return what makes two requests the same."""
        return {
            "run": self.parent.run.run,
            "name": self.name,
            "step": self.step,
            "here": self.here,
            "links": self.links,
            "context": dict(self.context),
            "loop": self.loop.to_dict(),
        }


class MadeFork(NamedTuple):
    """A fork that was made: its name, and where it works; `branch` is None if that is the project."""

    name: str
    run: str
    place: str
    branch: str | None


class _Names(NamedTuple):
    """The name of a fork, and the id of its run: a new one, or that of a half-made fork."""

    name: str
    run: str
    start: dict[str, Any] | None = None


def make_fork(request: ForkRequest, trees: TreesAndRules, environ: Mapping[str, str]) -> MadeFork:
    """Make a fork, or finish one that the same request began.

    Raises `UsageError` if that is impossible, `ConflictError` if another run works there, and
    `StorageError`.
    """
    begun = events_until(request.entries, request.step)
    state = state_after(begun, request.parent.start.get("context", {}))
    if why := cannot_fork(request.loop, state, request.step):
        raise UsageError(f"cannot fork after step {request.step}: {why}")
    names = _names(request, trees, environ)
    return _ForkMaker(request, trees, environ, names).make(renamed(begun, names.run))


# ── its name ───────────────────────────────────────────────────────────────────────────────────


def _names(request: ForkRequest, trees: TreesAndRules, environ: Mapping[str, str]) -> _Names:
    """Return the name for the fork: that of an unfinished or unstarted one of the same request, else
    the first free one. Raises `UsageError` if a chosen name is taken."""
    for id in _ids(request):
        name = run_name(request.loop.name, id)
        files = RunFiles(request.root, name)
        start = _start_of(files)
        if start is not None and start.get("forking") == request.description():
            if _is_unstarted(files):
                return _Names(name, start["run"], start)
        elif start is None and not past_files(request.root, name):
            if request.here or _is_free(request, trees, environ, name):
                return _Names(name, new_run_id())
        if request.id is not None:
            break
    taken = run_name(request.loop.name, request.id or f"step{request.step}")
    raise UsageError(
        f"there is already a run named `{taken}`", "choose another name with `--id ID`"
    )


def _ids(request: ForkRequest) -> Iterator[str]:
    if request.id is not None:
        yield request.id
        return
    yield f"step{request.step}"
    yield from (f"step{request.step}-{number}" for number in range(2, MAX_FORKS))


def _is_free(
    request: ForkRequest, trees: TreesAndRules, environ: Mapping[str, str], name: str
) -> bool:
    """Return whether no branch and no directory is in the place of the fork's worktree."""
    git, project = trees.store.git, trees.store.project
    place = worktrees.place_of(request.root, name, environ)
    is_taken = worktrees.commit_of(git, project, f"{worktrees.HEADS}{BRANCH}{name}") is not None
    return not is_taken and not os.path.lexists(place)


def _start_of(files: RunFiles) -> dict[str, Any] | None:
    """Return what the current run of a name was started with; None if nothing is there but an empty
    directory, and an empty dict if there is a run that cannot be read."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        is_there = {files.base + STATE, files.base + EVENTS} & set(folder.names())
    return storage.read_start(files) or ({} if is_there else None)


def _is_unstarted(files: RunFiles) -> bool:
    """Return whether a fork is half made, or was never started."""
    if not os.path.lexists(files.state):
        return True
    try:
        found = read_stored(files)
    except StorageError:
        return False
    return found is not None and found.run.reason == FORK


# ── making it ──────────────────────────────────────────────────────────────────────────────────


class _ForkMaker:
    """Makes one fork."""

    def __init__(
        self,
        request: ForkRequest,
        trees: TreesAndRules,
        environ: Mapping[str, str],
        names: _Names,
    ) -> None:
        self._request = request
        self._store, self._rules = trees
        self._environ = environ
        self._names = names
        self._files = RunFiles(request.root, names.name)
        self._branch = BRANCH + names.name
        rules = trees.rules
        self._top = worktrees.place_of(request.root, names.name, environ)
        self._place = (
            request.root if request.here else os.path.join(self._top, rules.prefix).rstrip("/")
        )

    def make(self, begun: list[Entry]) -> MadeFork:
        """Claim the name and the scope, and make everything."""
        request, names = self._request, self._names
        with claim(
            request.root,
            names.name,
            resolve_scope(self._place, request.parent.run.scope),
            names.run,
            loop=request.loop.name,
            started_at=timestamp(wall_ms()),
            outer=nesting(self._environ).runs,
        ):
            before = self._before() if request.here else request.tree.project
            commit = None if request.here else self._commit()
            self._create(before)
            if commit is None:
                self._move(before)
            else:
                self._add_worktree(commit)
            self._copy_outputs()
            self._write_rules()
            self._plant(begun, before)
        branch = None if request.here else self._branch
        return MadeFork(names.name, names.run, self._place, branch)

    def _create(self, before: str) -> None:
        """Store what the run is started with, which also says that it is being made."""
        request = self._request
        parent = request.parent.start
        kept = {key: item for key, item in parent.items() if key not in NOT_INHERITED}
        last = events_until(request.entries, request.step)[-1].seq
        kept = with_definition(kept, request.loop, last) | {
            "run": self._names.run,
            "forking": request.description(),
            "before": before,
        }
        if request.file is not None:
            kept["with"] = request.file
        if not request.here:
            kept["worktree"] = {"path": self._top, "project": self._place, "branch": self._branch}
        release_name(request.root, self._names.name, self._environ)
        storage.create_start(RunFiles(request.root, self._names.name), kept)

    # In a worktree.

    def _add_worktree(self, commit: str) -> None:
        """Add a worktree with the files of the tree, on a branch that begins at the commit."""
        request, git, project = self._request, self._store.git, self._store.project
        worktrees.add(git, project, self._top, self._branch, commit)
        worktrees.read_commit(git, self._top, commit)
        worktrees.check_out_around(git, self._top, self._rules.prefix)
        tree = request.tree
        lay_out(
            self._store, self._rules, tree.project, tree.guard, self._place, links=request.links
        )
        worktrees.refresh(git, self._top)

    def _commit(self) -> str:
        """Return the commit for the worktree: that of the step, as far as it can be told."""
        git, project = self._store.git, self._store.project
        branch = worktrees.commit_of(git, project, worktrees.HEADS + self._branch)
        if branch is not None:
            return branch  # made by a call that was killed
        ended_ms = _end_of_step(self._request.entries, self._request.step)
        files = self._store.versions(self._request.tree.project)
        content = {path: one.id for path, one in files.items()}
        commit = commit_at(git, project, self._rules.head, ended_ms, content)
        if commit is not None and worktrees.commit_of(git, project, commit) is None:
            commit = head_of(git, project)  # the commit of the start is gone
        if commit is None:
            raise UsageError(
                "a fork in a worktree needs a commit to start from",
                "commit something first, or fork with `--here`",
            )
        return commit

    # In the project.

    def _before(self) -> str:
        """Return a snapshot of the project before the fork; the one of a killed call if there is
        one. Raises `UsageError` if a file would be replaced that is neither the run's nor committed.
        """
        now = self._store.snapshot(self._rules).project
        begun = None if self._names.start is None else self._names.start.get("before")
        target, current = self._in_scope(self._request.tree.project), self._in_scope(now)
        if begun is not None:
            left = self._in_scope(begun)
            conflicts = plan_reversal(left, current, target).conflicts
        else:
            known = self._in_scope(self._last_tree()), self._committed()
            conflicts = tuple(
                path
                for path in sorted(current.keys() | target.keys())
                if current.get(path) != target.get(path)
                and not any(_same(current.get(path), each.get(path)) for each in known)
            )
        if conflicts:
            raise UsageError(
                "`--here` would overwrite uncommitted changes that the run did not make:"
                f" {listed_paths(conflicts, len(conflicts))}",
                "commit or stash them, or leave out `--here` to fork into a worktree",
            )
        return begun or now

    def _move(self, before: str) -> None:
        """Change the files in the scope to the tree. Raises `StoreError` if one cannot be."""
        now = self._store.snapshot(self._rules).project
        target, current = self._in_scope(self._request.tree.project), self._in_scope(now)
        self._store.keep(self._names.run, [before])
        changes = plan_reversal(current, current, target).changes
        done = self._store.move(
            self._rules, now, dict.fromkeys(changes, self._request.tree.project)
        )
        if done.failed:
            raise StoreError(f"cannot write {'; '.join(done.failed)}")

    def _last_tree(self) -> str:
        trees = (each.event for each in self._request.entries if isinstance(each.event, Tree))
        return [tree.project for tree in trees][-1]

    def _in_scope(self, id: str) -> dict[str, Version]:
        found = self._store.versions(id)
        return {path: one for path, one in found.items() if self._rules.in_scope(path)}

    def _committed(self) -> dict[str, Version]:
        """Return the files of the current commit, by path in the project; modes have only the bit
        that git keeps."""
        git, project = self._store.git, self._store.project
        answer = git.read(project, ["ls-tree", "-r", "-z", "HEAD"])
        found: dict[str, Version] = {}
        for line in answer.out.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, _, id = head.decode("ascii").split(" ")
            kind = "link" if mode == "120000" else "file"
            found[os.fsdecode(path)] = Version(kind, int(mode, 8), id)  # type: ignore[arg-type]
        return found

    # In the run's own directory.

    def _copy_outputs(self) -> None:
        """Copy what the steps that the fork has in common with the other run have left: outputs, the
        runs that they started, and what the other run lacks if it was imported: no action may get a
        mask instead of a value."""
        source = self._request.parent.files.data
        with make_folder(self._request.root, RUNNING, self._names.name + DATA) as data:
            _copy(source, data, lambda name: name == IMPORTED or self._is_common(name))
            inner = os.path.join(source, CHILDREN)
            if os.path.isdir(inner) and not os.path.islink(inner):
                with data.make(CHILDREN) as runs:
                    for name in filter(self._is_common, sorted(os.listdir(inner))):
                        _copy_tree(os.path.join(inner, name), runs, name)

    def _is_common(self, name: str) -> bool:
        """Return whether a file is from a step that the fork has in common with the other run."""
        match = OUTPUT.match(name)
        return match is not None and int(match[1]) <= self._request.step

    def _write_rules(self) -> None:
        """Store the rules of the run, which are those of the other one, and pin what it starts with."""
        rules = self._rules._replace(run=self._names.run)
        recorded = read(self._store.files.place("runs", self._request.parent.run.run)) or b""
        self._store.keep(self._names.run, recorded.decode("ascii").split())
        if not self._request.here:
            rules = self._worktree_rules(rules)
        if self._request.file is not None:
            protect, watched = self._running(rules).patterns()
            rules = rules._replace(protect=protect, watched=watched)
        data = to_json(rules.to_json())
        pins = os.path.join(self._store.files.path, "pins", self._names.run)
        PinnedStart(self._files.data, (RUN_JSON, RULES), pins).pin(evidence=data)
        with make_folder(self._request.root, RUNNING, self._names.name + DATA) as folder:
            folder.replace(RULES, data, f".tmp-{os.urandom(8).hex()}", sync=True)

    def _worktree_rules(self, old: Rules) -> Rules:
        """Return the rules for the worktree. What is ignored stays as it was when the first run
        started."""
        home = os.path.dirname(os.path.dirname(self._store.files.path))
        owner = self._rules.owner or self._rules.project
        store = TreeStore.open(owner, home, self._store.git, create=False, work_tree=self._place)
        clean = self._request.loop.evidence.clean
        new = store.rules(self._names.run, old.scope, old.protect, around=clean)
        return new._replace(
            ignore=old.ignore,
            ignore_case=old.ignore_case,
            tracked=old.tracked,
            watched=old.watched,
            owner=owner,
        )

    def _running(self, rules: Rules) -> RunTrees:
        request = self._request
        return RunTrees(
            request.loop,
            request.parent.run,
            rules.project,
            self._files.data,
            self._environ,
            file=request.file,
        )

    def _plant(self, begun: list[Entry], before: str) -> None:
        """Write the log and the snapshot. From then on, there is a run."""
        request = self._request
        parent = request.parent
        forked = Forked(
            parent.run.run,
            request.name,
            request.step,
            before,
            request.context,
            request.file is not None,
        )
        last = begun[-1]
        entry = Entry(forked, wall_ms(), last.ran_ms, self._names.run, last.seq + 1)
        state = evolve(state_after(begun, parent.start.get("context", {})), entry)
        sealing = Sealing(self._names.run, self._environ)
        records = [to_record(each) for each in (*begun, entry)]
        line = f"Forked from {request.name} after step {request.step}\n"
        files = RunFiles(request.root, self._names.name)
        storage.plant(files, records, state, sealing, line)


def _copy(source: str, target: Folder, is_wanted: Callable[[str], bool]) -> None:
    """Copy files of a directory; anything else that an action has put there is left out."""
    for name in filter(is_wanted, sorted(os.listdir(source))):
        path = os.path.join(source, name)
        if os.path.isfile(path) and not os.path.islink(path):
            target.replace(name, read_plain(path), f".tmp-{os.urandom(8).hex()}")


def _copy_tree(source: str, above: Folder, name: str) -> None:
    """Copy a directory with all its files, except those of processes."""
    if os.path.islink(source) or not os.path.isdir(source):
        return
    with above.make(name) as target:
        _copy(source, target, lambda name: name not in OF_PROCESSES)
        for below in sorted(set(os.listdir(source)) - {OWN_COMMAND}):
            _copy_tree(os.path.join(source, below), target, below)


def _end_of_step(entries: Sequence[Entry], step: int) -> int:
    """Return when a step ended, in milliseconds."""
    return events_until(entries, step)[-1].wall_ms


def _same(one: Version | None, other: Version | None) -> bool:
    """Return whether two versions are the same for git, which keeps only one permission bit."""
    if one is None or other is None:
        return one is other
    is_program = bool(one.mode & 0o100) == bool(other.mode & 0o100) or one.kind == "link"
    return (one.kind, one.id) == (other.kind, other.id) and is_program
