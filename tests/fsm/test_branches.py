"""States with branches: which there are, what starts and stops, and what their ends lead to."""

from __future__ import annotations

from textwrap import dedent
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.fsm.branching import (
    LONGEST_NAME,
    MOST_BRANCHES,
    BranchReport,
    action_loop,
    branch_names,
    branch_step,
    branch_values,
    combinations,
    items_in,
    report_of,
    safe_name,
    shares_tree,
    why_not,
    written_items,
)
from little_loops.fsm.child_steps import rule_of
from little_loops.fsm.commands import FindBranches, RunChildren
from little_loops.fsm.events import (
    ActionStart,
    Entry,
    LoopError,
    RunWarning,
    StateEnter,
    TransitionTaken,
)
from little_loops.fsm.evidence import has_agent, is_observed
from little_loops.fsm.happenings import BranchesFound, ChildOutcome, Happening, StopAsked
from little_loops.fsm.joins import JoinRule, needed, outcome_of_ending
from little_loops.fsm.limits import exceeded
from little_loops.fsm.next_action import action_due
from little_loops.fsm.recorded import Recording, Unexpected
from little_loops.fsm.schema import (
    Branches,
    ChildLimits,
    Evidence,
    ExitCode,
    FSMLoop,
    HostOptions,
    StateConfig,
    acting_states,
    child_loops,
    item_hosts,
    with_child_loops,
)
from little_loops.fsm.state import BranchCount, Limits, LoopState, Result, Stage
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.values import result_values
from little_loops.fsm.verdicts import asks_verdict
from little_loops.templates.render import Unresolved
from tests.fsm.scripted import (
    OUT_OF_TIME,
    PERFORM,
    Crash,
    ScriptedWorld,
    Stop,
    begin,
    crash_and_go_on,
    cut,
    go_on,
    told,
)

ENDS = {"terminal": True}
REVIEW: dict[str, Any] = {
    "for_each": ["a", "b", "c"],
    "action": "review ${branch.item}",
    "on_pass": "done",
    "on_fail": "bad",
    "on_error": "broken",
}
OTHERS: dict[str, Any] = {
    "done": ENDS,
    "bad": {**ENDS, "outcome": "failure"},
    "broken": ENDS,
}


def world(*script: Any, **review: Any) -> ScriptedWorld:
    state = {**REVIEW, **review}
    loop = {"name": "many", "initial": "review", "states": {"review": state, **OTHERS}}
    return ScriptedWorld(FSMLoop.from_dict(loop), script)


def ends(status: str, reason: str, **more: Any) -> ChildOutcome:
    return ChildOutcome(status, reason, "b", 2, 1000, **more)


PASSED = ends("completed", "terminal")
FAILED = ends("failed", "terminal")
BROKEN = ends("failed", "error")
CRASHED = ends("crashed", "crash")
GATE = ends("needs_review", "review", message="look at it")


# ── which there are ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "items"),
    [
        pytest.param("a.py\nb.py\n", ["a.py", "b.py"], id="lines"),
        pytest.param("\n a b \r\n\t\nc", [" a b ", "c"], id="blank lines"),
        pytest.param("", [], id="nothing"),
        pytest.param(' [1, {"p": "x"}, null]\n', [1, {"p": "x"}, None], id="a JSON array"),
        pytest.param("[]", [], id="an empty array"),
        pytest.param('{"a": 1}', ['{"a": 1}'], id="other JSON is a line"),
        pytest.param("x [1]", ["x [1]"], id="an array at the end of a line"),
        pytest.param("[x]\n[y]", ["[x]", "[y]"], id="lines that look like arrays"),
        pytest.param("[NaN]", ["[NaN]"], id="not JSON"),
        pytest.param("[" * 100_000, ["[" * 100_000], id="too deep"),
        pytest.param("a\x0bb\u2028c", ["a\x0bb\u2028c"], id="only newlines end a line"),
    ],
)
def test_the_items_of_a_text(text, items):
    assert items_in(text) == items


