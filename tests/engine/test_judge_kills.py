"""Kill a run with a judge before each thing it does to a file or a process, and resume it.

The judge, a stand-in for `codex`, notes each question it gets. Wherever the runner was killed, it
gets each question exactly once.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.engine.test_judge import answers
from tests.project import Project
from tests.simulation.command import GONE, At, assert_in_words, command, dies, operations, projects

SOME = 17
"""In `make test`, every so many operations; `make soak` takes all of them."""
LOOP = """\
    initial: check
    {evidence}
    env: {{PATH: "{path}"}}
    states:
      check:
        action: cat removed
        condition: {{type: judge, question: Was no test removed?, host: codex, sees: [output]}}
        on_pass: done
        on_fail: put_back
      put_back: {{action: "echo all are there > removed", next: check}}
      done: {{terminal: true}}
    """
VETO = answers("> test_a is missing", "REASON: a test was removed", "VERDICT: fail")
AGREES = answers("> all are there", "REASON: nothing is missing", "VERDICT: pass")
Make = Callable[[], Project]


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def judged(make: Make, evidence: bool) -> Project:
    """A project whose first pass the judge vetoes, and whose second one it confirms."""
    project = make()
    codex = project.home / "bin" / "codex"
    codex.parent.mkdir()
    asked = shlex.quote(str(project.home / "asked"))
    codex.write_text(
        f'#!/bin/sh\ncase "$(cat)" in *"test_a is missing"*) echo first >> {asked}\n{VETO};;\n'
        f"*) echo second >> {asked}\n{AGREES};; esac\n"
    )
    codex.chmod(0o755)
    on = "evidence: true" if evidence else "evidence: false"
    path = f"{codex.parent}:/usr/local/bin:/usr/bin:/bin"
    project.loop("ask", LOOP.format(evidence=on, path=path))
    (project.root / "removed").write_text("test_a is missing\n")
    if evidence:
        project.git("init", "--quiet")
    return project


def finish(project: Project) -> None:
    """Resume what is left; where nothing was ever recorded, run."""
    said = command(project, "resume", "ask")
    if "has no run to resume" in said.err:
        said = command(project, "run", "ask")
    assert_in_words(said)
    assert said.code == 0 or "nothing to resume" in said.err, said.err + said.out


def check_answers(project: Project) -> bool:
    """The judge was asked each question once. Return whether its answer was collected."""
    events = project.events("ask")
    ends = [event["verdict"] for event in events if event["event"] == "judge_complete"]
    assert (project.home / "asked").read_text().split() == ["first", "second"], ends
    assert [event["status"] for event in events if event["event"] == "loop_complete"] == [
        "completed"
    ]
    assert [each for each in ends if each != "not_started"] == ["fail", "pass"]
    assert ends.count("not_started") <= 1
    kinds = [event["event"] for event in events]
    return ("judge_start", "resume", "judge_complete") in zip(
        kinds, kinds[1:], kinds[2:], strict=False
    )


def sweep(make: Make, evidence: bool, numbers: Iterable[int]) -> tuple[int, int]:
    """Kill before these operations. Return how often, and how often an answer was collected."""
    kills = collected = 0
    for number in numbers:
        project = judged(make, evidence)
        said = command(project, "run", "ask", at=At(number, dies))
        if said.reached is None:  # on a busy machine, some runs have a few operations fewer
            assert said.code == 0, said.err
            continue
        assert said.code == GONE, said.err
        try:
            finish(project)
            collected += check_answers(project)
        except AssertionError as failed:
            failed.add_note(f"killed before operation {number}: {said.reached}")
            raise
        kills += 1
    return kills, collected


def places(make: Make, evidence: bool) -> int:
    project = judged(make, evidence)
    count = len(operations(project, "run", "ask"))
    assert not check_answers(project)
    return count


@pytest.mark.parametrize("evidence", [False, True], ids=["no evidence", "evidence"])
def test_killed_before_some_operations_each_question_is_asked_once(make, evidence, record_property):
    step = SOME * 4 if evidence else SOME
    kills, collected = sweep(make, evidence, range(step, places(make, evidence), step))
    record_property("figure: kills of a run with a judge", kills)
    assert collected < kills


@pytest.mark.soak
@pytest.mark.parametrize("evidence", [False, True], ids=["no evidence", "evidence"])
def test_killed_before_any_operation_each_question_is_asked_once(make, evidence, record_property):
    kills, collected = sweep(make, evidence, range(1, places(make, evidence) + 1))
    record_property("figure: kills of a run with a judge", kills)
    assert 0 < collected < kills
