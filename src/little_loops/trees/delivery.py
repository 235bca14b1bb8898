"""Find out what a commit of the whole project would contain, by letting git add it.

Git uses the user's configuration, but an index and an object directory of ours, so nothing of the
user's repository changes. Attributes, filters, `core.fileMode`, a sparse checkout, repositories
inside the project, and names that git refuses all decide what a commit contains, and git alone
knows all of them. Then the files that differ are checked out from that index: what a clone has is
what git writes there.

Not here: what the clean copy does with it (`copy_plan`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER
from little_loops.system.plain_files import reading
from little_loops.trees.copy_plan import Content
from little_loops.trees.git import Git, is_inside
from little_loops.trees.guard import Guarded
from little_loops.trees.objects import object_id

REFUSED = 128
GITLINK = "160000"
LINK = "120000"
PROGRAM = "100755"
EXCEPT = b":(exclude,literal)"


class Delivery(NamedTuple):
    """What a commit contains: without the paths `left_out`, and with the content `other` where that
    is not the content of the project."""

    left_out: tuple[str, ...] = ()
    other: Mapping[str, Content] = {}


class Worksheet(NamedTuple):
    """An index and an object directory of ours for the repository of a project."""

    git: Git
    project: str
    place: str
    objects: str

    def run(self, words: Iterable[str], stdin: bytes = b"") -> bytes:
        """Run git in the project. Raises `StoreError` if it refuses, `Interrupted` on a stop; single
        files that it cannot add are no failure."""
        variables = {
            # Or git would write the index of a submodule when it looks for changes in there.
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_INDEX_FILE": f"{self.place}/index",
            "GIT_OBJECT_DIRECTORY": f"{self.place}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self.objects),
            "GIT_LITERAL_PATHSPECS": "0",
        }
        # Without compression, and without what `git lfs` would keep in the user's repository.
        options = ("-c", "core.compression=0", "-c", f"lfs.storage={self.place}/lfs")
        answer = self.git.try_out(self.project, (*options, *words), variables, stdin)
        if answer.code not in range(REFUSED):
            raise StoreError(
                f"git cannot add and check out the project's files: {answer.complaint}"
            )
        return answer.out


def _quoted(path: str) -> str:
    """Return a path as an entry of git's list of object directories, whose separator is a colon."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def what_a_commit_has(
    git: Git,
    project: str,
    prefix: str,
    place: str,
    files: Mapping[str, Guarded],
    changed: Iterable[str],
    nested: Iterable[str],
    large: Iterable[str] = (),
) -> Delivery:
    """Return how a commit of everything would differ from the snapshot `files`, as far as these
    paths were `changed` during the run, or are in a repository that is new in git's index.

    `prefix` is the project's path in its repository, `nested` are the repositories in the project
    that were there before; git does not read the files that are too `large`. Files for git are put into the directory `place`, which is removed.
    Raises `StoreError`, `OSError`, or `Interrupted` on a stop.
    """
    mine = {path: files[path] for path in changed if path in files}
    if not mine:
        return Delivery()
    _require_commit(git, project)
    with _worksheet(git, project, place) as sheet:
        add = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        sheet.run(add, b"\0".join((b".", *(EXCEPT + os.fsencode(path) for path in large))))
        index = dict(_entries(sheet.run(["ls-files", "--stage", "-z", "--", "."])))
        links = {path for path, (mode, _) in index.items() if mode == GITLINK}.difference(nested)
        inside = {path for path in files if any(is_inside(path, link) for link in links)}
        absent = {path for path, one in mine.items() if not _has(index, path, one)}
        others = [path for path, one in mine.items() if path not in absent | inside]
        differing = [path for path in others if not _is_same(index[path], mine[path])]
        paths = b"".join(os.fsencode(path) + b"\0" for path in differing)
        if differing:
            sheet.run(["checkout-index", "-z", "--stdin", f"--prefix={place}/out/"], paths)
        found = {
            path: _checked_out(f"{place}/out/{prefix}{path}", mine[path]) for path in differing
        }
    lost = {path for path, one in found.items() if one is None}
    other = {
        path: one
        for path, one in found.items()
        if one is not None and one != Content(*mine[path][1:4], data=one.data)
    }
    return Delivery(tuple(sorted(inside | absent | lost)), other)


def _require_commit(git: Git, project: str) -> None:
    """Raise `StoreError` if git cannot read the commit that is checked out, so that it could not add
    another one; before the first commit, there is none."""
    named = git.read(project, ["rev-parse", "--quiet", "--verify", "HEAD"])
    if named.code == 0 and git.read(project, ["cat-file", "-e", "HEAD^{tree}"]).code != 0:
        raise StoreError(
            "git cannot read the commit that is checked out: objects of the repository are missing or"
            " damaged"
        )


@contextmanager
def _worksheet(git: Git, project: str, directory: str) -> Iterator[Worksheet]:
    """Create `directory`, deleting what is there, with a copy of the user's index (if there is one)
    and an empty object directory; delete it at the end. Raises `StoreError`."""
    words = ["rev-parse", "--git-path", "index", "--git-path", "objects"]
    answer = git.read(project, words)
    lines = os.fsdecode(answer.out).splitlines()
    if answer.code != 0 or len(lines) != 2:
        raise StoreError(f"git cannot find its index: {answer.complaint}")
    index, objects = (os.path.join(project, line) for line in lines)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(os.path.join(directory, "objects"), mode=PRIVATE_FOLDER)
    try:
        if os.path.lexists(index):
            with reading(index) as source, open(f"{directory}/index", "xb") as target:
                shutil.copyfileobj(source, target)
                info = os.fstat(source.fileno())
            # Git reads again what is not older than its index.
            os.utime(f"{directory}/index", ns=(info.st_atime_ns, info.st_mtime_ns))
        yield Worksheet(git, project, directory, os.path.realpath(objects))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _entries(listing: bytes) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield path, mode and id of each entry of an index."""
    for line in filter(None, listing.split(b"\0")):
        head, _, path = line.partition(b"\t")
        mode, id, _ = os.fsdecode(head).split(" ")
        yield os.fsdecode(path), (mode, id)


def _has(index: Mapping[str, tuple[str, str]], path: str, one: Guarded) -> bool:
    mode, _ = index.get(path, ("", ""))
    return mode != "" and (mode == LINK) is (one.kind == "link")


def _is_same(entry: tuple[str, str], one: Guarded) -> bool:
    """Return whether git's index has the content and the executable bit of a file."""
    mode, id = entry
    is_program = bool(one.mode & stat.S_IXUSR)
    return id == one.id and (one.kind == "link" or (mode == PROGRAM) is is_program)


def _checked_out(full: str, one: Guarded) -> Content | None:
    """Return the content that git has checked out at a path; None if it has not."""
    try:
        if one.kind == "link":
            data, mode = os.fsencode(os.readlink(full)), one.mode
        else:
            with reading(full) as file:
                data, made = file.read(), os.fstat(file.fileno()).st_mode
            x = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
            mode = one.mode if (made ^ one.mode) & stat.S_IXUSR == 0 else (one.mode & ~x) | made & x
    except OSError:
        return None
    return Content(one.kind, mode, object_id(b"blob", data).hex(), data)
