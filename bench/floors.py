"""The floor of a durable transition: a bare loop that does just that and decides nothing.

`python -m bench.floors STEPS DIRECTORY`.  A step starts `sh -c true`, appends four events in two
synced writes (what is about to happen, what has happened) and replaces a state file of 2 KB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

STATE_BYTES = 2048

# macOS has no fdatasync.
sync = getattr(os, "fdatasync", os.fsync)


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


def run(steps: int, directory: str) -> None:
    state = f"{directory}/floor.state.json"
    log = os.open(f"{directory}/floor.events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for step in range(steps):
        append(log, step, "state_enter", "action_start")
        subprocess.run(["sh", "-c", "true"], stdin=subprocess.DEVNULL, check=True)
        append(log, step, "action_complete", "transition")
        replace_state(state, step)
    os.close(log)


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2])
