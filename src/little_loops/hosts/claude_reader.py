"""Read Claude Code's event stream as it arrives.

A process may run several turns, because a background command that ends starts another: the last
`result` counts; its cost and tokens are totals, its turns are its own. The agent's text is what it
printed in the main thread: the `result` field contains the verdict's JSON if one was asked for, and
a subagent's text is not the agent's.

Not here: what the ending means (`claude_endings`), building the command line (`claude`).
"""

from __future__ import annotations

import re
from collections import deque

from little_loops.hosts import verdicts
from little_loops.hosts.activity import WHOLE, call, doing, files_changed
from little_loops.hosts.base import (
    Activity,
    AgentStarted,
    AgentText,
    AuthFailed,
    Cut,
    Done,
    HostEvent,
    Outcome,
    ProcessEnd,
    Request,
    Retrying,
    Tokens,
    Usage,
)
from little_loops.hosts.claude_endings import AUTH_ERRORS, StreamSummary, classify, message_of
from little_loops.hosts.json_lines import (
    NO_EVENT,
    Event,
    as_event,
    as_text,
    count_in,
    is_broken,
    number_in,
    one_line,
    part_of,
    parts_of,
    text_in,
    texts_in,
)
from little_loops.hosts.plain import PlainReader

KEPT_TEXT = 1 << 20
KEPT_NAMES = 1000
KEPT_NOTES = 20
KEPT_TOOLS = 1000

# Two refusals may be transient; after the third, nothing more would be printed.
REFUSALS = 3

SYNTHETIC = "<synthetic>"  # text of the CLI itself, in place of the model's
SHELL_ERROR = "<local-command-stderr>"
STOP_REFUSED = "Stop hook feedback"
IN_BACKGROUND = "Command running in background"


