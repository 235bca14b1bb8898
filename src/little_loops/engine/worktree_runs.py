"""Let a run work in a git worktree of its own: prepare it, commit its work, remove it.

Each function can be repeated: what a killed call has done is found in the repository.

Not here: which of them is due (`fsm.worktree_steps`), merging branches (`merge_trains`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from signal import SIGTERM

from little_loops.engine.action_process import OutputSink, Workplace, environment, run_program
from little_loops.engine.hooks import Tail, exit_problem
from little_loops.engine.local_world import LocalWorld
from little_loops.engine.resolve import known_environment
from little_loops.errors import StoreError, UsageError
from little_loops.fsm.commands import ClearWorktrees, CommitWork, Job, PrepareWorktree
from little_loops.fsm.evidence import trees_of
from little_loops.fsm.happenings import (
    Happening,
    LeftoversEnded,
    StopAsked,
    WorkSaved,
    WorktreeFailed,
    WorktreePrepared,
    WorktreesGone,
)
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import WORKING_TREE, Worktree, worktree_of
from little_loops.fsm.state import Children, LoopState, Workspace
from little_loops.fsm.train import resolver_of
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.child_runs import files_of
from little_loops.runs.storage import read_start
from little_loops.runs.stored_run import read_stored
from little_loops.system import process
from little_loops.trees import merging, worktrees
from little_loops.trees.bringing import bring, still_the_same
from little_loops.trees.copy_plan import CopyRoot
from little_loops.trees.git import Git, Interrupted, find_git
from little_loops.trees.rules import find_repository, locate
from little_loops.trees.worktree_records import WorktreeRecord, reserve

LONGEST_NAME = 80


class Resolution(NamedTuple):
    """The commit `tip` that a branch is to be merged onto, and the files that are in conflict.

    The branch began at `base`, if that has changes which may not be merged. `is_begun`: an earlier
    run has begun with the same, and its files stay.
    """

    tip: str
    files: tuple[str, ...] = ()
    base: str | None = None
    is_begun: bool = False


class WorktreePlace(NamedTuple):
    """Where a run works: the worktree `path`, with the project in it, on its own branch.

    `origin` is the project directory that it is a worktree of; `number` is its own among all
    worktrees of the project. `merges` is set for a run that resolves the branch's conflict.
    """

    path: str
    project: str
    branch: str
    origin: str
    number: int = 0
    merges: Resolution | None = None

    @classmethod
    def of(cls, start: Mapping[str, Any]) -> WorktreePlace | None:
        """Return the place that a run was started with; None for one without a worktree of this
        kind, such as a fork."""
        found = start.get("worktree")
        if found is None or "origin" not in found:
            return None
        merges = found.get("merges")
        return cls(**{**found, "merges": None if merges is None else Resolution(**merges)})

    @property
    def root(self) -> CopyRoot:
        """Return the repository that it is a worktree of, and the worktree."""
        prefix = self.project[len(self.path) + 1 :]
        real = os.path.realpath(self.origin).removesuffix(prefix).rstrip("/")
        return CopyRoot(real, self.path, f"{prefix}/" if prefix else "")

    def written(self) -> dict[str, Any]:
        """Return the place as `of` reads it."""
        merges = None if self.merges is None else self.merges._asdict()
        plain = {**self._asdict(), "merges": merges}
        return {name: value for name, value in plain.items() if value is not None}


# ── choosing a place ───────────────────────────────────────────────────────────────────────────


def choose_place(
    root: str,
    origin: str,
    loop: str,
    run: str,
    name: str,
    owner: str,
    environ: Mapping[str, str],
) -> WorktreePlace:
    """Return a place for the worktree of a run, and reserve its number. The worktree is one of
    `origin`, which is the project `root` or a worktree of it.

    `loop`, `run` and `name` are parts of the branch's name; `owner` is the name of the run in the
    project. Raises `UsageError` without a git repository, or if git is too old.
    """
    try:
        git = find_git(root, environ).for_one_task()
        merging.check_git(git)
        repository = locate(git, origin)
        if repository is None:
            raise UsageError(
                "a worktree needs a git repository", "run `git init`, and commit something first"
            )
        branch = _free_branch(git, origin, f"ll/{_part(loop)}/{run}/{_part(name)}")
        path = worktrees.place_of(root, f"{run}-{branch.rpartition('/')[2]}", environ)
        record = reserve(git, path, WorktreeRecord(run, owner, branch, origin))
    except StoreError as error:
        raise UsageError(f"cannot make a worktree: {error.message}", error.help) from error
    _, prefix, _ = repository
    place = os.path.join(path, prefix).rstrip("/")
    return WorktreePlace(path, place, branch, origin, record.number)


def _free_branch(git: Git, project: str, name: str) -> str:
    """Return the name for a branch: a state that runs again makes new ones. Raises `UsageError` if
    there is no commit at all."""
    heads = worktrees.HEADS
    head, taken = worktrees.commits_of(git, project, "HEAD", heads + name)
    if head is None:
        raise UsageError("a worktree needs a commit to start from", "commit something first")
    if taken is None:
        return name
    others = (f"{name}-{number}" for number in range(2, 1000))
    return next(each for each in others if worktrees.commit_of(git, project, heads + each) is None)


def _part(text: str) -> str:
    """Return a text as a part of a branch's name that git accepts."""
    text = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:LONGEST_NAME].strip(".")
    text = text.replace("..", ".-")
    return f"{text}-" if text.endswith(".lock") or not text else text


