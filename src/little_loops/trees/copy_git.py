"""Give a clean copy its own `.git`: the project's commit as the only ref, no remotes, no hooks.

Objects are read from the user's repository, which is never written to. The directory is created
again whenever anything in it has changed: a check may have left hooks or commits.
"""

from __future__ import annotations

import os
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.trees import files as store_files
from little_loops.trees.git import Git, alternate
from little_loops.trees.objects import SHA1_CHARS
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.repository_files import GIT
from little_loops.trees.rules import Rules, literal, path_from_git

FILE_MODE = 0o644
CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = false
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


class Checkout(NamedTuple):
    """What is checked out in the user's repository; `commit` is None before the first commit."""

    git_dir: str
    common_dir: str
    branch: str
    commit: str | None


class CopyRepository:
    """The `.git` of one copy; `kept` is the directory where the index of its commit is cached."""

    def __init__(self, rules: Rules, top: str, kept: str) -> None:
        self._rules = rules
        self._top = top
        self._kept = kept
        self._checkout: Checkout | None = None
        self._head_files: object = None
        self._made: object = None
        self._removed: dict[tuple[str, str], dict[bytes, bytes]] = {}

    def lay_out(self, git: Git, commit: str | None = None) -> None:
        """Create the `.git` again, unless it and the user's checkout are unchanged since the last
        call. Its commit is `commit`, by default the one that is checked out in the project.

        Raises `StoreError` if git cannot be used, and `OSError`.
        """
        checkout = self._current_checkout(git)
        if commit is not None:
            checkout = checkout._replace(commit=commit)
        place = os.path.join(self._top, GIT)
        untracked = self._untracked_since_start(git, checkout)
        if self._made is not None and self._made == (checkout, untracked, _stamps(place)):
            return
        self._made = None
        with OpenDirectory(self._top) as ground:
            ground.remove_all(GIT)
            for path, data in _git_files(self._rules, checkout).items():
                ground.write(f"{GIT}/{path}", data, FILE_MODE)
            for folder in ("objects/pack", "refs/heads", "refs/tags"):
                ground.mkdir(f"{GIT}/{folder}")
            if checkout.commit is not None:
                _add_index(git, ground, checkout.commit, untracked, self._kept)
        self._made = (checkout, untracked, _stamps(place))

    def _untracked_since_start(self, git: Git, checkout: Checkout) -> bytes:
        """Return the index entries of files that the copy has and the commit at the start of the run
        had, but the present commit does not: a check that asks git for its files has to find them."""
        start = self._rules.head
        if start is None or checkout.commit in (None, start):
            return b""
        commits = (start, str(checkout.commit))
        if commits not in self._removed:
            self._removed = {commits: _removed_between(git, self._rules.project, *commits)}
        return b"".join(
            entry + b"\t" + path + b"\0"
            for path, entry in self._removed[commits].items()
            if os.path.lexists(os.path.join(os.fsencode(self._top), path))
        )

    def _current_checkout(self, git: Git) -> Checkout:
        """Return what is checked out; run git only if HEAD or its ref have changed since."""
        if self._checkout is not None and self._head_files is not None:
            if _read_head(self._checkout) == self._head_files:
                return self._checkout
        self._checkout = _checkout(git, self._rules.project)
        self._head_files = _read_head(self._checkout)
        return self._checkout


def _read_head(checkout: Checkout) -> object:
    """Return the content of HEAD and of its ref, to detect a change; None if no file has the ref."""
    head = store_files.read(os.path.join(checkout.git_dir, "HEAD"))
    if head is None or not head.startswith(b"ref: "):
        return head
    loose = os.path.join(checkout.common_dir, os.fsdecode(head[5:].strip()))
    packed = os.path.join(checkout.common_dir, "packed-refs")
    found = store_files.read(loose), store_files.read(packed)
    return None if found == (None, None) else (head, *found)


def _stamps(place: str) -> list[tuple[str, int, int, int]]:
    """Return path, ctime, inode and size of everything below a directory, to detect a change."""
    found = []
    for folder, _, names in os.walk(place):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            info = os.lstat(path)
            found.append((path, info.st_ctime_ns, info.st_ino, info.st_size))
    return found


