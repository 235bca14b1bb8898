"""Do something in a process of its own, which may listen to itself, die, or leave locks behind."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

from little_loops.system import process_tree

Found = TypeVar("Found")


def in_child(work: Callable[[], Found]) -> Found:
    """What the work gives back; an AssertionError with the child's own words if it fails."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work_and_exit(work, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert told, f"the child ended with {status} and said nothing"
    found, problem = pickle.loads(told)
    if problem is not None:
        raise AssertionError(problem)
    return found  # type: ignore[no-any-return]


def _work_and_exit(work: Callable[[], object], writing: int) -> NoReturn:
    try:
        process_tree.adopt_orphans()  # nothing else is below us: no need to look at every process
        answer: tuple[object, str | None] = (work(), None)
    except BaseException:
        answer = (None, traceback.format_exc())
    with open(writing, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
    os._exit(0)
