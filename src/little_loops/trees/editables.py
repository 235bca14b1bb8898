"""Find editable installs of the project in Python environments outside it.

`pip install -e .` lets an environment import a package from the project. An environment inside the
project is rewritten for a clean copy (`shadows`); one outside is not the project's to rewrite. Python
searches `PYTHONPATH` first, so the copy's directories go there.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from glob import escape, glob

from little_loops.system.plain_files import reading
from little_loops.trees.git import is_inside
from little_loops.trees.shadows import MAX_REWRITTEN_BYTES

PROGRAMS = ("python", "python3")
SITE_PACKAGES = ("lib", "python3*", "site-packages")
PATH_FILE = "*.pth"
FINDER = "__editable__*.py"
QUOTED = re.compile(r"""(['"])(/.*?)\1""")


def editable_paths(project: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the existing directories in the project that Python environments outside it import
    from."""
    found = (
        path
        for site in _site_packages(project, environ)
        for path in _paths_in(site)
        if is_inside(path, project) and os.path.isdir(path)
    )
    return tuple(dict.fromkeys(found))


def _site_packages(project: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the package directories of the Python on PATH, and the user's own."""
    search = environ.get("PATH", os.defpath)
    programs = (shutil.which(name, path=search) for name in PROGRAMS)
    roots = [os.path.dirname(os.path.dirname(each)) for each in programs if each is not None]
    if home := environ.get("HOME"):
        roots.append(os.path.join(home, ".local"))
    for root in dict.fromkeys(roots):
        if not is_inside(os.path.realpath(root), project):
            yield from sorted(glob(os.path.join(escape(root), *SITE_PACKAGES)))


def _paths_in(site: str) -> Iterator[str]:
    """Yield the absolute paths that files of editable installs contain."""
    try:
        names = sorted(os.listdir(site))
    except OSError:
        return
    for name in names:
        if fnmatchcase(name, PATH_FILE):
            yield from filter(os.path.isabs, map(str.strip, _read(site, name).splitlines()))
        elif fnmatchcase(name, FINDER):  # it maps each package to its directory or module
            yield from (os.path.dirname(each[1]) for each in QUOTED.findall(_read(site, name)))


def _read(site: str, name: str) -> str:
    """Return the first `MAX_REWRITTEN_BYTES` of a file as text; empty if it cannot be read."""
    try:
        with reading(os.path.join(site, name)) as file:
            return os.fsdecode(file.read(MAX_REWRITTEN_BYTES))
    except OSError:
        return ""
