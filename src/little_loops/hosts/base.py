"""The interface of a host, and where each kind of ending of an agent's turn leads.

A host builds a command line and reads the output stream; it starts no process, so a recorded stream
gives the same outcome as a live one. A `Host` is immutable and shared; a `StreamReader` belongs to one
process. A reader never raises, whatever it reads: an agent CLI is a foreign program that changes
weekly.

`fsm.agent_outcomes` says where each kind of ending leads.

Not here: starting, stopping and waiting (the caller does that, with `stop_plan`); consent; and
signal lines: a reader passes on the main thread's text, and the caller looks for them in it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from little_loops.errors import UsageError
from little_loops.fsm.agent_outcomes import TRANSITIONS as TRANSITIONS
from little_loops.fsm.agent_outcomes import Kind as Kind
from little_loops.fsm.schema import HOST_NAMES as HOST_NAMES
from little_loops.fsm.schema import HostOptions
from little_loops.fsm.state import AgentResult, CutBy
from little_loops.fsm.variables import SESSION_VARIABLES as SESSION_VARIABLES
from little_loops.light_typing import Final, Literal, Protocol
from little_loops.records import NamedTuple

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


# Requests to a host ---------------------------------------------------------------------------


class Request(NamedTuple):
    """One action for an agent, with all values filled in; `words` are the verdicts to ask for."""

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
    """The process to start; `stdin` is written and then closed.

    `env` overrides the caller's environment, `env_unless_set` does not; `environment` combines
    them. `files` are texts that the program needs as files: write them to a directory, and get the
    command line from `argv_with_files`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    session_id: str | None
    env_unless_set: Mapping[str, str] = NOTHING
    files: Mapping[str, str] = NOTHING


class Probe(NamedTuple):
    """Whether the program is installed; `why` says what to do if it is not."""

    path: str | None
    version: str | None
    ok: bool
    why: str = ""


def file_place(name: str) -> str:
    """Return the placeholder argument for a file of the launch, until its path is known."""
    return f"{{file:{name}}}"


def argv_with_files(launch: Launch, directory: str) -> tuple[str, ...]:
    """Return the command line, with the launch's files in `directory`."""
    paths = {file_place(name): f"{directory}/{name}" for name in launch.files}
    return tuple(paths.get(word, word) for word in launch.argv)


def environment(launch: Launch, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's whole environment, based on the inherited one."""
    kept = {name: value for name, value in inherited.items() if name not in SESSION_VARIABLES}
    return {**launch.env_unless_set, **kept, **launch.env}


# Events while the agent works -----------------------------------------------------------------


class AgentStarted(NamedTuple):
    """The agent has started; a host that chooses its own session id reports it here."""

    session_id: str | None
    model: str | None


class Activity(NamedTuple):
    """What the agent is doing now, for the live line: `Editing src/api/models.py`."""

    text: str


class Done(NamedTuple):
    """A tool call has ended: what it was, its status, and the files it changed."""

    text: str
    status: str = ""
    files: tuple[str, ...] = ()


class AgentText(NamedTuple):
    """What the agent printed in its main thread; may contain signal lines."""

    text: str


class Usage(NamedTuple):
    """What this turn has used so far; an estimate until the end."""

    tokens_in: int
    tokens_out: int
    cost_usd: float | None


class Retrying(NamedTuple):
    """The agent is waiting for its service, and will retry on its own."""

    attempt: int
    delay_ms: int
    why: str


class AuthFailed(NamedTuple):
    """The login was refused, and retrying is useless: end the process with `cut_by="host"`."""

    why: str


HostEvent = AgentStarted | Activity | Done | AgentText | Usage | Retrying | AuthFailed


# How it ended ---------------------------------------------------------------------------------

# `host`: we ended the process because the reader reported `AuthFailed`.
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
    """How an agent's turn ended; `reason` is one line for the user, `raw_reason` the CLI's own."""

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


class TurnEnding(NamedTuple):
    """The result of a rule: a kind of ending, and why."""

    kind: Kind
    reason: str


def with_remedy(found: TurnEnding, remedies: Mapping[Kind, str]) -> TurnEnding:
    """Return the finding with a hint for the user appended, if there is one for its kind."""
    remedy = remedies.get(found.kind)
    return found if remedy is None else found._replace(reason=f"{found.reason}; {remedy}")


class ProcessEnd(NamedTuple):
    """How the process ended; `cut_by` says whether we ended it."""

    exit_code: int | None
    signal: int | None = None
    stderr_tail: str = ""
    cut_by: Cut = "none"


def agent_result_of(outcome: Outcome) -> AgentResult | None:
    """Return where this ending leads; None if we ended the turn ourselves."""
    return TRANSITIONS[outcome.kind]


def cut_short(ended: ProcessEnd) -> TurnEnding | None:
    """Return the finding for a process that we ended ourselves, else None.

    It is the first rule of every host: our own reason overrides whatever the CLI printed about it.
    """
    match ended.cut_by:
        case "stop":
            return TurnEnding("cancelled", "stopped")
        case "action" | "silence" | "loop":
            return TurnEnding("timed_out", "ran out of time")
        case "host":
            return TurnEnding("auth", "the login was rejected")
        case "none":
            return None


# The interface --------------------------------------------------------------------------------

Which = Callable[[str], str | None]
Run = Callable[[Sequence[str]], tuple[int, str]]


class StreamReader(Protocol):
    """Reads one agent's output stream, line by line, in bounded memory."""

    def feed(self, line: bytes | str) -> tuple[HostEvent, ...]: ...

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        cut_by: Cut = "none",
    ) -> Outcome:
        """Return how the turn ended; `cut_by` says whether, and why, we ended the process."""
        ...


