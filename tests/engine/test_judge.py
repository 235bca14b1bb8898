"""Real runs with a judge: a stand-in for `codex` that answers as written down beforehand.

The check looks at one file only, so it passes whatever else a fix has done.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from little_loops.fsm.ledger import AgentTurn
from little_loops.spending.ledger import read
from tests.engine.test_fallback import INIT, RESULT, environ, prints, stage, turns
from tests.project import Project, until

LOOP = """\
name: fix
initial: check
max_iterations: 5
evidence: true
states:
  check:
    action: test -e fixed
    check: true
    condition: {type: judge, question: Was no test removed?, host: codex}
    on_pass: done
    on_fail: repair
  repair: {action: ./repair.sh, next: check}
  done: {terminal: true}
"""


def answers(*lines: str) -> str:
    """A turn of `codex` with this text."""
    usage = {"input_tokens": 100, "output_tokens": 20}
    return prints(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "\n".join(lines)}},
        {"type": "turn.completed", "usage": usage},
    )


def claude_says(*lines: str) -> str:
    """A turn of `claude` with this text."""
    return prints(INIT, RESULT | {"result": "\n".join(lines), "session_id": "s"})


VETO = answers("> -def test_a(): assert f() == 1", "REASON: a test was removed", "VERDICT: fail")
AGREES = answers("> +done", "REASON: nothing is missing", "VERDICT: pass")
INVENTS = answers("> +def nowhere():", "REASON: looks good", "VERDICT: pass")


@pytest.fixture
def judged(project: Project) -> Project:
    """A project whose fix removes a test the first time, and puts it back the second time."""
    project.git("init", "-q")
    project.loop("fix", LOOP)
    (project.root / "test_a.py").write_text("def test_a(): assert f() == 1\n")
    (project.root / ".gitignore").write_text("repairs\n")
    repair = project.root / "repair.sh"
    repair.write_text(
        "#!/bin/sh\necho x >> repairs\n"
        "if [ $(grep -c x repairs) = 1 ]; then touch fixed; rm test_a.py;"
        " else git checkout -q test_a.py; echo done > notes.txt; fi\n"
    )
    repair.chmod(0o755)
    project.git("add", "-A")
    names = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    project.git(*names, "commit", "-qm", "start")
    return project


def said(project: Project) -> list[str]:
    return [
        f"{event['verdict']}: {event['reason']}"
        for event in project.events("fix")
        if event["event"] == "judge_complete"
    ]


def test_a_bad_change_that_the_check_passes_is_vetoed(judged):
    stage(judged, "codex", VETO, AGREES)
    done = judged.ll("run", "fix", env=environ(judged))
    assert done.returncode == 0, done.stdout + done.stderr
    assert said(judged) == ["fail: a test was removed", "pass: nothing is missing"]
    assert (judged.root / "test_a.py").exists()
    shown = [line.strip() for line in done.stdout.splitlines() if "judge" in line]
    assert shown == [
        "→ judge codex: Was no test removed?",
        "✗ judge: fail: a test was removed",
        "→ judge codex: Was no test removed?",
        "✓ judge: pass: nothing is missing",
    ]


def test_the_agent_that_fixes_it_is_told_why(judged):
    stage(judged, "codex", VETO, AGREES)
    host = 'host: {name: command, command: [./agent.sh, "{prompt}"]}'
    agent = f"repair: {{action: Make it pass., action_type: prompt, {host}, next: check}}"
    judged.loop("fix", LOOP.replace("repair: {action: ./repair.sh, next: check}", agent))
    script = judged.root / "agent.sh"
    script.write_text('#!/bin/sh\necho "$1" >> "$HOME/prompts"\nexec ./repair.sh\n')
    script.chmod(0o755)
    repair = judged.root / "repair.sh"
    repair.write_text(repair.read_text() + "echo done\n")
    done = judged.ll("run", "fix", env=environ(judged))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (judged.home / "prompts").read_text() == (
        "Make it pass.\nMake it pass.\n\n"
        "A judge did not confirm that `check` passes: a test was removed\n"
    )


def test_it_cannot_approve_what_the_check_fails(judged):
    stage(judged, "codex", AGREES)
    judged.loop("fix", LOOP.replace("test -e fixed", "test -e nowhere"))
    done = judged.ll("run", "fix", "--max-iterations", "2", env=environ(judged))
    assert (done.returncode, turns(judged)) == (3, [])


def test_an_answer_that_rests_on_an_invented_line_is_an_error(judged):
    stage(judged, "codex", INVENTS)
    done = judged.ll("run", "fix", env=environ(judged))
    assert done.returncode == 1
    assert said(judged) == ["error: it quoted a line that does not exist: +def nowhere():"] * 2
    assert turns(judged) == ["codex", "codex"]


def test_a_judge_that_takes_too_long_is_ended_and_asked_once_more(judged):
    judged.loop("fix", LOOP.replace("host: codex}", "host: codex, timeout: 1s}"))
    stage(judged, "codex", "exec sleep 600\n")
    done = judged.ll("run", "fix", env=environ(judged))
    assert (done.returncode, said(judged)) == (1, ["error: ran out of time"] * 2)


def test_it_may_only_read_and_gets_the_diff_as_data(judged):
    stage(judged, "codex", VETO, AGREES)
    folder = judged.home / "bin"
    real = (
        (folder / "codex")
        .read_text()
        .replace("cat > /dev/null", 'echo "$@" >> {0}/argv\ncat >> {0}/prompt')
    )
    (folder / "codex").write_text(real.format(shlex.quote(str(judged.home))))
    assert judged.ll("run", "fix", env=environ(judged)).returncode == 0
    assert "-s read-only" in (judged.home / "argv").read_text().splitlines()[0]
    prompt = (judged.home / "prompt").read_text()
    assert "Question: Was no test removed?" in prompt
    assert "-def test_a(): assert f() == 1" in prompt


def noted_argv(project: Project, name: str) -> None:
    """Let a stand-in note the arguments it gets, one turn per line."""
    path = project.home / "bin" / name
    noting = f'echo "$@" >> {shlex.quote(str(project.home))}/argv-{name}\ncat > /dev/null'
    path.write_text(path.read_text().replace("cat > /dev/null", noting))


@pytest.mark.parametrize(
    ("name", "args"), [("claude", "--effort=low"), ("codex", "--color=never")], ids=str
)
def test_arguments_for_the_agent_that_works_are_not_those_of_the_judge(judged, name, args):
    """They could configure hooks, plugins or servers that do more than read."""
    host = f"host: {{name: {name}, permission_mode: acceptEdits, args: [{args}]}}\n"
    asked = LOOP.replace(", host: codex", "").replace("evidence: true\n", f"evidence: true\n{host}")
    works = "  repair: {action: Repair it, action_type: prompt, next: check}"
    judged.loop("fix", asked.replace("  repair: {action: ./repair.sh, next: check}", works))
    repairs = f"cd {shlex.quote(str(judged.root))} && ./repair.sh && cd - > /dev/null\n"
    said_by = {"claude": claude_says, "codex": answers}[name]
    answer = said_by("> -def test_a(): assert f() == 1", "REASON: removed", "VERDICT: fail")
    agrees = said_by("> +done", "REASON: nothing is missing", "VERDICT: pass")
    stage(judged, name, repairs + said_by("ok"), answer, repairs + said_by("ok"), agrees)
    noted_argv(judged, name)
    done = judged.ll("run", "fix", env=environ(judged))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (judged.home / f"argv-{name}").read_text().splitlines()
    assert [args in line for line in lines] == [True, False, True, False]
    sessions = re.findall(r"--session-id=(\S+)", "\n".join(lines))
    assert len(set(sessions)) == (4 if name == "claude" else 0)  # each turn has a fresh one


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_judge_may_not_have_arguments_of_its_own(judged, name):
    own = f"host: {{name: {name}, args: [--effort=low]}}"
    judged.loop("fix", LOOP.replace("host: codex", own))
    refused = judged.ll("validate", "fix", env=environ(judged))
    assert refused.returncode == 2
    assert refused.stdout.splitlines()[0] == (
        "error[LL230]: a judge cannot have `args`, because they could let it do more than read"
    )
    assert "   = help: change or remove that option in the judge's `host`" in refused.stdout


# ── consent ────────────────────────────────────────────────────────────────────────────────────

FREE = LOOP.replace(
    "  repair: {action: ./repair.sh, next: check}",
    "  repair: {action: Repair it, action_type: prompt, next: check}",
)


def test_it_is_part_of_what_the_user_agrees_to(judged):
    judged.loop("fix", FREE)
    stage(judged, "claude", claude_says("ok"))
    stage(judged, "codex", AGREES)
    env = environ(judged) | {"IS_SANDBOX": "1"}
    refused = judged.ll("run", "fix", env=env)
    assert refused.returncode == 2
    assert "`claude: Repair it`; `codex: Was no test removed?`\n" in refused.stderr
    assert judged.ll("trust", "fix", env=env).stdout.endswith(
        "codex: Was no test removed?\n"
        "                mode: read-only\n"
        "                role: judge, which can only read\n"
        "                sees: diff\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param(
            "Was no test removed?",
            "Is it nice?",
            "`codex: Is it nice?`",
            id="another question",
        ),
        pytest.param(
            "host: codex}",
            "host: claude}",
            "`claude: Was no test removed?`",
            id="another agent",
        ),
        pytest.param(
            "host: codex}",
            "host: {name: codex, env: {OPENAI_BASE_URL: elsewhere}}}",
            '`codex: Was no test removed?` (changed since you agreed to it: environment: not set → {"OPENAI_BASE_URL": "elsewhere"})',
            id="another environment",
        ),
        pytest.param(
            "host: codex}",
            "host: codex, sees: [output]}",
            "`codex: Was no test removed?` (changed since you agreed to it: sees: diff → output)",
            id="something else to see",
        ),
    ],
)
def test_a_judge_that_was_changed_is_asked_about_again(judged, old, new, asked):
    judged.loop("fix", FREE)
    stage(judged, "claude", claude_says("ok"))
    stage(judged, "codex", AGREES)
    env = environ(judged) | {"IS_SANDBOX": "1"}
    assert judged.ll("trust", "fix", env=env).returncode == 0
    judged.loop("fix", FREE.replace(old, new))
    refused = judged.ll("run", "fix", env=env)
    assert refused.returncode == 2
    assert f"you have not agreed to that: {asked}\n" in refused.stderr
    assert turns(judged) == []


def test_beside_agents_that_skip_no_prompts_it_needs_no_consent(judged):
    """As for any agent in a mode that only reads."""
    judged.loop("fix", FREE.replace("evidence: true", "host: {permission_mode: plan}"))
    stage(judged, "claude", claude_says("ok"))
    stage(judged, "codex", AGREES)
    assert judged.ll("trust", "fix", env=environ(judged)).stdout == (
        "nothing is trusted in this project\n"
    )


def test_what_it_changed_is_put_back_and_it_has_not_judged(judged):
    place = shlex.quote(str(judged.root / "notes.txt"))
    other = shlex.quote(str(judged.root / "new.txt"))
    writes = f"echo mine > {place}\necho new > {other}\n"
    judged.loop("fix", LOOP.replace("host: codex}", "host: codex, sees: [diff]}"))
    stage(judged, "codex", VETO, writes + AGREES, AGREES)
    done = judged.ll("run", "fix", env=environ(judged))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (judged.root / "notes.txt").read_text() == "done\n"
    assert not (judged.root / "new.txt").exists()
    assert said(judged)[1].startswith("error: files changed while it was working: ")
    assert said(judged)[2] == "pass: nothing is missing"


def test_it_sees_the_output_and_files(judged):
    judged.loop(
        "fix",
        LOOP.replace("action: test -e fixed", "action: test -e fixed && echo 3 passed").replace(
            "host: codex}", "host: codex, sees: [output, plan.md]}"
        ),
    )
    (judged.root / "plan.md").write_text("1. do it\n")
    stage(judged, "codex", answers("> 3 passed", "> 1. do it", "VERDICT: pass"))
    done = judged.ll("run", "fix", env=environ(judged))
    assert (done.returncode, said(judged)) == (0, ["pass: it quoted: 3 passed"])


def test_a_large_file_does_not_hide_the_change_to_another_from_it(judged):
    repair = judged.root / "repair.sh"
    repair.write_text(repair.read_text() + "seq 100000 > a_table.txt\n")
    stage(judged, "codex", VETO, AGREES)
    done = judged.ll("run", "fix", env=environ(judged))
    assert (done.returncode, said(judged)[0]) == (0, "fail: a test was removed")
    assert done.stderr == 2 * "warning: the judge saw only a part of a_table.txt\n"


@pytest.mark.parametrize("name", ["missing.md", "../outside.md"])
def test_a_file_that_it_cannot_see_is_an_error(judged, name):
    judged.loop("fix", LOOP.replace("host: codex}", f"host: codex, sees: [{name}]}}"))
    stage(judged, "codex", AGREES)
    assert judged.ll("run", "fix", env=environ(judged)).returncode == 1
    assert turns(judged) == []


def test_nothing_is_asked_about_nothing(judged):
    (judged.root / "fixed").write_text("")
    stage(judged, "codex", VETO)
    done = judged.ll("run", "fix", env=environ(judged))
    assert (done.returncode, turns(judged)) == (0, [])
    assert said(judged) == ["pass: there is nothing to judge"]


def test_its_turn_is_in_the_ledger_and_in_the_receipt(judged):
    stage(judged, "codex", VETO, AGREES)
    assert judged.ll("run", "fix", env=environ(judged)).returncode == 0
    lines = [each for each in read(judged.environ(), 0) if isinstance(each, AgentTurn)]
    assert [(each.host, each.tokens) for each in lines] == [("codex", 120), ("codex", 120)]
    judged.ll("receipt", "fix", "-o", "receipt.json", env=environ(judged))
    told = json.loads((judged.root / "receipt.json").read_text())["predicate"]
    assert [(each["state"], each["verdict"], each["host"]) for each in told["judges"]] == [
        ("check", "fail", "codex"),
        ("check", "pass", "codex"),
    ]


@pytest.mark.parametrize("verb", ["validate", "run"])
def test_a_program_without_a_mode_that_only_reads_is_refused(judged, verb):
    own = 'host: {name: command, command: [my-agent, "{prompt}"]}'
    judged.loop("fix", LOOP.replace("host: codex", own))
    refused = judged.ll(verb, "fix", env=environ(judged))
    assert refused.returncode == 2
    assert "`command` cannot judge, because it has no mode in which it can only read" in (
        refused.stdout + refused.stderr
    )


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


PAUSES = "echo $$ > judge\ntouch asked\nwhile [ ! -e go ]; do sleep 0.05; done\n"
"""The first part of a turn that waits until it may answer."""
ONCE = "and it is asked only once"


@contextmanager
def killed_while_it_is_asked(project: Project) -> Iterator[dict[str, str]]:
    """A run whose runner was killed when its judge was at work; gives the environment to resume it
    in. Whatever is left is killed at the end."""
    env = environ(project)
    with project.started("run", "fix", env=env) as run:
        until((project.home / "asked").exists, "judge")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        yield env


def judge(project: Project) -> psutil.Process:
    return psutil.Process(int((project.home / "judge").read_text()))


def keeper(project: Project) -> psutil.Process:
    found = judge(project).parent()
    assert found is not None
    return found


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def kept(project: Project, name: str = "*") -> list[Path]:
    return list((project.home / ".local/state/little-loops/judges").glob(f"*/*/{name}"))


def test_a_judge_outlives_its_runner_and_the_resume_waits_for_its_answer(judged):
    stage(judged, "codex", PAUSES + VETO, AGREES)
    with (
        killed_while_it_is_asked(judged) as env,
        judged.started("resume", "fix", env=env) as resumed,
    ):
        until(lambda: "resume" in judged.events("fix")[-1].values(), "resume")
        assert is_alive(judge(judged))
        (judged.home / "go").touch()
        out, err = resumed.communicate()
        assert resumed.returncode == 0, out + err
    assert said(judged) == ["fail: a test was removed", "pass: nothing is missing"]
    assert turns(judged) == ["codex"] * 2  # as without the kill
    assert kept(judged) == []


def test_the_answer_of_a_judge_that_has_ended_since_is_collected(judged):
    stage(judged, "codex", PAUSES + VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        (judged.home / "go").touch()
        until(lambda: kept(judged, "ended"), "end of the judge")
        done = judged.ll("resume", "fix", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said(judged) == ["fail: a test was removed", "pass: nothing is missing"]
    assert turns(judged) == ["codex"] * 2
    ledger = [line for line in read(judged.environ(), 0) if isinstance(line, AgentTurn)]
    assert [line.tokens for line in ledger] == [120, 120]


@pytest.mark.parametrize("killed", [keeper, judge], ids=["keeper", "judge"])
def test_a_judge_that_is_killed_too_is_not_asked_again(judged, killed):
    stage(judged, "codex", PAUSES + VETO, VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        both = keeper(judged), judge(judged)
        for process in both if killed is keeper else both[1:]:
            process.kill()
        done = judged.ll("resume", "fix", env=env)
        assert not any(map(is_alive, both))
    if killed is keeper:
        assert done.returncode == 1, done.stdout + done.stderr
        assert said(judged) == [f"unanswered: it was ended before it had answered, {ONCE}"]
        assert turns(judged) == ["codex"]
        again = judged.ll("resume", "fix", env=env)  # by a person: the check runs again
        assert again.returncode == 0, again.stdout + again.stderr
    else:  # the keeper saw how it ended: it could not judge, as with a runner that lives
        assert done.returncode == 0, done.stdout + done.stderr
        assert said(judged)[0].startswith("error: ")


def test_a_judge_whose_keeper_was_killed_is_ended_and_not_asked_again(judged):
    stage(judged, "codex", PAUSES + VETO, VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        alone = judge(judged)
        keeper(judged).kill()
        assert judged.ll("resume", "fix", env=env).returncode == 1
        assert not is_alive(alone)
    assert said(judged) == [f"unanswered: it was ended before it had answered, {ONCE}"]


def test_a_stop_while_its_answer_is_awaited_ends_it(judged):
    stage(judged, "codex", PAUSES + VETO, VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        both = keeper(judged), judge(judged)
        with judged.started("resume", "fix", env=env) as resumed:
            until(lambda: "resume" in judged.events("fix")[-1].values(), "resume")
            resumed.send_signal(signal.SIGTERM)
            assert resumed.wait(30) == 128 + 15
        assert not any(map(is_alive, both))
    assert judged.ll("resume", "fix", env=env).returncode == 0
    assert [each.split(":")[0] for each in said(judged)] == ["stopped", "fail", "pass"]


def test_ll_loop_stop_ends_a_judge_that_has_outlived_its_runner(judged):
    stage(judged, "codex", PAUSES + VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        both = keeper(judged), judge(judged)
        judged.ll("stop", "fix", env=env)
        assert not any(map(is_alive, both))
        assert judged.ll("resume", "fix", env=env).returncode == 1
    assert said(judged) == [f"unanswered: it was ended before it had answered, {ONCE}"]


def test_a_judge_that_nobody_collects_ends_at_its_limit(judged):
    judged.loop("fix", LOOP.replace("host: codex}", "host: codex, timeout: 1s}"))
    stage(judged, "codex", PAUSES)
    with killed_while_it_is_asked(judged):
        both = keeper(judged), judge(judged)
        until(lambda: not any(map(is_alive, both)), "end of the judge")


def test_an_answer_about_other_files_does_not_count(judged):
    """It is asked about the new ones, which stay as they are: the user may have changed them."""
    stage(judged, "codex", PAUSES + AGREES, VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        (judged.root / "mine.txt").write_text("mine\n")
        (judged.home / "go").touch()
        done = judged.ll("resume", "fix", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said(judged) == [
        "lost: files changed before its answer was recorded: mine.txt",
        "fail: a test was removed",
        "pass: nothing is missing",
    ]
    assert (judged.root / "mine.txt").exists()


def test_an_answer_that_is_not_here_counts_as_asked(judged):
    """As on another computer, or if an earlier version asked it."""
    stage(judged, "codex", PAUSES + VETO)
    with killed_while_it_is_asked(judged) as env:
        shutil.rmtree(judged.home / ".local/state/little-loops/judges")
        assert judged.ll("resume", "fix", env=env).returncode == 1
    assert said(judged) == [f"unanswered: its answer is not on this computer, {ONCE}"]
    assert turns(judged) == ["codex"]


def test_a_resume_in_another_state_ends_it(judged):
    stage(judged, "codex", PAUSES + VETO, AGREES)
    with killed_while_it_is_asked(judged) as env:
        both = keeper(judged), judge(judged)
        done = judged.ll("resume", "fix", "--from", "repair", env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not any(map(is_alive, both))
    assert [each.split(":")[0] for each in said(judged)] == ["lost", "pass"]


def test_killed_after_its_answer_it_is_not_asked_again(judged):
    """The fix hangs after the veto, and the runner is killed there."""
    hangs = (
        "#!/bin/sh\necho x >> repairs\ncase $(grep -c x repairs) in 1) touch fixed; rm test_a.py;;"
        " 2) touch hanging; while :; do sleep 0.1; done;;"
        " *) git checkout -q test_a.py; echo done > notes.txt;; esac\n"
    )
    (judged.root / "repair.sh").write_text(hangs)
    (judged.root / ".gitignore").write_text("repairs\nhanging\n")
    stage(judged, "codex", VETO, AGREES)
    env = environ(judged)
    with judged.started("run", "fix", env=env) as run:
        until((judged.root / "hanging").exists, "second fix")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert judged.ll("resume", "fix", env=env).returncode == 0
    assert turns(judged) == ["codex", "codex"]  # once for each pass


def test_a_stop_while_it_is_asked_ends_its_agent(judged):
    stage(judged, "codex", "touch asked\nwhile :; do sleep 0.1; done\n", VETO, AGREES)
    env = environ(judged)
    with judged.started("run", "fix", env=env) as run:
        until((judged.home / "asked").exists, "judge")
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) in (130, 143, 128 + 15)
    assert judged.ll("resume", "fix", env=env).returncode == 0
    assert said(judged)[0].startswith("stopped: ")


# ── as a loop file ─────────────────────────────────────────────────────────────────────────────

SHORT = """\
check:
  action: make test
  condition: {type: judge, question: Is it fixed?, host: codex}
