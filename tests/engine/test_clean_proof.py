"""Whether a check works in a clean copy: tried with real checks in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGINT

import pytest

from little_loops.engine.clean_proof import CheckScript, CleanProof, prove_clean
from little_loops.system.stops import StopFlag
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
NOT_NOTICED = CleanProof("the check does not notice a syntax error in leap/__init__.py of the copy")


@pytest.fixture
def repository(project: Project) -> Path:
    for name, text in FILES.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    project.git("init", "-q")
    project.git("add", "-A")
    return project.root


def prove(project: Project, script: str, *fails: int) -> CleanProof:
    check = CheckScript(script, fails or (1,))
    return prove_clean(str(project.root), check, project.environ(), ["tests/"])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(RUN, CleanProof(None, "leap/__init__.py"), id="it passes here and there"),
        pytest.param(f"{RUN} && exit 1", CleanProof(None, "leap/__init__.py"),
                     id="it fails here and there"),
        pytest.param("true", NOT_NOTICED, id="it looks at nothing"),
        pytest.param("exit 1", NOT_NOTICED, id="it always fails"),
        pytest.param("date +%N; exit 1", NOT_NOTICED, id="it always fails with other numbers"),
        pytest.param(f"echo leap/__init__.py; {RUN} || echo '1:1 Parsing error'; exit 1",
                     CleanProof(None, "leap/__init__.py"), id="it fails, and complains of more"),
        pytest.param("no-such-tool",
                     CleanProof("the check's result cannot be judged here (exit 127)", cannot_run="exit 127"),
                     id="it cannot run"),
        pytest.param("echo FATAL_ERROR: no; exit 0",
                     CleanProof("the check's result cannot be judged here (no)", cannot_run="no"),
                     id="it says so"),
        pytest.param("kill -9 $$",
                     CleanProof("the check's result cannot be judged here (signal 9)", cannot_run="signal 9"),
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
    # As a variable it would be led to the copy; what is written in a file is not.
    (repository / "run.sh").write_text(f"cd {repository} && {RUN}\n")
    assert prove(project, "sh ./run.sh") == NOT_NOTICED


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


class Steps:
    """Writes down what whoever waits gets to see; may lose patience."""

    def __init__(self, stop: StopFlag | None = None) -> None:
        self.seen: list[str] = []
        self._stop = stop

    def begin(self, step: str) -> None:
        self.seen.append(step)
        if self._stop is not None:
            self._stop.ask(SIGINT)

    def end(self, outcome: str) -> None:
        self.seen[-1] += f": {outcome}"


def test_each_try_is_reported_while_it_runs(project, repository):
    steps = Steps()
    prove_clean(str(project.root), CheckScript(RUN), project.environ(), ["tests/"], None, steps)
    assert steps.seen == [
        "here: passes",
        "in a clean copy: passes",
        "with a syntax error in leap/__init__.py: fails",
    ]


def test_a_check_without_an_answer_in_time_is_not_proved(project, repository):
    steps = Steps()
    check = CheckScript("sleep 60")
    proof = prove_clean(str(project.root), check, project.environ(), (), None, steps, limit_s=0.0)
    assert proof == CleanProof("the trial run took longer than 0 s")
    assert steps.seen == ["here: no answer in time"]


def test_who_does_not_want_to_wait_skips_it(project, repository):
    stop = StopFlag()
    steps = Steps(stop)
    check = CheckScript("sleep 60")
    proof = prove_clean(str(project.root), check, project.environ(), (), stop, steps)
    stop.close()
    assert proof == CleanProof("you skipped the trial run")
    assert steps.seen == ["here: skipped"]


def test_a_check_of_a_part_is_tried_with_the_files_of_that_part(project):
    """In a large repository the files that the whole program depends on may be no part of it."""
    files = {
        "cmd/a/main.py": "x = 1\n",
        "cmd/b/main.py": "x = 1\n",
        "cmd/c/main.py": "x = 1\n",
        "lib/arn/parse.py": "y = 2\n",
    }
    for name, text in files.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_text(text)
    project.git("init", "-q")
    project.git("add", "-A")
    imports = "python3 -c 'import sys; sys.path.insert(0, \"lib/arn\"); import parse'"
    assert prove(project, imports) == CleanProof(None, "lib/arn/parse.py")
    # Its output names the part that fails.
    script = "python3 lib/*/parse.py; echo FAIL example.com/sdk/lib/arn; exit 1"
    assert prove(project, script) == CleanProof(None, "lib/arn/parse.py")


def test_the_program_that_a_check_starts_proves_nothing(project):
    """It may test what is somewhere else."""
    for name in ("tools/ci/check.py", "tools/ci/helper.py", "leap/__init__.py"):
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_text("x = 1\n")
    project.git("init", "-q")
    project.git("add", "-A")
    steps = Steps()
    check = CheckScript("python3 tools/ci/check.py")
    prove_clean(str(project.root), check, project.environ(), ["tests/"], None, steps)
    assert steps.seen[2] == "with a syntax error in leap/__init__.py: passes"
