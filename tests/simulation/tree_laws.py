"""The laws of a tree of runs, checked beside it by somebody who reads all the logs.

12. Nothing that is recorded runs again: a child whose end is recorded never gets another process,
    and one that has begun is continued, not replaced. Branches are joined once. A tree whose processes are killed goes the
    way it would have gone, with the same results in the same order.
13. What the ending of a child means is what the table in the manual says, and a run that pauses or
    ends because of a child has the child's status and reason.
14. No child outlives its parent: when a run says how it ended, nothing below it runs; a process
    that was asked to stop, or whose parent is gone, starts no action and ends.
15. Every agent turn is counted against every limit above it: no agent starts if a run at or above
    its own has used up its limit, and when a run ends, its cost is its own turns' and its children's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.ledger import FINAL, ContractBroken

if TYPE_CHECKING:
    from tests.simulation.tree_history import Run

ONCE, TABLE, ORPHANS, LIMITS = 12, 13, 14, 15
TREE_LAWS = (ONCE, TABLE, ORPHANS, LIMITS)
Record = Mapping[str, Any]
ENDED = ("pass", "fail", "error", "timeout", "stopped")

FAILS = (
    *("terminal", "max_iterations", "max_cost", "max_tokens", "stalled", "tampered", "flaky"),
    *("out_of_scope", "stale_evidence", "conflict", "rejected", "handoff"),
)
ERRORS = ("error", "timeout", "no_transition", "storage", "hook", "consent")
MOST_COMMANDS_AFTER_STOP = 12
ROUNDING_USD = 1e-6
"""Costs are kept to six digits, in the log of each run."""


def meaning(status: str, reason: str) -> str:
    """What the manual says the ending of a child means for the state that started it."""
    match status, reason:
        case "completed", _:
            return "pass"
        case "stopped", "stop_signal":
            return "fail"
        case "failed", "loop_timeout":
            return "timeout"
        case "failed", ("auth" | "billing"):
            return "paused"
        case "failed", _ if reason in FAILS:
            return "fail"
        case "failed", _ if reason in ERRORS:
            return "error"
        case "needs_review", "review":
            return "review"
        case ("needs_review", "budget") | ("awaiting_continuation", "handoff"):
            return "paused"
        case _:
            return f"unknown: {status}, {reason}"


class TreeLaws:
    """What somebody knows who reads every log of a tree of runs."""

    def __init__(self, laws: Collection[int] = TREE_LAWS) -> None:
        self.laws = laws
        self._joined: set[int] = set()  # runs whose branches have a verdict
        self._over: dict[int, set[str]] = {}  # the children whose end is recorded, by run
        self._planned: dict[int, Record] = {}  # the children of the current state, by run
        self._own_usd: dict[int, float] = {}  # what the agents of a run itself have used
        self._own_tokens: dict[int, int] = {}
        self._asked: dict[int, int] = {}  # commands since the run was asked to stop

    def hold(self, law: int, is_kept: bool, what: str) -> None:
        if not is_kept and law in self.laws:
            raise ContractBroken(law, what)

    # ── the logs ───────────────────────────────────────────────────────────────────────────────

    def record(self, run: Run, record: Record) -> None:
        name, key = record["event"], id(run)
        match name:
            case "children":
                self._over[key] = set()
                self._planned[key] = record
                self._joined.discard(key)
            case "join":
                self.hold(ONCE, key not in self._joined, f"{run.path} joins its branches again")
                self._joined.add(key)
            case "child_start":
                over = record["child"] in self._over.get(key, ())
                self.hold(ONCE, not over, f"{run.path}: {record['child']} had ended, and starts")
            case "child_end":
                self._child_end(run, record)
            case "cost" if record.get("child") is None:
                self._own_usd[key] = self._own_usd.get(key, 0.0) + record["cost_usd"]
                self._own_tokens[key] = self._own_tokens.get(key, 0) + record["tokens"]
            case _ if name in FINAL:
                self._final(run, record)
            case _:
                pass

    def _child_end(self, run: Run, record: Record) -> None:
        child, stage = record["child"], record["stage"]
        expected = self._expected(run, record)
        said = f"{run.path}/{child} ended as {record['status']}, {record['reason']}"
        self.hold(TABLE, stage == expected, f"{said}: {stage}, not {expected}")
        if stage in ENDED:
            self._over.setdefault(id(run), set()).add(child)

    def _expected(self, run: Run, record: Record) -> str:
        last = run.ending_of(record["child"])
        if run.is_joined:  # it is no longer needed, unless it has come to its end
            meant = "" if last is None else meaning(*last)
            return meant if meant in ENDED else "stopped"
        if last is None:  # killed
            second = run.crashes(record["child"]) > 1 and not run.is_halting
            return "error" if second else "interrupted"
        if last[0] == "interrupted":
            return "interrupted" if run.is_halting else "fail"
        return meaning(*last)

    def _final(self, run: Run, record: Record) -> None:
        alive = [each.path for each in run.below() if each.is_alive]
        self.hold(ORPHANS, not alive, f"{run.path} has ended, and {alive} have not")
        self._paused_like_child(run, record)
        usd, _tokens = self.used(run)
        counted = run.counted_usd()
        self.hold(
            LIMITS,
            abs(counted - usd) < ROUNDING_USD * (1 + sum(1 for _ in run.below())),
            f"{run.path} has ended and counts ${counted:g}; it and its children used ${usd:g}",
        )

    def _paused_like_child(self, run: Run, record: Record) -> None:
        paused = [
            ending
            for each in run.current_children()
            if (ending := each.ending()) is not None and meaning(*ending) in ("paused", "review")
        ]
        found = (record["status"], record["reason"])
        is_own = found[0] == "interrupted" or found[1] == "loop_timeout"
        if run.is_in_children and not is_own:
            self.hold(TABLE, found in paused, f"{run.path} ended as {found}, its children {paused}")

    # ── what the processes do ──────────────────────────────────────────────────────────────────

    def asked_to_stop(self, run: Run) -> None:
        self._asked.setdefault(id(run), 0)

    def process_begins(self, run: Run) -> None:
        self._asked.pop(id(run), None)
        above = run.parent
        self.hold(ORPHANS, above is None or above.is_alive, f"{run.path} begins without its parent")

    def command(self, run: Run) -> None:
        if id(run) in self._asked:
            self._asked[id(run)] += 1
            count = self._asked[id(run)]
            self.hold(ORPHANS, count <= MOST_COMMANDS_AFTER_STOP, f"{run.path} does not stop")

    def action_begins(self, run: Run) -> None:
        asked = id(run) in self._asked
        self.hold(ORPHANS, not asked, f"{run.path} was to stop, and starts an action")

    def agent_starts(self, run: Run, limited: Iterable[Run]) -> None:
        """An agent starts, or may start, under the limits of these runs."""
        for above in limited:
            usd, tokens = self.used(above)
            limit_usd, limit_tokens = above.limits()
            what = f"an agent of {run.path} starts; {above.path} has used"
            self.hold(
                LIMITS, limit_usd is None or usd < limit_usd, f"{what} ${usd:g} of ${limit_usd}"
            )
            self.hold(
                LIMITS,
                limit_tokens is None or tokens < limit_tokens,
                f"{what} {tokens} of {limit_tokens} tokens",
            )

    def used(self, run: Run) -> tuple[float, int]:
        """What a run and all below it have recorded."""
        runs = (run, *run.below())
        usd = sum(self._own_usd.get(id(each), 0.0) for each in runs)
        return usd, sum(self._own_tokens.get(id(each), 0) for each in runs)


def same_way(laws: TreeLaws, undisturbed: Sequence[Any], disturbed: Sequence[Any]) -> None:
    """The second half of the law that nothing recorded runs again."""
    laws.hold(ONCE, list(undisturbed) == list(disturbed), f"{disturbed}, not {undisturbed}")
