"""A project in a git repository of its own, with a private home and a settled identity."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from little_loops.relay.call import Call

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def call_in(root: Path, run_dir: str = "", **fields: Any) -> Call:
    """A call of a built-in action in a project, with nobody to stop it and nobody to hear it."""
    given: dict[str, Any] = {
        "inputs": {},
        "run": "run-1",
        "loop": "implement-886",
        "iteration": 1,
        "iteration_limit": None,
        "scope": (".",),
        "environ": os.environ,
        "stdout": ignored,
        "stderr": ignored,
    }
    return Call(project=str(root), run_dir=run_dir, **(given | fields))


def ignored(_text: bytes) -> None:
    pass


class Project:
    """A directory with files and perhaps a repository; paths are relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return os.fsdecode(done.stdout).strip()

    def hook(self, name: str, script: str) -> None:
        file = self.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def log(self) -> list[str]:
        """Subjects, oldest first, without the commit the project began with."""
        return self.git("log", "--reverse", "--format=%s").splitlines()[1:]

    def status(self) -> list[str]:
        return self.git("status", "--porcelain", "--untracked-files=all").splitlines()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "LL_", "MAX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".state"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # Else a test without a repository would find the one it is run from.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return home


@pytest.fixture
def bare_project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    return Project(root)


@pytest.fixture
def project(bare_project: Project) -> Project:
    bare_project.git("init", "--quiet", "--initial-branch=main")
    bare_project.write("README.md", "hello\n")
    bare_project.write(".gitignore", "*.log\n")
    bare_project.git("add", ".")
    bare_project.git("commit", "--quiet", "--message=Begin")
    return bare_project
