"""Kill each command before each thing it does to a file: a note and an answer arrive exactly once.

n = 1, 2, 3 … to the end of the command: of a run that gets a note, of a resume with a note
waiting, of `tell` itself, and of `approve`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from little_loops.runs.history import settle
from little_loops.runs.reading import Runs
from tests.entries import log_of
from tests.project import Project
from tests.simulation.command import (
    GONE,
    At,
    LineWriters,
    assert_in_words,
    command,
    dies,
    operations,
    projects,
)

SOME = 9
"""In `make test`, every ninth; `make soak` takes all of them."""
NOTE = "leave src/legacy alone"
Make = Callable[[], Project]
POST = (
    "[ -e posted ] || { mkdir -p $LL_RUN_DIR/mail && touch posted &&"
    f" printf '{NOTE}' > $LL_RUN_DIR/mail/tmp &&"
    " mv $LL_RUN_DIR/mail/tmp $LL_RUN_DIR/mail/0000000000001-00000000.txt; }"
)
NOTES = """\
    initial: first
    evidence: false
    host: {name: command, command: [sh, -c, "printf '%%s|%%s\\\\n' $LL_STEP_ID \\"$(echo $1)\\" >> prompts; echo ok", sh, "{prompt}"]}
    states:
      first: {action: "%s", next: work}
      work: {action: Work., action_type: prompt, next: look}
      look: {action: Look., action_type: prompt, next: done}
      done: {terminal: true}
    """
GATE = """\
    initial: ask
    states:
      ask: {terminal: true, outcome: review, next: ship}
      ship: {action: "echo ${loop.answer} >> shipped", on_interrupt: $current, next: done}
      done: {terminal: true}
    """


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def log(project: Project) -> list[dict[str, Any]]:
    settle(str(project.root), "people")
    run = Runs(str(project.root)).view("people")
    return [] if run is None else log_of(run.files)


def events(project: Project, kind: str) -> list[dict[str, Any]]:
    return [event for event in log(project) if event["event"] == kind]


def finish(project: Project) -> None:
    """Resume what is left; where nothing was ever recorded, run."""
    said = command(project, "resume", "people")
    if "has no run to resume" in said.err:
        said = command(project, "run", "people")
    assert_in_words(said)
    assert said.code == 0 or "nothing to resume" in said.err, said.err + said.out
    assert log(project)[-1]["event"] == "loop_complete"


def assert_heard_once(project: Project, *, posted: bool = True) -> None:
    """Each attempt of one step got the note, and no other step did."""
    ids = [event["id"] for event in events(project, "note_received")]
    delivered = events(project, "note_delivered")
    assert len(ids) == len(delivered) == posted
    got: dict[bool, set[int]] = {True: set(), False: set()}
    for line in project.file("prompts").splitlines():
        step, _, prompt = line.partition("|")
        assert prompt in ("Work.", "Look.", f"Work. {NOTE}", f"Look. {NOTE}")
        got[NOTE in prompt].add(int(step.rpartition("/")[2]))
    assert got[True] == {event["step"] for event in delivered}
    assert not got[True] & got[False]


def sweep(
    prepare: Callable[[], Project],
    words: tuple[str, ...],
    rows: Iterable[int],
    then: Callable[[Project, LineWriters], None],
) -> int:
    """Kill before one operation after the other. Gives how many."""
    reached = 0
    for number in rows:
        project = prepare()
        said = command(project, *words, at=At(number, dies))
        assert (said.code, said.reached is None) == (GONE, False), said
        then(project, said)
        shutil.rmtree(project.root)
        reached += 1
    return reached


def rows_of(project: Project, words: tuple[str, ...], each: int) -> range:
    return range(1, len(operations(project, *words)) + 1, each)


# ── a run that gets a note ─────────────────────────────────────────────────────────────────────


def with_a_note(make: Make) -> Project:
    project = make()
    project.loop("people", NOTES % POST)
    return project


def note_in_a_run(make: Make, each: int) -> int:
    words = ("run", "people")

    def then(project: Project, said: LineWriters) -> None:
        finish(project)
        assert_heard_once(project)

    return sweep(lambda: with_a_note(make), words, rows_of(with_a_note(make), words, each), then)


def test_a_note_reaches_one_step_wherever_its_run_is_killed(make, record_property):
    record_property("figure: operations of a run with a note, killed", note_in_a_run(make, SOME))


@pytest.mark.soak
def test_a_note_reaches_one_step_wherever_its_run_is_killed_in_full(make, record_property):
    record_property("figure: operations of a run with a note, all killed", note_in_a_run(make, 1))


# ── a resume with a note waiting ───────────────────────────────────────────────────────────────


def waiting(make: Make) -> Project:
    """A run that was killed in its first action, and a note that came then."""
    project = make()
    project.loop("people", NOTES % "[ -e go ] || { touch go; kill -9 $PPID; sleep 9; }")
    assert command(project, "run", "people").code == -9
    project.end_actions()
    return project


def told(make: Make) -> Project:
    project = waiting(make)
    assert command(project, "tell", "people", NOTE).code == 0
    return project


def note_before_a_resume(make: Make, each: int) -> int:
    words = ("resume", "people")

    def then(project: Project, said: LineWriters) -> None:
        finish(project)
        assert_heard_once(project)

    return sweep(lambda: told(make), words, rows_of(told(make), words, each), then)


def test_a_note_reaches_one_step_wherever_the_resume_is_killed(make, record_property):
    reached = note_before_a_resume(make, SOME)
    record_property("figure: operations of a resume with a note, killed", reached)


@pytest.mark.soak
def test_a_note_reaches_one_step_wherever_the_resume_is_killed_in_full(make, record_property):
    reached = note_before_a_resume(make, 1)
    record_property("figure: operations of a resume with a note, all killed", reached)


# ── the commands of people ─────────────────────────────────────────────────────────────────────


def note_posted_or_not(make: Make, each: int) -> list[int]:
    words = ("tell", "people", NOTE)
    left: list[int] = []

    def then(project: Project, said: LineWriters) -> None:
        posted = len(list(project.root.glob(".loops/.running/people.d/mail/*.txt")))
        left.append(posted)
        finish(project)
        assert_heard_once(project, posted=bool(posted))

    sweep(lambda: waiting(make), words, rows_of(waiting(make), words, each), then)
    assert sorted(left) == left
    return left


def test_a_tell_that_is_killed_leaves_the_whole_note_or_none(make, record_property):
    left = note_posted_or_not(make, SOME)
    record_property("figure: operations of `tell`, killed", len(left))


@pytest.mark.soak
def test_a_tell_that_is_killed_leaves_the_whole_note_or_none_in_full(make, record_property):
    left = note_posted_or_not(make, 1)
    record_property("figure: operations of `tell`, all killed", len(left))
    assert set(left) == {0, 1}


def at_the_gate(make: Make) -> Project:
    project = make()
    project.loop("people", GATE)
    assert command(project, "run", "people").code == 4
    return project


def approved_once(make: Make, each: int) -> int:
    words = ("approve", "people", "-m", "first")

    def then(project: Project, said: LineWriters) -> None:
        again = command(project, "approve", "people", "-m", "second")
        assert_in_words(again)
        if again.code != 0:
            assert again.code == 2, again
            assert "approved, with the message 'first'" in again.err
            finish(project)
        assert log(project)[-1]["event"] == "loop_complete"
        (answer,) = events(project, "gate_answered")
        assert answer["text"] == ("second" if again.code == 0 else "first")
        assert set(project.file("shipped").split()) == {answer["text"]}

    return sweep(lambda: at_the_gate(make), words, rows_of(at_the_gate(make), words, each), then)


def test_an_approval_counts_once_wherever_it_is_killed(make, record_property):
    record_property("figure: operations of `approve`, killed", approved_once(make, SOME))


@pytest.mark.soak
def test_an_approval_counts_once_wherever_it_is_killed_in_full(make, record_property):
    record_property("figure: operations of `approve`, all killed", approved_once(make, 1))