def test_the_combinations_of_a_matrix():
    matrix: dict[str, list[Any]] = {"python": ["3.11", 3.12], "db": ["sqlite", "postgres"]}
    exclude: list[dict[str, Any]] = [{"python": 3.11, "db": "postgres"}, {"db": "oracle"}]
    found = list(combinations(matrix, exclude))
    assert found == [
        {"python": "3.11", "db": "sqlite"},
        {"python": 3.12, "db": "sqlite"},
        {"python": 3.12, "db": "postgres"},
    ]
    branches = Branches(matrix={k: tuple(v) for k, v in matrix.items()}, exclude=tuple(exclude))
    assert written_items(branches) == found
    names = branch_names(branches, found)
    assert names == ("3.11-sqlite", "3.12-sqlite", "3.12-postgres")
    assert branch_values(branches, names[2], 2, found[2]) == {
        "index": 2,
        "name": "3.12-postgres",
        "python": 3.12,
        "db": "postgres",
    }


INHERITED = (
    *("scope", "idle_timeout", "env", "cwd", "shell", "kill_grace"),
    *("host", "fallback", "fallback_on"),
)
EACH = Branches(for_each=("x",), as_="file")


@pytest.mark.parametrize(
    ("items", "names"),
    [
        pytest.param(["src/api.py"], ["src-api.py"], id="a path"),
        pytest.param(["..", "-rf /", "", None], ["item", "rf--", "item-2", "item-3"], id="unsafe"),
        pytest.param([".hidden", 'a"b$(c)'], ["hidden", "a-b--c-"], id="shell"),
        pytest.param(["a", "A", "a", "a-2"], ["a", "A-2", "a-3", "a-2-2"], id="the same"),
        pytest.param([{"path": "a.py", "line": 3}], ["a.py-3"], id="an object"),
        pytest.param([["a", ["b"]], 1.5, True], ["a-b", "1.5", "true"], id="other data"),
        pytest.param(["x" * 200, "x" * 200], ["x" * 80, "x" * 78 + "-2"], id="long"),
        pytest.param(["." * 80 + "x" * 99], ["x" * 80], id="long and unsafe"),
        pytest.param(["." * 160 + "x"], ["item"], id="unsafe for too long"),
        pytest.param(["ä\n"], ["item"], id="other letters"),
    ],
)
def test_the_names_of_branches(items, names):
    assert list(branch_names(EACH, items)) == names


@given(st.lists(st.text(max_size=100), max_size=30))
def test_names_are_safe_and_unique(items):
    names = branch_names(EACH, items)
    assert len({name.lower() for name in names}) == len(items)
    for name in names:
        assert name == safe_name(name)
        assert 0 < len(name) <= LONGEST_NAME
        assert name[0] not in ".-"


def test_named_branches_and_their_values():
    named = {"lint": StateConfig(action="ruff"), "Lint": StateConfig(action="mypy")}
    branches = Branches(named=named)
    state = StateConfig(branches=branches, timeout=5)
    assert branch_names(branches, written_items(branches) or ()) == ("lint", "Lint-2")
    assert branch_step(state, "Lint-2", None).action == "mypy"
    assert branch_step(state, "lint", None).timeout == 5
    own = state._replace(branches=Branches(named={"lint": StateConfig(action="x", timeout=3)}))
    assert branch_step(own, "lint", None).timeout == 3
    limited = state._replace(limits=ChildLimits(max_iterations=5))
    assert branch_step(limited, "lint", None).limits == ChildLimits(max_iterations=5)
    assert branch_values(branches, "lint", 0, None) == {"index": 0, "name": "lint"}


def test_an_item_has_the_name_that_as_gives_it():
    assert branch_values(EACH, "a", 1, {"p": 1}) == {"index": 1, "name": "a", "file": {"p": 1}}


