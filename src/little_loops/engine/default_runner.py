"""Run one action without a run: the library's default action runner."""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.engine.action_process import Workplace, inherited
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.resolve import Filled
from little_loops.engine.runner_world import ActionResult
from little_loops.engine.shell_actions import run_shell
from little_loops.fsm.actions import Agent, Builtin, Loop, Shell, action_of_event
from little_loops.fsm.commands import Job, RunAgent, RunShell
from little_loops.fsm.schema import KILL_GRACE_S, HostOptions
from little_loops.fsm.state import FileRef, LoopState, Result
from little_loops.system.plain_files import read_plain
from little_loops.system.stops import StopFlag

RUN = LoopState("in-memory", "action", "action", "", "")


class DefaultActionRunner:
    """Runs shell actions with `sh`, slash commands and prompts with `claude`."""

    def __init__(self, stop: StopFlag | None = None) -> None:
        self._stop = stop

    def run(
        self,
        action: str,
        *,
        timeout: float | None = None,
        action_type: str = "shell",
        env: Mapping[str, str] | None = None,
    ) -> ActionResult:
        """Run an action in the current directory, and return its result with the whole output.

        `timeout` is in seconds, `action_type` is `shell`, `slash` or `prompt`, `env` adds
        variables. An action that cannot start has the exit code 127.
        """
        import tempfile  # only if nothing else stores the outputs

        with tempfile.TemporaryDirectory(prefix="ll-") as directory:
            at = Workplace(os.getcwd(), directory, inherited(os.environ), self._stop)
            deadline_ms = None if timeout is None else round(timeout * 1000)
            acted = _act(at, action, action_type, deadline_ms, Filled(action, dict(env or {})))
            return _action_result(directory, acted.result)


def _act(
    at: Workplace, text: str, action_type: str, deadline_ms: int | None, filled: Filled
) -> ActionOutcome:
    """Run an action according to its type, as the only step of a run; a built-in one fails."""
    job = Job(
        state="action",
        step=1,
        attempt=1,
        iteration=1,
        iteration_limit=0,
        context={},
        env={},
        cwd=None,
        kill_grace_s=KILL_GRACE_S,
        deadline_ms=deadline_ms,
        deadline_of="action",
    )
    match action_of_event(text, action_type):
        case Shell():
            return run_shell(at, RUN, RunShell(job, text, "sh"), filled)
        case Agent(is_slash=is_slash):
            from little_loops.engine.agent_actions import run_agent  # only agents pay for hosts

            return run_agent(at, RUN, RunAgent(job, text, is_slash, HostOptions(), ""), filled)
        case Builtin(name) | Loop(name):
            return ActionOutcome(
                Result(None, 0, failure=f"`{name}` only works inside a stored run")
            )


def _action_result(directory: str, result: Result) -> ActionResult:
    """Return the result for a program, with outputs read from `directory`.

    The exit code is 127 if the action could not start, 128 + N after signal N, and -1 without
    either.
    """
    if result.failure is not None:
        return ActionResult(127, "", result.failure, 0)
    out = _read_text(directory, result.output, result.output_file)
    err = _read_text(directory, result.stderr, result.stderr_file)
    code = 128 + result.signal if result.signal is not None else result.exit_code
    cut_by = result.cut_by
    return ActionResult(
        -1 if code is None else code,
        out,
        err,
        result.duration_ms,
        timed_out=cut_by == "action",
        stopped=cut_by == "stop",
    )


def _read_text(directory: str, text: str | None, file: FileRef | None) -> str:
    if file is None:
        return text or ""
    return read_plain(os.path.join(directory, file.path)).decode("utf-8", "replace")
