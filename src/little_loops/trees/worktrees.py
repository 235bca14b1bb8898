"""Add git worktrees outside the project, and remove them without losing anything.

A worktree is added on a branch of its own, without its files: no hook runs, and nothing is checked
out. The caller then writes the files, or lets git check them out. Each step can be repeated: if it
is killed anywhere and done again, the result is the same.

A worktree is removed only if its content is in a commit or in the store. Before anything in it is
deleted, it is renamed, so that a half-deleted one is never mistaken for one with changes.

    CACHE/worktrees/NAME-HASH/
      ID            a worktree of that project; ID is chosen by the caller
      ID.json       what it is for (`worktree_records`); a fork has none
      ID.removed    one that is being deleted
    CACHE/locks/NAME-HASH    held while git adds, lists or removes one of them

Not here: what its files contain, and when one is needed (`engine`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.errors import StoreError, UsageError
from little_loops.fsm.path_text import listed_paths
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER, failure
from little_loops.system.plain_files import open_plain
from little_loops.system.user_state import cache_home, key_of
from little_loops.trees import files as store_files
from little_loops.trees.git import Git, GitOutput, is_inside
from little_loops.trees.index_locks import WAIT_S, wait_until_gone
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.python_paths import WORKTREES
from little_loops.trees.repository_files import lock_of_index, may_have_submodules
from little_loops.trees.rules import GITLINK
from little_loops.trees.worktree_records import forget

REMOVED = ".removed"
HEADS = "refs/heads/"
NO_BRANCH = b"## HEAD (no branch)"
"""What `git status` prints for a detached HEAD."""
# `read-tree` would leave out what a sparse checkout leaves out.
WHOLE = ("-c", "core.sparseCheckout=false")
# Submodules stay empty, whatever the user's settings say.
REPLACE_FILES = ("read-tree", "--reset", "-u", "--no-recurse-submodules")


class GitWorktree(NamedTuple):
    """A worktree as git lists it; `branch` is None for a detached HEAD."""

    path: str
    commit: str
    branch: str | None


def place_of(project: str, id: str, environ: Mapping[str, str]) -> str:
    """Return where a worktree of a project is, in the user's cache directory; nothing is created.

    Raises `StoreError` if that would be inside the project.
    """
    real, home = os.path.realpath(project), os.path.realpath(cache_home(environ))
    if is_inside(home, real):
        raise StoreError(
            f"the worktree would be inside the project, in `{home}`",
            "set XDG_CACHE_HOME to a directory outside the project",
        )
    return os.path.join(home, WORKTREES, key_of(real), id)


def add(
    git: Git, project: str, place: str, branch: str, commit: str, wait_s: float = WAIT_S
) -> None:
    """Add a worktree at `place` on the new branch, at the commit: without files, and without an
    index unless it is already there.

    If it is already there, do nothing; what a killed call left is removed first. So is a worktree
    whose index is still locked after `wait_s`: a killed git was writing its files. Raises
    `StoreError` if the branch exists at another commit, another branch is checked out there, or git
    fails.
    """
    _create_branch(git, project, branch, commit)
    try:
        for folder in map(os.path.dirname, (place, _lock_of(place))):
            os.makedirs(folder, mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise _failed(error, "make", place) from error
    lock = lock_of_index(place) if os.path.lexists(f"{place}/.git") else None
    is_half_made = lock is not None and not wait_until_gone(git, lock, wait_s)
    with _alone(git, place, os.O_RDWR | os.O_CREAT):
        if is_half_made or not _is_added(git, project, place, branch):
            _delete(place)
            # Forced twice, because a killed call may have left a locked entry for this place.
            words = ["worktree", "add", "--quiet", "--force", "--force", "--no-checkout"]
            run_git(git, project, [*words, place, branch], "add a worktree")


def _lock_of(place: str) -> str:
    """Return the lock file of the worktrees of a project, one of which is at `place`."""
    worktrees, key = os.path.split(os.path.dirname(place))
    return os.path.join(os.path.dirname(worktrees), "locks", key)


@contextmanager
def _alone(git: Git, place: str, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Hold the lock of a project's worktrees; without a lock file, hold nothing unless `flags` create
    it.

    While git adds or removes a worktree, another git that looks at all of them finds half of it and
    fails. Raises `StoreError` if the lock is held for too long, `Interrupted` on a stop.
    """
    path = _lock_of(place)
    try:
        descriptor = open_plain(path, flags, 0o600)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise _failed(error, "open", path) from error
    try:
        store_files.lock_file(descriptor, fcntl.LOCK_EX, git, path)
        yield
    finally:
        os.close(descriptor)


