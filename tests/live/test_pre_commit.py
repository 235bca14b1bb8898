"""The hook in the hands of the real pre-commit, which clones the repository, installs it by pip, and
starts it at each commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0
NOT_NEEDED = (".git", ".venv", ".cache", "node_modules", "tests", "bench", "__pycache__")
CONFIG = """\
repos:
  - repo: {repository}
    rev: v1
    hooks:
      - id: ll-loop-validate
"""
LOOP = "check: make test\nfix: make tidy\n"


def run(cwd: Path, *argv: str, env: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    # pip's own settings say where packages come from.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = {"TERM": "dumb", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        argv,
        cwd=cwd,
        env={**kept, **own, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def git(cwd: Path, *words: str, env: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return run(cwd, "git", *names, *words, env=env)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The `bin` of an environment with pre-commit."""
    assert run(tmp_path, sys.executable, "-m", "venv", "environment").returncode == 0
    programs = tmp_path / "environment" / "bin"
    done = run(tmp_path, str(programs / "python"), "-m", "pip", "install", "-q", "pre-commit")
    if done.returncode != 0 and not os.environ.get("CI") and "No matching dist" in done.stderr:
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return programs


def test_a_commit_with_a_wrong_loop_is_refused(programs: Path, tmp_path: Path):
    repository, project = tmp_path / "repository", tmp_path / "project"
    shutil.copytree(ROOT, repository, ignore=shutil.ignore_patterns(*NOT_NEEDED))
    (project / ".loops").mkdir(parents=True)
    for place in (repository, project):
        git(place, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=All of it")
    git(repository, "tag", "v1")
    (project / ".pre-commit-config.yaml").write_text(CONFIG.format(repository=repository))
    env = {
        "PRE_COMMIT_HOME": str(tmp_path / "pre-commit"),
        "VIRTUALENV_OVERRIDE_APP_DATA": str(tmp_path / "virtualenv"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    assert run(project, "pre-commit", "install", env=env).returncode == 0

    (project / "README").write_text("a project\n")
    git(project, "add", ".")
    others = git(project, "commit", "--message=Begin", env=env)
    assert others.returncode == 0, others.stdout + others.stderr
    assert "(no files to check)Skipped" in others.stderr

    (project / ".loops" / "fix.yaml").write_text(LOOP + "max_iteration: 3\n")
    git(project, "add", ".")
    refused = git(project, "commit", "--message=Add a loop", env=env)
    assert refused.returncode == 1
    assert "error[LL102]: unknown key `max_iteration`" in refused.stderr
    assert git(project, "log", "--format=%s").stdout == "Begin\n"

    (project / ".loops" / "fix.yaml").write_text(LOOP + "max_iterations: 3\n")
    git(project, "add", ".")
    done = git(project, "commit", "--message=Add a loop", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(project, "log", "--format=%s").stdout == "Add a loop\nBegin\n"
