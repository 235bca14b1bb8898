"""Budgets: what a run does when there is no money left, and what it writes down."""

from __future__ import annotations

import json
import re
import shlex
from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.ledger import AgentTurn, OverBudget, Reservation, account
from little_loops.spending.ledger import append, read
from little_loops.system.clock import wall_ms
from tests.project import Project, noon_zone, until

LOOP = """\
name: fix
initial: check
max_iterations: 5
host: {permission_mode: acceptEdits}
states:
  check: {action: "test -e fixed", on_pass: done, on_fail: repair}
  repair: {action: "Fix it", action_type: prompt, next: check}
  done: {terminal: true}
"""


def ended(cost_usd: float, **more: Any) -> list[dict[str, Any]]:
    """The events of a turn of `claude` that cost so much."""
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 1,
        "result": "ok",
        "total_cost_usd": cost_usd,
        "session_id": "s",
    }
    return [{"type": "system", "subtype": "init", "session_id": "s"}, {**result, **more}]


def write_agent(project: Project, *parts: str) -> dict[str, str]:
    """A stand-in for `claude` that writes its arguments down and then does this."""
    folder = project.home / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / "claude"
    lines = ["#!/bin/sh", "cat > /dev/null", 'echo "$@" >> "$HOME/calls"', *parts]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{project.environ()['PATH']}", "TZ": noon_zone()}


def says(stream: list[dict[str, Any]]) -> str:
    return f"printf '%s\\n' {' '.join(shlex.quote(json.dumps(each)) for each in stream)}"


def write_budget(project: Project, text: str, *, of_project: bool = False) -> None:
    folder = project.root / ".loops" if of_project else project.home / ".config" / "little-loops"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (".config.yaml" if of_project else "config.yaml")).write_text(f"budget: {text}\n")


def spend(project: Project, usd: float, at_ms: int | None = None, name: str = "/other") -> None:
    at_ms = wall_ms() if at_ms is None else at_ms
    turn = AgentTurn(f"x/{usd}/{at_ms}", at_ms, name, "docs", "x", "claude", None, 5, usd)
    append(project.environ(), turn)


def limits_given(project: Project) -> list[str]:
    words = (project.home / "calls").read_text().split()
    return [word for word in words if word.startswith("--max-budget-usd")]


@pytest.fixture
def fixing(project: Project) -> Project:
    project.loop("fix", LOOP)
    return project


def test_what_is_reserved_is_the_limit_of_the_program(fixing: Project) -> None:
    write_budget(fixing, "{day: 20}")
    env = write_agent(fixing, "touch fixed", says(ended(0.25)))
    assert fixing.ll("run", "fix", env=env).returncode == 0
    assert limits_given(fixing) == ["--max-budget-usd=2.000000"]
    reservation, turn = read(fixing.environ(), 0)
    assert isinstance(reservation, Reservation)
    assert (reservation.usd, isinstance(turn, AgentTurn)) == (2.0, True)
    assert [each.cost_usd for each in account([reservation, turn]).turns] == [0.25]


def test_a_spent_budget_pauses_the_run_until_somebody_decides(fixing: Project) -> None:
    write_budget(fixing, "{day: 20}")
    env = write_agent(fixing, "touch fixed", says(ended(0.25)))
    spend(fixing, 19.0)
    done = fixing.ll("run", "fix", env=env)
    assert done.returncode == 4
    assert done.stdout.splitlines()[-1].startswith(
        "Loop paused: $19.00 of $20 per day is already spent or reserved, and the next turn may cost $2.00 ("
    )
    assert not (fixing.home / "calls").exists()
    state = fixing.state("fix")
    assert (state["status"], state["reason"]) == ("needs_review", "budget")
    refused = fixing.ll("approve", "fix")
    assert refused.returncode == 2
    assert refused.stderr == dedent("""\
        error: `fix` is paused (budget), not waiting for an answer
           = help: `ll-loop resume fix` continues it
        """)
    # Nothing has changed, so it pauses again; nothing is reserved meanwhile.
    assert fixing.ll("resume", "fix", env=env).returncode == 4
    assert account(read(fixing.environ(), 0)).reservations == ()
    assert fixing.ll("resume", "fix", "--over-budget", env=env).returncode == 0
    kinds = [type(line).__name__ for line in read(fixing.environ(), 0)]
    assert kinds == ["AgentTurn", "OverBudget", "Reservation", "AgentTurn"]
    assert any(isinstance(line, OverBudget) for line in read(fixing.environ(), 0))


