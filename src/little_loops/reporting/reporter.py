"""Report a run as text: its plain lines, with the output of its actions between them.

The log of a run is written by this, and so is a screen that is not a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from little_loops.errors import OK
from little_loops.fsm.actions import action_of_event, is_builtin
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    Event,
    LoopError,
    LoopTimeout,
    PartialResult,
    RunWarning,
)
from little_loops.fsm.state import Children, Result
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR, Excerpt
from little_loops.reporting.held_end import HeldEnd, Mark, WithVerdict
from little_loops.reporting.lines import PlainLines, is_verdict, output_of
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer

MOST_LINES = 20
# As tuples: for each event, making a union would take longer than the comparison.
ACTION_ENDS = (ActionComplete, ActionInterrupted)
FAILURES = (LoopError, LoopTimeout)


class Reporter(Observer):
    """An observer that writes the plain lines of a run, and excerpts of its output."""

    def __init__(
        self,
        write: Callable[[str], object],
        teller: PlainLines,
        masker: Masker,
        *,
        output: bool,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        """Write lines with `write`, and warnings with `warn` if given.

        Without `output`, only the output of the last state is written.
        """
        self._write = write
        self._warn = warn or write
        self._teller = teller
        self._masker = masker
        self._output = output
        self._excerpts: dict[str, Excerpt] = {}
        self._held = HeldEnd()
        self._is_last_state = False
        self._is_report = False
        self._unprinted: Result | PartialResult | None = None
        self._unwritten: list[str] = []

    def record(self, entry: Entry) -> None:
        self.records((entry,))

    def records(self, entries: Sequence[Entry]) -> None:
        """Write the lines of several events at once, because single writes cost more than the
        lines."""
        try:
            for entry in entries:
                self._handle(entry.event)
        finally:
            self._flush()

    def _flush(self) -> None:
        text, self._unwritten = "".join(self._unwritten), []
        if text:
            self._write(text)

    def _handle(self, event: Event) -> None:
        """Handle one event: end the current output, and queue the lines that are due."""
        if isinstance(event, ActionStart):
            self._is_last_state = event.terminal
            self._is_report = event.terminal and _is_builtin(event)
        elif isinstance(event, ACTION_ENDS):
            is_shown = bool(self._excerpts) or _has_branches(event.result)
            self._unprinted = None if is_shown else event.result
            self._end_excerpts()
        for each in self._held.feed(event):
            self._queue_lines(each)

    def _end_excerpts(self) -> None:
        """Queue the end of the action's output."""
        for excerpt in self._excerpts.values():
            others = (one for one in self._excerpts.values() if one is not excerpt)
            rest = excerpt.finish()
            self._unwritten += [one.break_line() for one in others if rest]
            self._unwritten.append(rest)
        self._excerpts.clear()

    def _queue_lines(self, shown: WithVerdict) -> None:
        """Queue the lines for an event; write warnings immediately."""
        event, mark = shown
        if self._is_report and isinstance(event, ActionComplete) and self._has_shown_report(event):
            return
        if isinstance(event, RunWarning):
            self._flush()  # earlier lines come first
            self._warn("".join(self._lines(event, mark)))
            return
        if self._unprinted is not None and isinstance(event, FAILURES):
            self._unwritten.append(_printed(self._unprinted))
        self._unwritten += map(_written, self._teller.lines(event, mark))

    def _lines(self, event: Event, mark: Mark | None) -> Iterable[str]:
        return map(_written, self._teller.lines(event, mark))

    def _has_shown_report(self, event: ActionComplete) -> bool:
        """Return whether the action's output was a report, which ends with what its line would say."""
        return self._unprinted is None and event.result.exit_code == OK

    def below(self, child: str, text: str) -> None:
        """Write the lines of a run that this one has started, each marked with its name."""
        self._flush()
        lines = marked_lines(child, text, output=self._output)
        self._write("".join(f"{line}\n" for line in lines))

    def continues(self, children: Children) -> None:
        self._teller.continues(children)

    def learn(self, environ: Mapping[str, str]) -> None:
        self._masker.learn(environ)

    def changed(self, paths: Sequence[str]) -> None:
        self._teller.changed(map(self._masker.mask, paths))

    def printed(self, stream: str, chunk: bytes) -> None:
        """Write an action's output, unless output is off and this is not the last state."""
        if not self._output and not self._is_last_state:
            return
        if stream not in self._excerpts:
            self._excerpts[stream] = Excerpt(self._masker)
        if shown := self._excerpts[stream].feed(chunk):
            others = (one for name, one in self._excerpts.items() if name != stream)
            self._write("".join(one.break_line() for one in others) + shown)


def marked_lines(child: str, text: str, *, output: bool) -> list[str]:
    """Return the lines of a run that another one has started, marked with its name; without
    `output`, not what its actions print."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [f"[{child}] {line}" for line in lines if line and (output or not line.startswith(BAR))]


@lru_cache(maxsize=8)  # cached, because the log and the screen have the same lines
def _written(line: str) -> str:
    return visible(line, newlines=False) + "\n"


def _is_builtin(event: ActionStart) -> bool:
    return is_builtin(action_of_event(event.action, event.action_type))


def _has_branches(result: Result | PartialResult | None) -> bool:
    """Return whether a result is that of branches, each of which has said how it ended."""
    return isinstance(result, Result) and result.branches is not None


def _printed(result: Result | PartialResult) -> str:
    """Return the end of an action's output, for a run that fails because of it.

    Empty for a single line, which is displayed already.
    """
    texts = (output_of(result), result.stderr or "")
    lines = [line for text in texts for line in visible(text).splitlines() if not is_verdict(line)]
    if len(lines) < 2:
        return ""
    return "".join(f"{BAR}{line}\n" for line in lines[-MOST_LINES:])
