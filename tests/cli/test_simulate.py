"""`ll-loop simulate`: what it prints, where its numbers come from, and what it needs."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.project import Project

LOOP = """\
    name: fix
    initial: check
    max_iterations: 4
    states:
      check: {action: "test -e good", on_pass: done, on_fail: fix}
      fix: {action: touch good, next: check}
      done: {terminal: true}
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.loop("fix", LOOP)
    return made


def test_guesses_are_enough(project):
    options = ("--outcome", "check=pass:0.25", "--cost", "fix=0.4", "--takes", "fix=90s")
    done = project.ll("simulate", "fix", "-n", "1000", "--seed", "5", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == dedent("""\
        1,000 simulated runs of fix, from your options

        RESULT                   SHARE
        completed: done          67.8%
        failed (max_iterations)  32.2%

                    MEDIAN  P90    WORST
        iterations  3       4      4
        cost        $0.80   $1.60  $1.60
        time        3m      6m     6m

        Most of the cost: fix (100%)
        Most of the time: fix (100%)
        Most frequent limit: max_iterations (32.2%)
        """)


def test_five_past_runs_are_enough(project):
    for _ in range(5):
        (project.root / "good").unlink(missing_ok=True)
        assert project.ll("run", "fix").returncode == 0
    found = json.loads(project.ll("simulate", "fix", "-n", "400", "--json").stdout)
    assert (found["loop"], found["runs"], found["past_runs"]) == ("fix", 400, 5)
    # Each past run failed its check once and passed it once.
    completed = {end["status"]: end["share"] for end in found["endings"]}["completed"]
    assert completed == pytest.approx(1 - 0.5**4, abs=0.01)
    assert (found["costliest"], found["limits"].keys()) == (None, {"max_iterations"})
    assert found["slowest"]["state"] in ("check", "fix")
    shown = project.ll("simulate", "fix").stdout
    assert shown.startswith("2,000 simulated runs of fix, from 5 past runs\n")
    assert project.ll("simulate", "fix", "-qq").stdout == ""


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param(
            (),
            "error: `fix` has no past runs; at least 5 are needed to estimate the outcome of `check`\n"
            "   = help: to give your own estimate: --outcome check=pass:0.5\n",
            id="nothing is known",
        ),
        pytest.param(
            ("--outcome", "chek=pass:0.5"),
            "error: `--outcome chek=pass:0.5`: the loop has no state `chek` that runs an action\n"
            "   = help: known: `check`, `fix`\n",
            id="no such state",
        ),
        pytest.param(
            ("--outcome", "check=good:0.5"),
            "error: `check` never gives the verdict `good`\n"
            "   = help: known: `pass`, `fail`, `error`, `timeout`\n",
            id="no such verdict",
        ),
        pytest.param(
            ("--outcome", "check=pass"),
            "error: `--outcome check=pass` is not of the form STATE=VERDICT:P\n"
            "   = help: P is between 0 and 1, such as `check=pass:0.3`\n",
            id="no share",
        ),
        pytest.param(
            ("--outcome", "check=pass:0.7,fail:0.7"),
            "error: `--outcome check=pass:0.7,fail:0.7`: the shares add up to more than 1\n",
            id="too much",
        ),
        pytest.param(
            ("--cost", "fix=much"),
            "error: `--cost fix=much`: `much` is not an amount\n",
            id="no number",
        ),
        pytest.param(
            ("--cost", "fix=-1"),
            "error: `--cost fix=-1`: `-1` is not an amount\n",
            id="less than nothing",
        ),
        pytest.param(
            ("--cost", "fix=nan"),
            "error: `--cost fix=nan`: `nan` is not an amount\n",
            id="not a number at all",
        ),
        pytest.param(
            ("--takes", "fix=inf"),
            "error: `--takes fix=inf`: `inf` is not a duration\n",
            id="for ever",
        ),
        pytest.param(
            ("--outcome", "check=pass:nan"),
            "error: `--outcome check=pass:nan` is not of the form STATE=VERDICT:P\n"
            "   = help: P is between 0 and 1, such as `check=pass:0.3`\n",
            id="no such share",
        ),
        pytest.param(
            ("--takes", "fix=long"),
            "error: `--takes fix=long`: `long` is not a duration\n",
            id="no duration",
        ),
        pytest.param(
            ("--takes", "fix"),
            "error: `--takes fix` is not of the form STATE=TIME\n",
            id="no equals sign before a duration",
        ),
        pytest.param(
            ("--outcome", "check"),
            "error: `--outcome check` is not of the form STATE=VERDICT:P\n"
            "   = help: P is between 0 and 1, such as `check=pass:0.3`\n",
            id="no equals sign before a verdict",
        ),
        pytest.param(
            ("--takes", "done=1"),
            "error: `--takes done=1`: the loop has no state `done` that runs an action\n"
            "   = help: known: `check`, `fix`\n",
            id="a state that runs nothing",
        ),
    ],
)
def test_what_it_needs(options, error, project):
    done = project.ll("simulate", "fix", *options)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


WORDS = """\
    name: words
    initial: measure
    context: {target: 0}
    states:
      measure: {action: count, on_target: review, on_progress: work, on_stall: lost}
      work: {action: make, next: measure}
      review:
        action: Is it good?
        action_type: prompt
        condition: {type: verdict, words: [approve, change]}
        on_approve: done
        on_change: work
      lost: {terminal: true, outcome: failure}
      done: {terminal: true}
    """


def test_a_state_with_other_verdicts_is_asked_about_in_its_own_words(project):
    project.loop("words", WORDS)
    done = project.ll("simulate", "words")
    options = "--outcome measure=target:0.5 --outcome review=approve:0.5"
    assert done.stderr.splitlines()[1] == f"   = help: to give your own estimate: {options}"
    found = json.loads(project.ll("simulate", "words", "--json", *options.split()).stdout)
    # The rest is `progress` and `change`, so that every run gets there.
    assert [(end["status"], end["share"]) for end in found["endings"]] == [("completed", 1.0)]
    odds = ("--outcome", "measure=target:0.2,progress:0.5", "--outcome", "review=approve:1")
    found = json.loads(project.ll("simulate", "words", "--json", *odds).stdout)
    shares = {end["state"]: end["share"] for end in found["endings"]}
    assert shares == pytest.approx({"lost": 0.6, "done": 0.4}, abs=0.02)
    done = project.ll("simulate", "words", "--outcome", "measure=pass:0.5")
    assert done.stderr == (
        "error: `measure` never gives the verdict `pass`\n"
        "   = help: known: `target`, `progress`, `stall`, `error`, `timeout`\n"
    )


def test_the_action_of_a_terminal_state_costs_and_takes_time(project):
    project.loop("fix", LOOP.replace("done: {terminal", "done: {action: make report, terminal"))
    odds = ("--outcome", "check=pass:0.5", "--takes", "done=60s", "--cost", "done=2")
    found = json.loads(project.ll("simulate", "fix", "--json", *odds).stdout)
    assert (found["seconds"]["worst"], found["cost_usd"]["worst"]) == (60, 2)
    assert found["slowest"] == {"state": "done", "share": 1.0}
    done = project.ll("simulate", "fix", "--outcome", "done=pass:0.5")
    assert done.stderr.splitlines()[1] == "   = help: known: `check`, `fix`"
