"""The laws of a tree of runs (`tree_laws`), tried on histories generated from numbers.

In any history of kills of any process, stops, timeouts, gates, handoffs and resumes nothing that is
recorded runs again; what a child's ending leads to is what the manual's table says; no child
outlives its parent; and every agent turn counts against every limit above it.

A failing seed is played again with `pytest tests/simulation/test_trees_of_loops.py --seed N`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from little_loops.fsm.joins import OUTCOME_OF_ENDING
from tests.simulation.ledger import ContractBroken
from tests.simulation.tree_history import ACCIDENTS, Run, TreeFigures, play_tree
from tests.simulation.tree_laws import TREE_LAWS, TreeLaws, meaning, same_way

pytestmark = pytest.mark.untraced  # the pure modules have rows of their own

SEEDS = 60
MANY_SEEDS = 2_000
AT_ONCE = 15
EVERYTHING = (3, 61, 62, 167)
"""Histories in which, together, everything happens."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--seed", default=None)
    if "seeds" in metafunc.fixturenames:
        rows = [range(first, first + AT_ONCE) for first in range(0, SEEDS, AT_ONCE)]
        rows = rows if chosen is None else [range(chosen, chosen + 1)]
        metafunc.parametrize("seeds", rows, ids=lambda row: f"{row[0]}-{row[-1]}")


def play_all(
    seeds: Sequence[int],
    memory: str,
    record_property: Callable[..., None],
    *,
    is_wide: bool = False,
) -> Counter[str]:
    total, actors = TreeFigures(), Counter[str]()
    for seed in seeds:
        try:
            played = play_tree(seed, memory, actors=actors, is_wide=is_wide)
        except ContractBroken as broken:
            broken.add_note(f"seed {seed}: pytest {__name__.replace('.', '/')}.py --seed {seed}")
            raise
        total = TreeFigures(*map(sum, zip(total, played, strict=True)))
    record_property("figure: histories of trees of loops", len(seeds))
    for name, value in total._asdict().items():
        record_property(f"figure: {name} in those", value)
    return actors


def test_a_tree_of_runs_obeys_the_laws(seeds, memory, record_property):
    play_all(seeds, memory, record_property)


def test_a_tree_with_branches_obeys_the_laws(seeds, memory, record_property):
    play_all(seeds, memory, record_property, is_wide=True)


def test_trees_with_branches_that_once_broke_a_law_obey_it(memory, record_property):
    """What a branch had used was forgotten between its end and the record of that (253); what was
    lost with a killed branch was unknown to the others (217, 292); a branch that was killed before
    it recorded anything counted as stopped by somebody (276, 450); the turn of a killed agent cost
    more by its own log than by the shares of the limits above (206, 356, 494, 1159, 1589); an agent
    that handed off when its time was up continued beyond its limit (154, 1868); `resume --from` the
    same state used the results of the earlier branches (1025, 1222); a run paused like a branch that
    had continued since (2173); a branch that was killed right after the answer to its gate paused
    there again (2256)."""
    seeds = (206, 217, 253, 276, 292, 310, 356, 368, 450, 494)
    later = (154, 1025, 1222, 1868, 2173, 2256)
    play_all((*seeds, *later), memory, record_property, is_wide=True)


@pytest.mark.soak
@pytest.mark.parametrize("is_wide", [False, True], ids=["loops", "branches"])
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MANY_SEEDS, 200))
def test_many_trees_of_runs_obey_the_laws(first, is_wide, memory, record_property):
    play_all(range(first, first + 200), memory, record_property, is_wide=is_wide)


def test_trees_that_once_broke_a_law_obey_it(memory, record_property):
    """What a child had used was forgotten when its parent was killed and went elsewhere (22, 35);
    a child that was started again lost what the one before had used (46, 163); so did one whose
    parent was killed alone (85), or that was killed alone (118); a run continued while the children
    of a killed one were still at work (1, 124); a gate had to be answered again after a kill (87)."""
    play_all((1, 22, 35, 46, 85, 87, 118, 124, 163), memory, record_property)


