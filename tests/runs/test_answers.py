"""The answer to a gate: one file, put in place once."""

from __future__ import annotations

import pytest

from little_loops.errors import StorageError
from little_loops.fsm.state import Answer, LoopState
from little_loops.runs.answers import read_answer, settled_answer
from little_loops.system.files import Folder

AT = "2026-01-15T10:30:00.000Z"
RUN = LoopState("r1", "l", "look", AT, AT, status="needs_review", reason="review", gate=9, seq=9)
NAME = "answer-9-20260115T103000000Z.json"
YES = Answer(9, "approved", "approve", "ship it", "polish")
NO = Answer(9, "rejected", "reject", "not yet")


@pytest.fixture
def data(tmp_path):
    folder = Folder.at(str(tmp_path))
    assert folder is not None
    with folder:
        yield folder


def test_the_first_answer_counts(data, tmp_path):
    assert read_answer(data, RUN) is None
    assert settled_answer(data, RUN, YES) == YES
    assert settled_answer(data, RUN, NO) == YES
    assert read_answer(data, RUN) == YES
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_another_gate_has_another_answer(data):
    settled_answer(data, RUN, YES)
    later = RUN._replace(gate=20, seq=20, updated_at="2026-01-15T10:31:00.000Z")
    assert read_answer(data, later) is None


@pytest.mark.parametrize("text", ["", "[]", '{"gate": 9}', '{"gate": 9, "verdict": "ok", "by": 1}'])
def test_a_file_that_is_no_answer(data, tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(StorageError, match="is not an answer") as refused:
        settled_answer(data, RUN, NO)
    assert refused.value.help == "remove it, and answer again"
