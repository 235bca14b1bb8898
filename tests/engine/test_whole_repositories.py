"""Whole runs with evidence in repositories as people have them, each with an honest agent and a cheat.

What a run promises is compared from outside: every line the user reads, every file that is left, the
user's `.git` byte by byte, and the receipt.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.project import Project
from tests.trees.projects import fingerprint

DEADLINE_S = 600
SETTINGS = ("user.name=a", "user.email=a@b.c", "protocol.file.allow=always", "gc.auto=0")
GIT = ("git", *(word for setting in SETTINGS for word in ("-c", setting)))
LOOP = """\
name: fix
paradigm: goal
goal: The check passes
tools:
  - {check}
  - {{action: Fix it, action_type: prompt}}
host: {{name: command, command: [../agent.sh, "{{prompt}}"]}}
evidence: {{protect: [tests/], clean: true}}
max_iterations: 5
"""
HONEST = """\
{warnings}[1/5] evaluate → running {check}...
       ✗ {failed} (exit 1) · tree ID
       → fix (on_fail)
[1/5] fix → running "Fix it"...
       ✓ finished
       → evaluate
[2/5] evaluate → running {check}...
       ✓{passed} (exit 0) · tree ID
       → done (on_pass)
       → evaluate again in a clean copy
[2/5] evaluate → running {check}...
       ✓{passed} (exit 0) · clean copy · tree ID
       → done (on_pass)

Loop completed: done (2 iterations, TIME)
Files changed: {code} (+1 -1)
Verified on tree ID; for a receipt: ll-loop receipt fix
"""
CAUGHT = """\
{warnings}[1/5] evaluate → running {check}...
       ✗ {failed} (exit 1) · tree ID
       → fix (on_fail)
[1/5] fix → running "Fix it"...
       ✓ finished
       ! {test} was changed by the agent: restored
       → evaluate
[2/5] evaluate → running {check}...
       ✗ {failed} (exit 1) · tree ID
       → fix (on_fail)
[2/5] fix → running "Fix it"...
       ✓ finished
       → evaluate
[3/5] evaluate → running {check}...
       ✓{passed} (exit 0) · tree ID
       → done (on_pass)
       → evaluate again in a clean copy
[3/5] evaluate → running {check}...
       ✓{passed} (exit 0) · clean copy · tree ID
       → done (on_pass)

Loop completed: done (3 iterations, TIME)
Files changed: {code} (+1 -1)
Verified on tree ID; for a receipt: ll-loop receipt fix
"""
VERIFIED = """\
✓ the receipt is intact
– unsigned
✓ the log of `fix` matches
✓ all {files} files match
✓ 1 check passed again, in a clean copy
verified
"""


class Repository(NamedTuple):
    """A project whose check fails until `code` is `right`; a cheat weakens `test`."""

    check: str
    code: str
    right: str
    test: str = "tests/check.py"
    failed: str = "AssertionError: the value is wrong"
    passed: str = ""
    warnings: str = ""
    files: int = 0
    large: str = ""  # what is said about a large receipt


# ── repositories ───────────────────────────────────────────────────────────────────────────────


def write(root: Path, files: Mapping[str, str], mode: int | None = None) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if mode is not None:
            path.chmod(mode)


def git(project: Project, *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [*GIT, *words],
        cwd=cwd or project.root,
        env=project.environ(),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def commit(project: Project, cwd: Path | None = None) -> None:
    git(project, "init", "-q", "-b", "main", cwd=cwd)
    git(project, "add", "-A", cwd=cwd)
    git(project, "commit", "-q", "-m", "start", cwd=cwd)


VALUE = {
    "src/value": "wrong\n",
    "tests/check.py": 'assert open("src/value").read() == "right\\n", "the value is wrong"\n',
}
CHECK = "python3 -B tests/check.py"
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
LEFT_OUT = "warning: `{}` is not part of the snapshot: a separate git repository\n"


def with_submodules(project: Project) -> Repository:
    """A submodule that the check needs, LFS pointers without LFS, somebody's clone inside."""
    library = project.root.parent / "library"
    write(library, {"library.py": "RIGHT = 'right\\n'\n"})
    commit(project, library)
    test = """\
        import sys
        sys.path.insert(0, "vendor/library")
        import library
        assert open("src/value").read() == library.RIGHT, "the value is wrong"
        """
    write(
        project.root,
        {
            **VALUE,
            "tests/check.py": dedent(test),
            ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "data/model.bin": POINTER,
        },
    )
    git(project, "init", "-q", "-b", "main")
    git(project, "submodule", "add", "-q", str(library), "vendor/library")
    commit(project)
    write(project.root / "other", {"notes.txt": "somebody else's\n"})
    commit(project, project.root / "other")
    warnings = LEFT_OUT.format("other") + LEFT_OUT.format("vendor/library")
    return Repository(CHECK, "src/value", "right\n", warnings=warnings, files=7)


