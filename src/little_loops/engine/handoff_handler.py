"""Handle a handoff: the only place that starts a continuation.

The caller saves the run first, so that the new session finds it on disk. The caller may pass a
function that starts a session; the default is Claude's CLI in print mode.

Not here: finding the signal (`signal_detector`), running a state again in this process
(`HandoffBehavior.CONTINUE` leaves that to the executor).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from enum import Enum

from little_loops.records import NamedTuple


class HandoffBehavior(Enum):
    """What a run does when its agent asks for a fresh session."""

    TERMINATE = "terminate"  # end; the continuation is discarded
    PAUSE = "pause"  # save, and wait for a resume
    SPAWN = "spawn"  # save, and start a session that resumes
    CONTINUE = "continue"  # save, and continue in this process


class HandoffResult(NamedTuple):
    behavior: HandoffBehavior
    continuation_prompt: str | None
    spawned_process: subprocess.Popen[str] | None = None


StartSession = Callable[[str, str | None], "subprocess.Popen[str]"]
"""Start a session that resumes the loop of this name, with this continuation."""


def start_claude(loop_name: str, continuation: str | None) -> subprocess.Popen[str]:
    """Start a detached session that outlives this process and shares nothing with its terminal.

    Raises `OSError` if `claude` cannot be started.
    """
    prompt = f"Continue loop execution. Run: ll-loop resume {loop_name}"
    if continuation:
        prompt += f"\n\n{continuation}"
    return subprocess.Popen(
        ["claude", "-p", prompt],
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class HandoffHandler:
    def __init__(
        self,
        behavior: HandoffBehavior = HandoffBehavior.PAUSE,
        start: StartSession | None = None,
    ) -> None:
        """`start` starts the session for `SPAWN`; by default Claude's CLI."""
        self.behavior = behavior
        self.start = start_claude if start is None else start

    def started_by(self, start: StartSession) -> HandoffHandler:
        """Return a handler that starts sessions with `start`; this one if it is of a subclass or
        has its own function."""
        is_plain = type(self) is HandoffHandler and self.start is start_claude
        return HandoffHandler(self.behavior, start) if is_plain else self

    def handle(self, loop_name: str, continuation: str | None) -> HandoffResult:
        """Start a session if the behavior is `SPAWN`; otherwise only return the behavior."""
        if self.behavior is not HandoffBehavior.SPAWN:
            return HandoffResult(self.behavior, continuation)
        return HandoffResult(self.behavior, continuation, self.start(loop_name, continuation))


SPAWNING = HandoffHandler(HandoffBehavior.SPAWN)