def _is_added(git: Git, project: str, place: str, branch: str) -> bool:
    """Return whether the worktree is there. Raises `StoreError` if another branch is checked out in
    it: its content may not be committed."""
    if not os.path.lexists(f"{place}/.git"):
        return False  # listing them would take longer the more there are
    found = _find(git, project, place)
    if found is None or found.commit.strip("0") == "":  # a killed call had no commit yet
        return False
    if found.branch != branch:
        raise wrong_branch(place, found.branch, branch)
    return True


def wrong_branch(place: str, here: str | None, branch: str) -> StoreError:
    """Return the error that another branch than ours, or none, is checked out in a worktree."""
    where = "no branch" if here is None else f"`{here}`"
    return StoreError(
        f"{where} is checked out in `{place}`, not `{branch}`",
        f"`git switch {branch}` there, or merge it yourself",
    )


def _create_branch(git: Git, project: str, branch: str, commit: str) -> None:
    """Create a branch at a commit. Raises `StoreError` if it exists at another one."""
    words = ["update-ref", HEADS + branch, commit, "0" * len(commit)]  # it must not exist yet
    answer = git.change(project, words)
    if answer.code != 0 and _unlock_branch(git, project, branch):
        answer = git.change(project, words)
    if answer.code != 0 and commit_of(git, project, HEADS + branch) != commit:
        if (taken := _branch_in_the_way(git, project, branch)) is not None:
            raise StoreError(
                f"cannot create the branch `{branch}`, because there is already a branch `{taken}`",
                f"rename it: `git branch -m {taken} NEW_NAME`",
            )
        raise StoreError(
            f"cannot create the branch `{branch}`: {answer.complaint}",
            f"`git branch -m {branch} NAME` renames the one that exists",
        )


def _branch_in_the_way(git: Git, project: str, branch: str) -> str | None:
    """Return the branch whose name is a directory of this one's name (`ll` for `ll/fix/…`), if there
    is one: git cannot have both."""
    parts = branch.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return next((one for one in above if commit_of(git, project, HEADS + one)), None)


def _unlock_branch(git: Git, project: str, branch: str) -> bool:
    """Delete the lock file that a killed git has left of a branch of ours; return whether there was
    one. Only the run that the branch is named after creates it, so nobody else holds the lock."""
    words = ["rev-parse", "--path-format=absolute", "--git-path", f"{HEADS}{branch}.lock"]
    answer = git.read(project, words)
    path = os.fsdecode(answer.out).rstrip("\n")
    if answer.code != 0 or not os.path.isfile(path):
        return False
    try:
        os.unlink(path)
    except OSError as error:
        raise _failed(error, "remove", path) from error
    return True


def commit_of(git: Git, project: str, name: str) -> str | None:
    """Return the commit that a ref or another name means; None if there is none."""
    answer = git.read(project, ["rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"])
    return answer.out.decode("ascii", "replace").strip() if answer.code == 0 else None


def commits_of(git: Git, project: str, *names: str) -> list[str | None]:
    """Return what `commit_of` would return for each name, with a single process."""
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    if asked.count("\n") > len(names):  # one name has several lines
        return [commit_of(git, project, name) for name in names]
    words = ["cat-file", "--batch-check=%(objectname) %(objecttype)"]
    answer = git.read(project, words, os.fsencode(asked))
    if answer.code != 0:
        return [None] * len(names)
    lines = (line.split(" ") for line in answer.out.decode("utf-8", "replace").splitlines())
    return [found[0] if found[1:] == ["commit"] else None for found in lines]