def with_tests_in_a_submodule(project: Project) -> Repository:
    suite = project.root.parent / "suite"
    write(suite, {"check.py": VALUE["tests/check.py"]})
    commit(project, suite)
    write(project.root, {"src/value": "wrong\n"})
    git(project, "init", "-q", "-b", "main")
    git(project, "submodule", "add", "-q", str(suite), "tests")
    commit(project)
    return Repository(CHECK, "src/value", "right\n", warnings=LEFT_OUT.format("tests"), files=4)


def with_a_large_file(project: Project) -> Repository:
    """200 MB, tracked."""
    found = with_submodules(project)
    with open(project.root / "data/video.mp4", "wb") as file:
        file.truncate(200 << 20)
    git(project, "add", "data")
    git(project, "commit", "-q", "-m", "video")
    large = "warning: too large to store, so it cannot be restored: data/video.mp4\n"
    return found._replace(warnings=found.warnings + large, files=found.files + 1)


def with_30_000_files(project: Project) -> Repository:
    write(project.root, VALUE)
    for number in range(30_000):
        folder = project.root / f"d{number // 1000}" / f"e{number // 20 % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"value = {number}\n" * 20)
    commit(project)
    large = (
        "note: it lists 30,004 files, 1,000 of them in `d0`; list in .gitignore what you do"
        " not deliver\n"
    )
    return Repository(CHECK, "src/value", "right\n", files=30_004, large=large)


LEAP = """\
def is_leap(year):
    return {rule}


def main():
    raise SystemExit(is_leap(1900))
"""
WRONG = LEAP.format(rule="year % 4 == 0")
RIGHT = LEAP.format(rule="year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)")
TEST_LEAP = """\
import os
import subprocess
import unittest

import leap


class Leap(unittest.TestCase):
    def test_no_century(self):
        self.assertFalse(leap.is_leap(1900))

    def test_the_command(self):
        self.assertEqual(subprocess.call([".venv/bin/leap"]), 0)

    def test_the_package_is_the_one_of_this_project(self):
        self.assertEqual(os.path.realpath(leap.__file__), os.path.realpath("src/leap/__init__.py"))
"""


def with_an_editable_install(project: Project) -> Repository:
    """As `pip install -e .` leaves it."""
    files = {
        "src/leap/__init__.py": WRONG,
        "tests/__init__.py": "",
        "tests/test_leap.py": TEST_LEAP,
    }
    write(project.root, {**files, ".gitignore": ".venv/\n__pycache__/\n"})
    commit(project)
    venv.create(project.root / ".venv", symlinks=True)
    (site,) = (project.root / ".venv/lib").glob("python*/site-packages")
    root = str(project.root)
    write(
        site,
        {
            "__editable__.leap-1.0.pth": f"{root}/src\n",
            "leap-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: leap\nVersion: 1.0\n",
            "leap-1.0.dist-info/direct_url.json": f'{{"url": "file://{root}"}}',
        },
    )
    script = f"#!{root}/.venv/bin/python -B\nfrom leap import main\nmain()\n"
    write(project.root, {".venv/bin/leap": script}, 0o755)
    return Repository(
        ".venv/bin/python -B -m unittest -q",
        "src/leap/__init__.py",
        RIGHT,
        "tests/test_leap.py",
        "FAILED (failures=2)",
        " OK",
        files=6,
    )


LEAP_JS = "exports.isLeap = (year) => {rule};\n"
PACKAGES = {
    "package.json": '{"name": "root", "private": true, "workspaces": ["packages/*"]}\n',
    "packages/leap/package.json": '{"name": "@own/leap", "bin": {"leap": "cli.js"}}\n',
    "packages/leap/index.js": LEAP_JS.format(rule="year % 4 === 0"),
    "packages/days/package.json": '{"name": "@own/days", "dependencies": {"@own/leap": "*"}}\n',
    "packages/days/index.js": dedent("""\
        const { isLeap } = require('@own/leap');
        exports.days = (year) => (isLeap(year) ? 366 : 365);
        """),
    "tests/days.test.js": dedent("""\
        const test = require('node:test');
        const assert = require('node:assert');
        const { realpathSync } = require('node:fs');
        const { spawnSync } = require('node:child_process');
        const { days } = require('@own/days');
        test('no century', () => assert.strictEqual(days(1900), 365));
        test('the command', () => {
          assert.strictEqual(spawnSync('node_modules/.bin/leap', ['1900']).status, 1);
        });
        test('the packages are those of this project', () => {
          assert.strictEqual(require.resolve('@own/leap'), realpathSync('packages/leap/index.js'));
        });
        """),
    ".gitignore": "node_modules/\n",
}
CLI_JS = dedent("""\
    #!/usr/bin/env node
    process.exit(require('./index.js').isLeap(Number(process.argv[2])) ? 0 : 1);
    """)