def test_only_so_many():
    assert why_not([1] * MOST_BRANCHES) is None
    assert why_not([1] * (MOST_BRANCHES + 1)) == (
        "more than 1,000 branches, which is the most that a state can have"
    )


def test_the_items_name_the_host():
    of = {"action": "/fix", "host": {"name": "${branch.who}"}}
    state = StateConfig.from_dict({**of, "for_each": ["claude", "codex", "claude"], "as": "who"})
    assert item_hosts(state) == ("claude", "codex")
    assert branch_step(state, "codex", "codex").host == HostOptions("codex")
    over = StateConfig.from_dict({**of, "matrix": {"who": ["claude"], "n": [1, 2]}})
    assert item_hosts(over) == ("claude",)
    assert branch_step(over, "claude-1", {"who": "claude", "n": 1}).host == HostOptions("claude")
    loop = FSMLoop("x", "a", {"a": state, "b": StateConfig(terminal=True)})
    hosts = [each.host.name for _, each in acting_states(loop) if each.host is not None]
    assert hosts == ["claude", "codex"]
    assert item_hosts(StateConfig(host=HostOptions("claude"))) == (None,)
    mixed = StateConfig.from_dict({**of, "for_each": ["claude", 5], "as": "who"})
    assert item_hosts(mixed) == ("claude",)
    model = HostOptions("${branch.who}", model="large")
    loop = FSMLoop("x", "a", {"a": mixed._replace(host=model)})
    assert [each.host for _, each in acting_states(loop)] == [HostOptions("claude", model="large")]


def test_the_loop_of_an_action():
    outer = FSMLoop(
        "x",
        "a",
        {},
        scope=("web",),
        idle_timeout=7.0,
        env={"A": "b"},
        cwd="web",
        shell="bash",
        kill_grace=3.0,
        host=HostOptions("codex"),
        fallback=(HostOptions("claude"),),
        fallback_on=("auth",),
    )
    of_action: dict[str, Any] = {
        "action": "make",
        "action_type": "shell",
        "label": "build",
        "context": {"n": 1},
        "env": {"C": "d"},
        "cwd": "api",
        "shell": "sh",
        "kill_grace": 1.0,
        "idle_timeout": 2.0,
        "host": HostOptions("codex", model="small"),
        "fallback": (),
        "fallback_on": (),
    }
    each = StateConfig(**of_action, condition=ExitCode(), on_pass="done", branches=EACH)
    made = FSMLoop(
        "api.py",
        "run",
        {
            "run": StateConfig(**of_action, on_pass="done", on_fail="failed"),
            "done": StateConfig(terminal=True),
            "failed": StateConfig(terminal=True, outcome="failure"),
        },
        paradigm="branch",
        max_iterations=1,
        evidence=Evidence(enabled=False),
        scope_writes="ignore",
        result={"output": "${captured.run.output:-}"},
        **{field: getattr(outer, field) for field in INHERITED},
    )
    # The condition of `each` judges the branches; that of a named branch judges the branch.
    assert action_loop(outer, each, each, "api.py") == made
    named = each._replace(branches=None)
    act = made.states["run"]._replace(condition=ExitCode())
    judged = made._replace(states={**made.states, "run": act})
    assert action_loop(outer, each, named, "api.py") == judged


def test_the_action_of_a_branch_refers_to_values_that_only_the_engine_knows():
    each = StateConfig.from_dict({**REVIEW, "action": "cat ${branch.item} ${captured.x.output}"})
    loop = action_loop(FSMLoop("x", "a", {"a": each}), each, each, "a")
    run = LoopState("r", "a", "run", "", "", phase="entered")
    assert action_due(loop, run, Moment(0, 0)).shown == "cat ${branch.item} ${captured.x.output}"
    with pytest.raises(Unresolved):
        action_due(loop._replace(paradigm="fsm"), run, Moment(0, 0))


