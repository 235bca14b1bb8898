"""Find signal lines in an action's output.

A signal counts at the start of a line, after optional spaces. A line that merely mentions one
(`grep` found it, a mail quotes it) does not count.

Not here: what a signal does to a run (`machine`), finding one in a stream that does not fit into
memory (`system.output`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from little_loops.fsm.signals import SIGNALS
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

_LONG = 4096
_READ_OTHERWISE = re.compile(r"\[:|\{,")  # RE2 can run these on any text
_CLASSES = re.compile(r"\\[a-zA-Z]|\(\?")  # these may depend on what counts as a letter or a space
# Python treats some of these as spaces; the others are not characters, and RE2 gets neither.
_ODD = re.compile("[\x0b\x1c-\x1f\ud800-\udfff]")


class DetectedSignal(NamedTuple):
    """A signal found in an output; `payload` is what the first group of its pattern matched."""

    signal_type: str
    payload: str | None
    raw_match: str


class SignalPattern:
    """A kind of signal: its name, and a regular expression that is tried on every line."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.regex = re.compile(pattern, re.MULTILINE)

    def search(self, output: str) -> DetectedSignal | None:
        """Return the first signal of this kind in the output."""
        match = self.find(output)
        return None if match is None else self._signal(match)

    def find(self, output: str) -> re.Match[str] | None:
        """Return the match of the first signal of this kind.

        Python's engine may take a second for each 64 KiB line that is full of beginnings
        (`<done>(.*)</done>` and a line of `<done>`). RE2 never does, so it searches first.
        """
        if len(output) < _LONG or self in BUILT_IN or not self._reads_alike(output):
            return self.regex.search(output)
        found = self._linear.search(output)
        if found is None:
            return None
        return self.regex.match(output, found.start()) or self.regex.search(output)

    @cached_property
    def _linear(self) -> Any:
        """Return the pattern compiled for RE2, or None if RE2 lacks a feature or reads it
        differently."""
        if _READ_OTHERWISE.search(self.regex.pattern):
            return None
        import re2  # late: few loops have their own signals

        options = re2.Options()
        options.log_errors = False
        try:
            return re2.compile(f"(?m){self.regex.pattern}", options)
        except re2.error:
            return None

    def _reads_alike(self, output: str) -> bool:
        """Return whether both engines match alike; they differ on letters beyond ASCII."""
        if self._linear is None or _ODD.search(output):
            return False
        return output.isascii() or _CLASSES.search(self.regex.pattern) is None

    def _signal(self, match: re.Match[str]) -> DetectedSignal:
        payload = match[1] if self.regex.groups else None
        return DetectedSignal(self.name, payload if payload is None else payload.strip(), match[0])


_PATTERNS = {
    kind: SignalPattern(kind, rf"^[ \t]*{marker}:[ \t]*(.*)") for marker, kind in SIGNALS.items()
}
BUILT_IN = tuple(_PATTERNS.values())
HANDOFF_SIGNAL = _PATTERNS["handoff"]
ERROR_SIGNAL = _PATTERNS["error"]
STOP_SIGNAL = _PATTERNS["stop"]


class SignalDetector:
    """Find several kinds of signals at once; by default the three built-in ones."""

    def __init__(self, patterns: Sequence[SignalPattern] | None = None) -> None:
        self.patterns = list(patterns or BUILT_IN)

    @property
    def is_built_in(self) -> bool:
        """Return whether it only finds the three built-in kinds."""
        return tuple(self.patterns) == BUILT_IN

    def detect(self, output: str) -> list[DetectedSignal]:
        """Return the first signal of each kind, in the order of the patterns."""
        found = (pattern.search(output) for pattern in self.patterns)
        return [signal for signal in found if signal is not None]

    def detect_first(self, output: str) -> DetectedSignal | None:
        """Return the earliest signal in the output, of any kind; None if there is none."""
        first: tuple[int, DetectedSignal] | None = None
        for pattern in self.patterns:
            match = pattern.find(output)
            if match is not None and (first is None or match.start() < first[0]):
                first = match.start(), pattern._signal(match)
        return None if first is None else first[1]