def test_a_seed_is_one_history(memory):
    assert play_tree(7, f"{memory}/a") == play_tree(7, f"{memory}/b")


ELSEWHERE = {
    *("needs_review, budget", "failed, hook", "failed, consent"),
    *(
        "failed, storage",
        "failed, conflict",
        "failed, stalled",
        "failed, flaky",
        "failed, stale_evidence",
    ),
}
"""Endings that take more of a plan than chance has; `tests/fsm/test_children.py` has them all."""


def test_everything_that_can_happen_to_a_tree_happens_in_some_history(memory, record_property):
    actors = play_all(EVERYTHING, memory, record_property)
    wanted = {
        *ACCIDENTS,
        *("child starts", "child continues", "approve a child", "reject a child", "agents"),
        *("children", "child_start", "child_end", "children_stop"),
        *("child_end: interrupted, crash", "child_end: error, crash"),
        "child_end: fail, stopped",
        *(f"child: {status}, {reason}" for status, reason in OUTCOME_OF_ENDING),
    }
    missing = {each.removeprefix("child: ") for each in wanted if not actors[each]}
    assert sorted(missing) == sorted(ELSEWHERE)


def test_the_table_of_the_laws_is_that_of_the_machine():
    """The one here was written down from the manual."""
    means = {"fatal": "paused"}
    for (status, reason), stage in OUTCOME_OF_ENDING.items():
        if stage != "interrupted":
            assert meaning(status, reason) == means.get(stage, stage)


# ── a law that cannot be broken says nothing ───────────────────────────────────────────────────


class Seen:
    """A run as the laws see it."""

    def __init__(self, path: str, parent: Seen | None = None, **known: Any) -> None:
        self.path, self.parent = path, parent
        self.kids: list[Seen] = []
        self.is_alive = known.get("is_alive", True)
        self.is_halting = known.get("is_halting", False)
        self.is_joined = known.get("is_joined", False)
        self.is_in_children = known.get("is_in_children", False)
        self._ending = known.get("ending")
        self._crashes: int = known.get("crashes", 0)
        self._limits: tuple[float | None, int | None] = known.get("limits", (None, None))
        self._counted: float = known.get("counted", 0.0)
        if parent is not None:
            parent.kids.append(self)

    def above(self) -> list[Seen]:
        return [] if self.parent is None else [self.parent, *self.parent.above()]

    def below(self) -> list[Seen]:
        return [each for kid in self.kids for each in (kid, *kid.below())]

    def current_children(self) -> list[Seen]:
        return self.kids

    def ending(self) -> tuple[str, str] | None:
        return self._ending

    def ending_of(self, name: str) -> tuple[str, str] | None:
        return self.kids[0].ending()

    def crashes(self, name: str) -> int:
        return self.kids[0]._crashes

    def counted_usd(self) -> float:
        return self._counted

    def limits(self) -> tuple[float | None, int | None]:
        return self._limits


Entry = Callable[[TreeLaws, Seen], None]


def records(*given: dict[str, Any], by: str = "root") -> Entry:
    def tell(laws: TreeLaws, root: Seen) -> None:
        run = root if by == "root" else root.kids[0]
        for each in given:
            laws.record(cast(Run, run), each)

    return tell


def of_kid(what: str) -> Entry:
    return lambda laws, root: getattr(laws, what)(root.kids[0])


def agent_starts(laws: TreeLaws, root: Seen) -> None:
    laws.agent_starts(cast(Run, root.kids[0]), cast(Any, (root.kids[0], root)))


def many(what: str) -> Entry:
    def do(laws: TreeLaws, root: Seen) -> None:
        for _ in range(13):
            getattr(laws, what)(root.kids[0])

    return do


