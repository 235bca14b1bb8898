"""Simulated runs agree with what can be computed exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from textwrap import dedent

import pytest

from little_loops.authoring.load import load
from little_loops.engine.simulation import (
    SimulatedRun,
    Spread,
    StateOdds,
    drawn_states,
    simulate,
    summary_of,
    verdicts_of,
)
from little_loops.fsm.schema import FSMLoop

FIX = """\
    name: fix
    initial: check
    max_iterations: {most}
    states:
      check: {{action: mypy src, timeout: 60, on_pass: done, on_fail: fix}}
      fix: {{action: "Fix it", action_type: prompt, next: check}}
      done: {{terminal: true}}
    """
ODDS = {
    "check": StateOdds({"pass": 0.3, "fail": 0.7}, seconds=(10.0,)),
    "fix": StateOdds({"pass": 1.0}, costs=(0.4,), seconds=(90.0,)),
}
RUNS = 2000


def loop_of(text: str) -> FSMLoop:
    found = load(dedent(text), "x.yaml", "x")
    assert found.loop is not None, found.problems
    return found.loop


def shares(runs: list[SimulatedRun]) -> dict[str, float]:
    return {
        f"{status} {reason} {state}".strip(): share
        for (status, reason, state), share in summary_of(runs).endings.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_without_a_limit_in_the_way_the_chain_has_an_exact_solution(seed):
    runs = simulate(loop_of(FIX.format(most=10_000)), ODDS, RUNS, seed)
    assert shares(runs) == {"completed terminal done": 1.0}
    mean = sum(run.iterations for run in runs) / RUNS
    assert mean == pytest.approx(1 / 0.3, rel=0.02)


TWO_CHECKS = """\
    name: two
    initial: tests
    max_iterations: 10000
    states:
      tests: {action: pytest, on_pass: types, on_fail: fix}
      types: {action: mypy src, on_pass: done, on_fail: fix, on_error: lost}
      fix: {action: make, on_pass: tests, on_fail: lost}
      lost: {terminal: true, outcome: failure}
      done: {terminal: true}
    """
TWO_ODDS = {
    "tests": StateOdds({"fail": 0.4, "pass": 0.6}),
    "types": StateOdds({"pass": 0.5, "fail": 0.3, "error": 0.2}),
    "fix": StateOdds({"pass": 0.8, "fail": 0.2}),
}


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_with_several_endings_has_an_exact_solution_too(seed):
    # Of the runs that enter `tests`: 0.6 * 0.5 are done, 0.6 * 0.2 lost at `types`, and of the
    # 0.4 + 0.6 * 0.3 that need a fix, 0.2 are lost and 0.8 enter `tests` again.
    again = (0.4 + 0.6 * 0.3) * 0.8
    runs = simulate(loop_of(TWO_CHECKS), TWO_ODDS, RUNS, seed)
    found = shares(runs)
    assert found["completed terminal done"] == pytest.approx(0.3 / (1 - again), abs=0.02)
    lost = (0.6 * 0.2 + (0.4 + 0.6 * 0.3) * 0.2) / (1 - again)
    assert sum(found.values()) - found["completed terminal done"] == pytest.approx(lost, abs=0.02)
    mean = sum(run.iterations for run in runs) / RUNS
    assert mean == pytest.approx(1 / (1 - again), rel=0.02)


def test_where_a_limit_binds_the_paths_can_be_counted():
    runs = simulate(loop_of(FIX.format(most=3)), ODDS, RUNS, seed=1)
    found = shares(runs)
    assert found.keys() == {"completed terminal done", "failed max_iterations"}
    assert found["failed max_iterations"] == pytest.approx(0.7**3, abs=0.02)
    assert summary_of(runs).limits == {"max_iterations": found["failed max_iterations"]}


def enumerated(odds: Mapping[str, StateOdds], most: int) -> tuple[dict[str, float], float]:
    """The share of each ending of `TWO_CHECKS` and the mean number of iterations, by following every
    path. An iteration is a visit to `tests`; the one after the last is not begun."""
    shares: defaultdict[str, float] = defaultdict(float)
    mean = 0.0
    paths = [("tests", 1, 1.0)]
    moves = {
        "tests": {"pass": "types", "fail": "fix"},
        "types": {"pass": "done", "fail": "fix", "error": "lost"},
        "fix": {"pass": "tests", "fail": "lost"},
    }
    while paths:
        state, iteration, share = paths.pop()
        if state == "tests" and iteration > most:
            shares["failed max_iterations"] += share
            mean += share * most
        elif state in moves:
            for verdict, to in moves[state].items():
                odd = share * odds[state].verdicts.get(verdict, 0.0)
                paths.append((to, iteration + (to == "tests"), odd))
        else:
            status = "completed" if state == "done" else "failed"
            shares[f"{status} terminal {state}"] += share
            mean += share * iteration
    return dict(shares), mean


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_where_a_limit_binds_every_path_can_be_followed(most, seed):
    loop = loop_of(TWO_CHECKS)._replace(max_iterations=most)
    wanted, mean = enumerated(TWO_ODDS, most)
    assert sum(wanted.values()) == pytest.approx(1)
    runs = simulate(loop, TWO_ODDS, RUNS, seed)
    assert shares(runs) == pytest.approx(wanted, abs=0.02)
    assert sum(run.iterations for run in runs) / RUNS == pytest.approx(mean, rel=0.02)


def test_a_check_judges_what_the_last_iteration_left():
    loop = loop_of(FIX.format(most=3).replace("{action: mypy", "{check: true, action: mypy"))
    found = shares(simulate(loop, ODDS, RUNS, seed=1))
    assert found["failed max_iterations"] == pytest.approx(0.7**4, abs=0.02)


def test_each_visit_costs_and_takes_what_was_drawn():
    runs = simulate(loop_of(FIX.format(most=10)), ODDS, 200, seed=3)
    for run in runs:
        fixes = round(run.cost_usd / 0.4)
        checks = fixes + (run.status == "completed")
        assert run.cost_of.get("fix", 0) == pytest.approx(fixes * 0.4)
        assert run.seconds == pytest.approx(90 * fixes + 10 * checks)
    summary = summary_of(runs)
    assert summary.costliest == ("fix", 1.0)
    assert summary.slowest is not None
    assert summary.slowest[0] == "fix"


def test_the_same_seed_gives_the_same_runs():
    loop = loop_of(FIX.format(most=10))
    assert simulate(loop, ODDS, 50, seed=7) == simulate(loop, ODDS, 50, seed=7)
    assert simulate(loop, ODDS, 50, seed=7) != simulate(loop, ODDS, 50, seed=8)


def test_the_cost_limit_bites():
    loop = loop_of(FIX.format(most=50))._replace(max_cost_usd=1.0)
    odds = {**ODDS, "check": StateOdds({"fail": 1.0})}
    runs = simulate(loop, odds, 20, seed=1)
    assert shares(runs) == {"failed max_cost": 1.0}
    assert {round(run.cost_usd, 2) for run in runs} == {1.2}


@pytest.mark.parametrize(
    ("verdict", "ending"),
    [("error", "failed error"), ("timeout", "failed timeout"), ("pass", "completed terminal done")],
)
def test_errors_and_timeouts_can_be_drawn(verdict, ending):
    odds = {**ODDS, "check": StateOdds({verdict: 1.0})}
    assert shares(simulate(loop_of(FIX.format(most=5)), odds, 5, seed=1)) == {ending: 1.0}


DECIDES = """\
    name: decide
    initial: work
    states:
      work: {action: make, next: decide}
      decide:
        condition: {type: output_contains, pattern: ok, source: work}
        on_pass: done
        on_fail: lost
      lost: {terminal: true, outcome: failure}
      done: {terminal: true}
    """


def test_a_state_that_only_decides_draws_its_verdict():
    loop = loop_of(DECIDES)
    assert drawn_states(loop) == ["work", "decide"]
    odds = {"work": StateOdds({"pass": 1}), "decide": StateOdds({"pass": 0.25, "fail": 0.75})}
    found = shares(simulate(loop, odds, RUNS, seed=2))
    assert found["completed terminal done"] == pytest.approx(0.25, abs=0.02)


MEASURES = """\
    name: measure
    initial: measure
    context: {target: 0}
    states:
      measure: {action: count, on_target: done, on_progress: work, on_stall: lost}
      work: {action: make, next: measure}
      lost: {terminal: true, outcome: failure}
      done: {terminal: true}
    """


def test_a_metric_draws_target_progress_or_stall():
    loop = loop_of(MEASURES)
    assert verdicts_of(loop.states["measure"])[:3] == ["target", "progress", "stall"]
    odds = {
        "measure": StateOdds({"target": 0.2, "progress": 0.6, "stall": 0.2}),
        "work": StateOdds({"pass": 1}),
    }
    found = shares(simulate(loop, odds, RUNS, seed=4))
    assert found["completed terminal done"] == pytest.approx(0.5, abs=0.02)


def test_a_summary_has_median_p90_and_worst():
    run = SimulatedRun("completed", "terminal", "done", 1, 0.0, 0.0, {}, {})
    runs = [run._replace(iterations=number) for number in range(1, 11)]
    summary = summary_of(runs)
    assert summary.iterations == Spread(5, 9, 10)
    assert (summary.costliest, summary.slowest, summary.limits) == (None, None, {})
