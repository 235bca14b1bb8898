"""`ll-loop until`: one line from nothing to a verified run, and everything a file would give."""

from __future__ import annotations

import json
import os
import shutil
from subprocess import CompletedProcess
from textwrap import dedent

import pexpect
import pytest

from tests.project import Project, until

CHECK = "sh check.sh"
FIX = "Fix the code, not the tests."
COMMAND = ("until", CHECK, "--fix", FIX, "--protect", "tests/")
AGENT = """\
#!/bin/sh
cat > "$HOME/prompt"
echo "$*" >> "$HOME/called"
. "$HOME/turn"
echo fixed
"""
HONEST = "echo 'answer=42' > src/answer.sh"
DESIGN_LINES = """\
at most 10 iterations, 2 h, $5
[1/10] evaluate → running sh check.sh...
       ✗ (exit 1) · tree {0}
       → fix (on_fail)
[1/10] fix → running {fix}
       ✓ fixed
       ! src/answer.sh was changed by the agent
       → evaluate
[2/10] evaluate → running sh check.sh...
       ✓ (exit 0) · tree {1}
       → done (on_pass)
       → evaluate again in a clean copy
[2/10] evaluate → running sh check.sh...
       ✓ (exit 0) · clean copy · tree {1}
       → done (on_pass)
"""


@pytest.fixture
def stage(project: Project) -> Project:
    """A project in git without `.loops`, a check that fails, and an agent that plays `turn`."""
    (project.root / ".loops").rmdir()
    files = {
        "src/answer.sh": "answer=41\n",
        "tests/expected": "42\n",
        "check.sh": '. ./src/answer.sh || exit 2\n[ "$answer" = "$(cat tests/expected)" ]\n',
    }
    for name, text in files.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "start")
    programs = project.home / "bin"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text(AGENT)
        (programs / name).chmod(0o755)
    turn(project, HONEST)
    return project


def turn(stage: Project, script: str) -> None:
    (stage.home / "turn").write_text(script + "\n")


def environ(stage: Project, **more: str) -> dict[str, str]:
    path = f"{stage.home / 'bin'}:{stage.environ()['PATH']}"
    return {"PATH": path, "IS_SANDBOX": "1", "LL_ALLOW_SKIP_PERMISSIONS": "1", **more}


def ll(stage: Project, *words: str, **more: str) -> CompletedProcess[str]:
    return stage.ll(*words, env=environ(stage, **more))


