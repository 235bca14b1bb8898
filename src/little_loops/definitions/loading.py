"""Load the loop that the user named: a valid loop, or all problems with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from little_loops.authoring.branch_view import unfolded
from little_loops.authoring.filling import Filling
from little_loops.authoring.load import Definition, load, load_data
from little_loops.authoring.loop_files import Library, LoopText
from little_loops.authoring.messages import shown
from little_loops.authoring.yaml.places import Places, Source
from little_loops.definitions.settings import host_given, mentions_evidence, with_settings
from little_loops.errors import DefinitionError, Problem, UnknownLoop, UsageError
from little_loops.fsm.schema import FSMLoop, has_worktree, with_child_loops
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.config_files import LARGEST
from little_loops.runs.project import (
    LOOPS,
    TEST_SUFFIXES,
    TESTS,
    files_named,
    find_project,
    is_loop_name,
    loop_files,
    path_in_project,
    resolve,
)
from little_loops.system.plain_files import read_plain

COMPILED_MARK = b"# compiled from "


class LoopFile(NamedTuple):
    """A loop and the file it comes from; `path` is empty for one from the command line."""

    loop: FSMLoop
    path: str
    definition: Definition
    warnings: tuple[Problem, ...] = ()

    def path_in(self, root: str) -> str | None:
        return path_in_project(self.path, root) if self.path else None


def read_definition(path: str, library: Library | None = None) -> Definition:
    """Read and check one file. Problems are in the result; raise `UsageError` if it is unreadable."""
    try:
        raw = read_plain(path, LARGEST + 1)  # one byte more, to detect a file that is too large
    except OSError as error:
        raise UsageError(f"cannot read `{shown_path(path)}`: {error.strerror}") from error
    if path.endswith(TEST_SUFFIXES):
        return _misplaced_test(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    return load(raw, shown_path(path), stem, library or library_of(path))


def library_of(path: str) -> Library:
    """Return the loops that a file can name: those of its project."""
    root = find_project(os.path.dirname(os.path.abspath(path)))
    return Library(partial(_read_named, root), (os.path.realpath(path),))


def _read_named(root: str, name: str) -> LoopText | str:
    """Return the file of a loop in the project, or why there is none."""
    try:
        path = find_loop(name, root, cwd=root)
        raw = read_plain(path, LARGEST + 1)
    except UsageError as error:
        return f"{error.message}\n{error.help or ''}"
    except OSError as error:
        return f"cannot read `{name}`: {error.strerror}"
    stem = os.path.splitext(os.path.basename(path))[0]
    return LoopText(raw, shown_path(path), stem, os.path.realpath(path))


def _misplaced_test(path: str) -> Definition:
    """Return a definition without a loop, whose problem says where to move the test file."""
    right = os.path.join(os.path.dirname(path), TESTS, os.path.basename(path))
    message = f"`{shown_path(path)}` is a test file, not a loop"
    help = f"move it to `{shown_path(right)}`"
    return Definition(None, (Problem("LL506", message, help=help),), Places(Source("", ()), None))


def shown_path(path: str) -> str:
    """Return the path relative to the current directory, unless that would start with `..`."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def load_loop(argument: str, root: str, *, evidence: bool = True) -> LoopFile:
    """Load the loop that an argument names.

    Without `evidence`, problems with recording evidence are ignored. Raises `UsageError` if no loop
    or several have the name, `DefinitionError` if the loop has errors.
    """
    found = load_variant(argument, root, evidence=evidence)
    _check_only_one(found.loop.name, found.path, root)
    return found


def load_candidate(argument: str, root: str) -> FSMLoop:
    """Load a loop that is compared with another one: it may have the name of a loop here.

    Problems with recording evidence are ignored. Raises `UsageError` if there is no such loop,
    `DefinitionError` if it has errors.
    """
    return load_variant(argument, root, evidence=False).loop


def load_variant(argument: str, root: str, *, evidence: bool = True) -> LoopFile:
    """Load the loop that an argument names, which may have the same name as another one.

    Raises `UsageError` and `DefinitionError` as `load_loop` does.
    """
    path = find_loop(argument, root)
    return _valid(read_definition(path), path, root, evidence=evidence)


