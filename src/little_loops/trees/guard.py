"""Read the protected paths, and compare two such readings.

Every file is read: sizes and times are not trusted. A guard is a list (path, kind, all permission
bits, content id) and a tree with the content, stored under one id. Protected paths are those that
match a pattern, everything in a matching directory, and whatever a protected link leads to inside
the project. It makes no difference whether they are ignored, except in ignored directories of
installed packages: there, only patterns that name the directory apply.

A git repository that is created inside the project during the run is left out; but a `git init` in
a directory that the reference knows hides nothing. The `.git` of a repository is never read: it
changes with every command. Anything else of that name is an ordinary file or directory.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.trees.content import Intake, NotStored, open_folder
from little_loops.trees.git import is_inside
from little_loops.trees.model import Kind, PathChange
from little_loops.trees.objects import DIRECTORY, PLAIN, PackWriter, TreeEntry, tree_data
from little_loops.trees.patterns import Patterns
from little_loops.trees.repository_files import GIT
from little_loops.trees.rules import (
    Rules,
    cache_test,
    is_repository,
    is_too_deep,
    never_counts,
)
from little_loops.trees.walk import CLOCK_NS, git_mode

LIST, FILES = b"list", b"files"
INSTALLED = ("node_modules", "bower_components", "site-packages", ".tox", ".nox", ".eggs")
INSTALLED_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")
MAX_LINKS = 40
REPOSITORY = "it is a separate git repository"
GIT_DIRECTORY = "it belongs to a git repository"


class Guarded(NamedTuple):
    """A protected path; `id` is empty for a directory and for an unreadable path.

    `led` is true if no pattern matches the path, but a protected link leads to it.
    """

    path: str
    kind: Kind
    mode: int
    id: str = ""
    led: bool = False


class Guard(NamedTuple):
    """All protected paths at one moment; `led_to` are the paths that protected links lead to."""

    paths: Mapping[str, Guarded]
    led_to: tuple[str, ...] = ()

    def links(self) -> list[str]:
        """Return the paths that are links, sorted."""
        return sorted(path for path, one in self.paths.items() if one.kind == "link")


def encode(guard: Guard) -> bytes:
    """Encode a guard as JSON lines: first the link targets, then one path per line."""
    lines: list[object] = [{"led_to": guard.led_to}]
    lines += [list(guard.paths[path]) for path in sorted(guard.paths)]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode("ascii")


def decode(data: bytes) -> Guard:
    """Decode the output of `encode`; raise `StoreError` if it is damaged."""
    try:
        head, *lines = [json.loads(line) for line in data.splitlines()]
        found = [Guarded(*line) for line in lines]
        return Guard({one.path: one for one in found}, tuple(head["led_to"]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"a list of protected paths is damaged: {error!r}") from error


def store_guard(guard: Guard, writer: PackWriter) -> bytes:
    """Write a guard's list and tree to the pack. Return the guard's id."""
    root: dict[str, object] = {}
    for one in guard.paths.values():
        if one.kind in ("file", "link") and one.id:
            _insert(root, one)
    entries = [TreeEntry(PLAIN, LIST, writer.add(b"blob", encode(guard)))]
    if root:
        entries.append(TreeEntry(DIRECTORY, FILES, _store_tree(root, writer)))
    return writer.add(b"tree", tree_data(entries))


def _insert(root: dict[str, object], one: Guarded) -> None:
    """Add a path to a nested dict of directories, which has a `TreeEntry` per file."""
    *above, name = one.path.split("/")
    for part in above:
        below = root.setdefault(part, {})
        assert isinstance(below, dict), "a path cannot be a file and a directory"
        root = below
    mode = git_mode(one.mode)
    root[name] = TreeEntry(mode, os.fsencode(name), bytes.fromhex(one.id))


def _store_tree(node: dict[str, object], writer: PackWriter) -> bytes:
    """Write a nested dict of directories as tree objects. Return the id of the root."""
    entries = []
    for name, item in node.items():
        if isinstance(item, dict):
            item = TreeEntry(DIRECTORY, os.fsencode(name), _store_tree(item, writer))
        assert isinstance(item, TreeEntry)
        entries.append(item)
    return writer.add(b"tree", tree_data(entries))


# ── comparing ──────────────────────────────────────────────────────────────────────────────────


def compare(reference: Guard, now: Guard) -> list[PathChange]:
    """Return the paths that differ, sorted; a directory only if nothing inside it was added or
    deleted.

    A path that only a new link leads to was not protected before, so it does not count as added.
    """
    before, after = reference.paths, now.paths
    changes = [
        change
        for path in sorted(before.keys() | after.keys())
        if (change := _difference(path, before.get(path), after.get(path))) is not None
        and (change.kind != "added" or not after[path].led or _is_link_target(path, reference))
    ]
    busy = {above for change in changes for above in _ancestors(change.path)}
    return [change for change in changes if change.kind == "changed" or change.path not in busy]


def _is_link_target(path: str, reference: Guard) -> bool:
    """Return whether the reference's links lead to the path or to a directory above it."""
    return any(is_inside(path, root) for root in reference.led_to)


