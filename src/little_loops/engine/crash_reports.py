"""Notify people about a run whose process is gone: the next command that sees it does.

A process of its own sends the notification, so the command does not wait for it. A file in the
run's directory, named after the run's last event, keeps it from being sent twice.

Not here: other notifications (`notifying`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from little_loops.engine.notifying import Senders, targets_of, user_recipients
from little_loops.errors import LittleLoopsError
from little_loops.fsm.notices import Notice, crash
from little_loops.fsm.schema import FSMLoop, Notify
from little_loops.fsm.state import LoopState
from little_loops.runs.layout import CRASH_REPORT, RunFiles
from little_loops.system.detached import own_environment


def report_crash(
    files: RunFiles, loop: FSMLoop, run: LoopState, environ: Mapping[str, str]
) -> None:
    """Start to notify people about a crashed run, unless somebody has."""
    cost_usd = sum(receipt.cost_usd for receipt in run.costs.values())
    notice = crash(run.loop, run.run, cost_usd)
    try:
        notify = (*user_recipients(environ), *loop.notify)
    except LittleLoopsError:  # every start of a run reports an invalid config file
        notify = loop.notify
    if not any(notice.occasion in each.when for each in notify) or not _is_first(files, run.seq):
        return
    request = {
        "notify": [(each.to, each.when) for each in notify],
        "notice": notice._asdict(),
        "shell": loop.shell,
    }
    with suppress(OSError):
        sender = subprocess.Popen(
            # -P: a module in the project directory must not be imported instead of ours.
            [sys.executable, "-P", "-m", "little_loops.engine.crash_reports"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=files.root,
            env=own_environment(environ),
            start_new_session=True,
        )
        assert sender.stdin is not None, "it is a pipe"
        with sender.stdin:
            sender.stdin.write(json.dumps(request).encode())
        sender.returncode = 0  # nobody waits for it


def _is_first(files: RunFiles, seq: int) -> bool:
    """Return whether nobody has reported this crash before; from now on, somebody has."""
    path = os.path.join(files.data, f"{CRASH_REPORT}{seq}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:  # reported, or not ours
        return False
    return True


def main() -> int:
    """Send the notification on the standard input, and wait for that. Return 0."""
    given = json.load(sys.stdin)
    notify = [Notify(to, tuple(when)) for to, when in given["notify"]]
    targets = targets_of(notify, os.environ, lambda _: None)
    senders = Senders(given["shell"], os.getcwd(), os.environ, lambda *_: None)
    senders.start(Notice(**given["notice"]), targets)
    senders.finish(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
