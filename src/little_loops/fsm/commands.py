"""The commands that the machine gives to the engine. Exactly one happening answers each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.events import FinalKind
from little_loops.fsm.schema import Condition, HostOptions
from little_loops.fsm.state import Metric, Status, WaitFor, When
from little_loops.records import NamedTuple


class Job(NamedTuple):
    """What every action needs, whoever runs it: its place in the run, its values, its time limits.

    Texts are templates in which the author's context has already been filled in.
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


class CleanCopy(NamedTuple):
    """What a clean copy is made of: the stored project, and the protected files of the reference.

    `writes` are the paths that checks have changed in the project, so they may change in the copy
    too. `first` is the project at the start of the run.
    """

    project: str
    reference: str
    setup: str | None = None
    writes: tuple[str, ...] = ()
    first: str | None = None


class RunShell(NamedTuple):
    """Run a script, in the project or in a clean copy of it."""

    job: Job
    script: str
    shell: str
    copy: CleanCopy | None = None


class RunAgent(NamedTuple):
    """Run one turn of an agent, in a session whose id is chosen before it starts."""

    job: Job
    text: str
    is_slash: bool
    host: HostOptions
    session_id: str
    words: tuple[str, ...] | None = None
    cost_left_usd: float | None = None
    restored: tuple[str, ...] = ()
    """Protected paths that an agent changed and the run restored."""
    notes: tuple[str, ...] = ()
    """What people told the run; for this agent."""


class Admit(NamedTuple):
    """Let an agent's turn start: hold a slot and reserve what it may cost, at most `most_usd`.

    `waits`: wait for it; otherwise only see whether it can start at once.
    """

    state: str
    step: int
    attempt: int
    most_usd: float | None = None
    waits: bool = False


class RunBuiltin(NamedTuple):
    """Run a built-in action in this process; `job.context` holds its arguments."""

    job: Job
    name: str


RunAction = RunShell | RunAgent | RunBuiltin


class Judge(NamedTuple):
    """Judge the result of the action of state `of`, or what the condition's `source` names."""

    condition: Condition
    of: str | None
    memory: Metric | None = None


class Wait(NamedTuple):
    """Do nothing until the given time, or until the loop's timeout."""

    wait: WaitFor
    deadline_ms: int | None = None


class Ending(NamedTuple):
    """How a run ends: a row of the manual's table of endings, and a message."""

    status: Status
    reason: str
    event: FinalKind
    exit_code: int
    message: str = ""
    spawn: bool = False


class TakeSnapshot(NamedTuple):
    """Record the content of the tree.

    `since` is the project of the previous snapshot, `reference` the expected content of protected
    paths, `compare` lists further projects to compare with. With `ending`, the run ends after it.
    """

    state: str
    step: int
    attempt: int
    when: When
    since: str | None
    reference: str | None
    compare: tuple[str, ...] = ()
    ending: Ending | None = None
    late: bool = False


class RestoreProtected(NamedTuple):
    """Restore the protected paths to their content in `reference`."""

    reference: str
    existing_only: bool = False
    ending: Ending | None = None


class PutBack(NamedTuple):
    """Restore what an agent changed outside the scope to its content in `project`, and keep a
    patch.

    Protected paths that differ from `reference` are left to the rule about protected paths.
    """

    project: str
    reference: str | None
    ending: Ending | None = None


class EndLeftovers(NamedTuple):
    """End processes that the actions left running, before the run reports its ending."""

    ending: Ending


class Finish(NamedTuple):
    ending: Ending


TreeCommand = TakeSnapshot | RestoreProtected | PutBack
Command = (
    RunShell | RunAgent | RunBuiltin | Admit | Judge | Wait | TreeCommand | EndLeftovers | Finish
)
