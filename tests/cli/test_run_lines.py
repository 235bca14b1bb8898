"""The lines of a run in a pipe, compared whole: what a CI log shows."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from tests.project import Project


def test_a_label_is_shown_instead_of_the_action(project: Project):
    project.loop(
        "row",
        """\
name: row
initial: check
states:
  check: {action: "test -e README", label: the tests, next: done}
  done: {terminal: true}
""",
    )
    (project.root / "README").touch()
    assert project.ll("run", "row").stdout.splitlines()[:2] == [
        "[1/50] check → running the tests...",
        "       ✓ (exit 0)",
    ]


def test_a_new_label_is_no_new_machine(project: Project):
    text = "name: row\ninitial: check\nstates:\n  check: {action: exit 9%s, next: done}\n  done: {terminal: true}\n"
    project.loop("row", text % "")
    assert project.ll("run", "row").returncode == 1
    project.loop("row", text % ", label: the tests")
    resumed = project.ll("resume", "row")
    assert resumed.returncode == 1
    assert "definition" not in resumed.stderr


def lines_of(project: Project, text: str) -> str:
    """What a run prints, without the times."""
    project.loop("row", text)
    printed = project.ll("run", "row").stdout
    return re.sub(r"\d+\.\ds", "T", printed)


def test_a_condition_gives_its_reason_unless_the_line_above_has_it(project: Project):
    assert lines_of(
        project,
        """\
        name: row
        initial: count
        states:
          count: {action: echo 7, condition: {type: output_numeric, operator: le, target: 5}, next: fix}
          fix: {action: exit 1, condition: {type: exit_code}, next: measure}
          measure:
            action: echo 3
            condition: {type: convergence, target: 0}
            on_target: done
            on_progress: done
            on_stall: done
          done: {terminal: true}
        """,
    ) == dedent("""\
        [1/50] count → running echo 7...
               ✗ 7 (exit 0)
               7 is more than 5
               → fix
        [1/50] fix → running exit 1...
               ✗ (exit 1)
               → measure
        [1/50] measure → running echo 3...
               · 3 (exit 0)
               first measurement: 3 (target: 0)
               → done (on_progress)

        Loop completed: done (1 iteration, T)
        """)


def test_a_decision_state_is_shown(project: Project):
    assert lines_of(
        project,
        """\
        name: row
        initial: count
        states:
          count: {action: echo 7, next: choose}
          choose:
            condition: {type: output_numeric, operator: le, target: 5, source: count}
            on_pass: few
            on_fail: many
          few: {terminal: true}
          many: {terminal: true}
        """,
    ) == dedent("""\
        [1/50] count → running echo 7...
               ✓ 7 (exit 0)
               → choose
        [1/50] choose → fail: 7 is more than 5
               → many (on_fail)

        Loop completed: many (1 iteration, T)
        """)


@pytest.mark.parametrize(
    ("action", "fields", "lines"),
    [
        pytest.param(
            "echo 'FATAL_ERROR: pytest is not installed'",
            "next: done",
            """\
                   ✗ pytest is not installed

            Loop failed in state 'a': pytest is not installed (1 iteration, T)
            """,
            id="a fatal error",
        ),
        pytest.param(
            "echo 'CONTEXT_HANDOFF: two files left'",
            "next: done",
            """\
                   · handed off (exit 0)
                   → context handoff: two files left

            Loop paused: context handoff in state 'a' (1 iteration, T)
            """,
            id="a handoff",
        ),
        pytest.param(
            "echo 'no key'; echo 'VERDICT: blocked'",
            "condition: {type: verdict, words: [ready, blocked]}, on_ready: done, on_blocked: failed",
            """\
                   · no key (exit 0)
                   → failed (on_blocked)
            [1/50] failed → running echo 'the same error 3 times'...
                   | the same error 3 times
                   · the same error 3 times (exit 0)

            Loop failed: ended in state 'failed': the same error 3 times (1 iteration, T)
            """,
            id="a word of its own, and a failure state",
        ),
        pytest.param(
            f"echo {'why ' * 30}>&2; exit 9",
            "next: done",
            f"""\
                   ✗ {"why " * 29}why (exit 9)

            Loop failed in state 'a': exit 9: {"why " * 12}why… (1 iteration, T)
            """,
            id="a long message is not repeated in full",
        ),
        pytest.param(
            "ls .",
            "condition: {type: output_contains, pattern: nowhere}, on_pass: done",
            """\
                   ✗ (exit 0)
                   `nowhere` not found

            Loop failed in state 'a': no transition for the verdict `fail` (`nowhere` not found) (1 iteration, T)
            """,
            id="no transition",
        ),
    ],
)
def test_no_check_mark_stands_before_what_went_wrong(
    project: Project, action: str, fields: str, lines: str
):
    text = (
        "name: row\ninitial: a\nstates:\n"
        f'  a: {{action: "{action}", {fields}}}\n'
        "  failed: {action: echo 'the same error 3 times', terminal: true}\n"
        "  done: {terminal: true}\n"
    )
    assert lines_of(project, text).partition("\n")[2] == dedent(lines)


def test_colour_codes_are_neither_judged_nor_shown(project: Project):
    """A project that forces colours: numbers, patterns, captures, signals and lines are read without."""
    (project.root / "count").write_text("printf '\\033[31m7\\033[0m\\n'\n")
    (project.root / "stop").write_text("printf '\\033[1mLOOP\\033[0m_STOP: enough\\n'\n")
    assert lines_of(
        project,
        """\
        name: row
        initial: count
        states:
          count: {action: sh count, condition: {type: output_numeric, target: 7}, on_pass: find}
          find: {action: sh count, condition: {type: output_contains, pattern: ^7$}, on_pass: use}
          use: {action: "test ${captured.count.output} = 7", on_pass: stop}
          stop: {action: sh stop, next: done}
          done: {terminal: true}
        """,
    ) == dedent("""\
        [1/50] count → running sh count...
               ✓ 7 (exit 0)
               7 is 7
               → find (on_pass)
        [1/50] find → running sh count...
               ✓ 7 (exit 0)
               `^7$` found
               → use (on_pass)
        [1/50] use → running test ${captured.count.output} = 7...
               ✓ (exit 0)
               → stop (on_pass)
        [1/50] stop → running sh stop...
               · LOOP_STOP: enough (exit 0)

        Loop stopped: enough (1 iteration, T)
        """)
    shown = project.ll("logs", "row").stdout
    assert "\x1b" not in shown
    assert "\\x1b" not in shown


def test_a_secret_is_masked_though_colour_codes_stand_in_it(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a: {action: "printf 'hunter\\\\033[1m2hunter2\\\\n'; exit 3", next: done}
          done: {terminal: true}
        """,
    )
    env = {"MY_TOKEN": "hunter2hunter2"}
    printed = project.ll("run", "row", "-v", env=env)
    assert "hunter" not in printed.stdout.replace("running printf 'hunter\\033[1m2hunter2\\n'", "")
    assert "       | ***\n       ✗ *** (exit 3)\n" in printed.stdout
    for words in (("logs", "row"), ("logs", "row", "--raw"), ("logs", "row", "--json")):
        shown = project.ll(*words).stdout
        assert "***" in shown
        assert "2hunter2\n" not in shown


