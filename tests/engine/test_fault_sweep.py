"""Let the n-th file operation fail, n = 1, 2, 3 … to the end of the run: no traceback, state whole.

Two ways to fail one: the operation is refused before it reaches the system (audit events: every
operation of the engine's own), or the system itself refuses it (strace: the real calls, with an
error the kernel could have given).  After each the command has said in words what is wrong or has
done what was asked; the run can be looked at; and once the fault is gone a resume completes it.
"""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.engine.test_boundaries import ENOUGH, assert_story, finish, log, three_states
from tests.project import Project
from tests.simulation.command import (
    At,
    LineWriters,
    assert_in_words,
    command,
    fails,
    operations,
    projects,
)
from tests.simulation.tracing import Traced, can_trace, traced

Make = Callable[[], Project]
CODES = [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES]


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


class Swept(NamedTuple):
    """How the command ended at each point that was reached, and where that broke a promise."""

    ended: Counter[str]
    broken: list[str]

    @property
    def reached(self) -> int:
        return self.ended.total()

    def tell(self, record_property: Callable[[str, object], None], what: str) -> None:
        record_property(f"figure: {what}", self.reached)
        record_property(f"figure: {what}: promises broken", len(self.broken))
        assert self.broken == []


def sweep(make: Make, code: int, rows: Iterable[int], *, for_good: bool) -> Swept:
    """Refuse one operation after the other."""
    swept = Swept(Counter(), [])
    for number in rows:
        project = three_states(make)
        said = command(project, "run", "chain", at=At(number, fails(code), for_good=for_good))
        assert said.reached is not None
        swept.ended["completed" if said.code == 0 else "refused"] += 1
        try:
            assert_answered(project, said)
            finish(project)
        except AssertionError as error:
            swept.broken.append(f"{errno.errorcode[code]} at {number}, {said.reached}: {error}")
        shutil.rmtree(project.root)
    return swept


def assert_answered(project: Project, said: LineWriters, *, may_speak: bool = True) -> None:
    """Done, or said in words why not."""
    assert_in_words(said)
    if said.code == 0:
        assert_story(project)
    elif not may_speak:
        assert said.code == 1, said
    elif "error: " not in said.err:  # an action that could not be started: the run has failed
        assert log(project)[-1]["event"] == "loop_error", said


def points(make: Make) -> range:
    return range(1, len(operations(three_states(make), "run", "chain")) + 1)


@pytest.mark.soak
def test_every_operation_of_a_run_may_fail_once(make, record_property):
    rows = points(make)
    swept = sweep(make, errno.EIO, rows, for_good=False)
    record_property("figure: operations of a run", len(rows))
    swept.tell(record_property, "operations of a run refused once")
    assert swept.reached == len(rows)


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
def test_operations_of_a_run_may_fail(make, code, for_good, record_property):
    """Every seventh, another seventh for each kind of error."""
    rows = points(make)[code % 7 :: 14]
    swept = sweep(make, code, rows, for_good=for_good)
    swept.tell(record_property, "operations refused, every kind of error")
    assert swept.reached == len(rows)


@pytest.mark.soak
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
def test_every_operation_of_a_run_may_fail(make, code, for_good, record_property):
    rows = points(make)
    swept = sweep(make, code, rows, for_good=for_good)
    swept.tell(record_property, "operations refused, every kind of error")
    assert swept.reached == len(rows)


# ── the system itself refuses ──────────────────────────────────────────────────────────────────

needs_strace = pytest.mark.skipif(
    not can_trace(), reason="no strace here, or it may not attach to our processes"
)
REFUSALS = {
    "write": ("EIO", "ENOSPC", "EINTR"),
    "pwrite64": ("EIO", "ENOSPC"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "fdatasync": ("EIO", "ENOSPC", "EINTR"),
    "renameat": ("EIO", "ENOSPC"),
    "openat": ("EIO", "EMFILE", "ENFILE", "ENOSPC", "EINTR"),
    "mkdirat": ("EIO", "ENOSPC"),
    "symlinkat": ("EIO", "ENOSPC"),
    "unlinkat": ("EIO",),
    "ftruncate": ("EIO", "EINTR"),
    "flock": ("ENOLCK", "EINTR"),
    "getdents64": ("EIO",),
    "clone,clone3": ("EAGAIN", "ENOMEM"),
}
INVISIBLE = ("EINTR",)
"""Answers that mean nothing but "ask again"."""
OUTSIDE = ("openat", "getdents64")
"""Calls the interpreter makes too; only those about the run's own places count."""


def refused(project: Project, call: str, error: str, number: int, *, for_good: bool) -> Traced:
    when = f"{number}+" if for_good else str(number)
    options = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    if call in OUTSIDE:
        loops = project.root / ".loops"
        places = [loops, loops / ".running", loops / ".history", loops / ".history" / "chain"]
        for place in [project.root, *places, loops / ".running" / "chain.d"]:
            options += ["-P", str(place)]
    return traced(project, ["run", "chain"], options)


def sweep_calls(
    make: Make, call: str, error: str, *, each: int = 1, for_good: bool = False
) -> Swept:
    """Let the system refuse one such call after the other, until there are no more."""
    swept = Swept(Counter(), [])
    for number in range(1, ENOUGH, each):
        project = three_states(make)
        found = refused(project, call, error, number, for_good=for_good)
        if found.injected is None:
            assert found.said.code == 0, found.said
            return swept
        swept.ended["completed" if found.said.code == 0 else "refused"] += 1
        try:
            assert_answered(project, found.said, may_speak=not (call == "write" and for_good))
            if error in INVISIBLE and not for_good:
                assert found.said.code == 0, found.said
            finish(project)
        except AssertionError as problem:
            swept.broken.append(f"{error} at {number}, {found.injected}: {problem}")
        shutil.rmtree(project.root)
    raise AssertionError("it never came to its end")


BOUNDED = [
    *(("fsync", "EIO", 1), ("fdatasync", "EIO", 1), ("fdatasync", "EINTR", 2)),
    *(("write", "ENOSPC", 5), ("write", "EINTR", 9), ("renameat", "EIO", 4), ("flock", "EINTR", 2)),
    *(("openat", "EMFILE", 12), ("openat", "EINTR", 15), ("clone,clone3", "EAGAIN", 1)),
]


@needs_strace
@pytest.mark.parametrize(("call", "error", "each"), BOUNDED)
def test_a_call_the_system_refuses(make, call, error, each, record_property):
    swept = sweep_calls(make, call, error, each=each)
    assert swept.reached > 0
    swept.tell(record_property, "system calls refused")


@needs_strace
@pytest.mark.soak
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize(
    ("call", "error"), [(call, error) for call, errors in REFUSALS.items() for error in errors]
)
def test_every_call_the_system_refuses(make, call, error, for_good, record_property):
    if for_good and error in INVISIBLE:
        pytest.skip("a system that says `again` for ever is not one to run on")
    swept = sweep_calls(make, call, error, for_good=for_good)
    assert swept.reached > 0
    swept.tell(record_property, "system calls refused, every kind of error")
