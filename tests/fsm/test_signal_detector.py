"""Which lines of an output speak to the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.signal_detector import (
    ERROR_SIGNAL,
    HANDOFF_SIGNAL,
    STOP_SIGNAL,
    DetectedSignal,
    SignalDetector,
    SignalPattern,
)


@pytest.mark.parametrize(
    ("pattern", "kind", "marker"),
    [
        (HANDOFF_SIGNAL, "handoff", "CONTEXT_HANDOFF:"),
        (ERROR_SIGNAL, "error", "FATAL_ERROR:"),
        (STOP_SIGNAL, "stop", "LOOP_STOP:"),
    ],
    ids=["handoff", "error", "stop"],
)
@pytest.mark.parametrize(
    ("line", "payload"),
    [
        pytest.param("{} some text", "some text", id="plain"),
        pytest.param("{}text", "text", id="no blank after it"),
        pytest.param("{}\ttext \t", "text", id="blanks around the payload"),
        pytest.param(" \t {} text", "text", id="blanks before it"),
        pytest.param("{}", "", id="nothing after it"),
        pytest.param("{} text\r", "text", id="CR LF"),
        pytest.param("{} a: b", "a: b", id="colon in the payload"),
    ],
)
def test_a_signal_line(pattern, kind, marker, line, payload):
    line = line.format(marker)
    output = f"before\n{line}\nthe next line is not its payload\n"
    assert pattern.search(output) == DetectedSignal(kind, payload, line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("docs/a.md:12: CONTEXT_HANDOFF: text", id="grep"),
        pytest.param("> CONTEXT_HANDOFF: text", id="quoted"),
        pytest.param("`CONTEXT_HANDOFF: text`", id="code"),
        pytest.param("print CONTEXT_HANDOFF: when done", id="mentioned"),
        pytest.param("context_handoff: text", id="lower case"),
        pytest.param("CONTEXT_HANDOFF text", id="no colon"),
        pytest.param("MY_CONTEXT_HANDOFF: text", id="another word"),
        pytest.param("\x0bCONTEXT_HANDOFF: text", id="vertical tab"),
        pytest.param("\u00a0CONTEXT_HANDOFF: text", id="no-break space"),
        pytest.param("progress\rCONTEXT_HANDOFF: text", id="carriage return"),
        pytest.param("\u2028CONTEXT_HANDOFF: text", id="line separator"),
    ],
)
def test_a_mention_is_no_signal(line):
    assert SignalDetector().detect_first(f"before\n{line}\nafter") is None


def test_detect_gives_the_first_of_each_kind_in_the_order_of_the_patterns():
    output = "LOOP_STOP: s1\nCONTEXT_HANDOFF: h1\nCONTEXT_HANDOFF: h2\n"
    assert SignalDetector().detect(output) == [
        DetectedSignal("handoff", "h1", "CONTEXT_HANDOFF: h1"),
        DetectedSignal("stop", "s1", "LOOP_STOP: s1"),
    ]


@pytest.mark.parametrize(
    ("output", "first"),
    [
        ("FATAL_ERROR: a\nCONTEXT_HANDOFF: b", "error"),
        ("CONTEXT_HANDOFF: b\nFATAL_ERROR: a", "handoff"),
        ("x\nLOOP_STOP:\nFATAL_ERROR: a\nCONTEXT_HANDOFF: b", "stop"),
    ],
    ids=["error", "handoff", "stop"],
)
def test_the_first_is_the_earliest_in_the_output(output, first):
    signal = SignalDetector().detect_first(output)
    assert signal is not None
    assert signal.signal_type == first


def test_at_one_place_the_first_pattern_wins():
    detector = SignalDetector([SignalPattern("one", "^A(.)"), SignalPattern("two", "^AB")])
    assert detector.detect_first("AB") == DetectedSignal("one", "B", "AB")


@pytest.mark.parametrize(
    ("pattern", "output", "payload"),
    [
        pytest.param("DONE", "DONE", None, id="no group"),
        pytest.param("DONE( .*)?", "DONE", None, id="a group that took no part"),
        pytest.param("DONE (.*)-(.*)", "DONE a-b", "a", id="the first of two"),
    ],
)
def test_payloads_of_own_patterns(pattern, output, payload):
    assert SignalPattern("done", pattern).search(output) == DetectedSignal("done", payload, output)


def test_no_patterns_means_the_three_built_in():
    assert SignalDetector([]).patterns == [HANDOFF_SIGNAL, ERROR_SIGNAL, STOP_SIGNAL]


@given(st.lists(st.sampled_from(["", "x", "CONTEXT_HANDOFF: a", "FATAL_ERROR:", " LOOP_STOP: b"])))
def test_line_by_line_or_all_at_once(lines):
    detector = SignalDetector()
    found = [signal for line in lines if (signal := detector.detect_first(line))]
    assert detector.detect_first("\n".join(lines)) == (found[0] if found else None)


LONG = "line\n" * 1000


@pytest.mark.parametrize(
    ("pattern", "output", "payload"),
    [
        pytest.param(r"<done>(.*?)</done>", "x <done>a</done><done>b</done>", "a", id="tags"),
        pytest.param(r"^DONE:\s*(.*)$", " DONE: a\nDONE: b", "b", id="a line"),
        pytest.param(r"^DONE:\s*(\w+)", "DONE:\x1f äö", "äö", id="beyond ASCII"),
        pytest.param(r"DONE→([^ ]*)", "DONE→ä ö", "ä", id="beyond ASCII, without classes"),
        pytest.param(r"DONE(?= (\w+))", "DONE it", "it", id="look-around"),
        pytest.param(r"X{,2}Y (.)", "XXY z", "z", id="read otherwise by RE2"),
        pytest.param(r"DONE (.)", "DONE \ud800", "\ud800", id="half a character"),
        pytest.param(r"(a|ab)(c|bcd)$", "abcd", "a", id="which of two"),
        pytest.param(r"NEVER", "DONE", None, id="nothing"),
        pytest.param(r"\bNEVER", "ä", None, id="nothing beyond ASCII"),
    ],
)
def test_a_long_output_is_read_as_a_short_one(pattern, output, payload):
    for text in (output, LONG + output):
        found = SignalDetector([SignalPattern("own", pattern)]).detect_first(text)
        assert (found.payload if found else None) == payload
        assert SignalPattern("own", pattern).search(text) == found


def test_lines_full_of_beginnings_take_no_time():
    """In seconds for each line this would never end."""
    pattern = SignalPattern("own", "<done>(.*?)</done>")
    assert pattern.search(("<done>" * 200_000 + "\n") * 10) is None


def test_it_knows_if_it_looks_for_more_than_the_three():
    assert SignalDetector().is_built_in
    assert not SignalDetector([HANDOFF_SIGNAL]).is_built_in
