"""Read Codex's event stream, and classify how the turn ended.

Codex reports errors only as messages, without a kind, so the rules go by their words. With a
schema, the last message is the verdict itself; the agent's text is then what it printed before, or
its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from little_loops.hosts import verdicts
from little_loops.hosts.activity import WHOLE, WIDTH, inside
from little_loops.hosts.base import (
    Activity,
    AgentStarted,
    AgentText,
    Cut,
    Done,
    HostEvent,
    Kind,
    Outcome,
    ProcessEnd,
    Request,
    Retrying,
    Tokens,
    TurnEnding,
    Usage,
    cut_short,
    with_remedy,
)
from little_loops.hosts.json_lines import (
    Event,
    as_event,
    as_text,
    because,
    count_in,
    is_broken,
    one_line,
    part_of,
    parts_of,
    text_in,
)
from little_loops.hosts.plain import PlainReader, died, error_line, silent

KEPT_TEXT = 1 << 20
KEPT_NOTES = 20

# The first match wins. The patterns are for messages of the CLI and of its service.
MESSAGES: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    (
        "auth",
        "the login was rejected",
        (r"status 40[13]\b", "unauthorized", "missing environment variable", "log ?in", "api key"),
    ),
    ("billing", "the account has no credit", ("quota", "billing", r"\bcredits\b")),
    ("rate_limited", "a rate limit was reached", (r"\b429\b", "rate limit", "usage limit")),
    ("context_exhausted", "the context is full", ("context_length", "context window")),
    (
        "overloaded",
        "the service did not respond",
        (r"status:? 5\d\d\b", "high demand", "at capacity", "overloaded", "disconnected")
        + ("connection failed", "sending request", "timed out", "timeout"),
    ),
    ("refused", "the model refused the request", ("content policy", "usage policy")),
    ("not_started", "", ("model .*does not exist", "model_not_found", "model .*not supported")),
)
REMEDIES: Mapping[Kind, str] = {
    "auth": "run `codex login`, or set the key its provider asks for",
    "billing": "add credit to the account, or log in with another account",
}
# A URL may contain any number, so it must not be matched against the patterns.
ADDRESS = re.compile(r",? ?(url: )?https?://\S+")
RECONNECTING = re.compile(r"Reconnecting\.\.\. (?:(\d{1,9})/\d+)?")


class CodexReader:
    """Reads the stream of one `codex exec`."""

    def __init__(self, request: Request) -> None:
        """Begin without events; the request says which verdicts to expect."""
        self._request = request
        self._plain = PlainReader(request, "codex")
        self._events = 0
        self._session_id: str | None = None
        self._text = ""
        self._answer: Mapping[str, object] | None = None
        self._tokens = Tokens()
        self._completed = False
        self._failure: str | None = None
        self._denials: list[str] = []
        self._warnings: dict[str, None] = {}

    # While it runs

    def feed(self, line: bytes | str) -> tuple[HostEvent, ...]:
        """Take one line of output. Return the events to report for it."""
        text = as_text(line)
        event = as_event(text)
        if event is None:
            # Before the first event, the CLI may be one that prints plain text; later it is noise.
            self._events += is_broken(text)
            return () if self._events else self._plain.feed(text)
        self._events += 1
        match text_in(event, "type"):
            case "thread.started":
                self._session_id = text_in(event, "thread_id") or None
                return (AgentStarted(self._session_id, self._request.model),)
            case "turn.started":
                self._completed, self._failure = False, None
            case "item.started" | "item.completed" as when:
                return self._item(part_of(event, "item"), when == "item.completed")
            case "error":
                return retry_in(text_in(event, "message"))
            case "turn.failed":
                self._failure = text_in(part_of(event, "error"), "message")
            case "turn.completed":
                return self._turn_completed(part_of(event, "usage"))
            case _:
                pass
        return ()

    def _item(self, item: Event, completed: bool) -> tuple[HostEvent, ...]:
        """Handle a message, a tool call, a file change or an error."""
        kind = text_in(item, "type")
        if completed and kind == "agent_message":
            return self._keep_message(text_in(item, "text"))
        if completed and kind == "error":
            self._warn(one_line(text_in(item, "message")))
        elif completed and text_in(item, "status") == "declined":
            self._deny(one_line(command_in(text_in(item, "command")), 80))
        elif completed and kind != "file_change":
            return _done(item, self._request.cwd)
        else:
            said = doing(item, self._request.cwd)
            done = _done(item, self._request.cwd) if completed else ()
            return (Activity(said), *done) if said else ()
        return ()

    def _keep_message(self, said: str) -> tuple[HostEvent, ...]:
        """Keep a message as the agent's text, or as its structured answer, and report its text."""
        answer = self._parse_answer(said)
        self._answer = answer
        if answer is None:
            self._text = said[-KEPT_TEXT:]
            return (AgentText(said),)
        # With a schema, this is the agent's only text, so a signal line may be in it.
        return (AgentText(text_in(answer, "reason")),)

    def _parse_answer(self, said: str) -> Mapping[str, object] | None:
        """Return a message as a structured answer; None if it is not one, or none was asked for."""
        if not self._request.words:
            return None
        try:
            answer = json.loads(said)
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) and "verdict" in answer else None

    def _turn_completed(self, usage: Event) -> tuple[HostEvent, ...]:
        """Note the end of the turn and its token counts."""
        self._completed = True
        cached = count_in(usage, "cached_input_tokens")
        written = count_in(usage, "cache_write_input_tokens")
        read = max(0, count_in(usage, "input_tokens") - cached - written)
        self._tokens = Tokens(read, count_in(usage, "output_tokens"), cached, written)
        return (Usage(read + cached + written, self._tokens.output, None),)

    def _warn(self, warning: str) -> None:
        if len(self._warnings) < KEPT_NOTES:
            self._warnings[warning] = None

    def _deny(self, what: str) -> None:
        if len(self._denials) < KEPT_NOTES:
            self._denials.append(what)

    # At the end

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        cut_by: Cut = "none",
    ) -> Outcome:
        """Return the outcome, once the process has ended.

        If there was no event, the output is judged as plain text.
        """
        if not self._events:
            return self._plain.finish(exit_code, signal, stderr_tail, cut_by)
        verdict, said = self._verdict()
        found = self._classify(ProcessEnd(exit_code, signal, stderr_tail, cut_by), verdict, said)
        return Outcome(
            kind=found.kind,
            reason=found.reason,
            text=self._text or text_in(self._answer or {}, "reason"),
            verdict=verdict if found.kind == "success" else None,
            structured=self._answer,
            session_id=self._session_id,
            tokens=self._tokens,
            denials=tuple(self._denials),
            warnings=tuple(self._warnings),
            exit_code=exit_code,
            raw_reason=one_line(self._failure or ""),
        )

    def _verdict(self) -> tuple[str | None, str | None]:
        """Return the verdict, and the word that was given, which may not be a valid verdict."""
        words = self._request.words
        if not words:
            return None, None
        said = (self._answer or {}).get("verdict") or verdicts.last_line_verdict(self._text)
        return verdicts.among(said, words), said if isinstance(said, str) else None

    def _classify(self, ended: ProcessEnd, verdict: str | None, said: str | None) -> TurnEnding:
        """Return the kind of ending and the reason."""
        if found := cut_short(ended):
            return found
        if self._failure is not None:
            return by_message(self._failure)
        if not self._completed:
            return self._unfinished(ended)
        if self._denials:
            named = ", ".join(f"`{denial}`" for denial in self._denials[:5])
            return TurnEnding("permission_denied", f"the agent was not allowed to run {named}")
        words = self._request.words
        if words and verdict is None:
            return TurnEnding("no_verdict", verdicts.missing(said, words))
        why = one_line(text_in(self._answer or {}, "reason"))
        return TurnEnding("success", why or "the agent ended its turn")

    def _unfinished(self, ended: ProcessEnd) -> TurnEnding:
        """Return the finding for a process that exited before its turn was completed."""
        if self._session_id is None and ended.exit_code not in (0, None):
            return silent(ended, "codex")
        found = died(ended, "codex")
        what = found.reason if found else f"`codex` exited with code {ended.exit_code}"
        return TurnEnding(
            "truncated", because(f"{what} in mid-turn", error_line(ended.stderr_tail))
        )


