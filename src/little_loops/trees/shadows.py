"""Link directories into a copy or worktree, and rewrite what in them leads back into the project.

A directory in which nothing names the project is linked as a whole. Otherwise it becomes a shadow:
a directory whose entries are linked one by one, with those files and links rewritten that lead back
into the project. Such files are those of editable installs (`*.pth`, `__editable__*`, `*.egg-link`,
`direct_url.json`), and the scripts in the `bin` of such an environment. A directory that CMake, Meson
or an autotools `configure` has prepared for the project is left out: a build in it would be one of
the project. A directory with build products is a shadow in any case: `cd build; ..` and
`rm -rf build/` then work as in the project.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from urllib.parse import quote

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.plain_files import reading
from little_loops.trees.git import Git, is_inside
from little_loops.trees.rules import is_cache

EDITABLE = (
    "*.pth",
    "__editable__*",
    "_*editable*.py",
    "*.egg-link",
    "direct_url.json",
    "sitecustomize.py",
    "usercustomize.py",
)
SCRIPTS = ("bin", "Scripts")
CMAKE_CACHE = "CMakeCache.txt"
AUTOTOOLS = "config.status"
MESON = "meson-private"
CMAKE_SOURCES = re.compile(rb"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)
BUILD_FILES = (CMAKE_CACHE, AUTOTOOLS)
ENVIRONMENT = "pyvenv.cfg"
IMPORTED = re.compile(rb"^import[ \t]+([\w., \t]+)", re.MULTILINE)
MAX_REWRITTEN_BYTES = 1 << 20
INSTALL = "write `setup:` with the command that installs what the check needs"
# Bytes that continue a path component, so that a match before them is not the whole path.
PATH_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%")


class NotClean(StoreError):
    """A clean copy of the project cannot be created."""


class PlannedContent(NamedTuple):
    """The planned content of a path in the copy: a link's target, or a file's content."""

    kind: str
    mode: int
    data: bytes


class Linked(NamedTuple):
    """A project, its copy, and the directories that are linked."""

    project: str
    copy: str
    folders: tuple[str, ...]
    products: frozenset[str] = frozenset()
    """The `folders` that may have build products."""


DIRECTORY = PlannedContent("dir", stat.S_IFDIR | 0o755, b"")
MAX_OPENED = 100
"""In a directory with more directories than that, only the first level is not linked as a whole."""


def plan(
    linked: Linked, replaced: dict[str, PlannedContent], git: Git, scans: dict[str, Scan]
) -> dict[str, PlannedContent]:
    """Return what the copy has in place of the linked directories, by path.

    `replaced` are paths below them that must not have the project's current content. `scans` caches
    what was found in each directory, and is updated. Raises `NotClean`, or `Interrupted` on a stop.
    """
    found: dict[str, PlannedContent] = {}
    for folder in linked.folders:
        scan = scans.setdefault(folder, Scan(linked, folder))
        other = scan.run(git)
        other.update(
            {
                path: one
                for path, one in replaced.items()
                if is_inside(path, folder) and path != folder
            }
        )
        opened = scan.opened if folder in linked.products else ()
        if folder in scan.builds:
            found.update(other)
        elif other or scan.builds or opened:
            found.update(_shadow(linked, folder, other, scan.builds, opened))
        else:
            found[folder] = link_to(os.path.join(linked.project, folder))
    return found


def link_to(text: str) -> PlannedContent:
    """Return a link to `text`."""
    return PlannedContent("link", stat.S_IFLNK | 0o777, os.fsencode(text))


def _shadow(
    linked: Linked,
    folder: str,
    other: dict[str, PlannedContent],
    left_out: Collection[str],
    opened: Collection[str],
) -> dict[str, PlannedContent]:
    """Return the entries of a shadow: links, except for the paths in `other`, those that are
    `left_out`, the directories above them, and those that are `opened`."""
    inner = (*other, *left_out)
    above = {each for path in inner for each in _ancestors_below(path, folder)}
    deeper = {folder, *above, *opened}
    if os.path.lexists(os.path.join(linked.project, folder, ENVIRONMENT)):
        _add_scripts(linked, folder, deeper, other)
    found = dict.fromkeys(opened, DIRECTORY) | other
    for directory in deeper:
        for name in _names(linked, directory):
            path = f"{directory}/{name}"
            is_planned = path in deeper or path in other or path in left_out
            if not is_planned and not is_cache(path):
                found[path] = _link_entry(linked, path)
    return found


def _ancestors_below(path: str, folder: str) -> Iterator[str]:
    """Yield the directories above a path, up to but not including `folder`."""
    while (path := path.rpartition("/")[0]) and path != folder:
        yield path


def _names(linked: Linked, directory: str) -> list[str]:
    """Return the names in a directory of the project; raise `NotClean` if it cannot be read."""
    try:
        return os.listdir(os.path.join(linked.project, directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _cannot_rewrite(directory, (error.strerror or str(error)).lower()) from error


def _link_entry(linked: Linked, path: str) -> PlannedContent:
    """Return a link to an entry of the project.

    If the entry is a link itself, copy that: a program may look at its own path to find out where
    it is.
    """
    full = os.path.join(linked.project, path)
    try:
        text = os.readlink(full)
    except OSError:
        return link_to(full)
    stays = is_inside(os.path.normpath(os.path.join(os.path.dirname(full), text)), linked.project)
    if stays or os.path.isabs(text):
        return link_to(text_in_copy(linked.project, linked.copy, path, text))
    return link_to(os.path.realpath(full))


def _add_scripts(
    linked: Linked, folder: str, deeper: set[str], other: dict[str, PlannedContent]
) -> None:
    """Add the scripts of a Python environment that name its path, rewritten, to `other`, and their
    directories to `deeper`."""
    for name in SCRIPTS:
        directory = f"{folder}/{name}"
        if not os.path.isdir(os.path.join(linked.project, directory)):
            continue
        deeper.add(directory)
        for script in _names(linked, directory):
            path = f"{directory}/{script}"
            full = os.path.join(linked.project, path)
            if path not in other and not os.path.islink(full) and _is_small(full):
                script_there = rewritten(linked, path)
                if script_there is not None:
                    other[path] = script_there


def _is_small(path: str) -> bool:
    info = os.lstat(path)
    return stat.S_ISREG(info.st_mode) and info.st_size <= MAX_REWRITTEN_BYTES


# ── finding what leads back into the project ────────────────────────────────────────────────────────────────────────────


class Scanned(NamedTuple):
    """The relevant entries of a directory when it was scanned."""

    stamp: tuple[int, int, int]
    dirs: tuple[str, ...]
    links: tuple[str, ...]
    files: tuple[str, ...]


class Scan:
    """Finds the files and links in one linked directory that lead back into the project.

    Directories are listed again only if they have changed. `builds` are those that CMake, Meson or
    autotools have prepared for the project.
    """

    def __init__(self, linked: Linked, folder: str) -> None:
        self._linked = linked
        self._folder = folder
        self._known: dict[str, Scanned] = {}
        self.builds: tuple[str, ...] = ()

    def run(self, git: Git) -> dict[str, PlannedContent]:
        """Return the files and links that lead back, rewritten for the copy, by path.

        Raises `NotClean` if one cannot be read or is too large, `Interrupted` on a stop.
        """
        found: dict[str, PlannedContent] = {}
        stack = [self._folder]
        known: dict[str, Scanned] = {}
        builds = []
        while stack:
            git.check()
            directory = stack.pop()
            scanned = self._list_cached(directory)
            if scanned is None:
                continue
            known[directory] = scanned
            if self._is_build(directory, scanned):
                builds.append(directory)
                continue
            stack += [f"{directory}/{name}" for name in scanned.dirs]
            found.update(self._leading_back(directory, scanned))
        self._known, self.builds = known, tuple(builds)
        return found

    @property
    def opened(self) -> tuple[str, ...]:
        """Return the directories that are no links in a shadow of build products."""
        found = tuple(path for path in self._known if path not in self.builds)
        return found if len(found) <= MAX_OPENED else (self._folder,)

    def _is_build(self, directory: str, scanned: Scanned) -> bool:
        """Return whether a directory is prepared to build the project, or a part of it."""
        if CMAKE_CACHE in scanned.files and self._is_cmake_build(directory):
            return True
        if AUTOTOOLS in scanned.files:
            return rewritten(self._linked, f"{directory}/{AUTOTOOLS}") is not None
        return MESON in scanned.dirs

    def _is_cmake_build(self, directory: str) -> bool:
        """Return whether CMake has configured a directory to build the project, or a part of it."""
        path = f"{directory}/{CMAKE_CACHE}"
        named = CMAKE_SOURCES.search(_read(os.path.join(self._linked.project, path), path))
        return named is not None and self._leads_back(os.path.realpath(os.fsdecode(named[1])))

    def _list_cached(self, directory: str) -> Scanned | None:
        """Return the entries of a directory, from the last scan if it is unchanged; None if
        unreadable."""
        full = os.path.join(self._linked.project, directory)
        try:
            info = os.stat(full, follow_symlinks=False)
            stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino)
            before = self._known.get(directory)
            if before is not None and before.stamp == stamp:
                return before
            return _list(full, stamp)
        except OSError:
            return None

    def _leading_back(
        self, directory: str, scanned: Scanned
    ) -> Iterator[tuple[str, PlannedContent]]:
        """Yield the entries of a directory that lead back, with their rewritten content."""
        for name in scanned.files:
            if name in BUILD_FILES:
                continue
            path = f"{directory}/{name}"
            content = rewritten(self._linked, path) or self._pth_in_copy(path)
            if content is not None:
                yield path, content
            for module in self._imported_by_pth(path):
                if (content := rewritten(self._linked, module)) is not None:
                    yield module, content
        for name in scanned.links:
            path = f"{directory}/{name}"
            text = self._redirected_link(path)
            if text is not None:
                yield path, link_to(text)

    def _pth_in_copy(self, path: str) -> PlannedContent | None:
        """Return a `.pth` file for the copy if a line names a directory of the project relative to the
        file, or by a link.

        A relative line stays: as a file of its own, not a link, it then means the directory in the
        copy.
        """
        if not path.endswith(".pth"):
            return None
        full = os.path.join(self._linked.project, path)
        lines = os.fsdecode(_read(full, path)).splitlines(keepends=True)
        leading = {at: self._line_in_copy(full, line) for at, line in enumerate(lines)}
        if not any(leading.values()):
            return None
        text = "".join(leading[at] or line for at, line in enumerate(lines))
        return PlannedContent("file", os.stat(full).st_mode, os.fsencode(text))

    def _line_in_copy(self, full: str, line: str) -> str | None:
        """Return what a line of a `.pth` file has to be in the copy; None if it is code, or does not
        lead back."""
        if line.startswith(("import ", "import\t", "#")) or not line.strip():
            return None
        place = os.path.normpath(os.path.join(os.path.dirname(full), line.strip()))
        if self._leads_back(place):
            return line
        real, project = os.path.realpath(place), self._linked.project
        return f"{self._linked.copy}{real[len(project) :]}\n" if self._leads_back(real) else None

    def _imported_by_pth(self, path: str) -> Iterator[str]:
        """Yield the modules beside a `.pth` file that it imports; Python runs such lines when it
        starts."""
        if not path.endswith(".pth"):
            return
        folder = os.path.dirname(path)
        for names in IMPORTED.findall(_read(os.path.join(self._linked.project, path), path)):
            for name in os.fsdecode(names).split(","):
                module = f"{folder}/{name.strip().replace('.', '/')}"
                for file in (f"{module}.py", f"{module}/__init__.py"):
                    if os.path.isfile(os.path.join(self._linked.project, file)):
                        yield file

    def _leads_back(self, place: str) -> bool:
        """Return whether a path is in the project, but not in one of the linked directories."""
        project = self._linked.project
        return is_inside(place, project) and not any(
            is_inside(place, os.path.join(project, folder)) for folder in self._linked.folders
        )

    def _redirected_link(self, path: str) -> str | None:
        """Return the target that a link must have in the copy; None if it does not lead back."""
        full = os.path.join(self._linked.project, path)
        if not self._leads_back(os.path.realpath(full)):
            return None
        return text_in_copy(self._linked.project, self._linked.copy, path, os.readlink(full))


def text_in_copy(project: str, copy: str, path: str, text: str) -> str:
    """Return the target for a link in the copy: if it leads into the project, then into the copy."""
    place = os.path.normpath(os.path.join(project, os.path.dirname(path), text))
    if is_inside(place, project):
        return copy + place[len(project) :] if os.path.isabs(text) else text
    target = os.path.realpath(place)
    return copy + target[len(project) :] if is_inside(target, project) else text


def _list(full: str, stamp: tuple[int, int, int]) -> Scanned:
    """List a directory's subdirectories, links, and files that may lead back into the project."""
    dirs, links, files = [], [], []
    with os.scandir(full) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                if not is_cache(entry.name):
                    dirs.append(entry.name)
            elif any(fnmatchcase(entry.name, pattern) for pattern in (*EDITABLE, *BUILD_FILES)):
                files.append(entry.name)
    return Scanned(stamp, tuple(dirs), tuple(links), tuple(files))


