"""Where the project is, and which file a word names."""

from __future__ import annotations

import os

import pytest

from little_loops.errors import UsageError
from little_loops.runs.project import (
    check_run_name,
    files_named,
    find_project,
    loop_files,
    path_in_project,
    resolve,
    resolve_scope,
    run_name,
    show_scope,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


def plant(root, *paths):
    """Directories end with a slash; the rest are files."""
    for path in paths:
        target = root / path
        (target if path.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            target.write_text("")


@pytest.mark.parametrize(
    ("there", "start", "found"),
    [
        pytest.param(["a/.loops/", "a/b/c/"], "a/b/c", "a", id="above"),
        pytest.param(["a/.loops/", "a/b/.loops/"], "a/b", "a/b", id="the nearest"),
        pytest.param(["a/.loops/", "a/b/.git/", "a/b/c/"], "a/b/c", "a/b", id="up to the git root"),
        pytest.param(["a/.git", "a/b/"], "a/b", "a", id="a work tree's `.git` is a file"),
        pytest.param(["a/.git/", "a/.loops/", "a/b/"], "a/b", "a", id="at the git root"),
        pytest.param(["../.loops/", "a/"], "a", "a", id="not above home"),
        pytest.param([".loops/", "a/"], "a", ".", id="at home"),
        pytest.param(["a/b/"], "a/b", "a/b", id="nowhere: here"),
        pytest.param(["a/.loops", "a/b/"], "a/b", "a/b", id="a file of that name is no project"),
    ],
)
def test_the_project(tmp_path, there, start, found):
    home = tmp_path / "home"
    plant(home, *there)
    assert find_project(str(home / start), home=str(home)) == str(home / found)


@as_root
def test_what_a_stranger_put_above_is_not_taken(tmp_path):
    plant(tmp_path, "shared/.loops/", "shared/mine/deep/")
    os.chown(tmp_path / "shared", 12345, 12345)
    start = str(tmp_path / "shared/mine/deep")
    assert find_project(start, home="/nowhere") == start


@as_root
def test_a_tree_that_is_all_somebody_elses_is_walked_as_its_own(tmp_path):
    """Root in a container, with the user's project mounted."""
    plant(tmp_path, "theirs/.loops/", "theirs/deep/")
    for place in ("theirs", "theirs/deep"):
        os.chown(tmp_path / place, 12345, 12345)
    assert find_project(str(tmp_path / "theirs/deep")) == str(tmp_path / "theirs")


def test_a_link_to_a_project_leads_to_the_project(tmp_path):
    plant(tmp_path, "real/.loops/")
    (tmp_path / "link").symlink_to("real")
    assert find_project(str(tmp_path / "link")) == str(tmp_path / "real")


def test_loop_files_are_the_yaml_files_of_the_project(tmp_path):
    plant(tmp_path, ".loops/b.yml", ".loops/a.yaml", ".loops/.config.yaml", ".loops/x.txt")
    plant(tmp_path, ".loops/dir.yaml/")
    assert [os.path.basename(path) for path in loop_files(str(tmp_path))] == ["a.yaml", "b.yml"]
    assert loop_files(str(tmp_path / "elsewhere")) == []


NAMES = {"a.yaml": "a", "b.yml": "other", "c.yaml": "twice", "d.yaml": "twice", "e": "e"}


@pytest.mark.parametrize(
    ("word", "found"),
    [
        pytest.param("a", [".loops/a.yaml"], id="the stem"),
        pytest.param("a.yaml", [".loops/a.yaml"], id="the file's name"),
        pytest.param("b", [".loops/b.yml"], id="the other suffix"),
        pytest.param("e", [".loops/e"], id="a file without a suffix"),
        pytest.param("other", [".loops/b.yml"], id="the name inside"),
        pytest.param("twice", [".loops/c.yaml", ".loops/d.yaml"], id="a name two files have"),
        pytest.param("near.yaml", ["sub/near.yaml"], id="a path by its suffix"),
        pytest.param("../sub/near.yaml", ["sub/../sub/near.yaml"], id="a path by its slash"),
        pytest.param("./plain", ["sub/./plain"], id="a path to anything"),
        pytest.param("plain", [], id="no path without a slash or suffix"),
        pytest.param("none", [], id="nothing"),
        pytest.param("../../etc/passwd", [], id="no way out of `.loops`"),
        pytest.param("a\n", [], id="a newline is no part of a name"),
        pytest.param("", [], id="empty"),
    ],
)
def test_the_file_a_word_names(tmp_path, word, found):
    plant(tmp_path, *(f".loops/{name}" for name in NAMES), "sub/near.yaml", "sub/plain")
    paths = resolve(
        word,
        str(tmp_path),
        lambda path: NAMES[os.path.basename(path)],
        cwd=str(tmp_path / "sub"),
    )
    assert [os.path.relpath(path, tmp_path) for path in paths] == [
        os.path.normpath(path) for path in found
    ]


def test_every_file_of_a_name(tmp_path):
    plant(tmp_path, ".loops/a.yaml", ".loops/b.yaml")
    found = files_named("x", str(tmp_path), lambda path: "x")
    assert [os.path.basename(path) for path in found] == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize(
    "name", ["a", "A-1_b.c", "x" * 100, "0", "fix@2", f"{'x' * 100}@{'y' * 100}"]
)
def test_names_that_may_become_part_of_a_path(name):
    assert check_run_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "a/b",
        "a b",
        "x" * 101,
        "a@",
        "@b",
        "a@b@c",
        "a@.b",
        "a\n",
        "ä",
        "a\0",
    ],
)
def test_names_that_may_not(name):
    with pytest.raises(UsageError) as caught:
        check_run_name(name)
    assert caught.value.message == f"{name!r} is not a valid name for a loop or run"


def test_a_run_may_have_an_id():
    assert [run_name("fix"), run_name("fix", "2")] == ["fix", "fix@2"]
    with pytest.raises(UsageError):
        run_name("fix", "../2")


def test_a_path_seen_from_the_project(tmp_path):
    root = tmp_path / "project"
    (root / "ci").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    (root / "fix.loop").symlink_to("/elsewhere")
    rows = {
        root / "ci/fix.loop": "ci/fix.loop",
        tmp_path / "link/ci/../fix.loop": "fix.loop",
        root / "fix.loop": "fix.loop",
        tmp_path / "fix.loop": None,
        tmp_path / "project2/fix.loop": None,
    }
    assert {path: path_in_project(str(path), str(root)) for path in rows} == rows
    assert path_in_project(str(root / "ci/fix.loop"), str(tmp_path / "link")) == "ci/fix.loop"


def test_scope_paths_are_made_absolute_and_links_followed(tmp_path):
    plant(tmp_path, "src/api/")
    (tmp_path / "short").symlink_to("src/api")
    root = str(tmp_path)
    resolved = resolve_scope(root, [".", "src/../src", "short/v1", "not/there"])
    assert show_scope(root, resolved) == "`.`, `src`, `src/api/v1`, `not/there`"


@pytest.mark.parametrize("path", ["..", "/etc", "out/x"])
def test_a_scope_outside_the_project_is_refused(tmp_path, path):
    (tmp_path / "out").symlink_to("/usr")
    with pytest.raises(UsageError, match="is outside the project"):
        resolve_scope(str(tmp_path), ["src", path])
