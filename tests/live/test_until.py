"""`ll-loop until` with the real Claude Code: one line, from nothing to a receipt that holds."""

from __future__ import annotations

import os
import shutil
import tarfile

import pytest

from tests.live.agents import NotInstalled, Stage, package, results_in
from tests.live.fake_model import Call, Rule, Say
from tests.live.scenes import bash

CHECK = "PYTHONDONTWRITEBYTECODE=1 python3 -m unittest -q"
FIX = "Fix the code, not the tests."
TEST = """\
import unittest

import app


class Sum(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(app.add(1, 2), 3)
"""


def test_until_one_line_leads_from_nothing_to_a_verified_run(stage: Stage):
    shutil.rmtree(stage.root / ".loops")
    stage.write("app.py", "def add(a, b):\n    return a - b\n")
    stage.write("test_app.py", TEST)
    stage.git("init", "-q")
    stage.git("add", "-A")
    path = str(stage.root / "app.py")
    edit = {"file_path": path, "old_string": "a - b", "new_string": "a + b"}
    model = stage.play(
        Rule(FIX, Call("Read", {"file_path": path}), Call("Edit", edit), Say("It adds."))
    )
    words = ("until", CHECK, "--fix", FIX, "--protect", "test_*.py", "--allow-skip-permissions")

    ran = stage.ll(*words)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "at most 10 iterations, 2 h, $5"
    assert "A pass will count only if a clean copy confirms it" in ran.stderr
    assert "       ✓ It adds." in ran.stdout.splitlines()
    assert "Files changed: app.py (+1 -1)" in ran.stdout.splitlines()
    assert model.asked, "the model was asked"
    assert sorted(os.listdir(stage.root / ".loops")) == [".gitignore", ".history", ".running"]
    receipt = str(stage.home / "receipt.json")
    assert stage.ll("receipt", "until-python3-m-unittest-q", "-o", receipt).returncode == 0
    verified = stage.ll("verify", receipt, "--rerun")
    assert (verified.returncode, verified.stdout.splitlines()[-1]) == (0, "verified")


LARGE = "lodash@4.17.21"
LARGE_CHECK = """node -e 'require("assert").equal(require("./clamp")(-9, -5, 5), -5)'"""


def test_until_finds_the_one_wrong_file_of_a_thousand(stage: Stage):
    """A package that we did not write, with a defect in one of its 1,054 files."""
    try:
        archive = package(LARGE)
    except NotInstalled as why:
        pytest.skip(f"no {LARGE}: {why}")
    shutil.rmtree(stage.root)
    with tarfile.open(archive) as packed:
        packed.extractall(stage.root.parent, filter="data")
    (stage.root.parent / "package").rename(stage.root)
    wrong = stage.root / "_baseClamp.js"
    text = wrong.read_text()
    right = "number = number >= lower ? number : lower;"
    assert right in text
    wrong.write_text(text.replace(right, "number = number >= lower ? lower : number;"))
    stage.git("init", "-q")
    stage.git("add", "-A")
    assert len(stage.git("ls-files").splitlines()) > 1000
    edit = {
        "file_path": str(wrong),
        "old_string": "? lower : number;",
        "new_string": "? number : lower;",
    }
    model = stage.play(
        Rule(
            FIX,
            bash("grep -rlF 'lower : number' ."),
            Call("Read", {"file_path": str(wrong)}),
            Call("Edit", edit),
            Say("It clamps."),
        )
    )

    ran = stage.ll("until", LARGE_CHECK, "--fix", FIX, "--allow-skip-permissions")

    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert results_in(model.asked[1].body).removeprefix("./") == "_baseClamp.js"
    assert "Files changed: _baseClamp.js (+1 -1)" in ran.stdout.splitlines()
    assert wrong.read_text() == text
    receipt = str(stage.home / "receipt.json")
    assert stage.ll("receipt", "-o", receipt).returncode == 0
    verified = stage.ll("verify", receipt, "--rerun")
    assert (verified.returncode, verified.stdout.splitlines()[-1]) == (0, "verified")
