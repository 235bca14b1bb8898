"""The evidence settings that `init` writes: protected tests, and a clean copy that works."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from little_loops.cli.setup.detect import DetectedCheck
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.terminal.console import talk
from little_loops.trees.repository_files import repository_of

if TYPE_CHECKING:
    from little_loops.engine.clean_proof import CleanProof

TEST_FOLDERS = ("tests", "test", "testing", "spec", "__tests__", "e2e")
ALSO_TESTS = ("conftest.py",)
BESIDE_CODE = (
    *("*_test.go", "test_*.py", "*_test.py"),
    *("*.test.js", "*.test.jsx", "*.test.ts", "*.test.tsx"),
    *("*.spec.js", "*.spec.jsx", "*.spec.ts", "*.spec.tsx"),
)
"""Names of tests that are beside the code they test."""
CONFIGURATION = (
    *(
        "ruff.toml",
        ".ruff.toml",
        ".flake8",
        ".pylintrc",
        "mypy.ini",
        ".mypy.ini",
        "pyrightconfig.json",
    ),
    *("setup.cfg", "tox.ini", "tsconfig.json", "biome.json", "clippy.toml", ".golangci.yml"),
    *(
        "eslint.config.js",
        "eslint.config.mjs",
        "eslint.config.ts",
        ".eslintrc.json",
        ".eslintrc.js",
    ),
)
"""Files that configure what linters and type checkers report."""
NOT_OURS = (
    "node_modules",
    "vendor",
    "third_party",
    "target",
    "build",
    "dist",
    "venv",
    "site-packages",
)
MOST_FOLDERS = 500
PLAIN = re.compile(r"[\w./-]+")
NO_RULE = """\
Find the cause and fix the code. Change a test only if the test itself is wrong, and explain why.
Never delete or skip a test to make the suite pass. The tests will be run again when you finish."""
RULE = """\
Find the cause and fix the code. Changes in {} will be reverted.
If a test itself is wrong, explain why. The tests will be run again when you finish."""


class Written(NamedTuple):
    """The evidence lines of a loop file, and the matching instruction for the agent."""

    protect: tuple[str, ...] = ()
    clean: bool = False
    cannot_run: str | None = None

    @property
    def lines(self) -> str:
        """The `evidence:` section of the loop file; empty if there is nothing to write."""
        found = []
        if self.protect:
            listed = ", ".join(map(_yaml, self.protect))
            found.append(f"  protect: [{listed}]   # changes by agents are reverted")
        if self.clean:
            found.append("  clean: true   # a pass counts only if a clean copy confirms it")
        return "\n".join(["evidence:", *found]) if found else ""

    @property
    def rule(self) -> str:
        return RULE.format(" and ".join(self.protect)) if self.protect else NO_RULE


NOTHING = Written()


def evidence_for(
    check: DetectedCheck, root: str, protect: Sequence[str], *, quiet: bool
) -> Written:
    """Try the check, print the result, and return the evidence settings for a loop that uses it.

    Outside of git, they are empty.
    """
    proof = try_in_copy(check, root, protect, quiet=quiet)
    if repository_of(root) is None:
        return Written(cannot_run=proof.cannot_run)
    if not quiet and proof.why_not is None:
        talk("Wrote `clean: true`: a pass counts only if a clean copy confirms it")
    elif not quiet and not proof.cannot_run:
        talk(f"Left out `clean: true`: {proof.why_not}")
    return Written(tuple(protect), proof.why_not is None, proof.cannot_run)


def try_in_copy(
    check: DetectedCheck, root: str, protect: Sequence[str], *, quiet: bool, shell: str = "sh"
) -> CleanProof:
    """Try whether a clean copy can confirm a pass of the check; Ctrl-C skips the trial."""
    from little_loops.engine import clean_proof  # runs the check
    from little_loops.system.stops import StopFlag, listen

    if not quiet:
        command = visible(check.command, newlines=False)
        where = "" if repository_of(root) is None else " here and in a clean copy"
        talk(f"Trying `{command}`{where} (Ctrl-C skips this)")
    tried = clean_proof.CheckScript(check.script, check.fails, shell)
    progress = clean_proof.NoProgress() if quiet else Steps()
    stop = StopFlag()
    restore = listen(stop)
    try:
        proof = clean_proof.prove_clean(root, tried, os.environ, protect, stop, progress)
    finally:
        restore()
        stop.close()
    if isinstance(progress, Steps) and progress.outcomes[:1] == ["passes"]:
        talk("It passes now, so there is nothing to fix yet")
    return proof


class Steps:
    """Prints each trial when it begins, because tests may take a while."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def begin(self, step: str) -> None:
        sys.stderr.write(f"  {step}: ")
        sys.stderr.flush()

    def end(self, outcome: str) -> None:
        self.outcomes.append(outcome)
        talk(outcome)


def protected(root: str) -> tuple[str, ...]:
    """Return patterns for the project's tests: their directories, or else names; () if none."""
    folders = [f"{name}/" for name in TEST_FOLDERS if os.path.isdir(os.path.join(root, name))]
    files = [name for name in ALSO_TESTS if os.path.isfile(os.path.join(root, name))]
    if folders:
        return (*folders, *files)
    names = set(_file_names(root))
    beside = [p for p in BESIDE_CODE if any(fnmatch(name, p) for name in names)]
    return (*beside, *files) if beside else ()


def configuration(root: str) -> tuple[str, ...]:
    """Return the config files of linters and type checkers, in which an agent could silence them."""
    found = [name for name in CONFIGURATION if os.path.isfile(os.path.join(root, name))]
    return tuple(found)


def _file_names(root: str) -> Iterator[str]:
    """Yield the names of the project's files, without their directories.

    Hidden directories and `NOT_OURS` are skipped; it stops after `MOST_FOLDERS`.
    """
    for count, (_, folders, files) in enumerate(os.walk(root)):
        if count == MOST_FOLDERS:
            return
        folders[:] = [name for name in folders if name[0] != "." and name not in NOT_OURS]
        yield from files


def _yaml(pattern: str) -> str:
    return pattern if PLAIN.fullmatch(pattern) else json.dumps(pattern)
