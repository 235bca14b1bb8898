"""What a host is, and what the engine makes of each way an agent's turn can end.

A host builds a command line and reads the stream that comes back; it starts no process, so a
recorded stream gives the same outcome as a live one.  A `Host` is immutable and shared; one
`Reader` belongs to one process.  A reader never raises, whatever bytes come: an agent CLI is
somebody else's program and changes weekly.

`WAYS` is the one place that says where each kind of ending leads.

Not here: starting, stopping and waiting (the caller does that with `stop_plan`), consent, and
signal lines: a reader hands on the main thread's text, the caller looks for them in it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final, Literal, Protocol

from little_loops.errors import UsageError
from little_loops.fsm.schema import HOST_NAMES as HOST_NAMES
from little_loops.fsm.schema import HostOptions
from little_loops.fsm.state import AgentResult, CutBy
from little_loops.fsm.variables import SESSION_VARIABLES as SESSION_VARIABLES
from little_loops.hosts.verdicts import NO_VERDICT
from little_loops.records import NamedTuple

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


# What is asked of a host ----------------------------------------------------------------------


class Request(NamedTuple):
    """One action for an agent, all values filled in; `words` are the verdicts to ask for."""

    action: str
    kind: Literal["slash", "prompt"]
    cwd: str
    session_id: str
    words: tuple[str, ...] | None = None
    model: str | None = None
    permission_mode: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost_usd: float | None = None
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = NOTHING
    plugin_dirs: tuple[str, ...] = ()
    skip_permissions: bool = False


class Launch(NamedTuple):
    """What to start.  `stdin` is written and then closed.

    `env` is added to the caller's environment, `env_unless_set` gives way to it; `environment`
    puts them together.  `files` are texts the program wants as files: write them somewhere and
    ask `argv_with_files` for the command line that names them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    session_id: str | None
    env_unless_set: Mapping[str, str] = NOTHING
    files: Mapping[str, str] = NOTHING


class Probe(NamedTuple):
    """Whether the program is there; `why` says what to do if it is not."""

    path: str | None
    version: str | None
    ok: bool
    why: str = ""


def file_place(name: str) -> str:
    """The argument that stands for a file of the launch until it has a path."""
    return f"{{file:{name}}}"


def argv_with_files(launch: Launch, directory: str) -> tuple[str, ...]:
    """The command line, once the launch's files lie in `directory`."""
    paths = {file_place(name): f"{directory}/{name}" for name in launch.files}
    return tuple(paths.get(word, word) for word in launch.argv)


def environment(launch: Launch, inherited: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the agent, made from ours."""
    kept = {name: value for name, value in inherited.items() if name not in SESSION_VARIABLES}
    return {**launch.env_unless_set, **kept, **launch.env}


# What a reader says while the agent works -----------------------------------------------------


class Started(NamedTuple):
    """The agent is there; a host that picks its own session id tells it here."""

    session_id: str | None
    model: str | None


class Activity(NamedTuple):
    """What the agent does just now, for the live line: `Editing src/api/models.py`."""

    text: str


class Done(NamedTuple):
    """A tool that the agent used has ended: what it did, how, and the files it changed."""

    text: str
    status: str = ""
    files: tuple[str, ...] = ()


class Text(NamedTuple):
    """What the agent itself said, in the main thread; the place for signal lines."""

    text: str


class Usage(NamedTuple):
    """What this turn has used so far; an estimate until the end."""

    tokens_in: int
    tokens_out: int
    cost_usd: float | None


class Retrying(NamedTuple):
    """The agent waits for its service by itself."""

    attempt: int
    delay_ms: int
    why: str


class AuthFailed(NamedTuple):
    """The login is refused.  Further tries are silence: end the process, `cut_by="host"`."""

    why: str


HostEvent = Started | Activity | Done | Text | Usage | Retrying | AuthFailed


# How it ended ---------------------------------------------------------------------------------

Kind = Literal[
    "cancelled",
    "timed_out",
    "not_started",
    "unknown_command",
    "command_failed",
    "auth",
    "billing",
    "rate_limited",
    "overloaded",
    "context_exhausted",
    "limit_reached",
    "refused",
    "bad_output",
    "permission_denied",
    "truncated",
    "no_verdict",
    "failed",
    "success",
]

# `host`: ended by us on the reader's word (`AuthFailed`).
Cut = CutBy | Literal["host"]


class Tokens(NamedTuple):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return sum(self)


class Outcome(NamedTuple):
    """The end of an agent's turn.  `reason` is one line for the user, `raw_reason` the CLI's own."""

    kind: Kind
    reason: str
    text: str = ""
    verdict: str | None = None
    structured: object | None = None
    session_id: str | None = None
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    turns: int | None = None
    denials: tuple[str, ...] = ()
    retry_at_ms: int | None = None
    warnings: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    exit_code: int | None = None
    raw_reason: str = ""


class Finding(NamedTuple):
    """What a rule found: a kind of ending and why."""

    kind: Kind
    reason: str


def with_remedy(found: Finding, remedies: Mapping[Kind, str]) -> Finding:
    """The finding with what a person can do about it, where the run ends at once."""
    remedy = remedies.get(found.kind)
    return found if remedy is None else found._replace(reason=f"{found.reason}; {remedy}")


class Ended(NamedTuple):
    """How the process ended; `cut_by` says whether we ended it."""

    exit_code: int | None
    signal: int | None = None
    stderr_tail: str = ""
    cut_by: Cut = "none"


# None: our own doing, which the engine knows better than the host.
TRANSITIONS: Final[Mapping[Kind, AgentResult | None]] = {
    "cancelled": None,
    "timed_out": None,
    "not_started": "error",
    "unknown_command": "error",
    "command_failed": "error",
    "auth": "auth",
    "billing": "billing",
    "rate_limited": "wait",
    "overloaded": "wait",
    "context_exhausted": "handoff",
    "limit_reached": "fail",
    "refused": "fail",
    "bad_output": "fail",
    "permission_denied": "fail",
    "truncated": "error",
    "no_verdict": "error",
    "failed": "fail",
    "success": "success",
}


class HostVerdict(NamedTuple):
    """`verdict` is pass, fail, error, a word that was asked for, or one of the engine's own ways:
    interrupt, timeout, handoff, wait, auth, billing."""

    verdict: str
    reason: str


def agent_result_of(outcome: Outcome) -> AgentResult | None:
    """Where this ending leads; None if we cut the turn ourselves."""
    return TRANSITIONS[outcome.kind]


def verdict_of(outcome: Outcome, asked: bool) -> HostVerdict:
    """The verdict of an ending.  `asked`: pass and fail lead to different states, so a verdict was
    asked for; otherwise there is one way on, and any end but success is an error."""
    agent_result = agent_result_of(outcome)
    if agent_result is None:
        verdict = "interrupt" if outcome.kind == "cancelled" else "timeout"
    elif agent_result == "success":
        if asked and outcome.verdict is None:
            return HostVerdict("error", NO_VERDICT)
        verdict = outcome.verdict if asked and outcome.verdict else "pass"
    elif agent_result == "fail" and not asked:
        verdict = "error"
    else:
        verdict = agent_result
    return HostVerdict(verdict, outcome.reason)


def cut_short(ended: Ended) -> Finding | None:
    """The first two rules of every host: what we did ourselves outranks what the CLI says of it."""
    match ended.cut_by:
        case "stop":
            return Finding("cancelled", "stopped")
        case "action" | "silence" | "loop":
            return Finding("timed_out", "ran out of time")
        case "host":
            return Finding("auth", "the login was refused")
        case "none":
            return None


# The interface --------------------------------------------------------------------------------

Which = Callable[[str], str | None]
Run = Callable[[Sequence[str]], tuple[int, str]]


class Reader(Protocol):
    """Reads one agent's stream, line by line, in bounded memory."""

    def feed(self, line: bytes | str) -> tuple[HostEvent, ...]: ...

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        cut_by: Cut = "none",
    ) -> Outcome: ...


