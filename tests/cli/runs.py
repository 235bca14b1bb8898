"""Runs to look at: real ones made by the engine, and files of a run as they are wanted."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from little_loops.cli.main import main
from little_loops.engine.lifecycle import RunOutcome, RunRequest, start
from little_loops.engine.local_world import Services
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.runs.claims import Claim, claim
from little_loops.runs.history import archive
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import resolve_scope
from little_loops.runs.storage import create
from tests.entries import whole
from tests.project import until

NOW = wall_ms_of("2026-11-15T12:00:00.000Z")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

QUICK: dict[str, Any] = {
    "name": "quick",
    "initial": "check",
    "states": {
        "check": {"action": "echo checked", "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "echo fixed", "next": "check"},
        "done": {"terminal": True},
    },
}
COUNTDOWN: dict[str, Any] = {
    "name": "countdown",
    "initial": "measure",
    "context": {"target": 0},
    "states": {
        "measure": {
            "action": "n=$(cat n 2>/dev/null || echo 3); echo $n; echo $((n - 1)) > n",
            "on_target": "done",
            "on_progress": "apply",
            "on_stall": "done",
        },
        "apply": {"action": "echo applied; echo aside >&2", "next": "measure"},
        "done": {"terminal": True},
    },
}
SLOW: dict[str, Any] = {
    "name": "slow",
    "initial": "check",
    "scope": ["src"],
    "states": {
        "check": {"action": "echo looking; exit 1", "on_pass": "done", "on_fail": "work"},
        "work": {
            "action": "echo started; while [ ! -e go ]; do sleep 0.01; done; echo finished",
            "next": "done",
        },
        "done": {"terminal": True},
    },
}


class LineWriters(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ran(root: Path, loop: Mapping[str, Any], name: str | None = None, **request: Any) -> RunOutcome:
    """Run a loop to its end, in this process."""
    wanted = RunRequest(str(root), name or loop["name"], **request)
    return start(FSMLoop.from_dict(loop), wanted, Services(_environ()))


def _environ() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


@contextmanager
def under_way(
    root: Path, loop: Mapping[str, Any] = SLOW, name: str | None = None
) -> Iterator[threading.Thread]:
    """A run that has come to its `work` and waits there for the file `go`."""
    runner = threading.Thread(target=ran, args=(root, loop, name))
    runner.start()
    log = Path(RunFiles(str(root), name or loop["name"]).log)
    try:
        until(lambda: log.exists() and "| started" in log.read_text(), "action under way")
        yield runner
    finally:
        (root / "go").touch()
        runner.join()
        (root / "go").unlink()


def crashed(root: Path, name: str = "crashed") -> None:
    """What a run leaves whose process was killed in mid-action."""
    with under_way(root, SLOW | {"name": name, "scope": [name]}):
        left = root / "left"
        shutil.copytree(root / ".loops/.running", left)
    for path in left.glob(f"{name}*"):
        os.rename(path, root / ".loops/.running" / path.name)
    shutil.rmtree(left)
    shutil.rmtree(root / ".loops/.history" / name)


def damaged(root: Path, name: str = "damaged") -> Path:
    """A run whose state file was cut in the middle."""
    crashed(root, name)
    path = Path(RunFiles(str(root), name).state)
    path.write_bytes(path.read_bytes()[:100])
    return path


# ── files as they are wanted ───────────────────────────────────────────────────────────────────


def state(**fields: Any) -> LoopState:
    given: dict[str, Any] = {
        "run": "20261115T114557-0a1b2c3d",
        "loop": "fix-types",
        "current_state": "apply",
        "started_at": timestamp(NOW - 14 * MINUTE - 3 * SECOND),
        "updated_at": timestamp(NOW),
        "ran_ms": 14 * MINUTE + 3 * SECOND,
        "seq": 1,
    }
    return LoopState(**{**given, **fields})


def record(kind: str, seq: int, at_ms: int = NOW, **fields: Any) -> dict[str, Any]:
    common = {"ts": timestamp(at_ms), "run": "20261115T114557-0a1b2c3d", "seq": seq, "ran_ms": 0}
    return {**whole(kind, **fields), **common}


def told(*kinds: tuple[str, Mapping[str, Any]], at_ms: int = NOW) -> list[dict[str, Any]]:
    return [record(kind, n, at_ms, **fields) for n, (kind, fields) in enumerate(kinds, 1)]


def saved(
    root: Path,
    name: str,
    run: LoopState,
    records: Sequence[Mapping[str, Any]] = (),
    machine: Mapping[str, Any] = SLOW,
    log: str = "",
) -> RunFiles:
    """The files of a current run."""
    writer = create(str(root), name, {"run": run.run, "loop": dict(machine)})
    try:
        writer.append([dict(each) for each in records] or told(("loop_start", {})))
        writer.save(run._replace(seq=max(len(records), 1)))
        descriptor = writer.open_log()
        os.write(descriptor, log.encode())
        os.close(descriptor)
        return writer.files
    finally:
        writer.close()


def past(root: Path, name: str, run: LoopState, records: Sequence[Any] = ()) -> RunFiles:
    """The files of a run that has ended."""
    saved(root, name, run, records)
    found = archive(str(root), name)
    assert found is not None
    return found


def held(root: Path, name: str, scope: Sequence[str] = (".",)) -> Claim:
    """The lock of a run, as its process has it."""
    return claim(
        str(root),
        name,
        resolve_scope(str(root), tuple(scope)),
        "20261115T114557-0a1b2c3d",
        loop=name,
        started_at=timestamp(NOW),
    )


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every file and directory, with its kind, size and time of change."""
    found = {}
    for directory, folders, files in os.walk(root):
        for each in [".", *folders, *files]:
            path = os.path.join(directory, each)
            info = os.lstat(path)
            found[os.path.relpath(path, root)] = (info.st_mode, info.st_size, info.st_mtime_ns)
    return found


def ll(capsys: Any, *words: str) -> LineWriters:
    """The command, in this process."""
    capsys.readouterr()
    try:
        code = main(list(words))
    finally:
        sys.stdout.flush()
    said = capsys.readouterr()
    return LineWriters(code, said.out, said.err)
