"""Projects that are installed with `pip install -e .`: what runs in a worktree or in a copy of one
imports the files there, whichever Python environment is used."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_worktrees import Repository, told
from tests.simulation.command import in_memory

BREAK = "echo 'raise RuntimeError(1)' > src/sample/__init__.py"
CHECK = 'python -c "import sample"'


class Installed(Repository):
    """A project that is installed in editable mode, in an environment inside it or outside."""

    def __init__(self, place: Path, where: str) -> None:
        super().__init__(place)
        self.write("src/sample/__init__.py", "")
        self.write(".gitignore", ".env\n.venv/\nlib/\n*.log\n__pycache__/\n")
        self.save("a package")
        self.environment = self.root / ".venv" if where == "inside" else place / "environment"
        venv.create(self.environment, with_pip=False, symlinks=True)
        self.python = self.environment / "bin/python"
        (self.site,) = self.environment.glob("lib/python3*/site-packages")
        (self.site / "_sample.pth").write_text(f"{self.root}/src\n")  # as pip does it

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of a shell in which the environment is activated."""
        found = super().environ(**more)
        if hasattr(self, "environment"):
            found["PATH"] = f"{self.environment}/bin{os.pathsep}{found['PATH']}"
            found["VIRTUAL_ENV"] = str(self.environment)
        return found

    def imports(self) -> str:
        """What happens on `import sample` in the project."""
        words = [str(self.python), "-c", "import sample"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stderr.rstrip("\n").rpartition("\n")[2] or "imported"


@pytest.fixture(params=["inside", "outside"])
def installed(request: Any) -> Iterator[Installed]:
    with in_memory() as place:
        made = Installed(place, request.param)
        yield made
        made.end_actions()


LOOP = """\
initial: work
{settings}
states:
  work: {{action: "{action}", next: check}}
  check: {{action: '{check}', check: true, on_pass: done, on_fail: bad}}
  done: {{terminal: true}}
  bad: {{terminal: true, outcome: failure}}
"""


def loop(settings: str = "", action: str = BREAK, check: str = CHECK) -> str:
    return LOOP.format(settings=settings, action=action, check=check)


SETTINGS = {
    "nothing": "",
    "a clean copy": "evidence: {clean: true}",
    "a link": "worktree: {link: [.venv]}",
    "a link and a clean copy": "worktree: {link: [.venv]}\nevidence: {clean: true}",
    "variables": "env: {PYTHONPATH: tools}",
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_check_in_a_worktree_imports_the_worktree(installed, settings):
    before = installed.git("rev-parse", "main")
    done = installed.run(loop(settings), "--worktree", "--merge")
    assert done.returncode == 1, told(done)
    assert "RuntimeError: 1" in done.stdout
    assert installed.git("rev-parse", "main") == before
    assert installed.imports() == "imported"


MERGED = """\
initial: work
states:
  work:
    for_each: [a, b]
    action: |
      if [ ${branch.item} = a ]; then echo 'raise RuntimeError(1)' > src/sample/__init__.py; fi
      touch ${branch.item}.txt
    worktree: {check: 'python -c "import sample"'}
    on_pass: done
    on_conflict: look
  look: {terminal: true, outcome: review}
  done: {terminal: true}
"""
RED = "`a` is not merged: `check` failed after the merge: exit 1: RuntimeError: 1"


def test_the_check_of_a_merge_imports_the_merged_files(installed):
    done = installed.run(MERGED)
    assert RED in done.stdout
    assert installed.imports() == "imported"
    assert [(installed.root / name).exists() for name in ("a.txt", "b.txt")] == [False, True]


def test_the_check_of_a_merge_into_a_worktree_imports_the_merged_files(installed):
    done = installed.run(MERGED, "--worktree")
    assert RED in done.stdout


FORKED = """\
initial: begin
states:
  begin: {action: 'true', check: true, on_pass: work, on_fail: bad}
  work:
    action: if [ -n "$FORKED" ]; then echo 'raise RuntimeError(1)' > src/sample/__init__.py; fi
    next: check
  check: {action: 'python -c "import sample"', check: true, on_pass: done, on_fail: bad}
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
evidence: true
"""


@pytest.mark.parametrize("words", [(), ("--no-links",)], ids=["with links", "without"])
def test_a_fork_imports_its_worktree(installed, words):
    installed.loop("w", FORKED)
    installed.save("a loop")
    first = installed.ll("run", "w")
    assert first.returncode == 0, told(first)
    done = installed.ll("fork", "w", "--at", "1", *words, env={"FORKED": "yes"})
    assert (done.returncode, "RuntimeError: 1" in done.stdout) == (1, True), told(done)
    assert installed.imports() == "imported"


# ── what cannot be redirected ──────────────────────────────────────────────────────────────────


@pytest.fixture
def mapped() -> Iterator[Installed]:
    """A project whose package has another name when it is installed."""
    with in_memory() as place:
        made = Installed(place, "outside")
        (made.site / "__editable___o_finder.py").write_text(
            f"M = {{'o': '{made.root}/src/sample'}}"
        )
        yield made
        made.end_actions()


def why(mapped: Installed) -> str:
    return f"`{mapped.site}/__editable___o_finder.py` makes Python import the project's own files"


HELP = "write `setup:` with the command that installs what the check needs"


def test_a_run_in_a_worktree_warns_once(mapped):
    done = mapped.run(loop(action="true"), "--worktree")
    assert done.stderr == f"warning: in the worktree, {why(mapped)}; {HELP}\n", told(done)
    done = mapped.run(loop("worktree: {setup: 'true'}", action="true"), "--worktree")
    assert done.stderr == "", told(done)


def test_a_merge_is_refused(mapped):
    done = mapped.run(MERGED)
    reason = f"`check` cannot judge the merge: {why(mapped)} ({HELP})"
    assert f"`b` is not merged: {reason}" in done.stdout, told(done)
    assert not (mapped.root / "b.txt").exists()


def test_a_clean_copy_is_refused(mapped):
    done = mapped.run(loop("evidence: {clean: true}", action="true"))
    assert f"cannot make a clean copy: {why(mapped)} (write `setup:`" in done.stdout, told(done)
