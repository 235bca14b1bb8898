"""The lines of a run in a pipe, compared whole: what a CI log shows."""

from __future__ import annotations

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