def variables(worktree: Worktree | None, place: WorktreePlace | None) -> dict[str, str]:
    """Return the ports of a run in a worktree, as variables."""
    if worktree is None or place is None:
        return {}
    return {name: str(first + place.number) for name, first in worktree.ports.items()}


def attempt(
    world: LocalWorld, do: Callable[[], Happening], ended: LeftoversEnded | None = None
) -> Happening:
    """Do work with git. A failure or a stop is returned as a happening, not raised."""
    try:
        return do()
    except Interrupted as cut:
        stop = world.services.stop
        if cut.by == "stop" and stop is not None:
            return StopAsked(world.clock.now(), stop.signal or SIGTERM)
        return WorktreeFailed(world.clock.now(), "git took too long", ended)
    except (StoreError, UsageError) as error:
        help = f" ({error.help})" if error.help else ""
        return WorktreeFailed(world.clock.now(), error.message + help, ended)


def git_of(world: LocalWorld) -> Git:
    """Return git for one piece of work."""
    root, services = world.own_request().root, world.services
    return find_git(root, services.environ, services.stop).for_one_task()


# ── preparing ──────────────────────────────────────────────────────────────────────────────────


def prepare(world: LocalWorld, run: LoopState, command: PrepareWorktree) -> Happening:
    """Add the run's worktree, write its files, bring others along, and run `setup`."""
    return attempt(world, lambda: _prepare(world, run, command))


def _prepare(world: LocalWorld, run: LoopState, command: PrepareWorktree) -> Happening:
    place, worktree, git = own_place(world), command.worktree, git_of(world)
    base = base_commit(git, place.origin, worktree.from_, place.branch, run)
    onto = merging.current_branch(git, place.origin)
    if place.merges is not None:
        from little_loops.engine.resolving import lay_out  # few branches are in conflict

        lay_out(git, place, base)
    else:
        worktrees.add(git, place.origin, place.path, place.branch, base)
        worktrees.check_out(git, place.path, base)
    os.makedirs(place.project, exist_ok=True)  # nothing in it may be committed yet
    missing = bring(git, place.root, worktree.copy, worktree.link)
    if worktree.setup is not None:
        tail = Tail()
        ended = run_script(world, run, command.job, command.shell, worktree.setup, tail)
        if isinstance(ended, StopAsked):
            return ended
        if problem := problem_of(ended, tail):
            return WorktreeFailed(world.clock.now(), f"`setup` of the worktree: {problem}")
    space = Workspace(place.path, place.branch, base, onto)
    warnings = _warnings(missing, has_submodules=worktrees.has_submodules(git, place.path))
    return WorktreePrepared(world.clock.now(), space, warnings)


def own_place(world: LocalWorld) -> WorktreePlace:
    assert world.worktree is not None, "a run that prepares a worktree has a place for it"
    return world.worktree


