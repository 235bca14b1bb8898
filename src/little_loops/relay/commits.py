"""Commit what a turn changed, and nothing else.

Before a turn, `take_snapshot` records which files differ from the last commit, and their content.
After it, `commit` compares and commits the difference with `git commit --only`, so that what the
user has staged stays staged. Hooks run as usual. Nothing is pushed, the branch is not changed, and
no ignored file is added.

Not here: what the message says (`rules`), when to commit (`turns`).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from little_loops.errors import DamagedRun, LittleLoopsError
from little_loops.records import NamedTuple
from little_loops.relay.call import Call
from little_loops.relay.git import TIMED_OUT, GitAnswer, git
from little_loops.relay.record import read_small, write_atomically
from little_loops.system.plain_files import read_plain

SNAPSHOT = "relay-before.json"
LARGEST_SNAPSHOT = 256 << 20
LARGEST_HASHED = 64 << 20
COMMIT_TIMEOUT_S = 1800.0  # hooks may run a whole test suite
LOCK = "index.lock"
LOCK_WAITS_S = (0.1, 0.2, 0.4, 0.8)
IN_PROGRESS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}
STATE_FOLDERS = (".loops/.running", ".loops/.history")
FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
WITHOUT_COMMITS = "fix that, or write `commit: false` in the loop"


class NotCommitted(LittleLoopsError):
    """A commit could not be made; the work is still in the work tree."""


class WorkTree(NamedTuple):
    """A work tree: its top, its git directory, and the project's path in it (`a/b/` or empty).

    `call` is the action for which git is run.
    """

    top: str
    git_dir: str
    prefix: str
    call: Call


class Change(NamedTuple):
    """A path, relative to the top, that differs from the last commit; `new` if it is untracked."""

    path: str
    new: bool


class Committed(NamedTuple):
    """The abbreviated id of the commit, if one was made; `left` are nested repositories."""

    id: str | None
    left: tuple[str, ...] = ()


Snapshot = dict[str, str]
"""Paths that differ from the last commit, with a description of their contents."""


class CommitBounds(NamedTuple):
    """Which project paths may be committed: those below `inside` that are not below `outside`.

    A path in `outside` that ends in `*` matches every path that starts with it.
    """

    inside: tuple[str, ...] = (".",)
    outside: tuple[str, ...] = ()

    def contain(self, path: str, prefix: str) -> bool:
        """Return whether `path`, relative to the top, may be committed; the project is at `prefix`."""
        if not path.startswith(prefix):
            return False
        path = path.removeprefix(prefix)
        return any(_is_below(path, place) for place in self.inside) and not any(
            _is_below(path, place) for place in (*STATE_FOLDERS, *self.outside)
        )


def _is_below(path: str, place: str) -> bool:
    """Return whether a path is at or below `place`, or starts with it if that ends in `*`."""
    if place.endswith("*"):
        return path.startswith(place[:-1])
    return place == "." or path == place or path.startswith(f"{place}/")


def find_repository(call: Call) -> WorkTree | None:
    """Return the repository that contains the project; None without one, or without git.

    Raises `NotCommitted` if git cannot be used there.
    """
    wanted = ("--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir", "--show-prefix")
    answer = git(call, ["rev-parse", *wanted], call.project)
    if answer is None or _no_work_tree(answer):
        return None
    lines = answer.text.split("\n")
    if answer.code != 0 or len(lines) != len(wanted) + 1:
        raise NotCommitted(f"git cannot be used here: {answer.complaint}", WITHOUT_COMMITS)
    return WorkTree(top=lines[1], git_dir=lines[2], prefix=lines[3], call=call)


def _no_work_tree(answer: GitAnswer) -> bool:
    missing = ("not a git repository", "must be run in a work tree")
    return answer.text.startswith("false") or any(word in answer.complaint for word in missing)


def check_can_commit(repository: WorkTree) -> None:
    """Raise `NotCommitted` if a commit would fail, before an agent works for an hour."""
    _check_no_operation_in_progress(repository)
    answer = _run_git(repository, ["var", "GIT_COMMITTER_IDENT"])
    if answer.code != 0:
        raise NotCommitted(
            "git has no user name and email configured",
            "set `user.name` and `user.email`, or write `commit: false` in the loop",
        )


def _check_no_operation_in_progress(repository: WorkTree) -> None:
    """Raise `NotCommitted` in the middle of a merge, rebase, cherry-pick or revert."""
    for name, what in IN_PROGRESS.items():
        if os.path.exists(os.path.join(repository.git_dir, name)):
            raise NotCommitted(
                f"the repository is in the middle of a {what}",
                f"finish or abort the {what}",
            )


# ── before the turn ───────────────────────────────────────────────────────────────────────────────


def take_snapshot(repository: WorkTree) -> None:
    """Save what differs from the last commit before the turn, in the run's directory."""
    before = {change.path: _content(repository, change.path) for change in changes(repository)}
    write_atomically(_snapshot_path(repository.call), json.dumps(before))


