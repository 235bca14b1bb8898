"""`ll-loop replay`: what happened in a run, fed to its loop again or to a changed one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops import __version__
from little_loops.errors import DamagedRun
from little_loops.runs.reading import Runs
from little_loops.runs.recordings import read_recording
from tests.project import Project, until
from tests.receipts.kept_run import KeptProject

COUNT = """\
    name: count
    initial: check
    max_iterations: 9
    states:
      check:
        action: "n=$(cat n || echo 3); echo $n left; exit $((n > 0))"
        on_pass: done
        on_fail: work
      work:
        action: echo $(($(cat n || echo 3) - 1)) > n
        next: check
      done: {terminal: true}
    """


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("counted"))
    project.loop("count", COUNT)
    project.ll("run", "count")
    return project


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    """A copy of a project with one recorded run."""
    copy = Project(tmp_path)
    shutil.rmtree(copy.root)
    shutil.copytree(made.root, copy.root)
    return copy


def replay(project: Project, *words: str) -> tuple[int, str]:
    """The exit code, and what was printed, with `TIME` for the time of a run."""
    done = project.ll("replay", *words)
    assert done.stderr == ""
    return done.returncode, re.sub(r"\d{4}-\d\d-\d\dT[\d-]+", "TIME", done.stdout)


def changed(project: Project, old: str, new: str) -> str:
    """The path of a loop file with this change."""
    text = dedent(COUNT)
    assert old in text
    path = project.root.parent / "changed.yaml"
    path.write_text(text.replace(old, new))
    return str(path)


def test_the_same_definition_gives_the_same_run(project):
    assert replay(project, "count") == (0, "✓ count TIME: no difference in 7 transitions\n")
    assert replay(project, "count", "--with", "count") == replay(project)
    assert replay(project, "-qq") == (0, "")


def test_a_changed_condition_is_judged_again(project):
    condition = 'condition: {type: output_contains, pattern: "^1 left"}\n    on_pass'
    file = changed(project, "on_pass", condition)
    assert replay(project, "--with", file) == (
        0,
        dedent("""\
            count TIME: differs at transition 5, iteration 3
              recorded:  check → work (on_fail)
              replayed:  check → done (on_pass)
              then:      ended in `done`: completed (terminal)
            """),
    )


def test_a_changed_transition_shows_what_would_have_been_run(project):
    extra = "ask\n  ask: {action: 'echo ${prev.output}', next: work}"
    file = changed(project, "on_fail: work", f"on_fail: {extra}")
    assert replay(project, "--with", file) == (
        0,
        dedent("""\
            count TIME: differs at transition 1, iteration 1
              recorded:  check → work (on_fail)
              replayed:  check → ask (on_fail)
              would run: echo ${prev.output}
                         # ${prev.output} is '3 left'
              the replay ends there: there is no recorded result for `ask` (visit 1, attempt 1)
            """),
    )


def test_another_limit_ends_the_run_elsewhere(project):
    file = changed(project, "max_iterations: 9", "max_iterations: 2")
    code, shown = replay(project, "--with", file)
    assert (code, shown.splitlines()[-1]) == (
        0,
        "  replayed:  ended in `work`: failed (max_iterations)",
    )


def test_another_start_and_a_changed_action_are_mentioned(project):
    file = changed(project, "initial: check", "initial: work")
    _, shown = replay(project, "--with", file)
    assert shown.splitlines()[:3] == [
        "count TIME: differs at transition 1, iteration 1",
        "  recorded:  started in `check`",
        "  replayed:  started in `work`",
    ]
    file = changed(project, "echo $n left", "echo $n are left")
    assert replay(project, "--with", file)[1] == dedent("""\
        ✓ count TIME: no difference in 7 transitions
          note: the action of `check` has changed; its recorded results were used
        """)


def test_a_log_without_one_of_its_events_is_refused(project):
    log = project.past("count")
    lines = log.read_text().splitlines(keepends=True)
    runs = Runs(str(project.root))
    for index in range(len(lines)):
        log.write_text("".join(lines[:index] + lines[index + 1 :]))
        view = runs.view("count")
        assert view is not None
        with pytest.raises(DamagedRun):
            read_recording(view)
    code, shown = replay(project, "count")
    assert (code, shown.replace(str(project.root), "")) == (
        1,
        (
            "✗ count TIME: the log is damaged\n"
            "  `/.loops/.history/count/TIME.events.jsonl` is incomplete: it ends with event"
            f" {len(lines) - 1}, but the run has written {len(lines)}\n"
        ),
    )


def test_an_event_that_was_changed_is_named(project):
    log = project.past("count")
    log.write_text(log.read_text().replace('"to":"done"', '"to":"work"'))
    assert replay(project, "count") == (
        1,
        dedent("""\
            ✗ count TIME: the log is damaged
              event 32: `transition` check work on_pass
              expected: `transition` check done on_pass
            """),
    )


def test_another_version_may_have_written_other_events(project):
    log, start = project.past("count"), project.past("count", ".d") / "run.json"
    log.write_text(log.read_text().replace('"to":"done"', '"to":"work"'))
    start.write_text(start.read_text().replace(f'"{__version__}"', '"0.9"'))
    assert replay(project, "count") == (
        0,
        dedent(f"""\
            count TIME: differs at event 32
              event 32: `transition` check work on_pass
              expected: `transition` check done on_pass
              note: recorded by version 0.9, not by {__version__}
            """),
    )


def test_all_runs_of_a_loop(project):
    project.ll("run", "count")
    same = "✓ count TIME: no difference in {} transition{}\n"
    both = same.format(1, "") + same.format(7, "s")
    assert replay(project, "--all", "count") == (0, both)
    done = project.ll("replay", "--all")
    assert (done.returncode, done.stderr) == (
        2,
        "error: `--all` needs the name of a loop, and no `--run`\n",
    )


def test_for_programs(project):
    file = changed(project, "on_fail: work", "on_fail: done")
    found = json.loads(project.ll("replay", "count", "--with", file, "--json").stdout)
    [run] = found["runs"]
    assert (found["schema"], run["name"], run["whole"], run["transitions"]) == (1, "count", True, 1)
    assert run["difference"] == {
        "number": 1,
        "recorded": {
            "from": "check",
            "to": "work",
            "reason": "on_fail",
            "iteration": 1,
            "status": None,
        },
        "replayed": {
            "from": "check",
            "to": "done",
            "reason": "on_fail",
            "iteration": 1,
            "status": None,
        },
        "would_run": None,
        "ends": {
            "from": "done",
            "to": None,
            "reason": "terminal",
            "iteration": 1,
            "status": "completed",
        },
    }


def test_a_run_under_way_is_compared_as_far_as_it_is(tmp_path):
    project = Project(tmp_path)
    project.loop("slow", COUNT.replace("name: count", "name: slow").replace("> n", "> n; sleep 60"))
    with project.started("run", "slow"):
        until(lambda: project.has_event("slow", "action_start", state="work"), "action")
        assert replay(project, "slow")[1].endswith("no difference in 1 transition so far\n")


def test_a_run_that_was_resumed_with_another_definition(tmp_path):
    project = Project(tmp_path)
    project.loop("gate", GATE)
    project.ll("run", "gate")
    project.loop("gate", GATE.replace("next: done", "next: last") + "  last: {terminal: true}\n")
    done = project.ll("resume", "gate", "--definition", "current")
    assert done.returncode == 0, done.stderr
    assert replay(project, "gate")[1] == "✓ gate TIME: no difference in 2 transitions\n"


GATE = dedent("""\
    name: gate
    initial: work
    states:
      work: {action: "true", next: look}
      look: {terminal: true, outcome: review, next: done}
      done: {terminal: true}
    """)


# ── runs with evidence, secrets and long outputs ───────────────────────────────────────────────


def test_a_run_with_evidence_and_a_secret(tmp_path):
    project = KeptProject(tmp_path).fixed()
    assert replay(project, "fix")[1] == "✓ fix TIME: no difference in 4 transitions\n"
    assert replay(project, "fix", "--with", "fix")[1] == replay(project, "fix")[1]


SECRET = """\
    name: secret
    initial: print
    states:
      print:
        action: echo "the token is $MY_TOKEN, $(seq 20000)"
        condition: {type: output_contains, pattern: hunter2}
        on_pass: short
        on_fail: bad
      short:
        action: echo "the token is $MY_TOKEN"
        condition: {type: output_contains, pattern: hunter2}
        on_pass: done
        on_fail: bad
      bad: {terminal: true, action: "echo ${prev.output}"}
      done: {terminal: true}
    """


def test_an_output_with_a_secret_is_judged_and_never_shown(tmp_path):
    project = Project(tmp_path)
    project.loop("secret", SECRET)
    done = project.ll("run", "secret", env={"MY_TOKEN": "hunter2-hunter2"})
    assert done.returncode == 0, done.stdout + done.stderr
    whole = (0, "✓ secret TIME: no difference in 2 transitions\n")
    assert replay(project, "secret") == replay(project, "secret", "--with", "secret") == whole
    project.loop("secret", SECRET.replace("pattern: hunter2", "pattern: hunter3"))
    assert replay(project, "secret", "--with", "secret")[1] == dedent("""\
        secret TIME: differs at transition 1, iteration 1
          recorded:  print → short (on_pass)
          replayed:  print → bad (on_fail)
          would run: echo ${prev.output}
                     # ${prev.output} is '***'
          the replay ends there: there is no recorded result for `bad` (visit 1, attempt 1)
        """)


def test_an_output_that_is_gone_cannot_be_judged_again(tmp_path):
    project = Project(tmp_path)
    project.loop("secret", SECRET)
    project.ll("run", "secret", env={"MY_TOKEN": "hunter2-hunter2"})
    data = project.past("secret", ".d")
    for path in data.glob("*.out"):
        path.unlink()
    assert replay(project, "secret")[0] == 0
    project.loop("secret", SECRET.replace("pattern: hunter2", "pattern: nothing"))
    assert replay(project, "secret", "--with", "secret")[1] == dedent("""\
        ✓ secret TIME: no difference in 0 transitions
          the replay ends there: the stored output of `print` is gone, so it cannot be judged
        """)


# ── nothing is started ─────────────────────────────────────────────────────────────────────────


def test_no_program_is_started(project, tmp_path):
    condition = 'condition: {type: output_contains, pattern: "^1 left"}\n    on_pass'
    file = changed(project, "on_pass", condition)
    before = sorted(os.walk(project.root))
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none"]
    traced += ["-o", str(trace)]
    done = subprocess.run(
        [*traced, *project.argv("replay", "count", "--with", file)],
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    started = [line for line in trace.read_text().splitlines() if "exec" in line]
    assert len(started) == 1, started
    assert sorted(os.walk(project.root)) == before
