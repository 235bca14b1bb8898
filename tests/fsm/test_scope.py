"""When two scopes overlap."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.scope import contains, normalise, overlaps

parts = st.sampled_from(["a", "b", "ab", "a.b", "..", ".", ""])
paths = st.lists(parts, max_size=6).map("/".join)
absolute = paths.map(lambda path: "/" + path.lstrip("/"))
scopes = st.lists(absolute, max_size=4)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param("src/", "tests/", False, id="beside each other"),
        pytest.param("src/api/", "src/api/handlers/", True, id="above"),
        pytest.param("src/", "src/api/", True, id="above, one level"),
        pytest.param(".", "anything/at/all", True, id="the whole project"),
        pytest.param("src/api", "src/api2", False, id="a longer name is another directory"),
        pytest.param("src/api", "src/api", True, id="the same"),
        pytest.param("src//api/", "src/./x/../api", True, id="the same, written otherwise"),
        pytest.param("/", "/home/me", True, id="the root is above everything"),
        pytest.param("/home/me/a", "/home/me/b", False, id="absolute, beside each other"),
    ],
)
def test_two_paths(a: str, b: str, expected: bool) -> None:
    assert overlaps([a], [b]) is expected
    assert overlaps([b], [a]) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(["src/a", "src/b"], ["src/c", "src/b/x"], True, id="one pair is enough"),
        pytest.param(["src/a", "src/b"], ["src/c", "src/d"], False, id="no pair"),
        pytest.param([], ["src"], False, id="nothing overlaps nothing"),
    ],
)
def test_scopes_of_several_paths(a: list[str], b: list[str], expected: bool) -> None:
    assert overlaps(a, b) is expected


def test_one_path_contains_another_only_downwards() -> None:
    assert contains("src", "src/api")
    assert not contains("src/api", "src")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/", "src"),
        ("./src//api/.", "src/api"),
        ("src/../tests", "tests"),
        ("", "."),
        ("..", ".."),
        ("../../x", "../../x"),
        ("/", "/"),
        ("/..", "/"),
        ("/a/../..", "/"),
    ],
)
def test_normalise(path: str, expected: str) -> None:
    assert normalise(path) == expected


@given(paths.map(lambda path: path.lstrip("/")))
def test_a_relative_path_is_normalised_as_the_standard_library_does(path: str) -> None:
    assert normalise(path) == posixpath.normpath(path)


@given(absolute)
def test_normalising_twice_changes_nothing(path: str) -> None:
    assert normalise(normalise(path)) == normalise(path) == posixpath.normpath(path)


@given(scopes, scopes)
def test_overlap_is_symmetric(a: list[str], b: list[str]) -> None:
    assert overlaps(a, b) == overlaps(b, a)


@given(paths)
def test_the_whole_project_overlaps_everything(path: str) -> None:
    assert overlaps(["."], [path])


@given(absolute, absolute)
def test_two_paths_overlap_when_one_is_among_the_parents_of_the_other(a: str, b: str) -> None:
    assert overlaps([a], [b]) == (_is_above(a, b) or _is_above(b, a))


def _is_above(upper: str, lower: str) -> bool:
    above, below = (
        [part for part in posixpath.normpath(path).split("/") if part] for path in (upper, lower)
    )
    return below[: len(above)] == above