def test_an_agent_is_asked_for_a_verdict_if_that_matters():
    agent = StateConfig(action="/review", next="done", branches=Branches(("a",)))
    outer = FSMLoop("x", "a", {"a": agent})
    act = action_loop(outer, agent, agent, "x").states["run"]
    assert (act.next, asks_verdict(act)) == ("done", None)
    assert (act.on_pass, act.on_fail) == (None, None)
    judged = agent._replace(next=None, on_pass="done", on_fail="bad")
    assert asks_verdict(action_loop(outer, judged, judged, "x").states["run"]) == ("pass", "fail")
    shell = agent._replace(action="make")
    assert action_loop(outer, shell, shell, "x").states["run"].on_fail == "failed"


# ── as data ────────────────────────────────────────────────────────────────────────────────────

INNER = {"name": "x", "initial": "a", "states": {"a": {"action": "/fix", "next": "b"}, "b": ENDS}}


@pytest.mark.parametrize(
    "state",
    [
        {**REVIEW, "as": "file", "max_parallel": 2, "join": "80%", "fail_fast": True},
        {"for_each": "${captured.x.output}", "loop": INNER, "with": {"a": "${branch.item}"}},
        {"for_each": {"glob": "*.py"}, "action": "make", "limits": {"timeout": 5}},
        {"matrix": {"a": [1, 2]}, "exclude": [{"a": 1}], "action": "make", "join": 2},
        {"branches": {"a": {"action": "make"}, "b": {"loop": INNER}}, "next": "done"},
    ],
)
def test_what_is_written_is_read_again(state):
    config = StateConfig.from_dict(state)
    assert config.to_dict() == state
    assert StateConfig.from_dict(config.to_dict()) == config


def loop_of(**state: Any) -> FSMLoop:
    states = {"review": state, **OTHERS}
    return FSMLoop.from_dict({"name": "x", "initial": "review", "states": states})


AGENTS = [
    loop_of(for_each=["a"], action="/fix", next="done"),
    loop_of(for_each=["a"], loop=INNER, next="done"),
    loop_of(branches={"a": {"action": "make"}, "b": {"action": "/fix"}}, next="done"),
    loop_of(branches={"a": {"action": "make"}, "b": {"loop": INNER}}, next="done"),
]


@pytest.mark.parametrize("loop", AGENTS)
def test_an_agent_in_a_branch_is_an_agent_of_the_loop(loop):
    run = LoopState("r", "x", "review", "", "", limits=Limits(max_cost_usd=0.0))
    assert has_agent(loop)
    assert is_observed(loop, run)
    ending = exceeded(loop, run, Moment(0, 0), "review")
    assert ending is not None
    assert ending.reason == "max_cost"


def test_without_an_agent_in_a_branch():
    loop = loop_of(branches={"a": {"action": "make"}}, next="done")
    assert not has_agent(loop)
    assert not is_observed(loop, LoopState("r", "x", "review", "", ""))


def test_the_loops_of_branches_can_be_changed():
    loop = AGENTS[3]
    assert [child.name for child in child_loops(loop)] == ["x"]
    changed = with_child_loops(loop, lambda name, child: child._replace(name=name.upper()))
    assert [child.name for child in child_loops(changed)] == ["REVIEW/B"]


def test_branches_that_run_one_after_the_other_do_not_share_files():
    assert shares_tree(StateConfig(branches=Branches()))
    assert not shares_tree(StateConfig(branches=Branches(max_parallel=1)))
    assert not shares_tree(StateConfig())


# ── stories ────────────────────────────────────────────────────────────────────────────────────


def test_all_of_them_pass():
    of = world(PASSED, "c", PASSED, PASSED)
    run, _ = begin(of)
    assert told(of) == dedent("""\
        a starts
        b starts
        c starts
        a ends: pass (terminal)
        c ends: pass (terminal)
        b ends: pass (terminal)
        join: pass (3 of 3 passed)
        review -> done (on_pass)
        loop_complete: completed, terminal""")
    assert run.captured["review"].branches == BranchCount(3, 3)


