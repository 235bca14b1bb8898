"""Patterns match what git says they match."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.trees.patterns import Patterns, compile_patterns, split_lines

ENVIRON = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nonexistent",
}


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["git", "init", "-q", place], check=True, env=ENVIRON)
        yield Path(place)


def ignored_by_git(repository: Path, text: bytes, paths: list[bytes]) -> set[bytes]:
    """Which of the paths git ignores; a directory is written with a slash at the end."""
    (repository / ".git/info/exclude").write_bytes(text)
    done = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "-z", "--stdin", "--no-index"],
        input=b"\0".join(paths),
        capture_output=True,
        env=ENVIRON,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.split(b"\0")) - {b""}


def ignored_by_us(patterns: Patterns, path: bytes) -> bool:
    parts = path.rstrip(b"/").split(b"/")
    for count in range(1, len(parts) + 1):
        is_dir = count < len(parts) or path.endswith(b"/")
        if patterns.match(b"/".join(parts[:count]), is_dir):
            return True
    return False


ROWS = [
    (b"*.pyc", [b"a.pyc", b"x/a.pyc"], [b"a.py", b"a.pyc.txt"]),
    (b"/build", [b"build", b"build/x"], [b"x/build"]),
    (b"tests/", [b"tests/a", b"x/tests/"], [b"tests"]),
    (b"a/**/b", [b"a/b", b"a/x/b", b"a/x/y/b"], [b"a/xb", b"x/a/b"]),
    (b"**/b", [b"b", b"x/b"], [b"xb"]),
    (b"a/**", [b"a/x", b"a/x/y"], [b"a", b"b"]),
    (b"a**b", [b"ab", b"axxb"], [b"a/b"]),
    (b"*\n!keep", [b"x"], [b"keep"]),
    (b"d/\n!d/keep", [b"d/keep"], []),
    (b"a\\ ", [b"a "], [b"a"]),
    (b"a   ", [b"a"], [b"a "]),
    (b"\\#x\n#y", [b"#x"], [b"y", b"#y"]),
    (b"\\!x", [b"!x"], [b"x"]),
    (b"[a-c]x[!0-9]", [b"axz", b"x/bxq"], [b"dxz", b"ax1"]),
    (b"[]-]x", [b"]x", b"-x"], [b"ax"]),
    (b"[[:digit:]]", [b"7"], [b"a"]),
    (b"[a", [], [b"[a", b"a"]),
    (b"x\\", [], [b"x", b"x\\"]),
    (b"?\xff", [b"a\xff"], [b"\xff", b"ab"]),
    (b"\xef\xbb\xbfx\r\n", [b"x"], [b"x\r"]),
    (b"***/b", [b"b", b"x/b"], [b"xb"]),
    (b"/", [], [b"a"]),
]


@pytest.mark.parametrize(("text", "matching", "others"), ROWS, ids=[repr(row[0]) for row in ROWS])
def test_patterns_match_as_git_matches_them(repository, text, matching, others):
    patterns = compile_patterns([(b"", split_lines(text))])
    assert [path for path in matching if not ignored_by_us(patterns, path)] == []
    assert [path for path in others if ignored_by_us(patterns, path)] == []
    assert ignored_by_git(repository, text, matching + others) == set(matching)


SIGNS = st.sampled_from([b"a", b"b", b"*", b"**", b"?", b"/", b"[ab]", b"[!a]", b"\\", b"!", b" ", b"[", b"-", b"]", b"[[:alpha:]]", b"\xc3\xa9", b"#"])  # fmt: skip
# An empty path component means nothing; what git makes of one differs from version to version.
LINE = st.lists(SIGNS, max_size=6).map(b"".join).filter(lambda line: b"//" not in line)
LINES = st.lists(LINE, max_size=4)
PARTS = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"ba", b" ", b"[", b"\xc3\xa9", b"-", b"]", b"!a", b"#a"]),
    min_size=1,
    max_size=3,
)
PATHS = st.lists(PARTS.map(b"/".join), min_size=1)


@given(LINES, PATHS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_patterns_match_what_git_ignores(repository, lines, paths):
    text = b"\n".join(lines) + b"\n"
    patterns = compile_patterns([(b"", split_lines(text))])
    ours = {path for path in paths if ignored_by_us(patterns, path)}
    assert ours == ignored_by_git(repository, text, paths)


def test_a_deeper_group_outranks_an_upper_one_and_applies_below_its_base_only():
    patterns = compile_patterns([(b"", [b"*.log"]), (b"sub/", [b"!keep.log", b"/only"])])
    assert patterns.match(b"sub/a.log", False)
    assert not patterns.under(b"sub").match(b"sub/keep.log", False)
    assert patterns.under(b"sub").match(b"sub/only", False)
    assert patterns.under(b"other").match(b"other/keep.log", False)


def test_what_may_match_below_a_directory():
    anchored = compile_patterns([(b"", [b"/tests/unit/", b"src/*.py"])])
    found = [
        d for d in (b"", b"tests", b"tests/unit/x", b"src", b"docs") if anchored.may_match_below(d)
    ]
    assert found == [b"", b"tests", b"tests/unit/x", b"src"]
    assert compile_patterns([(b"", [b"tests/"])]).may_match_below(b"docs")
