"""What the machine wants done.  Each command is answered by exactly one happening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from little_loops.fsm.events import FinalKind
from little_loops.fsm.schema import Condition, HostOptions
from little_loops.fsm.state import Metric, Status, WaitFor, When
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


class CleanCopy(NamedTuple):
    """What a clean copy is made of: the stored project, the protected paths as they ought to be.

    `writes` are the paths that checks have changed in the project, and may change in the copy.
    """

    project: str
    reference: str
    setup: str | None = None
    writes: tuple[str, ...] = ()


class RunShell(NamedTuple):
    """Run a script, in the project or in a clean copy of it."""

    job: Job
    script: str
    shell: str
    copy: CleanCopy | None = None


class RunAgent(NamedTuple):
    """Run one turn of an agent, in a session whose id is known before it starts."""

    job: Job
    text: str
    is_slash: bool
    host: HostOptions
    session_id: str
    words: tuple[str, ...] | None = None
    cost_left_usd: float | None = None
    restored: tuple[str, ...] = ()
    """Protected paths that an agent had changed and the run has put back."""


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


class TakeSnapshot(NamedTuple):
    """Record the content of the tree.

    `since` is the project of the snapshot before, `reference` what protected paths are compared
    with, `compare` has further projects to compare with.  `ending`: the run ends after it.
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
    """Put the protected paths back as `reference` has them."""

    reference: str
    existing_only: bool = False
    ending: Ending | None = None


class PutBack(NamedTuple):
    """Put what an agent changed outside the scope back as `project` has it, and keep a patch.

    `reference`: protected paths that differ from it are left to their own rule.
    """

    project: str
    reference: str | None
    ending: Ending | None = None


class EndLeftovers(NamedTuple):
    """End what the actions left running, before the run says how it ended."""

    ending: Ending


class Finish(NamedTuple):
    ending: Ending


TreeCommand = TakeSnapshot | RestoreProtected | PutBack
Command = RunShell | RunAgent | RunBuiltin | Judge | Wait | TreeCommand | EndLeftovers | Finish
