"""The scanner of a byte stream and the library's detector find the same signal."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.signal_detector import SignalDetector
from little_loops.fsm.signals import SIGNALS
from little_loops.system.output import SignalScanner

MARKERS = ("CONTEXT_HANDOFF:", "FATAL_ERROR:", "LOOP_STOP:")
NEARLY = ("LOOP_STOP", "LOOP_STOP :", "loop_stop:", "CONTEXT_", "HANDOFF:", "_", ":")
BLANKS = ("", " ", "\t", " \t ", "\r", "\x0b", "\x0c", "\x1c", "\u0085", "\u00a0", "\u2028", "x")

blanks = st.sampled_from(BLANKS)
words = st.sampled_from(MARKERS) | st.sampled_from(NEARLY) | st.text(max_size=8)
lines = st.builds("".join, st.tuples(blanks, words, blanks, words, blanks))
texts = st.lists(lines, max_size=6).map(lambda each: "\n".join(each).encode("utf-8", "replace"))
outputs = texts | st.builds(lambda *parts: b"".join(parts), texts, st.binary(max_size=3), texts)


@st.composite
def chunked_outputs(draw: st.DrawFn) -> list[bytes]:
    output = draw(outputs)
    cuts = sorted(draw(st.lists(st.integers(0, len(output)), max_size=12)))
    return [output[start:end] for start, end in pairwise([0, *cuts, len(output)])]


@given(chunked_outputs())
def test_the_scanner_finds_what_the_detector_finds(chunks):
    scanner = SignalScanner()
    for chunk in chunks:
        scanner.feed(chunk)
    scanned = scanner.found
    detected = SignalDetector().detect_first(b"".join(chunks).decode("utf-8", "replace"))
    assert (scanned and (SIGNALS[scanned.kind], scanned.payload)) == (
        detected and (detected.signal_type, detected.payload)
    )
