"""Whether a check works in a clean copy: tried with real checks in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from little_loops.engine.clean_proof import Check, CleanProof, prove_clean
from tests.project import Project

FILES = {
    "leap/__init__.py": "",
    "leap/rule.py": "def is_leap(year):\n    return year % 4 == 0\n",
    "leap/unused.py": "x = 1\n" * 50,
    "check.py": "import sys; sys.path.insert(0, '.')\nimport leap.rule\n"
    "sys.exit(0 if leap.rule.is_leap(2000) else 1)\n",
    "tests/data.txt": "2000\n",
}
RUN = "python3 check.py"


@pytest.fixture
def repository(project: Project) -> Path:
    for name, text in FILES.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    project.git("init", "-q")
    project.git("add", "-A")
    return project.root


def prove(project: Project, script: str, *fails: int) -> CleanProof:
    check = Check(script, fails or (1,))
    return prove_clean(str(project.root), check, project.environ(), ["tests/"])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(RUN, CleanProof(None, "leap/__init__.py"), id="it passes here and there"),
        pytest.param(f"{RUN} && exit 1", CleanProof(None, "leap/__init__.py"),
                     id="it fails here and there"),
        pytest.param("true", CleanProof("a syntax error in the copy did not change the result of "
                                        "the check"), id="it looks at nothing"),
        pytest.param("exit 1", CleanProof("a syntax error in the copy did not change the result of "
                                          "the check"), id="it always fails"),
        pytest.param("no-such-tool", CleanProof("the result of the check cannot be judged here (exit 127)"),
                     id="it cannot run"),
        pytest.param("echo FATAL_ERROR: no; exit 0",
                     CleanProof("the result of the check cannot be judged here (no)"), id="it says so"),
        pytest.param("kill -9 $$", CleanProof("the result of the check cannot be judged here (signal 9)"),
                     id="it crashes"),
        pytest.param("test -z \"$LL_CLEAN\"",
                     CleanProof("the check passes here and fails in a clean copy (exit 1)"),
                     id="it fails only there"),
        pytest.param("test -z \"$LL_CLEAN\" || exit 9",
                     CleanProof("the check passes here and cannot be judged in a clean copy "
                                "(exit 9)"), id="it breaks only there"),
        pytest.param("test -n \"$LL_CLEAN\"",
                     CleanProof("the check fails here and passes in a clean copy (exit 0)"),
                     id="it passes only there"),
    ],
)  # fmt: skip
def test_a_clean_copy_is_relied_on_only_after_proof(project, repository, script, expected):
    assert prove(project, script) == expected


def test_a_check_that_goes_back_to_the_project_is_not_proved(project, repository):
    why = "a syntax error in the copy did not change the result of the check"
    # As a variable it would be led to the copy; what is written in a file is not.
    (repository / "run.sh").write_text(f"cd {repository} && {RUN}\n")
    assert prove(project, "sh ./run.sh") == CleanProof(why)


def test_the_project_itself_is_not_touched(project, repository):
    prove(project, RUN)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", *FILES],
        cwd=repository, env=project.environ(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line for line in changed.stdout.splitlines() if not line.startswith("A  ")] == []


def test_without_a_repository_there_is_no_proof(project):
    assert prove(project, "true") == CleanProof("this project is not in a git repository")


def test_without_sources_there_is_no_proof(project):
    project.git("init", "-q")
    assert prove(project, "true").why_not is not None
