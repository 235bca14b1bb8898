"""Run the tests of a loop: the real machine with the outcomes that a test gives.

Not here: reading test files (`authoring.loop_tests`), printing (`terminal.test_report`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from little_loops.authoring.loop_tests import (
    ANY_STATES,
    ENDS,
    Expectation,
    LoopTest,
    ScriptedOutcome,
)
from little_loops.engine.scripted import (
    Ran,
    ScriptedResult,
    ScriptedWorld,
    branch_world,
    resume_after,
    start,
)
from little_loops.engine.scripted_trees import ScriptedTrees
from little_loops.errors import LittleLoopsError
from little_loops.fsm.agent_outcomes import TRANSITIONS, agent_exit_code
from little_loops.fsm.commands import RunAction, RunAgent, RunBuiltin, RunShell
from little_loops.fsm.conditions import VERDICT_MARK
from little_loops.fsm.events import (
    KINDS,
    ActionComplete,
    ActionStart,
    ChildEnd,
    Entry,
    ResolveStart,
    Sampled,
    StateEnter,
    Tampered,
    TransitionTaken,
)
from little_loops.fsm.extract import plain
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.schema import ERROR, FAIL, PASS, FSMLoop, transitions
from little_loops.fsm.signal_detector import HANDOFF_SIGNAL, SignalDetector
from little_loops.fsm.state import Judgement, LoopState, Result, SignalLine
from little_loops.fsm.waits import to_ms
from little_loops.records import NamedTuple
from little_loops.runs.child_runs import outcome_of_run

FAILED_EXIT = "failed"
PREPARED = {
    "resume_phase": 1,
    "phases_total": "",
    "handoff_path": "",
    "iteration": 1,
    "session_id": "sess_test",
    "plan_path": "plan.md",
    "metadata_path": ".return-meta.json",
    "check_output": "",
    "check_log": "",
    "started_ns": 0,
}
"""The values that a relay passes to each turn in a test."""
_NAME_OF = {kind: name for name, kind in KINDS.items()}


class TakenTransition(NamedTuple):
    """A transition of a loop: from which state, by which field, to which state."""

    state: str
    field: str
    target: str


class Unmet(NamedTuple):
    """What a test expected of a run, and what it got; `what` is the field of `expect`."""

    what: str
    expected: object
    got: object


class LoopTestResult(NamedTuple):
    """The result of one test.

    `problem` says why it could not run to its end, `message` is that of the run's ending.
    """

    test: LoopTest
    differences: tuple[Unmet, ...] = ()
    problem: str | None = None
    message: str = ""
    taken: frozenset[TakenTransition] = frozenset()

    @property
    def passed(self) -> bool:
        return not self.differences and self.problem is None


class NoOutcome(LittleLoopsError):
    """A state runs its action, and the test does not say what happens."""


# ── outcomes ───────────────────────────────────────────────────────────────────────────────────


class GivenScript:
    """The outcomes of a test. Each state has its own list, whose last item repeats.

    A check that runs again in a clean copy gives the same result there, and one with `repeat` each
    time that it is repeated.
    """

    def __init__(
        self, given: Mapping[str, Sequence[ScriptedOutcome]], log: Iterable[Entry] = ()
    ) -> None:
        self.given = given
        self.rendered: dict[str, str] = {}
        used = _used_in(log)
        self._used = Counter(state for state, _ in used)
        self._last = dict(_last_in(given, used))

    def answer(self, run: LoopState, command: RunAction, text: str) -> ScriptedResult:
        """Return the next outcome of the state, and remember `text` in `rendered`.

        In a clean copy, the outcome that was used last applies again. Raises `NoOutcome` if the
        test gives none.
        """
        state = run.current_state
        self.rendered[state] = text
        outcomes = self.given.get(state)
        if not outcomes:
            return _default(state, command)
        if isinstance(command, RunShell) and command.copy is not None:
            return _answer(command, _nth(outcomes, self._used[state] - 1))
        self._used[state] += not run.samples
        return _answer(command, _nth(outcomes, self._used[state] - 1))

    def child(self, world: ScriptedWorld, run: LoopState, name: str) -> ChildOutcome:
        """Return how a run ends that the current state has started: that of another loop as the
        next outcome says, that of a branch with an action as this outcome is judged. Raises
        `NoOutcome`."""
        state = run.current_state
        outcomes = self.given.get(state)
        if run.train is not None and run.train.resolving == name:
            return ChildOutcome("failed", "error", message="as the test specifies")
        if not outcomes:
            message = f"the run reaches `{state}`, but `given` has no outcome for it"
            raise NoOutcome(message, f"add `{state}: 0`, or `{state}: {{ends: max_iterations}}`")
        self._used[state] += 1
        outcome = self._last[name] = _nth(outcomes, self._used[state] - 1)
        inner = branch_world(world, run, name)
        if inner is None or outcome.ends is not None or outcome.timeout:
            return _child_outcome(outcome)
        script = GivenScript({inner.loop.initial: (outcome,)})
        ended = outcome_of_run(start(inner, script).run, {})
        self.rendered[state] = script.rendered.get(inner.loop.initial, "")
        return ended._replace(run_id="")

    def output(self, branch: str) -> str | None:
        """Return what the action of a branch printed, as a reference to it gives it."""
        outcome = self._last.get(branch)
        return None if outcome is None else outcome.output.removesuffix("\n")

    def fits(self, branch: str) -> bool:
        """Return whether the work of a run that has ended can be merged."""
        return branch not in self._last or not self._last[branch].conflict

    def files(self, state: str) -> list[str]:
        """Return one file for each outcome that the test gives to the state."""
        return [f"file-{number}" for number, _ in enumerate(self.given.get(state, ()), 1)]

    def opinion(self, run: LoopState) -> Judgement:
        """Return what the judge answers: as the outcome that its check used says, or a pass."""
        state = run.current_state
        outcomes = self.given.get(state)
        said = _nth(outcomes, self._used[state] - 1).judge if outcomes else None
        if said is None or said == PASS:
            return Judgement(PASS)
        if said == ERROR:
            return Judgement(ERROR, "as the test specifies")
        return Judgement(FAIL, said.removeprefix(f"{FAIL}: "))


def _child_outcome(outcome: ScriptedOutcome) -> ChildOutcome:
    """Return how a run of another loop ends: by the reason that the test names, or as an exit code
    would be judged."""
    if outcome.ends is not None:
        status, reason = ENDS[outcome.ends]
    elif outcome.timeout:
        status, reason = "failed", "loop_timeout"
    else:
        reason = "terminal" if (outcome.exit or 0) < 2 and outcome.signal is None else "error"
        status = "failed" if outcome.exit or outcome.signal else "completed"
    return ChildOutcome(
        status,
        reason,
        duration_ms=to_ms(outcome.takes),
        message=outcome.output,
        cost_usd=outcome.cost_usd or 0.0,
    )


def _default(state: str, command: RunAction) -> ScriptedResult:
    """Return the result of a built-in action that always works; raise `NoOutcome` for any other
    action."""
    match command:
        case RunBuiltin(name="relay.prepare"):
            return ScriptedResult(Result(0, 0, f"{VERDICT_MARK} ready", structured=PREPARED))
        case RunBuiltin(name="relay.report"):
            return ScriptedResult(Result(0, 0))
        case RunBuiltin():
            outcome = "{verdict: implemented}"
        case _:
            outcome = "0"
    message = f"the run reaches `{state}`, but `given` has no outcome for it"
    raise NoOutcome(message, f"add `{state}: {outcome}`")


def _nth(outcomes: Sequence[ScriptedOutcome], index: int) -> ScriptedOutcome:
    return outcomes[max(0, min(index, len(outcomes) - 1))]


def _used_in(log: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return which outcomes a log has used up: the state of each and, if the state started a run, the
    name of that run."""
    place, used, resolvers = "here", list[tuple[str, str]](), set[str]()
    for entry in log:
        match entry.event:
            case ActionStart():
                place = entry.event.place
            case ActionComplete(result=result) if place == "here" and _is_own(result):
                used.append((entry.event.state, ""))
            case ResolveStart(child=name):
                resolvers.add(name)
            case ChildEnd(child=name) if name in resolvers:
                pass  # it needs no outcome
            case ChildEnd(stage=stage, child=name) if stage not in ("interrupted", "stopped"):
                used.append((entry.event.state, name))
            case Sampled() if place == "here":
                used.pop()  # the last of the repetitions uses it up
    return used


