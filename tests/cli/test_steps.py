"""`ll-loop steps`: one line for each step of a run."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest

from tests.project import Project
from tests.receipts.kept_run import KeptProject


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KeptProject:
    return KeptProject(tmp_path_factory.mktemp("kept")).fixed()


def without_times(shown: str) -> str:
    """The table with every time as 0s, and without the spaces that depend on their width."""
    return re.sub(r" +", " ", re.sub(r"\b[0-9.]+m?s\b", "0s", shown))


def test_each_step_has_a_line(project):
    done = project.ll("steps")
    assert done.returncode == 0, done.stderr
    trees = dict.fromkeys(re.findall(r"[0-9a-f]{6}$", done.stdout, re.MULTILINE))
    shown = done.stdout
    for number, tree in enumerate(trees, 1):
        shown = shown.replace(tree, f"tree-{number}")
    assert without_times(shown) == dedent("""\
        STEP ITER STATE VERDICT FILES TIME COST TREE
        1 1 evaluate ✗ fail – 0s – tree-1
        2 1 fix ✓ pass 2 (+2 -2) 0s – tree-2
        3 2 evaluate ✓ pass – 0s – tree-2
        4 2 done – – – – –
        """)


def test_the_steps_for_programs(project):
    found = json.loads(project.ll("steps", "fix", "--json").stdout)
    assert (found["schema"], found["name"]) == (1, "fix")
    assert [(step["number"], step["state"], step["verdict"]) for step in found["steps"]] == [
        (1, "evaluate", "fail"),
        (2, "fix", "pass"),
        (3, "evaluate", "pass"),
        (4, "done", None),
    ]
    assert found["steps"][1]["changed"]["paths"] == ["code.py", "tests/t.sh"]
    assert found["steps"][3]["changed"] is None
    assert project.ll("steps", "-qq").stdout == ""


def test_a_verdict_of_ones_own_and_a_run_without_trees(tmp_path):
    project = Project(tmp_path)
    project.loop(
        "words",
        """\
        name: words
        initial: ask
        states:
          ask:
            action: "echo VERDICT: maybe"
            condition: {type: verdict, words: [maybe]}
            on_maybe: done
          done: {terminal: true}
        """,
    )
    project.ll("run", "words")
    shown = project.ll("steps", "words").stdout
    assert without_times(shown) == dedent("""\
        STEP ITER STATE VERDICT FILES TIME COST TREE
        1 1 ask maybe – 0s – –
        2 1 done – – – – –
        """)


def test_without_a_run_there_is_a_way_out(tmp_path):
    done = Project(tmp_path).ll("steps")
    assert (done.returncode, done.stderr) == (
        2,
        "error: this project has no runs yet\n   = help: `ll-loop run LOOP` starts one\n",
    )
