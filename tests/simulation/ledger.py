"""The laws of money and liveness, kept as a book beside a run.

The book knows only what an onlooker sees: which agents and sessions were started and when, what
each of them really used, how long the run waited, and the lines of its log.  It knows nothing of
the engine's own counters, and raises `Broken` at the first entry that breaks a law:

1. Every resume runs an action, waits visibly or ends; it never only starts another session.
2. Every session that is started to continue a run is counted before it starts, and no history
   without an end of an action starts more than `max_continuations` of them.
3. Starts are spaced: after a usage limit by at least a second, growing; after a quick handoff too.
   With a fallback, the next agent starts at once, but no agent twice without a wait between.
4. Every start of an agent is paid for: no agent starts beyond a limit, and what a turn used is on
   the account before the next one starts, also if the turn was cut, lost or only spawned.
5. No wait lasts longer than it announced, whatever happens to the wall clock.
6. Every action in the log has an end before the next one starts or the run says how it ended.
7. No process runs for ever, and none ends by a bug.
8. Every prefix of every log is a place to continue from: a process that is cut between two actions
   and resumed goes the way it would have gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import wall_ms_of

Record = Mapping[str, Any]
QUICK_MS = 10_000
LONGEST_SPACING_MS = 60_000
LONGEST_HOST_WAIT_MS = 600_000
MOST_COMMANDS = 3_000
LAWS = range(1, 9)
BUDGETS = ("max_cost_usd", "max_tokens")
FINAL = (
    "loop_complete",
    "loop_error",
    "loop_timeout",
    "loop_paused",
    "loop_interrupted",
    "handoff",
)


class ContractBroken(AssertionError):
    """A law that did not hold."""

    def __init__(self, law: int, what: str) -> None:
        super().__init__(f"law {law}: {what}")
        self.law = law


class Ledger:
    """What an onlooker knows of one run."""

    def __init__(self, loop: FSMLoop, laws: Collection[int] = LAWS) -> None:
        self.loop = loop
        self.laws = laws
        self.agents = 0
        self.sessions = 0
        self.waited_ms = 0
        self._in_a_row = 0  # sessions since the last end of an action
        self._given: int | None = None  # `--max-continuations`
        self._budget: dict[str, float] = {}  # `--max-cost` and `--max-tokens`
        self._allowed = loop.max_continuations
        self._handoffs = 0  # since the last end of an action
        self._unanswered = False  # the last handoff is not in the log yet
        self._quick_before = 0  # without that handoff
        self._quick = 0
        self._limits = 0  # usage limits reported since the last end of an action
        self._gap: tuple[int, int] | None = None  # since when, and how much at least
        self._owes = ""  # whose use is not on the account yet
        self._has_used = False  # whether the last turn used anything
        self._paid = 0  # how often something was put on the account since
        self._continues = False  # the next agent is a session started to continue
        self._refused: set[str] = set()  # agents that could not take a turn since the last wait
        self._open_action = False
        self._has_children = False
        self._kept_children = False
        self._resumes_there = False  # where the run stopped
        self._commands = 0
        self._did_something = False
        self._until_ran_ms = 0  # the end of the wait for a host, by the clock of the run

    def hold(self, law: int, is_kept: bool, what: str) -> None:
        if not is_kept and law in self.laws:
            raise ContractBroken(law, what)

    def redefine(self, loop: FSMLoop) -> None:
        self._allowed = self._given or loop.max_continuations
        self.loop = loop

    # ── processes ──────────────────────────────────────────────────────────────────────────────

    def process_begins(self, *, resumed: bool) -> None:
        self._commands = 0
        self._did_something = not resumed
        self._continues = False

    def command(self) -> None:
        self._commands += 1
        self.hold(7, self._commands <= MOST_COMMANDS, "a process that does not come to its end")

    def process_ends(self, *, spawns: bool) -> None:
        """It has said how the run ended."""
        is_useful = self._did_something or not spawns
        self.hold(1, is_useful, "a resume that only started another session")
        self.hold(6, not self._open_action, "an action without an end")
        self.hold(4, not self._owes, f"nobody paid for {self._owes}")

    # ── agents and sessions ────────────────────────────────────────────────────────────────────

    def action_starts(self) -> None:
        self._did_something = True

    def agent_starts(self, run: LoopState, ran_ms: int) -> None:
        self.agents += 1
        self.hold(4, not self._owes, f"an agent starts, and nobody paid for {self._owes}")
        self._check_budget(run)
        self._check_gap(ran_ms)
        if self._continues:
            self._session_starts()

    def session_spawned(self, ran_ms: int) -> None:
        self.sessions += 1
        self.hold(4, self._paid > int(self._has_used), "nobody paid for a spawned session")
        self._check_gap(ran_ms)
        self._session_starts()

    def _session_starts(self) -> None:
        self._in_a_row += 1
        self._continues = False
        self.hold(
            2, self._in_a_row <= self._handoffs, "a session without a handoff that asks for it"
        )
        self.hold(
            2,
            self._in_a_row <= self._allowed,
            f"{self._in_a_row} sessions in a row, {self._allowed} are allowed",
        )

    def _check_budget(self, run: LoopState) -> None:
        cost = sum(receipt.cost_usd for receipt in run.costs.values())
        tokens = sum(receipt.tokens for receipt in run.costs.values())
        limit = self._budget.get("max_cost_usd", self.loop.max_cost_usd)
        most = self._budget.get("max_tokens", self.loop.max_tokens)
        self.hold(
            4, limit is None or cost < limit, f"an agent starts with ${cost} of ${limit} used"
        )
        self.hold(
            4, most is None or tokens < most, f"an agent starts with {tokens} of {most} tokens"
        )

    def _check_gap(self, ran_ms: int) -> None:
        if self._gap is None:
            return
        since, least = self._gap
        self._gap = None
        self.hold(3, ran_ms - since >= least, f"started after {ran_ms - since} ms, not {least}")

    def agent_used(self, cost_usd: float, whose: str) -> None:
        """What a turn really used; `whose` is for the message."""
        self._has_used = cost_usd > 0
        self._owes = whose if self._has_used else ""

    # ── how actions ended ──────────────────────────────────────────────────────────────────────

    def ended(self) -> None:
        """A result that is judged: everything starts again from zero."""
        self._unanswered = False
        self._in_a_row = self._handoffs = self._quick = self._limits = 0
        self._gap = None
        self._continues = False

    def handed_off(self, took_ms: int, ran_ms: int) -> None:
        is_quick = self._handoffs > 0 and took_ms < QUICK_MS and self._survives_parent()
        self._gap = None
        if is_quick:
            least = min(1000 << self._quick, LONGEST_SPACING_MS)
            self._gap = (ran_ms, least)
        self._quick_before = self._quick
        self._quick = self._quick + 1 if is_quick else 0
        self._handoffs += 1
        self._continues = True
        self._unanswered = True

    def _survives_parent(self) -> bool:
        """Else the handoff brings the run to rest, even if a crash keeps it from saying so."""
        return self.loop.on_handoff in ("continue", "spawn") and self._handoffs < self._allowed

    def _goes_elsewhere(self) -> None:
        """A person's `--from`, or a rule that was broken: no answer to the handoff will follow."""
        if self._unanswered:
            self._handoffs -= 1
            self._quick = self._quick_before
            self._gap = None
        self._unanswered = self._continues = False

    def limited(self, ran_ms: int) -> None:
        self._gap = (ran_ms, min(1000 << self._limits, LONGEST_HOST_WAIT_MS))
        self._limits += 1

    def gave_way(self) -> None:
        """Another agent takes the turn, at once; nothing has ended."""
        self._gap = None

    def _agent_of_several(self, record: Record) -> None:
        match record["event"]:
            case "host_unavailable":
                self._refused.add(record["host"])
            case "host_chosen":
                is_free = record["host"] not in self._refused
                self.hold(3, is_free, f"{record['host']} is tried again without a wait")
            case _:
                self._refused.clear()
                waits_ms = record["until_wall_ms"] - wall_ms_of(record["ts"])
                self._until_ran_ms = record["ran_ms"] + waits_ms

    def comes_to_rest(self) -> None:
        """Somebody else decides whether it continues, and has waited by then."""
        self._gap = None

    # ── waits ──────────────────────────────────────────────────────────────────────────────────

    def waited(self, kind: str, lasted_ms: int, ran_ms: int) -> None:
        self.waited_ms += lasted_ms
        self._did_something = self._did_something or lasted_ms > 0
        over = ran_ms - self._until_ran_ms if kind == "host" and lasted_ms else 0
        self.hold(5, over <= 0, f"waited {over} ms longer than it was announced")

    # ── the log ────────────────────────────────────────────────────────────────────────────────

    def records(self, records: Iterable[Record]) -> None:
        for record in records:
            self._record(record)

    def _record(self, record: Record) -> None:
        match record["event"]:
            case "action_start" | "child_start" | "children" as name:
                self._action_start(name)
            case "action_complete" | "action_interrupted" as name:
                self._action_end(name)
            case "cost" if record["cost_usd"] > 0:
                self._owes = ""
                self._paid += 1
            case "resume":
                self._resumes_there = record.get("to") is None
                self._resume(record)
            case "host_unavailable" | "host_chosen" | "host_wait":
                self._agent_of_several(record)
            case "handoff_detected":
                self._unanswered = False
            case "transition" | "check_result":
                self._refused.clear()
                self._keep_children(record)
                self._goes_elsewhere()
            case "state_enter":
                self._gap = None
                self._limits = 0
            case name if name in FINAL:
                self._final(record)
            case _:
                pass

    def _action_start(self, event: str) -> None:
        """A child that is started, or continued, belongs to the action that is open."""
        self._has_children = self._has_children or event != "action_start"
        is_first = event != "action_start" or not self._open_action
        self.hold(6, is_first, "an action starts before the last one has an end")
        self._open_action = True

    def _keep_children(self, record: Mapping[str, Any]) -> None:
        """Children belong to their state until it is left. They are kept for a resume when the
        loop's time is up, whatever its handler does."""
        if record.get("loop_timeout") is not None:
            self._kept_children = self._has_children
        elif record.get("reason") == "resume" and self._resumes_there:
            self._has_children, self._kept_children = self._kept_children, False
        else:
            self._has_children = self._kept_children = False

    def _action_end(self, event: str) -> None:
        """The children of an interrupted state may all have ended, or wait for somebody: a resume
        judges them, or pauses again."""
        self._paid = 0
        self.hold(6, self._open_action or self._has_children, "an end without a start")
        self._open_action = False
        self._has_children = self._has_children and event == "action_interrupted"

    def _final(self, record: Record) -> None:
        self.hold(6, not self._open_action, "the run says how it ended, its action does not")
        if record["event"] != "handoff" and record.get("reason") != "signal":
            self._goes_elsewhere()
        if record.get("reason") in ("max_cost", "max_tokens"):
            self._quick = 0  # no money for another session: the handoff came to rest

    def _resume(self, record: Record) -> None:
        self._refused.clear()
        if record.get("again"):
            self._limits = 0
        limits = record.get("limits", {})
        self._budget |= {name: limits[name] for name in BUDGETS if name in limits}
        given = limits.get("max_continuations")
        if given is not None:
            self._given = self._allowed = given
            self._in_a_row = self._quick = 0
            self._handoffs = int(self._unanswered)
            if self._unanswered:  # it is the first by the new count
                self._gap = None
