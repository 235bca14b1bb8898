"""`ll-loop until` with the real Claude Code: one line, from nothing to a receipt that holds."""

from __future__ import annotations

import os
import shutil

from tests.live.agents import Stage
from tests.live.fake_model import Call, Rule, Say

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
