"""Many starts at once, and a run that goes round very often."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.engine.test_races import holding
from tests.project import Project, until
from tests.simulation.command import BackgroundRun, command, in_memory

RACERS = 20
ROUNDS = 100
SOME_TIMES_AROUND = 400
TIMES_AROUND = 100_000
MEGABYTE = 1 << 20


# ── starts at once ─────────────────────────────────────────────────────────────────────────────


def race(project: Project, rounds: int) -> list[int]:
    """Start many loops that work on the same files, again and again; the winners of each round."""
    for number in range(RACERS):
        project.loop(f"r{number}", holding(f"r{number}", "." if number % 2 else "src"))
    winners = []
    for _ in range(rounds):
        for name in ("go_on", "order"):
            (project.root / name).unlink(missing_ok=True)
        racers = [BackgroundRun(project, ("run", f"r{number}")) for number in range(RACERS)]
        lost = [racer for racer in racers if not wins(racer, project)]
        assert len(lost) == RACERS - 1
        winners.append(len(project.file("order").split()))
    return winners


def wins(racer: BackgroundRun, project: Project) -> bool:
    """Is it the one that was let in?  The others have ended by themselves."""
    until(lambda: has_ended(racer.pid) or is_alone(project), "end of the race")
    if not has_ended(racer.pid):
        (project.root / "go_on").touch()
    return racer.said().code == 0


def has_ended(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def is_alone(project: Project) -> bool:
    children = psutil.Process().children()
    return sum(child.status() != psutil.STATUS_ZOMBIE for child in children) == 1


@pytest.mark.soak
def test_of_many_starts_one_is_let_in(record_property):
    with in_memory() as place, ExitStack() as stack:
        project = Project(place)
        stack.callback(project.end_actions)
        winners = race(project, ROUNDS)
    assert winners == [1] * ROUNDS
    record_property("figure: racing starts", RACERS * ROUNDS)
    record_property("figure: winners in each round of them", max(winners))


# ── a long run ─────────────────────────────────────────────────────────────────────────────────

LONG = """\
    name: long
    initial: a
    max_iterations: {times}
    states:
      a: {{action: "true", next: a}}
    """


class Watched:
    """What a run took while it went round."""

    def __init__(self) -> None:
        self.early_rss = self.late_rss = 0
        self.early_state = self.late_state = 0
        self.log_size = 0
        self.resume_s = 0.0


def go_round(project: Project, times: int) -> Watched:
    """Let a loop go round so often; memory and state file are looked at early and late."""
    seen = Watched()
    project.loop("long", LONG.format(times=times))
    early = times // 20
    with project.started("run", "long", "-qq") as child:
        process = psutil.Process(child.pid)
        until(lambda: iteration(project) >= early, "an early iteration", 3600)
        seen.early_rss, seen.early_state = process.memory_info().rss, state_size(project)
        while child.poll() is None:
            try:
                rss, size = process.memory_info().rss, state_size(project)
            except (psutil.Error, OSError):
                break  # it is over, or being put away
            if rss:
                seen.late_rss, seen.late_state = rss, size
            time.sleep(0.2)
        assert child.wait(timeout=60) == 3
    seen.log_size = project.past("long").stat().st_size
    began = time.monotonic()
    said = command(project, "resume", "long", "--max-iterations", str(times + 1))
    seen.resume_s = time.monotonic() - began
    assert said.code == 3, said
    return seen


def iteration(project: Project) -> int:
    try:
        return int(project.state("long")["iteration"])
    except (AssertionError, OSError, ValueError):
        return 0


def state_size(project: Project) -> int:
    return os.path.getsize(project.running("long", ".state.json"))


def assert_flat(seen: Watched) -> None:
    assert seen.late_rss - seen.early_rss <= 10 * MEGABYTE
    # Numbers get longer by a digit here and there, and that is all.
    assert abs(seen.late_state - seen.early_state) <= 64


def test_memory_and_state_stay_as_they_are(tmp_path: Path):
    assert_flat(go_round(Project(tmp_path), SOME_TIMES_AROUND))


@pytest.mark.soak
def test_memory_and_state_stay_as_they_are_for_long(record_property):
    with in_memory() as place:
        seen = go_round(Project(place), TIMES_AROUND)
    assert_flat(seen)
    record_property("figure: times around", TIMES_AROUND)
    record_property(
        "figure: MB more memory after them", (seen.late_rss - seen.early_rss) / MEGABYTE
    )
    record_property("figure: bytes of state after them", seen.late_state)
    record_property("figure: MB of log after them", seen.log_size / MEGABYTE)
    record_property("figure: s to resume and end again", seen.resume_s)
