"""`ll-loop test`: what it prints, its exit codes, and what it leaves alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.project import Project

LOOP = """\
    name: fix
    initial: check
    states:
      check: {action: mypy src, on_pass: done, on_fail: fix}
      fix: {action: "Fix it", action_type: prompt, next: check, on_error: give_up}
      give_up: {terminal: true}
      done: {terminal: true}
    """
GOOD = """\
    loop: fix
    tests:
      - {name: it is right, given: {check: 0}, expect: {status: completed}}
      - {name: it is fixed, given: {check: [1, 0], fix: 0}, expect: {path: [..., done]}}
    """
BAD = """\
    loop: fix
    tests:
      - name: <never> & "odd"
        given: {check: 1, fix: {agent: truncated}}
        expect: {status: completed, path: [check, fix, check, fix, done], captured: {fix: done}}
      - {name: nothing given, expect: {status: completed}}
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.loop("fix", LOOP)
    return made


def write_tests(project: Project, name: str, text: str) -> Path:
    folder = project.root / ".loops/tests"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.test.yaml"
    path.write_text(dedent(text))
    return path


def test_tests_that_pass_are_dots(project):
    write_tests(project, "fix", GOOD)
    done = project.ll("test")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == dedent("""\
        .loops/tests/fix.test.yaml  ..

        Transitions not covered by any passing test:
          fix: fix → give_up (on_error)

        2 tests: 2 passed
        """)
    covered = project.ll("test", "--require-coverage", "-q")
    assert covered.returncode == 1
    assert covered.stdout.splitlines()[-1] == (
        "2 tests: 2 passed; 1 transition not covered (--require-coverage)"
    )
    assert project.ll("test", "-q").stdout == "2 tests: 2 passed\n"
    assert project.ll("test", "-qq").stdout == ""


def test_each_failure_says_what_was_expected(project):
    write_tests(project, "fix", BAD)
    done = project.ll("test", "fix", "--all")
    assert done.returncode == 1
    assert done.stdout == dedent("""\
        .loops/tests/fix.test.yaml  FF

        ✗ fix: <never> & "odd"
          --> .loops/tests/fix.test.yaml:3
          status: expected `completed`, got `failed`
          path: expected check → fix → check → fix → done
                     got check → fix → give_up
                                       ^
          captured.fix: expected `done`, got ``
          entered by `on_error`

        ✗ fix: nothing given
          --> .loops/tests/fix.test.yaml:6
          the run reaches `check`, but `given` has no outcome for it; add `check: 0`

        Transitions not covered by any passing test:
          fix: check → done (on_pass)
          fix: check → fix (on_fail)
          fix: fix → check (next)
          fix: fix → give_up (on_error)

        2 tests: 0 passed, 2 failed
        """)


def test_the_message_of_an_ending_helps_with_a_failure(project):
    text = "loop: fix\ntests: [{name: a, given: {check: 127}, expect: {status: completed}}]\n"
    write_tests(project, "fix", text)
    assert project.ll("test", "-q").stdout == dedent("""\

        ✗ fix: a
          --> .loops/tests/fix.test.yaml:2
          status: expected `completed`, got `failed`
          exit 127: not found
        1 test: 0 passed, 1 failed
        """)


def test_a_long_path_is_shown_from_shortly_before_the_difference(project):
    states = ", ".join(["check", "fix"] * 4)
    given = "{check: [1, 1, 1, 1, 0], fix: 0}"
    text = f"loop: fix\ntests: [{{name: a, given: {given}, expect: {{path: [{states}]}}}}]\n"
    write_tests(project, "fix", text)
    assert project.ll("test", "-q").stdout == dedent("""\

        ✗ fix: a
          --> .loops/tests/fix.test.yaml:2
          path: expected ... → fix → check → fix
                     got ... → fix → check → fix → check → done
                                                   ^
        1 test: 0 passed, 1 failed
        """)


def test_tests_are_chosen_by_loop_and_word(project):
    write_tests(project, "fix", GOOD)
    project.loop("other", LOOP.replace("name: fix", "name: other"))
    assert project.ll("test", "fix", "-k", "fixed").stdout == (
        ".loops/tests/fix.test.yaml  .\n\n1 test: 1 passed\n"
    )
    nobody = project.ll("test", "-k", "nobody", "--junit", "x.xml")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert nobody.stderr == "error: no test name contains `nobody`\n"
    assert not (project.root / "x.xml").exists()
    assert project.ll("test", ".loops/tests/fix.test.yaml").stderr == (
        "error: `.loops/tests/fix.test.yaml` is a test file, not a loop\n"
        "   = help: name the loop that it tests, and choose tests with `-k WORD`\n"
    )
    assert project.ll("test", "other").stderr == (
        "error: `other` has no tests\n   = help: write them to `.loops/tests/NAME.test.yaml`\n"
    )


def test_a_project_without_tests_is_an_error_with_a_way_out(project):
    done = project.ll("test")
    assert done.returncode == 2
    assert done.stderr == (
        "error: this project has no tests\n   = help: write them to `.loops/tests/NAME.test.yaml`\n"
    )
    assert project.ll("test", "gone").returncode == 2


