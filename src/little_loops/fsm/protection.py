"""What agents may not change in a run: what the loop says, or what its checks depend on.

Without `protect`, the set is guessed from the command lines of the checks, so changes are only
reported: the script or program that runs, a tool's configuration file, and operands that look like
tests. Patterns are gitignore patterns, relative to the project.

Not here: comparing and restoring paths (`trees`), the effect of a change (`machine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from little_loops.fsm.actions import Action, action_of, is_shells
from little_loops.fsm.makefiles import SEARCHED, included_by, is_makefile, recipes_of
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.scope import normalise
from little_loops.fsm.tool_files import (
    PACKAGE_JSON,
    PROTECTED_CONFIG,
    RUN_TOOLS,
    WATCHED_FILES,
    ConfigFiles,
    scripts_of_package,
)
from little_loops.fsm.values import author_context
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved
from little_loops.templates.shell.commands import Command, commands_in, is_known
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.rules import findings
from little_loops.templates.shell.words import ArgumentRole
from little_loops.templates.splice import spliced

LOOPS = ".loops"
MODULE, PACKAGE = ".py", "__init__.py"
BESIDE = (MODULE, ".js", ".mjs", ".cjs", ".ts")
"""Suffixes of files that Python or Node.js would load instead of the directory of that name."""
DATA_BESIDE = ".json"
"""`node test` also loads `test.json` and does nothing; for other names, such files are mostly data."""
TEST_NAMES = frozenset({"test", "tests", "spec", "__tests__", "e2e"})
_MAKE = frozenset({"make", "gmake"})
_RUNS_FILES = frozenset({"node", "ruby", "php", "deno", "bun", "tsx", "ts-node", "zsh", "ksh"})
"""Interpreters that the shell reader does not know; their first operand is a file."""
_TAKES_NAMES = frozenset(
    {
        *_MAKE,
        *RUN_TOOLS,
        "tox",
        "nox",
        "cargo",
        "just",
        "rake",
        "go",
        "mvn",
        "gradle",
        "gradlew",
        "dotnet",
        "mix",
        "swift",
    }
)
"""Programs for which the word `test` is a subcommand, not a directory."""
_RUN_THE_REST = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "pdm": "run"}


def protected_by(loop: FSMLoop, file: str | None = None) -> tuple[str, ...]:
    """Return the patterns of protected files: as set, else the loop files and the files that its
    checks name or read. `file` is the loop's own file, relative to the project."""
    if loop.evidence.protect is not None:
        return (*loop.evidence.protect, *_imported_instead_of(loop.evidence.protect))
    found = [*_loop_file_pattern(file), f"/{LOOPS}/*.yaml", f"/{LOOPS}/tests/"]
    return tuple(dict.fromkeys([*found, *_patterns_of_checks(loop, PROTECTED_CONFIG)]))


