"""A run carries the machine it was started with; another one only with a word."""

from __future__ import annotations

from tests.project import Project

BEFORE = """\
    name: row
    initial: a
    states:
      a: {action: "echo old >> trace; test -e ok || exit 9", next: done}
      done: {terminal: true}
    """
AFTER = """\
    name: row
    initial: a
    max_iterations: 7
    states:
      a: {action: "echo new >> trace", next: b}
      b: {action: "echo b >> trace", next: done}
      done: {terminal: true}
    """


def failed_once(project: Project) -> None:
    project.loop("row", BEFORE)
    assert project.ll("run", "row").returncode == 1
    (project.root / "ok").touch()


def test_a_change_is_refused_in_words(project: Project):
    failed_once(project)
    project.loop("row", AFTER)
    said = project.ll("resume", "row")
    assert said.returncode == 2
    assert said.stderr == (
        "error: the definition of `row` has changed since the run started: "
        "state `b` added; state `a` changed; `max_iterations` changed\n"
        "   = help: to continue with the original definition, use `--definition original`; "
        "with the current file, `--definition current`\n"
    )
    assert project.file("trace").split() == ["old"]


def test_the_original(project: Project):
    failed_once(project)
    project.loop("row", AFTER)
    assert project.ll("resume", "row", "--definition", "original").returncode == 0
    assert project.file("trace").split() == ["old", "old"]


def test_the_current(project: Project):
    failed_once(project)
    project.loop("row", AFTER)
    assert project.ll("resume", "row", "--definition", "current").returncode == 0
    assert project.file("trace").split() == ["old", "new", "b"]


def test_a_current_definition_without_the_state_is_refused(project: Project):
    failed_once(project)
    project.loop("row", AFTER.replace("      a:", "      z:").replace("initial: a", "initial: z"))
    said = project.ll("resume", "row", "--definition", "current")
    assert said.returncode == 2
    assert "its state `a` is not in the definition" in said.stderr


def test_comments_layout_and_description_are_no_change(project: Project):
    failed_once(project)
    text = "# looks different\ndescription: words\n" + project.loop("row", BEFORE).read_text()
    (project.root / ".loops" / "row.yaml").write_text(text)
    assert project.ll("resume", "row").returncode == 0


def test_a_definition_that_is_gone_is_no_obstacle(project: Project):
    failed_once(project)
    (project.root / ".loops" / "row.yaml").unlink()
    assert project.ll("resume", "row").returncode == 0


def test_context_given_on_the_command_line_is_no_change(project: Project):
    text = BEFORE.replace("initial: a", "initial: a\n    context: {word: old}")
    project.loop("row", text.replace("echo old", "echo ${context.word}"))
    assert project.ll("run", "row", "--context", "word=mine").returncode == 1
    (project.root / "ok").touch()
    assert project.ll("resume", "row").returncode == 0
    assert project.file("trace").split() == ["mine", "mine"]