def test_over_budget_holds_for_one_resume(fixing: Project) -> None:
    write_budget(fixing, "{day: 5, turn: 1}")
    spend(fixing, 5.0)
    stop = 'kill -TERM "$PPID"; sleep 600'
    env = write_agent(fixing, f'[ -e "$HOME/again" ] || {{ touch "$HOME/again"; {stop}; }}')
    assert fixing.ll("run", "fix", env=env).returncode == 4
    assert fixing.ll("resume", "fix", "--over-budget", env=env).returncode == 128 + 15
    assert fixing.ll("resume", "fix", env=env).returncode == 4


def test_a_project_lowers_the_budget_for_its_own_turns(fixing: Project) -> None:
    write_budget(fixing, "{day: 20}")
    write_budget(fixing, "{day: 2, turn: 0.5}", of_project=True)
    env = write_agent(fixing, "touch fixed", says(ended(0.25)))
    spend(fixing, 10.0)
    spend(fixing, 1.75, name=str(fixing.root))
    done = fixing.ll("run", "fix", env=env)
    assert done.returncode == 4
    assert "$1.75 of $2 per day in this project is already spent or reserved" in done.stdout


def test_a_turn_that_is_ended_at_its_limit_is_no_error(fixing: Project) -> None:
    write_budget(fixing, "{day: 20, turn: 1}")
    at_limit = ended(1.05, subtype="error_max_budget_usd", is_error=True, result="")
    first = f"[ -e begun ] || {{ touch begun; {says(at_limit)}; exit 1; }}"
    env = write_agent(fixing, first, "touch fixed", says(ended(0.25)))
    done = fixing.ll("run", "fix", env=env)
    assert done.returncode == 0, done.stdout
    costs = [turn.cost_usd for turn in account(read(fixing.environ(), 0)).turns]
    assert costs == [1.05, 0.25]


def test_a_turn_that_reports_nothing_costs_what_was_reserved(fixing: Project) -> None:
    write_budget(fixing, "{day: 20, turn: 1}")
    kill = '[ -e "$HOME/killed" ] || { touch "$HOME/killed"; kill -9 $PPID; sleep 600; }'
    env = write_agent(fixing, kill, "touch fixed", says(ended(0.25)))
    fixing.ll("run", "fix", env=env)
    (reserved,) = account(read(fixing.environ(), 0)).reservations
    assert reserved.usd == 1.0
    assert fixing.ll("resume", "fix", env=env).returncode == 0
    turns = account(read(fixing.environ(), 0)).turns
    assert [(turn.cost_usd, turn.estimated) for turn in turns] == [(1.0, True), (0.25, False)]


def test_launches_per_hour_are_waited_for(fixing: Project) -> None:
    write_budget(fixing, "{launches_hour: 1}")
    env = write_agent(fixing, "touch fixed", says(ended(0.25)))
    spend(fixing, 0.0)
    with fixing.started("run", "fix", env=env) as run:
        events = fixing.running("fix", ".events.jsonl")
        until(lambda: events.exists() and "agent_wait" in events.read_text(), "wait")
        assert fixing.ll("stop", "fix").returncode == 0
        said, _ = run.communicate()
    assert re.search(
        "waiting (1h 00m|5[0-9]m [0-9]+s): 1 agent has started in the last hour; the limit is 1",
        said,
    )
    assert not (fixing.home / "calls").exists()


