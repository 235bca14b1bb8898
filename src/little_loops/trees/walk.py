"""Walk a project's tree and compute the id of its content.

Results are remembered: a directory whose times have not changed has the same names, and a file
whose times, size and inode have not changed has the same content. The times include `ctime`: a
program can set back a file's `mtime`, but not that. What was changed so recently that a second
change might not show in the clock is read again next time. A process that has mapped a file into its
memory changes its times only with the first write, so at the end of a run the files that were changed
during the run are read again, whatever their times.

Not here: protected paths, which are always read (`guard`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence

from little_loops.light_typing import Any
from little_loops.trees.content import NO_FILE, Intake, NotStored, open_folder
from little_loops.trees.objects import (
    DIRECTORY,
    EMPTY_TREE,
    LINK,
    PLAIN,
    PROGRAM,
    TreeEntry,
    tree_data,
)
from little_loops.trees.patterns import Patterns
from little_loops.trees.repository_files import GIT
from little_loops.trees.rules import (
    TOO_DEEP,
    Rules,
    is_repository,
    is_too_deep,
    never_counts,
    parents,
)

CLOCK_NS = 20_000_000
"""Longer than the kernel's file timestamps can lag behind."""
WHOLE_SECONDS_NS = 2_000_000_000
"""The same for file systems with timestamps in whole seconds."""

NEVER_NS = 1 << 63

Entry = tuple[int, int, int, int, int, bytes | None]
"""ctime, mtime, size, inode, mode, id; the id is None if the path is left out."""
UNKNOWN: Entry = (-1, -1, -1, -1, 0, None)
Seeds = dict[str, dict[str, Entry]]


class Directory:
    """What is known about a directory; `tree` is its id, None if that must be computed again.

    In an `ignored` directory, only tracked files count.
    """

    __slots__ = ("dirs", "files", "ignored", "stamp", "tree")

    def __init__(self, ignored: bool = False) -> None:
        self.stamp: tuple[int, int, int] | None = None
        self.files: dict[str, Entry] = {}
        self.dirs: dict[str, Directory] = {}
        self.ignored = ignored
        self.tree: bytes | None = None


