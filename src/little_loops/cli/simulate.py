"""`ll-loop simulate`: how runs of a loop would end, what they would cost and how long they take."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from little_loops.authoring.fields.read_values import seconds as seconds_in
from little_loops.cli.options import OutputArgs, operand, positive, value, whole
from little_loops.definitions.loading import load_loop
from little_loops.engine.simulation import (
    Odds,
    Spread,
    StateOdds,
    Summary,
    acting_states,
    drawn_states,
    simulate,
    summary_of,
    verdicts_of,
)
from little_loops.errors import OK, UsageError
from little_loops.fsm.schema import ERROR, FAIL, PASS, TIMEOUT, FSMLoop
from little_loops.records import NamedTuple
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.steps import RunStep, steps_of
from little_loops.terminal.console import print_json, say
from little_loops.terminal.durations import rough
from little_loops.terminal.summaries import money
from little_loops.terminal.tables import Column, Style, style_for, table

ENOUGH_RUNS = 5
MOST_RUNS = 200
"""The maximum number of past runs to read; the newest tell the most about the next one."""
COUNT = 2000


class SimulateArgs(
    OutputArgs,
    verb="simulate",
    summary="Simulate runs of a loop: how they end, what they cost and how long they take.\n"
    f"Frequencies come from past runs, if there are at least {ENOUGH_RUNS}, and from options.",
    examples=[
        ("ll-loop simulate fix-tests", "from its past runs"),
        ("ll-loop simulate fix-tests --outcome evaluate=pass:0.3", "from an estimate"),
    ],
):
    loop: str = operand("a loop's name or file")
    count: int = value(
        "number of simulated runs; default: 2000", "-n", convert=positive, default=COUNT
    )
    outcome: Sequence[str] = value(
        "how often STATE gives VERDICT, such as `check=pass:0.3`; the remaining probability goes"
        " to `fail` or, for states with other verdicts, to the next one, such as `progress` after"
        " `target`",
        many=True,
        metavar="STATE=VERDICT:P",
    )
    cost: Sequence[str] = value("what a turn in STATE costs", many=True, metavar="STATE=USD")
    takes: Sequence[str] = value("how long STATE runs", many=True, metavar="STATE=TIME")
    seed: int = value("seed for the random numbers", convert=whole, default=0, metavar="N")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop simulate`: print the summary of the simulated runs, and return 0."""
    args = SimulateArgs.read(argv)
    root = find_project(os.getcwd())
    loop = load_loop(args.loop, root, evidence=False).loop
    past = past_steps(Runs(root), loop)
    odds = odds_of(loop, past, args)
    summary = summary_of(simulate(loop, odds, args.count, args.seed))
    if args.json:
        print_json(document(loop, past, summary))
    elif args.quiet < 2:
        for line in page(loop, past, summary, style_for(sys.stdout, args.color)):
            say(line)
    return OK


# ── what is known ──────────────────────────────────────────────────────────────────────────────


class PastSteps(NamedTuple):
    """The steps of past runs; none if there are too few runs to tell anything."""

    runs: int
    steps: tuple[RunStep, ...]

    @property
    def is_enough(self) -> bool:
        return self.runs >= ENOUGH_RUNS


def past_steps(runs: Runs, loop: FSMLoop) -> PastSteps:
    """Return the steps of the newest past runs of this loop; no steps if there are too few runs."""
    views = [view for view in runs.past(loop.name) if view.loop == loop.name][:MOST_RUNS]
    steps = [step for view in views for step in steps_of(runs.events(view))]
    return PastSteps(len(views), tuple(steps) if len(views) >= ENOUGH_RUNS else ())


def odds_of(loop: FSMLoop, past: PastSteps, args: SimulateArgs) -> Odds:
    """Return the odds of each state: as given, else as seen. Raises `UsageError` if unknown."""
    outcomes = dict(_outcome(each, loop) for each in args.outcome or ())
    costs = dict(_number(COST, each, loop) for each in args.cost or ())
    takes = dict(_number(TAKES, each, loop) for each in args.takes or ())
    found, missing = {}, []
    for name in acting_states(loop):
        steps = [step for step in past.steps if step.state == name and step.verdict is not None]
        verdicts = outcomes.get(name) or _shares_of(loop, name, steps)
        if not verdicts:
            missing.append(name)
        found[name] = StateOdds(
            verdicts,
            (costs[name],) if name in costs else _costs(steps),
            (takes[name],) if name in takes else _durations(steps),
        )
    if missing:
        raise _unknown(loop, past, missing)
    return found