def test_so_many_at_a_time():
    of = world(PASSED, FAILED, PASSED, max_parallel=2)
    begin(of)
    assert told(of) == dedent("""\
        a starts
        b starts
        a ends: pass (terminal)
        c starts
        b ends: fail (terminal)
        c ends: pass (terminal)
        join: fail (2 of 3 passed)
        review -> bad (on_fail)
        loop_error: failed, terminal""")


def test_the_first_that_passes_stops_the_others():
    of = world(FAILED, PASSED, join="any", max_parallel=2)
    begin(of)
    assert told(of) == dedent("""\
        a starts
        b starts
        a ends: fail (terminal)
        c starts
        b ends: pass (terminal)
        join: pass (1 of 3 passed, 1 failed; 1 needed)
        c ends: stopped (signal)
        review -> done (on_pass)
        loop_complete: completed, terminal""")


@pytest.mark.parametrize(
    ("script", "late", "join", "reason"),
    [
        pytest.param(
            [PASSED, PASSED], None, "60%", "2 of 3 passed, 1 stopped; 2 needed", id="stops"
        ),
        pytest.param([PASSED, PASSED], PASSED, "60%", "3 of 3 passed; 2 needed", id="passes"),
        pytest.param([PASSED, PASSED], FAILED, "60%", "2 of 3 passed; 2 needed", id="fails"),
        pytest.param(
            [BROKEN, BROKEN],
            None,
            2,
            "0 of 3 passed, 2 failed; 2 needed; the others ended with errors",
            id="errors",
        ),
    ],
)
def test_the_last_count_includes_what_ends_after_the_verdict(script, late, join, reason):
    of = world(*script, join=join, max_parallel=3)
    of.stopped_as = late or of.stopped_as
    begin(of)
    assert [each["reason"] for each in of.log if each["event"] == "action_complete"] == [reason]


def test_fail_fast_stops_the_others():
    of = world(FAILED, fail_fast=True, max_parallel=2)
    begin(of)
    assert told(of) == dedent("""\
        a starts
        b starts
        a ends: fail (terminal)
        join: fail (0 of 3 passed, 1 failed)
        b ends: stopped (signal)
        review -> bad (on_fail)
        loop_error: failed, terminal""")


@pytest.mark.parametrize(
    ("items", "join", "story"),
    [
        pytest.param([], "all", "join: pass (0 of 0 passed)", id="none of all"),
        pytest.param([], "50%", "join: pass (0 of 0 passed; 0 needed)", id="none of a share"),
        pytest.param([], "any", "join: fail (0 of 0 passed; 1 needed)", id="none of any"),
        pytest.param(["a"], 2, "join: fail (0 of 1 passed; 2 needed)", id="too few"),
    ],
)
def test_nothing_starts_if_the_verdict_is_known(items, join, story):
    of = world(for_each="${captured.x.output}", join=join)
    of.branch_items = items
    begin(of)
    assert told(of).splitlines()[0] == story


@pytest.mark.parametrize("handled", [True, False])
def test_branches_that_cannot_be_found_are_an_error(handled):
    of = world(for_each="${captured.x.output}", **({} if handled else {"on_error": None}))
    if not handled:
        state = of.loop.states["review"]._replace(on_error=None)
        of.loop = of.loop._replace(states={**of.loop.states, "review": state})
    of.branch_items = "no such value"
    _, ending = begin(of)
    assert ending.message == ("entered by `on_error`" if handled else "no such value")
    warned = "state `review`: no such value" in str(of.log)
    assert warned == handled


