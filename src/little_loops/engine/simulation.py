"""Simulate many runs of a loop, to predict how they will end and what they will cost.

The machine is the real one. Each visit to a state draws a verdict, a cost and a duration; conditions
are not judged, because there is no output to judge, and no files change.

Not here: where the frequencies come from (`runs.steps`, the flags of `simulate`), printing.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from little_loops.engine.scripted import Ran, ScriptedResult, ScriptedWorld, start
from little_loops.engine.scripted_trees import ScriptedTrees
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.commands import Judge, RunAction, RunAgent
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.schema import (
    ERROR,
    FAIL,
    PASS,
    PROGRESS,
    SOFT_VERDICTS,
    STALL,
    TARGET,
    TIMEOUT,
    Convergence,
    Evidence,
    FSMLoop,
    StateConfig,
    VerdictWords,
    effective_condition,
    transitions,
)
from little_loops.fsm.state import Judgement, LoopState, Result
from little_loops.fsm.waits import to_ms
from little_loops.records import NamedTuple

NEVER_JUDGED = "${loop.name}"
"""A source other than a state's result: a decision state then asks for its verdict."""


class StateOdds(NamedTuple):
    """How often a state gives each verdict, and what a visit costs and takes.

    Costs and durations are drawn from what was seen; a single value is always that.
    """

    verdicts: Mapping[str, float]
    costs: tuple[float, ...] = (0.0,)
    seconds: tuple[float, ...] = (0.0,)


Odds = Mapping[str, StateOdds]
WORKS = StateOdds({PASS: 1.0})
"""For a terminal state's action, whose verdict decides nothing."""


class SimulatedRun(NamedTuple):
    """How one simulated run ended, and what it used in each state."""

    status: str
    reason: str
    state: str
    iterations: int
    cost_usd: float
    seconds: float
    cost_of: Mapping[str, float]
    seconds_of: Mapping[str, float]


def drawn_states(loop: FSMLoop) -> list[str]:
    """Return the states whose verdict has to be drawn: those that run or decide something."""
    return [name for name, state in loop.states.items() if _is_drawn(state)]


def acting_states(loop: FSMLoop) -> list[str]:
    """Return the states that can cost something or take time: also terminal ones with an action."""
    states = loop.states.items()
    return [name for name, state in states if _is_drawn(state) or state.action is not None]


def _is_drawn(state: StateConfig) -> bool:
    return not state.terminal and (state.action is not None or state.condition is not None)


def verdicts_of(state: StateConfig) -> list[str]:
    """Return the verdicts a state can give: those of its condition, then others that have a
    transition, then errors."""
    others = [verdict for verdict in transitions(state) if verdict not in SOFT_VERDICTS]
    return list(dict.fromkeys([*_of_condition(state), *others, ERROR, TIMEOUT]))


def _of_condition(state: StateConfig) -> tuple[str, ...]:
    """Return the verdicts that the condition of a state gives."""
    match effective_condition(state):
        case Convergence():
            return (TARGET, PROGRESS, STALL)
        case VerdictWords(words=words):
            return words
        case _:
            return (PASS, FAIL)


def simulate(loop: FSMLoop, odds: Odds, count: int, seed: int) -> list[SimulatedRun]:
    """Run a loop `count` times. The same seed gives the same runs."""
    draws = Draws(random.Random(seed))
    prepared = _prepared(loop)
    trees = ScriptedTrees.of(prepared)
    return [_simulate(prepared, DrawnScript(odds, draws), trees) for _ in range(count)]


def _simulate(loop: FSMLoop, script: DrawnScript, trees: ScriptedTrees) -> SimulatedRun:
    """Run a loop once. `script` adds up what the run uses, so each run needs its own."""
    ran: Ran = start(SimulatedWorld(loop, {}, trees, script), script)
    return SimulatedRun(
        ran.ending.status,
        ran.ending.reason,
        ran.run.current_state,
        ran.run.iteration,
        sum(script.cost_of.values()),
        ran.world.ran_ms / 1000,
        script.cost_of,
        script.seconds_of,
    )


def _prepared(loop: FSMLoop) -> FSMLoop:
    """Return the loop with conditions that take a drawn verdict, without evidence and for one
    cycle."""
    states = {name: _with_drawn_verdict(state) for name, state in loop.states.items()}
    return loop._replace(states=states, evidence=Evidence(enabled=False), maintain=False)


def _with_drawn_verdict(state: StateConfig) -> StateConfig:
    """Return a state whose condition accepts any of its verdicts as drawn; unchanged if none is
    drawn."""
    if state.branches is not None:  # their join is drawn, not each of them
        state = state._replace(branches=None, loop=None, action="true", action_type="shell")
    if not _is_drawn(state) or state.loop is not None:
        return state
    source = None if state.action is not None else NEVER_JUDGED
    words = VerdictWords(tuple(verdicts_of(state)), source)
    # The drawn verdict is the last one, after the judge.
    return state._replace(condition=words, judge=None, capture_exit=False)


STRATA = 50


class Draws:
    """Random numbers for all simulated runs, between 0 and 1.

    Each run gets one for the first visit to a state, one for the second, and so on. Of every
    `STRATA` runs that come that far, one gets a number from each of as many equal intervals: the
    shares of verdicts are then much closer to their odds than with independent numbers, while the
    numbers of one run stay independent.
    """

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self._left: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def number(self, state: str, visit: int) -> float:
        """Return the number for a visit to a state; `visit` counts those of one run."""
        left = self._left[state, visit]
        if not left:
            left += [(part + self.random.random()) / STRATA for part in range(STRATA)]
            self.random.shuffle(left)
        return left.pop()


