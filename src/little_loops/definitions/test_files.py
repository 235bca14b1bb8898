"""The test files of a project: `.loops/tests/*.test.yaml`."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from functools import cache

from little_loops.authoring.loop_tests import LoopTestFile, load_tests
from little_loops.definitions.loading import find_loop, name_of, read_definition, shown_path
from little_loops.definitions.settings import with_settings
from little_loops.errors import Problem, UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.records import NamedTuple
from little_loops.runs.config_files import LARGEST
from little_loops.runs.project import TEST_SUFFIXES, TESTS, loop_files, loops_of
from little_loops.system.plain_files import read_plain


class ReadTestFile(NamedTuple):
    path: str
    content: LoopTestFile


def tests_of(root: str) -> list[str]:
    """Return the paths of a project's test files, sorted by name; [] if it has none."""
    directory = os.path.join(root, loops_of(root), TESTS)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names if name.endswith(TEST_SUFFIXES)]


def misplaced_tests(root: str) -> list[Problem]:
    """Return a problem for each test file among the loops of a project: nobody would run its tests."""
    paths = [path for path in loop_files(root) if path.endswith(TEST_SUFFIXES)]
    return [problem for path in paths for problem in read_definition(path).problems]


def loops_without_tests(root: str, tested: Container[str]) -> list[str]:
    """Return the names of a project's loops that are not among the tested ones, sorted; for an
    invalid loop, that of its file."""
    paths = [path for path in loop_files(root) if not path.endswith(TEST_SUFFIXES)]
    return sorted({name for name in map(_name_in, paths) if name not in tested})


def _name_in(path: str) -> str:
    """Return the name of the loop in a file; that of the file if it is invalid or unreadable."""
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        return name_of(path) or stem
    except UsageError:
        return stem


def read_tests(paths: Iterable[str], root: str, environ: Mapping[str, str]) -> list[ReadTestFile]:
    """Read test files. Problems are in the result; raises `UsageError` if one cannot be read."""

    @cache  # several files may test one loop
    def find(name: str) -> FSMLoop | str:
        return _find(name, root, environ)

    return [
        ReadTestFile(shown_path(path), load_tests(_read(path), shown_path(path), find))
        for path in paths
    ]


def _read(path: str) -> bytes:
    """Return the content of a test file; raise `UsageError` if it cannot be read."""
    try:
        return read_plain(path, LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read `{shown_path(path)}`: {error.strerror}") from error


def _find(name: str, root: str, environ: Mapping[str, str]) -> FSMLoop | str:
    """Return the loop of that name with the project's settings, or why it cannot be tested."""
    try:
        definition = read_definition(find_loop(name, root))
    except UsageError as error:
        return error.message
    if definition.loop is None:
        return f"loop `{name}` has errors; `ll-loop validate {name}` shows them"
    return with_settings(definition, root, environ)
