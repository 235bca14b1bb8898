"""Agents wait for a slot: visibly, in order, and without a deadlock."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from textwrap import dedent

import pytest

from little_loops.fsm.timestamps import wall_ms_of
from tests.project import Project, until

LOOP = """\
name: {name}
initial: work
scope: [{name}]
host: {{name: command, command: ["{agent}", "{{prompt}}"]}}
evidence: false
states:
  work: {{action: "{name}", action_type: prompt, next: done, timeout: 600}}
  done: {{terminal: true}}
"""

HOLD = """\
#!/bin/sh
touch "$HOME/$LL_LOOP-begun"
n=0; until [ -e "$HOME/go" ] || [ $n -ge 1200 ]; do n=$((n+1)); sleep 0.05; done
echo ok
"""


def write_agent(project: Project, script: str) -> None:
    path = project.home / "agent"
    path.write_text(script)
    path.chmod(0o755)


def write_slots(project: Project, slots: int) -> None:
    config = project.home / ".config" / "little-loops"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.yaml").write_text(f"agents: {{slots: {slots}}}\n")


def add_loops(project: Project, *names: str) -> None:
    for name in names:
        (project.root / name).mkdir(exist_ok=True)
        project.loop(name, LOOP.format(name=name, agent=project.home / "agent"))


@pytest.fixture
def one_slot(project: Project) -> Project:
    write_agent(project, HOLD)
    write_slots(project, 1)
    add_loops(project, "first", "second")
    return project


def is_waiting(project: Project, name: str) -> bool:
    path = project.running(name, ".events.jsonl")
    return path.exists() and '"agent_wait"' in path.read_text()


def test_a_turn_waits_for_the_slot_and_names_its_holder(one_slot: Project) -> None:
    with one_slot.started("run", "first") as first:
        until((one_slot.home / "first-begun").exists, "first agent")
        with one_slot.started("run", "second") as second:
            until(lambda: is_waiting(one_slot, "second"), "wait for the slot")
            status = one_slot.ll("status", "second").stdout
            assert "the agent slot is in use by first in project" in status
            assert not (one_slot.home / "second-begun").exists()
            (one_slot.home / "go").touch()
            said, _ = second.communicate()
            first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting: the agent slot is in use by first in project" in said


def test_all_slots_are_used(one_slot: Project) -> None:
    write_slots(one_slot, 2)
    with one_slot.started("run", "first") as first, one_slot.started("run", "second") as second:
        until((one_slot.home / "first-begun").exists, "first agent")
        until((one_slot.home / "second-begun").exists, "second agent")
        (one_slot.home / "go").touch()
        first.communicate()
        second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_stop_ends_the_wait_and_the_run_can_be_resumed(one_slot: Project) -> None:
    with one_slot.started("run", "first") as first:
        until((one_slot.home / "first-begun").exists, "first agent")
        with one_slot.started("run", "second") as second:
            until(lambda: is_waiting(one_slot, "second"), "wait for the slot")
            assert one_slot.ll("stop", "second").returncode == 0
            second.communicate()
        assert one_slot.state("second")["status"] == "interrupted"
        (one_slot.home / "go").touch()
        first.communicate()
    assert one_slot.ll("resume", "second").returncode == 0


def test_waiting_for_a_slot_does_not_count_for_the_timeout(one_slot: Project) -> None:
    """The clock of the run, by which its timeout is measured, stands still."""
    with one_slot.started("run", "first") as first:
        until((one_slot.home / "first-begun").exists, "first agent")
        with one_slot.started("run", "second") as second:
            until(lambda: is_waiting(one_slot, "second"), "wait for the slot")
            (one_slot.home / "go").touch()
            second.communicate()
            first.communicate()
    events = one_slot.events("second")
    waits, starts = (
        next(each for each in events if each["event"] == name)
        for name in ("agent_wait", "action_start")
    )
    passed_ms = wall_ms_of(starts["ts"]) - wall_ms_of(waits["ts"])
    assert starts["ran_ms"] - waits["ran_ms"] < passed_ms


def test_a_loop_that_an_agent_starts_uses_the_agents_slot(project: Project) -> None:
    write_slots(project, 1)
    add_loops(project, "outer", "inner")
    (project.root / "outer" / "inner").mkdir()
    run = f'"{sys.executable}" -m little_loops run inner --scope outer/inner'
    write_agent(project, f'#!/bin/sh\n[ "$1" = outer ] || exec echo ok\ncat > /dev/null; {run}\n')
    done = project.ll("run", "outer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.state("inner")["status"] == "completed"


def test_a_wrong_setting_is_refused_before_anything_runs(project: Project) -> None:
    add_loops(project, "first")
    (project.root / ".loops" / ".config.yaml").write_text("agents: {slots: 2}\n")
    done = project.ll("run", "first")
    assert done.returncode == 2
    assert done.stderr == dedent(f"""\
        error: `{project.root}/.loops/.config.yaml`: `agents` is a user setting
           = help: slots are shared by all projects on this machine; set it in the user's config file
        """)


# ── many runs, few slots, random kills ─────────────────────────────────────────────────────────

COUNTING = """\
#!{python}
import fcntl, json, os, subprocess, sys, time