def check_out_around(git: Git, place: str, prefix: str) -> None:
    """Write the files of a worktree's commit that are outside `prefix` (`a/b/`); with an empty
    prefix, none. Git applies the user's filters. Raises `StoreError`."""
    if not prefix:
        return
    answer = run_git(git, place, ["ls-files", "-z", "--cached"], "list the files")
    start = os.fsencode(prefix)
    names = [name for name in answer.out.split(b"\0") if name and not name.startswith(start)]
    words = ["checkout-index", "--quiet", "--force", "-z", "--stdin"]
    run_git(git, place, words, "check out the files", b"".join(name + b"\0" for name in names))


def check_out(git: Git, place: str, commit: str) -> None:
    """Write all files of a commit into a worktree that was just added, and its index. Git applies
    the user's filters. Raises `StoreError`."""
    run_git(git, place, [*WHOLE, *REPLACE_FILES, commit], "check out the files")


def read_commit(git: Git, place: str, commit: str) -> None:
    """Write the index of a worktree as in a commit, and none of its files. Raises `StoreError`."""
    run_git(git, place, [*WHOLE, "read-tree", commit], "read the commit")


def has_submodules(git: Git, place: str) -> bool:
    """Return whether the commit of a worktree has submodules, whose directories stay empty."""
    return bool(_submodules(git, place))


def _submodules(git: Git, place: str) -> list[str]:
    """Return the submodules in the index of a worktree, from its top."""
    if not may_have_submodules(place):
        return []  # asking git would take longer than everything else about most worktrees
    answer = git.read(place, ["ls-files", "-z", "--stage"])
    lines = [line for line in answer.out.split(b"\0") if line.startswith(GITLINK)]
    return [os.fsdecode(line.partition(b"\t")[2]) for line in lines]


def refresh(git: Git, place: str) -> None:
    """Let git compare the worktree's files with its index once, so that `git status` is fast."""
    git.change(place, ["update-index", "-q", "--refresh"])  # files that differ are no failure


def find(git: Git, project: str, place: str) -> GitWorktree | None:
    """Return the worktree at a place, as far as git knows of it; its files may be gone."""
    with _alone(git, place):
        return _find(git, project, place)


def _find(git: Git, project: str, place: str) -> GitWorktree | None:
    real = os.path.realpath(place)
    return next((one for one in list_all(git, project) if one.path == real), None)


def list_all(git: Git, project: str) -> list[GitWorktree]:
    """Return all worktrees of a repository, the main one first. Raises `StoreError`."""
    answer = git.read(project, ["worktree", "list", "--porcelain"])
    if answer.code != 0:
        raise StoreError(f"git cannot list the worktrees: {answer.complaint}")
    return list(_parsed(os.fsdecode(answer.out)))


def _parsed(text: str) -> Iterator[GitWorktree]:
    """Yield the worktrees in the output of `git worktree list --porcelain`."""
    for block in text.split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\n"))
        if "worktree" in fields:
            branch = fields.get("branch", "").removeprefix(HEADS) or None
            yield GitWorktree(fields["worktree"], fields.get("HEAD", ""), branch)


# ── removing ───────────────────────────────────────────────────────────────────────────────────


def unsaved(git: Git, place: str) -> tuple[str, ...]:
    """Return the files of a worktree that are not in its commit: changed, deleted and untracked
    ones, but not ignored ones; also repositories with commits that are nowhere else. Raises
    `StoreError`."""
    words = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
    answer = git.read(place, [*words, "--ignore-submodules=none", "--branch", "--no-ahead-behind"])
    if answer.code != 0:
        raise StoreError(f"git cannot compare `{place}` with its commit: {answer.complaint}")
    head, *lines = answer.out.split(b"\0")
    found = [os.fsdecode(line[3:]) for line in lines if line]
    if head == NO_BRANCH and not _is_on_a_branch(git, place):
        found.append("HEAD")
    return (*found, *_repositories_with_commits(git, place))