def _shares_of(loop: FSMLoop, name: str, steps: Iterable[RunStep]) -> dict[str, float]:
    """Return how often each verdict was seen; a state with one way on needs no odds."""
    counts = Counter(
        step.verdict for step in steps if step.verdict in verdicts_of(loop.states[name])
    )
    if counts:
        return {str(verdict): number for verdict, number in counts.items()}
    state = loop.states[name]
    is_sure = state.terminal or (state.next is not None and state.on_fail is None)
    return {verdicts_of(state)[0]: 1.0} if is_sure else {}


def _costs(steps: Iterable[RunStep]) -> tuple[float, ...]:
    return tuple(step.cost_usd for step in steps) or (0.0,)


def _durations(steps: Iterable[RunStep]) -> tuple[float, ...]:
    return tuple(step.duration_ms / 1000 for step in steps) or (0.0,)


def _unknown(loop: FSMLoop, past: PastSteps, missing: Sequence[str]) -> UsageError:
    """Return the error for states whose odds are neither given nor known from past runs."""
    had = f"{past.runs or 'no'} past run{'' if past.runs == 1 else 's'}"
    too_few = f"at least {ENOUGH_RUNS} are needed to estimate the outcome of"
    why = "none of them visited" if past.is_enough else too_few
    names = ", ".join(f"`{name}`" for name in missing)
    options = " ".join(f"--outcome {name}={_first(loop, name)}:0.5" for name in missing)
    return UsageError(
        f"`{loop.name}` has {had}; {why} {names}", f"to give your own estimate: {options}"
    )


def _first(loop: FSMLoop, name: str) -> str:
    return verdicts_of(loop.states[name])[0]


def _rest(verdicts: Sequence[str], named: Container[str]) -> str:
    """Return the verdict of a state that gets what is left of its shares."""
    if FAIL in verdicts:
        return FAIL if FAIL not in named else PASS
    others = (each for each in verdicts if each not in named and each not in (ERROR, TIMEOUT))
    return next(others, verdicts[0])


def _outcome(text: str, loop: FSMLoop) -> tuple[str, dict[str, float]]:
    """Parse `STATE=VERDICT:P,…`; the rest goes to `fail`, or to `pass` if `fail` is given. A state
    with other verdicts gives the first one that is not given.

    Raises `UsageError` for an unknown state or verdict, and if the shares exceed 1.
    """
    state, equals, odds = text.partition("=")
    if not equals:
        raise _not_an_outcome(text)
    _check_state("--outcome", text, state, drawn_states(loop))
    found: dict[str, float] = {}
    verdicts = verdicts_of(loop.states[state])
    for part in odds.split(","):
        verdict, _, share = part.partition(":")
        found[verdict] = _share(text, share)
        if verdict not in verdicts:
            known = ", ".join(f"`{each}`" for each in verdicts)
            raise UsageError(f"`{state}` never gives the verdict `{verdict}`", f"known: {known}")
    left = 1 - sum(found.values())
    if left < -1e-9:
        raise UsageError(f"`--outcome {text}`: the shares add up to more than 1")
    rest = _rest(verdicts, found)
    return state, {**found, rest: found.get(rest, 0) + max(0.0, left)}


def _share(text: str, share: str) -> float:
    """Parse a number from 0 to 1; raise `UsageError` for others. `text` is the whole option."""
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise _not_an_outcome(text)
    return number


def _not_an_outcome(text: str) -> UsageError:
    """Return the error for an outcome of another form."""
    return UsageError(
        f"`--outcome {text}` is not of the form STATE=VERDICT:P",
        "P is between 0 and 1, such as `check=pass:0.3`",
    )


