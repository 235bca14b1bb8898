"""Programs that play a part: what each call of a tool prints and exits with is written down."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.project import Project

COMMON = ("sh", "cat", "grep", "head", "tail", "touch", "mkdir", "rm", "ls", "git", "env", "sleep")

SCRIPT = """\
#!/bin/sh
calls=$(( $(cat "$0.calls" 2>/dev/null || echo 0) + 1 ))
echo "$calls" > "$0.calls"
printf '%s\\n' "$*" >> "$0.log"
[ -e "$0.$calls" ] || calls=last
. "$0.$calls"
"""


class StandIns:
    """A directory of programs, the only one on PATH; what is not in it is missing."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory
        self.bin.mkdir()
        for name in COMMON:
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        self.add("ll-loop", f'exec "{sys.executable}" -P -m little_loops "$@"\n')

    def add(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    def tool(self, name: str, *parts: str) -> None:
        """A program that plays these shell texts, one a call; the last again and again."""
        path = self.bin / name
        path.write_text(SCRIPT)
        path.chmod(0o755)
        for number, part in enumerate(parts, 1):
            (self.bin / f"{name}.{number}").write_text(part)
        (self.bin / f"{name}.last").write_text(parts[-1])

    def lend(self, name: str, directory: Path) -> None:
        """Make a tool a script of the project too."""
        path = directory / name
        path.write_text(f'#!/bin/sh\nexec "{self.bin / name}" "$@"\n')
        path.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        """The arguments of each call so far."""
        log = self.bin / f"{name}.log"
        return log.read_text().splitlines() if log.exists() else []

    def times(self, name: str) -> int:
        count = self.bin / f"{name}.calls"
        return int(count.read_text()) if count.exists() else 0

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": str(self.bin)}

    def host(self) -> str:
        """A line of YAML: agent actions are played by the tool `agent`."""
        command = [str(self.bin / "agent"), "{prompt}"]
        return f"host: {json.dumps({'name': 'command', 'command': command})}\n"


def nothing(name: str) -> str | None:
    """A search for programs that finds none."""
    return None


def no_modules(python: str, module: str) -> bool:
    """A Python that has nothing but what came with it."""
    return False


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


PROJECTS: dict[str, dict[str, str]] = {
    "empty": {},
    "python": {"pyproject.toml": "[tool.pytest]\n[tool.ruff]\n[tool.mypy]\n"},
    "unittest": {"test_x.py": "import unittest\n"},
    "javascript": {
        "package.json": json.dumps(
            {"scripts": {"test": "x", "lint": "x", "types": "x"}, "dependencies": {"x": "1"}}
        )
    },
    "typescript": {"package.json": '{"scripts": {"test": "x", "lint": "eslint", "tsc": "tsc"}}'},
    "rust": {"Cargo.toml": '[package]\nname = "x"\n'},
    "go": {"go.mod": "module x\n"},
    "make": {"Makefile": "test:\nlint:\n"},
}


def give_agent(path: Path, stand_ins: StandIns) -> None:
    """Let the stand-in play the agent of a loop file."""
    path.write_text(path.read_text() + "\n" + stand_ins.host())


def way(project: Project, name: str) -> list[str]:
    """The states a run has been in."""
    events = project.events(name)
    return [event["state"] for event in events if event["event"] == "state_enter"]


def last_event(project: Project, name: str) -> dict[str, object]:
    return project.events(name)[-1]


def tree(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file below a directory, to see that nothing was written."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            info = os.lstat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), directory)] = (
                info.st_size,
                info.st_mtime_ns,
            )
    return found


def exits(*codes: int) -> Sequence[str]:
    return [f"exit {code}" for code in codes]
