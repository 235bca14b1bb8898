"""`ll-loop cost`: what agents have cost."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.ledger import AgentTurn, Line, Reservation, VerifiedPass
from little_loops.spending.ledger import append, read
from little_loops.system.clock import wall_ms
from tests.project import Project
from tests.receipts.kept_run import KeptProject

HOUR_MS = 3_600_000
LOOP = """\
name: fix
initial: check
host: {permission_mode: acceptEdits}
max_iterations: 3
states:
  check: {action: "test -e fixed", check: true, on_pass: done, on_fail: repair}
  repair: {action: "Fix it", action_type: prompt, next: check}
  done: {terminal: true}
"""


def add(project: Project, *lines: Line) -> None:
    append(project.environ(), *lines)


def turn(number: int, **more: Any) -> AgentTurn:
    at_ms = wall_ms() - HOUR_MS
    plain = AgentTurn(f"r/{number}/1", at_ms, "/a/shop", "fix-types", "r", "claude", "opus", 1000)
    return plain._replace(**{"cost_usd": 1.0, **more})


def test_no_agent_has_run(project: Project) -> None:
    assert project.ll("cost").stdout == "no agent has run in the last 7 days\n"
    assert not (project.home / ".local").exists()


def test_a_chart_by_loop(project: Project) -> None:
    passed = VerifiedPass(wall_ms(), "/a/shop", "fix-types", "r")
    docs = {"loop": "docs", "run": "s", "tokens": 120_000}
    add(project, turn(1, cost_usd=6.0), turn(2, cost_usd=2.0, estimated=True), passed)
    add(project, turn(3, cost_usd=2.05, **docs), turn(4, cost_usd=None, host="codex", **docs))
    add(project, Reservation("r/5/1", wall_ms(), "/a/shop", "fix-types", "r", 1.5))
    assert project.ll("cost").stdout == dedent("""\
        LOOP       COST                         TURNS  TOKENS  PASSES  PER PASS
        fix-types  $8.00  ████████████████████  2      2k      1       $8.00
        docs       $2.05  █████                 2      240k    –       –

        $10.05 in the last 7 days: 4 turns, 242k tokens
        $2.00 of this is estimated
        the cost of 1 turn is unknown
        $1.50 more is reserved for turns that have not reported an end
        1 verified pass, for $10.05
        """)


def test_several_passes_have_a_price_each(project: Project) -> None:
    passes = [VerifiedPass(wall_ms(), "/a/shop", "fix-types", run) for run in ("r", "s")]
    add(project, turn(1, cost_usd=6.0), *passes)
    assert project.ll("cost").stdout.splitlines()[-1] == "2 verified passes, $3.00 each"


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("loop", ["shop: fix-types", "blog: fix-types"]),
        ("project", ["/a/shop", "/a/blog"]),
        ("host", ["claude", "codex"]),
        ("model", ["opus", "–"]),
    ],
)
def test_what_is_added_up(project: Project, by: str, names: list[str]) -> None:
    add(project, turn(1), turn(2, project="/a/blog", host="codex", model=None, cost_usd=0.5))
    rows = project.ll("cost", "--by", by).stdout.splitlines()[1:3]
    assert [re.split("  +", row)[0] for row in rows] == names


def test_days_are_in_their_order(project: Project) -> None:
    day_ms = 24 * HOUR_MS
    add(project, turn(1, at_ms=wall_ms() - day_ms, cost_usd=9.0), turn(2, at_ms=wall_ms()))
    shown = project.ll("cost", "--by", "day", "--json", "--since", "3d")
    days = [group["name"] for group in json.loads(shown.stdout)["groups"]]
    assert len(days) == 2
    assert days == sorted(days)


def test_older_turns_are_left_out(project: Project) -> None:
    add(project, turn(1), turn(2, at_ms=wall_ms() - 3 * HOUR_MS))
    shown = project.ll("cost", "--since", "2h").stdout
    assert shown.splitlines()[-1] == "$1.00 in the last 2h: 1 turn, 1k tokens"


def test_the_document(project: Project) -> None:
    add(project, turn(1))
    total = {
        "turns": 1,
        "tokens": 1000,
        "cost_usd": 1.0,
        "estimated_usd": 0.0,
        "unknown": 0,
        "passes": 0,
        "usd_per_pass": None,
    }
    assert json.loads(project.ll("cost", "--json").stdout) == {
        "schema": 1,
        "since_s": 604_800.0,
        "by": "loop",
        "groups": [{"name": "fix-types", **total}],
        "total": {"name": "", **total},
        "reserved_usd": 0.0,
    }


# ── what runs write ────────────────────────────────────────────────────────────────────────────


def agent(directory: Path, script: str) -> Path:
    """A stand-in for `claude` that does this and reports a dollar and twelve cents."""
    stream = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "opus-9"},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 1,
            "result": "ok",
            "total_cost_usd": 1.12,
            "usage": {"input_tokens": 10, "output_tokens": 5},
            "session_id": "s",
        },
    ]
    directory.mkdir()
    (directory / "stream").write_text("".join(json.dumps(each) + "\n" for each in stream))
    path = directory / "claude"
    path.write_text(f'#!/bin/sh\ncat > /dev/null\n{script}\ncat "{directory}/stream"\n')
    path.chmod(0o755)
    return path


def with_agent(project: Project, script: str) -> dict[str, str]:
    agent(project.home / "bin", script)
    return {"PATH": f"{project.home}/bin:{project.environ()['PATH']}"}


def test_a_run_records_its_turns_and_its_verified_pass(project: Project) -> None:
    project.git("init", "-q")
    project.loop("fix", LOOP)
    done = project.ll("run", "fix", env=with_agent(project, "touch fixed"))
    assert done.returncode == 0, done.stderr
    spent, passed = read(project.environ(), 0)
    run = project.state("fix")["run"]
    assert isinstance(spent, AgentTurn)
    assert spent._replace(at_ms=0) == AgentTurn(
        f"{run}/2/1", 0, str(project.root), "fix", run, "claude", "opus-9", 15, 1.12
    )
    assert isinstance(passed, VerifiedPass)
    assert passed.run == run


def test_a_turn_whose_runner_was_killed_is_recorded_when_it_is_resumed(project: Project) -> None:
    project.loop("fix", LOOP)
    kill = '[ -e "$HOME/killed" ] || { touch "$HOME/killed"; kill -9 $PPID; sleep 600; }'
    env = with_agent(project, f"{kill}\ntouch fixed")
    project.ll("run", "fix", env=env)
    assert read(project.environ(), 0) == []
    assert project.ll("resume", "fix", env=env).returncode == 0
    turns = [line for line in read(project.environ(), 0) if isinstance(line, AgentTurn)]
    shown = [(line.id.partition("/")[2], line.cost_usd, line.estimated) for line in turns]
    assert shown == [("2/1", 0.1, True), ("2/2", 1.12, False)]


def test_a_ledger_that_cannot_be_written_does_not_stop_a_run(project: Project) -> None:
    project.loop("fix", LOOP)
    (project.home / "state").mkdir()
    (project.home / "state" / "little-loops").mkdir()
    (project.home / "state" / "little-loops" / "ledger").write_text("a file")
    env = {**with_agent(project, "touch fixed"), "XDG_STATE_HOME": str(project.home / "state")}
    assert project.ll("run", "fix", env=env).returncode == 0
    (warning,) = (each for each in project.events("fix") if each["event"] == "warning")
    assert warning["message"] == (
        "the cost of this turn was not recorded: "
        f"cannot make `{project.home}/state/little-loops/ledger`: file exists"
    )


def test_a_loop_without_agents_has_no_ledger(project: Project) -> None:
    project.loop("plain", "check: 'true'\nfix: 'true'\n")
    assert project.ll("run", "plain").returncode == 0
    assert not (project.home / ".local" / "state" / "little-loops" / "ledger").exists()


def test_a_turn_in_a_worktree_counts_for_its_project(tmp_path: Path) -> None:
    kept = KeptProject(tmp_path)
    done = kept.ll("run", "fix", "--worktree")
    assert done.returncode == 0, done.stderr
    turns = [line for line in read(kept.environ(), 0) if isinstance(line, AgentTurn)]
    assert {line.project for line in turns} == {os.path.realpath(kept.root)}
