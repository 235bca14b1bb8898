"""Who is alive among the runs that a run has started."""

from __future__ import annotations

import os
import threading

from little_loops.fsm.state import Children
from little_loops.runs.child_runs import end_children, files_of, hold_pid, living
from little_loops.runs.layout import RunFiles


def test_a_child_that_has_just_been_forked_can_be_seen_and_is_waited_for(tmp_path):
    """Otherwise a resume would start it a second time, and both would write the same log."""
    parent = RunFiles(os.path.realpath(tmp_path), "outer")
    children = Children("kid", 2, 1, ("kid",), ("running",))
    files = files_of(parent, children, "kid")
    ended = tmp_path / "ended"
    reading, writing = os.pipe()
    lock = hold_pid(files)
    pid = os.fork()
    if pid == 0:  # its parent is killed now, before it could write who it is
        os.close(writing)
        os.read(reading, 1)
        ended.touch()
        os._exit(0)
    os.close(lock)
    os.close(reading)
    assert living(files) is not None
    seen: list[bool] = []

    def resume() -> None:
        end_children(parent, children)
        seen.append(ended.exists())

    thread = threading.Thread(target=resume)
    thread.start()
    thread.join(0.3)  # time to be wrong
    os.close(writing)
    thread.join()
    os.waitpid(pid, 0)
    assert seen == [True]
    assert living(files) is None
