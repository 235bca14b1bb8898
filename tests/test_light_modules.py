"""The parts of the standard library that a waiting run does without behave like the whole."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from little_loops import light_json, light_modules

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TEXTS = [
    pytest.param(text, id=name)
    for name, text in {
        "nothing": "",
        "blanks": " \t\n",
        "blanks around": ' \n{"a": 1}\t\r\n',
        "other blanks": "\u00a0{}",
        "no numbers": "[NaN, Infinity, -Infinity]",
        "a huge number": "1" * 5000,
        "numbers": "[0, -0, 1.5e300, 1e999, 10000000000000000000000]",
        "a lone surrogate": '"\\ud800"',
        "a tab in a text": '"\t"',
        "twice the same name": '{"a": 1, "a": 2}',
        "more after it": '{"a": 1} x',
        "cut": '{"a": [1, 2',
        "no name": "{1: 2}",
        "a comma at the end": "[1,]",
        "a byte order mark": "\ufeff{}",
        "bytes": b'{"a": "\xc3\xa4"}',
        "bytes with a surrogate": b'"\xed\xa0\x80"',
        "bytes with a byte order mark": b"\xef\xbb\xbf{}",
        "bytes in UTF-16": "[1]".encode("utf-16"),
        "bytes in UTF-32 without a mark": "[1]".encode("utf-32-le"),
        "bytes of no encoding": b'"\xff"',
        "nested too deeply": "[" * 100_000,
    }.items()
]
REFUSED = [
    pytest.param({1, 2}, id="a set"),
    pytest.param([b"bytes"], id="bytes"),
    pytest.param({(1, 2): 3}, id="a tuple as a name"),
]


def outcome(function, *args, **options):
    """What a function returns or raises, so that two can be compared."""
    try:
        return repr(function(*args, **options))
    except (ValueError, TypeError, RecursionError) as error:
        said = "" if isinstance(error, RecursionError) else str(error)
        return type(error).__name__, said


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_read_as_by_json(text):
    assert outcome(light_json.loads, text) == outcome(json.loads, text)


@given(VALUES)
@example([math.nan, math.inf])
def test_values_are_written_and_read_as_by_json(value):
    assert light_json.dumps(value) == json.dumps(value)
    text = light_json.dumps(value, ensure_ascii=False)
    assert text == json.dumps(value, ensure_ascii=False)
    assert repr(light_json.loads(text)) == repr(json.loads(text))
    compact = {"separators": (",", ":"), "allow_nan": False}
    assert outcome(light_json.make_compact_encoder(), value) == outcome(
        json.dumps, value, **compact
    )


@pytest.mark.parametrize("value", REFUSED)
def test_what_json_cannot_write_is_refused_as_by_json(value):
    assert outcome(light_json.dumps, value) == outcome(json.dumps, value)


def test_a_cycle_is_refused():
    cycle: list[object] = []
    cycle.append(cycle)
    assert outcome(light_json.dumps, cycle) == outcome(json.dumps, cycle)


def test_patterns_and_signals_are_those_of_the_standard_library():
    assert light_modules.re.compile is re.compile
    assert light_modules.import_module("json.decoder") is json.decoder
    numbers = {name for name in dir(signal) if re.fullmatch("SIG[A-Z]+", name)}
    assert {name: getattr(light_modules.signal, name) for name in numbers} == {
        name: getattr(signal, name) for name in numbers
    }


# What a fresh process says when `json` was never loaded, and when Python has no part in C.
FRESH = """\
import sys
if sys.argv[1] == "without":
    sys.modules["_json"] = None
from little_loops import light_json
print("json" in sys.modules)
try:
    light_json.loads('{"a": \\n 1 x}')
except ValueError as error:
    print(error)
print(light_json.dumps({"a": [1.5, None]}), light_json.make_compact_encoder()({"a": [1.5, None]}))
"""
SAID = 'Expecting \',\' delimiter: line 2 column 4 (char 10)\n{"a": [1.5, null]} {"a":[1.5,null]}\n'


@pytest.mark.parametrize(
    ("with_c", "is_loaded"),
    [pytest.param("with", False, id="with C"), pytest.param("without", True, id="without C")],
)
def test_errors_are_those_of_json_also_where_it_was_not_loaded(with_c, is_loaded):
    done = subprocess.run(
        [sys.executable, "-c", FRESH, with_c], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{is_loaded}\n{SAID}"