class ContentWalk:
    """Computes the content ids of one project by the rules of one run, and remembers what it read."""

    def __init__(self, rules: Rules, seeds: Seeds) -> None:
        """Prepare a walk; `seeds` are entries that an earlier process saved."""
        self.root = Directory()
        self.left_out: dict[str, str] = {}
        self.version = 0  # goes up with every change that is found
        self._rules = rules
        self._seeds = seeds
        self._prefix = os.fsencode(rules.prefix)
        self._ignored = rules.ignored()
        self._tracked = frozenset(rules.tracked)
        self._tracked_dirs = frozenset(parents(rules.tracked))
        self._nested = frozenset(rules.nested)
        self._directories = frozenset(rules.directories)
        self._horizon = 0
        self._reread_ns = NEVER_NS
        self._intake: Intake

    def restarted(self) -> ContentWalk:
        """Return a new walk that checks whether the store still has the content it remembers."""
        return ContentWalk(self._rules, self.seeds())

    @property
    def is_new(self) -> bool:
        """Return whether nothing has been walked yet."""
        return not self.root.files and not self.root.dirs

    def take(self, intake: Intake, reread_ns: int = NEVER_NS) -> bytes:
        """Walk the project and store what is new. Return the id of its tree."""
        self.refresh(intake, reread_ns)
        return self.tree(self.root) or intake.writer.add(b"tree", b"")

    def refresh(self, intake: Intake, reread_ns: int = NEVER_NS) -> None:
        """Walk the project and update what is remembered, storing files that have changed.

        Files whose `ctime` is `reread_ns` or later are read in any case. Raises `OSError`, or
        `Interrupted` on a stop.
        """
        self._intake = intake
        self._reread_ns = reread_ns
        self._horizon = time.time_ns()
        fd = open_folder(self._rules.project)
        try:
            self._refresh_directory(fd, self.root, "")
        finally:
            os.close(fd)
        self._seeds = {}

    # ── refreshing ────────────────────────────────────────────────────────────────────────────────

    def _refresh_directory(self, fd: int, node: Directory, path: str) -> None:
        """Update an open directory and everything below it; list its names only if it has changed."""
        self._intake.check()
        info = os.fstat(fd)
        stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino)
        if node.stamp != stamp:
            self._list(fd, node, path)
            node.stamp = None if self._is_recent(info) else stamp
        self._refresh_files(fd, node, path)
        for name in list(node.dirs):
            self._descend(fd, node, path + name)

    def _refresh_files(self, fd: int, node: Directory, path: str) -> None:
        """Read the files of a directory whose times, size, inode or mode have changed."""
        changed = []
        lstat = os.stat
        for name, (ctime, mtime, size, inode, mode, _) in node.files.items():
            try:
                info = lstat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                changed.append(name)
                continue
            if (
                info.st_ctime_ns != ctime
                or info.st_ctime_ns >= self._reread_ns
                or info.st_mtime_ns != mtime
                or info.st_size != size
                or info.st_ino != inode
                or info.st_mode != mode
            ):
                changed.append(name)
        for name in changed:
            self._refresh_file(fd, node, path, name)

    def _refresh_file(self, fd: int, node: Directory, path: str, name: str) -> None:
        """Read a file again, and reset the directory's tree if content or executable bit differ."""
        before = node.files[name]
        self.version += 1
        try:
            after = self._entry(fd, name)
        except FileNotFoundError:
            del node.files[name]
            node.tree = None
            return
        except NotStored as left_out:
            self.left_out[path + name] = left_out.reason
            after = UNKNOWN
        node.files[name] = after
        if before[5] != after[5] or git_mode(before[4]) != git_mode(after[4]):
            node.tree = None

    def _entry(self, fd: int, name: str) -> Entry:
        """Read a file or link and return what to remember about it; a recent change has no ctime,
        so that it is read again. Raises as `Intake.entry` does."""
        info, id = self._intake.entry(fd, name)
        ctime = -1 if self._is_recent(info) else info.st_ctime_ns
        return (ctime, info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode, id)

    def _is_recent(self, info: os.stat_result) -> bool:
        """Return whether a change is so recent that a later one might have the same timestamp."""
        whole = info.st_ctime_ns % 1_000_000_000 == 0 == info.st_mtime_ns % 1_000_000_000
        return info.st_ctime_ns > self._horizon - (WHOLE_SECONDS_NS if whole else CLOCK_NS)

    def _descend(self, fd: int, node: Directory, path: str) -> None:
        """Refresh the subdirectory at `path`; drop it if it cannot be opened."""
        name = path.rpartition("/")[2]
        child = node.dirs[name]
        try:
            inner = open_folder(name, fd)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self.left_out[path] = (error.strerror or str(error)).lower()
            del node.dirs[name]
            node.tree = node.stamp = None
            return
        before = child.tree
        try:
            self._refresh_directory(inner, child, path + "/")
        finally:
            os.close(inner)
        if before is None or child.tree is None:
            node.tree = None

    # ── which names count ──────────────────────────────────────────────────────────────────────

    def _list(self, fd: int, node: Directory, path: str) -> None:
        """List an open directory again: the files and subdirectories that count."""
        patterns = self._ignored.under((self._prefix + os.fsencode(path)).rstrip(b"/"))
        known, seeds = node.files, self._seeds.get(path, {})
        files: dict[str, Entry] = {}
        dirs: dict[str, Directory] = {}
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                ignored = node.ignored or self._is_ignored(entry, path, patterns)
                if entry.is_dir(follow_symlinks=False):
                    if self._enters(fd, name, path, ignored):
                        dirs[name] = node.dirs.get(name) or Directory(ignored)
                elif self._counts(entry, path, ignored):
                    files[name] = known.get(name) or self._valid_seed(seeds.get(name))
        if files.keys() != known.keys() or dirs.keys() != node.dirs.keys():
            node.tree = None
            self.version += 1
        node.files, node.dirs = files, dirs

    def _is_ignored(self, entry: os.DirEntry[str], path: str, patterns: Patterns) -> bool:
        full = self._prefix + os.fsencode(path + entry.name)
        return patterns.match(full, entry.is_dir(follow_symlinks=False))

    def _valid_seed(self, entry: Entry | None) -> Entry:
        """Return an entry that an earlier process saved, if the store still has its content; else
        `UNKNOWN`."""
        if entry is None or entry[5] is None or not self._intake.has(entry[5]):
            return UNKNOWN
        return entry

    def _enters(self, fd: int, name: str, path: str, ignored: bool) -> bool:
        """Return whether to walk into a directory; list repositories and deep ones as left out."""
        below = path + name
        if name == GIT or never_counts(below) or (ignored and below not in self._tracked_dirs):
            return False
        if below in self._nested or self._is_new_repository(fd, name, below):
            self.left_out[below] = "a separate git repository"
            return False
        if is_too_deep(below):
            self.left_out[below] = TOO_DEEP
            return False
        return True

    def _is_new_repository(self, fd: int, name: str, below: str) -> bool:
        """Return whether a directory is a repository that did not exist at the start.

        A `.git` that is created in an existing directory must not hide what is in it.
        """
        return below not in self._directories and is_repository(fd, name)

    def _counts(self, entry: os.DirEntry[str], path: str, ignored: bool) -> bool:
        """Return whether a file is part of the content; list pipes and the like as left out."""
        below = path + entry.name
        if entry.name == GIT or (ignored and below not in self._tracked):
            return False
        if not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
            self.left_out[below] = NO_FILE
            return False
        return True

    # ── trees ──────────────────────────────────────────────────────────────────────────────────

    def tree(self, node: Directory) -> bytes:
        """Return the id of a directory's tree, storing it if necessary; empty if it contains no
        file."""
        if node.tree is None:
            entries = list(self._entries(node))
            writer = self._intake.writer
            node.tree = writer.add(b"tree", tree_data(entries)) if entries else b""
        return node.tree

    def _entries(self, node: Directory) -> Iterator[TreeEntry]:
        """Yield the entries of a directory's tree object."""
        for name, entry in node.files.items():
            if entry[5] is not None:
                yield TreeEntry(git_mode(entry[4]), os.fsencode(name), entry[5])
        for name, child in node.dirs.items():
            if id := self.tree(child):
                yield TreeEntry(DIRECTORY, os.fsencode(name), id)

    def scoped_tree(self, scope: Sequence[str]) -> bytes:
        """Store the tree with only the content at or below these paths (`.`: all), as the last `take`
        found it. Return its id; that of the empty tree if there is nothing.
        """
        if "." in scope:
            return self.tree(self.root) or EMPTY_TREE
        parts = [tuple(path.split("/")) for path in scope]
        return self._scoped_tree(self.root, parts) or self._intake.writer.add(b"tree", b"")

    def _scoped_tree(self, node: Directory, parts: Sequence[tuple[str, ...]]) -> bytes:
        """Return the id of a directory's tree restricted to `parts`, the split paths below it."""
        whole = {part[0] for part in parts if len(part) == 1}
        deeper = {part[0] for part in parts} - whole
        entries = [one for one in self._entries(node) if os.fsdecode(one.name) in whole]
        for name in deeper & node.dirs.keys():
            rest = [part[1:] for part in parts if part[0] == name]
            if id := self._scoped_tree(node.dirs[name], rest):
                entries.append(TreeEntry(DIRECTORY, os.fsencode(name), id))
        return self._intake.writer.add(b"tree", tree_data(entries)) if entries else b""

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Yield path and entry of every file that counts, and of files that could not be read,
        without an id."""
        stack = [("", self.root)]
        while stack:
            path, node = stack.pop()
            for name, entry in node.files.items():
                yield path + name, entry
            stack += [(f"{path}{name}/", child) for name, child in node.dirs.items()]

    def folders(self) -> Iterator[str]:
        """Yield every directory that was walked, parents before their children."""
        stack = [("", self.root)]
        while stack:
            path, node = stack.pop()
            for name, child in node.dirs.items():
                yield path + name
                stack.append((f"{path}{name}/", child))

    def seeds(self) -> Seeds:
        """Return the entries that the next process can reuse, by directory and name; recent changes
        are left out."""
        found: Seeds = {}
        for path, entry in self.files():
            folder, _, name = path.rpartition("/")
            if entry[5] is not None and entry[0] >= 0:
                found.setdefault(folder + "/" if folder else "", {})[name] = entry
        return found


def git_mode(mode: int) -> bytes:
    """Return a mode as git writes it: a link, an executable, or a plain file."""
    if stat.S_ISLNK(mode):
        return LINK
    return PROGRAM if mode & stat.S_IXUSR else PLAIN


def dump_seeds(seeds: Seeds) -> dict[str, dict[str, list[int | str]]]:
    """Convert seeds to JSON data."""
    return {
        folder: {name: [*entry[:5], (entry[5] or b"").hex()] for name, entry in names.items()}
        for folder, names in seeds.items()
    }


def load_seeds(plain: Any) -> Seeds:
    """Convert JSON data to seeds; return {} if it is damaged, because they only save time."""
    try:
        return {
            folder: {name: (*times[:5], bytes.fromhex(times[5])) for name, times in names.items()}
            for folder, names in (plain or {}).items()
        }
    except (AttributeError, TypeError, ValueError, IndexError):
        return {}
