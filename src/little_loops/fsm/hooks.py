"""Which hook runs at a point of a run, and what it is told.

A hook runs at least once: its end is recorded, so one that was interrupted runs again. What a hook
is about is the same then, and so is its `event_id`.

Not here: when a point is reached (`machine`), running a hook (`engine.hooks`), hooks for events,
which run beside the machine (`engine.event_hooks`).
"""

from __future__ import annotations

from little_loops.fsm.commands import Ending, RunHook
from little_loops.fsm.events import HookRun, hook_failure
from little_loops.fsm.evolve import AFTER_ACTION, RUN_HOOKS
from little_loops.fsm.happenings import HookEnded
from little_loops.fsm.next_action import side_job
from little_loops.fsm.schema import FSMLoop, Hook
from little_loops.fsm.state import Judgement, LoopState
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any, Literal

Point = Literal["start", "entry", "exit", "end"]
"""When hooks run: when a process starts or resumes the run, when a state is entered, when its
verdict is known, and when the process ends or pauses the run."""
HOOKS_AT: dict[Point, tuple[str, ...]] = {
    "start": ("before_run",),
    "entry": ("before_state", "before"),
    "exit": ("after", "after_state"),
    "end": ("after_run",),
}
"""The hooks at each point, in order: a state's hooks run between the loop's."""
REQUIRED = ("before_run", "before_state", "before")
"""The hooks whose failure prevents what follows, unless they set `required`."""
HAS_RUN = ("judging", "judged")
"""The phases in which the state's action has ended."""


def hook_due(
    builder: StepBuilder, point: Point, judgement: Judgement | None, ending: Ending | None
) -> RunHook | None:
    """Return the next hook at this point that has not run yet; None if there is none."""
    run = builder.run
    if point in ("entry", "exit") and _is_rerun(run):
        return None
    if point == "exit" and (run.phase not in HAS_RUN or builder.state.action is None):
        return None  # no action ran
    for name in HOOKS_AT[point]:
        hook = _hook_of(builder.loop, run.current_state, name)
        if hook is not None and name not in run.hooks_done:
            return _command(builder, name, hook, judgement, ending)
    return None


def _is_rerun(run: LoopState) -> bool:
    """Return whether a check runs again only to confirm its pass, which is no entry of a state."""
    return run.trees is not None and run.trees.headed is not None


def _hook_of(loop: FSMLoop, state: str, name: str) -> Hook | None:
    """Return the hook of this name for a state; None if there is none."""
    if name in ("before", "after"):
        hook: Hook | None = getattr(loop.states[state], name)
        return hook
    hook = None if loop.hooks is None else getattr(loop.hooks, name)
    return None if hook is None or (hook.states and state not in hook.states) else hook


def _command(
    builder: StepBuilder,
    name: str,
    hook: Hook,
    judgement: Judgement | None,
    ending: Ending | None,
) -> RunHook:
    """Return the command that runs a hook."""
    loop, run = builder.loop, builder.run
    job = side_job(loop, run, round(hook.timeout * 1000))
    about = _about(builder, name, judgement, ending)
    return RunHook(name, hook, job, _event_id(builder, name), about, loop.shell, ending)


def _event_id(builder: StepBuilder, name: str) -> str:
    """Return the id of what the hook is about: the entry of a state, or the event that led here."""
    run = builder.run
    return f"{run.run}/{builder.seq if name in RUN_HOOKS else run.step}/{name}"


def _about(
    builder: StepBuilder, name: str, judgement: Judgement | None, ending: Ending | None
) -> dict[str, Any]:
    """Return what the hook is told, in the form of an event."""
    run = builder.run
    about: dict[str, Any] = {
        "event": name,
        "ts": timestamp(builder.at.wall_ms),
        "run": run.run,
        "loop": run.loop,
        "state": run.current_state,
        "iteration": run.iteration,
        "step": run.step,
        "context": dict(run.context),
    }
    if name == "before_run":
        about["resumed"] = builder.seq > 1
    if name in AFTER_ACTION:
        about.update(_outcome(run, judgement))
    if ending is not None:
        about.update(status=ending.status, reason=ending.reason, message=ending.message)
    return about


def _outcome(run: LoopState, judgement: Judgement | None) -> dict[str, Any]:
    """Return how the state's action ended, and its verdict, if one was needed."""
    result = run.captured[run.current_state]
    verdict = {} if judgement is None else judgement._asdict()
    return {
        "verdict": verdict.get("verdict"),
        "reason": verdict.get("reason", ""),
        "exit_code": result.exit_code,
        "duration_ms": result.duration_ms,
    }


def note_hook(builder: StepBuilder, ended: HookEnded) -> str:
    """Record that a hook has run. Return why that prevents what follows; empty if it does not."""
    run = builder.run
    required = _is_required(builder, ended.name)
    state, took_ms, problem = run.current_state, ended.duration_ms, ended.problem
    event = HookRun(ended.name, state, run.step, took_ms, required, problem)
    builder.note(event)
    return hook_failure(event) if problem and required else ""


def _is_required(builder: StepBuilder, name: str) -> bool:
    """Return whether a failure of this hook prevents what follows. At the end of a run it does not,
    whatever the hook says."""
    if name == "after_run" or (name != "before_run" and _is_last_state(builder)):
        return False
    hook = _hook_of(builder.loop, builder.run.current_state, name)
    assert hook is not None, "a hook that has run must be defined in the loop"
    return name in REQUIRED if hook.required is None else hook.required


def _is_last_state(builder: StepBuilder) -> bool:
    return builder.state.terminal or builder.run.timed_out_in is not None
