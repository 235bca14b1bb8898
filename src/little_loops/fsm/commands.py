"""What the machine wants done.  Each command is answered by exactly one happening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.events import FinalKind
from little_loops.fsm.schema import Condition, HostOptions
from little_loops.fsm.state import Metric, Status, WaitFor
from little_loops.records import NamedTuple


class Job(NamedTuple):
    """What every action is given, whoever runs it: its place in the run, its values, its time.

    Texts are templates with the author's context already spliced in.
    """

    state: str
    step: int
    attempt: int
    iteration: int
    iteration_limit: int
    context: Mapping[str, Any]
    env: Mapping[str, str]
    cwd: str | None
    kill_grace_s: float
    deadline_ms: int | None
    deadline_of: Literal["action", "loop"]
    continuation: str | None = None
    idle_s: float | None = None


class RunShell(NamedTuple):
    job: Job
    script: str
    shell: str


class RunAgent(NamedTuple):
    """Run one turn of an agent, in a session whose id is known before it starts."""

    job: Job
    text: str
    is_slash: bool
    host: HostOptions
    session_id: str
    words: tuple[str, ...] | None = None
    cost_left_usd: float | None = None


class RunBuiltin(NamedTuple):
    """Run an action of our own in this process; `job.context` holds what it is to work with."""

    job: Job
    name: str


RunAction = RunShell | RunAgent | RunBuiltin


class Judge(NamedTuple):
    """Judge what an action left, or what `source` names.  `of` names the state to look at."""

    condition: Condition
    of: str | None
    memory: Metric | None = None


class Wait(NamedTuple):
    """Do nothing until then, or until the loop's time is up."""

    wait: WaitFor
    deadline_ms: int | None = None


class Ending(NamedTuple):
    """How a run ends: the row of the manual's table, and what to say."""

    status: Status
    reason: str
    event: FinalKind
    exit_code: int
    message: str = ""
    spawn: bool = False


class EndLeftovers(NamedTuple):
    """End what the actions left running, before the run says how it ended."""

    ending: Ending


class Finish(NamedTuple):
    ending: Ending


Command = RunShell | RunAgent | RunBuiltin | Judge | Wait | EndLeftovers | Finish
