"""What the machine wants done.  Each command is answered by exactly one happening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.events import FinalKind
from little_loops.fsm.schema import ActionType, Condition, HostOptions
from little_loops.fsm.state import Metric, Status, WaitFor
from little_loops.records import NamedTuple


class RunAction(NamedTuple):
    """Run one action.  Texts are templates with the author's context already spliced in."""

    state: str
    step: int
    attempt: int
    iteration: int
    kind: ActionType
    action: str
    context: Mapping[str, Any]
    env: Mapping[str, str]
    cwd: str | None
    shell: str
    kill_grace_s: float
    deadline_ms: int | None
    deadline_of: Literal["action", "loop"]
    host: HostOptions
    iteration_limit: int = 0
    session_id: str | None = None
    words: tuple[str, ...] | None = None
    continuation: str | None = None
    cost_left_usd: float | None = None


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


Command = RunAction | Judge | Wait | EndLeftovers | Finish
