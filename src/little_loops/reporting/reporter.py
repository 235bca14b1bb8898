"""Tell a run as text: its plain lines, and what its actions print between them.

The log of a run is written by this, and so is a screen that is no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from little_loops.errors import OK
from little_loops.fsm.actions import Builtin, action_of_event
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
from little_loops.fsm.state import Result
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR, Excerpt
from little_loops.reporting.held_end import HeldEnd, WithVerdict
from little_loops.reporting.lines import PlainLines, is_verdict, output_of
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer

MOST_LINES = 20


class Reporter(Observer):
    def __init__(
        self,
        write: Callable[[str], object],
        teller: PlainLines,
        masker: Masker,
        *,
        output: bool,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        """`warn` gets the warnings, where they are not to stand among the lines."""
        self._write = write
        self._warn = warn or write
        self._teller = teller
        self._masker = masker
        self._output = output
        self._excerpts: dict[str, Excerpt] = {}
        self._held = HeldEnd()
        self._is_last_state = False
        self._is_report = False
        self._unseen: Result | PartialResult | None = None
        self._unwritten: list[str] = []

    def record(self, entry: Entry) -> None:
        self.records((entry,))

    def records(self, entries: Sequence[Entry]) -> None:
        """One write for all of them: three a step would cost more than their lines do."""
        try:
            for entry in entries:
                self._hear(entry.event)
        finally:
            self._flush()

    def _flush(self) -> None:
        text, self._unwritten = "".join(self._unwritten), []
        if text:
            self._write(text)

    def _hear(self, event: Event) -> None:
        match event:
            case ActionStart():
                self._is_last_state = event.terminal
                self._is_report = event.terminal and _is_builtin(event)
            case ActionComplete() | ActionInterrupted():
                self._unseen = None if self._excerpts else event.result
                self._end_excerpts()
            case _:
                pass
        for each in self._held.feed(event):
            self._tell(each)

    def _end_excerpts(self) -> None:
        for excerpt in self._excerpts.values():
            others = (one for one in self._excerpts.values() if one is not excerpt)
            rest = excerpt.finish()
            self._unwritten += [one.break_line() for one in others if rest]
            self._unwritten.append(rest)
        self._excerpts.clear()

    def _tell(self, shown: WithVerdict) -> None:
        event = shown.event
        if isinstance(event, ActionComplete) and self._has_shown_report(event):
            return
        if isinstance(event, LoopError | LoopTimeout) and self._unseen is not None:
            self._unwritten.append(_printed(self._unseen))
        lines = [visible(line, newlines=False) + "\n" for line in self._teller.lines(*shown)]
        if isinstance(event, RunWarning):
            self._flush()  # what came before it is seen before it
            self._warn("".join(lines))
        else:
            self._unwritten += lines

    def _has_shown_report(self, event: ActionComplete) -> bool:
        """A report ends with what the line about its end would say."""
        return self._is_report and self._unseen is None and event.result.exit_code == OK

    def learn(self, environ: Mapping[str, str]) -> None:
        self._masker.learn(environ)

    def changed(self, paths: Sequence[str]) -> None:
        self._teller.changed(map(self._masker.mask, paths))

    def printed(self, stream: str, chunk: bytes) -> None:
        if not self._output and not self._is_last_state:
            return
        if stream not in self._excerpts:
            self._excerpts[stream] = Excerpt(self._masker)
        if shown := self._excerpts[stream].feed(chunk):
            others = (one for name, one in self._excerpts.items() if name != stream)
            self._write("".join(one.break_line() for one in others) + shown)


def _is_builtin(event: ActionStart) -> bool:
    return isinstance(action_of_event(event.action, event.action_type), Builtin)


def _printed(result: Result | PartialResult) -> str:
    """The end of what an action printed, for the case that the run fails because of it.

    One line alone has been told already.
    """
    texts = (output_of(result), result.stderr or "")
    lines = [line for text in texts for line in visible(text).splitlines() if not is_verdict(line)]
    if len(lines) < 2:
        return ""
    return "".join(f"{BAR}{line}\n" for line in lines[-MOST_LINES:])