def _last_in(
    given: Mapping[str, Sequence[ScriptedOutcome]], used: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, ScriptedOutcome]]:
    """Yield the name of each run that a state has started, and its outcome; the last one counts."""
    counts = Counter[str]()
    for state, name in used:
        if given.get(state):
            yield name, _nth(given[state], counts[state])
        counts[state] += 1


def _is_own(result: Result) -> bool:
    """Return whether a result is that of an action, not of runs that were started."""
    return result.child is None and result.branches is None


def _answer(command: RunAction, outcome: ScriptedOutcome) -> ScriptedResult:
    """Return what an action does, given its outcome in the test."""
    takes_ms = to_ms(outcome.takes)
    line = _signal_line(outcome)
    if outcome.timeout:
        result = Result(None, command.job.deadline_ms or takes_ms, cut_by="action")
    elif outcome.signal is not None:
        result = Result(None, takes_ms, signal=outcome.signal)
    elif isinstance(command, RunAgent):
        result = _agent_result(command, outcome, takes_ms)
        if result.agent == "handoff" and line is None:
            line = SignalLine(HANDOFF_SIGNAL.name, "")
    else:
        result = Result(outcome.exit or 0, takes_ms)
    output = outcome.output
    if isinstance(command, RunBuiltin) and outcome.verdict is not None:
        output = f"{VERDICT_MARK} {outcome.verdict}"
    texts = result._replace(output=output, stderr=outcome.stderr)
    return ScriptedResult(texts, line, outcome.changes)