class Host(Protocol):
    """An agent CLI: how to start it, how to read its output, and how to stop it."""

    @property
    def name(self) -> str: ...

    @property
    def has_slash(self) -> bool: ...

    @property
    def counts(self) -> tuple[str, ...]:
        """The limits of a loop for which this host reports its spending."""
        ...

    def probe(self, which: Which, run: Run, command: Sequence[str] = ()) -> Probe:
        """Look for the program; `run` returns exit code and stdout of a command."""
        ...

    def recognises(self, action: str) -> bool:
        """Return whether the CLI would treat this text as a slash command."""
        ...

    def needs_consent(self, permission_mode: str | None) -> bool:
        """Return whether this mode skips permissions, so that the user must have agreed to it."""
        ...

    def check_options(self, options: HostOptions) -> list[str]:
        """Return the problems with these options, as messages."""
        ...

    def read_only(self, options: HostOptions) -> HostOptions | None:
        """Return the options for a turn that can change nothing, without `args`; None if there are
        none."""
        ...

    def build(self, request: Request) -> Launch: ...

    def reader(self, request: Request) -> StreamReader: ...

    def stop_plan(self, kill_grace_s: float) -> tuple[tuple[int, float], ...]:
        """Return the signals to send to the leader, each with the seconds to wait after it."""
        ...


def int_term_kill(kill_grace_s: float) -> tuple[tuple[int, float], ...]:
    """Return the stop plan INT, TERM, KILL.

    INT comes first, because on TERM an agent exits without ending the tool that it runs.
    """
    grace_s = kill_grace_s
    return (
        (signal.SIGINT, grace_s),
        (signal.SIGTERM, grace_s),
        (signal.SIGKILL, 0.0),
    )


def ask_version(program: str, hint: str, which: Which, run: Run) -> Probe:
    """Probe a program by running it with `--version`; `hint` says how to install it."""
    path = which(program)
    if path is None:
        return Probe(None, None, False, f"`{program}` is not on PATH; {hint}")
    exit_code, printed = run([path, "--version"])
    words = [word for word in printed.split() if word[:1].isdigit()]
    if exit_code != 0 or not words:
        what = "printed no version" if exit_code == 0 else f"exited with code {exit_code}"
        return Probe(path, None, False, f"`{program} --version` {what}")
    return Probe(path, words[0], True)


def host_named(name: str) -> Host:
    """Return the host with that name: `HOST` in the module of the same name, imported on demand.

    Raises `UsageError` for an unknown name.
    """
    if name not in HOST_NAMES:
        raise UsageError(f"unknown host `{name}`", f"known hosts: {_known()}")
    host: Host = import_module(f"little_loops.hosts.{name}").HOST
    return host


def check_options(options: HostOptions) -> list[str]:
    """Return the problems with the options, as found by the host that they name."""
    if options.host not in HOST_NAMES:
        return [f"unknown host `{options.host}`; known hosts: {_known()}"]
    return host_named(options.host).check_options(options)


def _known() -> str:
    return ", ".join(f"`{name}`" for name in HOST_NAMES)
