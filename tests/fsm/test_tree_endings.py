"""The ending of a tree of loops and branches is the one that the tables give.

`ending_of` reads the endings of the inner loops and the transitions of the outer ones, and knows
nothing else; `advance` drives the same tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from little_loops.fsm.commands import Command, RunAgent, RunChildren, RunShell
from little_loops.fsm.happenings import ChildEnded, Happening
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, SignalLine
from little_loops.runs.child_runs import outcome_of_run
from tests.fsm.scripted import Says, ScriptedWorld, begin
from tests.simulation.tree_laws import meaning

Ending = tuple[str, str]
Verdict = Literal["pass", "fail", "error", "timeout"]
VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "error", "timeout")
LONG_MS, LIMIT_S = 9000, 5


class Plan(NamedTuple):
    """A loop: what each of its steps does, an outcome, a loop or branches, and where each verdict
    leads."""

    steps: tuple[str | Plan | Group, ...]
    targets: tuple[Mapping[Verdict, str], ...]


class Group(NamedTuple):
    """Branches: the loop of each, how many have to pass, and how many run at once."""

    plans: tuple[Plan, ...]
    join: str | int
    wide: int
    fast: bool


VERDICT_OF: dict[str, Verdict] = {"0": "pass", "1": "fail", "2": "error", "late": "timeout"}
ENDING_OF: dict[str, Ending] = {
    "stop": ("stopped", "stop_signal"),
    "handoff": ("awaiting_continuation", "handoff"),
    "auth": ("failed", "auth"),
    "billing": ("failed", "billing"),
    "loop late": ("failed", "loop_timeout"),
}
FINAL: dict[str, Ending] = {
    "done": ("completed", "terminal"),
    "bad": ("failed", "terminal"),
    "look": ("needs_review", "review"),
}
NO_TARGET: dict[Verdict, Ending] = {
    "pass": ("failed", "no_transition"),
    "fail": ("failed", "no_transition"),
    "error": ("failed", "error"),
    "timeout": ("failed", "timeout"),
}
SAYS: dict[str, Says] = {
    "0": Says(0),
    "1": Says(1),
    "2": Says(2),
    "late": Says(0, takes_ms=LONG_MS),
    "loop late": Says(0, takes_ms=LONG_MS),
    "stop": Says(line=SignalLine("stop", "enough")),
    "handoff": Says(line=SignalLine("handoff", "notes")),
    "auth": Says(2, agent="auth"),
    "billing": Says(2, agent="billing"),
}


def ending_of(plan: Plan) -> Ending:
    """What the tables say: a verdict leads to the next step or to an end; some endings end it all."""
    for step, targets in zip(plan.steps, plan.targets, strict=True):
        found = _verdict(step)
        if not isinstance(found, str):
            return found
        target = targets.get(found)
        if target is None:
            return NO_TARGET[found]
        if target != "next":
            return FINAL[target]
    return FINAL["done"]


def _joined(group: Group) -> Verdict | Ending:
    """What branches come to that end in their order: an agent that cannot work ends it all, a pause
    lets the others finish, and nothing that happens after the verdict changes it."""
    total = len(group.plans)
    shares = {"all": total, "any": 1, "50%": (total + 1) // 2}
    need = shares[group.join] if isinstance(group.join, str) else group.join
    stops_early = group.join != "all" or group.fast
    stages: list[str] = []
    pause: Ending | None = None
    for plan in (*group.plans, None):
        passed, lost = stages.count("pass"), [each for each in stages if each != "pass"]
        if stops_early or len(stages) == total:
            if passed >= need:
                return "pass"
            if total - len(lost) < need:
                is_error = bool(lost) and not passed and not {*lost} - {"error", "timeout"}
                return "error" if is_error else "fail"
        if plan is None:
            break
        ending = ending_of(plan)
        if ending[1] in ("auth", "billing"):
            return ending
        meant = meaning(*ending)
        if meant in VERDICTS:
            stages.append(meant)
        else:
            pause = pause or ending
    assert pause is not None
    return pause


def _verdict(step: str | Plan | Group) -> Verdict | Ending:
    if isinstance(step, str):
        return ENDING_OF.get(step) or VERDICT_OF[step]
    if isinstance(step, Group):
        return _joined(step)
    ending = ending_of(step)
    meant = meaning(*ending)
    return next((verdict for verdict in VERDICTS if verdict == meant), ending)


# ── the same tree for the machine ──────────────────────────────────────────────────────────────


def loop_of(plan: Plan, name: str = "top") -> FSMLoop:
    return FSMLoop.from_dict(_plain(plan, name))


def _plain(plan: Plan, name: str) -> dict[str, Any]:
    states: dict[str, Any] = {
        "done": {"terminal": True, "outcome": "success"},
        "bad": {"terminal": True, "outcome": "failure"},
        "look": {"terminal": True, "outcome": "review", "next": "done"},
    }
    names = [f"s{at}" for at in range(len(plan.steps))]
    for at, (step, targets) in enumerate(zip(plan.steps, plan.targets, strict=True)):
        after = [*names[at + 1 :], "done"][0]
        ways = {f"on_{word}": after if to == "next" else to for word, to in targets.items()}
        states[names[at]] = {**_what_runs(step, names[at]), **ways}
    late = {"timeout": LIMIT_S} if plan.steps[0] == "loop late" else {}
    return {"name": name, "initial": "s0", "states": states, **late}


def _what_runs(step: str | Plan | Group, name: str) -> dict[str, Any]:
    if isinstance(step, Plan):
        return {"loop": _plain(step, name)}
    if isinstance(step, Group):
        inner = {
            f"{name}b{at}": {"loop": _plain(plan, f"b{at}")} for at, plan in enumerate(step.plans)
        }
        rule = {"join": step.join, "max_parallel": step.wide, "fail_fast": step.fast}
        return {"branches": inner, **rule}
    timeout = {"timeout": LIMIT_S} if step == "late" else {}
    return {"action": "/x" if step in ("auth", "billing") else "x", **timeout}


class TreeWorld(ScriptedWorld):
    """A world in which actions do what the plan says, and loops are driven to their ends. Children
    end in the order in which they started."""

    def __init__(self, plan: Plan, loop: FSMLoop) -> None:
        super().__init__(loop, ())
        self.plan = plan
        self.under_way: list[str] = []

    def perform(self, run: LoopState, command: Command) -> Happening:
        if isinstance(command, RunChildren):
            self.under_way += command.start
            return self._drive_child(command.state, self.under_way.pop(0))
        if isinstance(command, RunShell | RunAgent):
            self.script = [SAYS[str(self._step(command.job.state))]]
        return super().perform(run, command)

    def _drive_child(self, state: str, name: str) -> Happening:
        step, loop = self._step(state), self.loop.states[state].loop
        if isinstance(step, Group):
            branches = self.loop.states[state].branches
            assert branches is not None
            loop = branches.named[name].loop
            step = step.plans[int(name.rpartition("b")[2])]
        assert isinstance(step, Plan)
        assert loop is not None
        child, _ = begin(TreeWorld(step, loop))
        self._pass(child.ran_ms)
        return ChildEnded(self.now(), name, outcome_of_run(child, {}))

    def _step(self, name: str) -> str | Plan | Group:
        return self.plan.steps[int(name[1:])]


# ── the law ────────────────────────────────────────────────────────────────────────────────────

outcomes = st.sampled_from(["0", "0", "1", "2", "late", "stop", "handoff", "auth", "billing"])
targets = st.dictionaries(
    st.sampled_from(VERDICTS), st.sampled_from(["next", "next", "done", "bad", "look"])
)


def plans(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Plan]:
    several = st.lists(st.tuples(of, targets), min_size=1, max_size=3)
    return several.map(lambda rows: Plan(*zip(*rows, strict=True)))


def groups(of: st.SearchStrategy[Plan]) -> st.SearchStrategy[Group]:
    joins = st.sampled_from(["all", "all", "any", "50%", 1, 2, 3])
    several = st.lists(of, min_size=1, max_size=3).map(tuple)
    return st.builds(Group, several, joins, st.integers(1, 3), st.booleans())


leaves = st.one_of(plans(outcomes), st.just(Plan(("loop late",), ({},))))
trees = st.recursive(
    leaves, lambda inner: plans(st.one_of(outcomes, inner, groups(inner))), max_leaves=8
)


@given(trees)
def test_a_tree_of_loops_ends_as_the_tables_say(plan):
    world = TreeWorld(plan, loop_of(plan))
    _, ending = begin(world)
    event(f"{ending.status}, {ending.reason}")
    assert (ending.status, ending.reason) == ending_of(plan)