class ClaudeReader:
    """Reads the stream of one process; keeps the last text, counters and names, in bounded memory."""

    def __init__(self, request: Request) -> None:
        """Begin without events; the request names the slash command and the expected verdicts."""
        words = request.action.split(maxsplit=1) if request.kind == "slash" else []
        self._request = request
        self._plain = PlainReader(request, "claude")
        self._events = 0
        self._session_id: str | None = request.session_id
        self._text, self._text_of = "", ""
        self._counted: deque[str] = deque(maxlen=64)
        self._tokens = Tokens()
        self._cost_usd: float | None = None
        self._turns: int | None = None
        self._structured: object | None = None
        self._tools: dict[str, Done] = {}
        self._denials: dict[str, str] = {}
        self._warnings: dict[str, None] = {}
        self._retry_at_ms: int | None = None
        self._summary = StreamSummary(words=request.words, command=words[0][1:] if words else None)

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
            case "system":
                return self._system(event)
            case "assistant":
                return self._assistant(event)
            case "user":
                return self._user(event)
            case "rate_limit_event":
                return self._rate_limit(part_of(event, "rate_limit_info"))
            case "result":
                return self._result(event)
            case _:
                return ()

    def _system(self, event: Event) -> tuple[HostEvent, ...]:
        """Handle an event of the CLI itself: start, retry, compaction, model change."""
        match text_in(event, "subtype"):
            case "init":
                return self._init(event)
            case "api_retry":
                return self._api_retry(event)
            case "status" if text_in(event, "status") == "compacting":
                return (Activity("Compacting its context"),)
            case "model_fallback":
                models = text_in(event, "original_model"), text_in(event, "fallback_model")
                self._warn(f"the model `{models[0]}` was replaced by `{models[1]}`")
            case "task_notification" if text_in(event, "status") == "stopped":
                if self._summary.result is not None:
                    what = one_line(text_in(event, "summary"), 80)
                    self._warn(f"a background task was stopped: {what}")
        return ()

    def _init(self, event: Event) -> tuple[HostEvent, ...]:
        """Handle the start of a turn: note the known slash commands, and warn about failed plugins."""
        self._session_id = text_in(event, "session_id") or self._session_id
        listed = texts_in(event, "slash_commands")
        names = tuple(dict.fromkeys(name[:100] for name in (*listed, *texts_in(event, "skills"))))
        names = (
            names if listed and len(names) <= KEPT_NAMES else ()
        )  # a missing list proves nothing
        again = self._summary.result is not None
        self._summary = self._summary._replace(started=True, commands=names, unfinished=again)
        for problem in parts_of(event, "plugin_errors"):
            self._warn(f"a plugin was not loaded: {one_line(plugin_problem(problem))}")
        for server in parts_of(event, "mcp_servers"):
            if text_in(server, "status") == "failed":
                name = one_line(text_in(server, "name"), 80)
                self._warn(f"the MCP server `{name}` did not start")
        return () if again else (AgentStarted(self._session_id, text_in(event, "model") or None),)

    def _api_retry(self, event: Event) -> tuple[HostEvent, ...]:
        """Report a retry of the service; after several refused logins, also `AuthFailed`."""
        why, attempt = one_line(text_in(event, "error"), 80), count_in(event, "attempt")
        self._summary = self._summary._replace(retrying=why)
        retrying = Retrying(attempt, count_in(event, "retry_delay_ms"), why)
        if why in AUTH_ERRORS and attempt >= REFUSALS:
            return (retrying, AuthFailed("the login was rejected"))
        return (retrying,)

    def _assistant(self, event: Event) -> tuple[HostEvent, ...]:
        """Handle a message of the model: count its usage, report its text and its tool calls."""
        message = part_of(event, "message")
        if error := text_in(event, "error"):
            if in_main_thread(event):
                self._summary = self._summary._replace(error=error)
            return ()
        if text_in(message, "model") == SYNTHETIC:
            return ()
        self._summary = self._summary._replace(retrying="")
        happened: list[HostEvent] = [*self._add_usage(message)]
        if in_main_thread(event):
            self._summary = self._summary._replace(error="", stop_refused=False)
            happened += self._keep_text(message)
        for block in parts_of(message, "content"):
            if text_in(block, "type") == "tool_use":
                happened.append(self._tool_used(block))
        return tuple(happened)

    def _tool_used(self, block: Event) -> Activity:
        """Remember a tool call until its result arrives, and report it as the current activity."""
        tool, given, cwd = text_in(block, "name"), part_of(block, "input"), self._request.cwd
        if len(self._tools) < KEPT_TOOLS:
            files = files_changed(tool, given, cwd)
            text = doing(tool, given, cwd, WHOLE)
            self._tools[text_in(block, "id")[:100]] = Done(
                text, "exit 0" if tool == "Bash" else "", files
            )
        return Activity(doing(tool, given, cwd))

    def _tools_ended(self, message: Event) -> tuple[HostEvent, ...]:
        """Report the tool calls whose results are in this message."""
        ended: list[HostEvent] = []
        for block in parts_of(message, "content"):
            used = self._tools.pop(text_in(block, "tool_use_id")[:100], None)
            if used is None:
                continue
            if block.get("is_error") is True:
                used = used._replace(status=failure_of(content_text(block)), files=())
            elif content_text(block).startswith(IN_BACKGROUND):
                used = used._replace(status="in the background")
            ended.append(used)
        return tuple(ended)

    def _keep_text(self, message: Event) -> list[HostEvent]:
        """Keep the main thread's last message, which arrives as one event per content block."""
        blocks = parts_of(message, "content")
        texts = [text_in(block, "text") for block in blocks if text_in(block, "type") == "text"]
        if not any(texts):
            return []
        said, ident = "\n".join(texts), text_in(message, "id")
        if ident and ident == self._text_of:
            self._text = f"{self._text}\n{said}"[-KEPT_TEXT:]
        else:
            self._text = said[-KEPT_TEXT:]
        self._text_of = ident
        return [AgentText(said)]

    def _add_usage(self, message: Event) -> list[HostEvent]:
        """Add a message's usage, once per message; the last result replaces this estimate."""
        ident, usage = text_in(message, "id")[:100], part_of(message, "usage")
        if not usage or (ident and ident in self._counted):
            return []
        self._counted.append(ident)
        counted = zip(self._tokens, usage_of(usage), strict=True)
        self._tokens = Tokens(*(old + new for old, new in counted))
        return [self._usage_so_far()]

    def _usage_so_far(self) -> Usage:
        tokens = self._tokens
        read = tokens.input + tokens.cache_read + tokens.cache_write
        return Usage(read, tokens.output, self._cost_usd)

    def _user(self, event: Event) -> tuple[HostEvent, ...]:
        """Handle tool results and messages that the CLI adds: shell errors and Stop hooks."""
        message = part_of(event, "message")
        ended = self._tools_ended(message)
        if not in_main_thread(event):
            return ended
        said = content_text(message)
        if event.get("isReplay") is True and SHELL_ERROR in said:
            error = said.replace(SHELL_ERROR, "").replace("</local-command-stderr>", "")
            self._summary = self._summary._replace(shell_error=error.strip()[:2000] or "no message")
        elif event.get("isSynthetic") is True and said.startswith(STOP_REFUSED):
            self._summary = self._summary._replace(stop_refused=True)
        return ended

    def _rate_limit(self, info: Event) -> tuple[HostEvent, ...]:
        """Note whether a rate limit was reached, and when it resets."""
        rejected = text_in(info, "status") == "rejected"
        self._summary = self._summary._replace(limited=rejected)
        resets = number_in(info, "resetsAt") if rejected else None
        self._retry_at_ms = None if resets is None else milliseconds(resets)
        return ()

    def _result(self, event: Event) -> tuple[HostEvent, ...]:
        """Handle the result of a turn: totals, structured output and denied tools."""
        self._summary = self._summary._replace(result=event, unfinished=False)
        self._session_id = text_in(event, "session_id") or self._session_id
        self._turns = (self._turns or 0) + count_in(event, "num_turns")
        self._structured = event.get("structured_output", self._structured)
        self._tokens = totals(event)
        self._cost_usd = number_in(event, "total_cost_usd")
        for denial in parts_of(event, "permission_denials")[:KEPT_NOTES]:
            tool, given = text_in(denial, "tool_name"), part_of(denial, "tool_input")
            ident = text_in(denial, "tool_use_id")[:100]
            if ident in self._denials or len(self._denials) < KEPT_NOTES:
                self._denials[ident] = call(tool, given, self._request.cwd)
        return (self._usage_so_far(),)

    def _warn(self, warning: str) -> None:
        """Add a warning, once, up to a maximum number."""
        if len(self._warnings) < KEPT_NOTES:
            self._warnings[warning] = None

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
            plain = self._plain.finish(exit_code, signal, stderr_tail, cut_by)
            return plain._replace(session_id=self._session_id)
        seen = self._with_verdict(ProcessEnd(exit_code, signal, stderr_tail, cut_by))
        found = classify(seen)
        return Outcome(
            kind=found.kind,
            reason=found.reason,
            text=self._text or (self._result_text() if found.kind == "success" else ""),
            verdict=seen.verdict if found.kind == "success" else None,
            structured=self._structured,
            session_id=self._session_id,
            tokens=self._tokens,
            cost_usd=self._cost_usd,
            turns=self._turns,
            denials=seen.denials,
            retry_at_ms=self._retry_at_ms if found.kind == "rate_limited" else None,
            warnings=tuple(self._warnings),
            commands=seen.commands if found.kind == "unknown_command" else (),
            exit_code=exit_code,
            raw_reason=raw_reason(seen),
        )

    def _with_verdict(self, ended: ProcessEnd) -> StreamSummary:
        """Return the summary with the agent's verdict: structured, or from its last line."""
        seen = self._summary._replace(ended=ended, denials=tuple(self._denials.values()))
        words = self._request.words
        if not words:
            return seen
        answer = self._structured if isinstance(self._structured, dict) else NO_EVENT
        verdict = verdicts.among(answer.get("verdict"), words)
        if verdict is not None:
            return seen._replace(verdict=verdict, why=one_line(text_in(answer, "reason")))
        said = verdicts.last_line_verdict(self._text)
        verdict = verdicts.among(said, words)
        why = f"the agent printed `VERDICT: {verdict}`" if verdict else ""
        return seen._replace(verdict=verdict, said=said, why=why)

    def _result_text(self) -> str:
        """Return the answer of a command that needs no model, such as `/context`."""
        result = self._summary.result or NO_EVENT
        return "" if self._structured is not None else text_in(result, "result")[-KEPT_TEXT:]