def _agent_result(command: RunAgent, outcome: ScriptedOutcome, takes_ms: int) -> Result:
    """Return the result of an agent. If the test names no verdict, a success gives the first of the
    words that the agent may answer."""
    kind = outcome.agent or (FAILED_EXIT if outcome.exit else "success")
    agent = TRANSITIONS[kind] or "error"  # type: ignore[index]
    verdict = outcome.verdict
    if verdict is None and agent == "success" and command.words is not None:
        verdict = command.words[0]
    return Result(
        agent_exit_code(agent, verdict),
        takes_ms,
        agent=agent,
        kind=kind,
        reason=f"the test says `{kind}`",
        verdict=verdict,
        session_id=command.session_id,
        cost_usd=outcome.cost_usd or 0.0,
    )


def _signal_line(outcome: ScriptedOutcome) -> SignalLine | None:
    """Return the handoff that an outcome asks for, else the first signal line in its output, or
    None."""
    if outcome.handoff is not None:
        return SignalLine(HANDOFF_SIGNAL.name, outcome.handoff)
    found = SignalDetector().detect_first(outcome.output)
    return None if found is None else SignalLine(found.signal_type, found.payload or "")


# ── a test ─────────────────────────────────────────────────────────────────────────────────────


def run_tests(
    loop: FSMLoop, tests: Iterable[LoopTest], environ: Mapping[str, str]
) -> tuple[LoopTestResult, ...]:
    """Run tests. A loop that starts over (`maintain`) is tested up to the end of its first cycle."""
    loop = loop._replace(maintain=False)
    trees = ScriptedTrees.of(loop)
    return tuple(_run_test(ScriptedWorld(loop, environ, trees), test) for test in tests)


def _run_test(world: ScriptedWorld, test: LoopTest) -> LoopTestResult:
    """Run a test and report the differences. With `kill` and no differences, also kill and resume
    the run after each event. A missing outcome becomes the `problem` of the report."""
    script = GivenScript(test.given)
    try:
        ran = start(world, script)
        found = tuple(_differences(test.expect, ran, script.rendered))
        problem = _killed_everywhere(ran, test) if test.kill and not found else None
    except NoOutcome as missing:
        return LoopTestResult(
            test, problem=f"{missing.message}; {missing.help}", taken=_taken(world.log)
        )
    return LoopTestResult(test, found, problem, ran.ending.message, _taken(world.log))


def _killed_everywhere(ran: Ran, test: LoopTest) -> str | None:
    """Kill the run after each event but the last, and resume it. Return the first different ending,
    or None."""
    log = ran.world.log
    for count in range(1, len(log)):
        again = resume_after(ran, count, GivenScript(test.given, log[:count]))
        if _ending_text(again) != _ending_text(ran):
            at = _NAME_OF[type(log[count - 1].event)]
            return (
                f"killed after event {count} (`{at}`) and resumed, the run ends "
                f"{_ending_text(again)}, not {_ending_text(ran)}"
            )
    return None


