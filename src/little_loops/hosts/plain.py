"""Read a CLI that prints plain text: a wrapper, an old version, or any other program.

Only a `VERDICT:` line and the exit code count: 0 is success, 1 is a failure, anything else an
error. A program that printed nothing has not answered, whatever its exit code.
"""

from __future__ import annotations

from collections import deque

from little_loops.hosts import verdicts
from little_loops.hosts.base import (
    AgentText,
    Cut,
    HostEvent,
    Outcome,
    ProcessEnd,
    Request,
    TurnEnding,
    cut_short,
)
from little_loops.hosts.json_lines import as_text, because, one_line

# The end of the output, which has the verdict; the caller's file has all of it.
KEPT_CHARACTERS = 1 << 20


class PlainReader:
    """Keeps the end of a stream, and judges it when the process has ended."""

    def __init__(self, request: Request, program: str) -> None:
        """Begin without output; `program` is the name to use in messages."""
        self._request = request
        self._program = program
        self._lines: deque[str] = deque()
        self._kept = 0

    @property
    def printed(self) -> bool:
        return bool(self._lines)

    def feed(self, line: bytes | str) -> tuple[HostEvent, ...]:
        """Take one line of output and return it as text; skip blank lines at the start."""
        text = as_text(line)
        if not text.strip() and not self._lines:
            return ()
        self._lines.append(text[-KEPT_CHARACTERS:])
        self._kept += len(self._lines[-1]) + 1
        while self._kept > KEPT_CHARACTERS and len(self._lines) > 1:
            self._kept -= len(self._lines.popleft()) + 1
        return (AgentText(text),)

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        cut_by: Cut = "none",
    ) -> Outcome:
        """Return the outcome, once the process has ended."""
        ended = ProcessEnd(exit_code, signal, stderr_tail, cut_by)
        text = "\n".join(self._lines).rstrip()
        verdict, found = self._judge(ended, text)
        return Outcome(
            kind=found.kind,
            reason=found.reason,
            text=text,
            verdict=verdict,
            exit_code=exit_code,
            raw_reason=one_line(stderr_tail[-2000:]),
        )

    def _judge(self, ended: ProcessEnd, text: str) -> tuple[str | None, TurnEnding]:
        """Return the verdict, if there is one, and the kind of ending."""
        if found := cut_short(ended) or died(ended, self._program):
            return None, found
        if not self.printed:
            return None, silent(ended, self._program)
        words = self._request.words
        said = verdicts.any_line_verdict(text) if words else None
        if words and said is not None:
            verdict = verdicts.among(said, words)
            if verdict is None:
                return None, TurnEnding("no_verdict", verdicts.missing(said, words))
            return verdict, TurnEnding("success", f"the agent printed `VERDICT: {verdict}`")
        return by_exit_code(ended.exit_code, self._program, words)


def died(ended: ProcessEnd, program: str) -> TurnEnding | None:
    """Return the finding for a process that was killed; None if it exited by itself."""
    if ended.signal is None and ended.exit_code is not None:
        return None
    by = f" by signal {ended.signal}" if ended.signal is not None else ""
    return TurnEnding("truncated", f"`{program}` was killed{by}")


def silent(ended: ProcessEnd, program: str) -> TurnEnding:
    """Return the finding for a program that printed nothing to stdout."""
    if ended.exit_code == 0:
        return TurnEnding("truncated", f"`{program}` printed nothing")
    what = f"`{program}` exited with code {ended.exit_code}"
    why = error_line(ended.stderr_tail)
    return TurnEnding("not_started", because(what, why) if why else f"{what} and printed nothing")


def error_line(stderr_tail: str) -> str:
    """Return the first line of stderr that starts with `error`, else the last; empty if none."""
    lines = [line.strip() for line in stderr_tail.splitlines() if line.strip()]
    named = [line for line in lines if line.lower().startswith("error")]
    return named[0] if named else lines[-1] if lines else ""


def by_exit_code(
    exit_code: int | None, program: str, words: tuple[str, ...] | None
) -> tuple[str | None, TurnEnding]:
    """Return the verdict and ending that the exit code means, as for a shell action."""
    said = f"`{program}` exited with code {exit_code}"
    word = {0: "pass", 1: "fail"}.get(exit_code if exit_code is not None else -1)
    if word is None:
        return None, TurnEnding("command_failed", said)
    if words and word not in words:
        return None, TurnEnding("no_verdict", verdicts.NO_VERDICT)
    return word if words else None, TurnEnding("success" if word == "pass" else "failed", said)
