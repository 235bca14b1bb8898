"""The floors: bare loops that do just what has to be done, and decide nothing.

`python -m bench.floors steps N DIRECTORY`: a step starts `sh -c true`, appends four events in two
synced writes (what is about to happen, what has happened) and replaces a state file of 2 KB.

`python -m bench.floors output N DIRECTORY`: a child prints N bytes, which are read as they come,
searched for three markers, and kept in a file, with its hash, up to the limit that ours has too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

STATE_BYTES = 2048
CHUNK = 1 << 16
KEPT = 64 << 20
MARKERS = (b"CONTEXT_HANDOFF:", b"FATAL_ERROR:", b"LOOP_STOP:")

# macOS has no fdatasync.
sync = getattr(os, "fdatasync", os.fsync)


def printing(count: int) -> str:
    """A shell command that prints so many bytes, in lines, and costs little itself."""
    return f"yes 'what a build tool says about one of its files' | head -c {count}"


def append(log: int, step: int, *names: str) -> None:
    events = [{"event": name, "ts": "2026-01-15T10:30:00.000Z", "seq": step} for name in names]
    os.write(log, "".join(json.dumps(event) + "\n" for event in events).encode())
    sync(log)


def replace_state(path: str, step: int) -> None:
    text = json.dumps({"current_state": "tick", "iteration": step, "padding": "x" * STATE_BYTES})
    temporary = f"{path}.tmp"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, text[:STATE_BYTES].encode())
    os.close(file)
    os.rename(temporary, path)


def steps(count: int, directory: str) -> None:
    state = f"{directory}/floor.state.json"
    log = os.open(f"{directory}/floor.events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for step in range(count):
        append(log, step, "state_enter", "action_start")
        subprocess.run(["sh", "-c", "true"], stdin=subprocess.DEVNULL, check=True)
        append(log, step, "action_complete", "transition")
        replace_state(state, step)
    os.close(log)


def output(count: int, directory: str) -> None:
    kept = os.open(f"{directory}/floor.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    child = subprocess.Popen(["sh", "-c", printing(count)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    room, digest = KEPT, None
    while chunk := os.read(child.stdout.fileno(), CHUNK):
        for marker in MARKERS:
            chunk.find(marker)
        if digest is None:
            import hashlib  # small outputs need none

            digest = hashlib.sha256()
        if room:
            digest.update(chunk[:room])
            room -= os.write(kept, chunk[:room])
    child.wait()
    os.close(kept)


if __name__ == "__main__":
    {"steps": steps, "output": output}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
