"""What agents may not change in a run: what the loop says, or what its checks depend on.

Without `protect`, the set is guessed from the command lines of the checks, so changes are only
reported: the script or program that runs, a tool's configuration file, and operands that look like
tests. Patterns are gitignore patterns, relative to the project.

Not here: comparing and restoring paths (`trees`), the effect of a change (`machine`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from little_loops.fsm.actions import Action, Shell, action_of
from little_loops.fsm.makefiles import NAMES, included_by
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.scope import normalise
from little_loops.fsm.values import author_context
from little_loops.templates.render import TemplateError, Unresolved
from little_loops.templates.shell.commands import Command, commands_in, is_known
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.rules import findings
from little_loops.templates.shell.words import Finding
from little_loops.templates.splice import spliced

LOOPS = ".loops"
MODULE, PACKAGE = ".py", "__init__.py"
TEST_NAMES = frozenset({"test", "tests", "spec", "__tests__", "e2e"})
_PACKAGE = ("package.json", ".npmrc")
ConfigFiles = Mapping[str, tuple[str, ...]]
CONFIG_FILES: ConfigFiles = {
    **dict.fromkeys(("make", "gmake"), NAMES),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun"), _PACKAGE),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "cargo": (".cargo/config.toml", ".cargo/config"),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile",),
}
"""The configuration files of a tool, in the directory it runs in."""
WATCHED_FILES: ConfigFiles = {
    **CONFIG_FILES,
    "pytest": (
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pyproject.toml",
        "tox.ini",
        "setup.cfg",
    ),
}
"""With `protect`, also files that agents often have good reasons to change."""
_RUNS_FILES = frozenset({"node", "ruby", "php", "deno", "bun", "tsx", "ts-node", "zsh", "ksh"})
"""Interpreters that the shell reader does not know; their first operand is a file."""
_TAKES_NAMES = frozenset(
    {
        *CONFIG_FILES,
        "go",
        "mvn",
        "gradle",
        "gradlew",
        "dotnet",
        "mix",
        "swift",
    }
)
"""Programs for which a bare `test` is a command, not a directory."""
_RUN_THE_REST = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "pdm": "run"}


def protected_by(loop: FSMLoop, file: str | None = None) -> tuple[str, ...]:
    """Return the patterns of protected files: as set, else the loop files and the files that its
    checks name or read. `file` is the loop's own file, relative to the project."""
    if loop.evidence.protect is not None:
        return (*loop.evidence.protect, *_packages_instead_of(loop.evidence.protect))
    found = [*_loop_file_pattern(file), f"/{LOOPS}/*.yaml", f"/{LOOPS}/tests/"]
    return tuple(dict.fromkeys([*found, *_patterns_of_checks(loop, CONFIG_FILES)]))


