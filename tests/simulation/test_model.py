"""Whatever is done to a run, in any order, the engine and a small model of it agree.

Run, crash, resume, stop, lose power, edit the definition, damage the snapshot or the log's end,
hold its scope: after each the model says which steps are done and what the next command answers.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from little_loops.cli.resume import ResumeArgs, chosen_definition
from little_loops.definitions.loading import load_loop
from little_loops.engine.resuming import check_resumable
from little_loops.errors import ConflictError, DamagedRun, LittleLoopsError, UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED
from little_loops.runs.claims import Claim
from little_loops.runs.history import settle
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import find
from tests.engine.claimants import hold
from tests.entries import log_of
from tests.simulation.child import in_child
from tests.simulation.disk import Disk, Fault, Killed, PowerCut, heard
from tests.simulation.engine import NAME, Cue, Ended, Simulation
from tests.simulation.machines import Deed, Key
from tests.simulation.model import At, Damaged, Nothing, Story, view, whose

STEPS = ["s1", "s2", "s3", "s4"]
EXAMPLES = 100
MANY_EXAMPLES = 5_000


def definition(last_action: str = "echo 4", comment: str = "") -> str:
    lines = [f"# {comment}", f"name: {NAME}", "initial: s1", "states:"]
    for step, after in zip(STEPS, [*STEPS[1:], "done"], strict=True):
        action = last_action if step == "s4" else f"echo {step[1:]}"
        lines.append(f"  {step}: {{action: {action}, next: {after}}}")
    return "\n".join([*lines, "  done: {terminal: true}", ""])


class Accident(NamedTuple):
    """What happens to a process: in one of its actions, or before one of its file operations."""

    what: str = "nothing"
    number: int = 0
    chance: int = 0


accidents = st.one_of(
    st.just(Accident()),
    st.builds(Accident, st.sampled_from(["kill", "stop", "fail", "cut"]), st.integers(1, 4)),
    st.builds(
        Accident,
        st.sampled_from(["kill at", "cut at"]),
        st.integers(1, 130),
        st.integers(0, 1 << 30),
    ),
)


class AnyOrder(RuleBasedStateMachine):
    """The engine, the model, and everything that can happen between them."""

    def __init__(self) -> None:
        super().__init__()
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.place = tempfile.mkdtemp(prefix="ll-model-", dir=shm)
        self.cuts = 0
        self.story = Story()
        self.holder: Claim | None = None
        self.began_with = self.text = definition()

    @initialize(accident=accidents)
    def begin(self, accident: Accident) -> None:
        root = os.path.join(self.place, "0")
        os.makedirs(os.path.join(root, ".loops"))
        self._write_definition(root)
        loop = load_loop(NAME, root).loop
        self.world = Simulation(loop, self._deed, Disk(root))
        self.fails_in: str | None = None
        self.run(accident)

    @property
    def root(self) -> str:
        return self.world.disk.root

    @property
    def files(self) -> RunFiles:
        return RunFiles(self.root, NAME)

    # What is done

    @rule(accident=accidents)
    def run(self, accident: Accident) -> None:
        seen = view(self.files)
        expected = self._refusal_to_run(seen)
        there = whose(self._newest()), self.story, self.began_with
        if expected is None:
            self.story = Story()
            self.world.begun, self.world.forbidden = [], set()
            self.world.loop = load_loop(NAME, self.root).loop
            self.began_with = self.text
        ended = self._segment(accident, is_resume=False)
        self._check_refused(expected, ended)
        if ended.gone is not None and whose(self._newest()) == there[0]:
            _, self.story, self.began_with = there  # gone before it began: the old one is there
        if expected is None:
            self._after(ended, accident, before=[])

    @precondition(lambda self: self._is_anything())
    @rule(accident=accidents, wanted=st.sampled_from([None, "original", "current"]))
    def resume(self, accident: Accident, wanted: str | None) -> None:
        seen = view(self.files)
        expected = self._refusal_to_resume(seen, wanted)
        if expected is None and isinstance(seen, At):
            self.story.cut(seen.seq)
        before, owed = self.story.done(), self.story.owes_a_failure()
        chosen = self._chosen(wanted)
        if isinstance(chosen, LittleLoopsError):
            assert expected is not None, f"refused: {chosen!r}"
            assert isinstance(chosen, expected), repr(chosen)
            return
        if expected is None and chosen is not None:
            self.began_with = self.text
        self.world.forbidden = set()
        ended = self._segment(accident, is_resume=True, definition=chosen)
        self._check_refused(expected, ended)
        if expected is None:
            self._after(ended, accident, before=before, owed=owed)

    def _chosen(self, wanted: str | None) -> FSMLoop | LittleLoopsError | None:
        """What the command decides before it takes the claim."""
        try:
            with heard(self.world.disk):
                before = find(self.root, NAME)
            args = ResumeArgs(loop=before.loop.name, definition=wanted)
            loop = chosen_definition(args, self.root, before).loop
            check_resumable(NAME, loop or before.loop, before.run)
        except LittleLoopsError as error:
            return error
        return loop

    @rule(change=st.sampled_from(["comment", "action", "back"]), chance=st.integers(1, 3))
    def edit(self, change: str, chance: int) -> None:
        actions = {"comment": None, "action": f"echo {chance}{chance}", "back": "echo 4"}
        action = actions[change]
        same = self.text.splitlines()[-2].split("action: ")[1].split(",")[0]
        self.text = definition(same if action is None else action, comment=str(chance))
        self._write_definition(self.root)

    @precondition(lambda self: os.path.exists(self.files.state))
    @rule(how=st.sampled_from(["empty", "garbage", "torn", "gone"]))
    def damage_snapshot(self, how: str) -> None:
        path = self.files.state
        if how == "gone":
            os.unlink(path)
        elif how == "torn":
            os.truncate(path, os.path.getsize(path) // 2)
        else:
            with open(path, "wb") as file:
                file.write(b"" if how == "empty" else b"\0garbage\n\n")
        self._touched()

    @precondition(lambda self: os.path.exists(self.files.events))
    @rule(how=st.sampled_from(["cut", "half a line", "garbage", "zeros"]), size=st.integers(1, 900))
    def damage_the_end_of_the_log(self, how: str, size: int) -> None:
        path = self.files.events
        if how == "cut":
            os.truncate(path, max(os.path.getsize(path) - size, 0))
        else:
            pieces = {
                "half a line": b'{"event":"transi',
                "garbage": b"?\xff\n?",
                "zeros": bytes(size),
            }
            with open(path, "ab") as file:
                file.write(pieces[how])
        self._touched()

    @precondition(lambda self: self.holder is None and self._is_anything())
    @rule()
    def another_loop_holds_the_scope(self) -> None:
        self.holder = hold(self.root, "other")
        self._touched()

    @precondition(lambda self: self.holder is not None)
    @rule()
    def it_lets_go(self) -> None:
        assert self.holder is not None
        self.holder.release()
        self.holder = None
        self._touched()

    def _is_anything(self) -> bool:
        return not isinstance(view(self.files), Nothing) or any(Runs(self.root).past(NAME))

    # What must hold

    @invariant()
    def everything_can_be_listed(self) -> None:
        project = Runs(self.root)
        listed = {run.files.base for run in (*project.list(), *project.past())}
        if not isinstance(view(self.files), Nothing):
            assert NAME in listed

    def _refusal_to_run(self, seen: At | Damaged | Nothing) -> type[LittleLoopsError] | None:
        if self.holder is not None:
            return ConflictError
        if isinstance(seen, Damaged):
            return DamagedRun
        return UsageError if isinstance(seen, At) and self._is_unfinished(seen) else None

    def _refusal_to_resume(
        self, seen: At | Damaged | Nothing, wanted: str | None
    ) -> type[LittleLoopsError] | None:
        if isinstance(seen, Damaged):
            return DamagedRun
        status = self._status(seen)
        if status is None:
            return UsageError
        if wanted is None and _machine(self.text) != _machine(self.began_with):
            return UsageError
        if status[0] in ("completed", "stopped"):
            return UsageError
        return None if self.holder is None else ConflictError

    def _status(self, seen: At | Damaged | Nothing) -> tuple[str, str] | None:
        """How the newest run of that name ended, `running` if it did not."""
        if isinstance(seen, Nothing):
            return self.story.ended() if any(Runs(self.root).past(NAME)) else None
        assert isinstance(seen, At)
        story = Story()
        story.records = dict(self.story.records)
        story.cut(seen.seq)
        return story.ended() or ("running", "")

    def _is_unfinished(self, seen: At) -> bool:
        status = self._status(seen)
        return status is not None and status[0] in UNFINISHED

    def _check_refused(self, expected: type[LittleLoopsError] | None, ended: Ended) -> None:
        if expected is not None and ended.gone is None:
            assert isinstance(ended.error, expected), ended
        elif expected is None:
            assert ended.error is None, repr(ended.error)

    def _after(
        self, ended: Ended, accident: Accident, before: list[str], owed: bool = False
    ) -> None:
        """Steps run in order, none twice but the one under way, none left out."""
        self._learn(ended)
        done = self.story.done()
        assert done == STEPS[: len(done)]
        assert done[: len(before)] == before
        if ended.ran is None:
            return
        if owed:
            assert ended.ran.run.status == "failed"
        elif accident.what == "stop" and accident.number <= len(STEPS) - len(before):
            assert ended.ran.run.status == "interrupted"
            assert done == STEPS[: len(before) + accident.number - 1]
        elif self.fails_in is not None and self.fails_in not in before:
            assert (ended.ran.run.status, ended.ran.run.reason) == ("failed", "error")
        else:
            assert ended.ran.run.status == "completed"
            assert done == STEPS

    def _learn(self, ended: Ended) -> None:
        """What is in the log is what was told; a crash may have kept it from being told."""
        seen = view(self.files)
        assert not isinstance(seen, Damaged), "damaged by a crash alone"
        for record in log_of(self._newest()):
            known = self.story.records.get(record["seq"])
            assert known is None or known == record
            self.story.add(record)

    def _newest(self) -> RunFiles:
        """The files of the run that a name means."""
        past = next(Runs(self.root).past(NAME), None)
        return past.files if isinstance(view(self.files), Nothing) and past else self.files

    # How it is done

    def _segment(self, accident: Accident, *, is_resume: bool, **more: Any) -> Ended:
        cue, fault = self._cue(accident), self._fault(accident)
        self.fails_in = STEPS[accident.number - 1] if accident.what == "fail" else None
        ended = self.world.segment(is_resume=is_resume, fault=fault, cue=cue, **more)
        if ended.gone is PowerCut:
            self._come_up_again(accident.chance)
        if ended.gone is not None:
            self.everything_can_be_listed()
            with heard(self.world.disk):
                settle(self.root, NAME)  # as every command does that goes on from here
        return ended

    def _cue(self, accident: Accident) -> Cue | None:
        transitions: dict[str, type[BaseException] | int] = {
            "kill": Killed,
            "cut": PowerCut,
            "stop": 15,
        }
        way = transitions.get(accident.what)
        return None if way is None else Cue(accident.number, way)

    def _fault(self, accident: Accident) -> Fault | None:
        gone = {"kill at": Killed, "cut at": PowerCut}.get(accident.what)
        if gone is None:
            return None
        disk, last = self.world.disk, self.world.disk.operations + accident.number

        def fault(what: str, arguments: tuple[Any, ...]) -> None:
            if disk.operations == last:
                disk.kill(gone)

        return fault

    def _come_up_again(self, chance: int) -> None:
        """The machine is up again; whoever held something does not any more."""
        if self.holder is not None:
            self.holder.release()
            self.holder = None
        self.cuts += 1
        place = os.path.join(self.place, str(self.cuts))
        self.world.disk = self.world.disk.after_power_cut(random.Random(chance), place)
        self._write_definition(self.root)

    def _deed(self, key: Key) -> Deed:
        return Deed(2 if STEPS[key.step - 1] == self.fails_in else 0, "", 10)

    def _write_definition(self, root: str) -> None:
        os.makedirs(os.path.join(root, ".loops"), exist_ok=True)
        with open(os.path.join(root, ".loops", f"{NAME}.yaml"), "w") as file:
            file.write(self.text)

    def _touched(self) -> None:
        """Somebody else wrote there: to the disk that is as it is, to us what was is unknown."""
        self.world.disk = Disk(self.root)
        self.world.begun = []

    def teardown(self) -> None:
        if self.holder is not None:
            self.holder.release()
        if hasattr(self, "world"):
            self.world.close()
        shutil.rmtree(self.place, ignore_errors=True)


def _machine(text: str) -> str:
    return text.partition("\n")[2]


def agree(examples: int) -> None:
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=examples,
            stateful_step_count=10,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_engine_and_model_agree(record_property):
    in_child(partial(agree, EXAMPLES))
    record_property("figure: model examples", EXAMPLES)


@pytest.mark.soak
def test_engine_and_model_agree_for_long(record_property):
    in_child(partial(agree, MANY_EXAMPLES))
    record_property("figure: model examples", MANY_EXAMPLES)