def drop_snapshot(call: Call) -> None:
    """Remove the snapshot of an earlier turn, because this turn will not be committed."""
    with suppress(FileNotFoundError):
        os.unlink(_snapshot_path(call))


def has_snapshot(call: Call) -> bool:
    """Return whether the turn started in a repository and is to be committed."""
    return os.path.lexists(_snapshot_path(call))


def _snapshot_path(call: Call) -> str:
    return os.path.join(call.run_dir, SNAPSHOT)


def _load_snapshot(call: Call) -> Snapshot:
    """Load the snapshot of the turn; raise `DamagedRun` if it is missing or damaged."""
    path = _snapshot_path(call)
    try:
        return dict(json.loads(read_small(path, LARGEST_SNAPSHOT) or ""))
    except (ValueError, TypeError) as problem:
        raise DamagedRun(f"`{path}` does not describe the files before the turn") from problem


def changes(repository: WorkTree) -> list[Change]:
    """Return the files that differ from the last commit, except ignored ones.

    Raises `NotCommitted` if git cannot list them.
    """
    options = ["--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"]
    answer = _run_git(repository, ["status", *options, "--ignore-submodules=dirty"])
    if answer.code != 0:
        raise NotCommitted(f"git cannot list the changes: {answer.complaint}", WITHOUT_COMMITS)
    found = {change.path: change for change in _parse_status(answer.text.split("\0"))}
    return list(found.values())


def _parse_status(entries: Iterable[str]) -> Iterator[Change]:
    """Parse the entries of `git status --porcelain=v2 -z`.

    They are `1 XY sub mH mI mW hH hI path`, `u XY sub m1 m2 m3 mW h1 h2 h3 path` and `? path`.
    """
    for entry in entries:
        match entry[:2]:
            case "1 ":
                yield Change(entry.split(" ", 8)[8], new=False)
            case "u ":
                yield Change(entry.split(" ", 10)[10], new=False)
            case "? ":
                yield Change(entry[2:], new=True)
            case _:
                pass


def _content(repository: WorkTree, path: str) -> str:
    """Return a description of a path's content that differs whenever the content does."""
    full = os.path.join(repository.top, path)
    try:
        info = os.lstat(full)
        return _digest(full, info)
    except OSError:
        return "absent"


def _digest(path: str, info: os.stat_result) -> str:
    """Return the kind of a file and its hash; size and time instead of a hash for large files."""
    from hashlib import sha256  # a clean work tree has nothing to hash

    if stat.S_ISLNK(info.st_mode):
        return "link:" + sha256(os.fsencode(os.readlink(path))).hexdigest()
    kind = "program" if info.st_mode & stat.S_IXUSR else "file"
    if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST_HASHED:
        return f"{kind}:{info.st_size}:{info.st_mtime_ns}"
    return f"{kind}:{sha256(read_plain(path)).hexdigest()}"


# ── committing ─────────────────────────────────────────────────────────────────────────────────


def commit(
    repository: WorkTree, message: str, bounds: CommitBounds, before: Snapshot | None = None
) -> Committed:
    """Commit what changed since the snapshot (`before`, or else the saved one) within the bounds.

    If there is nothing to commit, the id is that of this turn's commit from before a crash, or
    None. Raises `NotCommitted` if git refuses, `DamagedRun` if the snapshot is missing.
    """
    before = _load_snapshot(repository.call) if before is None else before
    mine = [
        change
        for change in changes(repository)
        if bounds.contain(change.path, repository.prefix)
        and _has_changed(repository, change.path, before)
    ]
    left = tuple(change.path for change in mine if change.path.endswith("/"))
    mine = [change for change in mine if not change.path.endswith("/")]
    if not mine:
        return Committed(_find_own_commit(repository, message), left)
    _check_no_operation_in_progress(repository)
    return Committed(_commit(repository, mine, message), left)


