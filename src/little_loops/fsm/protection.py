"""What agents may not change in a run: what the loop says, or what its checks are made of.

Without `protect` the set is guessed from the command lines of the checks, so it is only reported:
the script or program file that runs, the file that tells a tool what to do, and operands that look
like tests.  Patterns are those of a `.gitignore`, seen from the project.

Not here: comparing and restoring paths (`trees`), what a change leads to (`machine`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from little_loops.fsm.actions import Action, Shell, action_of
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
TEST_NAMES = frozenset({"test", "tests", "spec", "__tests__", "e2e"})
_PACKAGE = ("package.json", ".npmrc")
REPORTED_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun"), _PACKAGE),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
}
"""The files that tell a tool what to do, in the directory it is run in."""
_RUNS_FILES = frozenset({"node", "ruby", "php", "deno", "bun", "tsx", "ts-node", "zsh", "ksh"})
"""Interpreters beside those the shell reader knows; their first operand is a file."""
_TAKES_NAMES = frozenset(
    {
        *REPORTED_BY,
        "cargo",
        "go",
        "just",
        "rake",
        "mvn",
        "gradle",
        "gradlew",
        "dotnet",
        "mix",
        "swift",
    }
)
"""Programs for which a bare `test` is a thing to do, not a directory."""
_RUN_THE_REST = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "pdm": "run"}


def protected_by(loop: FSMLoop, file: str | None = None) -> tuple[str, ...]:
    """The patterns of what is protected; `file` is the loop's own, seen from the project."""
    if loop.evidence.protect is not None:
        return loop.evidence.protect
    found = [*_own(file), f"/{LOOPS}/*.yaml", f"/{LOOPS}/tests/"]
    return tuple(dict.fromkeys([*found, *_checks_made_of(loop)]))


def watched_by(loop: FSMLoop) -> tuple[str, ...]:
    """The patterns of what is only reported, beside what the loop protects by name.

    Somebody who writes `protect: [tests/]` has not said that agents may rewrite the Makefile.
    """
    if loop.evidence.protect is None:
        return ()
    return tuple(dict.fromkeys(_checks_made_of(loop)))


def _checks_made_of(loop: FSMLoop) -> Iterator[str]:
    for state in loop.states.values():
        if state.check:
            yield from _named_by(loop, state)


def always_protected(file: str | None) -> tuple[str, ...]:
    """Patterns for every run: these files decide what the next one believes."""
    return (f"/{LOOPS}/*.yaml", f"/{LOOPS}/*.yml", *_own(file))


def _own(file: str | None) -> tuple[str, ...]:
    """The loop's own file, unless it is outside of the project, or among the others."""
    if file is None or file.startswith(("/", "../")):
        return ()
    is_listed = file.rpartition("/")[0] == LOOPS and file.endswith(".yaml")
    return () if is_listed else (_pattern(file),)


def _named_by(loop: FSMLoop, state: StateConfig) -> Iterator[str]:
    """The patterns of what a check's command line names."""
    action = _action(loop, state)
    if not isinstance(action, Shell):
        return
    pieces = spliced(state.action or "", author_context(loop.context, state))
    script = "".join(piece if isinstance(piece, str) else HOLE for piece in pieces)
    where: str | None = normalise(state.cwd or loop.cwd or ".")
    for command in commands_in(script, state.shell or loop.shell):
        if command and command[0].text == "cd":
            where = _moved(where, command)
        elif where is not None:
            yield from (_pattern(path, bare) for path, bare in _paths(command, where))


def _action(loop: FSMLoop, state: StateConfig) -> Action | None:
    """The action as a type; None where there is none, or none that can be told before it runs."""
    if state.action is None:
        return None
    try:
        return action_of(state, author_context(loop.context, state))
    except (TemplateError, Unresolved):
        return None


def _moved(where: str | None, command: Command) -> str | None:
    """The directory after a `cd`; None where that cannot be said."""
    if where is None or len(command) != 2 or not is_known(command[1]):
        return None
    return _joined(where, command[1].text)


def _joined(where: str, path: str) -> str | None:
    """A path seen from the project; None if it lies outside."""
    if path.startswith(("/", "~", "-")):
        return None
    joined = normalise(f"{where}/{path}")
    return None if joined.split("/")[0] == ".." else joined


def _paths(command: Command, where: str) -> Iterator[tuple[str, bool]]:
    """What a command names, seen from the project, and whether `*` in it is a pattern."""
    roles = findings(command)
    first = next((at for at, finding in roles.items() if finding.role == "command"), None)
    if first is None or not is_known(command[first]):
        return
    first, name = _program(command, first)
    for path in _told_by(command, first, name):
        yield from _inside(where, path, bare=False)
    if "/" in command[first].text:
        yield from _inside(where, command[first].text, command[first].bare)
    for at, word in enumerate(command[first + 1 :], first + 1):
        is_operand = is_known(word) and not word.text.startswith("-")
        is_run = _is_run(roles.get(at)) or (at == first + 1 and name in _RUNS_FILES)
        if is_operand and (is_run or _is_test(word.text, name)):
            yield from _inside(where, word.text.partition("::")[0], word.bare)


def _program(command: Command, at: int) -> tuple[int, str]:
    """Where the program stands and its name, behind `uv run` and `python -m`."""
    name = command[at].text.rpartition("/")[2]
    following = [word.text for word in command[at + 1 : at + 3]]
    if following[:1] == [_RUN_THE_REST.get(name)] and len(following) == 2:
        return _program(command, at + 2)
    if name.startswith("python") and following[:1] == ["-m"] and len(following) == 2:
        return at + 2, following[1]
    return at, name


def _told_by(command: Command, first: int, name: str) -> Iterator[str]:
    texts = [word.text for word in command[first + 1 :]]
    options = dict(pairwise(texts))
    directory = options.get("-C") or options.get("--prefix") or "."
    given = options.get("-f") or options.get("-c") if name in REPORTED_BY else None
    for path in (given,) if given is not None else REPORTED_BY.get(name, ()):
        yield f"{directory}/{path}"


def _is_run(finding: Finding | None) -> bool:
    """The operand of an interpreter, or a file that is sourced."""
    if finding is None:
        return False
    return finding.role in ("script", "file") or (finding.role, finding.of) == ("program", "source")


def _is_test(text: str, program: str) -> bool:
    """An operand with the name of a test directory in its path."""
    if "/" not in text and program in _TAKES_NAMES:
        return False
    return not TEST_NAMES.isdisjoint(text.partition("::")[0].split("/"))


def _inside(where: str, path: str, bare: bool) -> Iterator[tuple[str, bool]]:
    if (joined := _joined(where, path)) not in (None, "."):
        yield str(joined), bare


def _pattern(path: str, bare: bool = False) -> str:
    """A pattern for exactly this path; what is `bare` in a script is a pattern there, too."""
    special = "\\[" if bare else "\\[*?"
    escaped = "".join(f"\\{char}" if char in special else char for char in path)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"
