"""Merge branches of worktrees without a work tree, and move the user's branch forward.

Commits are made by plumbing: no hook runs, nothing is signed, and the user's index and files are
not touched. Only `land` changes them: it moves the branch that is checked out, by a fast-forward,
to a commit that contains it. There is no push, no force, no reset and no stash.

Each function can be repeated: what a killed call has done is found in the repository.

Not here: which branches are merged, in which order, and what checks a merged tree (`engine`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from little_loops.errors import StoreError
from little_loops.light_typing import Final, Literal
from little_loops.records import NamedTuple
from little_loops.trees.git import Git, GitOutput, version_of, version_text
from little_loops.trees.index_locks import WAIT_S, unlock_index, wait_until_gone
from little_loops.trees.repository_files import lock_of_index
from little_loops.trees.user_index import add_files_as_in, index_of_ours
from little_loops.trees.worktrees import HEADS, WHOLE, commit_of, run_git, wrong_branch

OLDEST = (2, 38)
"""The first version in which `merge-tree` can merge without a work tree."""
MergeKind = Literal["merge", "squash"]

EDITS: Final = "Your local changes"
UNTRACKED: Final = "The following untracked"
"""The start of git's message about files that a merge would overwrite."""
LOCKED: Final = "Another git process"
"""The rest of git's message if there is a lock: another git process is running, or was killed."""


class Unchanged(NamedTuple):
    """Files that are as they were in the commit `base`, by their path from the top, with the ids of
    their content, which are git's own unless it converts them."""

    base: str
    ids: Mapping[str, str]


class Merged(NamedTuple):
    """The commit that contains both sides; `onto` itself if the other side adds nothing."""

    commit: str


class Conflict(NamedTuple):
    """The files that both sides changed."""

    files: tuple[str, ...]


class Landed(NamedTuple):
    commit: str


class Moved(NamedTuple):
    """The branch has other commits now; they have to be merged first."""

    head: str


class LandingRefused(NamedTuple):
    """Nothing was touched; `command` finishes it, once the reason is out of the way."""

    reason: str
    command: str


def check_git(git: Git) -> None:
    """Raise `StoreError` if git is too old to merge without a work tree."""
    found = version_of(git)
    if found < OLDEST:
        text = f"git {version_text(found)} cannot merge without a work tree"
        raise StoreError(text, "install git 2.38 or newer")


# ── commits ────────────────────────────────────────────────────────────────────────────────────


def commit_changes(
    git: Git,
    place: str,
    branch: str,
    message: str,
    *,
    leave_out: Sequence[str] = (),
    parents: Sequence[str] | None = None,
    unchanged: Unchanged | None = None,
) -> str | None:
    """Commit all changes in a worktree of ours, except ignored files, the untracked ones in
    `leave_out` and new repositories, on its branch. Return the commit; None if there is nothing to
    commit. What is known to be `unchanged` stays as it was.

    `parents` are those of the commit, if not only the current one. If an agent has checked out a
    branch of its own that contains ours, ours follows it.
    """
    unlock_index(git, place)
    head, before, here = _checked_out(git, place)
    tip = head if here == branch else _followed(git, place, branch, here, head)
    # What the index says is the agent's: flags and entries in it can hide files from `git add`.
    run_git(git, place, [*WHOLE, "read-tree", head], "read the commit")
    excluded = [f":(top,exclude,literal){path}" for path in _left_out(git, place, leave_out)]
    run_git(git, place, [*WHOLE, "add", "--all", "--", ":/", *excluded], "add the changes")
    if unchanged is not None:
        _keep_unchanged(git, place, unchanged)
    tree = _text(run_git(git, place, ["write-tree"], "write the tree"))
    if parents is not None or tree != before:
        commit = _commit(git, place, tree, [head] if parents is None else parents, message)
    elif head != tip:
        commit = head
    else:
        return None
    run_git(git, place, ["update-ref", HEADS + branch, commit, tip], "move the branch")
    return commit


