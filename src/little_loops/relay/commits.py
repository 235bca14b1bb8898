"""Commit what a turn changed, and nothing else.

`take_snapshot` looks before a turn which files differ from the last commit, and what is in them.
`commit` compares afterwards and commits the difference, by `git commit --only`: what somebody
staged for another commit stays staged.  Hooks run, as for anybody.  Nothing is pushed, no branch is
changed or left, no ignored file is added.

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
from little_loops.relay.git import TIMED_OUT, Answer, git
from little_loops.relay.record import read_small, write_whole
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
    """A commit could not be made; the work is where it was."""


class Repository(NamedTuple):
    """A work tree: its top, its git directory, and where the project lies in it (`a/b/` or empty).

    `call` is the action for which git is asked.
    """

    top: str
    git_dir: str
    prefix: str
    call: Call


class Change(NamedTuple):
    """A path, from the top, that differs from the last commit; `new` if git does not know it."""

    path: str
    new: bool


class Committed(NamedTuple):
    """The short name of the commit, if one was made; `left` are repositories inside this one."""

    id: str | None
    left: tuple[str, ...] = ()


Snapshot = dict[str, str]
"""Paths that differ from the last commit, and what lies there."""


class Bounds(NamedTuple):
    """Where a turn's work may lie, by paths of the project: `inside` one, under none of `outside`.

    A path of `outside` that ends in `*` stands for all that begin so.
    """

    inside: tuple[str, ...] = (".",)
    outside: tuple[str, ...] = ()

    def hold(self, path: str, prefix: str) -> bool:
        """`path` from the top of the repository, in which the project lies at `prefix`."""
        if not path.startswith(prefix):
            return False
        path = path.removeprefix(prefix)
        return any(_is_at(path, place) for place in self.inside) and not any(
            _is_at(path, place) for place in (*STATE_FOLDERS, *self.outside)
        )


def _is_at(path: str, place: str) -> bool:
    if place.endswith("*"):
        return path.startswith(place[:-1])
    return place == "." or path == place or path.startswith(f"{place}/")


def find_repository(call: Call) -> Repository | None:
    """The repository the project lies in; None without one, or without git."""
    wanted = ("--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir", "--show-prefix")
    answer = git(call, ["rev-parse", *wanted], call.project)
    if answer is None or _no_work_tree(answer):
        return None
    lines = answer.text.split("\n")
    if answer.code != 0 or len(lines) != len(wanted) + 1:
        raise NotCommitted(f"git cannot be used here: {answer.complaint}", WITHOUT_COMMITS)
    return Repository(top=lines[1], git_dir=lines[2], prefix=lines[3], call=call)


def _no_work_tree(answer: Answer) -> bool:
    missing = ("not a git repository", "must be run in a work tree")
    return answer.text.startswith("false") or any(word in answer.complaint for word in missing)


def ready(repository: Repository) -> None:
    """Find out before an agent works for an hour that its work could not be committed."""
    _check_no_operation_in_progress(repository)
    answer = _ask(repository, ["var", "GIT_COMMITTER_IDENT"])
    if answer.code != 0:
        raise NotCommitted(
            "git has no user name and email configured",
            "set `user.name` and `user.email`, or write `commit: false` in the loop",
        )


def _check_no_operation_in_progress(repository: Repository) -> None:
    for name, what in IN_PROGRESS.items():
        if os.path.exists(os.path.join(repository.git_dir, name)):
            raise NotCommitted(
                f"the repository is in the middle of a {what}",
                f"finish or abort the {what}",
            )


# ── taking stock ───────────────────────────────────────────────────────────────────────────────


def take_snapshot(repository: Repository) -> None:
    """Keep in the run's directory what differs from the last commit before the turn."""
    before = {change.path: _content(repository, change.path) for change in changes(repository)}
    write_whole(_snapshot_path(repository.call), json.dumps(before))


def drop_snapshot(call: Call) -> None:
    """What an earlier turn began with says nothing about one that is not committed."""
    with suppress(FileNotFoundError):
        os.unlink(_snapshot_path(call))


def has_snapshot(call: Call) -> bool:
    """Whether the turn began in a repository to which its work is to be committed."""
    return os.path.lexists(_snapshot_path(call))


def _snapshot_path(call: Call) -> str:
    return os.path.join(call.run_dir, SNAPSHOT)


def _snapshot(call: Call) -> Snapshot:
    path = _snapshot_path(call)
    try:
        return dict(json.loads(read_small(path, LARGEST_SNAPSHOT) or ""))
    except (ValueError, TypeError) as problem:
        raise DamagedRun(f"`{path}` does not describe the files before the turn") from problem


def changes(repository: Repository) -> list[Change]:
    """What differs from the last commit, ignored files aside."""
    options = ["--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"]
    answer = _ask(repository, ["status", *options, "--ignore-submodules=dirty"])
    if answer.code != 0:
        raise NotCommitted(f"git cannot list the changes: {answer.complaint}", WITHOUT_COMMITS)
    found = {change.path: change for change in _parsed(answer.text.split("\0"))}
    return list(found.values())