def test_a_wrong_test_file_is_shown_with_its_place(project):
    write_tests(
        project, "fix", "loop: fix\ntests: [{name: a, given: {chek: 1}, expect: {exit: 0}}]\n"
    )
    done = project.ll("test")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == dedent("""\
        error[LL502]: loop `fix` has no state named `chek` that runs an action
          --> .loops/tests/fix.test.yaml:2:27
           |
         2 | tests: [{name: a, given: {chek: 1}, expect: {exit: 0}}]
           |                           ^^^^
           = help: did you mean `check`?
        """)


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        ("gone", "no loop named `gone`"),
        ("broken", "loop `broken` has errors; `ll-loop validate broken` shows them"),
    ],
)
def test_a_loop_that_cannot_be_used_is_named(loop, why, project):
    project.loop("broken", "name: broken\nstates: 3\n")
    write_tests(project, "fix", f"loop: {loop}\ntests: [{{name: a, expect: {{exit: 0}}}}]\n")
    done = project.ll("test")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"error[LL503]: {why}"


def test_a_test_file_among_the_loops_is_sent_to_its_place(project):
    project.loop("fix.test", GOOD)
    done = project.ll("validate")
    assert done.returncode == 2
    told = [
        "error[LL506]: `.loops/fix.test.yaml` is a test file, not a loop",
        "   = help: move it to `.loops/tests/fix.test.yaml`",
    ]
    assert done.stdout.splitlines()[:2] == told
    # Its tests are not run, so `test` must not pass without them, whatever else there is.
    for others in ("", GOOD):
        if others:
            write_tests(project, "other", others)
        done = project.ll("test", "--junit", "out.xml")
        assert (done.returncode, done.stdout, done.stderr.splitlines()) == (2, "", told)
    assert not (project.root / "out.xml").exists()


def test_a_test_file_that_cannot_be_read_is_named(project):
    folder = project.root / ".loops/tests/fix.test.yaml"
    folder.mkdir(parents=True)
    done = project.ll("test")
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot read `.loops/tests/fix.test.yaml`: ")


def test_results_for_programs(project):
    write_tests(project, "fix", BAD)
    found = json.loads(project.ll("test", "--json").stdout)
    assert found == {
        "schema": 1,
        "passed": 0,
        "failed": 2,
        "tests": [
            {
                "loop": "fix",
                "name": '<never> & "odd"',
                "file": ".loops/tests/fix.test.yaml",
                "line": 3,
                "passed": False,
                "differences": [
                    {"what": "status", "expected": "completed", "got": "failed"},
                    {
                        "what": "path",
                        "expected": ["check", "fix", "check", "fix", "done"],
                        "got": ["check", "fix", "give_up"],
                    },
                    {"what": "captured.fix", "expected": "done", "got": ""},
                ],
                "problem": None,
            },
            {
                "loop": "fix",
                "name": "nothing given",
                "file": ".loops/tests/fix.test.yaml",
                "line": 6,
                "passed": False,
                "differences": [],
                "problem": "the run reaches `check`, but `given` has no outcome for it; add `check: 0`",
            },
        ],
        "never_taken": [
            {"loop": "fix", "state": "check", "field": "on_pass", "target": "done"},
            {"loop": "fix", "state": "check", "field": "on_fail", "target": "fix"},
            {"loop": "fix", "state": "fix", "field": "next", "target": "check"},
            {"loop": "fix", "state": "fix", "field": "on_error", "target": "give_up"},
        ],
        "untested": [],
    }


def test_results_that_cannot_be_written_name_the_file(project):
    write_tests(project, "fix", GOOD)
    done = project.ll("test", "--junit", "gone/out.xml")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "error: cannot write `gone/out.xml`: No such file or directory\n",
    )


def test_required_coverage_for_a_ci_system(project):
    """What only a failing test takes is not covered: here `fix → give_up`."""
    write_tests(project, "a", GOOD)
    write_tests(project, "b", BAD)
    done = project.ll("test", "--require-coverage", "--junit", "out.xml")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-4:] == [
        "Transitions not covered by any passing test:",
        "  fix: fix → give_up (on_error)",
        "",
        "4 tests: 2 passed, 2 failed; 1 transition not covered (--require-coverage)",
    ]
    text = (project.root / "out.xml").read_text()
    assert text.splitlines()[1] == '<testsuites tests="5" failures="3">'
    assert text.endswith(
        dedent("""\
          <testsuite name="--require-coverage" tests="1" failures="1">
            <testcase classname="fix" name="every transition is covered">
              <failure>not covered by any passing test:
        fix → give_up (on_error)</failure>
            </testcase>
          </testsuite>
        </testsuites>
        """)
    )
    more = "  - {name: an agent fails, given: {check: 1, fix: {agent: truncated}}, expect: {exit: 1}}\n"
    write_tests(project, "a", dedent(GOOD) + more)
    (project.root / ".loops/tests/b.test.yaml").unlink()
    assert project.ll("test", "--require-coverage", "--junit", "out.xml").returncode == 0
    text = (project.root / "out.xml").read_text()
    assert text.splitlines()[1] == '<testsuites tests="4" failures="0">'
    assert '<testcase classname="fix" name="every transition is covered"/>' in text
    done = project.ll("test", "--require-coverage", "-k", "fixed")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `--require-coverage` runs all tests, so it cannot be used with `-k`\n"
    )


