"""A receipt is written and read in one form; what could not have been written is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.receipts.canonical import canonical
from little_loops.receipts.chain import Chain
from little_loops.receipts.statement import File, Malformed, read, write

FILES = (File("b/c.py", "100755", "1" * 64), File("a.py", "100644", "0" * 64))
PREDICATE: dict[str, Any] = {
    "run": {"id": "r1", "name": "fix", "scope": ["."]},
    "definition": {"machine": {}, "sha256": "2" * 64},
    "protected": {"patterns": ["tests/"], "paths": [{"path": "tests/t.sh"}]},
    "ending": {"status": "completed", "reason": "terminal"},
    "log": {"lines": 3, "head": "3" * 64},
}
WRITTEN = write(FILES, "4" * 40, PREDICATE)


def test_what_is_written_can_be_read():
    receipt = read(WRITTEN)
    assert receipt.files == tuple(sorted(FILES))
    assert (receipt.commit, receipt.is_whole, receipt.predicate) == ("4" * 40, True, PREDICATE)
    assert (receipt.name, receipt.run, receipt.scope) == ("fix", "r1", (".",))
    assert (receipt.chain, receipt.protect) == (Chain(3, "3" * 64), ("tests/",))
    assert receipt.protected_paths == {"tests/t.sh"}


def test_it_is_an_in_toto_statement():
    statement = json.loads(WRITTEN)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:little-loops:receipt:v1"
    assert [one["name"] for one in statement["subject"]] == [".", "a.py", "b/c.py"]
    assert statement["subject"][0]["digest"]["gitCommit"] == "4" * 40
    assert statement["subject"][2] == {
        "name": "b/c.py",
        "digest": {"sha256": "1" * 64},
        "annotations": {"mode": "100755"},
    }


@given(st.data())
def test_no_byte_of_a_receipt_can_be_changed(data):
    at = data.draw(st.integers(0, len(WRITTEN) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda byte: byte != WRITTEN[at]))
    with suppress(Malformed):
        assert not read(WRITTEN[:at] + bytes([new]) + WRITTEN[at + 1 :]).is_whole


def with_subject(**fields: Any) -> bytes:
    statement = json.loads(WRITTEN)
    statement["subject"][1] |= fields
    return canonical(statement) + b"\n"


def with_whole(**fields: Any) -> bytes:
    statement = json.loads(WRITTEN)
    statement["subject"][0] |= fields
    return canonical(statement) + b"\n"


def with_predicate(**fields: Any) -> bytes:
    return write(FILES, None, {**PREDICATE, **fields})


OTHER_TYPE = canonical({"_type": "x", "predicateType": "y"}) + b"\n"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "it is not valid JSON (line 1, column 1)", id="nothing"),
        pytest.param(b"[" * 100_000, "it is not valid JSON", id="too deep"),
        pytest.param(b"\xff", "it is not valid JSON", id="not UTF-8"),
        pytest.param(b"[]\n", "a field is missing or has the wrong type", id="a list"),
        pytest.param(b" " + WRITTEN, "it is not canonical JSON", id="a blank more"),
        pytest.param(WRITTEN[:-1], "it is not canonical JSON", id="a newline less"),
        pytest.param(OTHER_TYPE, "its type is `y`, not ll-loop's", id="another kind"),
        pytest.param(with_subject(name="../a"), "'../a' is not a path inside", id="outside"),
        pytest.param(with_subject(name="/etc/x"), "'/etc/x' is not a path inside", id="absolute"),
        pytest.param(with_subject(name=""), "'' is not a path inside", id="no path"),
        pytest.param(
            with_subject(annotations={"mode": "0"}), "the entry of 'a.py' is damaged", id="mode"
        ),
        pytest.param(
            with_subject(digest={"sha256": "x"}), "the entry of 'a.py' is damaged", id="hash"
        ),
        pytest.param(with_whole(name="a"), "its first subject is not the tree", id="no tree"),
        pytest.param(
            with_whole(digest={"sha256": "0" * 64, "gitCommit": "main"}),
            "'main' is not the name of a commit",
            id="commit",
        ),
        pytest.param(
            with_predicate(run={"id": 1, "name": 2, "scope": [3]}),
            "a field has the wrong type",
            id="type",
        ),
        pytest.param(
            with_predicate(run={"id": "r1", "name": "../fix", "scope": []}),
            "'../fix' is not the name of a run",
            id="name",
        ),
        pytest.param(
            with_predicate(log={"lines": -1, "head": ""}),
            "the number of log lines is invalid",
            id="lines",
        ),
        pytest.param(
            with_predicate(definition={"machine": []}), "it has no definition", id="definition"
        ),
        pytest.param(
            with_predicate(ending=None), "a field is missing or has the wrong type", id="no ending"
        ),
    ],
)
def test_what_is_no_receipt_is_refused(data, why):
    with pytest.raises(Malformed) as refused:
        read(data)
    assert refused.value.message.startswith(why)
    assert refused.value.exit_code == 2
