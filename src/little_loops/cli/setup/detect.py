"""Look at a project: what it is written in, and the commands that check it.

Only names and the texts of a few well-known files are read; the only program that is run is the
project's Python, to find out which modules it has.  Every check that comes out of here has three
results, by its exit code: it passes, there is something to fix, or it could not run.  Naive checks
miss the third one: a missing tool prints no errors either.  `FATAL_ERROR:` reports it to the engine.

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
"""Whether a Python, given by its path, has a module."""

AGENTS = tuple(name for name in HOST_NAMES if name != "command")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
LARGEST = 1 << 20
SHOW = "printf '%s\\n' \"$out\""  # some shells' `echo` reads escapes


class Check(NamedTuple):
    """A check: the command people type, the script of the action, the meaning of its exit codes.

    `fails` are the exit codes that mean there is something to fix.  A check that `counts` prints a
    number as its last line instead.  `needs` is the program it starts, as called in the project's
    directory, `module` what that program, a Python, must be able to import.
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
        """What has to be installed for it."""
        return self.module or self.needs


class Checks(NamedTuple):
    tests: Check | None = None
    lint: Check | None = None
    types: Check | None = None

    def or_else(self, others: Checks) -> Checks:
        """These, and the others where there are none."""
        return Checks(*(mine or theirs for mine, theirs in zip(self, others, strict=True)))


class Language(NamedTuple):
    """What a project is written in, and which file says so."""

    name: str
    seen_by: str
    checks: Checks = Checks()


class Found(NamedTuple):
    languages: tuple[Language, ...]
    checks: Checks
    has_git: bool
    agents: tuple[str, ...]


def read_environment(root: str, which: Which, has_module: HasModule) -> Found:
    # Each knows the format of its own files.
    from little_loops.cli.setup.detect_compiled import go, rust
    from little_loops.cli.setup.detect_js import javascript
    from little_loops.cli.setup.detect_python import python

    seen = (python(root, which), javascript(root), rust(root), go(root), make(root))
    languages = tuple(language for language in seen if language is not None)
    checks = Checks()
    for language in languages:
        checks = checks.or_else(language.checks)
    checks = Checks(*(_looked_for(check, root, which, has_module) for check in checks))
    agents = tuple(name for name in AGENTS if which(name) is not None)
    return Found(languages, checks, os.path.lexists(os.path.join(root, ".git")), agents)


def _looked_for(
    check: Check | None, root: str, which: Which, has_module: HasModule
) -> Check | None:
    """The check, with whether its program is installed."""
    if check is None or not check.needs:
        return check
    inside = os.path.join(root, check.needs)
    program = inside if "/" in check.needs and os.path.exists(inside) else which(check.needs)
    there = program is not None and (not check.module or has_module(program, check.module))
    return check._replace(is_installed=there)


def make(root: str) -> Language | None:
    """A project with targets in a makefile."""
    for name in MAKEFILES:
        text = read(root, name)
        if text:
            heads = re.findall(r"^([^\s:=#][^:=\n]*):(?!=)", text, re.MULTILINE)
            targets = {word for head in heads for word in head.split()}
            tests, lint = (_target(word) if word in targets else None for word in ("test", "lint"))
            return Language("make", name, Checks(tests, lint))
    return None


def _target(word: str) -> Check:
    # `make` exits with 2 whatever went wrong, so the two cases that are no answer are looked for.
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
    return Check(f"make {word}", f"make {word}", script, (2,), needs="make")


def need(probe: str, otherwise: str) -> str:
    """A line that ends a check which cannot run, with the reason."""
    return f"{probe} || {{ echo 'FATAL_ERROR: {otherwise}'; exit 127; }}"


def count(command: str, tool: str, pattern: str, codes: str) -> str:
    """A script that prints the output of a type checker, and then the number of errors in it."""
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
    """The text of a file of the project; nothing if it is not there, or no text."""
    try:
        return read_plain(os.path.join(root, *names), LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def names_in(root: str, *below: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, *below)))
    except OSError:
        return []
