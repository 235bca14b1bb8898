"""States with branches, with real processes: values, results, stops, kills, gates, limits."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engine.test_budget import ended, says, write_agent
from tests.project import Project, until

HEAD = "initial: all\nstates:\n  all:\n"
TAIL = """\
    on_pass: done
    on_fail: bad
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""
GO = "until [ -e go ]; do sleep 0.02; done"


def loop(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + TAIL


def trace(project: Project) -> list[str]:
    return project.file("trace").split()


def reports(project: Project, name: str = "many") -> list[dict[str, Any]]:
    """The output of the state `all`."""
    found: list[dict[str, Any]] = json.loads(project.state(name)["captured"]["all"]["output"])
    return found


def verdicts(project: Project) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in reports(project)}


def folder(project: Project, child: str) -> Path:
    return project.root / f".loops/.running/many.d/runs/00001-1-{child}"


def pid_of(project: Project, child: str) -> int:
    path = folder(project, child) / "run.pid"
    text = until(lambda: path.exists() and path.read_text(), f"pid of {child}")
    return int(text.splitlines()[0])


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left_of(project: Project) -> list[str]:
    """Processes of this project that are still there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LL_RUN_DIR", "").startswith(str(project.root)):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


# ── what they run ──────────────────────────────────────────────────────────────────────────────


def test_the_lines_of_branches(project: Project):
    project.loop(
        "many",
        loop(
            "branches:",
            '  lint: {action: "echo fine"}',
            '  types: {action: "echo wrong; exit 1"}',
            "  tests:",
            "    loop: {initial: a, states: {a: {action: echo in, next: b}, b: {terminal: true}}}",
            "max_parallel: 1",
        ),
    )
    said = project.ll("run", "many")
    assert said.returncode == 1
    lines = re.sub(r" \([0-9.]+s\)", "", said.stdout).splitlines()
    assert lines == [
        "[1/50] all → running lint, types, tests...",
        "       3 branches",
        "[all/lint] ✓ passed",
        "[all/types]        ✗ wrong (exit 1)",
        "[all/types] ✗ failed",
        "[all/tests] [1/50] a → running echo in...",
        "[all/tests]        ✓ in (exit 0)",
        "[all/tests]        → b",
        "[all/tests] ✓ passed",
        "       ✗ 2 of 3 passed",
        "       → bad (on_fail)",
        "",
        lines[-1],
    ]
    assert lines[-1].startswith("Loop failed")


def test_each_item_and_what_it_may_refer_to(project: Project):
    text = loop(
        'for_each: "${captured.list.output}"',
        "as: file",
        "context: {way: to}",
        "env: {F: '${branch.file}'}",
        "action: >-",
        '  echo "$F ${context.way} ${captured.list.exit_code} ${branch.index} ${branch.name}'
        ' ${state.name} ${loop.name}" >> trace',
        "max_parallel: 1",
    ).replace(
        "initial: all\nstates:\n", "initial: list\nstates:\n  list: {action: LIST, next: all}\n"
    )
    items = "printf '%s\\n' 'a b' '$(touch no)' ''"
    project.loop("many", text.replace("LIST", f'"{items}"'))
    assert project.ll("run", "many").returncode == 0
    assert project.file("trace").splitlines() == [
        "a b to 0 0 a-b all many",
        "$(touch no) to 0 1 touch-no- all many",
    ]
    assert not (project.root / "no").exists()


def test_what_is_reported_of_each(project: Project):
    inner = (
        "{context: {n: 0}, result: {twice: '${captured.a.output}'}, initial: a, states:"
        " {a: {action: 'echo ${context.n}${context.n}', next: b}, b: {terminal: true}}}"
    )
    project.loop(
        "many",
        loop("for_each: [{n: 1}, {n: 2}]", f"loop: {inner}", "with: {n: '${branch.item.n}'}"),
    )
    assert project.ll("run", "many").returncode == 0
    found = reports(project)
    assert [each.pop("duration_ms") > 0 for each in found] == [True, True]
    assert found == [
        {
            "name": name,
            "item": {"n": int(name)},
            "verdict": "pass",
            "reason": "b",
            "result": {"twice": name * 2},
            "cost_usd": 0,
        }
        for name in ("1", "2")
    ]


def test_the_files_of_a_pattern(project: Project):
    for name in ("b.py", "a.py", "c.txt", "deep/d.py"):
        path = project.root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    project.loop("many", loop('for_each: {glob: "src/**/*.py"}', "action: echo ${branch.item}"))
    assert project.ll("run", "many").returncode == 0
    assert [each["item"] for each in reports(project)] == ["src/a.py", "src/b.py", "src/deep/d.py"]


@pytest.mark.parametrize("pattern", ["../*", "/etc/*"])
def test_a_pattern_that_leads_out_of_the_project(project: Project, pattern: str):
    project.loop("many", loop(f'for_each: {{glob: "{pattern}"}}', "action: echo ${branch.item}"))
    said = project.ll("run", "many")
    assert said.returncode == 1
    assert f"`{pattern}` is outside the project" in said.stdout


def test_more_than_a_state_can_have(project: Project):
    text = loop('for_each: "${env.ITEMS}"', "action: echo ${branch.item}")
    project.loop("many", text)
    said = project.ll("run", "many", env={"ITEMS": "x\n" * 1001})
    assert said.returncode == 1
    assert "more than 1,000 branches" in said.stdout
    assert not (project.root / ".loops/.running/many.d/runs").exists()


def test_a_branch_inside_a_branch(project: Project):
    inner = (
        "{initial: b, states: {b: {for_each: [x, y], action: 'echo ${branch.item} >> trace',"
        " max_parallel: 1, next: c}, c: {terminal: true}}}"
    )
    project.loop("many", loop("for_each: [p]", f"loop: {inner}"))
    said = project.ll("run", "many")
    assert said.returncode == 0
    assert trace(project) == ["x", "y"]
    assert "[all/p/b/x] ✓ passed" in said.stdout
    assert project.ll("status", "many/all/p/b/y").returncode == 0


# ── who is stopped ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "exit_code", "expected"),
    [
        pytest.param(
            ("join: any",), 0, {"quick": "pass", "slow": "stopped", "late": "stopped"}, id="any"
        ),
        pytest.param(
            ("fail_fast: true", "join: all"),
            1,
            {"quick": "fail", "slow": "stopped", "late": "stopped"},
            id="fail fast",
        ),
    ],
)
def test_the_rest_is_stopped_and_nothing_is_left(project: Project, fields, exit_code, expected):
    ends = "exit 1" if exit_code else "true"
    project.loop(
        "many",
        loop(
            "branches:",
            f'  quick: {{action: "until [ -e ready ]; do sleep 0.02; done; {ends}"}}',
            "  slow: {action: \"touch ready; trap '' TERM; sleep 60 & sleep 60\"}",
            "  late: {action: touch late}",
            "max_parallel: 2",
            *fields,
        ).replace("initial: all\n", "initial: all\nkill_grace: 0.2\n"),
    )
    assert project.ll("run", "many").returncode == exit_code
    assert verdicts(project) == expected
    assert not (project.root / "late").exists()
    assert left_of(project) == []
    assert sorted(path.name for path in (project.root / ".loops/.running").iterdir()) == [
        ".gitignore",
        ".lock",
    ]


def test_the_timeout_of_a_state_is_one_of_each_branch(project: Project):
    project.loop(
        "many",
        loop("branches:", "  slow: {action: sleep 60}", "  quick: {action: 'true'}", "timeout: 4"),
    )
    assert project.ll("run", "many").returncode == 1
    assert verdicts(project) == {"slow": "timeout", "quick": "pass"}
    assert left_of(project) == []


def test_only_errors_are_an_error(project: Project):
    project.loop("many", loop("for_each: [1, 2]", "action: /no/such/program"))
    said = project.ll("run", "many")
    assert said.returncode == 1
    assert project.state("many")["reason"] == "error"
    assert set(verdicts(project).values()) == {"error"}


def test_stopping_one_branch_lets_the_others_continue(project: Project):
    project.loop(
        "many", loop("for_each: [a, b]", f"action: '{GO}; echo ${{branch.item}} >> trace'")
    )
    with project.started("run", "many") as parent:
        pid_of(project, "a"), pid_of(project, "b")
        assert project.ll("stop", "many/all/a").returncode == 0
        (project.root / "go").touch()
        assert parent.wait(60) == 1
    assert trace(project) == ["b"]
    assert verdicts(project) == {"a": "fail", "b": "pass"}


# ── kills ──────────────────────────────────────────────────────────────────────────────────────

SIX = loop(
    "for_each: [a, b, c, d, e, f]",
    "max_parallel: 2",
    f"action: 'echo ${{branch.item}} >> trace; case ${{branch.item}} in c|d) {GO};; esac'",
)


@pytest.mark.parametrize("victims", ["parent", "children", "both"])
def test_after_a_kill_each_branch_has_run_once_but_for_those_under_way(
    project: Project, victims: str
):
    project.loop("many", SIX)
    with project.started("run", "many") as parent:
        until(lambda: {"c", "d"} <= {*trace(project)}, "third and fourth branch")
        kids = [pid_of(project, child) for child in ("c", "d")]
        if victims != "parent":
            for kid in kids:
                os.kill(kid, signal.SIGKILL)
        if victims != "children":
            os.kill(parent.pid, signal.SIGKILL)
            parent.wait()
            until(lambda: all(map(is_gone, kids)), "end of the children")
        (project.root / "go").touch()
        if victims == "children":
            assert parent.wait(60) == 0
    if victims != "children":
        assert project.ll("resume", "many").returncode == 0
    assert sorted(set(trace(project))) == list("abcdef")
    for item in "abef":
        assert trace(project).count(item) == 1
    assert len(trace(project)) <= 8
    assert set(verdicts(project).values()) == {"pass"}
    assert left_of(project) == []


def test_ctrl_c_stops_all_and_a_resume_continues_them(project: Project):
    project.loop("many", SIX)
    with project.started("run", "many") as parent:
        until(lambda: {"c", "d"} <= {*trace(project)}, "third and fourth branch")
        os.kill(parent.pid, signal.SIGTERM)
        assert parent.wait(60) == 128 + signal.SIGTERM
    assert left_of(project) == []
    (project.root / "go").touch()
    assert project.ll("resume", "many").returncode == 0
    assert sorted(trace(project)) == list("abccddef")


def test_the_files_of_a_pattern_stay_those_of_the_start(project: Project):
    for name in ("a", "b"):
        project.root.joinpath(f"{name}.in").touch()
    action = f"'{GO}; echo ${{branch.item}} >> trace'"
    project.loop("many", loop('for_each: {glob: "*.in"}', "max_parallel: 1", f"action: {action}"))
    with project.started("run", "many") as parent:
        pid_of(project, "a.in")
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    project.root.joinpath("0.in").touch()
    (project.root / "go").touch()
    assert project.ll("resume", "many").returncode == 0
    assert trace(project) == ["a.in", "b.in"]


def test_items_that_are_gone_are_an_error_of_the_branch(project: Project):
    project.root.joinpath("a.in").touch()
    project.loop("many", loop('for_each: {glob: "*.in"}', f"action: '{GO}'"))
    with project.started("run", "many") as parent:
        pid = pid_of(project, "a.in")
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        until(lambda: is_gone(pid), "end of the child")
    (project.root / ".loops/.running/many.d/00001-1.branches").unlink()
    said = project.ll("resume", "many")
    assert said.returncode == 1
    assert "the items for the branches of `all` are missing or damaged" in said.stdout + said.stderr


# ── gates ──────────────────────────────────────────────────────────────────────────────────────

ASK = (
    "{context: {n: x}, initial: ask, states: {ask: {terminal: true, outcome: review, next: after,"
    " on_rejected: bad}, after: {action: 'echo ${context.n} >> trace', next: end},"
    " end: {terminal: true}, bad: {terminal: true, outcome: failure}}}"
)


def test_gates_of_several_branches(project: Project):
    project.loop(
        "many", loop("for_each: [a, b]", f"loop: {ASK}", "with: {n: '${branch.item}'}", "join: 1")
    )
    assert project.ll("run", "many").returncode == 4
    said = project.ll("approve", "many")
    assert said.returncode == 2
    assert "name one of `many/all/a`, `many/all/b`" in said.stderr
    said = project.ll("reject", "many/all/a", "-m", "no", "--no-resume")
    assert said.returncode == 0
    assert project.ll("approve", "many/all/b").returncode == 0
    assert trace(project) == ["b"]
    assert verdicts(project) == {"a": "fail", "b": "pass"}


def test_a_pause_lets_the_others_finish(project: Project):
    project.loop(
        "many",
        loop(
            "branches:",
            f"  ask: {{loop: {ASK}}}",
            "  work: {action: echo work >> trace}",
            "max_parallel: 1",
        ),
    )
    said = project.ll("run", "many")
    assert said.returncode == 4
    assert trace(project) == ["work"]
    assert project.ll("approve", "many/all/ask").returncode == 0
    assert trace(project) == ["work", "x"]


# ── money ──────────────────────────────────────────────────────────────────────────────────────


def test_ten_branches_under_one_limit(project: Project):
    """Each would cost $1, the limit is $5: no more than that is spent, plus one turn of each that
    runs, and four work at once."""
    agent = write_agent(
        project,
        'echo "start $$" >> "$HOME/turns"',
        'n=0; while [ ! -e "$HOME/four" ] && [ $n -lt 200 ]; do',
        '  [ "$(grep -c start "$HOME/turns")" -lt 4 ] || touch "$HOME/four"',
        "  n=$((n + 1)); sleep 0.05",
        "done",
        says(ended(1.0)),
    )
    project.loop(
        "many",
        "max_cost_usd: 5\nhost: {permission_mode: plan}\n"
        + loop(
            "for_each: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
            "action: Do ${branch.item}",
            "action_type: prompt",
        ),
    )
    assert project.ll("run", "many", env=agent).returncode == 1
    assert (project.home / "four").exists()
    spent = sum(receipt["cost_usd"] for receipt in project.state("many")["costs"].values())
    assert 4 <= spent <= 5 + 4


def test_each_branch_may_have_its_own_agent(project: Project):
    agent = write_agent(project, says(ended(0.5)))
    project.loop(
        "many",
        "host: {permission_mode: plan}\n"
        + loop(
            "for_each: [claude]",
            "as: who",
            "host: ${branch.who}",
            "action: Do it",
            "action_type: prompt",
            "next: done",
        ).replace("    on_pass: done\n    on_fail: bad\n", ""),
    )
    said = project.ll("run", "many", env=agent)
    assert said.returncode == 0, said.stdout + said.stderr
    [report] = reports(project)
    assert (report["verdict"], report["cost_usd"]) == ("pass", 0.5)


def test_after_a_resume_each_branch_still_says_how_it_ended(project):
    wait = "touch begun-${branch.name}; until [ -e go ]; do sleep 0.05; done"
    project.loop(
        "w",
        f"""\
        initial: all
        states:
          all:
            for_each: [a, b, c]
            action: "[ ${{branch.name}} = a ] || {{ {wait}; }}; [ ${{branch.name}} != b ]"
            on_pass: done
            on_fail: done
          done: {{terminal: true}}
        """,
    )
    with project.started("run", "w") as child:
        for name in "bc":
            until((project.root / f"begun-{name}").exists, "a branch")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130, out
    (project.root / "go").touch()
    done = project.ll("resume", "w")
    for text in (done.stdout, project.ll("logs", "w").stdout.rpartition("Resuming loop 'w'")[2]):
        ends = [line.partition(" (")[0] for line in text.splitlines() if line.startswith("[all/")]
        assert {"[all/b] ✗ failed", "[all/c] ✓ passed"} <= set(ends), text