def with_workspaces(project: Project) -> Repository:
    """As `npm install` leaves them."""
    write(project.root, PACKAGES)
    write(project.root, {"packages/leap/cli.js": CLI_JS}, 0o755)
    commit(project)
    modules = project.root / "node_modules"
    for link, text in {
        "@own/leap": "../../packages/leap",
        "@own/days": "../../packages/days",
        ".bin/leap": "../@own/leap/cli.js",
    }.items():
        (modules / link).parent.mkdir(parents=True, exist_ok=True)
        (modules / link).symlink_to(text)
    write(modules, {".package-lock.json": "{}\n"})
    right = "year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)"
    return Repository(
        "node --test --test-reporter=tap tests/",
        "packages/leap/index.js",
        LEAP_JS.format(rule=right),
        "tests/days.test.js",
        "# duration_ms N",
        " # duration_ms N",
        files=10,
    )


# ── runs ───────────────────────────────────────────────────────────────────────────────────────

AGENT = """\
#!/bin/sh
{cheat}
cat ../right > {code}
echo finished
"""
CHEAT = """\
if [ "$LL_ITERATION" = 1 ]; then
  : > {test}
  echo finished
  exit
fi
"""


def told(project: Project, *words: str) -> tuple[int, str]:
    """The exit code, and everything a user reads, in its order."""
    done = subprocess.run(
        project.argv(*words),
        cwd=project.root,
        env=project.environ(PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, plain(done.stdout, project)


def plain(text: str, project: Project) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"tree [0-9a-f]{6}", "tree ID", text.replace(str(project.root.parent), "PLACE"))
    text = re.sub(r"duration_ms [0-9.]+", "duration_ms N", text)
    return re.sub(r"\b(\d+m )?\d+(\.\d+)?m?s\)", "TIME)", text)


def delivered(project: Project) -> dict[str, tuple[str, str]]:
    """Everything in the project but the files of runs."""
    found = fingerprint(project.root, skip=[".git", ".running", ".history"])
    return {path: one for path, one in found.items() if not path.startswith(".loops/")}


def prepare(project: Project, repository: Repository, *, cheats: bool) -> None:
    cheat = CHEAT.format(test=repository.test) if cheats else ""
    agent = AGENT.format(cheat=cheat, code=repository.code)
    write(project.root.parent, {"agent.sh": agent}, 0o755)
    write(project.root.parent, {"right": repository.right})
    project.loop("fix", LOOP.format(check=json.dumps(repository.check)))
    write(project.root, {".loops/.gitignore": ".running/\n.history/\n"})
    git(project, "add", ".loops")
    git(project, "commit", "-q", "-m", "loop")


Layout = Callable[[Project], Repository]
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
LAYOUTS = [
    pytest.param(with_submodules, id="submodule, LFS pointer, nested repository"),
    pytest.param(with_tests_in_a_submodule, id="tests in a submodule"),
    pytest.param(with_an_editable_install, id="editable install"),
    pytest.param(with_workspaces, id="workspaces", marks=NODE),
    pytest.param(with_a_large_file, id="200 MB", marks=pytest.mark.soak),
    pytest.param(with_30_000_files, id="30,000 files", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("cheats", [False, True], ids=["honest", "cheat"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_code_is_fixed_and_nothing_else_is_touched(
    layout: Layout, cheats: bool, project: Project
) -> None:
    repository = layout(project)
    prepare(project, repository, cheats=cheats)
    status = git(project, "status", "--porcelain")  # which may write the index
    before, own = delivered(project), fingerprint(project.root / ".git")

    story = CAUGHT if cheats else HONEST
    assert told(project, "run", "fix") == (0, story.format(**repository._asdict()))

    assert fingerprint(project.root / ".git") == own, "the user's repository is untouched"
    after = delivered(project)
    assert {path for path in before | after if before.get(path) != after.get(path)} == {
        repository.code
    }
    assert (project.root / repository.code).read_text() == repository.right
    assert git(project, "status", "--porcelain") == f" M {repository.code}\n{status}"

    receipt = str(project.root.parent / "receipt.json")
    wrote = f"wrote PLACE/receipt.json\n{repository.large}"
    assert told(project, "receipt", "fix", "-o", receipt) == (0, wrote)
    verified = VERIFIED.format(files=repository.files)
    assert told(project, "verify", receipt, "--rerun") == (0, verified)


# ── what cannot be kept, and where nothing can ─────────────────────────────────────────────────


def test_a_protected_file_too_large_to_restore_stops_the_run_until_the_user_restores_it(
    project: Project,
) -> None:
    write(project.root, VALUE)
    with open(project.root / "data.bin", "wb") as file:
        file.truncate(51 << 20)
    commit(project)
    prepare(project, Repository(CHECK, "src/value", "right\n"), cheats=False)
    loop = project.root / ".loops/fix.yaml"
    loop.write_text(loop.read_text().replace("[tests/]", "[tests/, data.bin]"))
    agent = project.root.parent / "agent.sh"
    honest = agent.read_text()
    agent.write_text(honest + "echo x >> data.bin\n")
    assert told(project, "run", "fix") == (
        1,
        dedent("""\
        warning: too large to store, so it cannot be restored: data.bin
        [1/5] evaluate → running python3 -B tests/check.py...
               ✗ AssertionError: the value is wrong (exit 1) · tree ID
               → fix (on_fail)
        [1/5] fix → running "Fix it"...
               ✗ finished
               ! not restored: data.bin: it is too large to store, so it was not replaced; move it yourself

        Loop failed in state 'fix': could not be restored: data.bin: it is too large to store, so it was not replaced; move it yourself (1 iteration, TIME)
        Files changed: data.bin, src/value (+1 -1)
        next: ll-loop resume fix
        """),
    )
    git(project, "checkout", "-q", "data.bin")
    agent.write_text(honest)
    assert told(project, "resume", "fix") == (
        0,
        dedent("""\
        Resuming loop 'fix' from state 'fix' (iteration 1)
        The run failed in this state, so the state will run again
        [1/5] fix → running "Fix it"...
               ✓ finished
               → evaluate
        [2/5] evaluate → running python3 -B tests/check.py...
               ✓ (exit 0) · tree ID
               → done (on_pass)
               → evaluate again in a clean copy
        [2/5] evaluate → running python3 -B tests/check.py...
               ✓ (exit 0) · clean copy · tree ID
               → done (on_pass)

        Loop completed: done (2 iterations, TIME)
        Files changed: src/value (+1 -1)
        Verified on tree ID; for a receipt: ll-loop receipt fix
        """),
    )


def test_without_git_what_is_written_down_is_refused_and_the_flag_runs_it(project: Project) -> None:
    write(project.root, VALUE)
    write(project.root.parent, {"agent.sh": AGENT.format(cheat="", code="src/value")}, 0o755)
    write(project.root.parent, {"right": "right\n"})
    project.loop("fix", LOOP.format(check=CHECK))
    refused = dedent("""\
        error[LL234]: `evidence` needs a git repository, but this project is not in one
          --> .loops/fix.yaml:8:1
           |
         8 | evidence: {protect: [tests/], clean: true}
           | ^^^^^^^^
           = help: `git init`, remove `evidence`, or run it with `--no-evidence`
        """)
    assert told(project, "run", "fix") == (2, refused)
    story = """\
        {}[1/5] evaluate → running python3 -B tests/check.py...
               ✗ AssertionError: the value is wrong (exit 1)
               → fix (on_fail)
        [1/5] fix → running "Fix it"...
               ✓ finished
               → evaluate
        [2/5] evaluate → running python3 -B tests/check.py...
               ✓ (exit 0)
               → done (on_pass)

        Loop completed: done (2 iterations, TIME)
        """
    off = dedent(story).format("") + "Not verified: evidence is off\n"
    assert told(project, "run", "fix", "--no-evidence") == (0, off)
    loop = project.root / ".loops/fix.yaml"
    loop.write_text(re.sub("evidence.*\n", "", loop.read_text()))
    (project.root / "src/value").write_text("wrong\n")
    warning = "warning: no evidence is recorded of what agents change: not in a git repository\n"
    assert told(project, "run", "fix") == (0, dedent(story).format(warning))
    assert (project.root / "src/value").read_text() == "right\n"
    assert told(project, "receipt", "fix")[0] == 2