def _imported_instead_of(patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield what Python or Node.js would import instead of protected modules and directories.

    Of `test_a.py` and `test_a/__init__.py`, Python takes the second; of `tests.py` and a directory
    `tests` without an `__init__.py`, the first. Of `test.js` and `test/index.js`, Node.js takes the
    first.
    """
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        if pattern.endswith(MODULE):
            yield f"{pattern.removesuffix(MODULE)}/{PACKAGE}"
        elif pattern.endswith("/"):
            path = pattern.removesuffix("/")
            yield from (f"{path}{suffix}" for suffix in BESIDE)
            if path.rpartition("/")[2] in TEST_NAMES:
                yield f"{path}{DATA_BESIDE}"


def watched_by(loop: FSMLoop) -> tuple[str, ...]:
    """Return the patterns of files whose changes are only reported, in addition to `protect`.

    `protect: [tests/]` does not mean that agents may rewrite the Makefile.
    """
    if loop.evidence.protect is None:
        return ()
    return unless_exempt(loop, _patterns_of_checks(loop, WATCHED_FILES))


def unless_exempt(loop: FSMLoop, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns without those that `protect` exempts by their exact path: `!/lib.sh`.

    A check may source the code under test. An exempt directory exempts nothing here: a new
    `conftest.py` in it still changes what the check does.
    """
    protect = loop.evidence.protect or ()
    return tuple(dict.fromkeys(each for each in patterns if f"!{each}" not in protect))


class MakeCall(NamedTuple):
    """How a check calls `make`: the makefiles that it may read, of which it takes the first that
    exists, and the targets that it names. The directory is relative to the project."""

    directory: str
    makefiles: tuple[str, ...]
    goals: tuple[str, ...]

    def path_of(self, target: str) -> str | None:
        """Return the path of a target; None if it is outside the project."""
        return _join_in_project(self.directory, target)


def make_calls(loop: FSMLoop) -> tuple[MakeCall, ...]:
    """Return how the checks call `make`.

    Unless a makefile says that a target is no file, a new file of its name makes a check do nothing.
    """
    found: dict[MakeCall, None] = {}
    for where, command in _commands_of_checks(loop):
        program = _first_program(command)
        if program is not None and program[1] in _MAKE:
            words = command[program[0] + 1 :]
            options = dict(pairwise(word.text for word in words))
            directory = _join_in_project(where, options.get("-C", ".")) or where
            files = (options["-f"],) if "-f" in options else SEARCHED
            found[MakeCall(directory, files, tuple(_goals(words)))] = None
    return tuple(found)


def _goals(words: Command) -> Iterator[str]:
    """Yield the targets among the operands of `make`."""
    takes_value = False
    for word in words:
        is_value, takes_value = takes_value, word.text in ("-C", "-f", "-j", "-l", "-I", "-o", "-W")
        is_target = is_known(word) and not word.text.startswith("-") and "=" not in word.text
        if is_target and not is_value:
            yield word.text


def patterns_of_included(pattern: str, makefile: str) -> Iterator[str]:
    """Yield the patterns of the files that a makefile includes; `pattern` is its own.

    Make looks for them in the directory in which it runs, which is usually that of the makefile.
    """
    for where in _places_of(pattern):
        for path in included_by(makefile):
            yield from (_pattern(*each) for each in _if_in_project(where, path, bare=True))


def patterns_of_used(pattern: str, text: str) -> Iterator[str]:
    """Yield the patterns of the files that a file of a check uses: a makefile, a shell script or a
    `package.json`, of which `text` is the content.

    Its commands are taken to run in the project or in the directory of the file.
    """
    if is_makefile(pattern):
        yield from patterns_of_included(pattern, text)
    for script in _scripts_in(pattern, text):
        for where in _places_of(pattern):
            for there, command in _located(commands_in(script), where):
                yield from _patterns_of_command(command, there, WATCHED_FILES)


def _places_of(pattern: str) -> Iterable[str]:
    """Return the directory of a file, and that of the project."""
    return dict.fromkeys((pattern[1:].rpartition("/")[0] or ".", "."))


def _scripts_in(pattern: str, text: str) -> Iterable[str]:
    """Return the shell scripts in a file that a check runs or reads."""
    if is_makefile(pattern):
        return recipes_of(text)
    if pattern.rpartition("/")[2] == PACKAGE_JSON:
        return scripts_of_package(text)
    first = text.partition("\n")[0]
    is_shell = pattern.endswith((".sh", ".bash")) or (
        first.startswith("#!") and first.endswith("sh")
    )
    return (text,) if is_shell else ()


def _patterns_of_checks(loop: FSMLoop, read: ConfigFiles) -> Iterator[str]:
    """Yield the patterns of the files that the loop's checks name or read; `read` reads config
    files."""
    for state in _checks(loop):
        yield from _patterns_of_check(loop, state, read)


def _checks(loop: FSMLoop) -> Iterator[StateConfig]:
    """Yield the states that are checks, and one for the command that prepares the clean copy."""
    yield from (state for state in loop.states.values() if state.check)
    if loop.evidence.setup is not None:
        yield StateConfig(loop.evidence.setup)


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
    for where, command in _commands_of(loop, state):
        yield from _patterns_of_command(command, where, read)


def _patterns_of_command(command: Command, where: str, read: ConfigFiles) -> Iterator[str]:
    yield from (_pattern(path, bare) for path, bare in _files_behind(command, where, read))


def _commands_of_checks(loop: FSMLoop) -> Iterator[tuple[str, Command]]:
    for state in _checks(loop):
        yield from _commands_of(loop, state)


def _commands_of(loop: FSMLoop, state: StateConfig) -> Iterator[tuple[str, Command]]:
    """Yield the commands of a shell action, each with the directory that it runs in."""
    action = _action(loop, state)
    if not is_shells(action):
        return
    pieces = spliced(state.action or "", author_context(loop.context, state))
    script = "".join(piece if isinstance(piece, str) else HOLE for piece in pieces)
    where = normalise(state.cwd or loop.cwd or ".")
    yield from _located(commands_in(script, state.shell or loop.shell), where)


def _located(commands: Iterable[Command], where: str | None) -> Iterator[tuple[str, Command]]:
    """Yield each command with the directory that it runs in, as long as that is known."""
    for command in commands:
        if command and command[0].text == "cd":
            where = _directory_after_cd(where, command)
        elif where is not None:
            yield where, command


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


def _files_behind(command: Command, where: str, read: ConfigFiles) -> Iterator[tuple[str, bool]]:
    """Yield the files that decide what a command does: its program if that has a path, its config
    files, the scripts that it runs and the tests that it names.

    Paths are relative to the project; the flag says whether `*` is a pattern in one.
    """
    roles = findings(command)
    program = _first_program(command)
    if program is None:
        return
    first, name = program
    usual = (*read.get(name, ()), *_files_of_tool(command[first:], name, read))
    for path in _config_files(command, first, usual):
        yield from _if_in_project(where, path, bare=path.removeprefix("./") in usual)
    if "/" in command[first].text:
        yield from _if_in_project(where, command[first].text, command[first].bare)
    for at, word in enumerate(command[first + 1 :], first + 1):
        is_operand = is_known(word) and not word.text.startswith("-")
        is_run = _is_run(roles.get(at)) or (at == first + 1 and name in _RUNS_FILES)
        if is_operand and (is_run or _is_test(word.text, name)):
            yield from _if_in_project(where, word.text.partition("::")[0], word.bare)


def _first_program(command: Command) -> tuple[int, str] | None:
    """Return the position and name of the program that a command runs; None if it is not known."""
    roles = findings(command)
    first = next((at for at, finding in roles.items() if finding.role == "command"), None)
    if first is None or not is_known(command[first]):
        return None
    return _program(command, first)


def _program(command: Command, at: int) -> tuple[int, str]:
    """Return the position and name of the program, skipping `uv run` and `python -m`."""
    name = command[at].text.rpartition("/")[2]
    following = [word.text for word in command[at + 1 : at + 3]]
    if following[:1] == [_RUN_THE_REST.get(name)] and len(following) == 2:
        return _program(command, at + 2)
    if name.startswith("python") and following[:1] == ["-m"] and len(following) == 2:
        return at + 2, following[1]
    return at, name


def _files_of_tool(words: Command, name: str, read: ConfigFiles) -> Sequence[str]:
    """Return the config files of the tool that `npx eslint` or `pnpm exec eslint` runs."""
    following = (word.text for word in words[1:3]) if name in RUN_TOOLS else ()
    return next((read[text] for text in following if text in read), ())


def _config_files(command: Command, first: int, usual: Sequence[str]) -> Iterator[str]:
    """Yield the config files that a program reads: those that `-f` or `-c` names, else the `usual`
    ones, in the directory of `-C` or `--prefix`."""
    texts = [word.text for word in command[first + 1 :]]
    options = dict(pairwise(texts))
    directory = options.get("-C") or options.get("--prefix") or "."
    given = options.get("-f") or options.get("-c") if usual else None
    for path in (given,) if given is not None else usual:
        yield f"{directory}/{path}"


def _is_run(finding: ArgumentRole | None) -> bool:
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