def shown(stage: Project, *words: str) -> str:
    done = ll(stage, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_line_from_nothing_to_a_verified_run(stage: Project) -> None:
    done = ll(stage, *COMMAND)
    assert done.returncode == 0, done.stderr
    trees = [line.split("tree ")[1] for line in done.stdout.splitlines() if " · tree " in line]
    assert done.stdout.startswith(DESIGN_LINES.format(trees[0], trees[-1], fix=f'"{FIX}"...'))
    assert done.stderr == dedent(
        """\
        Trying `sh check.sh` here and in a clean copy (Ctrl-C skips this)
          here: fails
          in a clean copy: fails
          with a syntax error in check.sh: fails
        A pass will count only if a clean copy confirms it
        """
    )
    prompt = (stage.home / "prompt").read_text()
    log = stage.root / ".loops/.running/until-sh-check-sh.d/evaluate.log"
    assert prompt == f"{FIX}\n\ncheck: {CHECK}\ncheck_output: {log}"
    assert "--dangerously-skip-permissions" in (stage.home / "called").read_text()
    assert sorted(os.listdir(stage.root / ".loops")) == [".gitignore", ".history", ".running"]
    assert stage.git("status", "--short") == "M src/answer.sh\n?? .loops/"
    receipt = str(stage.home / "receipt.json")
    shown(stage, "receipt", "until-sh-check-sh", "-o", receipt)
    told = shown(stage, "verify", receipt, "--rerun")
    assert told.splitlines()[-2:] == ["✓ 1 check passed again, in a clean copy", "verified"]


def test_an_agent_that_edits_the_test_is_caught(stage: Project) -> None:
    turn(stage, "echo 41 > tests/expected")
    done = ll(stage, *COMMAND, "--no-try", "--max-iterations", "1")
    assert done.returncode == 3
    assert (stage.root / "tests/expected").read_text() == "42\n"
    assert "! tests/expected was changed by the agent: restored" in done.stdout


def test_the_bound_names_only_what_the_host_can_enforce(stage: Project) -> None:
    first = shown(stage, *COMMAND, "--host", "codex", "--no-try").splitlines()[0]
    assert first == "at most 10 iterations, 2 h; cost unknown for codex"
    shell = ("until", CHECK, "--fix", "$ true", "--max-iterations", "2", "--timeout", "90s")
    assert shown(stage, *shell).splitlines()[0] == "at most 2 iterations, 90 s"


def test_settings_are_above_the_defaults_and_flags_above_them(stage: Project) -> None:
    config = stage.home / ".config/little-loops/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("max_iterations: 4\nmax_cost_usd: 1\n")
    assert shown(stage, *COMMAND, "--no-try").splitlines()[0] == "at most 4 iterations, 2 h, $1"
    flags = ("--max-iterations", "6", "--max-cost", "2")
    done = ll(stage, *COMMAND, "--no-try", *flags, LL_MAX_ITERATIONS="5")
    assert done.stdout.splitlines()[:2] == [
        "at most 6 iterations, 2 h, $2",
        "[1/6] evaluate → running sh check.sh...",
    ]


def test_a_shell_command_fixes_without_an_agent_or_consent(stage: Project) -> None:
    done = stage.ll("until", CHECK, "--fix", f"$ {HONEST}")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (stage.home / "called").exists()


@pytest.mark.parametrize(("code", "exit_code"), [(1, 3), (2, 3), (101, 3), (125, 3), (126, 1)])
def test_a_check_fails_on_1_to_125(stage: Project, code: int, exit_code: int) -> None:
    done = stage.ll("until", f"exit {code}", "--fix", "$ true", "--max-iterations", "1")
    assert done.returncode == exit_code, done.stdout


def test_screens_say_that_there_is_no_file(stage: Project) -> None:
    ll(stage, *COMMAND, "--no-try")
    (listed,) = shown(stage, "list").splitlines()[1:]
    assert (listed.split()[0], listed[-9:]) == ("until-sh-check-sh", "(no file)")
    assert shown(stage, "status", "until-sh-check-sh").startswith("until-sh-check-sh (no file)  ")
    assert shown(stage, "history").splitlines()[1].startswith("until-sh-check-sh (no file)  ")
    (past,) = json.loads(shown(stage, "history", "--json"))["runs"]
    assert past["no_file"] is True


REFUSED = (
    "error: this loop runs agents without permission prompts, and you have not agreed to that: "
    f"`claude: {FIX}`\n"
    "   = help: agree with `--allow-skip-permissions` or `LL_ALLOW_SKIP_PERMISSIONS=1`; or set a "
    "safer `permission_mode` with `ll-loop until --permission-mode acceptEdits`\n"
)


def test_consent_is_needed_as_for_a_file(stage: Project) -> None:
    done = ll(stage, *COMMAND, LL_ALLOW_SKIP_PERMISSIONS="")
    assert (done.returncode, done.stderr) == (2, REFUSED)
    assert not (stage.home / "called").exists()
    assert (
        ll(stage, *COMMAND, "--allow-skip-permissions", LL_ALLOW_SKIP_PERMISSIONS="").returncode
        == 0
    )


@pytest.mark.parametrize("saved", [(), ("--save", "mend")], ids=["no file", "saved"])
def test_an_agent_in_a_stricter_mode_needs_no_consent(stage: Project, saved: tuple[str, ...]):
    careful = (
        "--permission-mode",
        "acceptEdits",
        "--allow",
        "Bash(sh check.sh)",
        "--allow",
        "Read",
    )
    done = ll(stage, *COMMAND, *careful, *saved, "--no-try", LL_ALLOW_SKIP_PERMISSIONS="")
    assert done.returncode == 0, done.stderr
    called = (stage.home / "called").read_text()
    assert "--permission-mode=acceptEdits" in called
    assert "Bash(sh check.sh)" in called
    if saved:
        written = stage.file(".loops/mend.yaml")
        assert "permission_mode: acceptEdits" in written
        again = ll(stage, "run", "mend", LL_ALLOW_SKIP_PERMISSIONS="")
        assert again.returncode == 0, again.stderr


def test_a_mode_that_the_agent_does_not_have_is_refused_before_anything_runs(stage: Project):
    done = ll(stage, *COMMAND, "--permission-mode", "mild", LL_ALLOW_SKIP_PERMISSIONS="")
    assert done.returncode == 2
    assert "`claude` has no permission mode `mild`" in done.stderr
    assert not (stage.home / "called").exists()
    done = ll(stage, *COMMAND, "--host", "codex", "--allow", "Read")
    assert done.returncode == 2
    assert "allow" in done.stderr


# ── unfinished runs ────────────────────────────────────────────────────────────────────────────

UNFINISHED = "`until-sh-check-sh` has an unfinished run: interrupted in state `fix`"


@pytest.fixture
def cut(stage: Project) -> Project:
    """A stage with a run that was stopped while its agent worked."""
    turn(
        stage, 'touch "$HOME/at-work"; while [ ! -e "$HOME/open" ]; do sleep 0.05; done; ' + HONEST
    )
    with stage.started(*COMMAND, "--no-try", env=environ(stage)) as run:
        until((stage.home / "at-work").exists, "agent at work")
        run.terminate()
        assert run.wait() == 143
    (stage.home / "open").touch()
    return stage


def test_the_same_command_does_not_start_over_without_a_terminal(cut: Project) -> None:
    done = ll(cut, *COMMAND)
    assert (done.returncode, done.stderr) == (
        2,
        (
            f"error: {UNFINISHED}\n   = help: `ll-loop resume until-sh-check-sh` continues it; "
            "the same command with `--fresh` starts a new run\n"
        ),
    )
    again = ll(cut, *COMMAND, "--fresh", "--no-try")
    assert (again.returncode, again.stdout.splitlines()[1][:5]) == (0, "[1/10")


def test_resume_continues_with_the_machine_it_was_started_with(cut: Project) -> None:
    for word in ("original", "current"):
        done = ll(cut, "resume", "--definition", word)
        assert (done.returncode, done.stderr) == (
            2,
            (
                "error: `until-sh-check-sh` has no loop file, so it always continues with its original definition\n"
                "   = help: leave out `--definition`\n"
            ),
        )
    (cut.root / ".loops/until-sh-check-sh.yaml").write_text("check: 'false'\nfix: 'false'\n")
    resumed = ll(cut, "resume", "until-sh-check-sh")
    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming loop 'until-sh-check-sh' from state 'fix'" in resumed.stdout


def test_another_command_leaves_the_unfinished_run_alone(cut: Project) -> None:
    done = ll(cut, "until", CHECK, "--fix", "Another text.", "--no-try")
    assert done.returncode == 0, done.stderr
    assert shown(cut, "status").splitlines()[1].startswith("until-sh-check-sh (no file)  ")
    assert shown(cut, "status", "until-sh-check-sh@2").startswith("until-sh-check-sh@2 (no file)  ")


@pytest.mark.parametrize(
    ("answer", "code", "then"),
    [
        ("\n", 0, "Resuming loop"),
        ("fresh\n", 0, "at most 10 iterations, 2 h, $5"),
        ("n\n", 2, "error: nothing was run"),
    ],
)
def test_on_a_terminal_it_asks_what_to_do(cut: Project, answer: str, code: int, then: str) -> None:
    child = spawn(cut, *COMMAND, "--no-try")
    child.expect_exact(f"{UNFINISHED}\r\nResume it? [Y/n/fresh] ")
    child.send(answer)
    child.expect_exact(then)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code


def test_a_second_one_under_way_gets_a_number(stage: Project) -> None:
    turn(
        stage, 'touch "$HOME/at-work"; while [ ! -e "$HOME/open" ]; do sleep 0.05; done; ' + HONEST
    )
    first = (*COMMAND, "--no-try", "--scope", "src")
    with stage.started(*first, env=environ(stage)) as run:
        until((stage.home / "at-work").exists, "agent at work")
        second = ll(
            stage,
            "until",
            CHECK,
            "--fix",
            "$ touch tests/x",
            "--scope",
            "tests",
            "--max-iterations",
            "1",
        )
        assert second.returncode == 3, second.stderr
        (stage.home / "open").touch()
        assert run.wait() == 0
    names = {run["name"] for run in json.loads(shown(stage, "history", "--json"))["runs"]}
    assert names == {"until-sh-check-sh", "until-sh-check-sh@2"}


# ── a fix that is proposed ─────────────────────────────────────────────────────────────────────


def spawn(stage: Project, *words: str) -> pexpect.spawn[str]:
    argv = stage.argv(*words)
    env = stage.environ(**environ(stage), COLUMNS="300")
    return pexpect.spawn(
        argv[0],
        argv[1:],
        cwd=stage.root,
        env=env,
        encoding="utf-8",
        timeout=30,
        echo=False,
        dimensions=(50, 300),
    )


PROPOSED = (
    "Proposed prompt for claude:\r\n"
    "  This project's check fails.\r\n"
    "  Find the cause and fix the code. Changes in tests/ will be reverted. "
    "The check will be run again when you finish.\r\n"
    "Use it? [Y/n] "
)


def test_without_a_fix_one_is_proposed_and_confirmed(stage: Project) -> None:
    child = spawn(stage, "until", CHECK, "--protect", "tests/", "--no-try")
    child.expect_exact("[Y/n] ")
    assert f"{child.before}{child.after}" == PROPOSED
    child.send("\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert (stage.home / "prompt").read_text().startswith("This project's check fails.\n")


def test_a_proposal_can_be_declined(stage: Project) -> None:
    child = spawn(stage, "until", CHECK)
    child.expect_exact("[Y/n] ")
    child.send("n\n")
    child.expect_exact("error: nothing was run")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
    assert not (stage.root / ".loops").exists()


def test_without_a_terminal_a_fix_is_required(stage: Project) -> None:
    done = ll(stage, "until", CHECK)
    assert (done.returncode, done.stderr) == (
        2,
        (
            "error: `--fix` is missing, and without a terminal `ll-loop` cannot propose one\n"
            "   = help: `--fix 'Fix the code.'` is a prompt for an agent; `--fix '$ CMD'` is a shell command\n"
        ),
    )


# ── saving ─────────────────────────────────────────────────────────────────────────────────────

SAVED = """\
# yaml-language-server: $schema=./.schema.json
name: fix-answer
check: sh check.sh
fix:
  action: "Fix the code, not the tests."
  action_type: prompt
  context:
    check: sh check.sh
    check_output: "${prev.log_file}"
max_iterations: 10
timeout: 2h
max_cost_usd: 5
evidence:
  protect: [tests/]
  clean: true
"""


def test_save_writes_the_loop_and_runs_it(stage: Project) -> None:
    done = ll(stage, *COMMAND, "--save", "fix-answer")
    assert done.returncode == 0, done.stderr
    path = stage.root / ".loops/fix-answer.yaml"
    assert path.read_text() == SAVED
    tested = ll(stage, "test", "--require-coverage")
    assert (tested.returncode, tested.stdout) == (
        0,
        ".loops/tests/fix-answer.test.yaml  ...\n\n3 tests: 3 passed\n",
    )
    assert shown(stage, "status", "fix-answer").startswith("fix-answer  ✓ completed")
    again = ll(stage, *COMMAND, "--save", "fix-answer")
    assert (again.returncode, again.stderr) == (
        2,
        (
            "error: the loop `fix-answer` already exists: `.loops/fix-answer.yaml`\n"
            "   = help: files are never overwritten; `ll-loop run fix-answer` runs it\n"
        ),
    )
    assert shown(stage, "run", "fix-answer", "-q").splitlines()[-1] != ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("until", "true", "--fix", "${nope.x}"),
            (
                "error[LL402]: unknown namespace `nope`\n"
                "   = help: known: `context`, `captured`, `prev`, `state`, `loop`, `branch`, `env`; "
                "write `$${` for a literal `${`\n"
            ),
        ),
        *(
            (
                ("until", "true", "--fix", fix),
                (
                    "error: `--fix` is empty\n"
                    "   = help: `--fix 'Fix the code.'` is a prompt for an agent; "
                    "`--fix '$ CMD'` is a shell command\n"
                ),
            )
            for fix in ("", "$ ")
        ),
        (
            ("until", " ", "--fix", "x"),
            "error: the check is empty\n   = help: give a command, such as `pytest -q`\n",
        ),
        (
            ("until", "true", "--fix", "x", "--save", "../x"),
            "error: `../x` cannot be a loop's name\n   = help: choose a name such as `fix-tests`\n",
        ),
        (
            ("until", "true", "--fix", "/fix it", "--host", "codex"),
            (
                "error[LL231]: host `codex` has no slash commands\n"
                "   = help: write a prompt with `action_type: prompt`, or use `host: claude`\n"
            ),
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    stage: Project, words: tuple[str, ...], said: str
) -> None:
    done = ll(stage, *words)
    assert (done.returncode, done.stderr) == (2, said)
    assert not (stage.root / ".loops").exists()


def test_in_the_background(stage: Project) -> None:
    done = ll(stage, *COMMAND, "--no-try", "--background")
    assert done.returncode == 0, done.stderr
    assert ll(stage, "wait", "until-sh-check-sh").returncode == 0
    assert "(no file)" in shown(stage, "status", "until-sh-check-sh")


def test_a_receipt_elsewhere_needs_the_check_from_whoever_verifies(stage: Project) -> None:
    ll(stage, *COMMAND)
    receipt = str(stage.home / "receipt.json")
    shown(stage, "receipt", "until-sh-check-sh", "-o", receipt)
    for name in (".running", ".history"):
        shutil.rmtree(stage.root / ".loops" / name)
    alone = ll(stage, "verify", receipt, "--rerun")
    assert (alone.returncode, alone.stdout.splitlines()[-2]) == (
        3,
        (
            "! the loop `until-sh-check-sh` is not in this project, so its checks cannot be compared and were not run again; "
            "pass its check with `--check`"
        ),
    )
    assert ll(stage, "verify", receipt, "--rerun", "--check", "true").returncode == 3
    assert shown(stage, "verify", receipt, "--rerun", "--check", CHECK).endswith("verified\n")


# ── a check of several words ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "help"),
    [
        pytest.param(
            ["pytest", "-q", "--fix", "x"],
            "`ll-loop until 'pytest -q' --fix x`; "
            "an `ll-loop` option such as `-q` goes before the check",
            id="an option that ll-loop has, too",
        ),
        pytest.param(
            ["--timeout", "5m", "cargo", "test", "--fix", "Fix it."],
            "`ll-loop until --timeout 5m 'cargo test' --fix 'Fix it.'`",
            id="a word",
        ),
        pytest.param(
            ["pytest", "--maxfail=1", "--fix=x"],
            "`ll-loop until 'pytest --maxfail=1' --fix=x`",
            id="an option that ll-loop does not have",
        ),
        pytest.param(
            ["cd src && make", "test", "--fix", "x"],
            "`ll-loop until 'cd src && make test' --fix x`",
            id="a word after a script",
        ),
    ],
)
def test_a_check_without_quotes_is_refused(project: Project, words: list[str], help: str):
    refused = project.ll("until", *words)
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        2,
        "",
        f"error: the check needs quotes, because it has several words\n   = help: {help}\n",
    )


@pytest.mark.parametrize(
    ("words", "check"),
    [
        pytest.param(["--", "grep", "-q", "a b", "x"], "grep -q 'a b' x", id="several words"),
        pytest.param(["--", "grep -q a x"], "grep -q a x", id="one word"),
        pytest.param(["-q", "make"], "make", id="our own option before"),
        pytest.param(["make", "--no-try", "-v"], "make", id="our own option behind another"),
        pytest.param(["make test", "-v"], "make test", id="our own option after quotes"),
    ],
)
def test_which_words_are_the_check(project: Project, words: list[str], check: str):
    shown = project.ll("until", "--fix", "$ true", "--dry-run", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"evaluate  $ {check}\n" in shown.stdout


def test_the_check_is_missing(project: Project):
    refused = project.ll("until", "--fix", "x", "--")
    assert (refused.returncode, refused.stderr) == (
        2,
        (
            "error: the following arguments are required: check\n"
            "   = help: see `ll-loop until --help`\n"
        ),
    )
