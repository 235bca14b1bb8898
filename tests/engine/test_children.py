"""Loops that start other loops, with real processes: values, stops, kills, gates, limits."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from little_loops.engine.child_run import ALONE_S
from little_loops.runs.child_runs import LAST_WAIT_S
from tests.project import Project, until

STEPS = """\
    initial: one
    states:
      one: {action: "echo one >> trace", next: two}
      two: {action: "echo two >> trace; WAIT", next: three}
      three: {action: "echo three >> trace", next: end}
      end: {terminal: true}
"""
OUTER = """\
initial: first
states:
  first: {action: "echo first >> trace", next: kid}
  kid:
    loop:
%s    on_pass: last
    on_fail: bad
  last: {action: "echo last >> trace", next: done}
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""
WHOLE = ["first", "one", "two", "three", "last"]
GO = "until [ -e go ]; do sleep 0.02; done"


def outer(wait: str = "true") -> str:
    inner = "".join(f"  {line}\n" for line in STEPS.splitlines()).replace("WAIT", wait)
    return OUTER % inner


def trace(project: Project) -> list[str]:
    return project.file("trace").split()


def pid_in(path: Path) -> int:
    return int(path.read_text().splitlines()[0])


def child_folder(project: Project) -> Path:
    return project.root / ".loops/.running/outer.d/runs/00002-1-kid"


def child_pid(project: Project) -> int:
    path = child_folder(project) / "run.pid"
    return pid_in(until(lambda: path.exists() and path.read_text() and path, "pid of the child"))


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_loop_runs_another_and_uses_its_result(project: Project):
    project.loop(
        "count",
        """\
        context: {word: none, dir: none}
        result: {words: "${captured.look.output}", missing: "${captured.never.output}"}
        initial: look
        states:
          look: {action: "printf '%s %s' ${context.dir} '${context.word}'", next: end}
          never: {action: "true", next: end}
          end: {terminal: true}
        """,
    )
    project.loop(
        "outer",
        """\
        initial: say
        context: {dir: src}
        states:
          say: {action: "echo '$(touch pwned); `touch pwned`'", next: kid}
          kid:
            loop: count
            with: {word: "${captured.say.output}", dir: "${context.dir}"}
            on_pass: tell
            on_fail: tell
          tell:
            action: "echo ${captured.kid.status} ${captured.kid.iterations} '${captured.kid.result.words}'"
            next: done
          done: {terminal: true}
        """,
    )
    said = project.ll("run", "outer")
    assert said.returncode == 0, said.stderr
    assert "completed 1 src $(touch pwned); `touch pwned`" in said.stdout
    assert not (project.root / "pwned").exists()
    assert "[kid] [1/50] look → running printf" in said.stdout
    [kept] = (project.root / ".loops/.history/outer").glob("*.d/runs/00002-1-kid/run.d/run.json")
    assert json.loads(kept.read_text())["data"] == ["word"]
    last = json.loads((kept.parents[1] / "run.events.jsonl").read_text().splitlines()[-1])
    assert last["result"] == {"words": "src $(touch pwned); `touch pwned`", "missing": None}
    status = project.ll("status", "outer/kid")
    assert "completed" in status.stdout
    assert project.ll("logs", "outer/kid").stdout.startswith("[1/50] look")


@pytest.mark.parametrize("victims", ["parent", "child", "both"])
def test_a_kill_in_an_action_of_the_child(project: Project, victims: str):
    project.loop("outer", outer(GO))
    with project.started("run", "outer") as parent:
        kid = child_pid(project)
        until(lambda: trace(project)[-1:] == ["two"], "action")
        if victims in ("child", "both"):
            os.kill(kid, signal.SIGKILL)
        if victims in ("parent", "both"):
            os.kill(parent.pid, signal.SIGKILL)
            parent.wait()
            until(lambda: ended(kid), "end of the child")
        (project.root / "go").touch()
        if victims == "child":
            assert parent.wait(60) == 0
    if victims != "child":
        assert project.ll("resume", "outer").returncode == 0
    assert trace(project) == ["first", "one", "two", "two", "three", "last"]


