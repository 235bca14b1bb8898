"""Run the checks of a loop once, in order, without a run: nothing is claimed, stored or restored.

Not here: which states are checks (`fsm.check_machine`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence

from little_loops.engine.action_process import Workplace, inherited
from little_loops.engine.drive import drive, new_run
from little_loops.engine.resolve import Values, fill, judge_now
from little_loops.engine.shell_actions import run_shell
from little_loops.fsm.check_machine import ALL_PASSED, NOT_PASSED, check_machine
from little_loops.fsm.commands import Command, EndLeftovers, Judge, RunShell
from little_loops.fsm.events import (
    ActionComplete,
    ActionStart,
    ConditionEval,
    Entry,
    LoopError,
    Sampled,
    TransitionTaken,
)
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    Started,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.protection import protected_by
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import LoopState, Note, Result
from little_loops.light_typing import Any, Literal
from little_loops.records import NamedTuple
from little_loops.system import process_tree
from little_loops.system.clock import RunClock
from little_loops.system.plain_files import reading
from little_loops.system.stops import StopFlag

Answer = Literal["pass", "fail", "error"]
SETUP = "set up"
"""No state can have this name, because it contains a space."""
SHOWN = 8 << 10
"""How much of the end of a long output is shown."""


class CheckRun(NamedTuple):
    """One check that ran: the state, the verdict and the output."""

    state: str
    command: str
    verdict: Answer = "error"
    reason: str = ""
    exit_code: int | None = None
    output: str = ""


class Checked(NamedTuple):
    """The result of a loop's checks; `error` means that they could not be judged."""

    answer: Answer
    checks: tuple[CheckRun, ...]
    reason: str = ""


def run_checks(
    loop: FSMLoop,
    checks: Sequence[str],
    project: str,
    environ: Mapping[str, str],
    stop: StopFlag | None = None,
    translate: Callable[[str], str] = str,
) -> Checked:
    """Run these shell checks in `project`, which may be a copy, until one fails; nothing is stored.

    `translate` replaces the paths in their texts: those of the project by those of the copy. A
    stop, or a check that cannot be judged, gives the answer `error`. Processes that they left
    running are ended.
    """
    machine = check_machine(loop, tuple(checks))
    with tempfile.TemporaryDirectory(prefix="ll-check-") as directory:
        at = Workplace(project, directory, inherited(environ), stop)
        world = CheckWorld(machine, at, translate)
        now = world.clock.now()
        run = new_run(machine, f"check-{os.urandom(8).hex()}", now)
        run, ending = drive(machine, run, Started(now), world)
    if ending.reason == "terminal":
        answer: Answer = "pass" if run.current_state == ALL_PASSED else "fail"
        return Checked(answer, tuple(world.checks))
    return Checked("error", tuple(world.checks), ending.message or ending.reason)


def run_checks_in_copy(
    loop: FSMLoop,
    checks: Sequence[str],
    root: str,
    environ: Mapping[str, str],
    stop: StopFlag | None = None,
) -> Checked:
    """Run the checks in a clean copy of the project as it is now; its path is replaced in their
    output.

    The store and the copy are temporary, so that runs of the project do not have to wait. A stop
    while the copy is made gives the answer `error`. Raises `StoreError` if it cannot be made.
    """
    from little_loops.trees.git import Interrupted  # only loops that want a copy need it

    try:
        return _run_in_copy(loop, checks, root, environ, stop)
    except Interrupted:
        return Checked("error", (), "stopped while the clean copy was made")


def _run_in_copy(
    loop: FSMLoop,
    checks: Sequence[str],
    root: str,
    environ: Mapping[str, str],
    stop: StopFlag | None,
) -> Checked:
    from little_loops.trees.copies import CleanCopy  # only loops that want a copy need it
    from little_loops.trees.git import find_git
    from little_loops.trees.store import TreeStore

    with tempfile.TemporaryDirectory(prefix="ll-copy-") as home:
        store = TreeStore.open(root, home, find_git(root, environ, stop))
        rules = store.rules("check", loop.scope, protected_by(loop), around=True)
        taken = store.snapshot(rules)
        copy = CleanCopy(store, rules, home)
        with copy.held():
            path = copy.lay_out(taken.project, taken.guard, links=loop.evidence.setup is None)
            at = Workplace(path, path, copy.environment(environ), stop)
            checked = _after_setup(loop, checks, at, copy.translate)
    there, here = copy.whole.copy, copy.whole.real
    named = tuple(one._replace(output=one.output.replace(there, here)) for one in checked.checks)
    return checked._replace(checks=named, reason=checked.reason.replace(there, here))


