"""Cut the power of a real run, anywhere: what was reported complete is not run again, nor lost.

The cuts are reconstructed: strace notes every call by which the real command changes files; the
calls up to a random one are done again on a model of a disk, of which only what was synced is sure
to be left (`tests/simulation/replay.py`); what is left is laid out, and the real command resumes.
So the code and its system calls are real, and the disk is as unkind as the manual of `fsync`
allows: what is behind the last sync of a file may be there in part, or as zeros, and names may
be those of the last sync of their directory.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.engine.test_boundaries import log
from tests.project import Project, numbers
from tests.simulation.command import command, projects
from tests.simulation.histories import parsed
from tests.simulation.replay import OPTIONS, Call, Replay, moments, parse
from tests.simulation.tracing import can_trace, traced

pytestmark = pytest.mark.skipif(
    not can_trace(), reason="no strace here, or it may not attach to our processes"
)
Make = Callable[[], Project]
RESULT = b'{"event":"action_complete","state":"s2"'
STATES = ["s1", "s2", "s3", "s4", "s5"]
LOOP = """\
    name: chain
    initial: s1
    states:
      s1: {action: echo 1 >> trace, next: s2}
      s2:
        action: echo 2 >> trace; seq 1500   # so much that it goes to a file
        condition: {type: output_contains, pattern: "1499"}
        on_pass: s3
      s3: {action: echo 3 >> trace, capture: three, next: s4}
      s4: {action: echo 4 >> trace; exit 1, on_fail: s5}
      s5: {action: echo 5 >> trace; seq 1600, next: done}
      done: {terminal: true}
    """


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


class Traced(NamedTuple):
    """A command that was watched: what was there before, what it did, what its actions did."""

    before: Project
    calls: list[Call]
    ran: list[int]


def watched(project: Project, make: Make, verb: str) -> Traced:
    """Run a command on a copy of the project, and note what it does."""
    copy = make()
    replace(copy, project)
    found = traced(copy, [verb, "chain"], OPTIONS)
    assert found.said.code == 0, found.said
    calls = list(parse(line.replace(str(copy.root), str(project.root)) for line in found.lines))
    calls = [call._replace(texts=[moved(t, copy, project) for t in call.texts]) for call in calls]
    return Traced(project, calls, list(numbers(copy.file("trace"))))


def moved(text: bytes, old: Project, new: Project) -> bytes:
    return text.replace(str(old.root).encode(), str(new.root).encode())


def replace(project: Project, by: Project) -> None:
    shutil.rmtree(project.root)
    shutil.copytree(by.root, project.root, symlinks=True)


def cut(
    seen: Traced, make: Make, dice: random.Random, at: int | None = None
) -> tuple[Project, list[str]]:
    """What a loss of power leaves at a random moment, and the steps that were surely done."""
    replay = Replay(str(seen.before.root))
    at = dice.choice(moments(seen.calls)) if at is None else at
    replay.do(seen.calls[:at])
    safe = [
        record["state"]
        for record in parsed(replay.safe_log("chain.events.jsonl"))
        if record["event"] == "action_complete"
    ]
    project = make()
    shutil.rmtree(project.root)
    replay.cut(dice, str(project.root))
    # What the actions did to the world is not ours to lose.
    done = len(numbers(seen.before.file("trace"))) + replay.actions
    (project.root / "trace").write_text("".join(f"{n}\n" for n in seen.ran[:done]))
    return project, safe


def assert_completes(project: Project, safe: list[str]) -> None:
    before = Counter(numbers(project.file("trace")))
    looked = command(project, "status", "chain", "--json")
    assert looked.code in (0, 2), looked
    said = command(project, "resume", "chain")
    if "has no run to resume" in said.err:
        assert not before, "an action had been begun, and nothing is known of it"
        said = command(project, "run", "chain")
    assert said.code == 0 or "nothing to resume" in said.err, said
    assert_story(project, before, safe)


def assert_story(project: Project, before: Counter[int], safe: list[str]) -> None:
    told = log(project)
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    complete = [event["state"] for event in told if event["event"] == "action_complete"]
    assert complete == STATES
    assert told[-1]["event"] == "loop_complete"
    ran = Counter(numbers(project.file("trace")))
    lost = Counter(event["state"] for event in told if event["event"] == "action_interrupted")
    for number, state in enumerate(STATES, 1):
        assert 1 <= ran[number] <= 1 + lost[state], state
        if state in safe:
            assert ran[number] == before[number], f"{state} ran again"


def cut_runs(make: Make, cuts: int, seed: int) -> int:
    project = make()
    project.loop("chain", LOOP)
    seen = watched(project, make, "run")
    for number in range(cuts):
        left, safe = cut(seen, make, random.Random(f"{seed}/{number}"))
        assert_completes(left, safe)
        shutil.rmtree(left.root)
    return cuts


def cut_resumes(make: Make, cuts: int, seed: int, traces: int = 2) -> int:
    """Cut a run, then cut the resume as well."""
    project = make()
    project.loop("chain", LOOP)
    seen = watched(project, make, "run")
    done = 0
    for trace in range(traces * 10):
        dice = random.Random(f"{seed}/{trace}")
        left, _ = cut(seen, make, dice)
        if not 2 <= len(log(left)) <= 20 or done >= cuts:
            continue
        again = watched(left, make, "resume")
        for _ in range(cuts // traces):
            twice, safe = cut(again, make, dice)
            assert_completes(twice, safe)
            shutil.rmtree(twice.root)
            done += 1
    assert done >= cuts
    return done


def test_a_run_that_loses_power(make, record_property):
    record_property("figure: power cuts of a real run", cut_runs(make, 20, seed=1))


def test_a_resume_that_loses_power(make, record_property):
    record_property("figure: power cuts of a real resume", cut_resumes(make, 10, seed=1))


def test_the_output_of_a_recorded_result_outlives_a_power_cut(make):
    """It is judged after its result is written down, from a file whose name must be safe too."""
    project = make()
    project.loop("chain", LOOP)
    seen = watched(project, make, "run")
    written = next(at for at, call in enumerate(seen.calls) if RESULT in b"".join(call.texts))
    synced = [at for at, call in enumerate(seen.calls) if call.name == "fdatasync"]
    first, last = [at for at in synced if at > written][:2]
    for at in range(first + 1, last + 1):
        left, safe = cut(seen, make, random.Random(at), at)
        assert safe[:2] == ["s1", "s2"]
        assert_completes(left, safe)
        shutil.rmtree(left.root)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_runs_that_lose_power(make, seed, record_property):
    record_property("figure: power cuts of a real run", cut_runs(make, 140, seed))
    record_property("figure: power cuts of a real resume", cut_resumes(make, 60, seed, traces=6))
