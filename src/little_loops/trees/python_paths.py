"""Set `PYTHONPATH` so that Python imports a copy of the project, not the project it would find.

`pip install -e .` lets an environment import a package from the project. In a clean copy or a
worktree, a check would then judge the project's files instead of those beside it. An environment
that is linked there is rewritten (`shadows`); any other is not ours to rewrite. Python searches
`PYTHONPATH` first, so the directories of the copy or worktree go there.

Not here: rewriting `*.pth` and `*.egg-link` in environments that are linked (`shadows`).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import escape, glob

from little_loops.records import NamedTuple
from little_loops.system.plain_files import reading
from little_loops.system.user_state import key_of
from little_loops.trees.git import is_inside
from little_loops.trees.shadows import EDITABLE, ENVIRONMENT, MAX_REWRITTEN_BYTES, replace_path
from little_loops.trees.shadows import INSTALL as INSTALL

PYTHONPATH = "PYTHONPATH"
SEARCHED = ("PATH", PYTHONPATH, "NODE_PATH", "VIRTUAL_ENV")
"""The variables that set where programs and packages are searched for."""
WORKTREES = "worktrees"
PROGRAMS = ("python", "python3")
PACKAGES = ("lib*", "python3*", "*-packages")
PATH_FILE = "*.pth"
FINDERS = ("__editable__*.py", "_*editable*.py")
MAPPED = re.compile(r"""(['"])([\w.]+)\1\s*[:,]\s*(['"])(/.*?)\3""")
QUOTED = re.compile(r"""(['"])(/.*?)\1""")
COMES_FIRST = "meta_path.insert("
"""In an import finder, which Python consults before it searches any directory."""


class Editable(NamedTuple):
    """A directory from which an environment imports packages, and the file that says so.

    `is_searched` is False if Python does not find it by searching directories.
    """

    path: str
    file: str
    is_searched: bool = True


class StandIn(NamedTuple):
    """A copy or worktree of the repository `real`, whose files are to be used instead.

    `prefix` is the project's path in both; `worktrees` is the directory with all worktrees of the
    project. What is in one of them means the project, too.
    """

    real: str
    copy: str
    prefix: str = ""
    worktrees: str = ""

    @classmethod
    def of(cls, project: str, place: str) -> StandIn:
        """Return what the worktree stands for in which `place` is the project."""
        real = os.path.realpath(project)
        home = os.path.join(WORKTREES, key_of(real))
        above, found, below = place.partition(f"/{home}/")
        if not found:
            return cls(real, place)
        id, _, prefix = below.partition("/")
        return cls(
            real.removesuffix(prefix).rstrip("/"),
            os.path.join(above, home, id),
            prefix,
            os.path.join(above, home),
        )

    def moved(self, path: str) -> str | None:
        """Return where a path of the project is in the copy; None if it is somewhere else, or in
        the copy itself."""
        for each in (path, os.path.realpath(path)):
            if is_inside(each, self.copy):
                return None
            if is_inside(each, self.real):
                return self.copy + each[len(self.real) :]
            if self.worktrees and is_inside(each, self.worktrees) and each != self.worktrees:
                _, slash, below = each[len(self.worktrees) + 1 :].partition("/")
                return self.copy + slash + below
        return None

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which programs find the copy instead of the project.

        What does not exist in the copy is still found in the project: an environment, or our own
        command.
        """
        found = dict(environ)
        for name in SEARCHED:
            if text := found.get(name):
                found[name] = os.pathsep.join(map(self._moved_if_there, text.split(os.pathsep)))
        editables = self._editables((*_environments(environ), *self._inside()))
        moved = (self.moved(each.path) for each in editables if each.is_searched)
        return with_python_path(found, (path for path in moved if path is not None))

    def _moved_if_there(self, path: str) -> str:
        moved = self.moved(path) if os.path.isabs(path) else None
        return path if moved is None or not os.path.isdir(moved) else moved

    def leads_back(self, environ: Mapping[str, str]) -> str | None:
        """Return why Python imports the project in spite of these variables, which are those of the
        copy; None if it does not."""
        inside = (
            each
            for each in self._inside()
            if self._moved_if_there(each) == each
            or not is_inside(os.path.realpath(each), self.real)
        )
        for each in self._editables((*_environments(environ), *inside)):
            moved = self.moved(each.path)
            if moved is not None and not (each.is_searched and os.path.isdir(moved)):
                return f"`{each.file}` makes Python import the project's own files"
        return None

    def _inside(self) -> Iterator[str]:
        """Yield the environments in the project: they may be used from the copy."""
        for folder in dict.fromkeys((self.real, os.path.join(self.real, self.prefix))):
            yield from _environments_in(folder)

    def _editables(self, roots: tuple[str, ...]) -> Iterator[Editable]:
        """Yield what these environments import, except what is in themselves."""
        for root in dict.fromkeys(roots):
            for each in _imported_by(root):
                if os.path.isdir(each.path) and not is_inside(each.path, root):
                    yield each


def with_python_path(environ: Mapping[str, str], paths: Iterator[str]) -> dict[str, str]:
    """Return the variables with these directories at the end of `PYTHONPATH`."""
    before = environ[PYTHONPATH].split(os.pathsep) if environ.get(PYTHONPATH) else []
    found = os.pathsep.join(dict.fromkeys((*before, *paths)))
    return {**environ, PYTHONPATH: found} if found else dict(environ)


def editable_paths(project: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the existing directories in the project that Python environments outside it import
    from, also those that links in the project lead to."""
    found = (
        each.path
        for root in (*_environments(environ), *_environments_in(project))
        if not is_inside(os.path.realpath(root), project)
        for each in _imported_by(root)
        if each.is_searched and is_inside(each.path, project) and os.path.isdir(each.path)
    )
    return tuple(dict.fromkeys(found))


def point_back(environ: Mapping[str, str], copy: str, real: str) -> tuple[str, ...]:
    """Let environments outside a copy import from the project `real` what they import from the copy:
    a check that installs the project in editable mode has installed the copy. Return the files that
    were changed; those that cannot be are left as they are."""
    found = []
    for root in _environments(environ):
        if is_inside(os.path.realpath(root), copy):
            continue
        for file in _install_files(root):
            data = os.fsencode(_read(file))
            other = replace_path(data, os.fsencode(copy), os.fsencode(real))
            if other != data:
                with suppress(OSError):
                    _replace(file, other)
                    found.append(file)
    return tuple(dict.fromkeys(found))


def _install_files(root: str) -> Iterator[str]:
    """Yield the files by which an environment knows where packages are that it does not contain."""
    for site in sorted(glob(os.path.join(escape(root), *PACKAGES))):
        for pattern in (*EDITABLE, "*.dist-info/direct_url.json"):
            for file in sorted(glob(os.path.join(escape(site), pattern))):
                if os.path.isfile(file) and os.path.getsize(file) <= MAX_REWRITTEN_BYTES:
                    yield file


def _replace(file: str, data: bytes) -> None:
    """Replace the content of a file atomically, and keep its mode."""
    part = f"{file}.part"
    with suppress(FileNotFoundError):
        os.unlink(part)
    with open(part, "xb") as stream:
        stream.write(data)
    os.chmod(part, stat.S_IMODE(os.stat(file).st_mode))
    os.replace(part, file)


def _environments(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the environments of the Python on PATH, the active one, and the user's own."""
    search = environ.get("PATH", os.defpath)
    programs = (shutil.which(name, path=search) for name in PROGRAMS)
    roots = [os.path.dirname(os.path.dirname(each)) for each in programs if each is not None]
    if active := environ.get("VIRTUAL_ENV"):
        roots.append(active)
    if home := environ.get("HOME"):
        roots.append(os.path.join(home, ".local"))
    return tuple(dict.fromkeys(roots))


def _environments_in(folder: str) -> Iterator[str]:
    """Yield the environments in a directory, and those that links in it lead to."""
    for name in ("*", ".*"):
        yield from map(os.path.dirname, glob(os.path.join(escape(folder), name, ENVIRONMENT)))


def _imported_by(root: str) -> Iterator[Editable]:
    """Yield what files of editable installs in an environment make Python import."""
    for site in sorted(glob(os.path.join(escape(root), *PACKAGES))):
        try:
            names = sorted(os.listdir(site))
        except OSError:
            continue
        for name in names:
            file = os.path.join(site, name)
            if fnmatchcase(name, PATH_FILE):
                yield from _in_path_file(file)
            elif any(fnmatchcase(name, pattern) for pattern in FINDERS):
                yield from _in_finder(file)


def _in_path_file(file: str) -> Iterator[Editable]:
    for line in map(str.strip, _read(file).splitlines()):
        if os.path.isabs(line):
            yield Editable(line, file)
        elif line.startswith(("import ", "import\t")):
            yield from (Editable(path, file, False) for _, path in QUOTED.findall(line))


def _in_finder(file: str) -> Iterator[Editable]:
    """Yield the directories to which a finder maps packages and modules: those above them, if these
    have their names there."""
    text = _read(file)
    for _, name, _, path in MAPPED.findall(text):
        tail = "/" + name.replace(".", "/")
        whole = path.removesuffix("/__init__.py").removesuffix(".py")
        if whole.endswith(tail) and COMES_FIRST not in text:
            yield Editable(whole.removesuffix(tail), file)
        else:
            yield Editable(os.path.dirname(path), file, False)


def _read(file: str) -> str:
    """Return the first `MAX_REWRITTEN_BYTES` of a file as text; empty if it cannot be read."""
    try:
        with reading(file) as stream:
            return os.fsdecode(stream.read(MAX_REWRITTEN_BYTES))
    except OSError:
        return ""
