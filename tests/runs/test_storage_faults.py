"""A run's files under faults: a kill, a failing disk, a full one, one that is read-only."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from functools import partial

import pytest

from little_loops.fsm.state import LoopState
from little_loops.runs.folders import make_folder
from little_loops.runs.layout import RunFiles
from little_loops.runs.storage import create, load, reopen
from tests.engine.faults import KILLED, REFUSED, SURVIVED, attempts, die, failing_with, outcome

RUN = {"run": "r1", "loop": {"name": "fix"}}


AT = "2026-01-15T10:30:00.000Z"


def event(seq: int, run: str = "r1"):
    return {"event": "x", "seq": seq, "run": run, "ts": AT, "ran_ms": 0}


def state(seq: int) -> LoopState:
    return LoopState("r1", "fix", "a", AT, AT, phase="ended", seq=seq)


def ruin(files: RunFiles, raw: bytes) -> None:
    with open(files.state, "wb") as file:
        file.write(raw)


def go_on(root) -> None:
    """Take up the run wherever it is, do one step, save it."""
    loaded = load(RunFiles(str(root), "fix"))
    if loaded is None:
        writer = create(str(root), "fix", RUN)
        reached = 0
    else:
        at = 0 if loaded.snapshot is None else loaded.snapshot.seq
        reached = max([at, *(entry.seq for entry in loaded.entries)])
        has_snapshot = loaded.snapshot is not None
        writer = reopen(str(root), "fix", loaded.stamps, has_snapshot=has_snapshot)
    writer.append([event(reached + 1)], sync=True)
    writer.save(state(reached + 1), sync=True)
    writer.close()


def reached(root) -> int:
    loaded = load(RunFiles(str(root), "fix"))
    if loaded is None:
        return 0
    at = 0 if loaded.snapshot is None else loaded.snapshot.seq
    return max([at, *(entry.seq for entry in loaded.entries)])


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged snapshot"])
def test_a_kill_before_any_file_operation_loses_nothing(tmp_path, is_damaged):
    for number in attempts():
        root = tmp_path / str(number)
        root.mkdir()
        go_on(root)
        if is_damaged:
            ruin(RunFiles(str(root), "fix"), b"?")
        ended = outcome(partial(go_on, root), number, die)
        before = reached(root)
        assert before in (1, 2)
        go_on(root)
        assert reached(root) == before + 1
        if ended == 0:
            assert before == 2
            return
        assert ended == KILLED


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS])
def test_any_file_operation_that_fails_is_an_error_in_words(tmp_path, code):
    for number in attempts():
        root = tmp_path / str(number)
        root.mkdir()
        ended = outcome(partial(go_on, root), number, failing_with(code))
        before = reached(root)
        assert before in (0, 1)
        go_on(root)
        assert reached(root) == before + 1
        if ended == 0:
            return
        assert ended in (REFUSED, SURVIVED)


def obey_modes() -> None:
    """Root is stopped by no mode; without this capability it is."""
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        nothing = (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, nothing) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux")
@pytest.mark.parametrize("place", [".", ".loops", ".loops/.running"])
def test_a_directory_that_is_read_only_is_an_error_in_words(tmp_path, place):
    if place != ".":
        make_folder(str(tmp_path), ".running").close()
    read_only = tmp_path / place
    read_only.chmod(0o500)

    def attempt() -> None:
        obey_modes()
        create(str(tmp_path), "fix", RUN)

    try:
        # A private directory of our own is made usable again; one we cannot make is refused.
        assert outcome(attempt) == (REFUSED if place == "." else 0)
    finally:
        read_only.chmod(0o700)


FULL = """\
import sys
from little_loops.errors import StorageError
from little_loops.fsm.state import LoopState
from little_loops.runs.storage import create, load
root = sys.argv[1]
common = {"run": "r1", "ts": "2026-01-15T10:30:00.000Z", "ran_ms": 0}
writer = create(root, "fix", {"run": "r1"})
seq = 0
try:
    while seq < 10_000:
        batch = [
            {"event": "x", "seq": seq + step, **common, "output": "x" * 999} for step in (1, 2, 3)
        ]
        writer.append(batch, sync=True)
        seq += 3
        writer.save(LoopState("r1", "fix", "a", "", "", error="x" * 999, phase="ended", seq=seq))
except StorageError as error:
    print(error.message.replace(root, "ROOT"), "/", error.help)
loaded = load(writer.files)
at = loaded.snapshot.seq
behind = [entry.seq for entry in loaded.entries]
assert seq > 30 and (at, behind) in [(seq, []), (seq - 3, [seq - 2, seq - 1, seq])], (seq, at, behind)
"""


def test_a_disk_that_is_full_keeps_the_last_whole_step(tmp_path):
    mounted = f"mount -t tmpfs -o size=256k none {tmp_path} && exec {sys.executable} -c '{FULL}' {tmp_path}"
    argv = ["unshare", "-rm", "sh", "-c", mounted]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(tmp_path)],
            capture_output=True,
            check=False,
        ).returncode
    ):
        pytest.skip("no mount namespaces here")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("cannot write `ROOT/.loops/.running/fix.")
    assert done.stdout.endswith("no space left on device / free some space on that disk\n")
