"""What may stand in a return-metadata file, and what is said about everything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.relay.contract import one_line, read_text
from little_loops.relay.rules import Metadata, PlanProgress, UnusableMetadata

FULL = {
    "status": "partial",
    "requires_user_review": True,
    "reason": "lemma 4 is false\nas stated",
    "partial_progress": {
        "stage": "phase_incomplete",
        "phases_completed": 2,
        "phases_total": 4,
        "handoff_path": "specs/886/handoffs/phase-2.md",
    },
    "artifacts": ["src/a.py", {"type": "summary", "path": "specs/886/summary.md"}],
    "errors": ["lean timed out", {"type": "execution", "message": "no disk"}],
    "next_steps": "the agent's own",
}


def test_everything_that_can_be_said():
    assert read_text(json.dumps(FULL)) == Metadata(
        status="partial",
        review=True,
        progress=PlanProgress(2, 4, "phase_incomplete", "specs/886/handoffs/phase-2.md"),
        reason="lemma 4 is false as stated",
        errors=("lean timed out", "no disk"),
        artifacts=("src/a.py", "specs/886/summary.md"),
        summary_path="specs/886/summary.md",
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"status": "implemented"}, Metadata("implemented"), id="a status is enough"),
        pytest.param(
            {"status": "partial", "requires_user_review": None, "partial_progress": None},
            Metadata("partial"),
            id="null is not said",
        ),
        pytest.param(
            {"status": "partial", "review_reason": "licence"},
            Metadata("partial", reason="licence"),
            id="another word for reason",
        ),
        pytest.param(
            {"status": "blocked", "blocker": {"type": "api"}, "reason": " "},
            Metadata("blocked"),
            id="another word that holds no text",
        ),
        pytest.param(
            {"status": "implemented", "summary_path": "s.md", "artifacts": [{"path": "a", "type": "summary"}]},
            Metadata("implemented", artifacts=("a",), summary_path="s.md"),
            id="a summary by name",
        ),
        pytest.param(
            {"status": "partial", "errors": ["", "\x1b[31mred\x07"]},
            Metadata("partial", errors=("\\x1b[31mred\\x07",)),
            id="control characters are shown",
        ),
        pytest.param(
            {"status": "partial", "artifacts": [f"f{n}" for n in range(60)]},
            Metadata("partial", artifacts=tuple(f"f{n}" for n in range(50))),
            id="many artifacts",
        ),
    ],
)  # fmt: skip
def test_less_is_enough(data, expected):
    assert read_text(json.dumps(data)) == expected


BREAKS = "the metadata file is invalid: "
KNOWN = "known: `implemented`, `partial`, `blocked`, `failed`"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "the metadata file is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"status": "implemen', "the metadata file is not valid JSON: Unterminated string starting at: line 1 column 12 (char 11)"),
        ("implemented", "the metadata file is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"status": "implemented"} {}', "the metadata file is not valid JSON: Extra data: line 1 column 27 (char 26)"),
        ("[]", f"{BREAKS}expected an object, found a list"),
        ('"implemented"', f"{BREAKS}expected an object, found a string"),
        ("null", f"{BREAKS}expected an object, found null"),
        ("7", f"{BREAKS}expected an object, found a number"),
        ("{}", f"{BREAKS}`status` is missing"),
        ('{"status": null}', f"{BREAKS}`status` is missing"),
        ('{"status": ["implemented"]}', f"{BREAKS}`status` is a list, not a string"),
        ('{"status": true}', f"{BREAKS}`status` is true or false, not a string"),
        ('{"status": "completed"}', f"{BREAKS}unknown status `completed`; {KNOWN}"),
        ('{"status": "in_progress"}', f"{BREAKS}unknown status `in_progress`; {KNOWN}"),
        ('{"status": "Implemented"}', f"{BREAKS}unknown status `Implemented`; {KNOWN}"),
        ('{"status": "implemented "}', f"{BREAKS}unknown status `implemented`; {KNOWN}"),
        ('{"status": "failed", "status": "implemented"}', f"{BREAKS}`status` is given twice"),
        ('{"status": "partial", "requires_user_review": "true"}', f"{BREAKS}`requires_user_review` is a string, not true or false"),
        ('{"status": "partial", "requires_user_review": 1}', f"{BREAKS}`requires_user_review` is a number, not true or false"),
        ('{"status": "partial", "partial_progress": [2, 4]}', f"{BREAKS}`partial_progress` is a list, not an object"),
        ('{"status": "partial", "partial_progress": {"phases_completed": "2"}}', f"{BREAKS}`phases_completed` is a string, not a whole number"),
        ('{"status": "partial", "partial_progress": {"phases_completed": true}}', f"{BREAKS}`phases_completed` is true or false, not a whole number"),
        ('{"status": "partial", "partial_progress": {"phases_total": 2.5}}', f"{BREAKS}`phases_total` is a number, not a whole number"),
        ('{"status": "partial", "partial_progress": {"phases_completed": -1}}', f"{BREAKS}`phases_completed` is out of range"),
        ('{"status": "partial", "partial_progress": {"phases_total": 1000000}}', f"{BREAKS}`phases_total` is out of range"),
        ('{"status": "partial", "partial_progress": {"phases_total": NaN}}', f"{BREAKS}NaN is not a JSON number"),
        ('{"status": "partial", "partial_progress": {"phases_completed": 5, "phases_total": 4}}', f"{BREAKS}5 phases completed of 4"),
        ('{"status": "partial", "partial_progress": {"handoff_path": 1}}', f"{BREAKS}`handoff_path` is a number, not a string"),
        ('{"status": "partial", "partial_progress": {"handoff_path": "a\\nLOOP_STOP: b"}}', f"{BREAKS}`handoff_path` is not a path: a LOOP_STOP: b"),
        ('{"status": "partial", "partial_progress": {"stage": {}}}', f"{BREAKS}`stage` is an object, not a string"),
        ('{"status": "partial", "reason": 3}', f"{BREAKS}`reason` is a number, not a string"),
        ('{"status": "partial", "errors": "e"}', f"{BREAKS}`errors` is a string, not a list"),
        ('{"status": "partial", "errors": [1]}', f"{BREAKS}`errors` holds a number, not a string or an object with `message`"),
        ('{"status": "partial", "errors": [{"text": "e"}]}', f"{BREAKS}`errors` holds an object, not a string or an object with `message`"),
        ('{"status": "partial", "artifacts": [null]}', f"{BREAKS}`artifacts` holds null, not a string or an object with `path`"),
        ('{"status": "partial", "artifacts": {"path": "a"}}', f"{BREAKS}`artifacts` is an object, not a list"),
    ],
)  # fmt: skip
def test_what_breaks_the_contract(text, error):
    assert read_text(text) == UnusableMetadata(error)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a":' * 100_000, id="deep objects"),
        pytest.param('{"status": ' + "9" * 10_000 + "}", id="a huge number"),
    ],
)
def test_hostile_json_is_answered(text):
    answer = read_text(text)
    assert isinstance(answer, UnusableMetadata)
    assert len(answer.error) < 700


@given(st.text())
def test_any_text_is_answered(text):
    assert isinstance(read_text(text), Metadata | UnusableMetadata)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ("status", "requires_user_review", "partial_progress", "artifacts", "errors", "reason")


@given(st.dictionaries(st.sampled_from(KEYS), json_values), st.booleans())
def test_any_object_is_answered_and_only_a_status_is_believed(data, honest):
    if honest:
        data = {**data, "status": "partial"}
    answer = read_text(json.dumps(data))
    if isinstance(answer, Metadata):
        assert answer.status == data["status"]


@given(st.text(max_size=3000), st.integers(1, 600))
def test_a_line_stays_one_line_and_shows_all(text, most):
    line = one_line(text, most)
    assert line.isprintable()
    assert len(line) <= most
