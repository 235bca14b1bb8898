"""Kill the command before each thing it does to a file or a process, in `run` and in `resume`.

n = 1, 2, 3 … until the command no longer comes so far.  After each kill the run can be looked at,
a resume completes it, and every result that was recorded was made once.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pytest

from little_loops.runs.history import settle
from little_loops.runs.reading import Runs
from tests.entries import log_of
from tests.project import Project, chain, numbers
from tests.simulation.command import (
    GONE,
    START,
    At,
    LineWriters,
    assert_in_words,
    command,
    dies,
    operations,
    projects,
)

STATES = 3
SOME = 5
"""In `make test`, every fifth; `make soak` takes all of them."""
ENOUGH = 500
Make = Callable[[], Project]


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def three_states(make: Make) -> Project:
    project = make()
    project.loop("chain", chain(STATES))
    return project


def cut_in_the_second(make: Make) -> Project:
    """A run whose process was killed just before it started its second action."""
    project = three_states(make)
    done = operations(three_states(make), "run", "chain")
    starts = [number for number, name in enumerate(done, 1) if name.startswith(START)]
    said = command(project, "run", "chain", at=At(starts[1], dies))
    assert said.code == GONE
    assert completed(project) == ["s1"]
    return project


def log(project: Project) -> list[dict[str, Any]]:
    """The events of the newest run, wherever it is; one on its way into the history is there."""
    settle(str(project.root), "chain")
    run = Runs(str(project.root)).view("chain")
    return [] if run is None else log_of(run.files)


def completed(project: Project) -> list[str]:
    """The steps that have been done; one that could not be started has not."""
    return [
        event["state"]
        for event in log(project)
        if event["event"] == "action_complete" and event["exit_code"] == 0
    ]


def finish(project: Project) -> None:
    """Look at what is left, then go on until the run is over."""
    looked = command(project, "status", "chain", "--json")
    assert_in_words(looked)
    assert looked.code in (0, 2), looked.err
    said = go_on(project)
    if said.code == 2:
        assert "nothing to resume" in said.err, said.err
    else:
        assert said.code == 0, said.err + said.out
    assert_story(project)


def go_on(project: Project, at: At | None = None) -> LineWriters:
    """Resume; where nothing was ever recorded there is nothing to resume, so run."""
    said = command(project, "resume", "chain", at=at)
    return command(project, "run", "chain", at=at) if "has no run to resume" in said.err else said


def assert_story(project: Project) -> None:
    """Every step is complete, in order; one ran twice only if it was under way at a kill."""
    told = log(project)
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    assert completed(project) == [f"s{n}" for n in range(1, STATES + 1)]
    assert told[-1]["event"] == "loop_complete"
    lost = Counter(event["state"] for event in told if event["event"] == "action_interrupted")
    ran = Counter(numbers(project.file("trace")))
    for number in range(1, STATES + 1):
        assert 1 <= ran[number] <= 1 + lost[f"s{number}"]


def sweep(prepare: Callable[[], Project], verb: str, rows: Iterable[int]) -> list[str]:
    """Kill before one operation after the other; gives the names of those it was killed before."""
    reached = []
    for number in rows:
        project = prepare()
        said = command(project, verb, "chain", at=At(number, dies))
        assert said.reached is not None
        assert said.code == GONE
        reached.append(said.reached)
        finish(project)
        shutil.rmtree(project.root)
    return reached


def test_a_run_killed_before_its_operations_completes(make, record_property):
    all_of_them = operations(three_states(make), "run", "chain")
    reached = sweep(lambda: three_states(make), "run", range(1, len(all_of_them) + 1, SOME))
    record_property("figure: kills at a boundary of a run", len(reached))


@pytest.mark.soak
def test_a_run_killed_before_any_of_its_operations_completes(make, record_property):
    all_of_them = operations(three_states(make), "run", "chain")
    reached = sweep(lambda: three_states(make), "run", range(1, len(all_of_them) + 1))
    assert len(reached) == len(all_of_them)
    record_property("figure: kills at a boundary of a run", len(reached))
    kinds = Counter(name.split()[0] for name in reached)
    assert kinds[START] == STATES
    # One sync for each step and one for the last; the rest is the run's beginning and end.
    assert kinds["little_loops.sync"] > STATES
    assert kinds["os.rename"] > STATES


def kill_resumes(make: Make, each: int) -> list[str]:
    halfway = cut_in_the_second(make)

    def copy() -> Project:
        project = make()
        shutil.rmtree(project.root)
        shutil.copytree(halfway.root, project.root, symlinks=True)
        return project

    all_of_them = operations(copy(), "resume", "chain")
    kinds = Counter(name.split()[0] for name in all_of_them)
    assert kinds[START] == STATES - 1
    return sweep(copy, "resume", range(1, len(all_of_them) + 1, each))


def test_a_resume_killed_before_its_operations_completes(make, record_property):
    reached = kill_resumes(make, each=SOME)
    record_property("figure: kills at a boundary of a resume", len(reached))


@pytest.mark.soak
def test_a_resume_killed_before_any_of_its_operations_completes(make, record_property):
    reached = kill_resumes(make, each=1)
    record_property("figure: kills at a boundary of a resume", len(reached))


def test_killed_again_and_again_it_still_completes(make):
    """Each process of this run gets a little further than the one before."""
    project = three_states(make)
    for number in count(5, 9):
        said = go_on(project, At(number, dies))
        if said.reached is None:
            break
        assert number < ENOUGH, "it never came to its end"
    assert_story(project)