home = os.environ["HOME"]


def count(change):
    with open(f"{{home}}/count", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = [json.loads(line) for line in file.read().splitlines()]
        alive = {{each["pid"] for each in lines if each["in"]}}
        for each in lines:
            if not each["in"]:
                alive.discard(each["pid"])
        for pid in set(alive):  # killed ones did not count themselves out
            try:
                with open(f"/proc/{{pid}}/stat") as stat:
                    if stat.read().rpartition(")")[2].split()[0] == "Z":
                        alive.discard(pid)
            except OSError:
                alive.discard(pid)
        now = len(alive | {{os.getpid()}}) if change > 0 else len(alive - {{os.getpid()}})
        file.write(json.dumps({{"pid": os.getpid(), "in": change > 0, "now": now}}) + "\\n")


sys.stdin.read()
count(+1)
time.sleep({work_s})
count(-1)
prompt = sys.argv[1]
if prompt.endswith("starts a loop"):
    # While the agent waits for its loop, that works in its place.
    name = f"inner-{{os.environ['LL_LOOP']}}"
    command = [sys.executable, "-m", "little_loops", "run", name, "--fresh"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("ok")
"""


def crowd(project: Project, runs: int, agents: int, work_s: float) -> list[str]:
    """Loops with so many agent turns each; every fourth turn starts a loop itself."""
    python = sys.executable
    write_agent(project, COUNTING.format(python=python, work_s=work_s))
    names = [f"run-{number}" for number in range(runs)]
    host = {"name": "command", "command": [str(project.home / "agent"), "{prompt}"]}
    for name in names:
        (project.root / name / "inner").mkdir(parents=True)
        states: dict[str, dict[str, object]] = {}
        for turn in range(agents):
            prompt = f"turn {turn}" + (" starts a loop" if turn % 4 == 3 else "")
            following = f"turn-{turn + 1}" if turn + 1 < agents else "done"
            states[f"turn-{turn}"] = {
                "action": prompt,
                "action_type": "prompt",
                "next": following,
            }
        states["done"] = {"terminal": True}
        common = {"host": host, "evidence": False}
        outer = {"name": name, "initial": "turn-0", "scope": [name], "states": states, **common}
        (project.root / ".loops" / f"{name}.yaml").write_text(json.dumps(outer))
        inner_states = {
            "work": {"action": "inner", "action_type": "prompt", "next": "done"},
            "done": {"terminal": True},
        }
        inner = {
            "name": f"inner-{name}",
            "initial": "work",
            "scope": [f"{name}/inner"],
            "states": inner_states,
            **common,
        }
        (project.root / ".loops" / f"inner-{name}.yaml").write_text(json.dumps(inner))
    return names


def launch(project: Project, verb: str, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        project.argv(verb, name),
        cwd=project.root,
        env=project.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def play(project: Project, runs: int, agents: int, slots: int, kills: int, work_s: float) -> int:
    """Run all at once, kill some, resume them until all are done. Return the maximum at once."""
    write_slots(project, slots)
    names = crowd(project, runs, agents, work_s)
    chance = random.Random(7)
    under_way = {name: launch(project, "run", name) for name in names}
    count = project.home / "count"
    try:
        while under_way:
            if kills and count.exists() and chance.random() < 0.2:
                os.kill(under_way[chance.choice(sorted(under_way))].pid, signal.SIGKILL)
                kills -= 1
            for name, child in list(under_way.items()):
                if child.poll() is None:
                    continue
                if child.returncode == 0:
                    del under_way[name]
                else:
                    assert child.returncode == -signal.SIGKILL, (name, child.returncode)
                    verb = "resume" if project.running(name, ".state.json").exists() else "run"
                    under_way[name] = launch(project, verb, name)
            time.sleep(0.05)
    finally:
        for child in under_way.values():
            child.kill()
            child.wait()
    return max(int(json.loads(line)["now"]) for line in count.read_text().splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in looks for the dead in /proc")
def test_a_crowd_never_uses_more_than_its_slots(project: Project) -> None:
    # How many of them overlap depends on the machine; that both slots are used is shown above.
    assert play(project, runs=4, agents=4, slots=2, kills=2, work_s=0.1) <= 2


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in looks for the dead in /proc")
def test_a_large_crowd_never_uses_more_than_its_slots(project: Project) -> None:
    assert play(project, runs=20, agents=8, slots=4, kills=20, work_s=0.3) == 4
