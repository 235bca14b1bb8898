"""Give a clean copy a `.git` of its own: the project's commit as its only ref, no remotes, no hooks.

Objects are read from the user's repository, never written there.  It is made again for every check:
the one before may have left hooks or commits in it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.trees import files as store_files
from little_loops.trees.git import Git
from little_loops.trees.placing import Ground
from little_loops.trees.rules import GIT, Rules

SHA1_CHARS = 40
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
    """What is checked out in the user's repository; no commit before the first one."""

    objects: str
    shallow: str
    branch: str
    commit: str | None


def lay_out_git(git: Git, rules: Rules, top: str, kept: str) -> None:
    """Make `.git` in the copy; `kept` is where the index for its commit is saved."""
    checkout = _checkout(git, rules.project)
    with Ground(top) as ground:
        ground.remove_all(GIT)
        for path, data in _files(rules, checkout).items():
            ground.write(f"{GIT}/{path}", data, FILE_MODE)
        for folder in ("objects/pack", "refs/heads", "refs/tags"):
            ground.make(f"{GIT}/{folder}")
        if checkout.commit is not None:
            _add_index(git, ground, checkout.commit, kept)


def _checkout(git: Git, project: str) -> Checkout:
    paths = ["--git-path", "objects", "--git-path", "shallow"]
    head = ["HEAD^{commit}", "--symbolic-full-name", "HEAD"]
    answer = git.read(project, ["rev-parse", *paths, *head])
    if answer.code == 0:
        objects, shallow, commit, branch = os.fsdecode(answer.out).split("\n")[:4]
        return Checkout(_full(project, objects), _full(project, shallow), branch, commit)
    answer = git.read(project, ["rev-parse", *paths])
    if answer.code != 0:
        raise StoreError(f"git cannot be used here: {answer.complaint}")
    objects, shallow = os.fsdecode(answer.out).split("\n")[:2]
    return Checkout(_full(project, objects), _full(project, shallow), "refs/heads/main", None)


def _full(project: str, path: str) -> str:
    return os.path.realpath(os.path.join(project, path))


def _files(rules: Rules, checkout: Checkout) -> dict[str, bytes]:
    commit, branch = checkout.commit, checkout.branch
    is_long = commit is not None and len(commit) > SHA1_CHARS
    config = CONFIG.format(version=int(is_long)) + (SHA256 if is_long else "")
    found = {
        "HEAD": f"ref: {branch}\n".encode(),
        "config": config.encode(),
        "info/exclude": _excluded(rules),
        "objects/info/alternates": os.fsencode(checkout.objects) + b"\n",
    }
    if commit is not None:
        is_branch = branch.startswith("refs/heads/")
        found[branch if is_branch else "HEAD"] = f"{commit}\n".encode()
    shallow = store_files.read(checkout.shallow)
    if shallow is not None:
        found["shallow"] = shallow
    return found


def _excluded(rules: Rules) -> bytes:
    """What was ignored at the start is ignored here, also where it is a link now."""
    paths = [*rules.linked, *rules.nested, *(one.path for one in rules.files)]
    lines = [b"/" + _literal(os.fsencode(rules.prefix + path)) + b"\n" for path in paths]
    return b"".join(line for line in lines if line.count(b"\n") == 1)


def _literal(path: bytes) -> bytes:
    return re.sub(rb"([\\*?\[ ])", rb"\\\1", path)


def _add_index(git: Git, ground: Ground, commit: str, kept: str) -> None:
    """The index of the commit, read once for every commit."""
    saved = os.path.join(kept, "index")
    data = store_files.read(saved) if store_files.read(f"{saved}.of") == commit.encode() else None
    if data is None:
        place = os.path.join(ground.path, GIT)
        answer = git.store(place, ["read-tree", commit])
        data = store_files.read(os.path.join(place, "index"))
        if answer.code != 0 or data is None:
            raise StoreError(f"git cannot read the project's commit: {answer.complaint}")
        with suppress(FileNotFoundError):
            os.unlink(f"{saved}.of")
        store_files.replace(saved, data)
        store_files.replace(f"{saved}.of", commit.encode())
    ground.write(f"{GIT}/index", data, FILE_MODE)