def _difference(path: str, before: Guarded | None, after: Guarded | None) -> PathChange | None:
    """Return how a path differs between two guards; None if it does not."""
    if before is None:
        return PathChange(path, "added")
    if after is None:
        return PathChange(path, "deleted")
    return None if before[:4] == after[:4] else PathChange(path, "changed")


def _ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a relative path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def is_protected(patterns: Patterns, path: str) -> bool:
    """Return whether the patterns protect a path, which need not exist."""
    return patterns.cover(os.fsencode(path))


# ── reading ────────────────────────────────────────────────────────────────────────────────────


class Searched:
    """A directory that was searched, as of `stamp`: matching names, and subdirectories to search."""

    __slots__ = ("dirs", "matches", "stamp")

    def __init__(self) -> None:
        self.stamp: tuple[int, int, int] | None = None
        self.matches: list[str] = []
        self.dirs: dict[str, Searched] = {}


class GuardWalk:
    """Reads the protected paths of one run; remembers between snapshots which names match."""

    def __init__(self, rules: Rules) -> None:
        self.left_out: dict[str, str] = {}  # paths that are not watched, and why
        self._rules = rules
        self._directories = frozenset(rules.directories)
        self._protected = rules.protected()
        self._ignored = rules.ignored()
        self._is_cache = cache_test(rules)
        self._prefix = os.fsencode(rules.prefix)
        self._root = Searched()
        self._horizon = 0
        self._intake: Intake
        self._reference: Guard | None = None
        self._found: dict[str, Guarded] = {}
        self._links: list[str] = []
        self._led = False

    def take(
        self,
        intake: Intake,
        now_ns: int,
        reference: Guard | None = None,
        also: Iterable[str] = (),
    ) -> Guard:
        """Read all protected paths, store their content through `intake`, and return them; `also`
        are additional paths to read if they exist.

        `reference` is the guard that the result will be compared with, None for the first one.
        `now_ns` is the current time. `left_out` then has what was not read.
        """
        self._intake, self._horizon, self._reference = intake, now_ns - CLOCK_NS, reference
        self._found, self._links, self._led = {}, [], False
        self.left_out = {}
        led_before = () if reference is None else reference.led_to
        fd = open_folder(self._rules.project)
        try:
            if self._rules.protect:
                self._search(fd, self._root, "")
            led_to = self._follow_links(fd, (*led_before, *also))
        finally:
            os.close(fd)
        self._drop_parents_of_repositories({} if reference is None else reference.paths)
        return Guard(self._found, led_to)

    def _drop_parents_of_repositories(self, before: Mapping[str, Guarded]) -> None:
        """Drop new directories that contain a repository: they cannot be removed, so they do not
        count."""
        for repository in self.left_out:
            for above in _ancestors(repository):
                if above not in before:
                    self._found.pop(above, None)

    def _follow_links(self, fd: int, also: Iterable[str]) -> tuple[str, ...]:
        """Read what links lead to, until there are no more links. Return their targets."""
        self._led = True
        led_to: list[str] = []
        pending = list(also)
        while pending or self._links:
            if not pending:
                pending += links_to(self._rules.project, self._links.pop())
                continue
            path = pending.pop()
            if self._protected.spare(os.fsencode(path)):
                continue  # agents may change it, whatever leads there
            if path not in self._found and path not in led_to:
                led_to.append(path)
                self._collect_at(fd, path)
        return tuple(sorted(led_to))

    def _search(self, fd: int, node: Searched, path: str) -> None:
        """Read the matching paths in an open directory and below; list names only if it has
        changed."""
        self._intake.check()
        info = os.fstat(fd)
        stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino)
        if node.stamp != stamp:
            self._list(fd, node, path)
            whole = info.st_ctime_ns % 1_000_000_000 == 0
            node.stamp = None if info.st_ctime_ns > self._horizon or whole else stamp
        for name in node.matches:
            self._collect(fd, name, path + name)
        for name, child in node.dirs.items():
            try:
                inner = open_folder(name, fd)
            except OSError:
                continue
            try:
                # Here, not in `_list`: a new `.git` does not change the time of the directory above.
                if path + name in self._directories or not self._leaves_out(inner, path + name):
                    self._search(inner, child, f"{path}{name}/")
            finally:
                os.close(inner)

    def _list(self, fd: int, node: Searched, path: str) -> None:
        """List an open directory: which names match, and which subdirectories may contain matches."""
        matches: list[str] = []
        dirs: dict[str, Searched] = {}
        with os.scandir(fd) as entries:
            for entry in entries:
                name, below = entry.name, path + entry.name
                if self._never_counts(fd, name, below):
                    continue
                is_dir = entry.is_dir(follow_symlinks=False)
                # A link that replaces a protected directory is protected like the directory.
                if self._protected.match(os.fsencode(below), is_dir or entry.is_symlink()):
                    matches.append(name)
                elif is_dir and self._may_contain_matches(fd, name, below):
                    dirs[name] = node.dirs.get(name) or Searched()
        node.matches, node.dirs = matches, dirs

    def _may_contain_matches(self, fd: int, name: str, below: str) -> bool:
        """Return whether to search a directory; installed packages only if a pattern names them."""
        encoded = os.fsencode(below)
        if is_too_deep(below) or not self._protected.may_match_below(encoded):
            return False
        if not _is_installed(fd, name) or self._protected.name_below(encoded):
            return True
        return not self._is_ignored(below)

    def _is_ignored(self, below: str) -> bool:
        """Return whether a directory, or one above it, was ignored when the run started."""
        return any(
            self._ignored.match(self._prefix + os.fsencode(path), True)
            for path in (below, *_ancestors(below))
        )

    def _leaves_out(self, fd: int, path: str) -> bool:
        """Return whether a directory is a repository unknown to the reference, and list it as left
        out."""
        reference = self._reference
        if reference is None or path in reference.paths or not is_repository(fd):
            return False
        if any(is_inside(one, path) for one in reference.paths):
            return False
        self.left_out[path] = REPOSITORY
        return True

    # Reading protected paths.

    def _collect_at(self, fd: int, path: str) -> None:
        """Read a path that no pattern matches, if it exists."""
        above, _, name = path.rpartition("/")
        try:
            folder = open_path(fd, above)
        except OSError:
            return
        try:
            self._collect(folder, name, path)
        finally:
            os.close(folder)

    def _collect(self, fd: int, name: str, path: str) -> None:
        """Read the file, link or directory `name` in an open directory, if it is there."""
        if path in self._found:
            return
        try:
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISDIR(info.st_mode) and not is_too_deep(path):
            self._collect_directory(fd, name, Guarded(path, "dir", info.st_mode, led=self._led))
            return
        try:
            info, id = self._intake.entry(fd, name)
        except FileNotFoundError:
            return
        except (NotStored, OSError):
            self._found[path] = Guarded(path, "other", info.st_mode, led=self._led)
            return
        kind: Kind = "link" if stat.S_ISLNK(info.st_mode) else "file"
        self._found[path] = Guarded(path, kind, info.st_mode, id.hex(), self._led)
        if kind == "link":
            self._links.append(path)

    def _collect_directory(self, fd: int, name: str, one: Guarded) -> None:
        """Read a protected directory and everything in it, unless it is a new repository."""
        try:
            inner = open_folder(name, fd)
        except OSError:
            # It can no longer be entered, which is a change of its mode.
            self._found[one.path] = one
            return
        try:
            self._intake.check()
            if not self._leaves_out(inner, one.path):
                self._found[one.path] = one
                self._collect_all(inner, one.path)
        finally:
            os.close(inner)

    def _collect_all(self, fd: int, path: str) -> None:
        """Read everything in a protected directory, except what a negative pattern excludes."""
        for inside in os.listdir(fd):
            below = f"{path}/{inside}"
            if self._protected.spare(os.fsencode(below)):
                self._search_spared(fd, inside, below)
            elif not self._never_counts(fd, inside, below):
                self._collect(fd, inside, below)
            elif inside == GIT and self._is_new_repository(path):
                self.left_out[below] = GIT_DIRECTORY

    def _search_spared(self, fd: int, name: str, path: str) -> None:
        """Search a directory that a negative pattern excludes: another pattern may match inside it."""
        try:
            inner = open_folder(name, fd)
        except OSError:
            return  # not a directory
        try:
            self._search(inner, Searched(), f"{path}/")
        finally:
            os.close(inner)

    def _is_new_repository(self, path: str) -> bool:
        """Return whether a directory became a repository after the run had started."""
        at_start = (*self._rules.nested, *self._rules.linked)
        return self._reference is not None and not any(is_inside(path, one) for one in at_start)

    def _never_counts(self, fd: int, name: str, path: str) -> bool:
        """Return whether a path is never protected: a repository's `.git`, a cache, or our own
        files."""
        is_gits = name == GIT and is_repository(fd)
        return is_gits or self._is_cache(path) or never_counts(path)


