"""Slots: who gets one, in which order, and when it is free again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from little_loops.spending.slots import VARIABLE, Busy, Queue, QueuePosition, Slot
from tests.project import SOURCE


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def turn(loop: str) -> QueuePosition:
    return QueuePosition("/a/shop", loop, f"run-of-{loop}", os.getpid())


def queue(environ: dict[str, str], loop: str, slots: int = 1, outer: Slot | None = None) -> Queue:
    more = {} if outer is None else {VARIABLE: outer.variable}
    return Queue(slots, turn(loop), {**environ, **more})


def taken(found: Slot | Busy) -> Slot:
    assert isinstance(found, Slot), found
    return found


def test_so_many_at_once_and_the_others_learn_who(environ: dict[str, str]) -> None:
    first = taken(queue(environ, "a", 2).take())
    second = taken(queue(environ, "b", 2).take())
    third = queue(environ, "c", 2)
    assert third.take() == Busy(2, (turn("a"), turn("b")))
    second.release()
    taken(third.take()).release()
    first.release()


def test_first_come_first_served(environ: dict[str, str]) -> None:
    holder = taken(queue(environ, "a").take())
    early, late = queue(environ, "b"), queue(environ, "c")
    assert early.take() == Busy(1, (turn("a"),))
    assert late.take() == Busy(1, (turn("a"),), before=1)
    holder.release()
    assert late.take() == Busy(1, (), before=1)
    assert queue(environ, "d").take() == Busy(1, (), before=2)
    slot = taken(early.take())
    assert late.take() == Busy(1, (turn("b"),))
    slot.release()
    taken(late.take()).release()


def test_whoever_leaves_the_queue_lets_the_next_one_through(environ: dict[str, str]) -> None:
    holder = taken(queue(environ, "a").take())
    early, late = queue(environ, "b"), queue(environ, "c")
    early.take()
    late.take()
    holder.release()
    early.leave()
    early.leave()
    taken(late.take()).release()


def test_a_lower_number_of_slots_counts_at_once(environ: dict[str, str]) -> None:
    held = [taken(queue(environ, name, 3).take()) for name in "abc"]
    held[0].release()
    assert isinstance(queue(environ, "d", 2).take(), Busy)
    held[1].release()
    held[2].release()


def test_a_run_inside_an_agent_uses_the_slot_of_that_agent(environ: dict[str, str]) -> None:
    outer = taken(queue(environ, "a").take())
    inner = taken(queue(environ, "b", outer=outer).take())
    beside = queue(environ, "c", outer=outer)
    assert beside.take() == Busy(1, (turn("b"),))
    innermost = taken(queue(environ, "d", outer=inner).take())
    innermost.release()
    inner.release()
    taken(beside.take()).release()
    outer.release()


@pytest.mark.parametrize("variable", ["slot-1:0000", "slot-1", "slot-1:", "../x:1", "other:1", ":"])
def test_a_slot_that_nobody_holds_is_no_slot(environ: dict[str, str], variable: str) -> None:
    holder = taken(queue(environ, "a").take())
    nested = Queue(1, turn("b"), {**environ, VARIABLE: variable})
    assert nested.take() == Busy(1, (turn("a"),))
    nested.leave()
    holder.release()


def test_a_slot_is_taken_while_a_turn_inside_it_goes_on(environ: dict[str, str]) -> None:
    """An agent was killed, and a loop that it had started has not ended yet."""
    outer = taken(queue(environ, "a").take())
    inner = taken(queue(environ, "b", outer=outer).take())
    outer.release()
    waiting = queue(environ, "c")
    assert waiting.take() == Busy(1, (turn("b"),))
    inner.release()
    taken(waiting.take()).release()


HOLDER = """\
import os, sys
from little_loops.spending.slots import Queue, QueuePosition
queue = Queue(1, QueuePosition("/p", "killed", "r", 1), {"XDG_STATE_HOME": sys.argv[1]})
print(type(queue.take()).__name__, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_neither_a_slot_nor_a_place_in_the_queue(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    started = [
        subprocess.Popen(
            command,
            env={"PYTHONPATH": SOURCE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        said = []
        for each in started:
            assert each.stdout is not None
            said.append(each.stdout.readline().strip())
        assert sorted(said) == ["Busy", "Slot"]
        waiting = queue(environ, "c")
        assert isinstance(waiting.take(), Busy)
    finally:
        for each in started:
            each.kill()
            each.communicate()
    taken(waiting.take()).release()


def test_an_agent_that_outlives_its_runner_keeps_the_slot(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    slot = taken(queue(environ, "a").take())
    agent = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(slot.descriptor,))
    os.close(slot.descriptor)  # as when the runner is killed
    waiting = queue(environ, "b")
    assert isinstance(waiting.take(), Busy)
    agent.communicate()
    taken(waiting.take()).release()


def test_what_an_agent_leaves_running_does_not_keep_the_slot(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    slot = taken(queue(environ, "a").take())
    left = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(slot.descriptor,))
    slot.release()
    taken(queue(environ, "b").take()).release()
    left.communicate()


def test_content_that_cannot_be_read_names_nobody(environ: dict[str, str]) -> None:
    slot = taken(queue(environ, "a").take())
    for text in (b"", b"{", b"[]"):
        os.ftruncate(slot.descriptor, 0)
        os.pwrite(slot.descriptor, text, 0)
        waiting = queue(environ, "b")
        assert waiting.take() == Busy(1, (QueuePosition("?", "?", "?", 0),))
        waiting.leave()
    slot.release()
