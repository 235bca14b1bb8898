"""Run a hook: a command that gets what it is about as JSON on its standard input.

Not here: which hook runs when (`fsm.hooks`), hooks for events (`event_hooks`).
"""

from __future__ import annotations

from contextlib import nullcontext
from signal import SIGTERM, Signals

from little_loops.engine.action_process import environment, run_program
from little_loops.engine.local_world import LocalWorld
from little_loops.engine.resolve import known_environment
from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.commands import RunHook
from little_loops.fsm.happenings import HookEnded
from little_loops.fsm.state import LoopState
from little_loops.fsm.values import seconds_text
from little_loops.records import NamedTuple
from little_loops.system import process
from little_loops.system.files import to_json

TAIL_BYTES = 4096


class Tail:
    """Keeps the end of what a hook prints; the rest is discarded."""

    def __init__(self) -> None:
        self._kept = b""

    def stdout(self, chunk: bytes) -> None:
        self._kept = (self._kept + chunk)[-TAIL_BYTES:]

    stderr = stdout

    @property
    def last_line(self) -> str:
        text = without_colours(self._kept).decode("utf-8", "replace")
        return text.rstrip().rpartition("\n")[2].strip()


class HookOutcome(NamedTuple):
    """How long a hook took, why it failed, and whether a stop cut it."""

    duration_ms: int
    problem: str = ""
    is_cut: bool = False


def run_hook(world: LocalWorld, run: LoopState, command: RunHook) -> HookEnded:
    """Run a hook to its end. At the end of a run, only a further stop cuts it."""
    stop = world.services.stop
    patient = stop is not None and command.ending is not None
    with stop.disregarded() if stop is not None and patient else nullcontext():
        outcome = _run(world, run, command)
    took_ms, problem, is_cut = outcome
    signal = stop.signal if stop is not None and is_cut and not patient else None
    return HookEnded(world.clock.now(), command.name, took_ms, problem, signal, command.ending)


def _run(world: LocalWorld, run: LoopState, command: RunHook) -> HookOutcome:
    """Run the command of a hook, and return how it ended. What it left running continues."""
    job, at, tail = command.job, world.workplace, Tail()
    world.learn(command.hook.env)
    known = known_environment(job, world.values(run))
    own = {
        "LL_HOOK": command.name,
        "LL_EVENT_ID": command.event_id,
        **({"LL_RESUMED": "1"} if command.about.get("resumed") else {}),
    }
    ended = run_program(
        at,
        job,
        [command.shell, "-c", command.hook.action],
        environment(at, run, job, {**known, **command.hook.env, **own}),
        tail,
        plan=((SIGTERM, job.kill_grace_s),),
        stdin=to_json(command.about) + b"\n",
    )
    if isinstance(ended, process.CannotStart):
        return HookOutcome(0, ended.reason)
    problem = _problem(ended, command.hook.timeout, tail.last_line)
    return HookOutcome(ended.duration_ms, problem, ended.cut_by == "stop")


def _problem(ended: process.Ended, timeout_s: float, last_line: str) -> str:
    """Return why a hook failed; empty if it did not."""
    match ended.cut_by:
        case "deadline":
            return f"took longer than {seconds_text(timeout_s)}"
        case "stop":
            return "interrupted"
        case _:
            return exit_problem(ended.exit_code, ended.signal, last_line)


def exit_problem(exit_code: int | None, signal: int | None, last_line: str) -> str:
    """Return why a command failed, with the last line that it printed; empty if it did not."""
    if exit_code == 0:
        return ""
    how = f"exit {exit_code}" if signal is None else f"ended by {Signals(signal).name}"
    return f"{how}: {last_line}" if last_line else how