def _after_setup(
    loop: FSMLoop,
    checks: Sequence[str],
    at: Workplace,
    translate: Callable[[str], str],
) -> Checked:
    """Run `setup` first, as if it were a check; if it fails, the answer is `error`."""
    setup = loop.evidence.setup
    if setup is None:
        return run_checks(loop, checks, at.project, at.environ, at.stop, translate)
    state = StateConfig(action=setup, action_type="shell", check=True)
    loop = loop._replace(states={SETUP: state, **loop.states})
    checked = run_checks(loop, (SETUP, *checks), at.project, at.environ, at.stop, translate)
    if checked.answer == "fail" and checked.checks[-1].state == SETUP:
        return checked._replace(answer="error", reason="`setup` failed in the clean copy")
    return checked


class CheckWorld:
    """A world with real processes that stores nothing permanently."""

    def __init__(
        self, machine: FSMLoop, at: Workplace, translate: Callable[[str], str] = str
    ) -> None:
        self.machine = machine
        self.at = at
        self.translate = translate
        self.clock = RunClock()
        self.checks: list[CheckRun] = []
        self._is_repeated = False

    def emit(self, step: Step) -> None:
        for entry in step.events:
            self._note(entry)

    def save(self, run: LoopState) -> None:
        """Do nothing; nothing is stored."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return nothing; checks have no mailbox."""
        return ()

    def perform(self, run: LoopState, command: Command) -> Happening:
        """Run and judge shell checks, and end what they left running; any other command is a wait,
        and over at once."""
        match command:
            case RunShell():
                return self._run(run, command)
            case Judge():
                return Judged(self.clock.now(), judge_now(command, run, self._values(run)))
            case EndLeftovers():
                roots = [os.getpid()] if process_tree.is_adopting() else []
                grace_s, stop = self.machine.kill_grace, self.at.stop
                process_tree.sweep(run.run, (), grace_s, roots=roots, stop=stop)
                return LeftoversEnded(self.clock.now(), command.ending)
            case _:
                # The checks run once in order, so there is nothing to wait for.
                return WaitOver(self.clock.now())

    def _run(self, run: LoopState, command: RunShell) -> Happening:
        """Run a check; if it cannot be filled in, the result has a `failure`. A stop has priority
        over the result."""
        filled = fill(command, self._values(run))
        if isinstance(filled, str):
            return ActionEnded(self.clock.now(), Result(None, 0, failure=filled))
        acted = run_shell(self.at, run, command, filled.translated(self.translate))
        if self.at.stop is not None and self.at.stop.signal is not None:
            return StopAsked(self.clock.now(), self.at.stop.signal)
        return ActionEnded(self.clock.now(), *acted[:3])

    def _values(self, run: LoopState) -> Values:
        return Values(self.machine, run, self.at.environ, self.at.run_dir)

    def _note(self, entry: Entry) -> None:
        """Update `checks`: the start of an action adds one, other events complete the last one."""
        match entry.event:
            case ActionStart(action=action, state=state):
                if not self._is_repeated:
                    self.checks.append(CheckRun(state, action))
                self._is_repeated = False
            case Sampled():
                self._is_repeated = True
            case ActionComplete(result=result):
                self._update(exit_code=result.exit_code, output=_printed(self.at.run_dir, result))
            case ConditionEval(reason=reason):
                self._update(reason=reason)
            case TransitionTaken(to=to):
                after = self.machine.states[to]
                if after.terminal or after.action is not None:  # else it is judged there
                    self._update(verdict="fail" if to == NOT_PASSED else "pass")
            case LoopError(error=error, reason=why) if why != "terminal":
                self._update(reason=error)
            case _:
                pass

    def _update(self, **fields: Any) -> None:
        self.checks[-1] = self.checks[-1]._replace(**fields)


def _printed(directory: str, result: Result) -> str:
    """Return stdout, then stderr; of one that is in a file, only the last 8 KiB."""
    texts = []
    for text, file in ((result.output, result.output_file), (result.stderr, result.stderr_file)):
        if file is not None:
            with reading(os.path.join(directory, file.path)) as stream:
                stream.seek(max(0, file.size - SHOWN))
                text = stream.read().decode("utf-8", "replace")
        texts.append((text or "").removesuffix("\n"))
    return "\n".join(filter(None, texts))