def rewritten(linked: Linked, path: str) -> PlannedContent | None:
    """Return a file with the project's path replaced by the copy's; None if it does not contain it."""
    full = os.path.join(linked.project, path)
    data = _read(full, path)
    other = data
    for old, new in _spellings(linked):
        other = replace_path(other, old, new)
    return PlannedContent("file", os.stat(full).st_mode, other) if other != data else None


def _spellings(linked: Linked) -> Iterable[tuple[bytes, bytes]]:
    """Yield the pairs of paths to replace: plain, and as in a URL if that is different."""
    old, new = os.fsencode(linked.project), os.fsencode(linked.copy)
    yield old, new
    if quote(old) != os.fsdecode(old):
        yield quote(old).encode(), quote(new).encode()


def replace_path(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace a path in `data` wherever it occurs as a whole path or as the beginning of one."""
    pieces: list[bytes] = []
    start = 0
    while (at := data.find(old, start)) >= 0:
        end = at + len(old)
        is_whole = end == len(data) or data[end] not in PATH_BYTES
        pieces += [data[start:at], new if is_whole else old]
        start = end
    return b"".join([*pieces, data[start:]])


def _read(full: str, path: str) -> bytes:
    """Read a small file; raise `NotClean` if it cannot be read or is too large."""
    try:
        with reading(full) as file:
            data = file.read(MAX_REWRITTEN_BYTES + 1)
    except OSError as error:
        raise _cannot_rewrite(path, (error.strerror or str(error)).lower()) from error
    if len(data) > MAX_REWRITTEN_BYTES:
        raise _cannot_rewrite(path, "it is too large to rewrite")
    return data


def _cannot_rewrite(path: str, why: str) -> NotClean:
    return NotClean(
        f"`{path}` may point back into the project: {why}",
        INSTALL,
    )
