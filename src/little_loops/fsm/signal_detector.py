"""Find the lines by which an action's output speaks to the engine.

A signal counts at the start of a line, blanks before it allowed: a line that merely mentions one
(`grep` found it, a mail quotes it) says nothing.

Not here: what a signal does to a run (`machine`), finding one in a stream that does not fit into
memory (`system.output`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from little_loops.fsm.signals import SIGNALS
from little_loops.records import NamedTuple

_LONG = 4096
_READ_OTHERWISE = re.compile(r"\[:|\{,")  # by RE2, on any text
_CLASSES = re.compile(r"\\[a-zA-Z]|\(\?")  # may depend on what a letter or a blank is
# To Python some are blanks; the others are no characters, and RE2 is not given any.
_ODD = re.compile("[\x0b\x1c-\x1f\ud800-\udfff]")


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
        match = self.find(output)
        return None if match is None else self._signal(match)

    def find(self, output: str) -> re.Match[str] | None:
        """Where the first signal of this kind is.

        Python's engine may take a second for each line of 64 KiB that is full of beginnings
        (`<done>(.*)</done>` and a line of `<done>`).  RE2 never does, so it looks first.
        """
        if len(output) < _LONG or self in BUILT_IN or not self._reads_alike(output):
            return self.regex.search(output)
        found = self._linear.search(output)
        if found is None:
            return None
        return self.regex.match(output, found.start()) or self.regex.search(output)

    @cached_property
    def _linear(self) -> Any:
        """The pattern for RE2; None if that leaves something of it out, or reads it otherwise."""
        if _READ_OTHERWISE.search(self.regex.pattern):
            return None
        import re2  # late: few have signals of their own

        options = re2.Options()
        options.log_errors = False
        try:
            return re2.compile(f"(?m){self.regex.pattern}", options)
        except re2.error:
            return None

    def _reads_alike(self, output: str) -> bool:
        """Both engines find the same: of letters beyond ASCII they think differently."""
        if self._linear is None or _ODD.search(output):
            return False
        return output.isascii() or _CLASSES.search(self.regex.pattern) is None

    def _signal(self, match: re.Match[str]) -> DetectedSignal:
        payload = match[1] if self.regex.groups else None
        return DetectedSignal(self.name, payload if payload is None else payload.strip(), match[0])


BUILT_IN = tuple(
    SignalPattern(kind, rf"^[ \t]*{marker}:[ \t]*(.*)") for marker, kind in SIGNALS.items()
)
HANDOFF_SIGNAL, ERROR_SIGNAL, STOP_SIGNAL = BUILT_IN


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
            match = pattern.find(output)
            if match is not None and (first is None or match.start() < first[0]):
                first = match.start(), pattern._signal(match)
        return None if first is None else first[1]
