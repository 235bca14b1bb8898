"""Where a judge and its answer are kept for a process that resumes the run, and how they get there.

    STATE/judges/RUN/STEP-ATTEMPT/    the files of `system.kept`

It is outside the project, like the seals: the agents that are judged could write into the run's
directory. It is made before the question is recorded, so a question without it was asked elsewhere,
and is removed when the answer is recorded.

Not here: when a judge is asked (`fsm.judges`), its prompt and its answer (`judge_turns`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from little_loops.engine.action_process import OutputSink, Workplace, run_program
from little_loops.errors import StorageError
from little_loops.fsm.commands import AskJudge, Finish, Job
from little_loops.fsm.events import JudgeComplete
from little_loops.fsm.machine import Step
from little_loops.light_typing import TYPE_CHECKING, Any, Final
from little_loops.records import NamedTuple
from little_loops.runs.layout import output_stem
from little_loops.system import kept, process, process_tree
from little_loops.system.files import PRIVATE_FOLDER, Folder, failure
from little_loops.system.user_state import check_owner, state_home

if TYPE_CHECKING:
    from little_loops.system.process_tree import Plan
    from little_loops.system.stops import StopFlag

JUDGES: Final = "judges"
LATER_S: Final = 2.0
"""How much later than the run the keeper ends a judge that takes too long: only if nobody else
does."""


class JudgePlaces:
    """The places of the judges of a user's runs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._home = os.path.join(state_home(environ), JUDGES)
        self._ended: set[str] = set()

    def before(self, step: Step) -> None:
        """Make the place of a question that is about to be recorded, synced."""
        if isinstance(step.command, AskJudge):
            self.discard(step.run.run)
            stem = _stem(step.command.job)
            with self._folder(step.run.run) as own:
                own.make(stem).close()
            self._ended.add(stem)  # nothing is left of it when its answer is here

    def after(self, step: Step) -> None:
        """Remove the place of a question whose answer was recorded, at the latest when the run ends."""
        answered = any(isinstance(each.event, JudgeComplete) for each in step.events)
        if isinstance(step.command, Finish) or (
            answered and not isinstance(step.command, AskJudge)  # then it is that of the next one
        ):
            self.discard(step.run.run)

    def of(self, run: str, job: Job) -> Folder | None:
        """Return the place of a question; None if it was not asked here."""
        return Folder.at(os.path.join(self._home, run, _stem(job)))

    def end(self, run: str, job: Job, stop: StopFlag | None) -> None:
        """End what is left of a judge that a killed runner has asked."""
        marks = process_tree.marks_of(run, job.step, job.attempt)
        process_tree.sweep(run, (), job.kill_grace_s, marks=marks, stop=stop)
        self._ended.add(_stem(job))

    def discard(self, run: str) -> None:
        """Remove all places of a run, and end a judge there that was not collected."""
        own = Folder.at(os.path.join(self._home, run))
        if own is None:
            return
        with own:
            for name in own.names():
                if name not in self._ended:
                    step, attempt = map(int, name.split("-"))
                    process_tree.sweep(run, marks=process_tree.marks_of(run, step, attempt))
                if (place := own.child(name)) is not None:
                    with place:
                        kept.discard(place)
                    os.rmdir(name, dir_fd=own.fd)
        with suppress(OSError):
            os.rmdir(own.path)

    def _folder(self, run: str) -> Folder:
        """Return the directory of a run's places. Raises `StorageError`."""
        try:
            os.makedirs(self._home, mode=PRIVATE_FOLDER, exist_ok=True)
        except OSError as error:
            raise failure(error, "make", self._home) from error
        home = Folder.at(self._home)
        if home is None:
            raise StorageError(f"`{self._home}` was removed while it was being created")
        with home:
            check_owner(home)
            return home.make(run)


def _stem(job: Job) -> str:
    return output_stem(job.step, job.attempt)


class KeptProgram(NamedTuple):
    """Runs the program of a judge so that it outlives this process."""

    place: Folder
    about: Any

    def run(
        self,
        at: Workplace,
        job: Job,
        argv: Sequence[str],
        env: Mapping[str, str],
        streams: OutputSink,
        *,
        plan: Plan,
        stdin: bytes | None = None,
        leftovers: Plan | None = None,
    ) -> process.Ended | process.CannotStart:
        """Run it as `run_program` does, with a keeper between the two."""
        assert job.deadline_ms is not None, "a judge has a time limit"
        text = (stdin or b"").decode("utf-8", "surrogateescape")
        limit_s = job.deadline_ms / 1000 + LATER_S
        turn = kept.Turn(argv, text, limit_s, plan, job.kill_grace_s, self.about)
        lock = kept.prepare(self.place, turn)
        try:
            at = at._replace(kept_open=(*at.kept_open, lock))
            keeper = kept.command(self.place)
            ended = run_program(at, job, keeper, env, streams, plan=plan, leftovers=leftovers)
        finally:
            os.close(lock)
        seen = kept.end_of(self.place)
        if seen is None or isinstance(ended, process.CannotStart):
            return ended
        cut_by = seen.cut_by if ended.cut_by == "none" else ended.cut_by
        return seen._replace(cut_by=cut_by, pid=ended.pid, left=ended.left)


class CollectedProgram(NamedTuple):
    """Reads what the program of a judge has printed, which ended like this."""

    place: Folder
    ended: process.Ended

    def run(
        self,
        at: Workplace,
        job: Job,
        argv: Sequence[str],
        env: Mapping[str, str],
        streams: OutputSink,
        *,
        plan: Plan,
        stdin: bytes | None = None,
        leftovers: Plan | None = None,
    ) -> process.Ended | process.CannotStart:
        """Pass on its output as `run_program` does, and start nothing."""
        for feed, name in zip((streams.stdout, streams.stderr), kept.STREAMS, strict=True):
            for piece in kept.printed(self.place, name):
                feed(piece)
        return self.ended
