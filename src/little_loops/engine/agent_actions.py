"""Run one turn of an agent: a host builds the command line and reads the stream of its program.

The output of the action is the agent's own text: it is stored as the output, and only its signal
lines count. The raw stream is stored beside it.

Not here: the protocol of a CLI (`hosts`), what an outcome leads to (`fsm.agent_outcomes`, `machine`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from signal import SIGKILL, SIGTERM

from little_loops.engine.action_output import Streams, kept_structured, kept_text
from little_loops.engine.action_process import (
    Notes,
    ParsedSignal,
    RunsProgram,
    Workplace,
    cut_by,
    environment,
    hand_over,
    run_program,
    write_file,
)
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.resolve import Filled
from little_loops.errors import StorageError
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.commands import Job, RunAgent
from little_loops.fsm.extract import plain
from little_loops.fsm.schema import HostOptions
from little_loops.fsm.spending import LOST
from little_loops.fsm.state import AgentResult, LoopState, NotKept, Result
from little_loops.fsm.turn_hosts import MISSING
from little_loops.hosts.base import (
    Activity,
    AgentStarted,
    AgentText,
    AuthFailed,
    Cut,
    Done,
    Host,
    Launch,
    Outcome,
    Request,
    Retrying,
    StreamReader,
    Usage,
    agent_result_of,
    argv_with_files,
    host_named,
)
from little_loops.hosts.base import environment as with_launch
from little_loops.hosts.programs import find_program
from little_loops.runs.layout import CONTINUE, LIVE, NOTES, output_stem
from little_loops.system import process
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder
from little_loops.system.output import LineSplitter

STDERR_TAIL = 4096
ANSWER_S = 10.0
"""How long a CLI may take to list its plugins."""
ANSWER_GRACE_S = 1.0
NOT_FOUND = 127
MAX_SESSION_ID = 200
"""Session ids of the programs we know have 36 characters; the log and the state have no room for a whole page."""
JUST_PASSED_MS = 10_000
"""An agent may exit so late that the reset time it reported has passed; it is then retried
immediately."""
RESTORED = "Protected files that must not be changed were restored"
READY = "Ready for fresh session"
READY_LINE = re.compile(rf"[\s*_`'\"]*{READY}[\s*_`'\".!]*", re.IGNORECASE)
"""The line that says the notes are in a file, in the forms that models write: bold, with a full stop."""


def run_agent(
    at: Workplace,
    run: LoopState,
    command: RunAgent,
    filled: Filled,
    run_program: RunsProgram = run_program,
) -> ActionOutcome:
    """Run one turn of an agent; its output is stored, and files for it are written to the run's
    directory.

    If its program cannot start, the result has a `failure`; if a stop came before that, `cut_by` is
    `stop`. Processes that the agent left running are ended, with a warning.
    """
    notes = hand_over(at, command.job.continuation)
    env = environment(at, run, command.job, filled.env)
    host = host_named(command.host.host)
    text = _with_notes(at, command, env, _with_continuation(at, command, filled.text))
    request = request_for(at, command, host, text)
    began = time.monotonic()
    try:
        request = request._replace(plugin_dirs=_plugin_dirs(at, command.job, host, request, env))
    except StoppedBeforeStart:
        took_ms = round((time.monotonic() - began) * 1000)
        return ActionOutcome(Result(None, took_ms, cut_by="stop"))
    launch = host.build(request)
    argv, why_not = _argv(at, launch, env)
    if why_not:
        return ActionOutcome(Result(None, 0, failure=why_not, kind=MISSING))
    turn = TurnInProgress(at, host.reader(request))
    streams = Streams(at, command.job, turn.feed, is_agent=True)
    env = with_launch(launch, env)
    ended, cut = _run(at, command, host, argv, env, streams, launch.stdin, run_program)
    raw = streams.result(ended, "none" if cut == "host" else cut)
    if isinstance(ended, process.CannotStart):
        return ActionOutcome(raw)
    outcome = turn.outcome(ended, raw, cut)
    result = _result(at, command, raw, outcome)
    parsed = _signal(notes, turn, result)
    return ActionOutcome(
        result,
        parsed.line,
        (*outcome.warnings, *parsed.warnings, *_leftover_warnings(ended)),
        turn.model,
    )


def _leftover_warnings(ended: process.Ended) -> Iterator[str]:
    if ended.left:
        names = ", ".join(f"{one.name} (pid {one.pid})" for one in ended.left)
        yield f"ended processes that the agent had left running: {names}"


def _run(
    at: Workplace,
    command: RunAgent,
    host: Host,
    argv: Sequence[str],
    env: Mapping[str, str],
    streams: Streams,
    stdin: bytes,
    run_program: RunsProgram,
) -> tuple[process.Ended | process.CannotStart, Cut]:
    """Run the agent's program, and end the processes that it left running.

    Returns how it ended and what cut it short: `host` if it was killed because its login was
    refused.
    """
    plan = host.stop_plan(command.job.kill_grace_s)
    # Processes it left running could change what is judged next.
    leftovers = ((SIGTERM, command.job.kill_grace_s),)
    try:
        ended = run_program(
            at, command.job, argv, env, streams, plan=plan, stdin=stdin, leftovers=leftovers
        )
    except LoginRefused as refused:
        return refused.ended, "host"
    return ended, cut_by(command.job, ended)


def request_for(at: Workplace, command: RunAgent, host: Host, text: str) -> Request:
    """Return the request for a turn. Its cost limit is the lower of the host's option and what the
    run has left; permissions are skipped only if the user agreed and the mode needs that."""
    own = command.host
    budgets = [b for b in (own.max_cost_usd, command.cost_left_usd) if b is not None]
    return Request(
        action=text,
        kind="slash" if command.is_slash else "prompt",
        cwd=os.path.join(at.project, command.job.cwd or ""),
        session_id=command.session_id,
        words=command.words,
        model=own.model,
        permission_mode=own.permission_mode,
        allow=own.allow or (),
        deny=own.deny or (),
        max_turns=own.max_turns,
        max_cost_usd=min(budgets, default=None),
        args=own.args or (),
        command=own.command or (),
        env=own.env or {},
        skip_permissions=at.skip_permissions and host.needs_consent(own.permission_mode),
    )


def _with_continuation(at: Workplace, command: RunAgent, text: str) -> str:
    """Add which protected files were restored, and where the notes of the previous session are, if
    any."""
    if command.restored:
        text = f"{text}\n\n{RESTORED}: {', '.join(command.restored)}"
    if command.not_kept is not None:
        text = f"{text}\n\n{_put_back_text(command.not_kept)}"
    if not command.job.continuation:
        return text
    path = os.path.join(at.run_dir, CONTINUE)
    note = f"An earlier session handed this task over to you; its notes are in {path}"
    return f"{text}\n\n{note}"


def _put_back_text(change: NotKept) -> str:
    """Return the lines that tell an agent that the last change was not better."""
    measured = "none" if change.measured is None else plain(change.measured)
    return f"put_back: true\nmeasured: {measured}\nbest: {plain(change.best)}"


def _with_notes(at: Workplace, command: RunAgent, env: Mapping[str, str], text: str) -> str:
    """Add the notes that people sent to the run, as data, each after a blank line.

    For a slash command that runs a shell on its arguments, they are written to a file, and only its
    name is added.
    """
    if not command.notes:
        return text
    from little_loops.hosts.command_files import shell_runs_arguments  # few runs get notes
    from little_loops.templates.render import data_for_agent

    if command.is_slash and shell_runs_arguments(text, at.project, env.get("HOME")):
        write_file(at, NOTES, "\n\n".join(command.notes) + "\n")
        return f"{text}\n\nA note for you is in {os.path.join(at.run_dir, NOTES)}"
    return "\n\n".join([text, *map(data_for_agent, command.notes)])


def _argv(at: Workplace, launch: Launch, env: Mapping[str, str]) -> tuple[list[str], str | None]:
    """Write the files that the program needs. Return its command line with an absolute path, and
    why it cannot run, or None."""
    for name, content in launch.files.items():
        write_file(at, name, content)
    argv = list(argv_with_files(launch, at.run_dir))
    program = find_program(argv[0], env.get("PATH"), at.project)
    return [program.path, *argv[1:]], program.why_not


def _plugin_dirs(
    at: Workplace, job: Job, host: Host, request: Request, env: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the directory of our plugin if the action is a `/ll:` command of Claude; nothing for
    other actions, or if the user has a plugin of that name. Raises `StoppedBeforeStart`."""
    ours = request.kind == "slash" and request.action.lstrip().startswith("/ll:")
    if host.name != "claude" or not ours:
        return ()
    program = find_program("claude", env.get("PATH"), at.project)
    if program.why_not:
        return ()
    from little_loops.hosts.plugin import plugin_dirs  # only our own commands need it

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        return _run_short_command(at, job, argv, {**env, **request.env}, request.cwd)

    return plugin_dirs(request.action, ask, program.path)