def test_when_reached_it_may_wait_for_the_next_day(fixing: Project) -> None:
    write_budget(fixing, "{day: 1, when_reached: wait}")
    env = write_agent(fixing, says(ended(0.25)))
    spend(fixing, 1.0)
    with fixing.started("run", "fix", env=env) as run:
        events = fixing.running("fix", ".events.jsonl")
        until(lambda: events.exists() and "agent_wait" in events.read_text(), "wait")
        assert fixing.ll("stop", "fix").returncode == 0
        run.communicate()
    (wait,) = [each for each in fixing.events("fix") if each["event"] == "agent_wait"]
    assert wait["until_wall_ms"] > wall_ms()


def test_it_waits_while_others_hold_reservations(fixing: Project) -> None:
    """The first one has reserved all of it, and costs less."""
    fixing.loop("other", LOOP.replace("name: fix", "name: other\nscope: [other]"))
    fixing.loop("fix", LOOP.replace("name: fix", "name: fix\nscope: [fix]"))
    for name in ("fix", "other"):
        (fixing.root / name).mkdir()
    write_budget(fixing, "{day: 1, turn: 1}")
    hold = 'n=0; until [ -e "$HOME/go" ] || [ $n -ge 1200 ]; do n=$((n+1)); sleep 0.05; done'
    env = write_agent(fixing, hold, "touch fixed", says(ended(0.0)))
    with fixing.started("run", "fix", env=env) as first:
        until((fixing.home / "calls").exists, "first agent")
        with fixing.started("run", "other", env=env) as second:
            events = fixing.running("other", ".events.jsonl")
            until(lambda: events.exists() and "agent_wait" in events.read_text(), "wait")
            (fixing.home / "go").touch()
            said, _ = second.communicate()
            first.communicate()
    assert (first.returncode, second.returncode) == (0, 0), said
    assert "$1.00 is reserved for turns that have not ended" in said


def test_a_wrong_budget_is_refused_before_anything_runs(fixing: Project) -> None:
    write_budget(fixing, "{day: -1}")
    done = fixing.ll("run", "fix")
    assert done.returncode == 2
    assert done.stderr == dedent(f"""\
        error: `{fixing.home}/.config/little-loops/config.yaml`: `budget.day` must be an amount in US dollars, more than 0
           = help: budget: {{day: 20, week: 80, launches_hour: 30, turn: 1, when_reached: pause}}
        """)


# ── sessions that a handoff starts ─────────────────────────────────────────────────────────────

SPAWNS = """\
name: port
initial: work
on_handoff: spawn
host: {permission_mode: plan}
states:
  work: {action: "/port it", next: done}
  done: {terminal: true}
"""
HANDS_OFF = """\
case $* in
*--max-turns*) exec ll-loop resume port --background ;;
esac
"""


@pytest.fixture
def porting(project: Project) -> Project:
    """A loop whose agent hands off in its first turn; each of its turns costs $0.50."""
    project.loop("port", SPAWNS)
    return project


def write_porting_agent(project: Project) -> dict[str, str]:
    begun, *rest = ended(0.5)
    text = {"type": "text", "text": "CONTEXT_HANDOFF: cli.py is left"}
    message = {"type": "assistant", "message": {"id": "m", "content": [text]}, "session_id": "s"}
    first = says([begun, message, *rest])
    second = says(ended(0.5))
    turn = f'if [ -e "$HOME/called" ]; then {second}; else touch "$HOME/called"; {first}; fi'
    return write_agent(project, HANDS_OFF, turn)


