"""Examine a project when a run starts: which ignore rules apply, and which ignored files exist."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from little_loops.system.plain_files import open_plain
from little_loops.trees.content import READ, Intake, NotStored, open_folder, read_up_to
from little_loops.trees.git import Git, is_inside
from little_loops.trees.patterns import Group, Patterns
from little_loops.trees.repository_files import GIT
from little_loops.trees.rules import (
    IGNORE_FILE,
    MAX_IGNORE_FILE_BYTES,
    IgnoredFile,
    IgnoreFile,
    Rules,
    find_repository,
    ignore_file,
    ignore_settings,
    in_cache,
    in_cache_directory,
    is_cache,
    is_repository,
    is_too_deep,
    literal,
    never_counts,
    parents,
    plain_scope,
    repository_around,
    tracked_paths,
    upper_ignore_files,
)

MAX_COPIED_BYTES = 1 << 20
"""Ignored files up to this size are copied into the clean copy; larger ones are linked."""
MAX_AROUND = 20_000
"""If the repository has more files than this outside the project, the clean copy has only the project."""


def read_rules(
    git: Git,
    project: str,
    intake: Intake | None,
    *,
    run: str,
    scope: Sequence[str],
    protect: Sequence[str],
    store: str,
) -> Rules:
    """Return the rules for a run that starts now; ignored files are stored through `intake`, and
    without one their content is not read.

    Raises `StoreError` if the project is not in a git repository.
    """
    repository = repository_around(git, project)
    ignore, ignore_case = ignore_settings(git, repository)
    ignore += upper_ignore_files(repository)
    rules = Rules(
        run,
        project,
        plain_scope(scope, project),
        tuple(protect),
        prefix=repository.prefix,
        head=repository.head,
        ignore=tuple(ignore),
        ignore_case=ignore_case,
        store=store,
    )
    tracked = tracked_paths(git, project)
    # Of a sparse checkout, most of these are not there.
    unseen = [path for path in tracked.unseen if os.path.lexists(os.path.join(project, path))]
    rules = rules._replace(unseen=tuple(sorted(unseen)))
    return _StartWalk(git, rules, intake, tracked.files, tracked.nested).collect()


def read_surroundings(git: Git, rules: Rules, intake: Intake, home: str) -> Rules | None:
    """Return the rules for the rest of the repository; None if there is no rest, or too much of it.

    Our own files in `home` are not part of it.
    """
    prefix = rules.prefix.rstrip("/")
    top = rules.project[: len(rules.project) - len(prefix)].rstrip("/")
    repository = find_repository(git, top) if prefix else None
    skip = [prefix, *([os.path.relpath(home, top)] if is_inside(home, top) else [])]
    if repository is None:
        return None
    ignore, ignore_case = ignore_settings(git, repository)
    start = Rules(
        rules.run,
        top,
        (".",),
        (),
        head=rules.head,
        ignore=tuple(ignore),
        ignore_case=ignore_case,
        store=rules.store,
    )
    tracked = tracked_paths(git, top)
    files = frozenset(
        path for path in tracked.files if not any(is_inside(path, one) for one in skip)
    )
    if len(files) > MAX_AROUND:
        return None
    walk = _StartWalk(git, start, intake, files, tracked.nested, frozenset(skip), MAX_AROUND)
    try:
        found = walk.collect()
    except _TooManyFiles:
        return None
    # Last, so that no pattern of the repository includes them again.
    skipped = IgnoreFile("", tuple(literal(f"{one}/") for one in skip))
    return found._replace(ignore=(*found.ignore, skipped))


class _TooManyFiles(Exception):
    """A repository has more files around the project than a clean copy should have."""


class _StartWalk:
    """One walk over a project that collects its ignore files, ignored files and directories."""

    def __init__(
        self,
        git: Git,
        rules: Rules,
        intake: Intake | None,
        tracked: frozenset[str],
        nested: frozenset[str],
        skip: frozenset[str] = frozenset(),
        max_files: int | None = None,
    ) -> None:
        """Walk the project of `rules`, whose git tracks the files `tracked` and the submodules
        `nested`; paths in `skip` are not visited. Beyond `max_files` that are not ignored,
        `collect` raises `_TooManyFiles`."""
        self._git = git
        self._rules = rules
        self._intake = intake
        self._tracked = tracked
        self._tracked_dirs = frozenset(parents(tracked))
        self._submodules = nested
        self._skip = skip
        self._left = max_files
        self._prefix = os.fsencode(rules.prefix)
        self._ignore = list(rules.ignore)
        self._tracked_ignored: list[str] = []
        self._nested: list[str] = []
        self._directories: list[str] = []
        self._linked: list[str] = []
        self._files: list[IgnoredFile] = []
        self._compiled: list[str] = []

    def collect(self) -> Rules:
        """Walk the project and return the rules, completed with what was found."""
        fd = open_folder(self._rules.project)
        try:
            self._walk(fd, "", self._rules.ignored(), ignored=False)
        finally:
            os.close(fd)
        return self._rules._replace(
            ignore=tuple(self._ignore),
            tracked=tuple(sorted(self._tracked_ignored)),
            nested=tuple(sorted(self._nested)),
            directories=tuple(sorted(self._directories)),
            linked=tuple(sorted(self._linked)),
            files=tuple(sorted(self._files)),
            caches=tuple(sorted({*filter(in_cache, self._tracked), *self._compiled})),
        )

    def _walk(self, fd: int, path: str, patterns: Patterns, *, ignored: bool) -> None:
        """Visit the entries of an open directory; `path` is empty or ends in a slash."""
        self._git.check()
        patterns = patterns if ignored else self._with_ignore_file(fd, path, patterns)
        with os.scandir(fd) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
        for name, is_dir in found:
            below = path + name
            if name == GIT or never_counts(below) or below in self._skip:
                continue
            full = self._prefix + os.fsencode(below)
            hidden = ignored or patterns.match(full, is_dir)
            if is_dir:
                self._visit_directory(fd, below, patterns, hidden)
            elif hidden:
                self._visit_ignored_file(fd, below)
            else:
                self._count_file()
                if is_cache(below) and not in_cache_directory(below):
                    self._compiled.append(below)

    def _count_file(self) -> None:
        """Count a file that is not ignored; raise `_TooManyFiles` beyond the limit.

        Only files around the project are counted; otherwise there is no limit.
        """
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            raise _TooManyFiles

    def _visit_directory(self, fd: int, path: str, patterns: Patterns, hidden: bool) -> None:
        """Record a directory: as linked if it is ignored, as nested if it is a repository; else
        walk it."""
        if hidden and path not in self._tracked_dirs:
            if not is_cache(path):
                self._linked.append(path)
            return
        try:
            inner = open_folder(path.rpartition("/")[2], fd)
        except OSError:
            return  # reported when the first snapshot is taken
        try:
            if is_too_deep(path):
                return
            if path in self._submodules or self._is_repository(inner, path):
                self._nested.append(path)
                return
            self._directories.append(path)
            self._walk(inner, path + "/", patterns, ignored=hidden)
        finally:
            os.close(inner)

    def _is_repository(self, fd: int, path: str) -> bool:
        return path not in self._tracked_dirs and is_repository(fd)

    def _visit_ignored_file(self, fd: int, path: str) -> None:
        """Record an ignored file: as tracked, as linked if it is large, else store its content."""
        if path in self._tracked:
            self._tracked_ignored.append(path)
            return
        if is_cache(path):
            return
        name = path.rpartition("/")[2]
        try:
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(info.st_mode) and info.st_size > MAX_COPIED_BYTES:
                self._linked.append(path)
                return
            id = b""
            if self._intake is not None:
                info, id = self._intake.entry(fd, name)
        except (OSError, NotStored):
            return
        self._files.append(IgnoredFile(path, info.st_mode, id.hex()))

    def _with_ignore_file(self, fd: int, path: str, patterns: Patterns) -> Patterns:
        """Return the patterns plus those of this directory's ignore file, and record that file."""
        found = _read_ignore_file_in(fd, self._rules.prefix + path)
        if found is None:
            return patterns
        self._ignore.append(found)
        lines = [os.fsencode(line) for line in found.lines]
        group = Group(os.fsencode(found.base), lines, self._rules.ignore_case)
        return Patterns((*patterns.groups, group))


def _read_ignore_file_in(fd: int, base: str) -> IgnoreFile | None:
    """Read the `.gitignore` of an open directory; return None if there is none, or it cannot be
    read."""
    try:
        descriptor = open_plain(IGNORE_FILE, READ, folder=fd)
    except OSError:
        return None
    try:
        return ignore_file(base, read_up_to(descriptor, MAX_IGNORE_FILE_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)
