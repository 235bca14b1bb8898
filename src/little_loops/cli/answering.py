"""What `approve` and `reject` share: check the gate, store the answer, resume the run."""

from __future__ import annotations

import os
import time

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.options import WatchArgs, flag, operand, value
from little_loops.cli.resume import ResumeArgs, continue_run
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, ConflictError, StorageError, UsageError
from little_loops.fsm.gates import open_gate, refused_target
from little_loops.fsm.state import Answer, LoopState
from little_loops.records import NamedTuple
from little_loops.runs import refusals
from little_loops.runs.answers import (
    MAX_TEXT_BYTES,
    quoted_answer,
    read_answer,
    settled_answer,
)
from little_loops.runs.folders import folder_of
from little_loops.runs.layout import DATA
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.refusals import already_answered
from little_loops.runs.stored_run import StoredRun, find
from little_loops.system.files import Folder
from little_loops.terminal.console import print_json, say
from little_loops.terminal.summaries import clause_of

MOVING_S = 5
"""Files are moved to the history, or back, within milliseconds."""


class AnswerArgs(WatchArgs):
    """What `approve` and `reject` take."""

    loop: str = operand("a loop's name, or NAME@ID")
    message: str | None = value(
        "a message for the loop, available as `${loop.answer}`", "-m", metavar="TEXT"
    )
    background: bool = flag("run in the background")
    no_resume: bool = flag("only store the answer; to continue the run, use `ll-loop resume`")
    definition: str | None = value(
        "which definition to use if the loop file has changed since the run started",
        choices=("original", "current"),
    )
    allow_skip_permissions: bool = flag(
        "let agents skip permission prompts; see `ll-loop trust --help`"
    )
    fleet: str | None = FLEET
    local: bool = LOCAL


class GivenAnswer(NamedTuple):
    """An answer from the command line, not bound to a gate yet; `path` is that of the run."""

    answer: Answer
    path: str

    def find(self, root: str, name: str) -> StoredRun:
        """Return the run.

        Raises `UsageError` if it waits at no gate, has already been answered, or cannot continue in
        the chosen state.
        """
        verb = "reject" if self.answer.verdict == "rejected" else "approve"
        before = _find(root, name.partition("/")[0], verb)
        gate = self._gate(before)
        if (first := _answer_to(gate)) is not None:
            raise _too_late(name, first)
        if (why := _not_open(gate)) is not None:
            raise why
        to = self.answer.to
        if to is not None and (refused := refused_target(gate.loop, gate.run, to)):
            raise UsageError(refused)
        return before

    def _gate(self, before: StoredRun) -> StoredRun:
        """Return the run that waits at the gate: the one that was named, or one that it started."""
        if "/" not in self.path and before.run.children is None:
            return before
        from little_loops.cli.child_gates import gate_of  # few runs start others

        return gate_of(before, self.path)

    def ends(self, before: StoredRun) -> bool:
        gate = self._gate(before)
        state = gate.loop.states[gate.run.current_state]
        is_root = gate.files == before.files
        return is_root and self.answer.verdict == "rejected" and state.on_rejected is None

    def store(self, before: StoredRun) -> bool:
        """Store the answer with the run; raise `UsageError` if there is another answer.

        Returns whether other gates are open, so that the run does not continue yet.
        """
        gate = self._gate(before)
        mine = self.answer._replace(gate=open_gate(gate.run) or 0)
        with _data_of(gate) as data:
            settled = settled_answer(data, gate.run, mine)
        if settled is not mine:
            raise _too_late(self.path, settled)
        if before.run.children is None:
            return False
        from little_loops.cli.child_gates import mention_open_gates  # few runs start others

        return mention_open_gates(before)


def answer_gate(args: AnswerArgs, answer: Answer) -> int:
    """Answer the gate of a run, and continue the run unless `--no-resume`. Return the exit code.

    Raises `UsageError` if the text is too long or the run cannot be answered.
    """
    if len(answer.text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise UsageError(f"the message is longer than {MAX_TEXT_BYTES} bytes", "put it in a file")
    root = find_project(os.getcwd())
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import answer_run  # few users have a fleet

        return answer_run(args, root, address, answer)
    given = GivenAnswer(answer, run_named(args.loop, root))
    if not args.no_resume:
        return continue_run(_as_resume(args), given)
    before = given.find(root, given.path)
    given.store(before)
    name = before.files.name
    if args.json:
        print_json({"schema": 1, "name": name, "answer": answer.verdict})
    elif not args.quiet:
        say(f"{name} is {answer.verdict}; `ll-loop resume {name}` continues it")
    return OK


def _as_resume(args: AnswerArgs) -> ResumeArgs:
    names = [name for name in ResumeArgs.table if name in args.table]
    return ResumeArgs(**{name: getattr(args, name) for name in names})


def _find(root: str, name: str, verb: str = "resume") -> StoredRun:
    """Read the run; wait while the command that continues it moves its files.

    Raises `UsageError` if there is no run to `verb`, `ConflictError` if its files are not settled in
    time.
    """
    for tried in range(MOVING_S * 20):
        try:
            return find(root, name, verb)
        except ConflictError:
            time.sleep(0.05)
        except UsageError:  # neither here nor in the history: on its way, or not there at all
            if tried > 2:
                raise
            time.sleep(0.05)
    return find(root, name, verb)


def _answer_to(before: StoredRun) -> Answer | None:
    """Return the answer that the open gate has; nobody may have recorded it yet."""
    if open_gate(before.run) is None:
        return None
    with _data_of(before) as data:
        return read_answer(data, before.run)


def _data_of(before: StoredRun) -> Folder:
    """Open the run's data directory; raise `UsageError` if another answer has ended the run.

    Raises `StorageError` if the directory is missing for another reason.
    """
    folder = folder_of(before.files)
    data = None
    if folder is not None:
        with folder:
            data = folder.child(before.files.base + DATA)
    if data is None:  # another answer was faster, and its run is in the history
        now = _find(before.files.root, before.files.name)
        raise _not_open(now) or StorageError(f"`{before.files.data}` is missing")
    return data


def _not_open(before: StoredRun) -> UsageError | None:
    """Return why a run cannot be answered; None if it waits at a gate."""
    run, name = before.run, before.files.name
    view = Runs(before.files.root).view(name)
    is_alive = view is not None and view.is_alive
    if before.run.children is not None:
        return UsageError(f"none of the runs that `{name}` started is waiting at a gate")
    if open_gate(run) is not None and not is_alive:
        return None
    if run.status == "needs_review" and run.reason != "review":
        why = f"`{name}` is paused ({run.reason}), not waiting for an answer"
        return UsageError(why, f"`ll-loop resume {name}` continues it")
    how = clause_of("running") if is_alive else _how_it_ended(run)
    why = refusals.not_at_a_gate(name, how).message
    if run.answer is not None:
        why += f"; its last gate was {quoted_answer(run.answer)}"
    help = "`ll-loop resume` opens the gate again" if run.reason == "rejected" else None
    return UsageError(why, help)


def _how_it_ended(run: LoopState) -> str:
    """Return how a run that is not alive ended, as the rest of a sentence."""
    return "was interrupted (crashed)" if run.status == "running" else clause_of(run.status)


def _too_late(name: str, first: Answer) -> UsageError:
    """Return the error for a gate that already has an answer."""
    return UsageError(*already_answered(name, first))