def test_a_branch_that_pauses_lets_the_others_finish():
    of = world(GATE, PASSED, PASSED, max_parallel=1)
    _, ending = begin(of)
    assert (ending.status, ending.message) == ("needs_review", "`review/a`: look at it")
    go_on(of, [PASSED], answered=("a",))
    assert told(of) == dedent("""\
        a starts
        a ends: review (review)
        b starts
        b ends: pass (terminal)
        c starts
        c ends: pass (terminal)
        review interrupted by review, never begun
        loop_paused: needs_review, review
        resume in review
        a continues
        a ends: pass (terminal)
        join: pass (3 of 3 passed)
        review -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_branch_that_pauses_is_not_needed_if_another_passes():
    of = world(GATE, PASSED, join="any", max_parallel=1)
    run, _ = begin(of)
    assert (run.status, run.children) == ("completed", None)


def test_a_branch_without_a_login_stops_all_and_a_resume_continues_them():
    of = world(ends("failed", "auth", message="log in"), max_parallel=2)
    _, ending = begin(of)
    assert (ending.reason, ending.message) == ("auth", "`review/a`: log in")
    go_on(of, [PASSED, PASSED, PASSED])
    assert told(of) == dedent("""\
        a starts
        b starts
        a ends: paused (auth)
        children stop (auth)
        b ends: interrupted (signal)
        review interrupted by auth, never begun
        loop_error: failed, auth
        resume in review
        a continues
        b continues
        a ends: pass (terminal)
        c starts
        b ends: pass (terminal)
        c ends: pass (terminal)
        join: pass (3 of 3 passed)
        review -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_kill_between_the_join_and_the_end_of_the_others():
    whole = world(PASSED, join="any", max_parallel=2)
    begin(whole)
    at = next(n for n, record in enumerate(whole.log) if record["event"] == "join")
    cut(whole, at + 1)
    run, ending = go_on(whole, [])
    assert ending.status == "completed"
    assert run.captured["review"].branches == BranchCount(3, 1)


@pytest.mark.parametrize("outcome", [CRASHED, ends("failed", "auth"), GATE])
def test_what_the_others_do_after_the_join_changes_nothing(outcome, monkeypatch):
    monkeypatch.setattr("tests.fsm.scripted.INTERRUPTED", outcome)
    of = world(PASSED, join="any", max_parallel=2)
    begin(of)
    assert "b ends: stopped" in told(of)
    assert told(of).splitlines()[-1] == "loop_complete: completed, terminal"


def test_a_stop_while_the_others_are_stopped(monkeypatch):
    """The first command that stops the others is answered by a stop of the run."""
    stops = [True]

    def stopped_meanwhile(of: ScriptedWorld, run: LoopState, command: RunChildren) -> Happening:
        if command.stop and stops:
            stops.pop()
            return StopAsked(of.now(), 15)
        return ScriptedWorld.run_children(of, run, command)

    monkeypatch.setitem(PERFORM, RunChildren, stopped_meanwhile)
    of = world(PASSED, join="any", max_parallel=2)
    _, ending = begin(of)
    assert ending.status == "interrupted"
    _, ending = go_on(of, [])
    assert ending.status == "completed"


def test_the_loops_timeout_stops_all():
    loop = world().loop._replace(timeout=10)
    of = ScriptedWorld(loop, [OUT_OF_TIME])
    _, ending = begin(of)
    assert ending.reason == "loop_timeout"
    go_on(of, [PASSED, PASSED, PASSED], limits=Limits(timeout=100))
    assert told(of).splitlines()[-1] == "loop_complete: completed, terminal"


@pytest.mark.parametrize("stop", [OUT_OF_TIME, Stop(15)], ids=["timeout", "stop"])
def test_branches_that_are_stopped_have_no_deadline(stop):
    of = ScriptedWorld(world().loop._replace(timeout=100), [stop])
    begin(of)
    rounds = [each for each in of.commands if isinstance(each, RunChildren)]
    assert [each.deadline_ms for each in rounds] == [100_000, *[None] * (len(rounds) - 1)]
    assert len(rounds) > 1


def test_no_more_branches_share_what_is_left_than_can_run_at_once():
    of = world(PASSED, PASSED, PASSED, max_parallel=2)
    begin(of)
    rounds = [each for each in of.commands if isinstance(each, RunChildren)]
    assert [each.width for each in rounds] == [2, 2, 1]


def test_the_first_that_pauses_decides_how_the_run_pauses():
    second = ends("awaiting_continuation", "handoff", message="later")
    of = world(GATE, second, PASSED, max_parallel=1)
    _, ending = begin(of)
    assert (ending.status, ending.reason, ending.message) == (
        "needs_review",
        "review",
        "`review/a`: look at it",
    )


def test_a_gate_that_nobody_answered_decides_how_the_run_pauses_again():
    """Not the branch that paused first: it has continued."""
    first = ends("awaiting_continuation", "handoff", message="later")
    of = world(first, GATE, PASSED, max_parallel=1)
    assert begin(of)[1].reason == "handoff"
    _, ending = go_on(of, [PASSED])
    assert (ending.status, ending.reason, ending.message) == (
        "needs_review",
        "review",
        "`review/b`",
    )


def test_a_condition_judges_what_all_of_them_did():
    condition = {"type": "output_contains", "pattern": '"fail"', "negate": True}
    of = world(FAILED, PASSED, PASSED, condition=condition, max_parallel=1)
    begin(of)
    assert told(of).splitlines()[-3:] == [
        "join: fail (2 of 3 passed)",
        "review -> bad (on_fail)",
        "loop_error: failed, terminal",
    ]
    state = StateConfig.from_dict({**REVIEW, "condition": {"type": "exit_code"}, "join": "any"})
    assert rule_of(state) == JoinRule()


def test_a_run_can_be_resumed_from_any_prefix_of_its_log():
    for script, fields in (
        ([PASSED, PASSED, PASSED], {}),
        ([CRASHED, PASSED, PASSED, PASSED], {"max_parallel": 1}),
        ([FAILED, PASSED], {"join": "any", "max_parallel": 1}),
        ([FAILED], {"fail_fast": True}),
    ):
        whole = world(*script, **fields)
        begin(whole)
        for count in range(1, len(whole.log)):
            again = world(*script, **fields)
            begin(again)
            cut(again, count)
            ended = sum(r["event"] == "child_end" and r["stage"] != "stopped" for r in again.log)
            go_on(again, script[ended:])
            assert told(again).splitlines()[-1] == told(whole).splitlines()[-1]


def test_after_a_crash_all_continue():
    of = world(PASSED, Crash, max_parallel=2)
    crash_and_go_on(of, [PASSED, PASSED])
    assert told(of) == dedent("""\
        a starts
        b starts
        a ends: pass (terminal)
        c starts
        resume in review
        review interrupted by crash
        b continues
        c continues
        b ends: pass (terminal)
        c ends: pass (terminal)
        join: pass (3 of 3 passed)
        review -> done (on_pass)
        loop_complete: completed, terminal""")


JOINS = ("all", "any", 1, 2, 3, 5, "50%", "67%", "100%")
OUTCOMES = [PASSED, FAILED, ends("failed", "error"), ends("failed", "loop_timeout")]


@settings(max_examples=60)
@given(
    st.sampled_from(JOINS),
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.sampled_from(OUTCOMES), max_size=5),
    st.lists(st.booleans(), max_size=3),
)
def test_whatever_happens_a_state_is_judged_once_by_its_table(join, wide, fast, outcomes, stops):
    """Branches end, and the run is stopped and resumed in between: each branch that has ended stays
    so, the join is decided once, and as the table says."""
    script: list[Any] = list(outcomes)
    for at, is_stop in enumerate(stops):
        if is_stop:
            script.insert(min(2 * at, len(script)), Stop(15))
    of = world(
        *script,
        for_each=list("abcde"[: len(outcomes)]),
        join=join,
        max_parallel=wide,
        fail_fast=fast,
    )
    _, ending = begin(of)
    while ending.status == "interrupted":
        _, ending = go_on(of, list(of.script))
    story = told(of).splitlines()
    joined = [line for line in story if line.startswith("join: ")]
    assert len(joined) == 1
    for name in "abcde":
        ended = [line for line in story if line.startswith(f"{name} ends: ")]
        final = [line for line in ended if "interrupted" not in line]
        assert len(final) <= 1
    stages = [line.split()[2] for line in story if " ends: " in line]
    passed = stages.count("pass")
    total = len(outcomes)
    verdict = joined[0].split()[1]
    assert (verdict == "pass") == (passed >= needed(join, total))
    if verdict == "error":
        assert not passed