def base_commit(git: Git, project: str, from_: str, branch: str | None, run: LoopState) -> str:
    """Return the commit that a worktree begins at: that of its branch, if a killed call has made
    it. Raises `StoreError` if there is no such commit."""
    own = [] if branch is None else [worktrees.HEADS + branch]
    *made, commit = worktrees.commits_of(git, project, *own, from_)
    if made and made[0] is not None:
        return made[0]
    if from_ == WORKING_TREE:
        message = commit_message("Uncommitted changes", run.loop, run.run)
        return merging.working_tree_commit(git, project, message)
    if commit is None:
        find_repository(git, project)  # if git refuses to work here, that is the reason
        raise StoreError(
            f"`from`: there is no commit `{from_}`", "specify an existing commit or branch"
        )
    return commit


def _work_message(place: WorktreePlace) -> str:
    """Return the message of the commit with the work of a run. The run that merges it, and its loop,
    are part of the branch's name."""
    _, loop, run, name = place.branch.split("/")
    title = f"{loop}: {'changes of the run' if name == loop else name}"
    return commit_message(title, loop, run, name)


def commit_message(title: str, loop: str, run: str, branch: str | None = None) -> str:
    """Return the message of a commit of ours, with the trailers that say where it comes from."""
    trailers = [f"Loop: {loop}", f"Run: {run}"]
    trailers += [] if branch is None else [f"Branch: {branch}"]
    return "\n".join([title, "", *trailers, ""])


def _warnings(missing: tuple[str, ...], *, has_submodules: bool) -> tuple[str, ...]:
    """Return what the user should know about a new worktree."""
    found = []
    if missing:
        found.append(f"not brought into the worktree, because missing: {listed_paths(missing, 99)}")
    if has_submodules:
        found.append("submodules are empty in the worktree; `setup` can populate them")
    return tuple(found)


def run_script(
    world: LocalWorld,
    run: LoopState,
    job: Job,
    shell: str,
    script: str,
    tail: OutputSink,
    at: Workplace | None = None,
) -> process.Ended | process.CannotStart | StopAsked:
    """Run a command where the run works, or in the workplace `at`; its environment is that of an
    action."""
    at = at or world.workplace
    known = known_environment(job, world.values(run))
    ended = run_program(
        at,
        job,
        [shell, "-c", script],
        environment(at, run, job, known),
        tail,
        plan=((SIGTERM, job.kill_grace_s),),
    )
    if isinstance(ended, process.Ended) and ended.cut_by == "stop":
        stop = world.services.stop
        return StopAsked(world.clock.now(), (stop and stop.signal) or SIGTERM)
    return ended


def problem_of(ended: process.Ended | process.CannotStart, tail: Tail) -> str:
    """Return why a command failed; empty if it did not."""
    if isinstance(ended, process.CannotStart):
        return ended.reason
    if ended.cut_by == "deadline":
        return "took longer than the loop's timeout"
    return exit_problem(ended.exit_code, ended.signal, tail.last_line)


# ── committing and removing ────────────────────────────────────────────────────────────────────


def commit(world: LocalWorld, run: LoopState, command: CommitWork) -> Happening:
    """Commit what the run has changed in its worktree. Return its commit, if there is any."""

    def do() -> Happening:
        place, space, git = own_place(world), command.workspace, git_of(world)
        parents = None
        if place.merges is not None:
            from little_loops.engine.resolving import parents_of  # few branches are in conflict

            parents = parents_of(git, place)
        unchanged = _unchanged(world, run, space.base) if parents is None else None
        made = commit_leftovers(git, place, world.loop.worktree, parents, unchanged)
        if made == space.base:
            return WorkSaved(world.clock.now(), command.ended)
        # A branch that was resolved contains those that were merged before it.
        before = space.base if place.merges is None else place.merges.tip
        files = merging.changed_files(git, place.path, before, made)
        return WorkSaved(world.clock.now(), command.ended, made, files)

    return attempt(world, do, command.ended)


def _unchanged(world: LocalWorld, run: LoopState, base: str) -> merging.Unchanged | None:
    """Return the protected files that have been the same since the run started, so that its commit
    has to have them as they are in `base`; None if nobody knows."""
    trees = trees_of(run)
    if trees is None or trees.first is None or trees.reference is None:
        return None
    store, prefix = world.trees.store, world.trees.rules.prefix
    same = store.unchanged(trees.first, trees.reference)
    return merging.Unchanged(base, {prefix + path: id for path, id in same.items()})


