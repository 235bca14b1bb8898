"""When an action last printed something: only what it printed counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from little_loops.runs.last_output import last_heard_ms
from little_loops.system.files import Folder

ANNOUNCED = "[1/50] work → running make...\n"
EARLIER = f"[1/50] check → running test...\n       | no\n       ✗ no (exit 1)\n{ANNOUNCED}"


@pytest.mark.parametrize(
    ("log", "files", "heard_s"),
    [
        pytest.param(ANNOUNCED, {}, None, id="nothing printed"),
        pytest.param(EARLIER, {}, None, id="nothing since the action before"),
        pytest.param(f"{ANNOUNCED}       | one\n", {}, 100, id="a line in the log"),
        pytest.param(f"{ANNOUNCED}       | half", {}, 100, id="half a line"),
        pytest.param(f"{ANNOUNCED}       | {'x' * 9000}\n", {}, 100, id="a long line"),
        pytest.param(
            f"{ANNOUNCED}       | much\n",
            {"00002-1.out": ("much", 160), "00002-1.err": ("", 0)},
            160,
            id="more than the log takes",
        ),
        pytest.param(ANNOUNCED, {"00002-1.jsonl": ("{}", 130)}, 130, id="an agent's stream"),
        pytest.param(ANNOUNCED, {"00002-1.jsonl": ("", 130)}, None, id="an agent that is silent"),
        pytest.param(ANNOUNCED, {"00001-1.out": ("old", 90)}, None, id="of an action before"),
        pytest.param(
            ANNOUNCED,
            {"99999-1.out": ("old", 190), "100000-1.out": ("new", 150)},
            150,
            id="a very long run",
        ),
        pytest.param(ANNOUNCED, {"run.json": ("{}", 130)}, None, id="a file of ours"),
        pytest.param("", {}, 100, id="a log that says nothing"),
        pytest.param(None, {"00002-1.out": ("much", 160)}, None, id="no log"),
    ],
)
def test_last_heard(log, files, heard_s, tmp_path: Path):
    (tmp_path / "slow.d").mkdir()
    if log is not None:
        written(tmp_path / "slow.log", log, 100)
    for name, (text, at_s) in files.items():
        written(tmp_path / "slow.d" / name, text, at_s)
    folder = Folder.at(str(tmp_path))
    assert folder is not None
    with folder:
        data = folder.child("slow.d")
        assert data is not None
        with data:
            found = last_heard_ms(folder, "slow.log", data)
    assert found == (None if heard_s is None else heard_s * 1000)


def written(path: Path, text: str, at_s: int) -> None:
    path.write_text(text)
    os.utime(path, (0, at_s))
