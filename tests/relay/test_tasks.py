"""A task's files: written whole, with their permissions, or left as they are."""

from __future__ import annotations

import os

import pytest

from little_loops.errors import LittleLoopsError
from little_loops.relay.record import Task
from little_loops.relay.tasks import check_task, write_status

TASK = Task("886", "state.json", "TODO.md")


@pytest.fixture
def home(tmp_path):
    (tmp_path / "state.json").write_text('{"id": 886}\n')
    (tmp_path / "TODO.md").write_text("- 886 relay\n")
    return tmp_path


def test_both_files(home):
    (home / "TODO.md").chmod(0o664)
    write_status(TASK, "completed", ["src/a.py"], str(home))
    expected = '{"id": 886, "status": "completed", "artifacts": ["src/a.py"]}\n'
    assert (home / "state.json").read_text() == expected
    assert (home / "TODO.md").read_text() == "- 886 relay [COMPLETED]\n"
    assert (home / "TODO.md").stat().st_mode & 0o777 == 0o664
    assert sorted(os.listdir(home)) == ["TODO.md", "state.json"]


def test_what_is_said_already_is_not_written_again(home):
    write_status(TASK, "partial", [], str(home))
    before = (home / "state.json").stat().st_ino
    write_status(TASK, "partial", [], str(home))
    assert (home / "state.json").stat().st_ino == before


@pytest.mark.parametrize(
    ("task", "files"),
    [
        pytest.param(Task(), [], id="no task"),
        pytest.param(Task("886"), [], id="an id alone"),
        pytest.param(Task("886", todo="TODO.md"), ["TODO.md"], id="one file"),
    ],
)
def test_each_file_is_optional(home, task, files):
    before = {name: (home / name).read_text() for name in os.listdir(home)}
    write_status(task, "failed", [], str(home))
    assert [name for name in before if (home / name).read_text() != before[name]] == files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("state.json", None, "the task's file `state.json` does not exist", id="missing"),
        pytest.param("state.json", b"[]", "the task's file `state.json` has no object whose `id` or `project_number` is 886", id="no object"),
        pytest.param("TODO.md", b"none\n", "the task's file `TODO.md` has no heading or list line with 886", id="no line"),
        pytest.param("TODO.md", b"- 886 \xff\n", "the task's file `TODO.md` is not UTF-8", id="not UTF-8"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_there(home, name, content, message):
    (home / name).unlink()
    if content is not None:
        (home / name).write_bytes(content)
    for act in (
        lambda: check_task(TASK, str(home)),
        lambda: write_status(TASK, "failed", [], str(home)),
    ):
        with pytest.raises(LittleLoopsError) as caught:
            act()
        assert caught.value.message == message
        assert caught.value.help == "correct `task` in the loop, or the file"


def test_finding_changes_nothing(home):
    check_task(TASK, str(home))
    assert (home / "state.json").read_text() == '{"id": 886}\n'


def test_a_link_is_not_followed(home, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "precious.md"
    other.write_text("- 886\n")
    (home / "TODO.md").unlink()
    (home / "TODO.md").symlink_to(other)
    with pytest.raises(LittleLoopsError, match=r"cannot read `TODO\.md`"):
        write_status(TASK, "failed", [], str(home))
    assert other.read_text() == "- 886\n"