class Host(Protocol):
    """An agent CLI: how to ask it, how to read it, how to stop it."""

    @property
    def name(self) -> str: ...

    @property
    def has_slash(self) -> bool: ...

    @property
    def counts(self) -> tuple[str, ...]:
        """The limits of a loop that it reports the spending for."""
        ...

    def probe(self, which: Which, run: Run, command: Sequence[str] = ()) -> Probe:
        """Look for the program; `run` gives exit code and stdout of a command."""
        ...

    def recognises(self, action: str) -> bool:
        """Would the CLI take this text for a slash command?"""
        ...

    def needs_consent(self, permission_mode: str | None) -> bool:
        """Does this mode skip permissions, so that the user must have agreed?"""
        ...

    def check_options(self, options: HostOptions) -> list[str]:
        """What is wrong with these options, in words."""
        ...

    def build(self, request: Request) -> Launch: ...

    def reader(self, request: Request) -> Reader: ...

    def stop_plan(self, kill_grace_s: float) -> tuple[tuple[int, float], ...]:
        """Signals for the leader, each with the seconds to wait after it."""
        ...


def gently_then_firmly(kill_grace_s: float) -> tuple[tuple[int, float], ...]:
    """INT first: on TERM an agent dies without ending the tool it runs, which then lives on."""
    grace_s = kill_grace_s
    return (
        (signal.SIGINT, grace_s),
        (signal.SIGTERM, grace_s),
        (signal.SIGKILL, 0.0),
    )


def ask_version(program: str, hint: str, which: Which, run: Run) -> Probe:
    """The probe of a program that answers `--version`."""
    path = which(program)
    if path is None:
        return Probe(None, None, False, f"`{program}` is not on PATH; {hint}")
    exit_code, printed = run([path, "--version"])
    words = [word for word in printed.split() if word[:1].isdigit()]
    if exit_code != 0 or not words:
        return Probe(path, None, False, f"`{program} --version` exited with {exit_code}")
    return Probe(path, words[0], True)


def host_named(name: str) -> Host:
    """The host of that name: `HOST` in the module called like it.  Only the one in use is imported."""
    if name not in HOST_NAMES:
        raise UsageError(f"unknown host `{name}`", f"known hosts: {_known()}")
    host: Host = import_module(f"little_loops.hosts.{name}").HOST
    return host


def check_options(options: HostOptions) -> list[str]:
    """What is wrong with the options of the host they name."""
    if options.host not in HOST_NAMES:
        return [f"unknown host `{options.host}`; known hosts: {_known()}"]
    return host_named(options.host).check_options(options)


def _known() -> str:
    return ", ".join(f"`{name}`" for name in HOST_NAMES)
