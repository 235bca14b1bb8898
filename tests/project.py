"""A project in a temporary directory, and the real command run in it as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

SOURCE = str(Path(__file__).parent.parent / "src")
DEADLINE_S = 60.0


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_S) -> Any:
    """Wait for a condition; the last resort where nothing can be waited for itself."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"no {what} after {seconds:g} s"
        time.sleep(0.005)
    return found


def noon_zone() -> str:
    """Return a time zone in which it is about noon, so that nothing happens to run over midnight."""
    return f"NOON{time.gmtime().tm_hour - 12}"


class Project:
    """A directory with loops; `ll` runs `ll-loop` there and gives what it said."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.home = root / "home"
        (self.root / ".loops").mkdir(parents=True)
        self.home.mkdir()

    def loop(self, name: str, text: str) -> Path:
        path = self.root / ".loops" / f"{name}.yaml"
        path.write_text(dedent(text))
        return path

    def environ(self, **more: str) -> dict[str, str]:
        kept = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        return {**own, "HOME": str(self.home), "PYTHONPATH": SOURCE, "TERM": "dumb", **more}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "little_loops", *words]

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        return done.stdout.strip()

    def ll(
        self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            cwd=cwd or self.root,
            env=self.environ(**(env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )

    @contextmanager
    def started(
        self, *words: str, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A run under way, in a session of its own; whatever is left of it is killed at the end."""
        child = subprocess.Popen(
            self.argv(*words),
            cwd=self.root,
            env=self.environ(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Not every test reads what is printed, and a full pipe would hold up the run.
            pipesize=1 << 20,
            text=True,
            start_new_session=True,
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            self.end_actions()

    def end_actions(self) -> None:
        """End what actions of this project may still be running, by the mark of their directory."""
        import psutil

        mark = str(self.root)
        for process in psutil.process_iter():
            try:
                if process.environ().get("LL_RUN_DIR", "").startswith(mark):
                    process.kill()
            except psutil.Error:
                continue

    # What is on the disk

    def running(self, name: str, suffix: str) -> Path:
        return self.root / ".loops" / ".running" / f"{name}{suffix}"

    def past(self, name: str, suffix: str = ".events.jsonl") -> Path:
        """The newest run of the history."""
        history = self.root / ".loops" / ".history" / name
        found = sorted(history.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime_ns)
        assert found, f"no past run of {name}"
        return found[-1]

    def events(self, name: str) -> list[dict[str, Any]]:
        path = self.running(name, ".events.jsonl")
        if not path.exists():
            path = self.past(name)
        lines = path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def state(self, name: str) -> dict[str, Any]:
        path = self.running(name, ".state.json")
        if not path.exists():
            path = self.past(name, ".state.json")
        state: dict[str, Any] = json.loads(path.read_text())
        return state

    def log(self, name: str) -> str:
        path = self.running(name, ".log")
        return (path if path.exists() else self.past(name, ".log")).read_text()

    def has_event(self, name: str, kind: str, **fields: Any) -> bool:
        try:
            events = self.events(name)
        except (AssertionError, OSError):
            return False
        return any(
            event["event"] == kind and all(event.get(k) == v for k, v in fields.items())
            for event in events
        )

    def file(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""


def chain(length: int, action: str = "echo {n} >> trace", **loop: Any) -> str:
    """A loop of states in a row, each leaving its number in the file `trace`."""
    lines = [
        "name: chain",
        "initial: s1",
        f"max_iterations: {loop.get('max_iterations', 50)}",
        "states:",
    ]
    for n in range(1, length + 1):
        lines += [
            f"  s{n}:",
            f"    action: {json.dumps(action.format(n=n))}",
            f"    next: {'done' if n == length else f's{n + 1}'}",
        ]
    return "\n".join([*lines, "  done:", "    terminal: true", ""])


def numbers(text: str) -> Sequence[int]:
    return [int(line) for line in text.split()]