def _keep_unchanged(git: Git, place: str, unchanged: Unchanged) -> None:
    """Give the files that are unchanged the entries of the commit before in the index. An agent may
    have removed them from git and ignored them, or have told git to convert them."""
    base = unchanged.base
    listing = run_git(git, place, ["ls-tree", "-r", "-z", "--full-tree", base], "read the commit")
    staged = run_git(git, place, ["ls-files", "-s", "-z", "--full-name", ":/"], "read the index")
    now = {path: entry.rpartition(b" ")[0] for path, entry in _entries(staged.out)}
    lines = []
    for path, entry in _entries(listing.out):
        mode, _, id = entry.split(b" ")
        known = unchanged.ids.get(os.fsdecode(path))
        if known is not None and (
            path not in now or (now[path] != mode + b" " + id and known == id.decode("ascii"))
        ):
            lines.append(b"%s %s\t%s\0" % (mode, id, path))
    if lines:
        words = ["update-index", "--add", "--replace", "-z", "--index-info"]
        run_git(git, place, words, "add the files", b"".join(lines))


def _entries(listing: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield path and entry of each line that git lists of a commit or its index."""
    for line in filter(None, listing.split(b"\0")):
        entry, _, path = line.partition(b"\t")
        yield path, entry


def _followed(git: Git, place: str, branch: str, here: str | None, head: str) -> str:
    """Return the commit of our branch, if the commit that is checked out instead contains it. Raises
    `StoreError` if it does not."""
    tip = commit_of(git, place, HEADS + branch)
    if tip is None or not contains(git, place, head, tip):
        raise wrong_branch(place, here, branch)
    return tip


def _checked_out(git: Git, place: str) -> tuple[str, str, str | None]:
    """Return the commit that is checked out, its tree, and its branch, if it is on one."""
    words = ["rev-parse", "HEAD^{commit}", "HEAD^{tree}", "--symbolic-full-name", "HEAD"]
    commit, tree, name = _text(run_git(git, place, words, "read the commit")).split("\n")
    return commit, tree, name.removeprefix(HEADS) if name.startswith(HEADS) else None


def _left_out(git: Git, place: str, paths: Sequence[str]) -> list[str]:
    """Return what git would add, and is not to: those of the paths, from the top, and repositories,
    of which it would add only the name of a commit."""
    words = ["ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ":/"]
    found = run_git(git, place, words, "list the files").out.split(b"\0")
    own = {os.fsencode(path) for path in paths}
    return [os.fsdecode(path.rstrip(b"/")) for path in found if path in own or path[-1:] == b"/"]


def tree_of(git: Git, place: str, commit: str) -> str:
    """Return the id of the tree of a commit."""
    return _text(run_git(git, place, ["rev-parse", f"{commit}^{{tree}}"], "read the commit"))


def changed_files(git: Git, place: str, old: str, new: str) -> int:
    """Return how many files differ between two commits."""
    return len(changed_paths(git, place, old, new))


def changed_paths(git: Git, place: str, old: str, new: str) -> list[str]:
    """Return the files that differ between two commits, from the top of the repository."""
    words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new]
    out = run_git(git, place, words, "compare the commits").out
    return [os.fsdecode(path) for path in out.split(b"\0") if path]


def landed_paths(git: Git, project: str, old: str, new: str, prefix: str) -> tuple[str, ...]:
    """Return the files of the project, which is at `prefix` in its repository, that a fast-forward
    from `old` to `new` changed; nothing if the branch that is checked out does not contain `new`."""
    if not contains(git, project, "HEAD", new):
        return ()
    found = changed_paths(git, project, old, new)
    return tuple(path.removeprefix(prefix) for path in found if path.startswith(prefix))


def working_tree_commit(git: Git, project: str, message: str) -> str:
    """Return a commit of the checked-out commit plus everything that is not committed, except
    ignored files. No ref leads to it, and the user's index stays as it is."""
    head = _head(git, project)
    with index_of_ours(git, project) as own:
        run_git(own, project, ["read-tree", head], "read the commit")
        run_git(own, project, ["add", "--all", "--", ":/"], "add the changes")
        tree = _text(run_git(own, project, ["write-tree"], "write the tree"))
    return _commit(git, project, tree, [head], message)


def _commit(git: Git, directory: str, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit, in the user's name if git knows one."""
    parts = [word for parent in parents for word in ("-p", parent)]
    words = ["commit-tree", tree, *parts, "-F", "-"]
    answer = git.change(directory, words, message.encode())
    if answer.code != 0:
        words = [*_identity(git, directory), *words]
        answer = run_git(git, directory, words, "commit", message.encode())
    return _text(answer)


def _identity(git: Git, directory: str) -> list[str]:
    """Return options that give us a name if git does not know the user's."""
    if git.read(directory, ["var", "GIT_COMMITTER_IDENT"]).code == 0:
        return []
    return ["-c", "user.name=ll-loop", "-c", "user.email=ll-loop@localhost"]


# ── merging ────────────────────────────────────────────────────────────────────────────────────


def merge(
    git: Git, project: str, onto: str, theirs: str, message: str, kind: MergeKind = "merge"
) -> Merged | Conflict:
    """Merge the commit `theirs` into the commit `onto`, and return the new commit, which no ref
    leads to; or the conflict."""
    if contains(git, project, onto, theirs):
        return Merged(onto)
    tree = _merged_tree(git, project, onto, theirs)
    if isinstance(tree, Conflict):
        return tree
    parents = [onto] if kind == "squash" else [onto, theirs]
    return Merged(_commit(git, project, tree, parents, message))


def rebased(
    git: Git, project: str, base: str, merged: str, onto: str, message: str
) -> Merged | Conflict:
    """Return a commit on `onto` with the changes between `base` and `merged`, and no others.

    `base` may contain what the user has not committed: none of it gets into the new commit.
    """
    ours, theirs = _beside(git, project, base, onto), _beside(git, project, base, merged)
    tree = _merged_tree(git, project, ours, theirs)
    if isinstance(tree, Conflict):
        return tree
    if tree == tree_of(git, project, onto):
        return Merged(onto)
    return Merged(_commit(git, project, tree, [onto], message))


def _beside(git: Git, project: str, base: str, commit: str) -> str:
    """Return a commit with the files of another one on top of `base`: two of them make that the
    common ancestor of what is merged."""
    return _commit(git, project, f"{commit}^{{tree}}", [base], "beside")


def tree_with_conflicts(git: Git, project: str, base: str | None, onto: str, theirs: str) -> str:
    """Return the tree of a merge. Files that are in conflict have markers. With `base`, only the
    changes since that are merged."""
    ours = onto
    if base is not None:
        ours, theirs = _beside(git, project, base, onto), _beside(git, project, base, theirs)
    return _merge_tree(git, project, ours, theirs).out.split(b"\0")[0].decode("ascii")


def _merge_tree(git: Git, project: str, ours: str, theirs: str) -> GitOutput:
    """Let git merge two commits without a work tree. Raises `StoreError` if it fails."""
    words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs]
    answer = git.change(project, words)
    if answer.code not in (0, 1) or not answer.out:  # a conflict has a tree, too
        raise StoreError(f"git cannot merge: {answer.complaint}")
    return answer


def _merged_tree(git: Git, project: str, ours: str, theirs: str) -> str | Conflict:
    """Return the tree of a merge, or its conflict. Raises `StoreError` if git fails."""
    answer = _merge_tree(git, project, ours, theirs)
    tree, *rest = answer.out.split(b"\0")
    if answer.code == 0:
        return tree.decode("ascii")
    return Conflict(tuple(os.fsdecode(each) for each in dict.fromkeys(rest) if each))


def contains(git: Git, project: str, commit: str, other: str) -> bool:
    """Return whether a commit contains another one in its history."""
    return git.read(project, ["merge-base", "--is-ancestor", other, commit]).code == 0


# ── landing ────────────────────────────────────────────────────────────────────────────────────


def current_branch(git: Git, project: str) -> str | None:
    """Return the name of the branch that is checked out; None for a detached HEAD."""
    answer = git.read(project, ["symbolic-ref", "--quiet", "HEAD"])
    name = answer.out.decode("utf-8", "replace").strip()
    return name.removeprefix(HEADS) if answer.code == 0 else None


def land(
    git: Git,
    project: str,
    branch: str | None,
    old: str,
    new: str,
    name: str | None = None,
    *,
    is_repeated: bool = False,
    wait_s: float = WAIT_S,
) -> Landed | Moved | LandingRefused:
    """Move the branch that was checked out at the start, by a fast-forward, from `old` to `new`.

    The files and the index of the project follow. If another branch is checked out by now, or a
    file that would change has uncommitted edits, nothing is touched. `name` is a branch at `new`.
    `is_repeated` says that it may have been killed before, when some files had been written.
    If another git is at work in the repository, wait for it, for `wait_s` at most.
    """
    target = name or new[:12]
    command = f"git merge --ff-only {target}"
    if branch is None:
        return LandingRefused("no branch is checked out (HEAD is detached)", command)
    here = current_branch(git, project)
    if here != branch:
        where = "no branch" if here is None else f"`{here}`"
        reason = f"{where} is checked out, not `{branch}`"
        return LandingRefused(reason, f"git switch {branch} && {command}")
    head = _head(git, project)
    if head == new or contains(git, project, head, new):
        return Landed(head)
    if head != old:
        return Moved(head)
    answer = _fast_forward(git, project, new, wait_s)
    is_in_the_way = answer.complaint.removeprefix("error: ").startswith((EDITS, UNTRACKED))
    if is_repeated and is_in_the_way and add_files_as_in(git, project, old, new):
        answer = _fast_forward(git, project, new, wait_s)
    if answer.code == 0:
        return Landed(new)
    head = _head(git, project)
    return Moved(head) if head != old else _refused(_shortened(answer.complaint), target)


def _fast_forward(git: Git, project: str, new: str, wait_s: float) -> GitOutput:
    """Let git move the branch that is checked out, with its files, unless a file would be lost. If
    another git is at work, wait until it has finished."""
    ends_at = time.monotonic() + wait_s
    # The user's settings must not make it more, or less, than a fast-forward.
    words = ["merge", "--ff-only", "--no-autostash", "--no-verify-signatures", "--quiet"]
    while True:
        # Git takes ignored files for expendable, but `.env` may be the only copy.
        answer = git.change(project, [*words, "--no-overwrite-ignore", new])
        if answer.code == 0 or LOCKED not in answer.complaint:
            return answer
        lock = lock_of_index(project)
        if lock is None or not wait_until_gone(git, lock, ends_at - time.monotonic()):
            why = f"another git process is running here, or was killed; if none is running, remove `{lock}`"
            return answer._replace(complaint=why)


def _refused(reason: str, target: str) -> LandingRefused:
    """Return why files of the user prevent the merge, and the command that merges `target`
    nevertheless: git can stash edits itself, but not untracked files."""
    if reason.startswith(EDITS):
        return LandingRefused(reason, f"git merge --autostash --ff-only {target}")
    advice = "; move them away first" if reason.startswith(UNTRACKED) else ""
    # Without the option, git would overwrite the ignored files that it has just refused to.
    return LandingRefused(reason + advice, f"git merge --no-overwrite-ignore --ff-only {target}")


def _shortened(complaint: str) -> str:
    """Return git's complaint without its advice."""
    advice = ("Aborting", "Please ", "hint:", "Updating ")
    kept = [part for part in complaint.split(" | ") if not part.startswith(advice)]
    return " ".join(kept).removeprefix("error: ")


def _head(git: Git, directory: str) -> str:
    """Return the checked-out commit. Raises `StoreError` if there is none."""
    head = commit_of(git, directory, "HEAD")
    if head is None:
        raise StoreError("the repository has no commit yet", "commit something first")
    return head


def _text(answer: GitOutput) -> str:
    return answer.out.decode("utf-8", "replace").strip()