def commit_leftovers(
    git: Git,
    place: WorktreePlace,
    worktree: Worktree | None,
    parents: tuple[str, ...] | None = None,
    unchanged: merging.Unchanged | None = None,
) -> str:
    """Commit what is not committed in a worktree, and return the commit of its branch."""
    same = () if worktree is None else still_the_same(place.root, worktree.copy, worktree.link)
    made = merging.commit_changes(
        git,
        place.path,
        place.branch,
        _work_message(place),
        leave_out=[place.root.prefix + path for path in same],
        parents=parents,
        unchanged=unchanged,
    )
    found = made or worktrees.commit_of(git, place.path, worktrees.HEADS + place.branch)
    assert found is not None, "the branch that is checked out has a commit"
    return found


def clear(world: LocalWorld, run: LoopState, command: ClearWorktrees) -> Happening:
    """Remove worktrees whose content is committed; those with other content are kept."""

    def do() -> Happening:
        git = git_of(world)
        removed: list[str] = []
        kept: list[str] = []
        expendable: dict[str, str] = {}
        for name in (*command.branches, *command.kept):
            place = place_of_branch(world, command.children, name)
            if place is None:
                continue
            is_due = name in command.branches
            if os.path.lexists(place.path) or worktrees.is_half_removed(place.path):
                is_gone = is_due and _remove(git, world, run, place, command)
                (removed if is_gone else kept).append(place.path)
            # A killed call may have removed the worktree, but not the branch.
            if is_due and not os.path.lexists(place.path):
                commit = _landed(world, run, command.children, name) or _base(run)
                expendable |= {} if commit is None else {place.branch: commit}
        worktrees.delete_branches(git, world.own_request().root, expendable)
        return WorktreesGone(world.clock.now(), tuple(removed), tuple(kept), command.ended)

    return attempt(world, do, command.ended)


def place_of_branch(
    world: LocalWorld, children: Children | None, name: str
) -> WorktreePlace | None:
    """Return where a branch of a state works, or, without children, this run itself; None if it
    never began."""
    if children is None:
        return world.worktree
    return WorktreePlace.of(read_start(files_of(world.writer.files, children, name)))


def _remove(
    git: Git,
    world: LocalWorld,
    run: LoopState,
    place: WorktreePlace,
    command: ClearWorktrees,
) -> bool:
    """Remove a worktree. Return False if it has content that is not committed."""
    own, state = world.loop.worktree, world.loop.states[run.current_state]
    try:
        if command.save and os.path.lexists(place.path):
            settings = own if command.children is None else worktree_of(state)
            commit_leftovers(git, place, settings)
        worktrees.remove(git, place.origin, place.path)
    except (StoreError, UsageError):
        return False
    return True


def _landed(world: LocalWorld, run: LoopState, children: Children | None, name: str) -> str | None:
    """Return the commit of a branch that is in the user's branch now; None if none is. Commits that
    somebody has added since are not."""
    train = run.train
    if train is None or name not in train.merged or train.landing is None or train.landing.reason:
        return None
    found = workspaces(world, run, children, name)
    return next((space.commit for space in found if space.commit), None)


def workspaces(
    world: LocalWorld, run: LoopState, children: Children | None, name: str
) -> list[Workspace]:
    """Return what is recorded of the worktree of a branch, the latest first: by the runs that were to
    resolve it, and by its own; without children, by this run."""
    if children is None:
        return [] if run.workspace is None else [run.workspace]
    tries = 0 if run.train is None else run.train.tries.get(name, 0)
    resolvers = [resolver_of(name, number + 1) for number in range(tries)]
    files = (files_of(world.writer.files, children, one) for one in (*reversed(resolvers), name))
    stored = (read_stored(each) for each in files)
    return [one.run.workspace for one in stored if one is not None and one.run.workspace]


def _base(run: LoopState) -> str | None:
    """Return the commit at which the branches of a state, or the run's own, began."""
    if run.train is not None:
        return run.train.base
    return None if run.workspace is None else run.workspace.base