def in_main_thread(event: Event) -> bool:
    return event.get("parent_tool_use_id") is None


def content_text(message: Event) -> str:
    """Return the text of a message, whose content is a string or a list of blocks."""
    blocks = parts_of(message, "content")
    return text_in(message, "content") or "\n".join(text_in(block, "text") for block in blocks)


def failure_of(said: str) -> str:
    """Return how a tool failed, from the text that the CLI printed about it."""
    found = re.match(r"(?:Error: )?Exit code (\d{1,3})\b", said)
    return f"exit {found[1]}" if found else "failed"


def usage_of(usage: Event) -> Tokens:
    """Return the token counts in a `usage` object; those that are missing are 0."""
    return Tokens(
        count_in(usage, "input_tokens"),
        count_in(usage, "output_tokens"),
        count_in(usage, "cache_read_input_tokens"),
        count_in(usage, "cache_creation_input_tokens"),
    )


def totals(result: Event) -> Tokens:
    """Return all tokens of the process; `usage` omits subagents, earlier turns and repeated calls."""
    models = [part for part in part_of(result, "modelUsage").values() if isinstance(part, dict)]
    if not models:
        return usage_of(part_of(result, "usage"))
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return Tokens(*(sum(count_in(model, key) for model in models) for key in keys))


def plugin_problem(problem: Event) -> str:
    return text_in(problem, "message") or text_in(problem, "path") or text_in(problem, "type")


def milliseconds(time: float) -> int:
    """Convert a wall-clock time in seconds or milliseconds, told apart by size, to milliseconds."""
    return int(time if time > 1e11 else time * 1000)


def raw_reason(seen: StreamSummary) -> str:
    """Return the CLI's own words for the ending, for the log."""
    result = seen.result or NO_EVENT
    keys = ("subtype", "terminal_reason", "stop_reason")
    parts = [text_in(result, key) for key in keys] + [seen.error or seen.retrying]
    status = number_in(result, "api_error_status")
    parts.append("" if status is None else f"{status:.0f}")
    parts.append(one_line(message_of(seen)) if seen.result and result.get("is_error") else "")
    return ", ".join(word for word in parts if word)