def test_loops_without_tests_are_named(project):
    """Also an invalid one, by its file."""
    covered = (
        "  - {name: an agent fails, given: {check: 1, fix: {agent: auth}}, expect: {exit: 1}}\n"
    )
    crashed = covered.replace("auth", "truncated").replace("an agent", "another")
    write_tests(project, "fix", dedent(GOOD) + covered + crashed)
    assert project.ll("test", "--require-coverage", "-q").stdout == "4 tests: 4 passed\n"
    project.loop("nightly", LOOP.replace("name: fix", "name: night"))
    project.loop("broken", "initial: nowhere\n")
    done = project.ll("test", "--require-coverage", "--junit", "out.xml")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        (
            ".loops/tests/fix.test.yaml  ....\n"
            "\n"
            "Loops without tests:\n"
            "  broken\n"
            "  night\n"
            "\n"
            "4 tests: 4 passed; 2 loops without tests (--require-coverage)\n"
        ),
        "",
    )
    text = (project.root / "out.xml").read_text()
    assert text.endswith(
        dedent("""\
          <testsuite name="--require-coverage" tests="3" failures="2">
            <testcase classname="fix" name="every transition is covered"/>
            <testcase classname="broken" name="every transition is covered">
              <failure>the loop has no tests</failure>
            </testcase>
            <testcase classname="night" name="every transition is covered">
              <failure>the loop has no tests</failure>
            </testcase>
          </testsuite>
        </testsuites>
        """)
    )
    assert project.ll("test").returncode == 0
    assert json.loads(project.ll("test", "--json").stdout)["untested"] == ["broken", "night"]
    # Only what was asked for has to be covered.
    assert project.ll("test", "fix", "--require-coverage").returncode == 0


def test_results_for_a_ci_system(project):
    write_tests(project, "a", GOOD)
    write_tests(project, "b", BAD)
    project.ll("test", "--junit", "out.xml")
    assert (project.root / "out.xml").read_text() == dedent("""\
        <?xml version="1.0" encoding="utf-8"?>
        <testsuites tests="4" failures="2">
          <testsuite name=".loops/tests/a.test.yaml" tests="2" failures="0">
            <testcase classname="fix" name="it is right"/>
            <testcase classname="fix" name="it is fixed"/>
          </testsuite>
          <testsuite name=".loops/tests/b.test.yaml" tests="2" failures="2">
            <testcase classname="fix" name='&lt;never&gt; &amp; "odd"'>
              <failure>  status: expected `completed`, got `failed`
          path: expected check → fix → check → fix → done
                     got check → fix → give_up
                                       ^
          captured.fix: expected `done`, got ``</failure>
            </testcase>
            <testcase classname="fix" name="nothing given">
              <failure>the run reaches `check`, but `given` has no outcome for it; add `check: 0`</failure>
            </testcase>
          </testsuite>
        </testsuites>
        """)


EVERYTHING = """\
    name: everything
    initial: check
    worktree: true
    evidence: {clean: true, protect: [tests/]}
    hooks: {before_run: touch hooked, after_state: touch hooked, events: {loop_start: touch hooked}}
    notify: [{to: "http://127.0.0.1:9/", when: [waits, failed]}]
    states:
      check:
        action: touch started
        check: true
        condition: {type: output_contains, pattern: "^ok$", regex: true}
        on_pass: kid
        on_fail: fix
      fix: {action: "Fix it", action_type: prompt, next: check}
      kid: {loop: fix, on_pass: each, on_fail: done}
      each: {for_each: [a, b], action: "touch started", on_pass: done, on_fail: done}
      done: {terminal: true}
    """
TESTED = """\
    loop: everything
    tests:
      - name: all of it
        kill: everywhere
        given: {check: [{output: "3 errors"}, {output: ok}], fix: 0, kid: {ends: completed}, each: [0, 1]}
        expect: {status: completed, path: [check, fix, check, kid, each, done]}
    """


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_nothing_is_started_and_nothing_is_written(project, tmp_path):
    """No action, hook, notification, agent, git or run of another loop."""
    project.git("init", "-q")
    project.loop("everything", EVERYTHING)
    write_tests(project, "everything", TESTED)
    before = sorted([*project.root.rglob("*"), *project.home.rglob("*")])
    trace = tmp_path / "trace"
    done = subprocess.run(
        [
            *("strace", "-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none"),
            *("-o", str(trace), *project.argv("test")),
        ],
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    started = [line for line in trace.read_text().splitlines() if "exec" in line]
    assert len(started) == 1, started
    assert sorted([*project.root.rglob("*"), *project.home.rglob("*")]) == before
