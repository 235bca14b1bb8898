"""The values of `${namespace.path}` at this point of a run, as nested mappings.

The environment is not included: the engine adds it, and it is never saved. Texts in files are None
here, and structured answers in files seem to have every field: the engine reads them when a
template needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig, acting_states
from little_loops.fsm.state import LoopState, Result
from little_loops.light_typing import Any
from little_loops.templates.splice import GIVEN

RESULT_FIELDS = ("output", "stderr", "exit_code", "duration_ms")
CHILD_FIELDS = ("status", "reason", "final_state", "iterations", "result")
BRANCH_FIELDS = ("total", "passed", "failed")
AGENT_FIELDS = ("structured", "session_id", "cost_usd", "turns")
AGENT_FILES = ("stream_file", "structured_file")
FILE_FIELDS = ("file", "stderr_file", "log_file", *AGENT_FILES)


def author_context(loop_context: Mapping[str, Any], state: StateConfig) -> dict[str, Any]:
    """Return the author's variables for a state; its own override the loop's."""
    return {**loop_context, **state.context}


def values_of(loop: FSMLoop, run: LoopState) -> dict[str, Mapping[str, Any]]:
    """Return the values for references by namespace, except `env`; `run_dir` is None, because only
    the engine knows it."""
    context = author_context(run.context, loop.states[run.current_state])
    return {
        "context": context,
        GIVEN: context,
        "captured": Captured(run.captured),
        "prev": _prev(run),
        "state": {
            "name": run.current_state,
            "iteration": run.iteration,
            "attempt": max(run.attempt, 1),
        },
        "loop": {
            "name": loop.name,
            "started_at": run.started_at,
            "elapsed_ms": run.ran_ms,
            "elapsed": duration_text(run.ran_ms),
            "cycle": run.cycle,
            "run_id": run.run,
            "run_dir": None,
            "continuation": run.continuation_prompt or "",
            "answer": run.answer.text if run.answer is not None else "",
        },
    }


class Captured(Mapping[str, Mapping[str, Any]]):
    """The results by name, each expanded when a template needs it."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return result_values(self._results[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def result_values(result: Result) -> dict[str, Any]:
    """Return the fields of a result that templates may use; the engine creates files on demand."""
    names = RESULT_FIELDS if result.agent is None else RESULT_FIELDS + AGENT_FIELDS
    values = dict.fromkeys(FILE_FIELDS) | {name: getattr(result, name) for name in names}
    texts = {"output": result.output, "stderr": result.stderr}
    values |= {name: without_colours(text) for name, text in texts.items() if text is not None}
    if result.agent is None:
        for name in AGENT_FILES:
            del values[name]
    if result.child is not None:
        values |= {name: getattr(result.child, name) for name in CHILD_FIELDS}
        values["cost_usd"] = result.cost_usd
    if result.branches is not None:
        values |= {name: getattr(result.branches, name) for name in BRANCH_FIELDS}
        values["cost_usd"] = result.cost_usd
    if result.merge is not None:
        left_out = [each._asdict() for each in result.merge.left_out]
        values["merge"] = {**result.merge._asdict(), "left_out": left_out}
    if result.structured is not None:
        values["structured"] = result.structured
    elif result.structured_file is not None:
        values["structured"] = _Unread()
    return values


class _Unread(dict[str, Any]):
    """A structured answer in a file: any field may exist."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> _Unread:
        return self


def _prev(run: LoopState) -> dict[str, Any]:
    if run.prev_state is None:
        return {}
    return {**result_values(run.captured[run.prev_state]), "state": run.prev_state}


def duration_text(ms: int) -> str:
    """Return a duration for people: `0.4s`, `42s`, `2m 34s`, `1h 05m`."""
    if ms < 10_000:
        return f"{ms / 1000:.1f}s"
    seconds = round(ms / 1000)
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m"


def seconds_text(seconds: float) -> str:
    """Return seconds as people write them in a file: `90s`, `10m`, `2h`; others like
    `duration_text`."""
    for unit, length_s in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % length_s == 0:
            return f"{int(seconds) // length_s}{unit}"
    return duration_text(round(seconds * 1000)) if seconds else "0s"


def written_env(loop: FSMLoop) -> dict[str, str]:
    """Return the environment variables that the definition sets; they may contain secrets."""
    own = dict(loop.env)
    for _, state in acting_states(loop):
        own.update(state.env)
    for host in written_hosts(loop):
        own.update(host.env or {})
    return own


def written_hosts(loop: FSMLoop) -> Iterator[HostOptions]:
    """Yield the options of all agents, as the loop and its states have them."""
    yield from (loop.host, *loop.fallback)
    for _, state in acting_states(loop):
        if state.host is not None:
            yield state.host
        yield from state.fallback or ()
