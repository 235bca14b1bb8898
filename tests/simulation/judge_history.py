"""Runs with a judge on a computer on which anything may be killed at any moment.

The machine is the real one. The computer is a model: a place on its disk for what is asked, a keeper
and a judge that live on without their runner, and power that may fail. The law: about the same files,
a judge is started at most once for a pass; a run that ends well has its judge's consent.

`python -m tests.simulation.judge_history SOURCES SEEDS` prints the first seed that breaks it.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import NamedTuple

from little_loops.fsm.commands import AskJudge, CollectJudge, Command, Ending
from little_loops.fsm.events import JudgeComplete
from little_loops.fsm.happenings import Happening, JudgeAnswered, NothingCollected
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Judgement, LoopState, Result
from tests.fsm.scripted import Crash, ScriptedWorld, begin, go_on, rebuilt

LOOP = FSMLoop.from_dict(
    {
        "name": "l",
        "initial": "check",
        "states": {
            "check": {
                "action": "make",
                "check": True,
                "condition": {"type": "judge", "question": "Is it fixed?"},
                "on_pass": "done",
                "on_fail": "stuck",
                "on_error": "stuck",
            },
            "stuck": {"terminal": True},
            "done": {"terminal": True},
        },
    }
)
MOST_KILLS = 6
MOST_CHECKS = 10
ACTORS = ("runner", "keeper", "judge", "power")
ANSWER = Result(0, 1000, agent="success", cost_usd=0.25)


class LawBroken(Exception):
    """A judge was started twice, or a run ended well without one."""


class Place:
    """What is on the disk about a question, and which processes work on it."""

    def __init__(self) -> None:
        self.has_turn = self.is_started = False
        self.answer: str | None = None
        self.keeper = self.judge = False


class Seen(NamedTuple):
    """How a history went: kills, the last state, and what the judge was recorded to say."""

    kills: int
    ending: str
    verdicts: tuple[str, ...]


class JudgeWorld(ScriptedWorld):
    """A world in which the check passes, the judge says the same each time, and actors are killed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(LOOP, [])
        self.chance = chance
        self.says = chance.choice(["pass", "fail"])
        self.kills = 0
        self.places: dict[int, Place] = {}
        self.starts: Counter[tuple[int, str]] = Counter()

    def moment(self, place: Place | None) -> None:
        """Let nothing happen, or kill one or several of those who work."""
        if self.kills >= MOST_KILLS or self.chance.random() < 0.8:
            return
        self.kills += 1
        killed = self.chance.sample(ACTORS, self.chance.randint(1, 2))
        if place is not None and not {"keeper", "power"}.isdisjoint(killed):
            place.keeper = False
        if place is not None and not {"judge", "power"}.isdisjoint(killed):
            place.judge = False
        if not {"runner", "power"}.isdisjoint(killed):
            raise Crash

    def emit(self, step: Step) -> None:
        if self.log:
            self.moment(None)
        if isinstance(step.command, AskJudge):
            self.places = {step.command.job.attempt: Place()}
            self.moment(None)
        super().emit(step)
        self.moment(None)
        answered = any(isinstance(each.event, JudgeComplete) for each in step.events)
        if answered and not isinstance(step.command, AskJudge):
            self.places = {}

    def perform(self, run: LoopState, command: Command) -> Happening:
        self.moment(None)
        match command:
            case AskJudge():
                return self._asked(run, self.places[command.job.attempt])
            case CollectJudge():
                return self._collected(run, self.places.get(command.question.job.attempt))
            case _:
                return super().perform(run, command)

    def _asked(self, run: LoopState, place: Place) -> Happening:
        self.moment(place)
        place.has_turn = place.keeper = True
        self._work(run, place)
        verdict = place.answer or "error"  # the runner lives and sees that the keeper has ended
        return JudgeAnswered(self.now(), Judgement(verdict), ANSWER)

    def _collected(self, run: LoopState, place: Place | None) -> Happening:
        if place is None:
            return NothingCollected(self.now(), "unanswered", "elsewhere")
        self._work(run, place)
        place.judge = False
        if not place.is_started:
            return NothingCollected(self.now(), "not_started", "killed")
        if place.answer is None:
            return NothingCollected(self.now(), "unanswered", "ended")
        return JudgeAnswered(self.now(), Judgement(place.answer), ANSWER)

    def _work(self, run: LoopState, place: Place) -> None:
        """Let the keeper work until it has ended; a runner that is killed meanwhile leaves it."""
        try:
            self.moment(place)
            if place.keeper and not place.is_started:
                place.is_started = True
                self.moment(place)
                if place.keeper:
                    self._start(run, place)
            self.moment(place)
            if place.keeper:
                place.answer = self.says if place.judge else "error"
                place.keeper = place.judge = False
        except Crash:
            if place.keeper and self.chance.random() < 0.5:
                self._finish_alone(run, place)
            raise

    def _finish_alone(self, run: LoopState, place: Place) -> None:
        """What the keeper does before anybody resumes the run."""
        if not place.is_started:
            place.is_started = True
            self._start(run, place)
        place.answer = self.says if place.judge else "error"
        place.keeper = place.judge = False

    def _start(self, run: LoopState, place: Place) -> None:
        place.judge = True
        # An answer that was no answer is asked for once more, by design.
        number = 0 if run.ruling is None else run.ruling.errors
        files = "" if run.trees is None else run.trees.project or ""
        self.starts[run.step, f"{files} {number}"] += 1
        if self.starts[run.step, f"{files} {number}"] > 1:
            raise LawBroken("a judge was started again about the same files")


def play(seed: int) -> Seen:
    """Play a history to its end, resuming after each kill. Raises `LawBroken`."""
    chance = random.Random(seed)
    world = JudgeWorld(chance)
    evidence = chance.choice([None, "on"])
    while True:
        world.script = [0] * MOST_CHECKS
        try:
            run, _ = _carried_out(world, evidence)
            break
        except Crash:
            continue
    verdicts = tuple(each["verdict"] for each in world.log if each["event"] == "judge_complete")
    if run.current_state == "done" and "pass" not in verdicts:
        raise LawBroken("a run ended well without the consent of its judge")
    return Seen(world.kills, run.current_state, verdicts)


def _carried_out(world: JudgeWorld, evidence: str | None) -> tuple[LoopState, Ending]:
    """Start the run, or continue it from its log."""
    if not world.log:
        return begin(world, evidence=evidence)
    world.saved = rebuilt(world.log, world.loop)
    return go_on(world, world.script)


def first_broken(seeds: int) -> int | None:
    for seed in range(seeds):
        try:
            play(seed)
        except LawBroken:
            return seed
    return None


def main(sources: str, seeds: str) -> None:
    import little_loops

    assert little_loops.__file__.startswith(sources), little_loops.__file__
    print(first_broken(int(seeds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
