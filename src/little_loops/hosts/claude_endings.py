"""Classify how a turn of Claude Code ended, with one rule per kind of ending.

Neither the exit code nor `subtype` is reliable: an unknown command, a denied tool and a failed
shell block all exit with 0 and `success`, and so does every refusal of the service, with
`is_error`. The first rule that matches decides; if none does, the turn is a success.

Not here: reading the stream (`claude_reader`), and where each ending leads (`base.TRANSITIONS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from little_loops.hosts.base import Kind, ProcessEnd, TurnEnding, cut_short, with_remedy
from little_loops.hosts.json_lines import (
    NO_EVENT,
    Event,
    because,
    number_in,
    one_line,
    text_in,
    texts_in,
)
from little_loops.hosts.plain import died, error_line, silent
from little_loops.hosts.verdicts import missing
from little_loops.records import NamedTuple

AUTH_ERRORS = ("authentication_failed", "oauth_org_not_allowed")
CONTEXT_REASONS = ("prompt_too_long", "blocking_limit", "rapid_refill_breaker")
LIMITS: Mapping[str, Kind] = {
    "error_max_turns": "limit_reached",
    "error_max_budget_usd": "cost_limit_reached",
}
SHOWN_NAMES = 12
REMEDIES: Mapping[Kind, str] = {
    "auth": "set `ANTHROPIC_API_KEY`, or start `claude` and type `/login`",
    "billing": "add credit to the account, or log in with another account",
}


class StreamSummary(NamedTuple):
    """Everything in a stream that its ending depends on."""

    ended: ProcessEnd = ProcessEnd(None)
    command: str | None = None  # the requested slash command
    commands: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None
    started: bool = False
    result: Event | None = None
    unfinished: bool = False  # another turn began after the last result
    error: str = ""  # of the last message, as the CLI names it
    retrying: str = ""  # why the service refused, if it has not answered since
    limited: bool = False
    shell_error: str = ""  # of a `!` block in the slash command
    stop_refused: bool = False  # a Stop hook rejected the last attempt to end the turn
    denials: tuple[str, ...] = ()
    verdict: str | None = None
    said: str | None = None  # a verdict that is not one of `words`
    why: str = ""  # the agent's reason for its verdict


Rule = Callable[[StreamSummary], TurnEnding | None]


def classify(seen: StreamSummary) -> TurnEnding:
    """Return the kind of ending and the reason, by the first rule that matches."""
    for rule in RULES:
        if found := rule(seen):
            return with_remedy(found, REMEDIES)
    return TurnEnding("success", seen.why or "the agent ended its turn")


def message_of(seen: StreamSummary) -> str:
    """Return the CLI's message about the ending."""
    result = seen.result or NO_EVENT
    return text_in(result, "result") or "; ".join(texts_in(result, "errors"))


def is_error(seen: StreamSummary) -> bool:
    """Return whether the CLI reported its result as an error."""
    result = seen.result or NO_EVENT
    said = result.get("is_error")
    return said if isinstance(said, bool) else text_in(result, "subtype").startswith("error")


def status_of(seen: StreamSummary) -> int | None:
    """Return the HTTP status of the service's error; None if there was none."""
    status = number_in(seen.result or NO_EVENT, "api_error_status")
    return None if status is None else int(status)


def has_terminal_reason(seen: StreamSummary, *reasons: str) -> bool:
    """Return whether the CLI gave one of these as its terminal reason."""
    return text_in(seen.result or NO_EVENT, "terminal_reason") in reasons


def ran_no_turn(seen: StreamSummary) -> bool:
    """Return whether the result says that the model was never called."""
    return seen.result is not None and number_in(seen.result, "num_turns") == 0


# The rules ------------------------------------------------------------------------------------


def cut(seen: StreamSummary) -> TurnEnding | None:
    """Match a process that we ended ourselves."""
    return cut_short(seen.ended)


def not_started(seen: StreamSummary) -> TurnEnding | None:
    """Match a process that exited with an error before its first event."""
    if seen.result is None and not seen.started and seen.ended.exit_code not in (0, None):
        return silent(seen.ended, "claude")
    return None


def truncated(seen: StreamSummary) -> TurnEnding | None:
    """Match a stream without a result, or in which another turn began after its last result.

    Endings that `cut` and `not_started` match do not get here.
    """
    if seen.result is not None and not seen.unfinished:
        return None
    found = died(seen.ended, "claude")
    what = found.reason if found else f"`claude` exited with code {seen.ended.exit_code}"
    return TurnEnding(
        "truncated", because(f"{what} in mid-turn", error_line(seen.ended.stderr_tail))
    )


def unknown_command(seen: StreamSummary) -> TurnEnding | None:
    """Match a slash command that the CLI does not know."""
    # Newer versions send an unknown command to the model as text, so turns prove nothing.
    unlisted = bool(seen.command and seen.commands and seen.command not in seen.commands)
    reported = ran_no_turn(seen) and message_of(seen).startswith("Unknown command:")
    if not unlisted and not reported:
        return None
    return TurnEnding("unknown_command", unknown_command_text(seen.command or "", seen.commands))


