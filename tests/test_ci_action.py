"""The GitHub Action played through: jobs in fresh clones of a bare repository, one after the other.

The jobs of a pull request share the directory that the action keeps in a cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.project import DEADLINE_S, Project
from tools.pages import ROOT

FIX = """\
    name: fix
    initial: check
    max_iterations: {iterations}
    evidence: true
    states:
      check:
        action: touch seen-by-check; test ! -e "$HOME/broken" && test "$(cat count)" = 3
        check: true
        on_pass: done
        on_fail: fix
      fix: {{action: 'echo $(($(cat count) + 1)) > count; echo made > new.txt', next: check}}
      done: {{terminal: true}}
    """


class Forge:
    """A bare repository with a pull request, and its jobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bare = root / "forge.git"
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare), cwd=root)
        self.author = Project(root / "author")
        author = self.author
        author.git("init", "--quiet", "--initial-branch=main")
        (author.home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
        author.git("remote", "add", "origin", str(self.bare))
        (author.root / "README").write_text("a project\n")
        author.git("add", ".")
        author.git("commit", "--quiet", "--message=Begin")
        author.git("push", "--quiet", "origin", "main")
        author.git("switch", "--quiet", "--create", "topic")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.bare,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        return done.stdout.strip()

    def propose(self, **files: str) -> None:
        """Push these files to the branch of the pull request."""
        for name, text in files.items():
            (self.author.root / name).write_text(text)
        self.author.git("add", ".")
        self.author.git("commit", "--quiet", "--message=Change")
        self.author.git("push", "--quiet", "origin", "topic")

    def job(
        self, number: int, *, fork: bool = False, checkout: str = "topic", **inputs: str
    ) -> tuple[Any, Project]:
        """Run the action in a fresh shallow clone, on a machine without any state."""
        at = Project(self.root / f"job{number}")
        (at.root / ".loops").rmdir()
        source = f"file://{self.bare}"
        at.git("clone", "--quiet", "--depth=1", f"--branch={checkout}", source, ".")
        bin_folder = at.root.parent / "bin"
        bin_folder.mkdir()
        (bin_folder / "ll-loop").write_text(f'#!/bin/sh\nexec {" ".join(at.argv())} "$@"\n')
        (bin_folder / "ll-loop").chmod(0o755)
        event = at.root.parent / "event.json"
        event.write_text(json.dumps({"pull_request": self.event(fork)}))
        summary = at.root.parent / "summary.md"
        own = {
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(at.root.parent),
            "STATE": str(self.root / "state"),
            "MODE": "repair",
            "LOOP": "fix",
        }
        environ = at.environ(**{**own, **inputs})
        done = subprocess.run(
            [sys.executable, str(Path(ROOT, "tools", "ci_action.py"))],
            cwd=at.root,
            env={**environ, "PATH": f"{bin_folder}{os.pathsep}{environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done, at

    def event(self, fork: bool) -> Mapping[str, Any]:
        repository = {"full_name": "ada/project"}
        return {
            "head": {
                "ref": "topic",
                "sha": self.git("rev-parse", "topic"),
                "repo": {"full_name": "eve/project"} if fork else repository,
            },
            "base": {"repo": repository},
        }


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


def proposed(forge: Forge, iterations: int = 10) -> None:
    """A pull request whose check fails: three is expected, zero is there."""
    loops = forge.author.root / ".loops"
    (loops / "fix.yaml").write_text(dedent(FIX.format(iterations=iterations)))
    forge.propose(count="0\n")


def run_of(at: Project) -> str:
    return str(at.events("fix")[0]["run"])


def test_a_second_job_continues_the_run_of_the_first_and_pushes(forge: Forge):
    proposed(forge, iterations=2)
    before = forge.git("rev-parse", "topic")

    first, there = forge.job(1, PUSH="true")

    assert first.returncode == 3, first.stdout + first.stderr
    assert "attempt 1 of 3\n" in first.stdout
    assert forge.git("rev-parse", "topic") == before  # the check fails, so nothing is pushed
    assert "## `fix`: " in (there.root.parent / "summary.md").read_text()
    assert (there.root.parent / "ll-loop-results" / "receipt.json").exists()

    second, here = forge.job(2, PUSH="true", ARGUMENTS="--max-iterations 9")

    assert second.returncode == 0, second.stdout + second.stderr
    assert "attempt 1 of 3\n" in second.stdout  # the same tree
    assert run_of(here) == run_of(there)
    assert any(event["event"] == "resume" for event in here.events("fix"))
    assert forge.git("log", "--format=%s by %an", f"{before}..topic") == (
        "Repair what the loop `fix` checks by ll-loop"
    )
    changed = forge.git("diff", "--name-only", before, "topic").splitlines()
    assert changed == ["count", "new.txt"]  # not what the check leaves behind
    assert forge.git("show", "topic:count") == "3"
    assert forge.git("log", "--format=%s", "main") == "Begin"

    temp = here.root.parent
    assert "## `fix`: completed" in (temp / "summary.md").read_text()
    assert "## `fix`: completed" in (temp / "ll-loop-results" / "report.md").read_text()
    receipt = json.loads((temp / "ll-loop-results" / "receipt.json").read_text())
    assert receipt["_type"].startswith("https://in-toto.io/")


def test_without_push_a_repair_is_only_reported(forge: Forge):
    proposed(forge)
    before = forge.git("rev-parse", "topic")
    done, at = forge.job(1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (at.root / "count").read_text() == "3\n"
    assert forge.git("rev-parse", "topic") == before


def test_each_tree_is_one_attempt_and_their_number_is_limited(forge: Forge):
    proposed(forge, iterations=1)
    for number, attempt in ((1, 1), (2, 1)):
        done, _ = forge.job(number, MAX_ATTEMPTS="2")
        assert (done.returncode, f"attempt {attempt} of 2" in done.stdout) == (3, True)
    forge.propose(other="more\n")
    done, _ = forge.job(3, MAX_ATTEMPTS="2")
    assert (done.returncode, "attempt 2 of 2" in done.stdout) == (3, True)
    forge.propose(other="and more\n")
    done, at = forge.job(4, MAX_ATTEMPTS="2")
    assert done.returncode == 3
    assert "::error::2 attempts have not repaired this pull request\n" in done.stdout
    assert not (at.root / ".loops" / ".history" / "fix").exists()


def test_a_repaired_pull_request_starts_a_new_run_when_it_breaks_again(forge: Forge):
    proposed(forge)
    _, first = forge.job(1, PUSH="true")
    forge.author.git("pull", "--quiet", "origin", "topic")
    forge.propose(count="1\n")
    done, second = forge.job(2, PUSH="true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_of(first) != run_of(second)
    assert forge.git("show", "topic:count") == "3"


def test_a_check_that_passes_needs_no_repair(forge: Forge):
    proposed(forge)
    forge.propose(count="3\n")
    done, at = forge.job(1, PUSH="true")
    assert done.returncode == 0
    assert "attempt" not in done.stdout
    assert not (at.root / ".loops" / ".history").exists()


def test_a_fork_is_only_validated(forge: Forge):
    proposed(forge)
    before = forge.git("rev-parse", "topic")
    done, at = forge.job(1, fork=True, PUSH="true")
    assert done.returncode == 0
    assert "::notice::a pull request from a fork is only validated\n" in done.stdout
    assert (at.root / "count").read_text() == "0\n"
    assert not (at.root / "seen-by-check").exists()
    assert forge.git("rev-parse", "topic") == before


def test_the_loops_of_a_fork_are_validated(forge: Forge):
    proposed(forge)
    (forge.author.root / ".loops" / "fix.yaml").write_text("check: make test\nfixes: make\n")
    forge.propose()
    done, at = forge.job(1, fork=True, PUSH="true")
    assert done.returncode == 2
    assert done.stdout.startswith("::error file=.loops/fix.yaml,")
    assert not (at.root / "seen-by-check").exists()


def test_a_loop_that_was_changed_in_between_is_the_one_that_repairs(forge: Forge):
    """The run began with another definition; the one in the pull request is what was reviewed."""
    proposed(forge, iterations=1)
    first, _ = forge.job(1)
    assert first.returncode == 3
    proposed(forge, iterations=8)
    done, at = forge.job(2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (at.root / "count").read_text() == "3\n"


def test_a_branch_that_has_moved_is_not_overwritten(forge: Forge):
    proposed(forge)
    loops = forge.author.root / ".loops"
    moved = f"git -C {forge.author.root} commit --quiet --allow-empty -m Moved"
    pushed = f"git -C {forge.author.root} push --quiet origin topic"
    home = f"HOME={forge.author.home}"
    text = (loops / "fix.yaml").read_text()
    (loops / "fix.yaml").write_text(
        text.replace("echo made > new.txt", f"echo made > new.txt; {home} {moved}; {home} {pushed}")
    )
    forge.propose(other="x\n")
    done, _ = forge.job(1, PUSH="true")
    assert done.returncode == 2
    assert "::error::the repair was not pushed to `topic`; the artifact has its report\n" in (
        done.stdout
    )
    assert forge.git("log", "-1", "--format=%s", "topic") == "Moved"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"MODE": "mend"}, "unknown mode `mend`; write one of validate, run, repair, verify"),
        ({"LOOP": ""}, "the mode `repair` needs the input `loop`"),
        ({"MAX_ATTEMPTS": "many"}, "`max-attempts` must be a number, not `many`"),
        ({"GITHUB_EVENT_PATH": "/no/such"}, "the mode `repair` works in jobs for a pull request"),
    ],
)
def test_inputs_that_make_no_sense(forge: Forge, inputs, message):
    proposed(forge)
    done, _ = forge.job(1, **inputs)
    assert done.returncode == 2
    assert f"::error::{message}" in done.stdout


def test_another_commit_than_the_head_is_refused(forge: Forge):
    proposed(forge)
    loop = dedent(FIX.format(iterations=1))
    author = forge.author
    author.git("switch", "--quiet", "main")
    (author.root / ".loops").mkdir(exist_ok=True)
    (author.root / ".loops" / "fix.yaml").write_text(loop)
    author.git("add", ".")
    author.git("commit", "--quiet", "--message=Loop")
    author.git("push", "--quiet", "origin", "main")
    done, _ = forge.job(1, checkout="main")
    assert done.returncode == 2
    assert "::error::the head of the pull request is not checked out" in done.stdout


AGAIN = "1 check passed again, in a clean copy"


@pytest.mark.parametrize(
    ("count", "broken", "code", "told"),
    [
        pytest.param("3\n", False, 0, AGAIN, id="same files"),
        pytest.param("2\n", False, 3, "different: count", id="other files"),
        pytest.param(
            "3\n",
            True,
            1,
            "`check` does not pass in a clean copy: exit 1",
            id="same files, but the check fails now",
        ),
    ],
)
def test_a_receipt_is_verified_and_its_checks_run_again(forge: Forge, count, broken, code, told):
    """The last case has the same files: only a check that is run again can tell."""
    proposed(forge)
    done, at = forge.job(1)
    assert done.returncode == 0
    receipt = at.root.parent / "ll-loop-results" / "receipt.json"
    (at.root / "count").write_text(count)
    if broken:
        (at.home / "broken").touch()
    path = f"{at.root.parent / 'bin'}{os.pathsep}{at.environ()['PATH']}"
    verified = subprocess.run(
        [sys.executable, str(Path(ROOT, "tools", "ci_action.py"))],
        cwd=at.root,
        env=at.environ(MODE="verify", RECEIPT=str(receipt), PATH=path),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert verified.returncode == code, verified.stdout + verified.stderr
    assert told in verified.stdout
