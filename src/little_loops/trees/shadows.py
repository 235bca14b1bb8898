"""Link ignored directories into a clean copy, so that none of them leads back into the project.

A directory that holds nothing which names the project is linked as a whole.  Otherwise it becomes a
shadow: a directory whose entries are linked one by one, with the files and links that lead back
rewritten to the copy.  Files that lead back are those of editable installs (`*.pth`, `__editable__*`,
`*.egg-link`, `direct_url.json`), and in the `bin` of such an environment the scripts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from urllib.parse import quote

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.plain_files import reading
from little_loops.trees.git import Git, is_inside
from little_loops.trees.rules import is_cache

EDITABLE = ("*.pth", "__editable__*", "_*editable*.py", "*.egg-link", "direct_url.json")
SCRIPTS = ("bin", "Scripts")
ENVIRONMENT = "pyvenv.cfg"
MAX_REWRITTEN_BYTES = 1 << 20
# What may stand before and behind a path that is written in a text.
PATH_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%")


class NotClean(StoreError):
    """A clean copy of the project cannot be laid out."""


class Wanted(NamedTuple):
    """What is to lie at a path of the copy: a link with a text, or a file with this content."""

    kind: str
    mode: int
    data: bytes


class Linked(NamedTuple):
    """The project and its copy, and the directories that are linked."""

    project: str
    copy: str
    folders: tuple[str, ...]


def plan(
    linked: Linked, replaced: dict[str, Wanted], git: Git, scans: dict[str, Scan]
) -> dict[str, Wanted]:
    """What lies in the copy in the place of the linked directories.

    `replaced` are paths below them that must not be as the project has them now.
    """
    found: dict[str, Wanted] = {}
    for folder in linked.folders:
        scan = scans.setdefault(folder, Scan(linked, folder))
        other = scan.look(git)
        other.update(
            {
                path: one
                for path, one in replaced.items()
                if is_inside(path, folder) and path != folder
            }
        )
        if other:
            found.update(_shadow(linked, folder, other))
        else:
            found[folder] = link_to(os.path.join(linked.project, folder))
    return found


def link_to(text: str) -> Wanted:
    return Wanted("link", stat.S_IFLNK | 0o777, os.fsencode(text))


def _shadow(linked: Linked, folder: str, other: dict[str, Wanted]) -> dict[str, Wanted]:
    """A directory laid out again, as far down as something in it is different."""
    deeper = {folder} | {above for path in other for above in _above(path, folder)}
    if os.path.lexists(os.path.join(linked.project, folder, ENVIRONMENT)):
        _add_scripts(linked, folder, deeper, other)
    found = dict(other)
    for directory in deeper:
        for name in _names(linked, directory):
            path = f"{directory}/{name}"
            if path not in deeper and path not in other and not is_cache(path):
                found[path] = _entry(linked, path)
    return found


def _above(path: str, folder: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) and path != folder:
        yield path


def _names(linked: Linked, directory: str) -> list[str]:
    try:
        return os.listdir(os.path.join(linked.project, directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _impossible(directory, (error.strerror or str(error)).lower()) from error


def _entry(linked: Linked, path: str) -> Wanted:
    """A link of the project's is linked as it is: a program finds out by its own path where it is."""
    full = os.path.join(linked.project, path)
    try:
        text = os.readlink(full)
    except OSError:
        return link_to(full)
    stays = is_inside(os.path.normpath(os.path.join(os.path.dirname(full), text)), linked.project)
    if stays or os.path.isabs(text):
        return link_to(text_in_copy(linked.project, linked.copy, path, text))
    return link_to(os.path.realpath(full))


def _add_scripts(linked: Linked, folder: str, deeper: set[str], other: dict[str, Wanted]) -> None:
    """The scripts of a Python environment begin with its path, and would run the project's."""
    for name in SCRIPTS:
        directory = f"{folder}/{name}"
        if not os.path.isdir(os.path.join(linked.project, directory)):
            continue
        deeper.add(directory)
        for script in _names(linked, directory):
            path = f"{directory}/{script}"
            full = os.path.join(linked.project, path)
            if path not in other and not os.path.islink(full) and _is_small(full):
                rewritten = _rewritten(linked, path)
                if rewritten is not None:
                    other[path] = rewritten


def _is_small(path: str) -> bool:
    info = os.lstat(path)
    return stat.S_ISREG(info.st_mode) and info.st_size <= MAX_REWRITTEN_BYTES


# ── what leads back ────────────────────────────────────────────────────────────────────────────


class Scanned(NamedTuple):
    """A directory as it was when it was looked through."""

    stamp: tuple[int, int, int]
    dirs: tuple[str, ...]
    links: tuple[str, ...]
    files: tuple[str, ...]