class StoppedBeforeStart(Exception):
    """A stop was requested before the agent itself was started."""


def _run_short_command(
    at: Workplace, job: Job, argv: Sequence[str], env: Mapping[str, str], cwd: str
) -> tuple[int, str]:
    """Run a command for at most 10 s, or the action's time. Return its exit code and stdout.

    The code is 127 if it could not start or a signal ended it. Raises `StoppedBeforeStart`.
    """
    printed = bytearray()
    allowed_s = [ANSWER_S] if job.deadline_ms is None else [ANSWER_S, job.deadline_ms / 1000]
    try:
        ended = process.run(
            argv,
            env=env,
            cwd=cwd,
            stdin=None,
            stdout=printed.extend,
            stderr=lambda _chunk: None,
            deadline_s=min(allowed_s),
            stop=at.stop,
            stop_plan=((SIGTERM, ANSWER_GRACE_S),),
            on_started=at.on_started,
            tick=at.onlookers.tick,
        )
    except process.CannotStart:
        return NOT_FOUND, ""
    if ended.cut_by == "stop":
        raise StoppedBeforeStart
    return NOT_FOUND if ended.exit_code is None else ended.exit_code, printed.decode(
        errors="replace"
    )


class LoginRefused(Exception):
    """The CLI would only retry silently. Raised while its output is read, this ends it."""

    def __init__(self, duration_ms: int) -> None:
        super().__init__("the login was rejected")
        self.ended = process.Ended(None, SIGKILL, "none", duration_ms, pid=0)


