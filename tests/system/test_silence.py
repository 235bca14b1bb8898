"""When an action counts as silent, by what it printed and by the CPU time of its processes."""

from __future__ import annotations

import pytest

from little_loops.system.silence import Silence


@pytest.mark.parametrize(
    ("cpu_s", "cut_at"),
    [
        pytest.param(lambda at: 0.0, 11, id="asleep"),
        pytest.param(lambda at: at * 0.009, 11, id="hardly working"),
        pytest.param(lambda at: at * 0.011, None, id="working a little"),
        pytest.param(lambda at: min(at, 5) * 1.0, 15, id="working, then asleep"),
        pytest.param(lambda at: 3.0 if at < 8 else 0.0, 18, id="a process ends"),
    ],
)
def test_an_action_is_silent_when_it_has_used_no_cpu_for_so_long(cpu_s, cut_at):
    assert first_cut(cpu_s, printed=()) == cut_at


@pytest.mark.parametrize(
    ("printed", "cut_at"),
    [
        pytest.param((4,), 15, id="a line"),
        pytest.param(range(40), None, id="a line a second"),
        pytest.param((3, 12), 23, id="two lines"),
    ],
)
def test_what_is_printed_starts_the_silence_again(printed, cut_at):
    assert first_cut(lambda at: 0.0, printed) == cut_at


def test_processes_are_looked_at_ten_times_and_no_more():
    looks: list[float] = []

    def cpu_s() -> float:
        looks.append(1.0)
        return 0.0

    silence = Silence(10, cpu_s, 0)
    cuts = [silence.is_too_long(tenth / 10) for tenth in range(111)]
    assert (cuts.index(True), len(looks)) == (110, 11)


def first_cut(cpu_s, printed) -> int | None:
    """The second at which an action with an idle timeout of ten seconds is cut, within forty."""
    now = [0.0]
    silence = Silence(10, lambda: cpu_s(now[0]), 0)
    for second in range(1, 41):
        now[0] = float(second)
        if silence.is_too_long(now[0]):
            return second
        if second in printed:
            silence.restart()
    return None
