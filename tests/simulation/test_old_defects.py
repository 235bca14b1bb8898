"""Version one broke the laws of money and liveness: each of its defects, put back into a copy of the
sources, breaks one within 200 seeds.
"""

from __future__ import annotations

import pytest

from tests.simulation.ledger import LAWS
from tests.simulation.old_defects import DEFECTS, Edit, edited_sources, first_broken

pytestmark = pytest.mark.untraced  # the copy is another program

ABSENT = Edit("fsm/waits.py", "no such text", "")
FREQUENT = Edit("fsm/waits.py", "return", "yield")


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_of_version_one_breaks_a_law_within_200_seeds(defect, tmp_path):
    broken = first_broken(edited_sources(defect.edits, tmp_path), [defect.law])
    assert broken is not None
    assert broken.law == defect.law, broken


def test_there_is_a_defect_for_each_law():
    assert {defect.law for defect in DEFECTS} == {*LAWS}


def test_a_copy_without_a_defect_breaks_no_law(tmp_path):
    assert first_broken(edited_sources([], tmp_path), LAWS, seeds=20) is None


@pytest.mark.parametrize("edit", [ABSENT, FREQUENT], ids=["absent", "more than once"])
def test_an_edit_whose_text_has_moved_is_noticed(edit, tmp_path):
    with pytest.raises(AssertionError, match=r"^fsm/waits\.py has"):
        edited_sources([edit], tmp_path)
