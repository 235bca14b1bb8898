"""Projects in real git repositories, with a tree store beside them."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from little_loops.trees.content import Bounds
from little_loops.trees.git import Git, find_git
from little_loops.trees.rules import Rules
from little_loops.trees.store import USUAL_BOUNDS, TreeStore


class Tree:
    """A project `p` in a repository, a home and a state directory, all in one place."""

    def __init__(self, place: Path, *, below: str = "", bounds: Bounds = USUAL_BOUNDS) -> None:
        self.place = place
        self.home = place / "home"
        self.state = place / "state"
        self.top = place / "p"
        self.root = self.top / below
        for folder in (self.home, self.state, self.root):
            folder.mkdir(parents=True, exist_ok=True)
        self.bounds = bounds
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.git("init", "-q", "-b", "main", cwd=self.top)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *words],
            cwd=cwd or self.top,
            env=self.environ,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def commit(self, message: str = "work") -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, path: str, text: str | bytes = "", mode: int = 0o644) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(mode)
        return file

    def write_all(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            self.write(path, text)

    def found_git(self) -> Git:
        return find_git(str(self.root), self.environ)

    def store(self, *, create: bool = True) -> TreeStore:
        return TreeStore.open(
            str(self.root), str(self.state), self.found_git(), create=create, bounds=self.bounds
        )

    def rules(
        self, store: TreeStore, protect: Sequence[str] = (), scope: Sequence[str] = (".",)
    ) -> Rules:
        return store.rules("run", scope, protect)

    def paths(self, store: TreeStore, id: str) -> list[str]:
        return [one.path for one in store.listing(id)]


def fingerprint(folder: Path, skip: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Everything below a directory: kind and permissions, content."""
    found: dict[str, tuple[str, str]] = {}
    for here, dirs, names in os.walk(os.fsencode(folder)):
        dirs[:] = [name for name in dirs if os.fsdecode(name) not in skip]
        for name in [*dirs, *names]:
            path = os.path.join(here, name)
            info = os.lstat(path)
            found[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = (
                stat.filemode(info.st_mode),
                _content(path, info),
            )
    return found


def _content(path: bytes, info: os.stat_result) -> str:
    if stat.S_ISLNK(info.st_mode):
        return os.fsdecode(os.readlink(path))
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return ""
