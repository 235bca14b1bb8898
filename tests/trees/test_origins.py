"""What git ignores is yours if you made it between runs, and never if a run could have made it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.errors import StoreError
from little_loops.trees import origins
from little_loops.trees.origins import LINKED, Made, Origins
from little_loops.trees.rules import IgnoredFile, Rules
from tests.trees.projects import Tree

PATHS = ("a", "b")
ACTS = st.one_of(
    st.tuples(st.sampled_from(["you", "run"]), st.sampled_from(PATHS), st.booleans()),
    st.tuples(st.sampled_from(["end", "kill"]), st.just(""), st.just(True)),
)


class Project:
    """Ignored files with the time of their last change, and who made it."""

    def __init__(self) -> None:
        self.now = 1
        self.files: dict[str, tuple[Made, int]] = {}
        self.yours: set[tuple[str, Made]] = set()
        self.is_clear: dict[str, bool] = {}
        self.record = Origins()
        self.runs = 0

    def write(self, path: str, *, by_you: bool, stays: bool) -> None:
        """Write a file, or remove it unless it `stays`."""
        self.now += 1
        self.is_clear[path] = by_you
        if not stays:
            self.files.pop(path, None)
            return
        made = (0o644, f"{self.now:040x}")
        self.files[path] = (made, self.now)
        if by_you:
            self.yours.add((path, made))

    def found(self) -> dict[str, Made]:
        return {path: made for path, (made, _) in self.files.items()}

    def begin(self) -> dict[str, Made | None]:
        self.runs += 1
        self.record = origins.begin(
            self.record,
            self.found(),
            f"run-{self.runs}",
            (),
            lambda path, since: self.files[path][1] > since,
        )
        return dict(self.record.paths)

    def end(self) -> None:
        self.now += 1
        self.record = origins.end(self.record, self.found(), f"run-{self.runs}", self.now)


@given(st.lists(ACTS, max_size=12))
def test_only_what_you_made_is_yours_and_all_that_you_made_between_runs(acts):
    project = Project()
    project.write("a", by_you=True, stays=True)
    works = was_killed = False
    for who, path, stays in acts:
        if who == "you" and not works:
            project.write(path, by_you=True, stays=stays)
        elif who == "run" and works:
            project.write(path, by_you=False, stays=stays)
        elif works and who in ("end", "kill"):
            was_killed = who == "kill"
            works = False
            if who == "end":
                project.end()
        elif not works and who == "end":
            for each, made in project.begin().items():
                assert made is None or (each, made) in project.yours
                if was_killed:  # nobody knows any more who made what differs
                    project.is_clear[each] = made == project.files[each][0]
                elif project.is_clear[each]:
                    assert made == project.files[each][0]
            works = True


@pytest.mark.parametrize(
    ("here", "yours", "kept"),
    [
        pytest.param((0o644, "aa"), (0o644, "aa"), (0o644, "aa"), id="a file that is yours"),
        pytest.param((0o644, "bb"), (0o644, "aa"), (0o644, "aa"), id="a file that a run changed"),
        pytest.param((0o644, "bb"), (0o644, "gone"), (0o644, "bb"), id="yours is not stored"),
        pytest.param((0o644, "bb"), None, None, id="a file that a run made"),
        pytest.param((0o644, "bb"), LINKED, None, id="a run put a file in place of a directory"),
        pytest.param(LINKED, (0o644, "aa"), None, id="a run put a directory in place of a file"),
        pytest.param(LINKED, LINKED, LINKED, id="a directory that is yours"),
        pytest.param(LINKED, None, None, id="a directory that a run made"),
    ],
)
def test_the_copy_has_what_is_yours(here, yours, kept):
    files = () if here == LINKED else (IgnoredFile("x", *here),)
    linked = ("x",) if here == LINKED else ()
    rules = Rules("r", "/p", (".",), (), files=files, linked=linked)
    found = origins.yours_only(rules, Origins(paths={"x": yours}), lambda id: id != "gone")
    assert found.not_yours == (("x",) if kept != here else ())
    assert found.files == ((IgnoredFile("x", *kept),) if kept not in (None, LINKED) else ())
    assert found.linked == linked


@pytest.mark.parametrize("alive", [(), ("one",), ("other",)])
def test_a_run_that_was_killed_no_longer_counts_when_the_next_one_has_begun(alive):
    before = Origins(frozenset({"one"}))
    begun = origins.begin(before, {}, "two", alive, lambda path, since: True)
    assert begun.working == {"two", *({"one"} if alive == ("one",) else ())}


def test_a_directory_is_made_again_only_if_all_its_files_are_new(tmp_path):
    tree = Tree(tmp_path)
    tree.write("made/deep/old")
    (tree.root / "empty").mkdir()
    (tree.root / "link").symlink_to("empty")
    later = time.time_ns() + 3600 * 10**9
    changed = {
        path: [origins.changed_since(str(tree.root), path, since) for since in (0, later)]
        for path in ("made", "made/deep/old", "link", "empty", "gone")
    }
    assert changed == {
        "made": [True, False],
        "made/deep/old": [True, False],
        "link": [True, False],  # it is not followed
        "empty": [True, True],
        "gone": [True, False],
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"a.py": "", ".gitignore": "ignored\nbuild/\n.env\n"})
    made.commit()
    return made


def test_the_end_of_a_run_reads_no_content_and_a_damaged_record_is_an_error(tree):
    tree.write("ignored", "one")
    store = tree.store()
    rules = tree.rules(store)
    assert store.begin_work(rules, ()) == rules
    tree.write("ignored", "two")
    store.end_work(rules.run)
    again = store.begin_work(tree.rules(store), ())
    assert (again.files, again.not_yours) == (rules.files, ("ignored",))
    record = Path(store.files.place(origins.NAME))
    assert json.loads(record.read_text())["working"] == [rules.run]
    for damage in ("[]", "{}", "x", '{"paths": {"a": [1]}, "working": [], "ended_ns": 1}'):
        record.write_text(damage)
        with pytest.raises(StoreError, match=r"origins\.json` is damaged"):
            store.begin_work(rules, ())


def test_what_a_rule_hides_that_is_newer_than_the_run_is_found(tree):
    store = tree.store()
    rules = tree.rules(store)
    tree.write_all({"src/new.py": "", "src/.gitignore": "*\n", "other.py": ""})
    (tree.root / "src/link").symlink_to("new.py")
    taken = store.snapshot(rules)
    ignored = store.ignored_now(rules, taken.project)
    assert ignored.cover(b"src/new.py")
    assert not ignored.cover(b"other.py")
