"""Undo: any tree, any edits since, kills anywhere; and a second undo brings everything back."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.errors import StoreError, UsageError
from little_loops.fsm.events import Tree as TreeTaken
from little_loops.runs.recordings import RecordedRun
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore
from little_loops.trees.undoing import Goal, Recorded, Undo, Undone
from tests.engine.recordings import collection
from tests.trees.drawn import DIRS, Dir, File, Node, clear, plant
from tests.trees.projects import Tree, fingerprint
from tests.trees.test_faults import every_kill
from tests.trees.test_laws import LAW
from tests.trees.test_laws import places as places

RUN = "run"


class Ran:
    """A run that changed `src`, and recorded a snapshot after each step."""

    def __init__(self, tree: Tree, store: TreeStore, rules: Rules, projects: list[str]) -> None:
        self.tree = tree
        self.rules = rules
        self.projects = projects
        self.store = store

    def undo(
        self, step: int | None = None, *, force: bool = False, confirm: bool = True, **more: bool
    ) -> Undone:
        recorded = Recorded("fix", RUN, 7, self.projects[-1], **more)
        undo = Undo(self.tree.store(create=False), self.rules, recorded)
        done = undo.carry_out(Goal(self.projects[step or 0], step), force=force)
        if confirm:
            undo.confirm()
        return done

    def files(self) -> dict[str, tuple[str, str]]:
        """All files, with permissions and content; directories do not count."""
        found = fingerprint(self.tree.root, skip=[".git"])
        return {path: one for path, one in found.items() if one[0][0] != "d"}


def ran(tree: Tree, steps: Sequence[Callable[[], object]], scope: Sequence[str] = ("src",)) -> Ran:
    store = tree.store()
    rules = store.rules(RUN, scope, ())
    projects = [store.snapshot(rules).project]
    for step in steps:
        step()
        projects.append(store.snapshot(rules).project)
    return Ran(tree, store, rules, projects)


def make(place: Path) -> Tree:
    tree = Tree(place)
    tree.write_all(
        {
            "src/a.py": "a = 1\n",
            "src/gone.py": "gone\n",
            "src/kept.py": "kept\n",
            "docs/d.md": "d\n",
            ".gitignore": "*.log\n__pycache__/\n",
        }
    )
    tree.commit()
    tree.write("src/untracked.txt", "u\n", 0o600)
    tree.write("src/x.log", "ignored\n")
    return tree


def work(tree: Tree) -> list[Callable[[], object]]:
    """Two steps: edits with a new package, then a swap of a file and a directory."""

    def first() -> None:
        tree.write("src/a.py", "a = 2\n", 0o755)
        tree.write("src/untracked.txt", "U\n", 0o644)
        tree.write("src/new/b.py", "b\n")
        tree.write("src/new/__pycache__/b.pyc", "compiled")
        os.unlink(tree.root / "src/gone.py")
        tree.write("docs/d.md", "outside\n")
        tree.write("src/x.log", "more\n")

    def second() -> None:
        os.unlink(tree.root / "src/a.py")
        tree.write("src/a.py/inner.py", "i\n")
        (tree.root / "src/link").symlink_to("a.py")

    return [first, second]


# ── stories ────────────────────────────────────────────────────────────────────────────────────


def test_the_files_are_as_before_the_run_and_then_again_as_they_were(place):
    tree = make(place)
    before = Ran(tree, tree.store(), tree.rules(tree.store()), []).files()
    run = ran(tree, work(tree))
    after = run.files()
    git = fingerprint(tree.top / ".git")
    done = run.undo()
    assert (done.doing, done.conflicts, done.failed) == ("undo", (), ())
    assert done.changes == {
        "src/a.py": "restored",
        "src/a.py/inner.py": "removed",
        "src/gone.py": "restored",
        "src/link": "removed",
        "src/new/b.py": "removed",
        "src/untracked.txt": "changed",
    }
    # What is ignored or out of the scope is as the run left it.
    left = {name: after[name] for name in ("src/x.log", "docs/d.md", "src/new/__pycache__/b.pyc")}
    assert run.files() == {**before, **left}
    again = run.undo()
    assert (again.doing, again.failed) == ("redo", ())
    assert run.files() == after
    assert run.undo().doing == "undo"
    assert run.files() == {**before, **left}
    assert fingerprint(tree.top / ".git") == git


def test_step_by_step_and_back(place):
    tree = make(place)
    run = ran(tree, work(tree))
    after = run.files()
    run.undo(1)
    at_one = run.files()
    assert run.store.snapshot(run.rules).project == run.projects[1]
    run.undo()
    assert run.undo().doing == "redo"
    assert run.files() == at_one
    assert run.undo(1).changes == {}
    run.undo(2)
    assert run.files() == after


def test_edits_since_are_refused_and_brought_back(place):
    tree = make(place)
    run = ran(tree, work(tree))
    tree.write("src/untracked.txt", "mine\n", 0o640)
    tree.write("src/kept.py", "mine, and the run never touched it\n")
    edited = run.files()
    with pytest.raises(UsageError) as caught:
        run.undo()
    assert caught.value.message == "1 file has changed since the run: src/untracked.txt"
    assert caught.value.help == (
        "`--dry-run` lists everything; `--force` replaces your changes, too, and running"
        " the same command again brings them back"
    )
    assert run.files() == edited
    done = run.undo(force=True)
    assert done.conflicts == ("src/untracked.txt",)
    assert run.files()["src/kept.py"] == edited["src/kept.py"]
    assert run.files()["src/untracked.txt"][0] == "-rw-------"
    run.undo()
    assert run.files() == edited
    with pytest.raises(UsageError, match="1 file has changed since"):
        run.undo()


def test_edits_after_an_undo_are_refused_and_brought_back(place):
    tree = make(place)
    run = ran(tree, work(tree))
    run.undo()
    tree.write("src/gone.py", "mine\n")
    tree.write("src/new/mine.py", "mine\n")
    edited = run.files()
    with pytest.raises(UsageError, match=r"1 file has changed since the run: src/gone\.py"):
        run.undo()
    run.undo(force=True)
    assert "src/gone.py" not in run.files()
    assert run.undo().doing == "redo"
    assert run.files() == edited


def test_a_file_in_the_way_is_a_conflict(place):
    tree = make(place)
    run = ran(tree, work(tree))
    tree.write("src/a.py/mine.py", "mine\n")
    edited = run.files()
    with pytest.raises(UsageError, match=r"src/a\.py/mine\.py"):
        run.undo()
    run.undo(force=True)
    assert "src/a.py/mine.py" not in run.files()
    run.undo()
    assert run.files() == edited


def test_an_ignored_file_in_the_way_stays_and_is_named(place):
    tree = make(place)
    run = ran(tree, work(tree))
    tree.write("src/a.py/mine.log", "ignored\n")
    done = run.undo()
    assert done.failed == ("src/a.py: a directory with other content already exists there",)
    assert "src/a.py" not in done.changes
    assert (tree.root / "src/a.py/mine.log").read_text() == "ignored\n"
    assert (tree.root / "src/gone.py").exists()
    assert run.undo().failed == ()
    assert (tree.root / "src/a.py/inner.py").exists()


def test_what_a_killed_action_may_have_changed_is_a_conflict(place):
    tree = make(place)
    run = ran(tree, work(tree))
    tree.write("src/kept.py", "half done\n")
    with pytest.raises(UsageError, match=r"src/kept\.py"):
        run.undo(is_complete=False)
    run.undo(force=True, is_complete=False)
    assert (tree.root / "src/kept.py").read_text() == "kept\n"


def test_another_goal_waits_until_an_interrupted_undo_is_finished(place):
    tree = make(place)
    run = ran(tree, work(tree))
    after = run.files()
    run.undo(1, confirm=False)
    with pytest.raises(UsageError) as caught:
        run.undo()
    assert caught.value.message == "an earlier `undo` of this run was interrupted"
    assert caught.value.help == "`ll-loop undo fix --to 1` finishes it"
    assert run.undo(1).doing == "finish"
    run.undo(1)
    assert run.files() == after


def test_edits_beside_an_interrupted_undo_are_kept(place):
    tree = make(place)
    run = ran(tree, work(tree))
    run.undo(confirm=False)
    tree.write("src/gone.py", "mine\n")
    edited = run.files()
    with pytest.raises(UsageError, match=r"src/gone\.py"):
        run.undo()
    assert run.undo(force=True).doing == "finish"
    run.undo()
    assert (tree.root / "src/gone.py").read_text() == "mine\n"
    assert run.files() != edited  # the rest is as the run left it


def test_a_damaged_record_is_named(place):
    tree = make(place)
    run = ran(tree, work(tree))
    run.undo()
    path = Path(run.store.files.place("undos", RUN))
    path.write_text('{"seq": 7}')
    with pytest.raises(StoreError, match="which records the last undo, is damaged"):
        run.undo()
    path.write_text(
        '{"seq": 3, "step": null, "files": {}, "left": {}, "under": {}, "can_undo": true, "is_done": true}'
    )
    assert run.undo().changes == {}  # the run was resumed since: nothing of that counts


def test_a_pruned_run_takes_its_record_along(place):
    tree = make(place)
    run = ran(tree, work(tree))
    run.undo()
    assert run.store.prune(0, tuple) == (RUN,)
    assert os.listdir(run.store.files.place("undos")) == []


# ── laws ───────────────────────────────────────────────────────────────────────────────────────


def accessible(node: Node) -> Node:
    """The same tree, with permissions that let its owner change it."""
    match node:
        case Dir():
            entries = {name: accessible(below) for name, below in node.entries.items()}
            return Dir(entries, 0o755)
        case File(mode=0):
            return node._replace(mode=0o600)
        case _:
            return node


TREES = DIRS.map(accessible)


@LAW
@given(steps=st.lists(TREES, min_size=1, max_size=3), since=TREES | st.none(), outside=TREES)
def test_undo_gives_exactly_each_recorded_tree_and_twice_is_the_identity(
    places, steps, since, outside
):
    tree = Tree(next(places))
    tree.write("src/ignored.log", "ignored")
    tree.write(".gitignore", "*.log\n")
    plant(tree.root / "other", outside)
    git = fingerprint(tree.top / ".git")
    plant(tree.root / "src/d", steps[0])
    run = ran(tree, [partial(plant, tree.root / "src/d", one) for one in steps[1:]])
    if since is not None:
        plant(tree.root / "src/d", since)
    now = run.files()
    for step in range(len(run.projects)):
        done = run.undo(step, force=True)
        assert done.failed == ()
        if since is None:
            assert run.store.snapshot(run.rules).project == run.projects[step]
        touched = set(done.changes)
        rest = {path: one for path, one in now.items() if path not in touched}
        assert rest.items() <= run.files().items()
        again = run.undo(step)
        assert (again.conflicts, again.failed) == ((), ())
        assert run.files() == now
    assert fingerprint(tree.top / ".git") == git
    clear(tree.root / "src")


# ── recorded runs ──────────────────────────────────────────────────────────────────────────────

WITH_TREES = collection().with_trees()
SAMPLED = 8


def again_on_files(tree: Tree, number: int, path: str) -> None:
    """Change a file: written, as a program, empty and private, or removed if it is there."""
    target = tree.root / path
    if zlib.crc32(path.encode()) % 4 == number % 4 and target.exists():
        target.unlink()
    else:
        tree.write(path, f"{number}\n" * (number % 3), (0o644, 0o755, 0o600)[number % 3])


def as_recorded(place: Path, run: RecordedRun) -> Ran:
    """A project in which the files change when they changed in a recorded run; some of them are
    tracked, and some are there before the run."""
    events = [entry.event for entry in run.entries if isinstance(entry.event, TreeTaken)]
    paths = list(dict.fromkeys(path for event in events for path in event.changed.paths))
    tree = Tree(place)
    tree.write(".gitignore", "*.log\n")
    for path in paths[::3]:
        tree.write(path, "tracked\n")
    tree.commit()
    for path in paths[1::3]:
        tree.write(path, "untracked\n", 0o640)

    def step(number: int, event: TreeTaken) -> None:
        for path in event.changed.paths:
            again_on_files(tree, number, path)

    changing = [event for event in events if event.changed.paths]
    return ran(tree, [partial(step, *each) for each in enumerate(changing)], scope=(".",))


def undone_to_every_step(place: Path, name: str) -> int:
    """Undo a recorded run to the start and to each of its snapshots, each time there and back."""
    run = as_recorded(place, collection()[name])
    now, git = run.files(), fingerprint(run.tree.top / ".git")
    for step, project in enumerate(run.projects):
        assert run.undo(step).failed == ()
        assert run.store.snapshot(run.rules).project == project
        assert run.undo(step).failed == ()
        assert run.files() == now, step
    assert fingerprint(run.tree.top / ".git") == git
    return len(run.projects)


@pytest.mark.parametrize("name", WITH_TREES[::SAMPLED])
def test_undo_of_a_recorded_run_twice_is_the_identity(place, name):
    undone_to_every_step(place, name)


@pytest.mark.soak
@pytest.mark.parametrize("name", WITH_TREES)
def test_undo_of_every_recorded_run_twice_is_the_identity(place, name, record_property):
    count = undone_to_every_step(place, name)
    record_property("figure: snapshots of recorded runs, undone and redone", count)


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


def undoing(place: Path) -> tuple[Callable[[], object], Callable[[], None]]:
    tree = make(place)
    run = ran(tree, work(tree))
    after = run.files()
    wanted = run.projects[0]
    outside = {path: one for path, one in after.items() if not path.startswith("src/")}

    def finish() -> None:
        if not _is_done(run):
            assert run.undo().failed == ()
        tree.write("docs/d.md", "d\n")  # out of the scope: left to the user
        assert run.store.snapshot(run.rules).project == wanted
        assert not [path for path in run.files() if ".ll-restore" in path]
        tree.write("docs/d.md", "outside\n")
        run.undo()
        assert run.files() == after
        assert outside.items() <= run.files().items()

    return run.undo, finish


def redoing(place: Path) -> tuple[Callable[[], object], Callable[[], None]]:
    tree = make(place)
    run = ran(tree, work(tree))
    after = run.files()
    run.undo()
    before = run.files()

    def finish() -> None:
        if run.files() != after or not _is_done(run):
            run.undo()
        assert run.files() == after
        run.undo()
        assert run.files() == before

    return run.undo, finish


def _is_done(run: Ran) -> bool:
    path = Path(run.store.files.place("undos", RUN))
    return path.exists() and '"is_done":true' in path.read_text()


WORKS = {"undo": undoing, "redo": redoing}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_an_operation_and_done_again(place, work, record_property):
    reached = every_kill(work, place, each=7)
    record_property("figure: kills of an undo", reached)
    assert reached > 2


@pytest.mark.soak
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_every_operation_and_done_again(place, work, record_property):
    reached = every_kill(work, place, each=1)
    record_property("figure: kills of an undo, every operation", reached)
    assert reached > 20