ENDINGS = (
    *(("completed", "terminal"), ("failed", "terminal"), ("failed", "error")),
    *(("failed", "stalled"), ("failed", "loop_timeout")),
)


@given(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=4), st.sampled_from(JOINS))
def test_the_ending_of_a_tree_with_branches_is_what_the_tables_give(endings, join):
    items = list("abcd"[: len(endings)])
    of = world(*[ends(*each) for each in endings], for_each=items, join=join, max_parallel=1)
    _, last = begin(of)
    passed = sum(outcome_of_ending(*each) == "pass" for each in endings)
    assert (last.status == "completed") == (passed >= needed(join, len(endings)))


# ── their results ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stage", "outcome", "verdict", "reason"),
    [
        pytest.param("pass", PASSED, "pass", "b", id="passed"),
        pytest.param(
            "fail", ends("failed", "stalled", message="3 times"), "fail", "3 times", id="failed"
        ),
        pytest.param("error", CRASHED, "error", "crash", id="crashed"),
        pytest.param("stopped", PASSED, "stopped", "no longer needed", id="stopped"),
        pytest.param("interrupted", CRASHED, "stopped", "no longer needed", id="killed"),
        pytest.param("waiting", None, "stopped", "not started", id="never begun"),
    ],
)
def test_what_is_said_about_a_branch(stage, outcome, verdict, reason):
    assert report_of(BranchReport("a", {"p": 1}, stage, outcome, {"n": "1"})) == {
        "name": "a",
        "item": {"p": 1},
        "verdict": verdict,
        "reason": reason,
        "result": {"n": "1"},
        "cost_usd": 0.0,
        "duration_ms": 0 if outcome is None else 1000,
    }


