"""What `init` writes about evidence: tests that agents may not change, and a clean copy that works."""

from __future__ import annotations

import os

from little_loops.cli.setup.detect import Check
from little_loops.definitions.evidence_checks import repository_of
from little_loops.records import NamedTuple
from little_loops.terminal.console import talk

TEST_FOLDERS = ("tests", "test", "testing", "spec", "__tests__", "e2e")
ALSO_TESTS = ("conftest.py",)
NO_RULE = """\
Find the cause and fix the code. Change a test only if the test itself is wrong, and explain why.
Never delete or skip a test to make the suite pass. The tests will be run again when you finish."""
RULE = """\
Find the cause and fix the code. Changes in {} will be reverted.
If a test itself is wrong, explain why. The tests will be run again when you finish."""


class Written(NamedTuple):
    """The lines about evidence in a loop file, and what the agent is told of it."""

    protect: tuple[str, ...] = ()
    clean: bool = False

    @property
    def lines(self) -> str:
        found = []
        if self.protect:
            listed = ", ".join(self.protect)
            found.append(f"  protect: [{listed}]   # changes by agents are reverted")
        if self.clean:
            found.append("  clean: true   # a pass counts only if a clean copy confirms it")
        return "\n".join(["evidence:", *found]) if found else ""

    @property
    def rule(self) -> str:
        return RULE.format(" and ".join(self.protect)) if self.protect else NO_RULE


NOTHING = Written()


def evidence_for(check: Check | None, root: str, *, quiet: bool) -> Written:
    """For a loop that fixes tests; nothing outside of git."""
    if check is None or repository_of(root) is None:
        return NOTHING
    protect = protected(root)
    if not check.is_installed:
        return Written(protect)
    from little_loops.engine import clean_proof  # runs the check

    if not quiet:
        talk(f"Trying `{check.command}` here and in a clean copy of the project...")
    tried = clean_proof.Check(check.script, check.fails)
    proof = clean_proof.prove_clean(root, tried, os.environ, protect)
    if not quiet and proof.why_not is None:
        talk(f"The check noticed a syntax error in the copy's {proof.planted}: wrote `clean: true`")
    elif not quiet:
        talk(f"Left out `clean: true`: {proof.why_not}")
    return Written(protect, proof.why_not is None)


def protected(root: str) -> tuple[str, ...]:
    """The tests of a project, where they have a place of their own."""
    folders = [f"{name}/" for name in TEST_FOLDERS if os.path.isdir(os.path.join(root, name))]
    files = [name for name in ALSO_TESTS if os.path.isfile(os.path.join(root, name))]
    return (*folders, *files) if folders else ()