def test_a_child_whose_parent_is_gone_stops_its_action_and_says_so(project: Project):
    project.loop("outer", outer(f"trap '' TERM; {GO}"))
    with project.started("run", "outer") as parent:
        kid = child_pid(project)
        until(lambda: trace(project)[-1:] == ["two"], "action")
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        until(lambda: ended(kid), "end of the child")
        events = (child_folder(project) / "run.events.jsonl").read_text().splitlines()
        assert json.loads(events[-1])["event"] == "loop_interrupted"
        marks = [p for p in psutil.process_iter() if _is_of(p, project)]
        assert marks == []


def _is_of(process: psutil.Process, project: Project) -> bool:
    try:
        return process.environ().get("LL_RUN_DIR", "").startswith(str(project.root))
    except psutil.Error:
        return False


def test_a_child_that_is_killed_twice_has_errored(project: Project):
    project.loop("outer", outer(GO))
    with project.started("run", "outer") as parent:
        first = child_pid(project)
        until(lambda: trace(project).count("two") == 1, "action")
        os.kill(first, signal.SIGKILL)
        until(lambda: trace(project).count("two") == 2, "action again")
        os.kill(child_pid(project), signal.SIGKILL)
        assert parent.wait(60) == 1
        assert [p for p in psutil.process_iter() if _is_of(p, project)] == []
    assert project.has_event("outer", "child_end", stage="error", reason="crash")


def test_ctrl_c_stops_the_child_and_a_resume_continues_it(project: Project):
    project.loop("outer", outer(GO))
    with project.started("run", "outer") as parent:
        until(lambda: trace(project)[-1:] == ["two"], "action")
        os.kill(parent.pid, signal.SIGTERM)
        assert parent.wait(60) == 128 + signal.SIGTERM
    (project.root / "go").touch()
    assert project.ll("resume", "outer").returncode == 0
    assert trace(project) == ["first", "one", "two", "two", "three", "last"]


def test_stopping_only_the_child_is_a_failure_of_its_state(project: Project):
    project.loop("outer", outer(GO))
    with project.started("run", "outer") as parent:
        until(lambda: trace(project)[-1:] == ["two"], "action")
        said = project.ll("stop", "outer/kid")
        assert said.returncode == 0
        assert "action ended, state saved" in said.stdout
        assert parent.wait(60) == 1
    assert project.has_event("outer", "child_end", stage="fail", reason="stopped")


def test_a_timeout_of_the_state_is_one_of_the_child(project: Project):
    text = outer(GO).replace("    on_pass: last\n", "    on_pass: last\n    timeout: 0.3\n")
    project.loop("outer", text)
    said = project.ll("run", "outer")
    assert said.returncode == 1
    assert project.has_event("outer", "child_end", stage="timeout", reason="loop_timeout")


def test_the_timeout_of_the_loop_interrupts_the_child(project: Project):
    project.loop("outer", "timeout: 0.4\n" + outer(GO))
    assert project.ll("run", "outer").returncode == 3
    (project.root / "go").touch()
    assert project.ll("resume", "outer", "--timeout", "60").returncode == 0
    assert list(dict.fromkeys(trace(project))) == WHOLE
    assert len(trace(project)) <= len(WHOLE) + 1