def _is_installed(fd: int, name: str) -> bool:
    """Return whether a directory holds installed packages, by its name or by a file in it."""
    if name in INSTALLED:
        return True
    for mark in INSTALLED_MARKS:
        try:
            os.stat(f"{name}/{mark}", dir_fd=fd)
        except OSError:
            continue
        return True
    return False


def open_path(fd: int, path: str) -> int:
    """Open a directory below the open directory `fd`, without following links. Return the
    descriptor, for the caller to close. Raises `OSError`."""
    here = os.dup(fd)
    for part in path.split("/") if path else ():
        try:
            below = open_folder(part, here)
        finally:
            os.close(here)
        here = below
    return here


def links_to(project: str, link: str) -> list[str]:
    """Return the project paths that a link leads to: other links on the way, and its final target.

    Targets outside the project, and directories that contain the link itself, are left out.
    """
    passed: list[str] = []
    todo, here = _split(link), list[str]()
    while todo:
        part = todo.pop(0)
        if part == "..":
            if not here:
                return passed[1:]  # above the project
            here.pop()
            continue
        path = "/".join([*here, part])
        text = _link_text(project, path)
        if text is None:
            here.append(part)
            continue
        passed.append(path)
        if len(passed) > MAX_LINKS:
            return passed[1:]
        if text.startswith("/"):
            here, text = [], _relative_to_project(project, text)
        todo = _split(text) + todo
    end = "/".join(here)
    holds_it = not end or f"{link}/".startswith(f"{end}/")
    return passed[1:] if holds_it or GIT in here else [*passed[1:], end]


def leads_out(project: str, link: str) -> bool:
    """Return whether a link leads to something that exists outside the project."""
    end = os.path.realpath(os.path.join(project, link))
    return os.path.exists(end) and not is_inside(end, os.path.realpath(project))


def _link_text(project: str, path: str) -> str | None:
    """Return the target of a link; None if the path is not a link."""
    try:
        return os.readlink(os.path.join(project, path))
    except OSError:
        return None


def _split(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def _relative_to_project(project: str, path: str) -> str:
    """Return an absolute path relative to the project; `..` if it is outside."""
    return path[len(project) :] if is_inside(path, project) else ".."