def unknown_command_text(name: str, commands: tuple[str, ...]) -> str:
    """Return the message about an unknown slash command, with the nearest known names first."""
    import difflib  # only needed for an unknown name

    near = difflib.get_close_matches(name, commands, n=3)
    others = sorted(set(commands) - set(near))
    shown = [*near, *others][:SHOWN_NAMES]
    text = f"unknown slash command `/{one_line(name, 80)}`"
    if shown:
        text += "; known: " + ", ".join(f"`/{known}`" for known in shown)
    if len(commands) > len(shown):
        text += f" and {len(commands) - len(shown)} more"
    return text


def command_failed(seen: StreamSummary) -> TurnEnding | None:
    """Match a slash command whose `!` shell block failed, so that no turn was run."""
    if ran_no_turn(seen) and seen.shell_error:
        what = "the shell block of the slash command failed"
        return TurnEnding("command_failed", because(what, seen.shell_error))
    return None


def auth(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because of a refused login."""
    message = message_of(seen)
    if status_of(seen) in (401, 403) or seen.error in AUTH_ERRORS or "Not logged in" in message:
        return TurnEnding("auth", because("the login was rejected", message))
    return None


def billing(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the account has no credit."""
    message = message_of(seen)
    if seen.error == "billing_error" or message.startswith("Credit balance"):
        return TurnEnding("billing", because("the account has no credit", message))
    return None


def rate_limited(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because of a rate limit."""
    if status_of(seen) == 429 or seen.limited or "rate_limit" in (seen.error, seen.retrying):
        return TurnEnding("rate_limited", because("a rate limit was reached", message_of(seen)))
    return None


def overloaded(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the service is overloaded or unreachable."""
    message, troubles = message_of(seen), {seen.error, seen.retrying}
    refused = (status_of(seen) or 0) >= 500 or "Repeated 529" in message
    if refused or troubles & {"server_error", "overloaded"}:
        return TurnEnding("overloaded", because("the service did not respond", message))
    return None


def context_exhausted(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the context is full."""
    if has_terminal_reason(seen, *CONTEXT_REASONS):
        return TurnEnding("context_exhausted", because("the context is full", message_of(seen)))
    return None


def limit_reached(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the limit on turns or cost was reached."""
    kind = text_in(seen.result or NO_EVENT, "subtype")
    if kind not in LIMITS:
        return None
    return TurnEnding(LIMITS[kind], one_line(message_of(seen)).lower() or "a limit was reached")


def refused(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the model refused the request."""
    if text_in(seen.result or NO_EVENT, "stop_reason") == "refusal":
        return TurnEnding("refused", "the model refused the request")
    return None


def bad_output(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the agent gave no verdict in the required format."""
    if text_in(seen.result or NO_EVENT, "subtype") == "error_max_structured_output_retries":
        return TurnEnding("bad_output", "the agent did not return a verdict in the required format")
    return None


def no_such_model(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the model does not exist.

    That is a mistake in the loop file, not a failure of the agent.
    """
    # A wrong name in the loop file is nothing an agent could fail at.
    if status_of(seen) == 404 or seen.error == "model_not_found":
        return TurnEnding("not_started", one_line(message_of(seen)))
    return None


def aborted(seen: StreamSummary) -> TurnEnding | None:
    """Match an error because the turn was interrupted."""
    if has_terminal_reason(seen, "aborted_streaming", "aborted_tools"):
        return TurnEnding("truncated", "the turn was interrupted")
    return None


def failed(seen: StreamSummary) -> TurnEnding | None:
    """Match any other error."""
    return TurnEnding("failed", one_line(message_of(seen)) or "the agent ended with an error")


def hook_stopped(seen: StreamSummary) -> TurnEnding | None:
    """Match a turn that a hook stopped, or that a Stop hook never allowed to end."""
    if has_terminal_reason(seen, "hook_stopped"):
        return TurnEnding("failed", "a hook stopped the agent")
    if seen.stop_refused and not message_of(seen):
        return TurnEnding("failed", "a Stop hook blocked every attempt to end the turn")
    return None


def permission_denied(seen: StreamSummary) -> TurnEnding | None:
    """Match a turn in which the agent was denied a tool."""
    if seen.denials:
        named = ", ".join(f"`{denial}`" for denial in seen.denials[:5])
        return TurnEnding("permission_denied", f"the agent was not allowed to use {named}")
    return None


def no_verdict(seen: StreamSummary) -> TurnEnding | None:
    """Match a turn without the verdict that was asked for."""
    if seen.words and seen.verdict is None:
        return TurnEnding("no_verdict", missing(seen.said, seen.words))
    return None


def if_error(*rules: Rule) -> Rule:
    """Return a rule that tries these rules in order, but only if the result is an error."""

    def rule(seen: StreamSummary) -> TurnEnding | None:
        found = (each(seen) for each in rules) if is_error(seen) else iter(())
        return next((finding for finding in found if finding), None)

    return rule


RULES: tuple[Rule, ...] = (
    cut,
    not_started,
    truncated,
    unknown_command,
    command_failed,
    if_error(auth, billing, rate_limited, overloaded, context_exhausted, limit_reached),
    if_error(refused, bad_output, no_such_model, aborted, failed),
    hook_stopped,
    permission_denied,
    no_verdict,
)