def retry_in(message: str) -> tuple[HostEvent, ...]:
    """Return a `Retrying` event if the error message is about a reconnect.

    Codex reports its retries as errors; a real error is repeated when the turn fails.
    """
    again = RECONNECTING.match(message)
    if again is None:
        return ()
    why = one_line(message[again.end() :])
    if why.startswith("(") and why.endswith(")"):
        why = why[1:-1]
    return (Retrying(int(again[1] or 0), 0, why),)


def by_message(message: str) -> TurnEnding:
    """Return the kind of a failure, according to its message."""
    line = one_line(ADDRESS.sub("", message[:4000]))
    for kind, means, words in MESSAGES:
        if re.search("|".join(words), line, re.IGNORECASE):
            return with_remedy(TurnEnding(kind, f"{means}: {line}" if means else line), REMEDIES)
    return TurnEnding("failed", line or "the agent ended with an error")


def _done(item: Event, cwd: str) -> tuple[HostEvent, ...]:
    """Report the end of a command, a tool call or a file change."""
    text = doing(item, cwd, WHOLE)
    if not text:
        return ()
    status = "failed" if text_in(item, "status") == "failed" else ""
    if isinstance(code := item.get("exit_code"), int):
        status = f"exit {code}"
    return (Done(text, status, () if status == "failed" else tuple(_paths(item, cwd))),)


def _paths(item: Event, cwd: str) -> list[str]:
    """Return the files of a file change; other items have none."""
    paths = [inside(text_in(change, "path"), cwd) for change in parts_of(item, "changes")]
    return [one_line(path, WHOLE) for path in paths]


def doing(item: Event, cwd: str, width: int = WIDTH) -> str:
    """Describe an item on one line, at most `width` characters long; empty if it is not an
    activity."""
    match text_in(item, "type"):
        case "command_execution":
            return one_line(f"Running {command_in(text_in(item, 'command'))}", width)
        case "file_change":
            paths = _paths(item, cwd)
            return one_line(f"Editing {', '.join(paths)}", width) if paths else ""
        case "mcp_tool_call":
            return one_line(f"Using {text_in(item, 'tool')}", width)
        case "web_search":
            return one_line(f"Searching the web for {text_in(item, 'query')}", width)
        case _:
            return ""


SHELL = re.compile(r"\S*/(?:ba|z|da)?sh -l?c (?:'(.*)'|(\S+))", re.DOTALL)


def command_in(command: str) -> str:
    """Return the command without the shell that codex wraps around it."""
    found = SHELL.fullmatch(command[:2000])
    return (found[1] or found[2]) if found else command
