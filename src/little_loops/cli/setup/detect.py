"""Examine a project: its languages, and the commands that check it.

Only file names and a few well-known files are read; the only program that is run is the project's
Python, to find out which modules it has. Every check from here has three results, by its exit code:
it passes, there is something to fix, or it could not run. Naive checks miss the third one: a
missing tool prints no errors either. `FATAL_ERROR:` reports it to the engine.

Not here: the loop that is written (`init`), each language's tools (`detect_python`, `detect_js`,
`detect_compiled`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from little_loops.fsm.schema import HOST_NAMES
from little_loops.records import NamedTuple
from little_loops.system.plain_files import read_plain

Which = Callable[[str], str | None]
HasModule = Callable[[str, str], bool]
"""Returns whether the Python at a path has a module."""

AGENTS = tuple(name for name in HOST_NAMES if name != "command")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
LARGEST = 1 << 20
SHOW = "printf '%s\\n' \"$out\""  # some shells' `echo` reads escapes


class DetectedCheck(NamedTuple):
    """A check: the command people type, the script of the action, the meaning of its exit codes.

    `fails` are the exit codes that mean there is something to fix. A check that `counts` prints a
    number as its last line instead. `needs` is the program it starts, as called in the project's
    directory; `module` is what that program, a Python, must be able to import.
    """

    tool: str
    command: str
    script: str
    fails: tuple[int, ...] = (1,)
    counts: bool = False
    needs: str = ""
    module: str = ""
    is_installed: bool = True

    @property
    def program(self) -> str:
        """The program or module that has to be installed for the check."""
        return self.module or self.needs


class Checks(NamedTuple):
    tests: DetectedCheck | None = None
    lint: DetectedCheck | None = None
    types: DetectedCheck | None = None

    def or_else(self, others: Checks) -> Checks:
        """Return these checks, with missing ones taken from the others."""
        return Checks(*(mine or theirs for mine, theirs in zip(self, others, strict=True)))


class Language(NamedTuple):
    """A language of the project, and the file that shows it."""

    name: str
    seen_by: str
    checks: Checks = Checks()


class DetectedProject(NamedTuple):
    languages: tuple[Language, ...]
    checks: Checks
    has_git: bool
    agents: tuple[str, ...]


def read_environment(root: str, which: Which, has_module: HasModule) -> DetectedProject:
    """Find the languages, checks and agents of a project."""
    # One module per language, because each has its own file formats.
    from little_loops.cli.setup.detect_compiled import go, rust
    from little_loops.cli.setup.detect_js import javascript
    from little_loops.cli.setup.detect_python import python

    seen = (python(root, which), javascript(root), rust(root), go(root), make(root))
    languages = tuple(language for language in seen if language is not None)
    checks = Checks()
    for language in languages:
        checks = checks.or_else(language.checks)
    checks = Checks(*(_with_installed(check, root, which, has_module) for check in checks))
    agents = tuple(name for name in AGENTS if which(name) is not None)
    return DetectedProject(languages, checks, os.path.lexists(os.path.join(root, ".git")), agents)


def _with_installed(
    check: DetectedCheck | None, root: str, which: Which, has_module: HasModule
) -> DetectedCheck | None:
    """Return the check with `is_installed` set."""
    if check is None or not check.needs:
        return check
    inside = os.path.join(root, check.needs)
    program = inside if "/" in check.needs and os.path.exists(inside) else which(check.needs)
    there = program is not None and (not check.module or has_module(program, check.module))
    return check._replace(is_installed=there)


def make(root: str) -> Language | None:
    """Return the makefile's checks, its targets `test` and `lint`; None without a makefile."""
    for name in MAKEFILES:
        text = read(root, name)
        if text:
            heads = re.findall(r"^([^\s:=#][^:=\n]*):(?!=)", text, re.MULTILINE)
            targets = {word for head in heads for word in head.split()}
            tests, lint = (_target(word) if word in targets else None for word in ("test", "lint"))
            return Language("make", name, Checks(tests, lint))
    return None


def _target(word: str) -> DetectedCheck:
    """Return the check that runs a make target."""
    # `make` exits with 2 for every failure, so a missing target or program is detected separately.
    script = "\n".join(
        [
            need(f"make -n {word} > /dev/null", f"make has no target {word}"),
            f"out=$(make {word} 2>&1); code=$?",
            SHOW,
            'case $out in *"Error 127"* | *"Error 126"*)',
            f"  echo 'FATAL_ERROR: a program that make {word} needs is missing' ;;",
            "esac",
            'exit "$code"',
        ]
    )
    return DetectedCheck(f"make {word}", f"make {word}", script, (2,), needs="make")


def need(probe: str, otherwise: str) -> str:
    """Return a script line that ends the check with a reason if the probe fails."""
    return f"{probe} || {{ echo 'FATAL_ERROR: {otherwise}'; exit 127; }}"


def count(command: str, tool: str, pattern: str, codes: str) -> str:
    """Return a script that prints a type checker's output, and then the number of errors in it.

    Errors are the lines that match `pattern`, and exit codes that match `codes` mean errors.
    Anything else, except success, is reported as `FATAL_ERROR:`.
    """
    return "\n".join(
        [
            f"out=$({command} 2>&1); code=$?",
            SHOW,
            f"errors=$({SHOW} | grep -c '{pattern}')",
            "case $code/$errors in",
            "  0/*) echo 0 ;;",
            f'  {codes}/[1-9]*) echo "$errors" ;;',
            f'  *) echo "FATAL_ERROR: {tool} could not check the types (exit $code)" ;;',
            "esac",
        ]
    )


def read(root: str, *names: str) -> str:
    """Return the text of a project file, at most 1 MiB; empty if it cannot be read."""
    try:
        return read_plain(os.path.join(root, *names), LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def names_in(root: str, *below: str) -> list[str]:
    """Return the sorted names in a directory of the project; [] if it cannot be read."""
    try:
        return sorted(os.listdir(os.path.join(root, *below)))
    except OSError:
        return []