def test_the_numbers_of_a_result():
    values = result_values(Result(0, 5, "[]", cost_usd=0.5, branches=BranchCount(3, 1)))
    numbers = {name: values[name] for name in ("total", "passed", "failed", "cost_usd")}
    assert numbers == {"total": 3, "passed": 1, "failed": 2, "cost_usd": 0.5}


# ── recordings ─────────────────────────────────────────────────────────────────────────────────


def asked(*events: Any) -> Any:
    entries = [Entry(event, 1, 1, "r", n) for n, event in enumerate(events, 1)]
    run = LoopState("r", "many", "review", "", "")
    return Recording(entries).answer(world().loop, run, FindBranches("review", 1, 1))


def test_what_a_recording_says_about_branches():
    after = TransitionTaken("review", "broken", "on_error")
    found = asked(RunWarning("other"), RunWarning("state `review`: why", "review"), after)
    assert isinstance(found, BranchesFound)
    assert found.problem == "why"
    error = LoopError("failed", "error", "review", 1, 1, "review", "why")
    assert asked(error).problem == "why"
    assert asked(ActionStart("make", "review", 1, "loop")).names == ()  # killed right then
    with pytest.raises(Unexpected):
        asked(StateEnter("x", 1, 1, ""))


def test_every_stage_has_words():
    from little_loops.reporting.lines import BRANCH_ENDS

    assert set(BRANCH_ENDS) == set(get_args(Stage))