def _number(option: NumberOption, text: str, loop: FSMLoop) -> tuple[str, float]:
    """Parse `STATE=AMOUNT`; raise `UsageError` if either is invalid."""
    state, equals, amount = text.partition("=")
    if not equals:
        raise UsageError(f"`{option.flag} {text}` is not of the form {option.form}")
    _check_state(option.flag, text, state, acting_states(loop))
    try:
        number = option.read(amount)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise UsageError(f"`{option.flag} {text}`: `{amount}` is not {option.kind}")
    return state, number


def _seconds(text: str) -> float:
    found = seconds_in(text)
    return float(text) if found is None else found


class NumberOption(NamedTuple):
    """An option that gives a state a number."""

    flag: str
    form: str
    kind: str
    read: Callable[[str], float]


COST = NumberOption("--cost", "STATE=USD", "an amount", float)
TAKES = NumberOption("--takes", "STATE=TIME", "a duration", _seconds)


def _check_state(option: str, text: str, state: str, states: Sequence[str]) -> None:
    """Raise `UsageError` if the state is not one of these; `text` is the option's."""
    if state not in states:
        known = ", ".join(f"`{each}`" for each in states)
        raise UsageError(
            f"`{option} {text}`: the loop has no state `{state}` that runs an action",
            f"known: {known}",
        )


# ── what is shown ──────────────────────────────────────────────────────────────────────────────


def page(loop: FSMLoop, past: PastSteps, summary: Summary, style: Style) -> Iterator[str]:
    """Yield the lines about the simulated runs: endings, figures and remarks."""
    source = f"from {past.runs} past runs" if past.is_enough else "from your options"
    yield f"{summary.runs:,} simulated runs of {loop.name}, {source}"
    yield ""
    rows = [[_ending(*ending), f"{share:.1%}"] for ending, share in summary.endings.items()]
    yield from table((Column("RESULT"), Column("SHARE")), rows, style)
    yield ""
    titles = ("", "MEDIAN", "P90", "WORST")
    yield from table(
        [Column(title) for title in titles], list(_figures(summary, style.signs.none)), style
    )
    yield from _remarks(loop, summary)


def _figures(summary: Summary, none: str) -> Iterator[list[str]]:
    """Yield the rows of figures; cost and time only if there are any."""
    yield ["iterations", *(f"{number:g}" for number in summary.iterations)]
    if summary.cost_usd.worst:
        yield ["cost", *(money(usd, none) for usd in summary.cost_usd)]
    if summary.seconds.worst:
        yield ["time", *(rough(round(seconds * 1000)) for seconds in summary.seconds)]


def _remarks(loop: FSMLoop, summary: Summary) -> Iterator[str]:
    """Yield a blank line and remarks about cost, time and the most frequent limit, if any."""
    remarks = []
    for what, most in (("cost", summary.costliest), ("time", summary.slowest)):
        if most is not None:
            remarks.append(f"Most of the {what}: {most[0]} ({most[1]:.0%})")
    for reason, share in list(summary.limits.items())[:1]:
        remarks.append(f"Most frequent limit: {reason} ({share:.1%})")
    if remarks:
        yield ""
        yield from remarks


def _ending(status: str, reason: str, state: str) -> str:
    return f"{status}: {state}" if state else f"{status} ({reason})"


def document(loop: FSMLoop, past: PastSteps, summary: Summary) -> dict[str, object]:
    """Return the summary of the simulated runs as JSON data."""

    def spread(of: Spread) -> dict[str, float]:
        return of._asdict()

    return {
        "schema": 1,
        "loop": loop.name,
        "runs": summary.runs,
        "past_runs": past.runs if past.is_enough else 0,
        "endings": [
            {"status": status, "reason": reason, "state": state or None, "share": share}
            for (status, reason, state), share in summary.endings.items()
        ],
        "iterations": spread(summary.iterations),
        "cost_usd": spread(summary.cost_usd),
        "seconds": spread(summary.seconds),
        "costliest": _most(summary.costliest),
        "slowest": _most(summary.slowest),
        "limits": dict(summary.limits),
    }


def _most(found: tuple[str, float] | None) -> dict[str, object] | None:
    """Return the state that uses most of something, and its share, as JSON data."""
    return None if found is None else {"state": found[0], "share": found[1]}