def goes_another_way(laws: TreeLaws, root: Seen) -> None:
    same_way(laws, ["a -> b"], ["a -> b", "a -> b"])


PLANNED = {"event": "children", "step": 1, "attempt": 1}
JOINED = {"event": "join", "verdict": "pass"}
STARTS = {"event": "child_start", "child": "kid"}
FAILED = {"event": "child_end", "child": "kid", "stage": "fail", "status": "x", "reason": "x"}
PASSED = {**FAILED, "stage": "pass"}
INTERRUPTED = {**FAILED, "stage": "interrupted"}
COST = {"event": "cost", "cost_usd": 0.5, "tokens": 7}
LAST = {"event": "loop_error", "status": "failed", "reason": "error"}
DONE = ("completed", "terminal")
ENDS_BADLY = ("failed", "terminal")


@pytest.mark.parametrize(
    ("law", "kid", "root", "entries"),
    [
        pytest.param(
            12,
            {"ending": ENDS_BADLY},
            {},
            [records(PLANNED, STARTS, FAILED), records(STARTS)],
            id="started after its end",
        ),
        pytest.param(12, {}, {}, [records(PLANNED, JOINED), records(JOINED)], id="joined twice"),
        pytest.param(12, {}, {}, [goes_another_way], id="an action that was recorded runs again"),
        pytest.param(
            13, {"ending": DONE}, {}, [records(FAILED)], id="a completed child that failed"
        ),
        pytest.param(13, {"ending": ENDS_BADLY}, {}, [records(PASSED)], id="a failed one passed"),
        pytest.param(
            13, {}, {"is_joined": True}, [records(INTERRUPTED)], id="needed after the verdict"
        ),
        pytest.param(
            13, {"crashes": 2}, {}, [records(INTERRUPTED)], id="continued after a second crash"
        ),
        pytest.param(13, {"crashes": 1}, {}, [records(FAILED)], id="failed after its first crash"),
        pytest.param(
            13,
            {"ending": ("interrupted", "signal")},
            {"is_halting": True},
            [records(FAILED)],
            id="failed when its parent stopped it",
        ),
        pytest.param(
            13,
            {"ending": ("needs_review", "review"), "is_alive": False},
            {"is_in_children": True},
            [records(LAST)],
            id="the parent ends in another way than its paused child",
        ),
        pytest.param(14, {}, {}, [records(LAST)], id="a child that is alive after its parent"),
        pytest.param(
            14, {}, {"is_alive": False}, [of_kid("process_begins")], id="a child without a parent"
        ),
        pytest.param(14, {}, {}, [of_kid("asked_to_stop"), of_kid("action_begins")], id="works on"),
        pytest.param(14, {}, {}, [of_kid("asked_to_stop"), many("command")], id="does not stop"),
        pytest.param(
            15,
            {},
            {"limits": (0.5, None)},
            [records(COST, by="kid"), agent_starts],
            id="no money left above",
        ),
        pytest.param(
            15,
            {},
            {"limits": (None, 7)},
            [records(COST, by="kid"), agent_starts],
            id="no tokens left above",
        ),
        pytest.param(
            15,
            {"is_alive": False},
            {"counted": 0.1},
            [records(COST, by="kid"), records(LAST)],
            id="a parent that does not count its child",
        ),
    ],
)
def test_what_breaks_a_law_of_trees(law, kid, root, entries):
    def tree() -> Seen:
        top = Seen("root", **root)
        Seen("root/1.0/kid", top, **kid)
        return top

    *before, last = entries
    laws, seen = TreeLaws(), tree()
    for entry in before:
        entry(laws, seen)
    with pytest.raises(ContractBroken) as found:
        last(laws, seen)
    assert found.value.law == law
    # By the other laws alone there is nothing to say against it.
    laws, seen = TreeLaws([each for each in TREE_LAWS if each != law]), tree()
    for entry in entries:
        entry(laws, seen)