def _checkout(git: Git, project: str) -> Checkout:
    """Return the project's git directory, branch and commit, from git. Raises `StoreError` if it
    fails.

    A detached HEAD has the branch `HEAD`; without a commit, the branch is `main`.
    """
    places = (["--absolute-git-dir"], ["--git-common-dir"])
    git_dir, common = (path_from_git(git, project, place) for place in places)
    words = ["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"]
    answer = git.read(project, words)
    if answer.code != 0:
        return Checkout(git_dir, _absolute(project, common), "refs/heads/main", None)
    commit, branch = os.fsdecode(answer.out).split("\n")[:2]
    return Checkout(git_dir, _absolute(project, common), branch, commit)


def _absolute(project: str, path: str) -> str:
    return os.path.realpath(os.path.join(project, path))


def _git_files(rules: Rules, checkout: Checkout) -> dict[str, bytes]:
    """Return the files of the new `.git`, by path."""
    commit, branch = checkout.commit, checkout.branch
    is_long = commit is not None and len(commit) > SHA1_CHARS
    config = CONFIG.format(version=int(is_long)) + (SHA256 if is_long else "")
    found = {
        "HEAD": f"ref: {branch}\n".encode(),
        "config": config.encode(),
        "info/exclude": _excluded(rules),
        "objects/info/alternates": os.fsencode(f"{alternate(f'{checkout.common_dir}/objects')}\n"),
    }
    if commit is not None:
        is_branch = branch.startswith("refs/heads/")
        found[branch if is_branch else "HEAD"] = f"{commit}\n".encode()
    shallow = store_files.read(os.path.join(checkout.common_dir, "shallow"))
    if shallow is not None:
        found["shallow"] = shallow
    return found


def _excluded(rules: Rules) -> bytes:
    """Return the lines of `info/exclude`: everything that was ignored when the run started.

    It must be ignored here, too, even where the copy has a link in its place.
    """
    paths = [*rules.linked, *rules.nested, *(one.path for one in rules.files)]
    lines = [os.fsencode(literal(rules.prefix + path)) + b"\n" for path in paths]
    own = b"".join(line for line in lines if line.count(b"\n") == 1)
    return own if rules.around is None else own + _excluded(rules.around.rules)


def _removed_between(git: Git, project: str, start: str, commit: str) -> dict[bytes, bytes]:
    """Return the paths that the first commit has and the second one has not, from the top of the
    repository, each with its mode and id; nothing if one of the commits is gone."""
    words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--diff-filter=D", start, commit]
    answer = git.read(project, words)
    fields = answer.out.split(b"\0") if answer.code == 0 else []
    found = {}
    for raw, path in zip(fields[::2], fields[1::2], strict=False):
        mode, _, id, *_ = raw.removeprefix(b":").split(b" ")
        found[path] = mode + b" " + id
    return found


def _add_index(git: Git, ground: OpenDirectory, commit: str, more: bytes, kept: str) -> None:
    """Write the index of the commit, with the entries `more`; git creates it once, then it is cached
    in `kept`.

    Raises `StoreError` if git cannot read the commit.
    """
    saved, name = os.path.join(kept, "index"), commit.encode() + more
    data = store_files.read(saved) if store_files.read(f"{saved}.of") == name else None
    if data is None:
        place = os.path.join(ground.path, GIT)
        answer = git.store(place, ["read-tree", commit])
        if answer.code == 0 and more:
            answer = git.store(place, ["update-index", "-z", "--index-info"], stdin=more)
        data = store_files.read(os.path.join(place, "index"))
        if answer.code != 0 or data is None:
            raise StoreError(f"git cannot read the project's commit: {answer.complaint}")
        with suppress(FileNotFoundError):
            os.unlink(f"{saved}.of")
        store_files.replace(saved, data)
        store_files.replace(f"{saved}.of", name)
    ground.write(f"{GIT}/index", data, FILE_MODE)