def _parsed(entries: Iterable[str]) -> Iterator[Change]:
    """`1 XY sub mH mI mW hH hI path`, `u XY sub m1 m2 m3 mW h1 h2 h3 path`, `? path`."""
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


def _content(repository: Repository, path: str) -> str:
    """What lies at a path, as a text that differs when it does."""
    full = os.path.join(repository.top, path)
    try:
        info = os.lstat(full)
        return _digest(full, info)
    except OSError:
        return "absent"


def _digest(path: str, info: os.stat_result) -> str:
    from hashlib import sha256  # a clean work tree has nothing to hash

    if stat.S_ISLNK(info.st_mode):
        return "link:" + sha256(os.fsencode(os.readlink(path))).hexdigest()
    kind = "program" if info.st_mode & stat.S_IXUSR else "file"
    if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST_HASHED:
        return f"{kind}:{info.st_size}:{info.st_mtime_ns}"
    return f"{kind}:{sha256(read_plain(path)).hexdigest()}"


# ── committing ─────────────────────────────────────────────────────────────────────────────────


def commit(
    repository: Repository, message: str, bounds: Bounds, before: Snapshot | None = None
) -> Committed:
    """Commit what changed since the snapshot, as far as it lies within the bounds.

    `before` is what was there instead of the snapshot that was kept.
    """
    before = _snapshot(repository.call) if before is None else before
    mine = [
        change
        for change in changes(repository)
        if bounds.hold(change.path, repository.prefix)
        and _has_changed(repository, change.path, before)
    ]
    left = tuple(change.path for change in mine if change.path.endswith("/"))
    mine = [change for change in mine if not change.path.endswith("/")]
    if not mine:
        return Committed(_made_before(repository, message), left)
    _check_no_operation_in_progress(repository)
    return Committed(_commit(repository, mine, message), left)


def _made_before(repository: Repository, message: str) -> str | None:
    """The commit of this turn, if a crash came between making it and saying so."""
    answer = _ask(repository, ["log", "-1", "--format=%h%n%B"])
    made, _, said = answer.text.partition("\n")
    return made if answer.code == 0 and said.strip() == message.strip() else None


def _has_changed(repository: Repository, path: str, before: Snapshot) -> bool:
    was = before.get(path)
    return was is None or _content(repository, path) != was


def _commit(repository: Repository, mine: Sequence[Change], message: str) -> str | None:
    answer = _try(repository, mine, message)
    if answer.code != 0:
        if _is_no_change(repository, mine):
            return None
        if LOCK in answer.complaint:
            raise NotCommitted(
                "the git index is locked by another git process, or by one that was killed",
                f"if no git is running, remove `{os.path.join(repository.git_dir, LOCK)}`",
            )
        raise NotCommitted(f"git refused the commit: {answer.complaint}")
    return _ask(repository, ["rev-parse", "--short", "HEAD"]).text.strip()


def _try(repository: Repository, mine: Sequence[Change], message: str) -> Answer:
    """Once, and once more if a hook mended the files it complained about."""
    paths = [change.path for change in mine]
    before = _contents(repository, paths)
    answer = _attempt(repository, mine, message)
    if answer.code not in (0, TIMED_OUT) and _contents(repository, paths) != before:
        answer = _attempt(repository, mine, message)
    return answer


def _attempt(repository: Repository, mine: Sequence[Change], message: str) -> Answer:
    new = [change.path for change in mine if change.new]
    added = _patiently(repository, ["add", *FROM_STDIN], new) if new else None
    if added is not None and added.code != 0:
        return added
    words = ["commit", "--quiet", "--only", f"--message={message}", *FROM_STDIN]
    answer = _patiently(repository, words, [change.path for change in mine])
    if answer.code != 0 and new:
        # As they were: files git does not know.
        _patiently(repository, ["rm", "--cached", "--force", "--quiet", *FROM_STDIN], new)
    return answer


def _is_no_change(repository: Repository, mine: Sequence[Change]) -> bool:
    """Line ends that git evens out make a file look changed that is not."""
    known = [change.path for change in mine if not change.new]
    words = ["commit", "--dry-run", "--short", "--only", *FROM_STDIN]
    return len(known) == len(mine) and _patiently(repository, words, known).code == 1


def _contents(repository: Repository, paths: Sequence[str]) -> list[str]:
    return [_content(repository, path) for path in paths]


def _patiently(repository: Repository, words: Sequence[str], paths: Sequence[str]) -> Answer:
    """Another git of the user's may hold the index for a moment."""
    # From the top and letter for letter: a name may begin with `:` or hold a `*`.
    stdin = "\0".join(f":(top,literal){path}" for path in paths)
    answer = _ask(repository, words, stdin)
    for wait_s in LOCK_WAITS_S:
        if answer.code == 0 or LOCK not in answer.complaint:
            break
        repository.call.pause(wait_s)
        answer = _ask(repository, words, stdin)
    return answer


def _ask(repository: Repository, words: Sequence[str], stdin: str = "") -> Answer:
    answer = git(repository.call, words, repository.top, stdin=stdin, timeout_s=COMMIT_TIMEOUT_S)
    return answer or Answer(127, "", "git is no longer installed")