class Scan:
    """One linked directory, looked through for what leads back; known directories only if changed."""

    def __init__(self, linked: Linked, folder: str) -> None:
        self._linked = linked
        self._folder = folder
        self._known: dict[str, Scanned] = {}

    def look(self, git: Git) -> dict[str, Wanted]:
        found: dict[str, Wanted] = {}
        stack = [self._folder]
        known: dict[str, Scanned] = {}
        while stack:
            git.check()
            directory = stack.pop()
            scanned = self._scan(directory)
            if scanned is None:
                continue
            known[directory] = scanned
            stack += [f"{directory}/{name}" for name in scanned.dirs]
            found.update(self._leading_back(directory, scanned))
        self._known = known
        return found

    def _scan(self, directory: str) -> Scanned | None:
        full = os.path.join(self._linked.project, directory)
        try:
            info = os.stat(full, follow_symlinks=False)
            stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino)
            before = self._known.get(directory)
            if before is not None and before.stamp == stamp:
                return before
            return _scan(full, stamp)
        except OSError:
            return None

    def _leading_back(self, directory: str, scanned: Scanned) -> Iterator[tuple[str, Wanted]]:
        for name in scanned.files:
            path = f"{directory}/{name}"
            rewritten = _rewritten(self._linked, path) or self._relative(path)
            if rewritten is not None:
                yield path, rewritten
        for name in scanned.links:
            path = f"{directory}/{name}"
            text = self._link_text(path)
            if text is not None:
                yield path, link_to(text)

    def _relative(self, path: str) -> Wanted | None:
        """A `.pth` may name a directory relative to its own."""
        if not path.endswith(".pth"):
            return None
        full = os.path.join(self._linked.project, path)
        data = _read(full, path)
        for line in os.fsdecode(data).splitlines():
            place = os.path.normpath(os.path.join(os.path.dirname(full), line.strip()))
            is_code = line.startswith(("import ", "import\t", "#")) or not line.strip()
            if not is_code and self._leads_back(place):
                return Wanted("file", os.stat(full).st_mode, data)
        return None

    def _leads_back(self, place: str) -> bool:
        """Into the project, and not into something that the copy has a link to."""
        project = self._linked.project
        return is_inside(place, project) and not any(
            is_inside(place, os.path.join(project, folder)) for folder in self._linked.folders
        )

    def _link_text(self, path: str) -> str | None:
        """What a link is to say in the copy, if it leads back."""
        full = os.path.join(self._linked.project, path)
        if not self._leads_back(os.path.realpath(full)):
            return None
        return text_in_copy(self._linked.project, self._linked.copy, path, os.readlink(full))


def text_in_copy(project: str, copy: str, path: str, text: str) -> str:
    """What a link of the project says in the copy: one into the project leads into the copy."""
    place = os.path.normpath(os.path.join(project, os.path.dirname(path), text))
    if is_inside(place, project):
        return copy + place[len(project) :] if os.path.isabs(text) else text
    target = os.path.realpath(place)
    return copy + target[len(project) :] if is_inside(target, project) else text


def _scan(full: str, stamp: tuple[int, int, int]) -> Scanned:
    dirs, links, files = [], [], []
    with os.scandir(full) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                if not is_cache(entry.name):
                    dirs.append(entry.name)
            elif any(fnmatchcase(entry.name, pattern) for pattern in EDITABLE):
                files.append(entry.name)
    return Scanned(stamp, tuple(dirs), tuple(links), tuple(files))


def _rewritten(linked: Linked, path: str) -> Wanted | None:
    """A file with the copy's path in the place of the project's; None if it does not name it."""
    full = os.path.join(linked.project, path)
    data = _read(full, path)
    other = data
    for old, new in _spellings(linked):
        other = replace_path(other, old, new)
    return Wanted("file", os.stat(full).st_mode, other) if other != data else None


def _spellings(linked: Linked) -> Iterable[tuple[bytes, bytes]]:
    old, new = os.fsencode(linked.project), os.fsencode(linked.copy)
    yield old, new
    if quote(old) != os.fsdecode(old):
        yield quote(old).encode(), quote(new).encode()


def replace_path(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace a path where it stands as a path of its own or as the beginning of one."""
    pieces: list[bytes] = []
    start = 0
    while (at := data.find(old, start)) >= 0:
        end = at + len(old)
        is_whole = end == len(data) or data[end] not in PATH_BYTES
        pieces += [data[start:at], new if is_whole else old]
        start = end
    return b"".join([*pieces, data[start:]])


def _read(full: str, path: str) -> bytes:
    try:
        with reading(full) as file:
            data = file.read(MAX_REWRITTEN_BYTES + 1)
    except OSError as error:
        raise _impossible(path, (error.strerror or str(error)).lower()) from error
    if len(data) > MAX_REWRITTEN_BYTES:
        raise _impossible(path, "it is too large to rewrite")
    return data


def _impossible(path: str, why: str) -> NotClean:
    return NotClean(
        f"`{path}` may point from the clean copy back into the project: {why}",
        "write `setup:` with the command that installs what the check needs",
    )