def load_document(data: Mapping[str, Any], root: str, *, evidence: bool = True) -> LoopFile:
    """Load a loop from data instead of a file, with the same checks and settings.

    Its path is empty. Raises `DefinitionError` if it has errors.
    """
    return _valid(load_data(data, "loop"), "", root, evidence=evidence)


def _valid(definition: Definition, path: str, root: str, *, evidence: bool) -> LoopFile:
    """Return the loop with the project's settings, and its warnings.

    Raises `DefinitionError` with all problems if one is an error. Without `evidence`, problems with
    recording evidence are ignored.
    """
    problems = definition.problems
    if definition.loop is not None:
        problems += _problems_of_agents(definition, root)
        if evidence and mentions_evidence(definition):
            from little_loops.definitions.evidence_checks import evidence_problems  # few loops do

            problems += evidence_problems(definition, root, os.environ)
    if definition.loop is not None and has_worktree(definition.loop):
        from little_loops.definitions.worktree_checks import worktree_problems  # few loops have one

        problems += worktree_problems(definition, root, os.environ)
    if definition.loop is None or any(problem.severity == "error" for problem in problems):
        raise DefinitionError(problems)
    return LoopFile(_settled(definition, root), path, definition, problems)


def _settled(definition: Definition, root: str) -> FSMLoop:
    """Return the loop, and those that its states start, with the project's settings."""
    loop = with_settings(definition, root, os.environ)
    if not definition.children:
        return loop
    inner = {name: _settled(child, root) for name, child in definition.children.items()}
    return with_child_loops(loop, lambda name, child: inner[name]._replace(name=child.name))


def _problems_of_agents(definition: Definition, root: str) -> tuple[Problem, ...]:
    """Return the problems with the agents of a valid loop, and of those that its states start."""
    problems = _agent_problems(definition, root)
    for child in definition.children.values():
        problems += _problems_of_agents(child, root)
    return problems


def with_host(found: LoopFile, given: Mapping[str, str], root: str) -> LoopFile:
    """Return the loop, and those that its states start, with another agent program (`name`) or
    `model`. The definition stays as it was written.

    A state's own `host` is kept. Raises `DefinitionError` if one of the loops does not fit the
    program.
    """
    if not given:
        return found
    definition = _definition_given(found.definition, given)
    problems = [each for each in _problems_of_agents(definition, root) if each.severity == "error"]
    if problems:
        raise DefinitionError(problems)
    return found._replace(loop=_given_host(found.loop, given))


def _definition_given(definition: Definition, given: Mapping[str, str]) -> Definition:
    """Return what has to be checked if the loops get another agent program or model."""
    assert definition.loop is not None, "only a valid loop has agents"
    children = {name: _definition_given(each, given) for name, each in definition.children.items()}
    return definition._replace(loop=_given_host(definition.loop, given), children=children)


def _agent_problems(definition: Definition, root: str) -> tuple[Problem, ...]:
    """Return the problems with the agents of a valid loop itself."""
    assert definition.loop is not None, "only a valid loop has agents"
    loop = unfolded(definition.loop, definition.places).loop
    if not Filling(loop).agents and all(state.judge is None for state in loop.states.values()):
        return ()
    from little_loops.definitions.agent_checks import agent_problems  # others pay nothing for it

    return agent_problems(definition, root)


def _given_host(loop: FSMLoop, given: Mapping[str, str]) -> FSMLoop:
    """Return the loop, and those that its states start, with another agent program or model."""
    loop = loop._replace(host=host_given(loop.host, given))
    return with_child_loops(loop, lambda _, child: _given_host(child, given))


def find_loop(argument: str, root: str, *, cwd: str | None = None) -> str:
    """Return the path of the loop that an argument names; a relative path is one from `cwd`.

    Raises `UnknownLoop` if there is none, `UsageError` if there are several.
    """
    paths = resolve(argument, root, name_of, cwd=cwd or os.getcwd())
    if not paths and not is_loop_name(argument) and argument in _stems(root):
        raise UnknownLoop(
            f"`{argument}` is not a valid loop name",
            "rename the file; use letters, digits, `.`, `_` and `-`",
        )
    if not paths:
        raise UnknownLoop(f"no loop named `{argument}`", _available(argument, root))
    if len(paths) > 1 and not _one_is_compiled(paths):
        raise _ambiguous(argument, paths)
    return paths[0]