PROMPTED = """\
name: row
initial: count
host: {name: command, command: [echo, "{prompt}"]}
states:
  count: {action: "echo 3 errors", next: fix}
  fix:
    action: |
      Fix ${captured.count.output}. The log is ${prev.log_file}
      Key: ${env.MY_TOKEN}
    action_type: prompt
    context: {found: "${captured.count.output}"}
    next: done
  done: {terminal: true}
"""


def test_the_filled_in_action_is_stored_and_shown(project: Project):
    project.loop("row", PROMPTED)
    env = {"MY_TOKEN": "hunter2hunter2"}
    printed = project.ll("run", "row", "-v", env=env).stdout
    log = project.root / ".loops/.running/row.d/count.log"
    whole = f"Fix 3 errors. The log is {log}\nKey: ***\n\n\nfound: 3 errors"
    (started,) = [each for each in project.events("row") if each.get("filled")]
    assert started["filled"] == whole
    assert started["action"].startswith("Fix ${captured.count.output}.")
    shown = "".join(f"       > {line}".rstrip() + "\n" for line in whole.split("\n"))
    assert '[1/50] fix → running "Fix 3 errors. The log is' in printed
    assert shown in printed
    assert shown in project.ll("logs", "row").stdout


def test_a_filled_in_action_is_masked_and_then_cut(project: Project):
    """A secret that stands where the text is cut leaves nothing of itself."""
    text = PROMPTED.replace("Key:", "x" * 4080)
    project.loop("row", text)
    project.ll("run", "row", env={"MY_TOKEN": "hunter2hunter2"})
    (started,) = [each for each in project.events("row") if each.get("filled")]
    assert len(started["filled"]) == 4096
    assert "hunter" not in started["filled"]


