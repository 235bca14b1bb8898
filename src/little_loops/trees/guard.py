"""Look at the protected paths, and say what differs between two looks.

Every file is read: neither its size nor its times are believed.  A guard is a list (path, kind, all
permission bits, id of the content) and a tree with the content, both in the store under one id.
Protected are what the patterns match, everything in a directory they match, and what a protected
link leads to inside the project.  Ignored or not makes no difference, except in directories of
installed packages that were ignored: there only patterns that name the directory apply.

A git repository that somebody makes inside the project later is left out.  A `git init` in a directory
that the reference knows hides nothing.  The `.git` of a repository is never looked at: it changes
with every command.  Anything else of that name is an ordinary file or directory.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.trees.content import Intake, LeftOut, open_folder
from little_loops.trees.git import is_inside
from little_loops.trees.model import Kind, PathChange
from little_loops.trees.objects import DIRECTORY, PLAIN, PackWriter, TreeEntry, tree_data
from little_loops.trees.patterns import Patterns
from little_loops.trees.rules import (
    GIT,
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
REPOSITORY = "it is a git repository of its own"
GIT_DIRECTORY = "it belongs to a git repository"


class Guarded(NamedTuple):
    """A protected path; `id` is empty for a directory and for what cannot be read.

    `led` if no pattern matches it, but a protected link leads to it.
    """

    path: str
    kind: Kind
    mode: int
    id: str = ""
    led: bool = False


class Guard(NamedTuple):
    """All protected paths at one moment; `led_to` is where protected links lead."""

    paths: Mapping[str, Guarded]
    led_to: tuple[str, ...] = ()

    def links(self) -> list[str]:
        return sorted(path for path, one in self.paths.items() if one.kind == "link")


def encode(guard: Guard) -> bytes:
    lines: list[object] = [{"led_to": guard.led_to}]
    lines += [list(guard.paths[path]) for path in sorted(guard.paths)]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode("ascii")


def decode(data: bytes) -> Guard:
    try:
        head, *lines = [json.loads(line) for line in data.splitlines()]
        found = [Guarded(*line) for line in lines]
        return Guard({one.path: one for one in found}, tuple(head["led_to"]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"a list of protected paths is damaged: {error!r}") from error


def store_guard(guard: Guard, writer: PackWriter) -> bytes:
    """Put a guard into the store; its id."""
    root: dict[str, object] = {}
    for one in guard.paths.values():
        if one.kind in ("file", "link") and one.id:
            _plant(root, one)
    entries = [TreeEntry(PLAIN, LIST, writer.add(b"blob", encode(guard)))]
    if root:
        entries.append(TreeEntry(DIRECTORY, FILES, _store_tree(root, writer)))
    return writer.add(b"tree", tree_data(entries))


def _plant(root: dict[str, object], one: Guarded) -> None:
    *above, name = one.path.split("/")
    for part in above:
        below = root.setdefault(part, {})
        assert isinstance(below, dict), "a path cannot be a file and a directory"
        root = below
    mode = git_mode(one.mode)
    root[name] = TreeEntry(mode, os.fsencode(name), bytes.fromhex(one.id))


def _store_tree(node: dict[str, object], writer: PackWriter) -> bytes:
    entries = []
    for name, item in node.items():
        if isinstance(item, dict):
            item = TreeEntry(DIRECTORY, os.fsencode(name), _store_tree(item, writer))
        assert isinstance(item, TreeEntry)
        entries.append(item)
    return writer.add(b"tree", tree_data(entries))


# ── comparing ──────────────────────────────────────────────────────────────────────────────────


def compare(reference: Guard, now: Guard) -> list[PathChange]:
    """What differs, in the order of paths; a directory counts where nothing in it does.

    A link that is new protects nothing: what only it leads to was not protected before.
    """
    before, after = reference.paths, now.paths
    changes = [
        change
        for path in sorted(before.keys() | after.keys())
        if (change := _change(path, before.get(path), after.get(path))) is not None
        and (change.kind != "added" or not after[path].led or _is_led(path, reference))
    ]
    busy = {above for change in changes for above in _above(change.path)}
    return [change for change in changes if change.kind == "changed" or change.path not in busy]


def _is_led(path: str, reference: Guard) -> bool:
    return any(is_inside(path, root) for root in reference.led_to)


def _change(path: str, before: Guarded | None, after: Guarded | None) -> PathChange | None:
    if before is None:
        return PathChange(path, "added")
    if after is None:
        return PathChange(path, "deleted")
    return None if before[:4] == after[:4] else PathChange(path, "changed")


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def is_protected(patterns: Patterns, path: str) -> bool:
    """Whether patterns match a file that need not be there."""
    return patterns.cover(os.fsencode(path))


# ── looking ────────────────────────────────────────────────────────────────────────────────────


class Searched:
    """A directory that was searched: names that match, directories to search, as of `stamp`."""

    __slots__ = ("dirs", "matches", "stamp")

    def __init__(self) -> None:
        self.stamp: tuple[int, int, int] | None = None
        self.matches: list[str] = []
        self.dirs: dict[str, Searched] = {}


class GuardWalk:
    """The protected paths of one run, from snapshot to snapshot."""

    def __init__(self, rules: Rules) -> None:
        self.left_out: dict[str, str] = {}  # what is not watched, and why
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
        """Read all protected paths; `also` are others to look at, if they exist.

        `reference` is what they will be compared with, None when there is nothing to compare yet.
        """
        self._intake, self._horizon, self._reference = intake, now_ns - CLOCK_NS, reference
        self._found, self._links, self._led = {}, [], False
        self.left_out = {}
        led_before = () if reference is None else reference.led_to
        fd = open_folder(self._rules.project)
        try:
            if self._rules.protect:
                self._search(fd, self._root, "")
            led_to = self._follow(fd, (*led_before, *also))
        finally:
            os.close(fd)
        self._forget_holders({} if reference is None else reference.paths)
        return Guard(self._found, led_to)

    def _forget_holders(self, before: Mapping[str, Guarded]) -> None:
        """A new directory with a repository in it cannot be removed, so it does not count either."""
        for repository in self.left_out:
            for above in _above(repository):
                if above not in before:
                    self._found.pop(above, None)

    def _follow(self, fd: int, also: Iterable[str]) -> tuple[str, ...]:
        """Look at what the links lead to, until they lead to nothing new."""
        self._led = True
        led_to: list[str] = []
        waiting = list(also)
        while waiting or self._links:
            if not waiting:
                waiting += links_to(self._rules.project, self._links.pop())
                continue
            path = waiting.pop()
            if self._protected.spare(os.fsencode(path)):
                continue  # agents may change it, whatever leads there
            if path not in self._found and path not in led_to:
                led_to.append(path)
                self._collect_at(fd, path)
        return tuple(sorted(led_to))

    def _search(self, fd: int, node: Searched, path: str) -> None:
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
                # Here, not in `_list`: a `.git` does not change the time of the directory above.
                if path + name in self._directories or not self._leaves_out(inner, path + name):
                    self._search(inner, child, f"{path}{name}/")
            finally:
                os.close(inner)

    def _list(self, fd: int, node: Searched, path: str) -> None:
        matches: list[str] = []
        dirs: dict[str, Searched] = {}
        with os.scandir(fd) as entries:
            for entry in entries:
                name, below = entry.name, path + entry.name
                if self._never_counts(fd, name, below):
                    continue
                is_dir = entry.is_dir(follow_symlinks=False)
                # A link in the place of a protected directory is protected as that is.
                if self._protected.match(os.fsencode(below), is_dir or entry.is_symlink()):
                    matches.append(name)
                elif is_dir and self._is_searched(fd, name, below):
                    dirs[name] = node.dirs.get(name) or Searched()
        node.matches, node.dirs = matches, dirs

    def _is_searched(self, fd: int, name: str, below: str) -> bool:
        encoded = os.fsencode(below)
        if is_too_deep(below) or not self._protected.may_match_below(encoded):
            return False
        if not _is_installed(fd, name) or self._protected.name_below(encoded):
            return True
        return not self._is_ignored(below)

    def _is_ignored(self, below: str) -> bool:
        return any(
            self._ignored.match(self._prefix + os.fsencode(path), True)
            for path in (below, *_above(below))
        )

    def _leaves_out(self, fd: int, path: str) -> bool:
        """Whether a directory is a repository of which the reference has nothing."""
        reference = self._reference
        if reference is None or path in reference.paths or not is_repository(fd):
            return False
        if any(is_inside(one, path) for one in reference.paths):
            return False
        self.left_out[path] = REPOSITORY
        return True

    # What is protected.

    def _collect_at(self, fd: int, path: str) -> None:
        """A path that no pattern names; nothing if it is not there."""
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
        except (LeftOut, OSError):
            self._found[path] = Guarded(path, "other", info.st_mode, led=self._led)
            return
        kind: Kind = "link" if stat.S_ISLNK(info.st_mode) else "file"
        self._found[path] = Guarded(path, kind, info.st_mode, id.hex(), self._led)
        if kind == "link":
            self._links.append(path)

    def _collect_directory(self, fd: int, name: str, one: Guarded) -> None:
        try:
            inner = open_folder(name, fd)
        except OSError:
            # That it cannot be entered any more is a change of its mode.
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
        for inside in os.listdir(fd):
            below = f"{path}/{inside}"
            if self._protected.spare(os.fsencode(below)):
                self._search_spared(fd, inside, below)
            elif not self._never_counts(fd, inside, below):
                self._collect(fd, inside, below)
            elif inside == GIT and self._came_later(path):
                self.left_out[below] = GIT_DIRECTORY

    def _search_spared(self, fd: int, name: str, path: str) -> None:
        """Another pattern may protect something in a directory that a negative one spares."""
        try:
            inner = open_folder(name, fd)
        except OSError:
            return  # not a directory
        try:
            self._search(inner, Searched(), f"{path}/")
        finally:
            os.close(inner)

    def _came_later(self, path: str) -> bool:
        """Whether a repository was made of a directory after the start."""
        at_start = (*self._rules.nested, *self._rules.linked)
        return self._reference is not None and not any(is_inside(path, one) for one in at_start)

    def _never_counts(self, fd: int, name: str, path: str) -> bool:
        is_gits = name == GIT and is_repository(fd)
        return is_gits or self._is_cache(path) or never_counts(path)


def _is_installed(fd: int, name: str) -> bool:
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
    """A directory below another one, through no link."""
    here = os.dup(fd)
    for part in path.split("/") if path else ():
        try:
            below = open_folder(part, here)
        finally:
            os.close(here)
        here = below
    return here


def links_to(project: str, link: str) -> list[str]:
    """The paths of the project that a link leads to: other links on the way, and where it ends.

    Neither what lies outside nor a directory that holds the link itself.
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
            here, text = [], _below(project, text)
        todo = _split(text) + todo
    end = "/".join(here)
    holds_it = not end or f"{link}/".startswith(f"{end}/")
    return passed[1:] if holds_it or GIT in here else [*passed[1:], end]


def leads_out(project: str, link: str) -> bool:
    """Whether a link leads to something that exists outside the project."""
    end = os.path.realpath(os.path.join(project, link))
    return os.path.exists(end) and not is_inside(end, os.path.realpath(project))


def _link_text(project: str, path: str) -> str | None:
    try:
        return os.readlink(os.path.join(project, path))
    except OSError:
        return None


def _split(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def _below(project: str, path: str) -> str:
    """An absolute path as one below the project, or as one that leaves it."""
    return path[len(project) :] if is_inside(path, project) else ".."
