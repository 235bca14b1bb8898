"""A project is not a run's alone: its user edits files in every pause, and other loops work beside it.

Nothing of theirs is lost, and nobody is blamed for it.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.project import Project, until

TEST = 'assert open("src/value").read() == "right\\n", "the value is wrong"\n'
LOOP = """\
name: fix
paradigm: goal
goal: The check passes
scope: [src/]
scope_writes: enforce
tools:
  - python3 -B tests/check.py
  - {action: Fix it, action_type: prompt}
evidence: {protect: [tests/], clean: true}
host: {permission_mode: plan}
max_iterations: 5
"""
# Plays the agent program: `turn-N` beside it does the work of its n-th session.
AGENT = """\
#!/bin/sh
cat > /dev/null
echo >> "$0.turns"
say() { printf '{"type": "result", "subtype": "success", "num_turns": 1, "session_id": "s", %s}\\n' "$1"; }
echo '{"type": "system", "subtype": "init", "session_id": "s", "slash_commands": []}'
. "$(dirname "$0")/turn-$(wc -l < "$0.turns" | tr -d ' ')"
"""
LIMITED = """\
reset=$(( $(date +%s) + 2 ))
echo '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": '$reset'}}'
say '"is_error": true, "api_error_status": 429, "result": "limit reached"'
"""
HANDS_OVER = """\
echo '{"type": "assistant", "message": {"content": [{"type": "text", "text": "CONTEXT_HANDOFF: later"}]}}'
say '"is_error": false, "result": "CONTEXT_HANDOFF: later"'
"""
WORKS_ON = "touch ../working\nsleep 60\n"
FIXES = """echo right > src/value; say '"is_error": false, "result": "fixed"'\n"""
THEIRS = {
    "tests/check.py": TEST + "# theirs\n",
    "tests/new.py": "theirs\n",
    "docs/notes.md": "theirs\n",
    "src/helper": "theirs\n",
}


def write(root: Path, files: dict[str, str], mode: int = 0o644) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)


def commit(project: Project) -> None:
    write(project.root, {".loops/.gitignore": ".running/\n.history/\n"})
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "start")


def lay_out(project: Project, *turns: str, loop: str = LOOP) -> dict[str, str]:
    """The project, and the environment in which its agent takes these turns."""
    write(project.root, {"src/value": "wrong\n", "tests/check.py": TEST, "docs/notes.md": "mine\n"})
    project.loop("fix", loop)
    commit(project)
    programs = project.home / "bin"
    write(programs, {"claude": AGENT}, 0o755)
    write(programs, {f"turn-{number}": turn for number, turn in enumerate(turns, 1)})
    return {"PATH": f"{programs}:{project.environ()['PATH']}"}


def edit(project: Project) -> None:
    """What the user does in a pause."""
    write(project.root, THEIRS)


def assert_theirs(project: Project) -> None:
    assert {name: project.file(name) for name in THEIRS} == THEIRS
    assert project.file("src/value") == "right\n"


def plain(text: str) -> str:
    text = re.sub(r"tree [0-9a-f]{6}", "tree ID", text)
    return re.sub(r"\b\d+(\.\d+)?m?s\b(, \$0.10)?", "TIME", text)


FIXED = """\
[1/5] fix → running "Fix it"...
       ✓ fixed
       → evaluate
[2/5] evaluate → running python3 -B tests/check.py...
       ✓ (exit 0) · tree ID
       → done (on_pass)
       → evaluate again in a clean copy
[2/5] evaluate → running python3 -B tests/check.py...
       ✓ (exit 0) · clean copy · tree ID
       → done (on_pass)

