"""Plan the action that a state runs next: everything the engine must know, and nothing to decide.

The author's context is filled in here, because it decides the type of the action; data (output of
commands, the environment) stay references that the engine fills in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from little_loops.fsm.actions import Action, Agent, Builtin, Loop, Shell, parse_action, text_of
from little_loops.fsm.commands import Job, RunAction, RunAgent, RunBuiltin, RunShell
from little_loops.fsm.limits import cost_left_usd, iterations_allowed, time_left_ms
from little_loops.fsm.schema import BRANCH, FSMLoop, StateConfig
from little_loops.fsm.state import LoopState, NotKept
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.tree_steps import copy_for
from little_loops.fsm.turn_hosts import host_of
from little_loops.fsm.values import author_context, values_of
from little_loops.fsm.verdicts import asks_verdict
from little_loops.light_typing import Any, assert_never
from little_loops.records import NamedTuple
from little_loops.templates.render import lookup_in, references, show, splice

HANDLER_TIMEOUT_MS = 60_000


class PlannedAction(NamedTuple):
    """The command for an action, and the text of the action for events."""

    command: RunAction
    action: Action
    shown: str

    @property
    def session_id(self) -> str | None:
        match self.command:
            case RunAgent(session_id=session):
                return session
            case _:
                return None


def action_due(loop: FSMLoop, run: LoopState, at: Moment) -> PlannedAction:
    """Return the next attempt of the current state's action. Raises `Unresolved` or
    `TemplateError`."""
    state = loop.states[run.current_state]
    context = author_context(run.context, state)
    assert state.action is not None, "a state without an action is not due"
    action = parse_action(splice(state.action, context), state.action_type)
    job = _job(loop, run, run.attempt + 1, context, at)
    shown = _shown(text_of(action), [*job.context.values(), *job.env.values()], loop, run, at)
    return PlannedAction(_command(action, job, loop, run), action, shown)


def _command(action: Action, job: Job, loop: FSMLoop, run: LoopState) -> RunAction:
    """Return the command that runs the action; a check in a clean copy gets that copy."""
    state = loop.states[run.current_state]
    match action:
        case Shell():
            copy = copy_for(loop.evidence.setup, run)
            return RunShell(job, action.script, state.shell or loop.shell, copy)
        case Agent():
            return RunAgent(
                job,
                action.text,
                action.is_slash,
                host=host_of(loop, run),
                session_id=turn_session(run, job.attempt),
                words=asks_verdict(state),
                cost_left_usd=cost_left_usd(loop, run),
                restored=run.trees.restored if run.trees is not None else (),
                notes=(*(note.text for note in run.notes), *_veto(run)),
                not_kept=_not_kept(run),
            )
        case Builtin():
            return RunBuiltin(job, action.name)
        case Loop():
            raise AssertionError("a state that starts runs has no action itself")
        case _:
            assert_never(action)


def _veto(run: LoopState) -> tuple[str, ...]:
    """Return what a judge had against the last pass of its check, if it has not run since."""
    if run.veto is None:
        return ()
    return (f"A judge did not confirm that `{run.veto.state}` passes: {run.veto.reason}",)


def _not_kept(run: LoopState) -> NotKept | None:
    """Return the change that was put back since the last turn of an agent, if any."""
    best = None if run.trees is None else run.trees.best
    return None if best is None else best.not_kept


def _job(
    loop: FSMLoop, run: LoopState, attempt: int, context: Mapping[str, Any], at: Moment
) -> Job:
    """Return what this attempt needs, whatever its kind: values, environment, directory, deadline.
    Raises `Unresolved` or `TemplateError`."""
    state = loop.states[run.current_state]
    env = {**loop.env, **state.env}
    deadline_ms, deadline_of = _time_allowed(loop, run, state, at)
    return Job(
        state=run.current_state,
        step=run.step,
        attempt=attempt,
        iteration=run.iteration,
        iteration_limit=iterations_allowed(loop, run),
        context={name: _spliced(value, context) for name, value in state.context.items()},
        env={name: splice(value, context) for name, value in env.items()},
        cwd=state.cwd or loop.cwd,
        kill_grace_s=loop.kill_grace if state.kill_grace is None else state.kill_grace,
        deadline_ms=deadline_ms,
        deadline_of=deadline_of,
        continuation=run.continuation_prompt,
        idle_s=loop.idle_timeout if state.idle_timeout is None else state.idle_timeout,
    )


def side_job(loop: FSMLoop, run: LoopState, deadline_ms: int | None) -> Job:
    """Return what a command that is no state's action needs to run, such as a hook."""
    return Job(
        state=run.current_state,
        step=run.step,
        attempt=run.attempt,
        iteration=run.iteration,
        iteration_limit=iterations_allowed(loop, run),
        context={},
        env=loop.env,
        cwd=loop.cwd,
        kill_grace_s=loop.kill_grace,
        deadline_ms=deadline_ms,
        deadline_of="action",
    )


def turn_session(run: LoopState, attempt: int) -> str:
    """Return the session id of a turn with this number: known before it starts and the same after
    a crash."""
    from uuid import NAMESPACE_URL, uuid5  # 10 ms that only agents pay

    return str(uuid5(NAMESPACE_URL, f"little-loops:{run.run}/{run.step}/{attempt}"))


def judge_job(loop: FSMLoop, run: LoopState, at: Moment, timeout_s: float) -> Job:
    """Return the job of a judge: in the place of the action that it judges, with its own time."""
    state = loop.states[run.current_state]
    job = _job(loop, run, run.attempt, author_context(run.context, state), at)
    own, left = round(timeout_s * 1000), time_left_ms(loop, run, at)
    is_loops = left is not None and left < own
    return job._replace(
        deadline_ms=left if is_loops else own,
        deadline_of="loop" if is_loops else "action",
        context={},
        continuation=None,
        idle_s=None,
    )


def _spliced(value: Any, context: Mapping[str, Any]) -> Any:
    return splice(value, context) if isinstance(value, str) else value


def _shown(action: str, others: Iterable[Any], loop: FSMLoop, run: LoopState, at: Moment) -> str:
    """Return the text of the next attempt's action for events. Raises `Unresolved` if any of the texts refers to a
    missing value, so that the action is not announced. A branch's action refers to values of the run
    that started it, which only the engine knows."""
    texts = [text for text in (action, *others) if isinstance(text, str) and "${" in text]
    if not texts:  # the usual case; looking values up would take a fifth of a decision
        return action
    values = values_of(loop, run._replace(attempt=run.attempt + 1, ran_ms=at.ran_ms))
    lookup = lookup_in(values)
    named = () if loop.paradigm == BRANCH else texts
    for reference in (each for text in named for each in references(text)):
        if reference.namespace != "env" and reference.fallback is None:
            lookup(reference)
    return show(action, lookup, values["context"])


def _time_allowed(
    loop: FSMLoop, run: LoopState, state: StateConfig, at: Moment
) -> tuple[int | None, Any]:
    """Return how many ms the action may take, None for no limit, and whose limit that is: "action"
    or "loop"."""
    own = None if state.timeout is None else round(state.timeout * 1000)
    # The loop's timeout has passed; its last state gets its own time.
    if run.timed_out_in is not None:
        return own or HANDLER_TIMEOUT_MS, "action"
    left = time_left_ms(loop, run, at)
    if left is not None and (own is None or left < own):
        return left, "loop"
    return own, "action"