def _packages_instead_of(patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the packages that Python would import instead of protected modules: of `test_a.py` and
    `test_a/__init__.py`, it takes the second."""
    for pattern in patterns:
        if pattern.endswith(MODULE) and not pattern.startswith("!"):
            yield f"{pattern.removesuffix(MODULE)}/{PACKAGE}"


def watched_by(loop: FSMLoop) -> tuple[str, ...]:
    """Return the patterns of files whose changes are only reported, in addition to `protect`.

    `protect: [tests/]` does not mean that agents may rewrite the Makefile.
    """
    if loop.evidence.protect is None:
        return ()
    return tuple(dict.fromkeys(_patterns_of_checks(loop, WATCHED_FILES)))


def patterns_of_included(pattern: str, makefile: str) -> Iterator[str]:
    """Yield the patterns of the files that a makefile includes; `pattern` is its own.

    Make looks for them in the directory in which it runs, which is usually that of the makefile.
    """
    for where in dict.fromkeys((pattern[1:].rpartition("/")[0] or ".", ".")):
        for path in included_by(makefile):
            yield from (_pattern(*each) for each in _if_in_project(where, path, bare=True))


def _patterns_of_checks(loop: FSMLoop, read: ConfigFiles) -> Iterator[str]:
    """Yield the patterns of the files that the loop's checks name or read; `read` reads config
    files."""
    for state in loop.states.values():
        if state.check:
            yield from _patterns_of_check(loop, state, read)


def always_protected(file: str | None) -> tuple[str, ...]:
    """Return the patterns that are protected in every run: these files control later runs."""
    return (f"/{LOOPS}/*.yaml", f"/{LOOPS}/*.yml", *_loop_file_pattern(file))


def _loop_file_pattern(file: str | None) -> tuple[str, ...]:
    """Return the pattern of the loop's own file, unless it is outside the project or already
    covered."""
    if file is None or file.startswith(("/", "../")):
        return ()
    is_listed = file.rpartition("/")[0] == LOOPS and file.endswith(".yaml")
    return () if is_listed else (_pattern(file),)


def _patterns_of_check(loop: FSMLoop, state: StateConfig, read: ConfigFiles) -> Iterator[str]:
    """Yield the patterns of the files that a check's command line names, or that its tools read."""
    action = _action(loop, state)
    if not isinstance(action, Shell):
        return
    pieces = spliced(state.action or "", author_context(loop.context, state))
    script = "".join(piece if isinstance(piece, str) else HOLE for piece in pieces)
    where: str | None = normalise(state.cwd or loop.cwd or ".")
    for command in commands_in(script, state.shell or loop.shell):
        if command and command[0].text == "cd":
            where = _directory_after_cd(where, command)
        elif where is not None:
            yield from (_pattern(path, bare) for path, bare in _paths(command, where, read))


def _action(loop: FSMLoop, state: StateConfig) -> Action | None:
    """Return the action of a state, or None if it has none, or one that is only known at run
    time."""
    if state.action is None:
        return None
    try:
        return action_of(state, author_context(loop.context, state))
    except (TemplateError, Unresolved):
        return None


def _directory_after_cd(where: str | None, command: Command) -> str | None:
    """Return the directory after a `cd`, or None if it is unknown."""
    if where is None or len(command) != 2 or not is_known(command[1]):
        return None
    return _join_in_project(where, command[1].text)


def _join_in_project(where: str, path: str) -> str | None:
    """Return a path relative to the project, or None if it is outside."""
    if path.startswith(("/", "~", "-")):
        return None
    joined = normalise(f"{where}/{path}")
    return None if joined.split("/")[0] == ".." else joined


def _paths(command: Command, where: str, read: ConfigFiles) -> Iterator[tuple[str, bool]]:
    """Yield the paths that a command names or reads, relative to the project, and whether `*` is a
    pattern."""
    roles = findings(command)
    first = next((at for at, finding in roles.items() if finding.role == "command"), None)
    if first is None or not is_known(command[first]):
        return
    first, name = _program(command, first)
    for path in _config_files(command, first, read.get(name, ())):
        yield from _if_in_project(where, path, bare=False)
    if "/" in command[first].text:
        yield from _if_in_project(where, command[first].text, command[first].bare)
    for at, word in enumerate(command[first + 1 :], first + 1):
        is_operand = is_known(word) and not word.text.startswith("-")
        is_run = _is_run(roles.get(at)) or (at == first + 1 and name in _RUNS_FILES)
        if is_operand and (is_run or _is_test(word.text, name)):
            yield from _if_in_project(where, word.text.partition("::")[0], word.bare)


def _program(command: Command, at: int) -> tuple[int, str]:
    """Return the position and name of the program, skipping `uv run` and `python -m`."""
    name = command[at].text.rpartition("/")[2]
    following = [word.text for word in command[at + 1 : at + 3]]
    if following[:1] == [_RUN_THE_REST.get(name)] and len(following) == 2:
        return _program(command, at + 2)
    if name.startswith("python") and following[:1] == ["-m"] and len(following) == 2:
        return at + 2, following[1]
    return at, name


def _config_files(command: Command, first: int, usual: Sequence[str]) -> Iterator[str]:
    """Yield the config files that a program reads: those that `-f` or `-c` names, else the `usual`
    ones, in the directory of `-C` or `--prefix`."""
    texts = [word.text for word in command[first + 1 :]]
    options = dict(pairwise(texts))
    directory = options.get("-C") or options.get("--prefix") or "."
    given = options.get("-f") or options.get("-c") if usual else None
    for path in (given,) if given is not None else usual:
        yield f"{directory}/{path}"


def _is_run(finding: Finding | None) -> bool:
    """Return whether this is the script of an interpreter, or a sourced file."""
    if finding is None:
        return False
    return finding.role in ("script", "file") or (finding.role, finding.of) == ("program", "source")


def _is_test(text: str, program: str) -> bool:
    """Return whether an operand has a test directory in its path."""
    if "/" not in text and program in _TAKES_NAMES:
        return False
    return not TEST_NAMES.isdisjoint(text.partition("::")[0].split("/"))


def _if_in_project(where: str, path: str, bare: bool) -> Iterator[tuple[str, bool]]:
    if (joined := _join_in_project(where, path)) not in (None, "."):
        yield str(joined), bare


def _pattern(path: str, bare: bool = False) -> str:
    """Return a pattern for exactly this path; in a `bare` word, wildcards stay wildcards."""
    special = "\\[" if bare else "\\[*?"
    escaped = "".join(f"\\{char}" if char in special else char for char in path)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"