class TurnInProgress:
    """One turn while it lasts: passes lines to the reader and activity to the observers."""

    def __init__(self, at: Workplace, reader: StreamReader) -> None:
        self._onlookers = at.onlookers
        self._reader = reader
        self._lines = LineSplitter()
        self._began = time.monotonic()
        self.scanner = at.scanner()
        self.model: str | None = None

    def feed(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            self._line(line)

    def _line(self, line: bytes) -> None:
        """Pass the events of one line to the observers, and text also to the scanner for signals.

        Raises `LoginRefused` if the agent's login failed.
        """
        for event in self._reader.feed(line):
            if isinstance(event, AgentText):
                said = event.text.encode("utf-8", "replace") + b"\n"
                self.scanner.feed(said)
                self._onlookers.printed("stdout", said)
            elif isinstance(event, Usage):
                tokens = event.tokens_in + event.tokens_out
                self._onlookers.used(tokens, event.cost_usd)
            elif isinstance(event, Activity):
                self._onlookers.doing(event.text)
            elif isinstance(event, AgentStarted):
                self.model = event.model or self.model
            elif isinstance(event, Done) and event.files:
                self._onlookers.changed(event.files)
            elif isinstance(event, Retrying):
                again = f"Trying again in {event.delay_ms / 1000:.0f} s ({event.why})"
                self._onlookers.doing(again)
            elif isinstance(event, AuthFailed):
                raise LoginRefused(round((time.monotonic() - self._began) * 1000))

    def outcome(self, ended: process.Ended, raw: Result, cut_by: Cut) -> Outcome:
        """Read the rest of the stream, and return how the turn ended. `raw` is the result of the
        program."""
        with suppress(LoginRefused):  # it exited by itself
            for line in self._lines.close():
                self._line(line)
        stderr = (raw.stderr or "")[-STDERR_TAIL:]
        return self._reader.finish(ended.exit_code, ended.signal, stderr, cut_by)


def reported(data: Folder, options: HostOptions, step: int, attempt: int) -> Result:
    """Return what an interrupted turn had reported as used: tokens, cost and turns.

    It is read from the stored part of the turn's stream; what is missing there is not counted.
    """
    request = Request(action="", kind="prompt", cwd="", session_id="")
    reader = host_named(options.host).reader(request)
    stem = output_stem(step, attempt)
    # Where it is written, where an interrupted resume moved it, and where version one stored it.
    for name in (LIVE["stdout"], f"{stem}.out", f"{stem}.jsonl"):
        with suppress(OSError, StorageError):
            for line in _kept(data, name):
                reader.feed(line)
    outcome = reader.finish(None, SIGKILL, "", "stop")
    return LOST._replace(
        tokens=outcome.tokens.total, cost_usd=outcome.cost_usd, turns=outcome.turns
    )


def _kept(data: Folder, name: str) -> Iterator[bytes]:
    with open(data.open(name, os.O_RDONLY), "rb") as stream:
        yield from stream


def _result(at: Workplace, command: RunAgent, raw: Result, outcome: Outcome) -> Result:
    """Store the agent's answer, and return its result. The exit code stands for the agent's
    verdict; that of its program, in `raw`, is dropped."""
    agent_result: AgentResult = agent_result_of(outcome) or "error"
    return raw._replace(
        **kept_text(at, command.job, outcome.text),
        **kept_structured(at, command.job, outcome.structured),
        exit_code=agent_exit_code(agent_result, outcome.verdict),
        signal=None,
        agent=agent_result,
        kind=outcome.kind,
        reason=outcome.reason,
        verdict=outcome.verdict,
        session_id=(outcome.session_id or command.session_id)[:MAX_SESSION_ID],
        tokens=outcome.tokens.total,
        cost_usd=outcome.cost_usd,
        turns=outcome.turns,
        retry_at_ms=_remaining(outcome.retry_at_ms),
    )


def _remaining(reset_ms: int | None) -> int | None:
    """Return when to retry; None if that is unknown or long past: then waits grow with each
    retry."""
    past = reset_ms is not None and reset_ms + JUST_PASSED_MS < wall_ms()
    return None if past else reset_ms


def _signal(notes: Notes, turn: TurnInProgress, result: Result) -> ParsedSignal:
    """Return the first signal line in the agent's text; a turn that ended as a handoff has one
    anyway.

    A handoff without content gets the notes that the agent wrote to a file. Without a signal, the
    result is empty.
    """
    found = turn.scanner.found
    if found is not None:
        payload = READY if READY_LINE.fullmatch(found.payload) else found.payload
        return notes.signal_line(found.kind, payload)
    if result.agent == "handoff":
        return notes.signal_line("CONTEXT_HANDOFF", "")
    return ParsedSignal()
