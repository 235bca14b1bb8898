from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import Level, Standing
from bench.measure import clean_environment, complaint, interleave, measure
from bench.model import Candidate, Command, Gauge, Missing, NotMeasured, Reading, Row, Sample

A = Command(("a",), ".")
B_SHORT = Command(("b", "short"), ".")
B = Command(("b",), ".")
C = Command(("c",), ".")
ROW = Row(
    7,
    "three in turn",
    floor=Candidate("a", A),
    ours=Candidate("c", C),
    others=(Candidate("b", B, B_SHORT, 10),),
    bar=2,
    beyond=1.5,
    repeats=2,
)


class Clock:
    """Takes samples without starting anything, and remembers which in what order."""

    def __init__(self, fails: Command | None = None) -> None:
        self.fails = fails
        self.taken: list[Command] = []

    def __call__(self, command: Command) -> Sample:
        if command == self.fails:
            raise NotMeasured("exit 1")
        self.taken.append(command)
        return Sample(float(len(self.taken)), 1.0)


def test_candidates_are_taken_in_turn_after_a_round_to_warm_up():
    clock = Clock()
    samples = interleave(ROW, 2, clock)
    assert clock.taken == [A, B_SHORT, B, C] * 3
    assert [sample.cpu_ms for sample in samples[A]] == [5.0, 9.0]
    assert [sample.cpu_ms for sample in samples[C]] == [8.0, 12.0]


def test_repeats_asked_for_replace_those_of_the_row():
    clock = Clock()
    assert measure(ROW, 5, clock).standing is Standing.HOLDS
    assert clock.taken.count(A) == 1 + 5


def test_a_candidate_that_fails_breaks_its_row():
    answer = measure(ROW, None, Clock(fails=C))
    assert (answer.standing, answer.outcomes, answer.problem) == (Standing.BROKEN, (), "exit 1")


def test_what_a_row_needs_is_there_while_it_is_measured():
    clock = Clock()
    seen: list[int] = []

    @contextmanager
    def during() -> Iterator[None]:
        seen.append(len(clock.taken))
        yield
        seen.append(len(clock.taken))

    measure(ROW._replace(during=during), 1, clock)
    assert seen == [0, 8]


def test_readings_are_taken_in_turn():
    told = iter(range(1, 7))
    floor, ours = (Reading(name, lambda: float(next(told))) for name in ("floor", "ours"))
    gauge = Gauge(9, "a quantity", "ms", ours, bar=4, beyond=3, repeats=3, others=(floor,))
    answer = measure(gauge, None, Clock())
    assert answer.outcomes == (Level("floor", 1, 3, 5), Level("ours", 2, 4, 6))
    assert answer.standing is Standing.HOLDS


def test_a_reading_that_fails_breaks_its_row():
    def fail() -> float:
        raise NotMeasured("no strace")

    gauge = Gauge(6, "syncs", "syncs", Reading("ours", fail), bar=3, beyond=2)
    answer = measure(gauge, None, Clock())
    assert (answer.standing, answer.problem) == (Standing.BROKEN, "no strace")


def test_a_row_whose_program_is_not_installed_is_skipped():
    def fail() -> float:
        raise Missing("there is no Chromium")

    gauge = Gauge(6, "syncs", "syncs", Reading("ours", fail), bar=3, beyond=2)
    answer = measure(gauge, None, Clock())
    assert (answer.standing, answer.problem) == (Standing.SKIPPED, "there is no Chromium")


def test_environment_loses_what_would_change_the_figures():
    callers = {
        "PATH": "/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LL_ASCII": "1",
        "COVERAGE_RUN": "1",
        "XDG_CONFIG_HOME": "/somebody",
    }
    assert clean_environment("/place", callers) == {
        "PATH": "/bin",
        "XDG_CONFIG_HOME": "/place/config",
        "XDG_CACHE_HOME": "/place/cache",
        "XDG_STATE_HOME": "/place/state",
    }


def test_complaint_quotes_the_end_of_what_was_said():
    said = b"x" * 1000 + b"\nno such loop\n"
    text = complaint(Command(("ll-loop", "run"), ".", 3), 2, said)
    assert text.startswith("exit 2 instead of 3 from `ll-loop run`: xxx")
    assert text.endswith("x\nno such loop")
    assert len(text) < 400


def test_complaint_about_a_silent_command():
    assert complaint(A, -9, b"") == "exit -9 instead of 0 from `a`: no words"
