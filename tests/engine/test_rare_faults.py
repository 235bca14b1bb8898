"""What is rare and must not be news: crowds of processes, sleep, runs in runs, very many rounds."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from little_loops.fsm import ActionResult, FSMExecutor, FSMLoop
from little_loops.system.clock import RunClock
from tests.project import Project, until
from tests.simulation.child import in_child
from tests.simulation.disk import Disk
from tests.simulation.engine import NAME, START_MS, Clock, Simulation
from tests.simulation.machines import Deed, Key
from tests.stand_ins import tree

# ── a crowd ────────────────────────────────────────────────────────────────────────────────────

GENERATIONS = 6
CROWD = f"""\
    name: crowd
    initial: a
    kill_grace: 1
    states:
      a: {{action: "sh breed {GENERATIONS}", timeout: {{timeout}}, next: a}}
    """
BREED = """\
trap '' TERM
echo $$ >> born
if [ "$1" -gt 0 ]; then
  setsid sh breed $(($1 - 1)) &
  setsid sh breed $(($1 - 1)) &
fi
exec sleep 600
"""


def born(project: Project) -> list[str]:
    return project.file("born").split()


@pytest.mark.parametrize("way", ["timeout", "stop"])
def test_a_crowd_that_breeds_in_sessions_of_its_own_is_ended(project: Project, way: str):
    """A bomb as far as a test may go: every one has two children, deaf to TERM, and leads a session."""
    everyone = 2 ** (GENERATIONS + 1) - 1
    project.loop("crowd", CROWD.replace("{timeout}", "5" if way == "timeout" else "600"))
    (project.root / "breed").write_text(BREED)
    with project.started("run", "crowd") as child:
        until(lambda: len(born(project)) == everyone or child.poll() is not None, "crowd")
        if way == "stop":
            assert project.ll("stop", "crowd").returncode == 0
        child.communicate(timeout=60)
    assert child.returncode == (143 if way == "stop" else 1)
    assert [pid for pid in born(project) if is_of(project, int(pid))] == []


def is_of(project: Project, pid: int) -> bool:
    try:
        return psutil.Process(pid).environ().get("LL_RUN_DIR", "").startswith(str(project.root))
    except psutil.Error:
        return False


# ── a machine that sleeps ──────────────────────────────────────────────────────────────────────

HOUR_MS = 3_600_000
SLEPT = FSMLoop.from_dict(
    {
        "name": NAME,
        "initial": "a",
        "timeout": 60,
        "states": {
            "a": {"action": "x", "next": "b", "timeout": 30},
            "b": {"action": "x", "next": "done"},
            "done": {"terminal": True},
        },
    }
)


class SleepyClock(Clock):
    """The wall clock goes on while the machine is suspended; the one of its processes does not."""

    slept_ms = 0

    def of_run(self, before_ms: int) -> RunClock:
        return RunClock(
            before_ms,
            wall=lambda: START_MS + self.now_ms + self.slept_ms,
            steady=lambda: self.now_ms,
        )


@pytest.mark.parametrize("hours", [1, -24, 24 * 3650], ids=["an hour", "a day back", "ten years"])
def test_a_machine_that_sleeps_or_is_set_uses_up_no_time(memory, hours):
    def story() -> None:
        clock = SleepyClock()

        def deed(key: Key) -> Deed:
            clock.slept_ms = hours * HOUR_MS
            return Deed(0, "", 10)

        world = Simulation(SLEPT, deed, Disk(memory))
        world.clock = clock
        ended = world.segment(is_resume=False)
        assert ended.ran is not None, ended
        assert (ended.ran.run.status, ended.ran.run.ran_ms) == ("completed", 20)

    in_child(story)


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


# ── very many rounds ───────────────────────────────────────────────────────────────────────────

ROUNDS = 10_000


class Says:
    """Every action prints another text."""

    times = 0

    def run(self, action, **_):
        self.times += 1
        return ActionResult(0, f"{action} {self.times}", "", 1)


def test_ten_thousand_captures_are_the_last_ones_and_nothing_else_ends_the_run():
    """No guard that is written nowhere: the same two states, the same ways, as often as asked."""
    loop = FSMLoop.from_dict(
        {
            "name": "round",
            "initial": "a",
            "max_iterations": ROUNDS // 2,
            "states": {
                "a": {"action": "one", "capture": "first", "next": "b"},
                "b": {"action": "other", "capture": "second", "next": "a"},
            },
        }
    )
    runner = Says()
    result = FSMExecutor(loop, action_runner=runner).run()
    assert (result.terminated_by, result.iterations) == ("max_iterations", ROUNDS // 2)
    assert runner.times == ROUNDS
    assert sorted(result.captured) == ["a", "b", "first", "second"]
    assert result.captured["second"]["output"] == f"other {ROUNDS}"


# ── runs in runs ───────────────────────────────────────────────────────────────────────────────

OUTER = """\
    name: outer
    initial: a
    states:
      a: {action: "ll-loop run inner", on_pass: done, on_fail: done}
      done: {terminal: true}
    """
INNER = """\
    name: inner
    initial: a
    states:
      a: {action: "echo $$ > pid; test -e ok || sleep 600", next: done}
      done: {terminal: true}
    """


def test_a_run_inside_another_that_is_stopped_can_go_on(project: Project):
    """It is asked to end before it is made to: its state says interrupted, not crashed."""
    project.loop("outer", OUTER)
    project.loop("inner", INNER)
    with project.started("run", "outer") as child:
        until(lambda: project.file("pid"), "inner action")
        assert project.ll("stop", "outer").returncode == 0
        child.communicate(timeout=30)
    assert child.returncode == 143
    assert [project.state(name)["status"] for name in ("outer", "inner")] == ["interrupted"] * 2
    (project.root / "ok").touch()
    assert project.ll("resume", "inner").returncode == 0


@pytest.mark.parametrize(
    ("says", "code", "status"),
    [
        pytest.param("echo CONTEXT_HANDOFF: more to do", 4, "awaiting_continuation", id="handoff"),
        pytest.param("echo LOOP_STOP: enough", 6, "stopped", id="stop"),
        pytest.param("exit 3", 1, "failed", id="error"),
    ],
)
def test_how_an_inner_run_ended_is_its_exit_code(project: Project, says, code, status):
    project.loop("inner", INNER.replace("echo $$ > pid; test -e ok || sleep 600", says))
    project.loop("outer", OUTER.replace("ll-loop run inner", "ll-loop run inner; echo $? > code"))
    assert project.ll("run", "outer").returncode == 0
    assert (project.file("code"), project.state("inner")["status"]) == (f"{code}\n", status)


# ── a state file edited into nonsense ──────────────────────────────────────────────────────────


def test_a_state_that_names_a_result_there_is_not_is_refused_in_words(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a: {action: echo 1, next: b}
          b: {action: "test -e ok || kill -9 $PPID; echo ${prev.output}", next: done}
          done: {terminal: true}
        """,
    )
    project.ll("run", "row")
    path = project.running("row", ".state.json")
    path.write_text(path.read_text().replace('"prev_state":"a"', '"prev_state":"nope"'))
    (project.root / "ok").touch()
    said = project.ll("resume", "row")
    assert "bug" not in said.stderr, said


# ── one path for run and resume ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_resume_hears_what_a_run_hears_and_says_what_it_says(project: Project, number):
    """Same handlers, same claim, same lines: two paths would drift apart."""
    project.loop("inner", INNER)
    told = []
    for verb in ("run", "resume"):
        (project.root / "pid").unlink(missing_ok=True)
        with project.started(verb, "inner") as child:
            until(lambda: project.file("pid"), "action")
            assert project.ll("run", "inner").returncode == 5
            os.kill(child.pid, number)
            out, err = child.communicate(timeout=30)
        last = out.splitlines()[-1].split(" (")[0]
        event = project.events("inner")[-1]
        told.append((child.returncode, last, err, event["event"], event["status"]))
    assert told[0] == told[1]
    assert told[0][0] == 128 + number


def test_a_dry_run_runs_nothing_and_writes_nothing(project: Project):
    project.loop("inner", INNER)
    project.loop("mend", INNER.replace("inner", "mend").replace("echo $$ > pid", "/mend it"))
    before = tree(project.root)
    for words in (("run", "inner"), ("run", "mend"), ("resume", "inner")):
        project.ll(*words, "--dry-run", "--allow-skip-permissions")
    assert tree(project.root) == before
    assert not any(project.home.iterdir())