def test_a_run_shows_what_validate_warns_about_once_and_briefly(project: Project):
    states = "".join(f"  left_{number}: {{action: 'true', next: done}}\n" for number in range(5))
    project.loop("row", f"name: row\ninitial: done\nstates:\n{states}  done: {{terminal: true}}\n")
    warnings = "".join(
        f"warning: state `left_{number}` can never be reached (.loops/row.yaml:{number + 4}, LL301)\n"
        for number in range(3)
    )
    assert project.ll("run", "row").stderr == warnings + (
        "warning: 2 more; see `ll-loop validate row`\n"
    )
    assert project.ll("run", "row", "-q").stderr == ""
    assert project.ll("run", "row", "--json").stderr == ""


def test_a_resume_shows_what_validate_warns_about_as_a_run_does(project: Project):
    text = """\
        name: row
        initial: wait
        states:
          left: {action: 'true', next: done}
          wait: {action: 'echo CONTEXT_HANDOFF: x', next: done}
          done: {terminal: true}
        """
    project.loop("row", text)
    warning = "warning: state `left` can never be reached (.loops/row.yaml:4, LL301)\n"
    told = f"{warning}next: ll-loop resume row\n"
    assert project.ll("run", "row").stderr == told
    assert project.ll("resume", "row").stderr == told
    assert project.ll("resume", "row", "--definition", "current").stderr == told
    # The file may be another one by now: what it warns about says nothing about the run.
    assert project.ll("resume", "row", "--definition", "original").stderr == (
        "next: ll-loop resume row\n"
    )
    assert project.ll("resume", "row", "-q").stderr == ""
    assert project.ll("resume", "row", "--json").stderr == ""


def test_the_values_of_a_script_are_listed_below_it(project: Project):
    """They never stand in its text, and no line may look as if they did."""
    project.loop(
        "row",
        """\
        name: row
        initial: ask
        states:
          ask: {action: "printf \\"'; touch owned; '\\"", next: greet}
          greet: {action: "echo Hello, '${captured.ask.output}'", next: done}
          done: {terminal: true}
        """,
    )
    shown = project.ll("run", "row", "-v").stdout
    assert (
        "[1/50] greet → running echo Hello, '${captured.ask.output}'...\n"
        "       $ echo Hello, '${captured.ask.output}'\n"
        "       $ # ${captured.ask.output} is ''\"'\"'; touch owned; '\"'\"''\n"
        "       | Hello, '; touch owned; '\n"
    ) in shown
    assert not (project.root / "owned").exists()


def test_what_is_shown_changes_nothing_of_what_an_action_is_given(project: Project):
    """Its lines are folded for our screen, so it need not be told how wide that is."""
    project.loop(
        "row",
        "name: row\ninitial: a\nstates:\n  a: {action: 'env | cut -d= -f1 | sort > names', next: b}\n"
        "  b: {terminal: true}\n",
    )
    found = []
    for words in ((), ("-v",), ("-vv",), ("-q",), ("--json",)):
        assert project.ll("run", "row", *words, env={"COLUMNS": "40"}).returncode == 0
        found.append(project.file("names"))
    assert found == [found[0]] * 5