def _ending_text(ran: Ran) -> str:
    kept = _kept(ran)
    best = "" if kept is None else f", with {plain(kept)} as the best"
    return f"as {ran.ending.status} ({ran.ending.reason}) in `{ran.run.current_state}`{best}"


def _kept(ran: Ran) -> float | None:
    """Return the number that the kept files of a loop with `keep: best` measured."""
    trees = ran.run.trees
    return None if trees is None or trees.best is None else trees.best.value


def _differences(expect: Expectation, ran: Ran, rendered: Mapping[str, str]) -> Iterator[Unmet]:
    """Yield where a run differs from what the test expects; fields that are not set are not
    compared.

    `rendered` has the text of each state's last action.
    """
    path = path_of(ran.world.log)
    got = {
        "status": ran.ending.status,
        "reason": ran.ending.reason,
        "exit": ran.ending.exit_code,
        "state": ran.run.current_state,
        "iterations": ran.run.iteration,
        "cost_usd": round(sum(cost.cost_usd for cost in ran.run.costs.values()), 6),
        "tampered": _tampered(ran.world.log),
        "kept": _kept(ran),
    }
    for what, value in got.items():
        expected = getattr(expect, what)
        if expected is not None and expected != value:
            yield Unmet(what, expected, value)
    if expect.path is not None and not follows(path, expect.path):
        yield Unmet("path", expect.path, path)
    yield from _by_name("visits", expect.visits, Counter(path), 0)
    outputs = {name: result.output for name, result in ran.run.captured.items()}
    yield from _by_name("captured", expect.captured, outputs, None)
    for name, text in (expect.rendered or {}).items():
        if not _reads(rendered.get(name), text):
            yield Unmet(f"rendered.{name}", text, rendered.get(name))


def _by_name(
    what: str, expected: Mapping[str, object] | None, got: Mapping[str, object], none: object
) -> Iterator[Unmet]:
    """Yield the names whose value is not as expected; `none` is the value of a name that `got`
    lacks."""
    for name, value in (expected or {}).items():
        if got.get(name, none) != value:
            yield Unmet(f"{what}.{name}", value, got.get(name, none))


def _reads(text: str | None, expected: str) -> bool:
    """Return whether a text is as expected, where `...` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.split(ANY_STATES)))
    return text is not None and re.fullmatch(pattern, text, re.DOTALL) is not None


def follows(path: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether a path is as expected, where `...` stands for any states, or none."""
    reached = {0}  # positions in `expected` that the path so far can be at
    for state in (*path, None):
        reached = _past_gaps(reached, expected)
        if state is None:
            break
        reached = {
            at if expected[at] == ANY_STATES else at + 1
            for at in reached
            if at < len(expected) and expected[at] in (state, ANY_STATES)
        }
    return len(expected) in reached


def _past_gaps(reached: set[int], expected: Sequence[str]) -> set[int]:
    """Add the positions after each `...` that was reached, because it may stand for no state."""
    found = set(reached)
    for at in range(len(expected)):
        if at in found and expected[at] == ANY_STATES:
            found.add(at + 1)
    return found


# ── what a run did ─────────────────────────────────────────────────────────────────────────────


def path_of(log: Iterable[Entry]) -> tuple[str, ...]:
    """Return the states that a run entered, in order."""
    return tuple(entry.event.state for entry in log if isinstance(entry.event, StateEnter))


def _tampered(log: Iterable[Entry]) -> tuple[str, ...]:
    found = (entry.event for entry in log if isinstance(entry.event, Tampered))
    return tuple(dict.fromkeys(path for event in found for path in event.paths))


def _taken(log: Iterable[Entry]) -> frozenset[TakenTransition]:
    found = (entry.event for entry in log if isinstance(entry.event, TransitionTaken))
    return frozenset(TakenTransition(event.from_, event.reason, event.to) for event in found)


def never_taken(loop: FSMLoop, reports: Iterable[LoopTestResult]) -> list[TakenTransition]:
    """Return the transitions of a loop that no passing test takes, in the order of its states. What
    a failing test takes is not what anybody expected."""
    passed = (report.taken for report in reports if report.passed)
    taken = frozenset[TakenTransition]().union(*passed)
    every = (
        TakenTransition(name, each.reason, name if each.target == "$current" else each.target)
        for name, state in loop.states.items()
        if not state.terminal  # what follows is for a resume, after a person's review
        for each in transitions(state).values()
    )
    return [each for each in dict.fromkeys(every) if each not in taken]
