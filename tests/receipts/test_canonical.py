"""One way to write a value; a chain in which each line hangs on those before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.receipts.canonical import canonical
from little_loops.receipts.chain import Chain, chain_of, compare


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}', id="keys are sorted"),
        pytest.param({"t": 60.0, "h": 0.5}, '{"h":0.5,"t":60}', id="whole numbers"),
        pytest.param(("ü", "\udcff"), '["\\u00fc","\\udcff"]', id="other alphabets, bytes"),
        pytest.param(1e300, "1e+300", id="numbers too large to be exact"),
    ],
)
def test_a_value_is_written_in_one_way(value, written):
    assert canonical(value) == written.encode()


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))


EVENT = b'{"event":"warning","seq":%d}\n'


@pytest.mark.parametrize(
    ("log", "standing"),
    [
        pytest.param(EVENT % 1 + EVENT % 2, "same", id="the same"),
        pytest.param(EVENT % 1 + EVENT % 2 + EVENT % 3, "longer", id="a run that was resumed"),
        pytest.param(EVENT % 1, "different", id="a line is gone"),
        pytest.param(EVENT % 2 + EVENT % 1, "different", id="another order"),
        pytest.param(EVENT % 1 + EVENT % 2 + b"\n", "different", id="an empty line"),
        pytest.param(EVENT % 1 + EVENT % 2 + b"{}", "different", id="half a line"),
        pytest.param(b"", "different", id="nothing"),
    ],
)
def test_a_log_is_compared_with_its_chain(log, standing):
    assert compare(chain_of(EVENT % 1 + EVENT % 2), log) == standing


def test_an_empty_log_has_an_empty_chain():
    assert chain_of(b"") == Chain()
    assert compare(Chain(), b"") == "same"


@given(st.lists(st.binary(max_size=20), min_size=1), st.data())
def test_no_byte_of_a_log_can_be_changed_put_in_or_taken_out(lines, data):
    log = b"\n".join(lines) + b"\n"
    at = data.draw(st.integers(0, len(log) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda byte: byte != log[at]))
    for changed in (
        log[:at] + bytes([new]) + log[at + 1 :],
        log[:at] + log[at + 1 :],
        log[:at] + bytes([new]) + log[at:],
    ):
        assert compare(chain_of(log), changed) != "same"
