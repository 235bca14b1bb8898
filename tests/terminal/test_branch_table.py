"""The table of branches on a terminal: what runs, what has ended, and what it costs."""

from __future__ import annotations

import pexpect

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Children
from little_loops.fsm.state import Stage as BranchStage
from tests.cli.paper import ExcerptWidth
from tests.project import Project
from tests.terminal.test_live import SECRET, Stage, text

LOOP = FSMLoop.from_dict(
    {
        "name": "night",
        "initial": "review",
        "max_cost_usd": 5,
        "states": {"review": {"action": "x", "next": "done"}, "done": {"terminal": True}},
    }
)
BEGUN = {"action": "review-one", "action_type": "loop", "attempt": 1, "state": "review"}


def stage(*names: str, height: int = 24, verbose: bool = False) -> Stage:
    found = Stage(height=height, verbose=verbose, loop=LOOP)
    found.tell("action_start", **BEGUN)
    found.tell("children", state="review", step=1, attempt=1, names=list(names), several=True)
    for name in names:
        found.tell("child_start", state="review", child=name)
    return found


def end(of: Stage, name: str, stage: str, **more: object) -> None:
    given = {"status": "x", "reason": "terminal", "final_state": "", "iterations": 1}
    of.tell("child_end", state="review", child=name, stage=stage, duration_ms=90, **given, **more)


def test_a_line_for_each_running_branch_and_the_sum_below():
    found = stage("api.py", "models.py", "db.py")
    found.screen.below("review/api.py", "[2/5] check → running ruff check...\n       | 3 errors")
    found.screen.below("review/models.py", "[1/5] fix → running /fix...")
    found.screen.below("review/models.py/inner", "[1/9] deeper → running ls...")
    found.screen.below_used("review/models.py", 0.25)
    end(found, "db.py", "pass")
    found.tell("cost", state="review", tokens=5, cost_usd=0.5, turns=1, child="db.py")
    found.pass_by(0.3)
    assert found.look() == text("""\
        night · fsm · up to 20 iterations
        [1/20] review → running review-one...
               3 branches
        @      0s
               api.py     check [2/5] · 3 errors
               models.py  fix [1/5] · $0.25 · [1/9] deeper → running ls...
               1 of 3 ended (1 passed) · 2 running · $0.75 of $5.00
               ctrl-c stops and saves · log .loops/.running/fix-types.log""")


def test_the_branches_that_a_resumed_run_continues():
    found = Stage(loop=LOOP)
    stages: tuple[BranchStage, ...] = ("fail", "interrupted")
    found.screen.continues(Children("review", 1, 1, tuple("ac"), stages, several=True))
    found.tell("resume", state="review", iteration=1, status="interrupted")
    found.tell("child_start", state="review", child="c")
    found.pass_by(0.3)
    assert found.look() == text("""\
        night · fsm · up to 20 iterations
        Resuming loop 'night' from state 'review' (iteration 1)
        @      0s
               c
               1 of 2 ended (1 failed) · 1 running · $0.00 of $5.00
               ctrl-c stops and saves · log .loops/.running/fix-types.log""")
    end(found, "c", "fail")
    assert "[review/c] ✗ failed (0.1s)" in found.look()


def test_a_branch_that_failed_keeps_its_line_and_nothing_else_stays():
    found = stage("a", "b", "c")
    for name, how in (("a", "pass"), ("b", "fail"), ("c", "stopped")):
        end(found, name, how)
    found.tell("action_complete", state="review", exit_code=1, duration_ms=90)
    found.settle()
    assert found.look() == text("""\
        night · fsm · up to 20 iterations
        [1/20] review → running review-one...
               3 branches
        [review/b] ✗ failed (0.1s)
               ✗ (exit 1)                                                 0.1s""")


def test_more_branches_than_rows():
    found = stage(*(f"n{number}" for number in range(20)), height=9)
    found.pass_by(0.3)
    assert [line.strip() for line in found.look().splitlines()[4:]] == [
        "n0",
        "n1",
        "n2",
        "17 more",
        "0 of 20 ended · 20 running · $0.00 of $5.00",
        "ctrl-c stops and saves · log .loops/.running/fix-types.log",
    ]


def test_a_long_name_is_cut():
    found = stage("a" * 40)
    found.pass_by(0.3)
    assert f"       {'a' * 23}…\n" in found.look()


def test_a_branch_that_waits_is_counted():
    found = Stage(loop=LOOP)
    found.tell("action_start", **BEGUN)
    found.tell("children", state="review", step=1, attempt=1, names=["a", "b"], several=True)
    found.tell("child_start", state="review", child="a")
    found.tell("child_end", **_crash("a"))
    found.tell("child_start", state="review", child="a", again=True)
    found.pass_by(0.3)
    assert "0 of 2 ended · 1 running · 1 waiting" in found.look()


def _crash(name: str) -> dict[str, object]:
    return {
        "state": "review",
        "child": name,
        "stage": "interrupted",
        "status": "crashed",
        "reason": "crash",
        "final_state": "",
        "iterations": 1,
        "duration_ms": 5,
    }


def test_secrets_and_lines_of_other_runs():
    found = stage("a", verbose=True)
    found.screen.below("review/a", f"       | token {SECRET}")
    found.screen.below("elsewhere/a", "[1/5] x → running y...")
    found.pass_by(0.3)
    shown = found.look()
    assert SECRET not in shown
    assert "[elsewhere/a] [1/5] x → running y..." in shown


NIGHT = """\
initial: many
states:
  many:
    for_each: [a, b, c]
    action: "echo out-${branch.item}; test '${branch.item}' = a || until [ -e go ]; do sleep 0.02; done"
    on_pass: done
  done: {terminal: true}
"""


def test_branches_on_a_real_terminal(project: Project):
    project.loop("night", NIGHT)
    argv = project.argv("run", "night")
    env = project.environ(TERM="xterm", LANG="C.UTF-8", PYTHONUTF8="1")
    child = pexpect.spawn(
        argv[0], argv[1:], cwd=str(project.root), env=env, encoding="utf-8", dimensions=(24, 80)
    )
    child.expect("1 of 3 ended", timeout=60)
    (project.root / "go").touch()
    child.expect(pexpect.EOF, timeout=60)
    child.close()
    assert child.exitstatus == 0
    said = project.ll("logs", "night").stdout
    assert "[many/a] ✓ passed" in said  # the log has every line


def test_the_paper_is_left_as_if_there_had_been_no_table():
    found = stage("a")
    found.pass_by(0.3)
    assert "running" in found.look()
    found.screen.close()
    left = ExcerptWidth.showing(found.look(), 70).text
    assert "ended" not in left