Loop completed: done (2 iterations, TIME)
Files changed: src/value, src/helper (+2 -1)
Verified on tree ID; for a receipt: ll-loop receipt fix
"""
TAKEN = (
    "       ! tests/check.py, tests/new.py changed while the run {}: accepted as the new baseline\n"
)


def test_a_user_edits_while_the_run_waits_for_a_usage_limit(project: Project) -> None:
    env = lay_out(project, LIMITED, FIXES)
    with project.started("run", "fix", env=env) as run:
        until(lambda: project.has_event("fix", "host_wait"), "wait")
        edit(project)
        out, err = run.communicate(timeout=60)
    waited = TAKEN.format("waited") + FIXED
    assert (plain(out).partition("waiting TIME")[2].partition("\n")[2], err) == (waited, "")
    assert_theirs(project)


def test_a_user_edits_after_a_handoff(project: Project) -> None:
    env = lay_out(project, HANDS_OVER, FIXES)
    assert project.ll("run", "fix", env=env).returncode == 4
    edit(project)
    resumed = project.ll("resume", "fix", env=env)
    head = "Resuming loop 'fix' from state 'fix' (iteration 1)\nContinuation context: later\n"
    assert plain(resumed.stdout) == head + TAKEN.format("was paused") + FIXED
    assert_theirs(project)


def test_a_user_stops_the_run_and_edits(project: Project) -> None:
    env = lay_out(project, WORKS_ON, FIXES)
    with project.started("run", "fix", env=env) as run:
        until((project.root.parent / "working").exists, "the agent's turn")
        assert project.ll("stop", "fix").returncode == 0
        run.communicate(timeout=60)
    edit(project)
    resumed = project.ll("resume", "fix", env=env)
    assert plain(resumed.stdout).endswith(TAKEN.format("was paused") + FIXED)
    assert_theirs(project)


REVIEWED = """\
name: fix
initial: evaluate
scope: [src/]
scope_writes: enforce
evidence: {protect: [tests/], clean: true}
host: {permission_mode: plan}
max_iterations: 5
states:
  evaluate: {action: python3 -B tests/check.py, check: true, on_pass: done, on_fail: review}
  review: {terminal: true, outcome: review, next: fix}
  fix: {action: Fix it, action_type: prompt, next: evaluate}
  done: {terminal: true}
"""


def test_a_user_edits_before_they_approve(project: Project) -> None:
    env = lay_out(project, FIXES, loop=REVIEWED)
    assert project.ll("run", "fix", env=env).returncode == 4
    edit(project)
    resumed = project.ll("resume", "fix", env=env)
    assert plain(resumed.stdout).endswith(TAKEN.format("was paused") + FIXED)
    assert_theirs(project)


# ── two loops ──────────────────────────────────────────────────────────────────────────────────

BESIDE = """\
name: fix-{mine}
paradigm: goal
goal: The value is right
scope: [{mine}/]
scope_writes: enforce
tools:
  - python3 -B {mine}/tests/check.py
  - {{action: Fix it, action_type: prompt}}
host: {{name: command, command: [../agent.sh, {mine}, {other}, "{{prompt}}"]}}
evidence: {{protect: {{existing: [check.py]}}, clean: true}}
max_iterations: 5
"""
# No turn ends before the other loop's agent is in the same one; the first weakens the test.
IN_STEP = """\
#!/bin/sh
echo >> ../turns-$1
turn=$(wc -l < ../turns-$1 | tr -d ' ')
until [ "$(cat ../turns-$2 2> /dev/null | wc -l)" -ge $turn ]; do sleep 0.02; done
echo $turn > $1/log-$turn
echo "assert True" > $1/tests/more-$turn.py
case $turn in 1) : > $1/tests/check.py ;; 3) echo right > $1/value ;; esac
echo finished
"""
BOTH_CAUGHT = """\
[1/5] evaluate → running python3 -B {mine}/tests/check.py...
       ✗ AssertionError: the value of {mine} is wrong (exit 1) · tree ID
       → fix (on_fail)
[1/5] fix → running "Fix it"...
       ✓ finished
       ! {mine}/tests/check.py was changed by the agent: restored
       → evaluate
[2/5] evaluate → running python3 -B {mine}/tests/check.py...
       ✗ AssertionError: the value of {mine} is wrong (exit 1) · tree ID
       → fix (on_fail)
[2/5] fix → running "Fix it"...
       ✓ finished
       → evaluate
[3/5] evaluate → running python3 -B {mine}/tests/check.py...
       ✗ AssertionError: the value of {mine} is wrong (exit 1) · tree ID
       → fix (on_fail)
[3/5] fix → running "Fix it"...
       ✓ finished
       → evaluate
[4/5] evaluate → running python3 -B {mine}/tests/check.py...
       ✓ (exit 0) · tree ID
       → done (on_pass)
       → evaluate again in a clean copy
[4/5] evaluate → running python3 -B {mine}/tests/check.py...
       ✓ (exit 0) · clean copy · tree ID
       → done (on_pass)

