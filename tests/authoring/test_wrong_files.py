"""Wrong files and the exact words about them: `wrong/NAME.yaml` and `wrong/NAME.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.authoring.load import load
from little_loops.terminal.problems import render_all

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.yaml"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_what_is_said_about_it(path: Path) -> None:
    definition = load(path.read_bytes(), f".loops/{path.name}", path.stem)
    assert render_all(definition.problems) + "\n" == path.with_suffix(".txt").read_text()
    assert definition.loop is None


def test_there_are_enough_of_them_and_each_has_its_words() -> None:
    texts = {path.stem for path in (Path(__file__).parent / "wrong").glob("*.txt")}
    assert {path.stem for path in WRONG} == texts
    assert len(WRONG) >= 60