fix: touch fixed
"""


def test_alone_it_means_the_default_condition_and_the_judge(judged):
    judged.loop("short", SHORT)
    compiled = judged.ll("compile", "short", env=environ(judged)).stdout
    assert 'fail: "1-125"' in compiled
    shown = judged.ll("show", "short", env=environ(judged)).stdout
    assert (
        "judged by all (exit_code (fail 1-125), judge (question Is it fixed?, host codex))" in shown
    )


TESTS = """\
loop: short
tests:
  - name: a veto leads to another fix
    given: {evaluate: [{judge: {fail: a test was removed}}, {judge: pass}], fix: 0}
    kill: everywhere
    expect: {status: completed, path: [evaluate, fix, evaluate, done]}
  - name: it is not asked about a failure
    given: {evaluate: [{exit: 1, judge: error}, 0], fix: 0}
    expect: {status: completed}
  - name: it cannot judge
    given: {evaluate: {judge: error}}
    expect: {status: failed, reason: error}
"""


def test_tests_of_loops_say_what_it_answers(judged):
    judged.loop("short", SHORT)
    folder = judged.root / ".loops" / "tests"
    folder.mkdir()
    (folder / "short.test.yaml").write_text(TESTS)
    done = judged.ll("test", "short")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "3 tests: 3 passed")
    (folder / "short.test.yaml").write_text(TESTS.replace("fix: 0}", "fix: {judge: pass}}"))
    wrong = judged.ll("test", "short")
    assert wrong.returncode == 2
    assert "`fix` has no judge" in wrong.stdout + wrong.stderr