Loop completed: done (4 iterations, TIME)
Files changed: {mine}/value, {mine}/log-1, {mine}/log-2 and 4 more (+7 -1)
Verified on tree ID; for a receipt: ll-loop receipt fix-{mine}
"""


def test_two_loops_work_at_the_same_time_and_each_answers_for_its_own_scope(
    project: Project,
) -> None:
    for mine, other in ("ab", "ba"):
        test = TEST.replace("src/", f"{mine}/").replace("the value", f"the value of {mine}")
        write(project.root, {f"{mine}/value": "wrong\n", f"{mine}/tests/check.py": test})
        project.loop(f"fix-{mine}", BESIDE.format(mine=mine, other=other))
    write(project.root.parent, {"agent.sh": IN_STEP}, 0o755)
    commit(project)
    with project.started("run", "fix-a") as first, project.started("run", "fix-b") as second:
        told = {mine: run.communicate(timeout=60) for mine, run in (("a", first), ("b", second))}
    for mine, (out, err) in told.items():
        assert (plain(out), err) == (BOTH_CAUGHT.format(mine=mine), "")
    changed = [" M a/value", " M b/value"]
    new = [f"?? {mine}/log-{turn}" for mine in "ab" for turn in "123"]
    new += [f"?? {mine}/tests/more-{turn}.py" for mine in "ab" for turn in "123"]
    status = project.git("status", "--porcelain", "-uall")
    assert sorted(line.strip() for line in status.splitlines()) == sorted(
        line.strip() for line in (*changed, *new)
    )
    for mine in "ab":
        receipt = str(project.root.parent / f"{mine}.json")
        assert project.ll("receipt", f"fix-{mine}", "-o", receipt).returncode == 0
        assert project.ll("verify", receipt, "--rerun").returncode == 0


OUTER = """\
name: fix
paradigm: goal
goal: The check passes
scope: [src/]
scope_writes: enforce
tools:
  - python3 -B tests/check.py
  - {action: Fix it, action_type: prompt}
host: {name: command, command: [../agent.sh, "{prompt}"]}
evidence: {protect: [tests/], clean: true}
max_iterations: 5
"""
OTHER = """\
name: write-tests
initial: write
scope: [lib/]
states:
  write: {action: "echo theirs > lib/tests/check.py; echo theirs > lib/notes", next: done}
  done: {terminal: true}
"""
DURING_A_TURN = """\
#!/bin/sh
touch ../working
until [ -e ../written ]; do sleep 0.02; done
{then}
echo right > src/value
echo finished
"""


def beside(project: Project, then: str = "") -> None:
    write(project.root, {"src/value": "wrong\n", "tests/check.py": TEST})
    write(project.root, {"lib/tests/check.py": "old\n", "lib/notes": "old\n"})
    write(project.root.parent, {"agent.sh": DURING_A_TURN.format(then=then)}, 0o755)
    project.loop("fix", OUTER)
    project.loop("write-tests", OTHER)
    commit(project)


def test_a_loop_that_runs_within_one_turn_of_anothers_agent_keeps_its_work(
    project: Project,
) -> None:
    beside(project)
    with project.started("run", "fix") as run:
        until((project.root.parent / "working").exists, "the agent's turn")
        assert project.ll("run", "write-tests").returncode == 0
        write(project.root.parent, {"written": ""})
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, ""), out
    assert "!" not in out
    assert project.file("lib/tests/check.py") == project.file("lib/notes") == "theirs\n"


def test_its_work_is_kept_even_if_the_other_run_is_killed_and_resumed(project: Project) -> None:
    beside(project, '[ -e ../killed ] || { touch ../killed; kill -9 "$PPID"; exit; }')
    with project.started("run", "fix") as run:
        until((project.root.parent / "working").exists, "the agent's turn")
        assert project.ll("run", "write-tests").returncode == 0
        write(project.root.parent, {"written": ""})
        run.communicate(timeout=60)
    resumed = project.ll("resume", "fix")
    assert resumed.returncode == 0, resumed.stdout
    assert "!" not in resumed.stdout
    assert project.file("lib/tests/check.py") == project.file("lib/notes") == "theirs\n"


def test_a_loop_that_the_agent_itself_starts_is_no_excuse(project: Project) -> None:
    command = 'env -i PATH="$PATH" HOME="$HOME" PYTHONPATH="$PYTHONPATH"'
    beside(project, f"{command} setsid {' '.join(project.argv('run', 'write-tests'))}")
    write(project.root.parent, {"written": ""})
    ended = project.ll("run", "fix")
    assert "the agent changed" in ended.stdout
    assert (ended.returncode, project.file("lib/tests/check.py")) == (1, "old\n")
