"""The files of a run as it leaves them behind, and what lies below `.loops`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from little_loops.fsm.state import LoopState, Status
from little_loops.runs.reading import Runs
from little_loops.runs.storage import create

STARTED = "2026-01-15T10:30:00.000Z"
STEM = "2026-01-15T10-30-00"


def event(seq: int, ts: str = STARTED) -> dict[str, Any]:
    return {"event": "x", "seq": seq, "run": "r1", "ts": ts, "ran_ms": 0}


def ran(root: Path, name: str = "fix", started: str = STARTED, status: Status = "failed") -> None:
    """Leave the files of a run behind, as a run does at its end."""
    writer = create(str(root), name, {"run": "r1"})
    writer.append([event(1, started)])
    run = LoopState("r1", name, "a", started, STARTED, phase="ended", seq=1)
    writer.save(run._replace(status=status))
    os.close(writer.open_log())
    (root / f".loops/.running/{name}.d/out.txt").write_text("output")
    writer.close()


def contents(root: Path) -> dict[str, str]:
    """Every file below `.loops` but the lock and the index, and what links say."""
    found = {}
    for directory, folders, files in os.walk(root / ".loops"):
        for name in [*files, *folders]:
            path = os.path.join(directory, name)
            place = os.path.relpath(path, root / ".loops")
            if os.path.islink(path):
                found[place] = f"-> {os.readlink(path)}"
            elif name in files and name not in (".lock", ".gitignore", "index.jsonl"):
                with open(path) as file:
                    found[place] = file.read()
    return found


def listed(root: Path) -> list[tuple[str, str | None, str]]:
    """Each run: its name, its place in the history, its status or what is wrong."""
    runs = Runs(str(root))
    return [
        (view.name, view.files.stem, view.summary.status if view.summary else view.damage or "-")
        for view in (*runs.list(), *runs.past())
    ]
