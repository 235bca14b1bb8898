"""Find the lines by which an action's output speaks to the engine.

A signal counts at the start of a line, blanks before it allowed: a line that merely mentions one
(`grep` found it, a mail quotes it) says nothing.

Not here: what a signal does to a run (`machine`), finding one in a stream that does not fit into
memory (`world.output`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class DetectedSignal(NamedTuple):
    """A signal found in an output; `payload` is what its pattern's first group caught."""

    signal_type: str
    payload: str | None
    raw_match: str


class SignalPattern:
    """A kind of signal: its name, and a regular expression that is tried on every line."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.regex = re.compile(pattern, re.MULTILINE)

    def search(self, output: str) -> DetectedSignal | None:
        """The first signal of this kind in the output."""
        match = self.regex.search(output)
        return None if match is None else self._signal(match)

    def _signal(self, match: re.Match[str]) -> DetectedSignal:
        payload = match[1] if self.regex.groups else None
        return DetectedSignal(self.name, payload if payload is None else payload.strip(), match[0])


HANDOFF_SIGNAL = SignalPattern("handoff", r"^[ \t]*CONTEXT_HANDOFF:[ \t]*(.*)")
ERROR_SIGNAL = SignalPattern("error", r"^[ \t]*FATAL_ERROR:[ \t]*(.*)")
STOP_SIGNAL = SignalPattern("stop", r"^[ \t]*LOOP_STOP:[ \t]*(.*)")


BUILT_IN = (HANDOFF_SIGNAL, ERROR_SIGNAL, STOP_SIGNAL)


class SignalDetector:
    """Looks for several kinds of signals at once; by default for the three built in."""

    def __init__(self, patterns: Sequence[SignalPattern] | None = None) -> None:
        self.patterns = list(patterns or BUILT_IN)

    @property
    def is_built_in(self) -> bool:
        """It looks for the three built in, and nothing else."""
        return tuple(self.patterns) == BUILT_IN

    def detect(self, output: str) -> list[DetectedSignal]:
        """The first signal of each kind, in the order of the patterns."""
        found = (pattern.search(output) for pattern in self.patterns)
        return [signal for signal in found if signal is not None]

    def detect_first(self, output: str) -> DetectedSignal | None:
        """The signal that comes earliest in the output, of whatever kind."""
        first: tuple[int, DetectedSignal] | None = None
        for pattern in self.patterns:
            match = pattern.regex.search(output)
            if match is not None and (first is None or match.start() < first[0]):
                first = match.start(), pattern._signal(match)
        return None if first is None else first[1]