def _at(odds: Mapping[str, float], number: float) -> str:
    """Return the verdict at a place between 0 and 1, if each takes a part as large as its odds."""
    verdicts = list(odds)
    upper = list(accumulate(odds.values()))
    return verdicts[bisect(upper, number * upper[-1], hi=len(upper) - 1)]


class DrawnScript:
    """Draws the result of each action of one run, and adds up what it used."""

    def __init__(self, odds: Odds, draws: Draws) -> None:
        self._odds = odds
        self._draws = draws
        self._random = draws.random
        self._visits: Counter[str] = Counter()
        self.cost_of: defaultdict[str, float] = defaultdict(float)
        self.seconds_of: defaultdict[str, float] = defaultdict(float)

    def verdict(self, state: str) -> str:
        self._visits[state] += 1
        odds = self._odds.get(state, WORKS).verdicts
        return _at(odds, self._draws.number(state, self._visits[state]))

    def answer(self, run: LoopState, command: RunAction, text: str) -> ScriptedResult:
        """Draw the verdict, cost and duration of an action; add cost and duration to those of its
        state."""
        name = run.current_state
        verdict, odds = self.verdict(name), self._odds.get(name, WORKS)
        cost, seconds = self._random.choice(odds.costs), self._random.choice(odds.seconds)
        self.cost_of[name] += cost
        self.seconds_of[name] += seconds
        return ScriptedResult(_result(command, verdict, to_ms(seconds), cost), changes=())

    def child(self, world: ScriptedWorld, run: LoopState, name: str) -> ChildOutcome:
        """Draw how a run of another loop ends, its cost and its duration; add them to those of the
        state that started it."""
        state = run.current_state
        verdict, odds = self.verdict(state), self._odds[state]
        cost, seconds = self._random.choice(odds.costs), self._random.choice(odds.seconds)
        self.cost_of[state] += cost
        self.seconds_of[state] += seconds
        status, reason = ENDING_OF_VERDICT.get(verdict, ("failed", "terminal"))
        return ChildOutcome(status, reason, duration_ms=to_ms(seconds), cost_usd=cost)

    def output(self, branch: str) -> str | None:
        """Return None: outputs are not drawn."""
        return None

    def fits(self, branch: str) -> bool:
        """Return True: nothing is known about what branches change."""
        return True

    def files(self, state: str) -> list[str]:
        """Return nothing: the join of branches is drawn."""
        return []

    def opinion(self, run: LoopState) -> Judgement:
        return Judgement(PASS)


ENDING_OF_VERDICT = {
    PASS: ("completed", "terminal"),
    FAIL: ("failed", "terminal"),
    ERROR: ("failed", "error"),
    TIMEOUT: ("failed", "loop_timeout"),
}
"""How another loop's run ends, for each verdict that it can give."""


def _result(command: RunAction, verdict: str, took_ms: int, cost: float) -> Result:
    """Return a result that gets this verdict; only an agent's has a cost."""
    if verdict == TIMEOUT:
        return Result(None, command.job.deadline_ms or took_ms, cut_by="action")
    failure = "simulated" if verdict == ERROR else None
    result = Result(0, took_ms, verdict=verdict, failure=failure)
    if not isinstance(command, RunAgent):
        return result
    return result._replace(
        exit_code=agent_exit_code("success", verdict),
        agent="success",
        kind="success",
        cost_usd=cost,
        session_id=command.session_id,
    )


class SimulatedWorld(ScriptedWorld):
    """A scripted world in which decision states draw their verdict too."""

    def __init__(
        self, loop: FSMLoop, environ: Mapping[str, str], trees: ScriptedTrees, drawn: DrawnScript
    ) -> None:
        super().__init__(loop, environ, trees)
        self._drawn = drawn

    def judge(self, run: LoopState, command: Judge) -> Judgement:
        return Judgement(self._drawn.verdict(run.current_state), "simulated")


# ── what many runs have in common ──────────────────────────────────────────────────────────────


class Spread(NamedTuple):
    median: float
    p90: float
    worst: float


class Summary(NamedTuple):
    """What simulated runs have in common; shares are between 0 and 1, most frequent first."""

    runs: int
    endings: Mapping[tuple[str, str, str], float]
    iterations: Spread
    cost_usd: Spread
    seconds: Spread
    costliest: tuple[str, float] | None
    slowest: tuple[str, float] | None
    limits: Mapping[str, float]


LIMITS = ("max_iterations", "max_cost", "max_tokens", "loop_timeout", "stalled")


def summary_of(runs: Sequence[SimulatedRun]) -> Summary:
    """Summarise simulated runs; there must be at least one."""
    count = len(runs)
    endings = Counter((run.status, run.reason, _end_state(run)) for run in runs)
    limits = Counter(run.reason for run in runs if run.reason in LIMITS)
    return Summary(
        count,
        {ending: number / count for ending, number in endings.most_common()},
        _spread([run.iterations for run in runs]),
        _spread([run.cost_usd for run in runs]),
        _spread([run.seconds for run in runs]),
        _most([run.cost_of for run in runs]),
        _most([run.seconds_of for run in runs]),
        {reason: number / count for reason, number in limits.most_common()},
    )


def _end_state(run: SimulatedRun) -> str:
    """Return the terminal state of a run; for other endings the state says little."""
    return run.state if run.reason in ("terminal", "review") else ""


def _spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Spread(ordered[last // 2], ordered[round(last * 0.9)], ordered[-1])


def _most(used: Iterable[Mapping[str, float]]) -> tuple[str, float] | None:
    """Return the state that used most of all, and its share; None if nothing was used."""
    totals: Counter[str] = Counter()
    for each in used:
        totals.update(each)
    whole = sum(totals.values())
    if not whole:
        return None
    [(state, most)] = totals.most_common(1)
    return state, most / whole
