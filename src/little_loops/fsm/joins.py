"""When the runs that a state started become one verdict, and which of them run meanwhile.

A state starts other runs, its children, and waits for them. The ending of each child becomes a
stage (`OUTCOME_OF_ENDING`), and the stages become a verdict (`next_move`).

Not here: recording any of it (`child_steps`), processes (`engine.children`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.schema import ERROR, FAIL, PASS, TIMEOUT
from little_loops.fsm.state import Children, Judgement, Stage
from little_loops.light_typing import Final, Literal
from little_loops.records import NamedTuple

CRASHED: Final = "crashed"
"""The status of a child whose process ended without recording how."""
ENDED: Final[tuple[Stage, ...]] = ("pass", "fail", "error", "timeout", "stopped")
"""Stages of a child that has ended. `stopped`: it was no longer needed."""
PAUSED: Final[tuple[Stage, ...]] = ("paused", "review")
"""Stages of a child that is waiting for a person. `review`: at a gate."""
UNDECIDED: Final[tuple[Stage, ...]] = ("interrupted", *PAUSED)
"""Stages of a child that is not running and has not ended."""
TO_START: Final[tuple[Stage, ...]] = ("waiting", "interrupted", "resumed")
"""Stages of a child that can start or continue. `resumed`: it was paused."""

Outcome = Literal["pass", "fail", "error", "timeout", "paused", "review", "fatal", "interrupted"]

OUTCOME_OF_ENDING: Final[dict[tuple[str, str], Outcome]] = {
    ("completed", "terminal"): "pass",
    ("failed", "terminal"): "fail",
    ("stopped", "stop_signal"): "fail",
    ("failed", "max_iterations"): "fail",
    ("failed", "max_cost"): "fail",
    ("failed", "max_tokens"): "fail",
    ("failed", "stalled"): "fail",
    ("failed", "tampered"): "fail",
    ("failed", "flaky"): "fail",
    ("failed", "out_of_scope"): "fail",
    ("failed", "stale_evidence"): "fail",
    ("failed", "conflict"): "fail",
    ("failed", "rejected"): "fail",
    ("failed", "handoff"): "fail",
    ("failed", "error"): "error",
    ("failed", "timeout"): "error",
    ("failed", "no_transition"): "error",
    ("failed", "storage"): "error",
    ("failed", "hook"): "error",
    ("failed", "consent"): "error",
    ("failed", "loop_timeout"): "timeout",
    ("failed", "auth"): "fatal",
    ("failed", "billing"): "fatal",
    ("awaiting_continuation", "handoff"): "paused",
    ("needs_review", "review"): "review",
    ("needs_review", "budget"): "paused",
    ("interrupted", "signal"): "interrupted",
}
"""What a child's ending (status and reason) means for the state that started it."""


def outcome_of_ending(status: str, reason: str) -> Outcome:
    """Return what an ending means; an error for one that this version does not know."""
    return OUTCOME_OF_ENDING.get((status, reason), "error")


def ending_text(outcome: ChildOutcome) -> str:
    """Return how a child has ended, for people: `completed in done (2 iterations)`."""
    times = f"{outcome.iterations} iteration{'' if outcome.iterations == 1 else 's'}"
    status, reason = outcome.status.replace("_", " "), outcome.reason
    if reason == "terminal":
        return f"{status} in `{outcome.final_state}` ({times})"
    detail = f": {outcome.message}" if outcome.message and outcome.message != reason else ""
    return f"{status}: {reason.replace('_', ' ')}{detail}"


class JoinRule(NamedTuple):
    """How the children of a state become one verdict, and how many of them run at once.

    `join`: `all`, `any`, a number, or a percentage such as `80%`. `single`: the state has one child,
    whose outcome is the verdict.
    """

    join: str | int = "all"
    max_parallel: int = 4
    fail_fast: bool = False
    single: bool = False

    @property
    def stops_the_rest(self) -> bool:
        """Whether children are stopped once the verdict is known."""
        return self.fail_fast or self.join != "all"


class NextMove(NamedTuple):
    """What is to be done: start and stop these children, by number.

    `decided`: the verdict, when it is first known. `is_over`: nothing is left to wait for.
    """

    start: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()
    decided: Judgement | None = None
    is_over: bool = False


def needed(join: str | int, total: int) -> int:
    """Return how many children must pass; a percentage is rounded up."""
    if isinstance(join, int):
        return join
    if join == "all":
        return total
    if join == "any":
        return 1
    percent = int(join.removesuffix("%"))
    return -(-total * percent // 100)


def judge_stages(rule: JoinRule, stages: Sequence[Stage]) -> Judgement | None:
    """Return the verdict of these stages, or None while it is open."""
    if rule.single:
        return _judge_only(stages[0])
    total, passed = len(stages), stages.count("pass")
    lost = [stage for stage in stages if stage in ENDED and stage != "pass"]
    need = needed(rule.join, total)
    counted = count_text(rule, stages)
    if passed >= need and (rule.stops_the_rest or passed + len(lost) == total):
        return Judgement(PASS, counted)
    if total - len(lost) >= need:
        return None
    if not rule.stops_the_rest and passed + len(lost) < total:
        return None
    if lost and not passed and all(stage in ("error", "timeout") for stage in lost):
        return Judgement(ERROR, f"{counted}; the others ended with errors")
    return Judgement(FAIL, counted)


def count_text(rule: JoinRule, stages: Sequence[Stage]) -> str:
    """Return how many children have passed, and how many must if that is not all of them:
    `2 of 4 passed, 1 failed, 1 stopped; 2 needed`."""
    total, passed, stopped = len(stages), stages.count("pass"), stages.count("stopped")
    failed = sum(stage in ENDED for stage in stages) - passed - stopped
    text = f"{passed} of {total} passed"
    if failed and passed + failed < total:
        text += f", {failed} failed"
    if stopped:
        text += f", {stopped} stopped"
    return text if rule.join == "all" else f"{text}; {needed(rule.join, total)} needed"


def _judge_only(stage: Stage) -> Judgement | None:
    """Return the verdict of a single child by its stage; None while it has not ended."""
    verdicts = {"pass": PASS, "fail": FAIL, "error": ERROR, "timeout": TIMEOUT, "stopped": FAIL}
    return Judgement(verdicts[stage]) if stage in verdicts else None


def next_move(rule: JoinRule, children: Children) -> NextMove:
    """Return which children to start and to stop, and the verdict if it is known now.

    While the parent stops (`halt`), nothing starts. A child that pauses lets the others finish.
    """
    stages = children.stages
    running = tuple(at for at, stage in enumerate(stages) if stage == "running")
    if children.halt is not None:
        return NextMove(stop=running, is_over=not running)
    decided = None
    if children.verdict is None:
        decided = judge_stages(rule, stages)
    if decided is not None or children.verdict is not None:
        return NextMove(stop=running, decided=decided, is_over=not running)
    free = rule.max_parallel - len(running)
    ready = [at for at, stage in enumerate(stages) if stage in TO_START]
    start = tuple(ready[: max(0, free)])
    return NextMove(start=start, is_over=not running and not start)