def _is_on_a_branch(git: Git, place: str) -> bool:
    """Return whether a branch or tag contains the commit that is checked out."""
    words = [
        "for-each-ref",
        "--count=1",
        "--contains=HEAD",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
    ]
    answer = git.read(place, words)
    return answer.code == 0 and bool(answer.out)


def _repositories_with_commits(git: Git, place: str) -> list[str]:
    """Return the submodules in a worktree with commits that they did not get from elsewhere. Their
    repositories are removed with the worktree."""
    words = ["rev-list", "--max-count=1", "--all", "HEAD", "--not", "--remotes"]
    found = []
    for path in _submodules(git, place):
        inside = os.path.join(place, path)
        if os.path.lexists(f"{inside}/.git"):
            answer = git.read(inside, words)
            found += [path] if answer.code != 0 or answer.out else []
    return found


def remove(git: Git, project: str, place: str, *, is_stored: bool = False) -> None:
    """Remove a worktree. Its branch stays.

    `is_stored` says that its current content is in the store. Otherwise raises `UsageError` if it
    has files that are not committed. If it is already gone, only what is left of it is removed.
    """
    is_there = os.path.lexists(place)
    if is_there:
        paths = () if is_stored else unsaved(git, place)
        if paths:
            raise UsageError(
                f"`{place}` has changes that are not committed: {listed_paths(paths, len(paths))}",
                "commit them there, or delete the directory yourself",
            )
        _delete(place + REMOVED)
        try:
            os.rename(place, place + REMOVED)
        except OSError as error:
            raise _failed(error, "remove", place) from error
    words = ["worktree", "remove", "--force", "--force", place]
    with _alone(git, place):
        answer = git.change(project, words) if is_there else None
        if (answer is None or answer.code != 0) and _find(git, project, place) is not None:
            run_git(git, project, words, "remove the worktree")
    _delete(place + REMOVED)
    forget(place)


def is_half_removed(place: str) -> bool:
    """Return whether a killed call has begun to remove a worktree."""
    return os.path.lexists(place + REMOVED)


def delete_branches(git: Git, project: str, commits: Mapping[str, str]) -> None:
    """Delete branches of ours that are still at these commits, by their names."""
    refs = {HEADS + branch: commit for branch, commit in commits.items()}
    if len(refs) > 1 and _delete_at_once(git, project, refs):
        return
    for ref, commit in refs.items():
        git.change(project, ["update-ref", "-d", ref, commit])


def _delete_at_once(git: Git, project: str, refs: Mapping[str, str]) -> bool:
    """Delete the refs that are at these commits; return False if git could not, because one of them
    has just been changed."""
    words = ["for-each-ref", "--format=%(refname) %(objectname)", *refs]
    lines = os.fsdecode(git.read(project, words).out).splitlines()
    found = (line.split(" ") for line in lines)
    still = [f"delete {ref} {commit}\n" for ref, commit in found if refs.get(ref) == commit]
    text = os.fsencode("".join(still))
    return not still or git.change(project, ["update-ref", "--stdin"], text).code == 0


def delete_directory(path: str) -> None:
    """Delete a directory of ours with everything in it, if it exists. Raises `StoreError`."""
    _delete(path)


def _delete(path: str) -> None:
    """Delete a directory with everything in it, if it exists. Raises `StoreError`."""
    above, name = os.path.split(path)
    try:
        if os.path.lexists(path):
            with OpenDirectory(above) as ground:
                ground.remove_all(name)
    except OSError as error:
        raise _failed(error, "remove", path) from error


def run_git(
    git: Git, directory: str, words: Sequence[str], doing: str, stdin: bytes = b""
) -> GitOutput:
    """Run a git command that adds to the repository. Raises `StoreError` if it fails."""
    answer = git.change(directory, words, stdin)
    if answer.code != 0:
        raise StoreError(f"git cannot {doing}: {answer.complaint}")
    return answer


def _failed(error: OSError, doing: str, path: str) -> StoreError:
    plain = failure(error, doing, path)
    return StoreError(plain.message, plain.help)