def _find_own_commit(repository: WorkTree, message: str) -> str | None:
    """Return the last commit if it is this turn's, made before a crash that kept us from recording
    it."""
    answer = _run_git(repository, ["log", "-1", "--format=%h%n%B"])
    made, _, said = answer.text.partition("\n")
    return made if answer.code == 0 and said.strip() == message.strip() else None


def _has_changed(repository: WorkTree, path: str, before: Snapshot) -> bool:
    """Return whether a path's content is not the one in the snapshot."""
    was = before.get(path)
    return was is None or _content(repository, path) != was


def _commit(repository: WorkTree, mine: Sequence[Change], message: str) -> str | None:
    """Commit these paths. Return the abbreviated id; None if git finds no difference.

    Raises `NotCommitted` if git refuses.
    """
    answer = _commit_with_hooks(repository, mine, message)
    if answer.code != 0:
        if _is_no_change(repository, mine):
            return None
        if LOCK in answer.complaint:
            raise NotCommitted(
                "the git index is locked by another git process, or by one that was killed",
                f"if no git process is running, remove `{os.path.join(repository.git_dir, LOCK)}`",
            )
        raise NotCommitted(f"git refused the commit: {answer.complaint}")
    return _run_git(repository, ["rev-parse", "--short", "HEAD"]).text.strip()


def _commit_with_hooks(repository: WorkTree, mine: Sequence[Change], message: str) -> GitAnswer:
    """Commit, and try once more if a hook rejected the commit but changed the files itself."""
    paths = [change.path for change in mine]
    before = _contents(repository, paths)
    answer = _run_commit(repository, mine, message)
    if answer.code not in (0, TIMED_OUT) and _contents(repository, paths) != before:
        answer = _run_commit(repository, mine, message)
    return answer


def _run_commit(repository: WorkTree, mine: Sequence[Change], message: str) -> GitAnswer:
    """Add the new files and commit all; if that fails, make the new files untracked again."""
    new = [change.path for change in mine if change.new]
    added = _run_with_retries(repository, ["add", *FROM_STDIN], new) if new else None
    if added is not None and added.code != 0:
        return added
    words = ["commit", "--quiet", "--only", f"--message={message}", *FROM_STDIN]
    answer = _run_with_retries(repository, words, [change.path for change in mine])
    if answer.code != 0 and new:
        # They were untracked before.
        _run_with_retries(repository, ["rm", "--cached", "--force", "--quiet", *FROM_STDIN], new)
    return answer


def _is_no_change(repository: WorkTree, mine: Sequence[Change]) -> bool:
    """Return whether git finds nothing to commit.

    Normalised line endings can make an unchanged file look changed.
    """
    known = [change.path for change in mine if not change.new]
    words = ["commit", "--dry-run", "--short", "--only", *FROM_STDIN]
    return len(known) == len(mine) and _run_with_retries(repository, words, known).code == 1


def _contents(repository: WorkTree, paths: Sequence[str]) -> list[str]:
    return [_content(repository, path) for path in paths]


def _run_with_retries(
    repository: WorkTree, words: Sequence[str], paths: Sequence[str]
) -> GitAnswer:
    """Run git on these paths; retry a few times while another git process holds the index lock."""
    # Relative to the top and literal, because a name may start with `:` or contain `*`.
    stdin = "\0".join(f":(top,literal){path}" for path in paths)
    answer = _run_git(repository, words, stdin)
    for wait_s in LOCK_WAITS_S:
        if answer.code == 0 or LOCK not in answer.complaint:
            break
        repository.call.pause(wait_s)
        answer = _run_git(repository, words, stdin)
    return answer


def _run_git(repository: WorkTree, words: Sequence[str], stdin: str = "") -> GitAnswer:
    answer = git(repository.call, words, repository.top, stdin=stdin, timeout_s=COMMIT_TIMEOUT_S)
    return answer or GitAnswer(127, "", "git is no longer installed")