@pytest.mark.parametrize(
    ("budget", "may_cost", "reserved"),
    [
        pytest.param("{day: 20}", "0.250000", 0.25, id="less than a turn"),
        pytest.param("{day: 20, turn: 0.1}", "0.100000", 0.1, id="as much as a turn"),
    ],
)
def test_a_session_reserves_what_it_may_cost(
    porting: Project, budget: str, may_cost: str, reserved: float
) -> None:
    write_budget(porting, budget)
    env = write_porting_agent(porting)
    assert porting.ll("run", "port", env=env).returncode == 4
    until(lambda: porting.has_event("port", "loop_complete"), "end of the run")
    assert limits_given(porting)[1] == f"--max-budget-usd={may_cost}"
    lines = [
        line for line in read(porting.environ(), 0) if getattr(line, "id", "")[-7:] == "session"
    ]
    reservation, turn = lines
    assert isinstance(reservation, Reservation)
    assert isinstance(turn, AgentTurn)
    assert (reservation.usd, turn.cost_usd, turn.estimated) == (reserved, reserved, True)
    spent = account(read(porting.environ(), 0))
    assert spent.reservations == ()
    assert [each.cost_usd for each in spent.turns] == [0.5, reserved, 0.5]
    # The run has paid as much for it as the budget has.
    assert porting.state("port")["costs"]["work"]["cost_usd"] == pytest.approx(1 + reserved)


def test_a_session_does_not_start_without_money(porting: Project) -> None:
    write_budget(porting, "{day: 2, turn: 0.5}")
    spend(porting, 1.4)
    env = write_porting_agent(porting)
    done = porting.ll("run", "port", env=env)
    assert done.returncode == 4
    assert done.stdout.splitlines()[-1].startswith(
        "Loop paused: $1.90 of $2 per day is already spent or reserved, and the next turn may cost $0.25 ("
    )
    state = porting.state("port")
    assert (state["status"], state["reason"]) == ("needs_review", "budget")
    assert len(limits_given(porting)) == 1
    assert account(read(porting.environ(), 0)).reservations == ()
    # The notes of the first session are still there for whoever resumes.
    assert porting.ll("resume", "port", "--over-budget", env=env).returncode == 0


def test_a_session_is_a_start_and_waits_for_its_hour(porting: Project) -> None:
    write_budget(porting, "{launches_hour: 1}")
    env = write_porting_agent(porting)
    with porting.started("run", "port", env=env) as child:
        until(lambda: porting.has_event("port", "agent_wait"), "wait")
        child.terminate()
        assert child.wait(timeout=30) == 143
    assert len((porting.home / "calls").read_text().splitlines()) == 1
    assert porting.state("port")["status"] == "interrupted"


def test_a_session_that_cannot_start_gives_its_reservation_back(porting: Project) -> None:
    write_budget(porting, "{day: 20}")
    env = write_porting_agent(porting)
    program = porting.home / "bin" / "claude"
    program.write_text(program.read_text() + 'rm -f "$0"\n')
    done = porting.ll("run", "port", env=env)
    assert "cannot start a session to continue the run" in done.stderr
    spent = account(read(porting.environ(), 0))
    assert (len(spent.turns), spent.reservations) == (1, ())


def test_turns_in_worktrees_count_for_the_budget_of_their_project(project: Project) -> None:
    """Each branch works in a directory of its own, but the money is the project's."""
    project.loop(
        "many",
        """\
        name: many
        initial: each
        host: {permission_mode: acceptEdits}
        states:
          each:
            for_each: [a, b, c]
            action: Fix ${branch.item}
            action_type: prompt
            max_parallel: 1
            worktree: {merge: none}
            on_pass: done
            on_fail: done
          done: {terminal: true}
        """,
    )
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    write_budget(project, "{day: 1, turn: 0.5}", of_project=True)
    more = write_agent(project, says(ended(0.5)))
    done = project.ll("run", "many", env=more)
    turns = account(read(project.environ(), 0)).turns
    assert {turn.project for turn in turns} == {str(project.root)}
    assert len(turns) == 2, done.stdout + done.stderr
