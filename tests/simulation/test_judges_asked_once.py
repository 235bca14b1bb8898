"""For each question, at most one judge is ever started, whoever is killed, and whenever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation import judge_history
from tests.simulation.judge_history import play
from tests.simulation.old_defects import ROOT, Edit, edited_sources

SEEDS = 200
MANY = 5000
ASKED_AGAIN = Edit("fsm/judges.py", "    if is_asked(builder.run):\n", "    if False:\n")
JUDGED_AGAIN = Edit(
    "fsm/judges.py", "return trees.confirmed.get(run.current_state) != now", "return True"
)
ASKED_ONCE_MORE = Edit(
    "fsm/judges.py", 'FINAL: Final = (FAIL, "unanswered")', "FINAL: Final = (FAIL,)"
)


def first_broken(edits: list[Edit], tmp_path) -> str:
    """The first seed that breaks the law on sources with these edits."""
    sources = edited_sources(edits, tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", judge_history.__name__, str(sources), str(SEEDS)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_a_judge_is_started_once_for_a_question():
    seen = [play(seed) for seed in range(SEEDS)]
    assert {each.ending for each in seen} == {"done", "stuck"}
    verdicts = {verdict for each in seen for verdict in each.verdicts}
    assert verdicts == {"pass", "fail", "error", "not_started", "unanswered"}


@pytest.mark.soak
def test_a_judge_is_started_once_for_a_question_in_many_histories(record_property):
    kills = sum(play(seed).kills for seed in range(SEEDS, SEEDS + MANY))
    record_property("figure: kills in histories with a judge", kills)


@pytest.mark.untraced  # the copy is another program
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(ASKED_AGAIN, id="a judge whose runner was killed is asked again"),
        pytest.param(ASKED_ONCE_MORE, id="a judge whose answer is gone is asked again"),
        pytest.param(JUDGED_AGAIN, id="a pass that is proved again is judged again"),
    ],
)
def test_what_earlier_versions_did_breaks_the_law(edit, tmp_path):
    assert first_broken([edit], tmp_path) != "None"


@pytest.mark.untraced
def test_a_copy_without_an_edit_keeps_it(tmp_path):
    assert first_broken([], tmp_path) == "None"