GATED = """\
initial: kid
states:
  kid:
    loop:
      initial: ask
      states:
        ask: {terminal: true, outcome: review, next: after, on_rejected: bad}
        after: {action: "echo ${loop.answer} >> trace", next: end}
        end: {terminal: true}
        bad: {terminal: true, outcome: failure}
    on_pass: done
    on_fail: bad
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""


@pytest.mark.parametrize(
    ("answer", "exit_code", "wrote"),
    [
        pytest.param(("approve", "outer/kid", "-m", "yes"), 0, ["yes"], id="by its path"),
        pytest.param(("approve", "outer", "-m", "yes"), 0, ["yes"], id="the only gate"),
        pytest.param(("resume", "outer"), 0, [], id="a resume approves"),
        pytest.param(("reject", "outer/kid", "-m", "no"), 1, [], id="rejected"),
    ],
)
def test_a_gate_in_a_child(project: Project, answer: Any, exit_code: int, wrote: list[str]):
    project.loop("outer", GATED)
    assert project.ll("run", "outer").returncode == 4
    assert project.ll("resume", "outer/kid").returncode == 2
    assert project.ll(*answer).returncode == exit_code
    assert trace(project) == wrote


def boundaries() -> list[Any]:
    """Each event of the parent and of the child, as a moment for a kill; few of them in a test."""
    parent = [("parent", n) for n in range(1, 16)]
    child = [("child", n) for n in range(1, 13)]
    chosen = [("parent", 5), ("parent", 7), ("parent", 9), ("child", 4), ("child", 9)]
    rest = [moment for moment in parent + child if moment not in chosen]
    soak = [pytest.param(*m, id=f"{m[0]} {m[1]}", marks=pytest.mark.soak) for m in rest]
    return [pytest.param(*m, id=f"{m[0]} {m[1]}") for m in chosen] + soak


@pytest.mark.parametrize(("whose", "count"), boundaries())
@pytest.mark.parametrize("victim", ["parent", "both"])
def test_a_kill_at_an_event(project: Project, whose: str, count: int, victim: str):
    """After so many events of the parent or the child, one or both are killed; a resume ends it."""
    project.loop("outer", outer())
    own = project.root / ".loops/.running/outer.events.jsonl"
    log = own if whose == "parent" else child_folder(project) / "run.events.jsonl"

    def lines() -> int:
        try:
            return log.read_text().count("\n")
        except OSError:
            return 0

    with project.started("run", "outer") as parent:
        until(lambda: parent.poll() is not None or lines() >= count, "event")
        kid = child_folder(project) / "run.pid"
        pid = pid_in(kid) if kid.exists() and kid.read_text() else None
        if victim == "both" and pid is not None and not ended(pid):
            os.kill(pid, signal.SIGKILL)
        if parent.poll() is None:
            os.kill(parent.pid, signal.SIGKILL)
    if own.exists():
        said = project.ll("resume", "outer")
        assert said.returncode == 0, said.stdout + said.stderr
    story = trace(project)
    assert list(dict.fromkeys(story)) == WHOLE
    assert len(story) <= len(WHOLE) + 1  # only the action in flight may have run twice
    assert project.state("outer")["status"] == "completed"


def test_a_child_without_a_parent_has_time_to_end_its_action_before_it_is_killed():
    assert 2 * ALONE_S < LAST_WAIT_S


def test_a_child_runs_its_own_hooks_and_not_those_of_its_parent(project: Project):
    project.loop(
        "inner",
        """\
        initial: work
        states:
          work: {action: echo work >> trace, next: end}
          end: {terminal: true}
        hooks: {before_run: echo inner-run >> trace, after_state: echo inner-state >> trace}
        """,
    )
    project.loop(
        "outer",
        """\
        initial: kid
        states:
          kid: {loop: inner, next: done}
          done: {terminal: true}
        hooks: {before_state: echo outer-state >> trace, after_run: echo outer-run >> trace}
        """,
    )
    assert project.ll("run", "outer").returncode == 0
    assert trace(project) == ["outer-state", "inner-run", "work", "inner-state", "outer-run"]


def test_a_result_is_cut_and_what_is_missing_is_null_with_a_warning_each(project: Project):
    project.loop(
        "inner",
        """\
        result: {long: "${captured.a.output}", fits: "${captured.b.output}", none: "${captured.c.output}"}
        initial: a
        states:
          a: {action: "printf %05000d 7", next: b}
          b: {action: "printf %04096d 7", next: end}
          c: {action: echo never, next: end}
          end: {terminal: true}
        """,
    )
    project.loop(
        "outer",
        """\
        initial: kid
        states:
          kid: {loop: inner, next: done}
          done: {terminal: true}
        """,
    )
    said = project.ll("run", "outer")
    assert said.returncode == 0, said.stdout
    result = project.state("outer")["captured"]["kid"]["child"]["result"]
    assert (len(result["long"]), len(result["fits"]), result["none"]) == (4096, 4096, None)
    warned = [line for line in (said.stdout + said.stderr).splitlines() if "`result." in line]
    assert [line.partition("`result.")[2][:5] for line in warned] == ["long`", "none`"]