def name_of(path: str) -> str | None:
    """Return the name of the loop in a file; None if the file is invalid.

    Raises `UsageError` if it cannot be read.
    """
    loop = read_definition(path, Library(names_only=True)).loop
    return None if loop is None else loop.name


def _check_only_one(name: str, path: str, root: str) -> None:
    """Raise `UsageError` if another file has a loop of the same name."""
    others = namesakes(name, path, root)
    if others:
        raise _ambiguous(name, [path, *others])


def namesakes(name: str, path: str, root: str) -> tuple[str, ...]:
    """Return the other files whose loop has this name, except its compiled form."""

    def name_if_mentioned(other: str) -> str | None:
        """Return the loop name in another file; None, without parsing, if it cannot be `name`."""
        if os.path.samefile(other, path) or not _mentions(other, name):
            return None
        return name_of(other)

    others = files_named(name, root, name_if_mentioned)
    return () if _one_is_compiled([path, *others]) else others


def _mentions(path: str, name: str) -> bool:
    """Return whether a file may contain a loop of this name, by its text alone."""
    if os.path.splitext(os.path.basename(path))[0] == name:
        return True
    try:
        text = read_plain(path, LARGEST)
    except OSError:
        return False
    # A goal without a name is named after its words, so the name is not in the file.
    return name.encode() in text or b"goal:" in text


def _one_is_compiled(paths: Sequence[str]) -> bool:
    """Return whether one of two files is the compiled form of the other."""
    return len(paths) == 2 and any(_is_compiled(path) for path in paths)


def _is_compiled(path: str) -> bool:
    return read_plain(path, len(COMPILED_MARK)) == COMPILED_MARK


def _ambiguous(name: str, paths: Sequence[str]) -> UsageError:
    """Return the error for a name that the loops in all these files have."""
    listed = " and ".join(f"`{shown_path(path)}`" for path in paths)
    return UsageError(
        f"{len(paths)} loops are named `{name}`: {listed}",
        "give one of them another `name`",
    )


def _stems(root: str) -> list[str]:
    """Return the names of the project's loop files, without suffixes."""
    return [os.path.splitext(os.path.basename(path))[0] for path in loop_files(root)]


def _available(argument: str, root: str) -> str:
    """Return a hint: the nearest loop name, or the available ones."""
    stems = _stems(root)
    if not stems:
        return f"no loops found in `{shown_path(os.path.join(root, LOOPS))}`; try `ll-loop init`"
    from difflib import get_close_matches  # only where something failed

    near = get_close_matches(argument, stems, 1)
    if near:
        return f"did you mean `{near[0]}`?"
    return "available: " + ", ".join(f"`{stem}`" for stem in sorted(stems)[:20])


def context_overrides(
    pairs: Sequence[str], loop: FSMLoop, places: Places | None = None
) -> dict[str, Any]:
    """Parse `--context k=v` options into a dict of values.

    Raises `UsageError` for a malformed option or an unknown variable, and `DefinitionError` if the
    loop is invalid with these values; `places` say where in its file.
    """
    overrides = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"`--context {pair}` is not of the form key=value")
        if name not in loop.context:
            known = ", ".join(f"`{key}`" for key in loop.context)
            help = f"known: {known}" if known else "the loop has no context variables"
            raise UsageError(f"the loop has no context variable `{name}`", help)
        overrides[name] = value
    if overrides:
        _check_machine(overrides, loop, places)
    return overrides


def _check_machine(overrides: Mapping[str, str], loop: FSMLoop, places: Places | None) -> None:
    """Raise `DefinitionError` with all problems that the loop has with these values."""
    from little_loops.authoring.checks.check import check  # only where values are given

    changed = loop._replace(context={**loop.context, **overrides})
    found = check(changed, places or Places(Source("", ()), None))
    given = ", ".join(
        f"`--context {shown(f'{name}={value}')}`" for name, value in overrides.items()
    )
    errors = [
        each._replace(message=f"with {given}: {each.message}")
        for each in found
        if each.severity == "error"
    ]
    if errors:
        raise DefinitionError(errors)
