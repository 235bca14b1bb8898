"""Find out what a commit of the whole project would contain, by letting git add it.

Git uses the user's configuration, but an index and an object directory of ours, so nothing of the
user's repository changes. Attributes, filters, `core.fileMode`, a sparse checkout, flags in the
index, repositories inside the project, and names that git refuses all decide what a commit contains,
and git alone knows all of them. Then the files that differ are checked out from that index: what a
clone has is what git writes there.

Not here: what the clean copy does with it (`copy_plan`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER
from little_loops.system.plain_files import reading
from little_loops.trees.copy_plan import Content
from little_loops.trees.filters import filters_as_usual
from little_loops.trees.git import Git, alternate, is_inside
from little_loops.trees.guard import Guarded
from little_loops.trees.objects import object_id
from little_loops.trees.rules import never_counts, path_from_git

REFUSED = 128
FILTERS = "filters"
GITLINK = "160000"
LINK = "120000"
PROGRAM = "100755"
LINK_MODE = 0o120777
FILE_MODES = (0o100644, 0o100755)
ADDED = b"A"
EXCEPT = b":(exclude,literal)"
ATTRIBUTES = ".gitattributes"
CONVERTING = ("text", "crlf", "eol", "ident", "working-tree-encoding")
"""The attributes by which git may write other bytes into a clone than it has stored. A filter needs
settings, which no clone has."""
NOT_CONVERTED = (b"unspecified", b"unset")


class Delivery(NamedTuple):
    """What a commit contains: without the paths `left_out`, and with the content `other` where that
    is not the content of the project. `kept` has files that are not in the snapshot, because they are
    gone or were ignored when the run started. `weakened` are protected paths whose content a commit would change or delete."""

    left_out: tuple[str, ...] = ()
    other: Mapping[str, Content] = {}
    kept: Mapping[str, Content] = {}
    weakened: tuple[str, ...] = ()


class Inquiry(NamedTuple):
    """What is asked about a project: `files` are those of its snapshot.

    `changed` are the paths that were changed, added or deleted during the run, and `start` is the
    commit at its start. `overlooked` are files that the user told git to overlook before, `nested`
    the repositories in the project that were there before; git does not read the files that are too
    `large`.
    """

    files: Mapping[str, Guarded]
    changed: frozenset[str]
    is_protected: Callable[[str], bool]
    start: str | None
    overlooked: Collection[str]
    nested: Collection[str]
    large: Collection[str]

    @property
    def has_new_attributes(self) -> bool:
        return any(path.rpartition("/")[2] == ATTRIBUTES for path in self.changed)


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
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": alternate(self.objects),
            "GIT_LITERAL_PATHSPECS": "0",
        }
        # Without compression, and without what `git lfs` would keep in the user's repository.
        settings = (
            "core.compression=0",
            f"lfs.storage={self.place}/lfs",
            f"include.path={self.place}/{FILTERS}",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        answer = self.git.try_out(self.project, (*options, *words), variables, stdin)
        if answer.code not in range(REFUSED):
            raise StoreError(
                f"git cannot add and check out the project's files: {answer.complaint}"
            )
        return answer.out


def what_a_commit_has(git: Git, project: str, prefix: str, place: str, asked: Inquiry) -> Delivery:
    """Return how a commit of everything would differ from the snapshot, as far as that is due to the
    run: in what it changed, what git has taken from the work tree since its start, and what
    is in a repository that is new in git's index.

    `prefix` is the project's path in its repository. Files for git are put into the directory
    `place`, which is removed. Raises `StoreError`, `OSError`, or `Interrupted` on a stop.
    """
    _require_commit(git, project)
    with _worksheet(git, project, place) as sheet:
        add = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        sheet.run(add, b"\0".join((b".", *(EXCEPT + os.fsencode(path) for path in asked.large))))
        index = dict(_entries(sheet.run(["ls-files", "--stage", "-z", "--", "."])))
        links = {path for path, (mode, _) in index.items() if mode == GITLINK}
        new_links = links.difference(asked.nested)
        doubtful = _doubtful(sheet, asked, index)
        mine = {path: asked.files[path] for path in doubtful if path in asked.files}
        gone = doubtful.difference(mine, links)
        inside = {path for path in asked.files if any(is_inside(path, one) for one in new_links)}
        absent = {path for path, one in mine.items() if not _has(index, path, one)}
        there = mine.keys() - absent - inside
        differing = {path for path in there if not _is_same(index[path], mine[path])}
        converted = _converted(sheet, asked, there - differing)
        _check_out(sheet, sorted(differing | converted | gone))
        out = f"{place}/out/{prefix}"
        paths = sorted(differing | converted)
        found = {path: _checked_out(out + path, mine[path]) for path in paths}
        kept = {path: _kept(out + path, index[path][0]) for path in sorted(gone)}
    left_out = inside | absent | {path for path, one in found.items() if one is None}
    other = {
        path: one
        for path, one in found.items()
        if one is not None and _differs(one, mine[path], path in asked.changed)
    }
    weakened = filter(asked.is_protected, {*left_out, *other, *kept} - converted)
    return Delivery(
        tuple(sorted(left_out)),
        other,
        {path: one for path, one in kept.items() if one is not None},
        tuple(sorted(weakened)),
    )


def _doubtful(sheet: Worksheet, asked: Inquiry, index: Mapping[str, tuple[str, str]]) -> set[str]:
    """Return the paths that a commit may have otherwise than the project: what the run changed, what
    git has otherwise than the commit of its start, and, if the run changed the attributes of files,
    all of them. Those that are gone from the project are among them if the commit has them.
    """
    found = set(asked.changed)
    staged = _staged(sheet, asked.start)
    if staged is None or asked.has_new_attributes:
        found |= index.keys() & asked.files.keys()
    for path, status in (staged or {}).items():
        # What git did not track before, the run has not taken from it.
        if status != ADDED or path not in asked.files:
            found.add(path)
    return {
        path
        for path in found.difference(asked.overlooked, asked.large)
        if path in asked.files or (path in index and not never_counts(path))
    }


def _staged(sheet: Worksheet, start: str | None) -> dict[str, bytes] | None:
    """Return the paths that differ between the commit at the start of the run and the index, and
    how; None if there was no commit, or it is gone."""
    if start is None or sheet.git.read(sheet.project, ["cat-file", "-e", f"{start}^{{tree}}"]).code:
        return None
    words = ["diff-index", "--cached", "--relative", "--name-status", "--no-renames", "-z", start]
    fields = sheet.run(words).split(b"\0")
    return dict(zip(map(os.fsdecode, fields[1::2]), fields[::2], strict=False))


def _converted(sheet: Worksheet, asked: Inquiry, paths: Collection[str]) -> set[str]:
    """Return which of these paths, whose content is in the index as it is, git may write otherwise
    into a clone. Those that the run has not changed count only if it has changed attributes."""
    own = set(paths) if asked.has_new_attributes else asked.changed & set(paths)
    if not own:
        return set()
    names = b"".join(os.fsencode(path) + b"\0" for path in sorted(own))
    fields = sheet.run(["check-attr", "-z", "--stdin", *CONVERTING], names).split(b"\0")
    answers = zip(fields[::3], fields[2::3], strict=False)
    return {os.fsdecode(path) for path, value in answers if value not in NOT_CONVERTED}


def _check_out(sheet: Worksheet, paths: Collection[str]) -> None:
    """Let git write these files of the index below `out/`, also those that it is to overlook."""
    if not paths:
        return
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    sheet.run(["update-index", "--no-skip-worktree", "-z", "--stdin"], names)
    sheet.run(["checkout-index", "-z", "--stdin", f"--prefix={sheet.place}/out/"], names)


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
def _worksheet(git: Git, project: str, place: str) -> Iterator[Worksheet]:
    """Prepare an index like the user's, and an empty object directory; remove both at the end."""
    places = (path_from_git(git, project, ["--git-path", name]) for name in ("index", "objects"))
    index, objects = (os.path.join(project, place) for place in places)
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.join(place, "objects"), mode=PRIVATE_FOLDER)
    try:
        if os.path.lexists(index):
            with reading(index) as source, open(f"{place}/index", "xb") as target:
                shutil.copyfileobj(source, target)
                info = os.fstat(source.fileno())
            # Git reads again what is not older than its index.
            os.utime(f"{place}/index", ns=(info.st_atime_ns, info.st_mtime_ns))
        with open(f"{place}/{FILTERS}", "xb") as settings:
            settings.write(filters_as_usual(git, project))
        yield Worksheet(git, project, place, os.path.realpath(objects))
    finally:
        shutil.rmtree(place, ignore_errors=True)


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


def _differs(one: Content, mine: Guarded, is_changed: bool) -> bool:
    """Return whether a commit has a file otherwise than the project. The permissions of a file that
    was not changed are those that git was content with before the run."""
    if is_changed:
        return one != Content(*mine[1:4], data=one.data)
    return (one.kind, one.id) != (mine.kind, mine.id)


def _kept(full: str, mode: str) -> Content | None:
    """Return the content of a file that only the commit has; None if git has not written it."""
    if mode == LINK:
        return _checked_out(full, Guarded("", "link", LINK_MODE))
    return _checked_out(full, Guarded("", "file", FILE_MODES[mode == PROGRAM]))


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
