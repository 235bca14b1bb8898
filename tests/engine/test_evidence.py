"""Proof in real runs: real repositories, real agents' processes, kills.

The agent of these projects edits the test in its first iteration and repairs the code in the second,
so a run that believes the first one ends with the code still wrong.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

from little_loops.runs.layout import RULES
from tests.entries import log_of
from tests.project import Project, until
from tests.simulation.command import (
    GONE,
    START,
    At,
    Noting,
    command,
    dies,
    operations,
    projects,
)

Make = Callable[[], Project]
SOME = 61
"""In `make test`, every so many operations; `make soak` takes all of them."""
CHECK = f"{sys.executable} tests/check.py"
TEST = 'assert open("src/value").read() == "right\\n", "the value is wrong"\n'
CHEAT_THEN_FIX = """\
#!/bin/sh
echo "$1" >> "$HOME/prompts"
case $LL_ITERATION in
1) echo pass > tests/check.py ;;
*) echo right > src/value ;;
esac
echo finished
"""
GOAL = """\
    paradigm: goal
    name: fix
    goal: the value is right
    tools:
      - {check}
      - {{action: Fix the value, action_type: prompt}}
    host: {{name: command, command: [./agent.sh, "{{prompt}}"]}}
    max_iterations: 5
"""


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def laid_out(
    project: Project,
    agent: str = CHEAT_THEN_FIX,
    more: str = "",
    check: str = CHECK,
    script: str = "",
) -> Project:
    files = {
        "check.sh": script,
        "tests/check.py": TEST,
        "src/value": "wrong\n",
        "agent.sh": agent,
        ".gitignore": "ignored\n",
    }
    for name, text in files.items():
        path = project.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (project.root / "agent.sh").chmod(0o755)
    project.loop("fix", dedent(GOAL.format(check=check)) + dedent(more))
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return project


PROTECTED = "evidence: {protect: [tests/], clean: true}\n"
ME = ("-c", "user.name=a", "-c", "user.email=a@b.c")


def run(project: Project, *words: str, env: dict[str, str] | None = None) -> Any:
    return project.ll("run", "fix", "--allow-skip-permissions", *words, env=env)


def events(project: Project) -> list[dict[str, Any]]:
    from little_loops.runs.reading import Runs

    view = Runs(str(project.root)).view("fix")
    assert view is not None
    return log_of(view.files)


def plain(text: str) -> str:
    """The output without what differs from run to run."""
    text = re.sub(r"tree [0-9a-f]{6}", "tree ID", text)
    return re.sub(r"\d+(\.\d+)?m?s\)", "TIME)", text).replace(sys.executable, "python")


def hash_of(directory: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found.update(str(path.relative_to(directory)).encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def test_an_edited_test_is_restored_and_the_agent_is_told(tmp_path):
    project = laid_out(Project(tmp_path), more=PROTECTED)
    before = hash_of(project.root / ".git")
    ended = run(project)
    assert plain(ended.stdout) == dedent("""\
        [1/5] evaluate → running python tests/check.py...
               ✗ AssertionError: the value is wrong (exit 1) · tree ID
               → fix (on_fail)
        [1/5] fix → running "Fix the value"...
               ✓ finished
               ! tests/check.py was changed by the agent: restored
               → evaluate
        [2/5] evaluate → running python tests/check.py...
               ✗ AssertionError: the value is wrong (exit 1) · tree ID
               → fix (on_fail)
        [2/5] fix → running "Fix the value"...
               ✓ finished
               → evaluate
        [3/5] evaluate → running python tests/check.py...
               ✓ (exit 0) · tree ID
               → done (on_pass)
               → evaluate again in a clean copy
        [3/5] evaluate → running python tests/check.py...
               ✓ (exit 0) · clean copy · tree ID
               → done (on_pass)

        Loop completed: done (3 iterations, TIME)
        Files changed: src/value (+1 -1)
        Verified on tree ID; for a receipt: ll-loop receipt fix
        """)
    assert ended.returncode == 0
    assert (project.root / "tests/check.py").read_text() == TEST
    prompts = (project.home / "prompts").read_text()
    told = "Protected files that must not be changed were restored: tests/check.py"
    assert prompts == f"Fix the value\nFix the value\n\n{told}\n"
    assert hash_of(project.root / ".git") == before, "the user's repository is untouched"


def test_the_line_of_a_confirmed_check_counts_its_passes(tmp_path):
    fix = agent("echo right > src/value")
    project = laid_out(Project(tmp_path), fix, PROTECTED.replace("clean", "confirm: 2, clean"))
    assert plain(run(project).stdout).splitlines()[6:17] == [
        "[2/5] evaluate → running python tests/check.py...",
        "       ✓ (exit 0) · tree ID",
        "       → evaluate again: pass 1 of 2",
        "[2/5] evaluate → running python tests/check.py...",
        "       ✓ (exit 0) · tree ID · 2 of 2",
        "       → done (on_pass)",
        "       → evaluate again in a clean copy",
        "[2/5] evaluate → running python tests/check.py...",
        "       ✓ (exit 0) · clean copy · tree ID · 2 of 2",
        "       → done (on_pass)",
        "",
    ]


PUBLISHED = f"""\
    name: fix
    initial: test
    host: {{name: command, command: [./agent.sh, "{{prompt}}"]}}
    states:
      test: {{action: {CHECK}, check: true, on_pass: done, on_fail: fix}}
      fix: {{action: Fix the value, action_type: prompt, next: test}}
      done: {{terminal: true, action: echo 2 > src/version; echo today > src/date}}
"""


def test_the_ending_says_how_many_files_changed_after_the_last_pass(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"))
    project.loop("fix", PUBLISHED)
    assert plain(run(project).stdout).splitlines()[-3:] == [
        "Loop completed: done (2 iterations, TIME)",
        "Files changed: src/value, src/date, src/version (+3 -1)",
        "Not verified: 2 files have changed since the last check passed",
    ]


SCRIPT = "python3 tests/check.py 2>/dev/null || exit 1\n"


def test_a_rewritten_check_is_reported_where_only_the_tests_are_protected(tmp_path):
    fix = agent("echo true > check.sh", "echo '#' >> tests/check.py")
    project = laid_out(Project(tmp_path), fix, PROTECTED, "sh check.sh", script=SCRIPT)
    ended = run(project)
    assert plain(ended.stdout).splitlines()[3:7] == [
        '[1/5] fix → running "Fix the value"...',
        "       ✓ finished",
        "       ! check.sh was changed by the agent",
        "       ! tests/check.py was changed by the agent: restored",
    ]


def test_the_ending_names_a_file_that_a_makefile_of_the_check_includes(tmp_path):
    fix = agent("echo 'CHECK = true' > ci/more.mk")
    project = laid_out(Project(tmp_path), fix, PROTECTED, "make -s || exit 1")
    (project.root / "ci").mkdir()
    (project.root / "Makefile").write_text("-include ci/*.mk\nall:\n\t@$(CHECK)\n")
    (project.root / "ci/first.mk").write_text("include ci/more.mk\n")
    (project.root / "ci/more.mk").write_text("CHECK = false\n")
    ended = run(project)
    assert plain(ended.stdout).splitlines()[-4:] == [
        "Loop completed: done (2 iterations, TIME)",
        "Files changed: ci/more.mk (+1 -1)",
        "Please review: ci/more.mk changed, and the checks depend on it",
        "Verified on tree ID; for a receipt: ll-loop receipt fix",
    ]
    receipt = json.loads(project.ll("receipt", "fix").stdout)
    assert receipt["predicate"]["ending"]["to_review"] == ["ci/more.mk"]


def test_the_ending_names_a_file_that_a_script_of_the_check_runs(tmp_path):
    fix = agent("echo true > ci/run.sh")
    project = laid_out(Project(tmp_path), fix, PROTECTED, "sh check.sh", "sh ci/run.sh\n")
    (project.root / "ci").mkdir()
    (project.root / "ci/run.sh").write_text(f"{CHECK}\n")
    ended = run(project)
    assert (ended.returncode, ended.stdout.splitlines()[-2]) == (
        0,
        "Please review: ci/run.sh changed, and the checks depend on it",
    )


def test_code_under_test_that_a_check_sources_is_not_named_if_it_is_exempt(tmp_path):
    fix = agent("echo is_right=true > lib.sh")
    exempt = "evidence: {protect: [tests/, '!/lib.sh'], clean: true}\n"
    project = laid_out(Project(tmp_path), fix, exempt, "sh check.sh", ". ./lib.sh\n$is_right\n")
    (project.root / "lib.sh").write_text("is_right=false\n")
    ended = run(project)
    assert plain(ended.stdout).splitlines()[-3:] == [
        "Loop completed: done (2 iterations, TIME)",
        "Files changed: lib.sh (+1 -1)",
        "Verified on tree ID; for a receipt: ll-loop receipt fix",
    ]
    assert "lib.sh was changed" not in ended.stdout


def test_the_ending_names_a_protected_file_that_a_step_changed(tmp_path):
    """The step runs what the agent wrote, so nobody can tell whose change it is."""
    fix = agent("echo 'echo pass > tests/check.py' > src/tool.sh")
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    path = project.root / ".loops/fix.yaml"
    path.write_text(path.read_text().replace("host:", "  - sh src/tool.sh\nhost:"))
    ended = run(project)
    assert "! tests/check.py changed by `" in ended.stdout
    assert "Please review: tests/check.py changed, and the checks depend on it\n" in ended.stdout


def test_a_large_ignored_file_is_there_in_the_clean_copy(tmp_path):
    check = "sh -c 'test $(wc -c < ignored) = 2000000 && grep -q right src/value'"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED, check)
    (project.root / "ignored").write_bytes(bytes(2_000_000))
    assert run(project).returncode == 0


def test_a_pipe_under_a_protected_path_is_named_once_and_left_out(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    os.mkfifo(project.root / "tests/pipe")
    ended = run(project)
    named = "warning: `tests/pipe` is not part of the snapshot: neither a file nor a link\n"
    assert (ended.returncode, ended.stderr) == (0, named)


WEAKEN_AND_KILL = ("echo > tests/check.py", "kill -9 $PPID", "sleep 1")


def test_a_test_that_a_killed_run_left_weakened_is_restored_when_the_next_one_starts(tmp_path):
    fix = '[ -e "$HOME/killed" ] && echo right > src/value && echo ok && exit'
    kill = agent(fix, ': > "$HOME/killed"', *WEAKEN_AND_KILL)
    project = laid_out(Project(tmp_path), kill, PROTECTED)
    assert run(project).returncode == -9
    ended = run(project, "--fresh")
    (patch,) = project.home.glob(".local/state/little-loops/trees/*/turns/*.patch")
    assert ended.stderr.splitlines()[0] == (
        "warning: tests/check.py changed during an agent's interrupted turn: restored; if the"
        f" change is yours, `git apply {patch}` brings it back"
    )
    assert (ended.returncode, (project.root / "tests/check.py").read_text()) == (0, TEST)
    project.git("apply", str(patch))
    assert (project.root / "tests/check.py").read_text() == "\n"


def test_a_loop_that_a_killed_run_left_weakened_is_not_what_the_next_one_runs(tmp_path):
    weaken = "sed -i s/python.tests.check.py/true/ .loops/fix.yaml; echo 'host: {}' > .loops/.config.yaml"
    fix = '[ -e "$HOME/killed" ] && echo right > src/value && echo ok && exit'
    kill = agent(fix, ': > "$HOME/killed"', weaken, "kill -9 $PPID", "sleep 1")
    project = laid_out(Project(tmp_path), kill, PROTECTED)
    before = (project.root / ".loops/fix.yaml").read_text()
    assert run(project).returncode == -9
    refused = run(project, "--fresh")
    assert refused.stderr.splitlines()[1:] == [
        (
            "error: .loops/.config.yaml, .loops/fix.yaml changed during an agent's interrupted"
            " turn: restored, but this command has read the changed version"
        ),
        "   = help: run the same command again",
    ]
    assert (refused.returncode, (project.root / ".loops/fix.yaml").read_text()) == (2, before)
    ended = run(project, "--fresh")
    assert (ended.returncode, "(2 iterations" in ended.stdout) == (0, True)


def test_after_a_kill_the_line_says_how_to_get_a_restored_file_back(tmp_path):
    """Who changed it cannot be known: the agent, or the user before the resume."""
    once = '[ -e ../killed ] || { touch ../killed; kill -9 "$PPID"; exit; }'
    project = laid_out(Project(tmp_path), agent(once, "echo right > src/value"), PROTECTED)
    assert run(project).returncode == -signal.SIGKILL
    mine = f"# mine\n{TEST}"
    (project.root / "tests/check.py").write_text(mine)
    said = project.ll("resume", "fix", "--allow-skip-permissions")
    assert said.returncode == 0, said.stdout
    assert (project.root / "tests/check.py").read_text() == TEST
    lines = [line.strip() for line in said.stdout.partition("!")[2].splitlines()[:3]]
    assert lines[:2] == [
        "tests/check.py was changed by the agent: restored",
        "If you changed it after the kill, this restores your version:",
    ]
    words = lines[2].split()[1:]
    assert words[:4] == ["restore", "fix", "tests/check.py", "--tree"]
    done = project.ll(*words)
    assert done.stdout == f"restored tests/check.py as it was in tree {words[-1]}\n", done.stderr
    assert (project.root / "tests/check.py").read_text() == mine


def test_what_a_killed_turn_changed_is_not_taken_for_nothing_if_the_snapshots_are_gone(tmp_path):
    gone = 'rm -rf "$HOME/.local/state/little-loops/trees"'
    project = laid_out(Project(tmp_path), agent(gone, *WEAKEN_AND_KILL), PROTECTED)
    assert run(project).returncode == -9
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    ended = run(project, "--fresh")
    store = next(line for line in ended.stderr.splitlines() if "interrupted" in line)
    assert store.startswith(
        "warning: an agent's turn was interrupted, and what it changed is not known: the tree store"
    )
    assert store.endswith("; this run starts with those changes; review them with `git diff`")


def test_without_a_place_for_the_snapshots_a_run_says_what_to_do(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    ended = run(project, env={"XDG_STATE_HOME": str(project.root)})
    assert (ended.returncode, ended.stderr) == (1, "next: ll-loop resume fix\n")
    assert "set XDG_STATE_HOME to a directory outside the project" in ended.stdout


def test_where_tampering_is_only_reported_a_weakened_test_is_named_at_the_next_start(tmp_path):
    more = "evidence: {protect: [tests/], tampering: report}\n"
    project = laid_out(Project(tmp_path), agent(*WEAKEN_AND_KILL), more)
    assert run(project).returncode == -9
    ended = run(project, "--fresh")
    assert ended.stderr.splitlines()[0] == (
        "warning: tests/check.py changed during an agent's interrupted turn, and this run starts"
        " with that change in place; review it with `git diff`"
    )


@pytest.mark.parametrize(
    "link",
    [
        pytest.param('ln -sf "$HOME/value" src/value', id="out"),
        pytest.param('cp "$HOME/value" new; ln -sf ../../project/new src/value', id="and back"),
    ],
)
def test_code_behind_a_new_link_out_of_the_project_is_not_delivered(tmp_path, link):
    fix = agent('echo right > "$HOME/value"', link)
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    ended = run(project)
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[0] == (
        "warning: `src/value` is a new link to a path outside the project, so what it points to is not delivered"
        " with it"
    )
    assert "clean copy · tree" in ended.stdout


TO_IGNORED = (
    "warning: `{}` is a new link to something that git ignores, so what it points to is not delivered"
    " with it"
)


@pytest.mark.parametrize(
    "link",
    [
        pytest.param("rm -r src && ln -s build/src src", id="a directory"),
        pytest.param("ln -sf ../build/src/value src/value", id="a file"),
        pytest.param("ln -s build/src new && rm -r src && ln -s new src", id="by another link"),
    ],
)
def test_a_link_to_what_git_ignores_does_not_stand_for_the_code(tmp_path, link):
    fix = agent("mkdir -p build/src && echo right > build/src/value", link)
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    (project.root / "build").mkdir()
    (project.root / ".gitignore").write_text("build/\n")
    ended = run(project, "--max-iterations", "1")
    assert ended.returncode == 3
    path = "src/value" if "value" in link else "src"
    assert TO_IGNORED.format(path) in ended.stderr.splitlines()
    assert "clean copy · tree" in ended.stdout


def test_a_new_link_to_what_the_check_builds_is_in_the_copy(tmp_path):
    fix = agent("echo right > src/value", "ln -s build/out latest")
    check = f"sh -c 'cp src/value build/out && test -e latest && {CHECK}'"
    project = laid_out(Project(tmp_path), fix, PROTECTED, check)
    (project.root / "build").mkdir()
    (project.root / ".gitignore").write_text("build/\n")
    ended = run(project)
    assert (ended.returncode, ended.stderr.splitlines()) == (0, [TO_IGNORED.format("latest")])


def test_code_that_makes_git_ignore_itself_while_the_copy_is_checked_is_no_success(tmp_path):
    script = "\n".join(
        [
            'test -z "$LL_CLEAN" || (',
            'cd "$ABOVE/there" && unset GIT_DIR && git rm -q --cached src/value && echo src >> .git/info/exclude',
            ")",
            CHECK,
        ]
    )
    project = laid_out(
        Project(tmp_path), agent("echo right > src/value"), PROTECTED, "sh check.sh", script
    )
    # A path that neither contains the project's nor leads to it as a whole: those would be replaced.
    (tmp_path / "there").symlink_to(project.root)
    ended = run(project, env={"ABOVE": str(tmp_path)})
    assert ended.returncode == 1
    assert "while it ran, something made git overlook src/value" in ended.stdout


@pytest.mark.parametrize("setup", ["", "setup: 'true', "], ids=["no setup", "setup"])
def test_a_new_file_that_is_not_delivered_is_not_in_the_copy_after_its_setup(tmp_path, setup):
    fix = agent("echo right > new; echo new >> .gitignore; rm src/value; ln -s ../new src/value")
    more = f"evidence: {{protect: [tests/], {setup}clean: true}}\n"
    ended = run(laid_out(Project(tmp_path), fix, more), "--max-iterations", "1")
    assert ended.returncode == 3
    assert (
        "warning: a commit would not include these files, because git ignores or overlooks them, so they are not in the clean copy: new"
        in ended.stderr.splitlines()
    )


OUTER = """\
    name: outer
    initial: go
    evidence: {protect: [tests/]}
    states:
      go: {WORK, on_pass: done, on_fail: bad}
      bad: {terminal: true, outcome: failure}
      done: {terminal: true}
"""


def test_the_checks_of_an_inner_loop_see_what_the_outer_one_protects(tmp_path):
    project = laid_out(Project(tmp_path))
    project.loop("outer", OUTER.replace("WORK", "loop: fix"))
    ended = project.ll("run", "outer", "--allow-skip-permissions")
    assert "! tests/check.py was changed by the agent: restored" in ended.stdout
    assert (ended.returncode, (project.root / "src/value").read_text()) == (0, "right\n")
    assert (project.root / "tests/check.py").read_text() == TEST


def test_branches_that_pass_with_other_tests_do_not_pass(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo > tests/check.py"))
    project.loop("outer", OUTER.replace("WORK", "branches: {one: {loop: fix}}"))
    ended = project.ll("run", "outer", "--allow-skip-permissions")
    assert ended.returncode == 1
    assert (
        "warning: the pass of `go` does not count: its checks ran on changed files that have been restored"
        " since: tests/check.py" in ended.stderr.splitlines()
    )
    assert (project.root / "tests/check.py").read_text() == TEST


@pytest.mark.parametrize("option", ["--skip-worktree", "--assume-unchanged"])
def test_a_change_that_git_is_told_to_overlook_is_not_in_the_copy(tmp_path, option):
    fix = agent("echo right > src/value", f"git update-index {option} src/value")
    ended = run(laid_out(Project(tmp_path), fix, PROTECTED), "--max-iterations", "1")
    assert ended.returncode == 3
    assert (
        "warning: a commit would not include these files, because git ignores or overlooks them, so they are not in the clean copy: src/value"
        in ended.stderr.splitlines()
    )


def test_a_pass_does_not_count_if_the_next_commit_weakens_a_test(tmp_path):
    hide = agent(
        "echo right > src/value",
        "cp tests/check.py strict; echo > tests/check.py; git add tests",
        "mv strict tests/check.py; git update-index --skip-worktree tests/check.py",
    )
    ended = run(laid_out(Project(tmp_path), hide, PROTECTED))
    assert ended.returncode == 1
    assert (
        "passes here, cannot be judged in a clean copy (your next commit would change or delete tests/check.py, which is"
        " protected; see `git ls-files -v` and `git check-attr -a`)" in ended.stdout
    )


def test_a_file_that_is_gone_here_but_not_from_the_next_commit_is_in_the_copy(tmp_path):
    check = "sh -c 'test ! -e old'"
    hide = agent("rm old", "git update-index --assume-unchanged old")
    project = Project(tmp_path)
    (project.root / "old").touch()
    ended = run(laid_out(project, hide, PROTECTED, check), "--max-iterations", "1")
    assert ended.returncode == 3
    assert (
        "warning: git has these files, which are gone here or were ignored when the run started, so a"
        " commit and the clean copy contain them: old" in ended.stderr.splitlines()
    )


def test_a_file_that_the_agent_adds_in_an_ignored_directory_stays_as_it_is(tmp_path):
    """The clean copy has a link in place of the directory, and nothing is written through it."""
    fix = agent("git add -f build/out", "echo later > build/out", "echo right > src/value")
    project = laid_out(Project(tmp_path), fix, PROTECTED, f"sh -c 'test -e build/out && {CHECK}'")
    (project.root / "build").mkdir()
    (project.root / "build/out").write_text("built\n")
    (project.root / ".git/info/exclude").write_text("build/\n")
    assert run(project).returncode == 0
    assert (project.root / "build/out").read_text() == "later\n"


def test_what_git_overlooked_before_the_run_is_in_the_copy(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    project.git("update-index", "--assume-unchanged", "src/value")
    assert run(project).returncode == 0


def test_a_file_that_the_agent_adds_although_git_ignores_it_is_named(tmp_path):
    """It is delivered with a commit, but snapshots go by the ignore rules of the start."""
    fix = agent("echo > ignored", "git add -f ignored", "echo right > src/value")
    project = laid_out(Project(tmp_path), fix, PROTECTED, "sh -c 'test -e ignored'")
    ended = run(project, "--max-iterations", "1")
    named = (
        "warning: git ignored these files when the run started and tracks them now, so the snapshots of"
        " this run do not contain them; a new run's will: ignored"
    )
    assert (ended.returncode, named in ended.stderr.splitlines()) == (0, True)
    assert run(project, "--fresh").returncode == 0


def test_a_link_out_of_the_project_that_was_there_at_the_start_stays(tmp_path):
    project = laid_out(Project(tmp_path), agent('echo right > "$HOME/value"'), PROTECTED)
    (project.home / "value").write_text("wrong\n")
    (project.root / "src/value").unlink()
    (project.root / "src/value").symlink_to(project.home / "value")
    assert run(project).returncode == 0


PRODUCT = "build/value: src/value\n\tcp src/value build/value\n"


def test_a_product_of_other_sources_in_a_linked_directory_does_not_pass_in_the_copy(tmp_path):
    """The second time the copy has the old source already, older than the product."""
    fix = agent(
        "echo right > src/value && make -s build/value",
        "echo wrong > src/value && touch -t 200001010000 src/value",
    )
    check = "make -s build/value && grep -q right build/value"
    project = laid_out(Project(tmp_path), fix, PROTECTED, check)
    (project.root / "Makefile").write_text(PRODUCT)
    (project.root / ".gitignore").write_text("build/\n")
    (project.root / "build").mkdir()
    (project.root / "build/value").write_text("wrong\n")
    ended = run(project)
    assert ended.returncode != 0
    assert "clean copy · tree" in ended.stdout


def test_a_definition_that_a_killed_turn_rewrote_is_not_continued_with(tmp_path):
    rewrite = "sed -i 's,- .*check.py,- echo ok,' .loops/fix.yaml"
    fix = '[ -e "$HOME/killed" ] && echo right > src/value && echo ok && exit'
    kill = agent(fix, rewrite, ': > "$HOME/killed"', "kill -9 $PPID", "sleep 1")
    project = laid_out(Project(tmp_path), kill, PROTECTED)
    assert run(project).returncode == -9
    ended = project.ll("resume", "fix", "--definition", "current", "--allow-skip-permissions")
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: `.loops/fix.yaml` changed during an agent's interrupted turn\n"
        "   = help: review it with `git diff`; `ll-loop resume fix --definition original` continues"
        " with the definition that the run was started with\n"
    )
    ended = project.ll("resume", "fix", "--definition", "original", "--allow-skip-permissions")
    assert ended.returncode == 0
    assert "! .loops/fix.yaml was changed by the agent: restored" in ended.stdout


def test_protected_links_out_of_the_project_are_named(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    (tmp_path / "shared").write_text("")
    (project.root / "tests/shared").symlink_to(tmp_path / "shared")
    (project.root / "tests/gone").symlink_to(tmp_path / "gone")
    (project.root / "tests/own").symlink_to("check.py")
    ended = run(project)
    assert ended.returncode == 0
    assert (
        "warning: protected links point outside the project, where changes are not detected:"
        " tests/shared\n"
    ) in ended.stderr


@pytest.mark.parametrize(("spared", "exit_code"), [("", 3), (", '!/src'", 0)])
def test_what_a_protected_link_leads_to_is_protected_unless_it_is_spared(
    tmp_path, spared, exit_code
):
    more = f"evidence: {{protect: [tests/{spared}], clean: true}}\n"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), more)
    (project.root / "tests/src").symlink_to("../src")
    ended = run(project)
    warning = (
        "warning: `src` is protected, because a protected link points to it; add `!/src` to `protect`"
        " if agents may change it"
    )
    assert (warning in ended.stderr, ended.returncode) == (exit_code == 3, exit_code)


DAEMON = """\
import mmap, os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        mapped = mmap.mmap(os.open("src/value", os.O_RDWR), 0)
        mapped[:] = mapped[:]  # only the first write to a page changes the times of the file
        def undo(number, frame):
            @undo@
            os._exit(0)
        signal.signal(signal.SIGTERM, undo)
        open("ready", "w").close()
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(600)
    os._exit(0)
while not os.path.exists("ready"):
    time.sleep(0.01)
assert "right" in open("src/value").read(), "the value is wrong"
"""


@pytest.mark.parametrize(
    "undo",
    [
        pytest.param('open("src/value", "w").write("wrong\\n")', id="the file"),
        pytest.param('mapped[:5] = b"wrong"', id="the file in its memory"),
    ],
)
def test_a_process_that_undoes_the_fix_while_it_is_ended_is_no_success(tmp_path, undo):
    """The check leaves it running; it waits for the end of the run."""
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    (project.root / "tests/check.py").write_text(DAEMON.replace("@undo@", undo))
    (project.root / ".gitignore").write_text("ready\n")
    ended = run(project)
    last = events(project)[-1]
    assert (ended.returncode, last["status"], last["reason"]) == (1, "failed", "stale_evidence")
    assert last["error"] == (
        "src/value changed after the last check passed, while leftover processes were ended"
    )


def test_a_run_of_a_project_that_was_moved_since_is_refused_with_a_command_that_works(tmp_path):
    project = laid_out(Project(tmp_path), agent("true"), PROTECTED)
    was = project.root
    assert run(project, "--max-iterations", "1").returncode == 3
    project.root = was.rename(was.with_name("moved"))
    ended = project.ll("resume", "fix", "--max-iterations", "9", "--allow-skip-permissions")
    assert ended.returncode == 2
    assert ended.stderr == (
        f"error: the project was moved from `{was}` after the run had started\n"
        "   = help: to resume it, move it back; `ll-loop run fix --fresh` starts again here\n"
    )
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    assert run(project, "--fresh").returncode == 0


@pytest.mark.parametrize("has_store", [False, True])
def test_a_run_of_another_state_directory_is_refused_before_an_action_runs(tmp_path, has_store):
    fix = agent('echo "$LL_ITERATION" >> "$HOME/turns"')
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    other = {"XDG_STATE_HOME": str(tmp_path / "other")}
    if has_store:
        assert run(project, "--id", "1", "--max-iterations", "1", env=other).returncode == 3
    assert run(project, "--max-iterations", "1").returncode == 3
    turns = (project.home / "turns").read_text()
    ended = project.ll("resume", "fix", "--max-iterations", "9", env=other)
    (store,) = project.home.glob(".local/state/little-loops/trees/*")
    there = tmp_path / "other/little-loops/trees" / store.name
    assert ended.returncode == 2
    assert ended.stderr == (
        f"error: this run's snapshots are not in `{there}`\n"
        "   = help: if they still exist, resume the run as the user who started it, with the"
        " same XDG_STATE_HOME; `ll-loop run fix --fresh` starts again\n"
    )
    assert (project.home / "turns").read_text() == turns


def test_every_check_of_the_short_form_is_watched_without_protect(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value", "echo : > second.sh"))
    (project.root / "second.sh").write_text("grep -q right src/value\n")
    short = """\
        check: [grep -q right src/value, sh second.sh]
        fix: {action: Fix the value, action_type: prompt}
        host: {name: command, command: [./agent.sh, "{prompt}"]}
        """
    project.loop("fix", dedent(short))
    ended = run(project)
    assert "! second.sh was changed by the agent" in ended.stdout
    assert plain(ended.stdout).splitlines()[-3:] == [
        "Files changed: second.sh, src/value (+2 -2)",
        "Please review: second.sh changed, and the checks depend on it",
        "Verified on tree ID; for a receipt: ll-loop receipt fix",
    ]


def test_an_agent_that_resumes_without_a_name_finds_no_run(tmp_path):
    """Its own run is alive, and there is no other."""
    fix = agent("ll-loop resume > src/said 2>&1", "echo right > src/value")
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    assert run(project).returncode == 0
    assert (
        (project.root / "src/said")
        .read_text()
        .startswith("error: there is no unfinished run here\n")
    )


def test_a_quiet_run_says_how_it_ended_and_on_which_tree(tmp_path):
    project = laid_out(Project(tmp_path), more=PROTECTED)
    assert plain(run(project, "--quiet").stdout) == dedent("""\

        Loop completed: done (3 iterations, TIME)
        Files changed: src/value (+1 -1)
        Verified on tree ID; for a receipt: ll-loop receipt fix
        """)


def agent(*lines: str) -> str:
    return "\n".join(["#!/bin/sh", *lines, "echo finished", ""])


def test_a_fix_that_git_ignores_fails_in_the_clean_copy(tmp_path):
    check = "sh -c 'test -e ignored || grep -q right src/value'"
    fix = agent("case $LL_ITERATION in 1) echo > ignored ;; *) echo right > src/value ;; esac")
    project = laid_out(Project(tmp_path), fix, PROTECTED, check)
    ended = run(project)
    assert ended.returncode == 0
    assert (project.root / "src/value").read_text() == "right\n"
    results = [
        (e["verdict"], e.get("place", "here"))
        for e in events(project)
        if e["event"] == "check_result"
    ]
    assert results == [
        ("fail", "here"),
        ("pass", "here"),
        ("pass", "here"),  # git sees no change since it failed, so it runs again
        ("fail", "clean"),
        ("pass", "here"),
        ("pass", "clean"),
    ]


def test_a_check_that_names_the_project_by_its_whole_path_runs_in_the_clean_copy(tmp_path):
    project = Project(tmp_path)
    check = f"sh -c 'cd {project.root} && {{ test -e ignored || grep -q right src/value; }}'"
    laid_out(project, agent("echo > ignored"), PROTECTED, check)
    ended = run(project)
    assert ended.returncode == 3, ended.stdout
    assert "✗ (exit 1) · clean copy" in ended.stdout


def test_a_test_that_is_changed_by_the_code_under_test_is_restored(tmp_path):
    """The check runs what the agent wrote; that must not be a way to the tests either."""
    fix = agent(
        'case $LL_ITERATION in 1) echo "echo pass > tests/check.py" > src/hook ;; *) echo right > src/value ;; esac'
    )
    check = f"sh -c 'test ! -e src/hook || sh src/hook; {CHECK}'"
    project = laid_out(Project(tmp_path), fix, "evidence: {protect: [tests/]}\n", check)
    ended = run(project)
    assert "! tests/check.py was changed while the check ran: restored" in ended.stdout
    assert (project.root / "tests/check.py").read_text() == TEST


NESTED = """\
mkdir -p tests/tmp && git init -q tests/tmp/repo && echo x > tests/tmp/repo/file
git -C tests/tmp/repo add -A
git -C tests/tmp/repo -c user.name=a -c user.email=a@b.c commit -qm x
"""


@pytest.mark.parametrize("maker", ["agent", "check"])
def test_a_repository_that_is_made_under_a_protected_path_is_named_once_and_left_alone(
    tmp_path, maker
):
    script = tmp_path / "nested.sh"
    script.write_text(f"test -e tests/tmp && exit\n{NESTED}")
    nested = f"sh {script}"
    check = f"sh -c '{nested}; {CHECK}'" if maker == "check" else CHECK
    fix = agent(nested if maker == "agent" else "true", "echo right > src/value")
    project = laid_out(Project(tmp_path / "p"), fix, PROTECTED, check)
    ended = run(project)
    warning = "warning: `tests/tmp/repo` is not watched: it is a separate git repository\n"
    assert (ended.stderr, "!" in ended.stdout) == (warning, False)
    assert (ended.returncode, events(project)[-1]["evidence"]) == (0, "verified")
    assert project.git("-C", "tests/tmp/repo", "status", "--short") == ""


@pytest.mark.parametrize(
    "cheat",
    [
        pytest.param("git init -q tests; echo pass > tests/check.py", id="git init beside it"),
        pytest.param("rm -rf tests; git init -q tests; echo pass > tests/check.py", id="in its place"),
        pytest.param(f"{NESTED}mv tests t; mv t/tmp/repo tests; echo pass > tests/check.py", id="moved there"),
    ],
)  # fmt: skip
def test_a_repository_hides_no_protected_file(tmp_path, cheat):
    fix = agent(f"case $LL_ITERATION in 1) {cheat};; *) echo right > src/value ;; esac")
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    ended = run(project)
    assert "changed by the agent: restored" in ended.stdout
    assert (ended.returncode, events(project)[-1]["evidence"]) == (0, "verified")
    assert (project.root / "src/value").read_text() == "right\n"
    assert (project.root / "tests/check.py").read_text() == TEST


def test_a_directory_that_is_only_called_git_hides_nothing(tmp_path):
    check = f"sh -c 'find tests -name skip | grep -q . || {CHECK}'"
    hide = "mkdir tests/.git; touch tests/.git/skip"
    fix = agent(f"case $LL_ITERATION in 1) {hide} ;; *) echo right > src/value ;; esac")
    project = laid_out(Project(tmp_path), fix, "evidence: {protect: [tests/]}\n", check)
    ended = run(project)
    assert "! tests/.git/skip was changed by the agent: restored" in ended.stdout
    assert (ended.returncode, (project.root / "tests/.git").exists()) == (0, False)
    assert (project.root / "src/value").read_text() == "right\n"


def test_the_loops_own_file_is_protected_wherever_it_lies(tmp_path):
    weaken = "sed -i s/python/true/ ci/fix.loop; echo 'evidence: false' > .loops/.config.yaml"
    fix = agent(weaken, "touch .loops/second.yml", "echo right > src/value")
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    (project.root / "ci").mkdir()
    own = (project.root / ".loops/fix.yaml").rename(project.root / "ci/fix.loop")
    text = own.read_text()
    ended = project.ll("run", "ci/fix.loop", "--allow-skip-permissions")
    changed = ".loops/.config.yaml, .loops/second.yml, ci/fix.loop"
    assert f"! {changed} were changed by the agent: restored" in ended.stdout
    assert (ended.returncode, own.read_text()) == (0, text)
    assert [path.name for path in (project.root / ".loops").glob("*.y*ml")] == []


def test_changes_outside_the_scope_are_put_back_and_kept_as_a_patch(tmp_path):
    fix = agent("echo right > src/value", "mkdir -p other", "echo x > other/file")
    more = "scope: [src/]\nscope_writes: enforce\n"
    project = laid_out(Project(tmp_path), fix, more)
    ended = run(project)
    assert ended.returncode == 1
    assert "the agent changed other/file outside the scope: restored" in ended.stdout
    assert not (project.root / "other").exists()
    (patch,) = (project.root / ".loops").rglob("out-of-scope.patch")
    assert "+x" in patch.read_text()


def test_caches_outside_the_scope_are_nobodys_change(tmp_path):
    caches = ("__pycache__/a.pyc", ".pytest_cache/README.md", "tests/__pycache__/b.pyc")
    made = [f"mkdir -p {os.path.dirname(path)}; echo x > {path}" for path in caches]
    more = PROTECTED + "scope: [src/]\nscope_writes: enforce\n"
    project = laid_out(Project(tmp_path), agent("echo right > src/value", *made), more)
    ended = run(project)
    assert ended.returncode == 0, ended.stdout
    assert "outside the scope" not in ended.stdout


POISON = """\
import importlib.util, os, py_compile, sys
source, fixed = sys.argv[1:]
py_compile.compile(fixed, importlib.util.cache_from_source(source), dfile=source,
                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""


@pytest.mark.parametrize("more", ["scope: [src/]\nscope_writes: enforce\n", ""])
def test_what_an_agent_compiles_is_not_what_the_check_imports(tmp_path, more):
    """Neither outside the scope nor in it, and without a clean copy."""
    poison = f'echo "is_right = True" > "$HOME/m.py"; {sys.executable} "$HOME/poison.py" lib/m.py "$HOME/m.py"'
    check = f"{sys.executable} -c 'import sys; sys.path.insert(0, \"lib\"); import m; sys.exit(not m.is_right)'"
    project = Project(tmp_path)
    (project.home / "poison.py").write_text(POISON)
    (project.root / "lib").mkdir()
    (project.root / "lib/m.py").write_text("is_right = False\n")
    laid_out(project, agent(poison, 'echo done >> "$HOME/done"'), more, check)
    ended = run(project)
    assert "3 attempts in a row changed nothing" in ended.stdout
    assert ended.returncode == 3, ended.stdout
    assert (project.home / "done").exists(), "the agent has compiled it"


def test_a_compiled_file_beside_a_source_outside_the_scope_counts(tmp_path):
    fix = agent("echo right > src/value", "mkdir -p other", "echo x > other/json.pyc")
    project = laid_out(Project(tmp_path), fix, "scope: [src/]\nscope_writes: enforce\n")
    ended = run(project)
    assert ended.returncode == 1
    assert "the agent changed other/json.pyc outside the scope: restored" in ended.stdout


def test_long_and_odd_names_are_shown_short_and_whole(tmp_path):
    folder = "tests/" + "/".join(str(number) * 64 for number in range(6))
    odd = agent(
        f"mkdir -p {folder}; touch {folder}/test_long.py",
        "touch \"tests/$(printf 'a\\377\\033[31mb')\"",
        "git init -q \"tests/$(printf '\\377')\"",
        "mkfifo \"src/$(printf '\\377')\"",
    )
    more = "evidence: {protect: [tests/], tampering: fail}\n"
    ended = run(laid_out(Project(tmp_path), odd, more))
    long = f"tests/{'0' * 33}…{'5' * 47}/test_long.py"
    changed = f"{long}, tests/a\\xff\\x1b[31mb"
    assert [line for line in plain(ended.stdout).splitlines() if "tests/a" in line] == [
        f"       ! {changed} were changed by the agent",
        f"Loop failed in state 'fix': the agent changed {changed} (1 iteration, TIME)",
        f"Files changed: {changed}",
    ]
    assert ended.stderr.splitlines()[:2] == [
        r"warning: `src/\xff` is not part of the snapshot: neither a file nor a link",
        r"warning: `tests/\xff` is not watched: it is a separate git repository",
    ]


RESTORED = "tests/check.py was changed by the agent: restored"
CHANGED = "tests/check.py was changed by the agent"


@pytest.mark.parametrize(
    ("tampering", "scope_writes", "lines"),
    [
        ("restore", "report", ["the agent changed more outside the scope", RESTORED]),
        ("restore", "enforce", [RESTORED, "the agent changed more outside the scope: restored"]),
        ("fail", "report", [CHANGED, "the agent changed more outside the scope"]),
        ("fail", "enforce", [CHANGED, "the agent changed more outside the scope: restored"]),
        ("report", "report", [CHANGED, "the agent changed more outside the scope"]),
        (
            "report",
            "enforce",
            ["the agent changed more, tests/check.py outside the scope: restored"],
        ),
    ],
)
def test_a_protected_file_outside_the_scope_is_reported_once(
    tmp_path, tampering, scope_writes, lines
):
    fix = agent(
        "test $LL_ITERATION = 1 && { echo pass > tests/check.py; echo > more; }",
        "test $LL_ITERATION = 1 || echo right > src/value",
    )
    evidence = f"evidence: {{protect: [tests/], tampering: {tampering}}}\n"
    scope = f"scope: [src/]\nscope_writes: {scope_writes}\n"
    project = laid_out(Project(tmp_path), fix, evidence + scope)
    said = run(project).stdout.splitlines()
    assert [line.strip() for line in said if "!" in line] == [f"! {line}" for line in lines]
    is_restored = (project.root / "tests/check.py").read_text() == TEST
    assert is_restored is (CHANGED not in lines)


LARGE = 64 << 20
"""More than a run reads after a stop."""


def test_a_stop_does_not_wait_for_large_files_to_be_read_but_protected_ones_are_restored(tmp_path):
    slow = agent(
        f"truncate -s {LARGE} src/large; echo pass > tests/check.py",
        "mkfifo ready; echo > ready; sleep 60",
    )
    project = laid_out(Project(tmp_path), slow, PROTECTED)
    with project.started("run", "fix", "--allow-skip-permissions") as child:
        until((project.root / "ready").exists, "pipe")
        (project.root / "ready").read_text()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert plain(out).partition("fix → running")[2] == dedent("""\
         "Fix the value"...
               ✗ interrupted (stop)
               ! tests/check.py was changed by the agent: restored

        Loop interrupted: Ctrl-C in state 'fix' (1 iteration, TIME)
        Files changed: unknown, because the run stopped before all files were read
        """)
    assert (project.root / "tests/check.py").read_text() == TEST
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    ended = project.ll("resume", "fix", "--allow-skip-permissions")
    assert (ended.returncode, events(project)[-1]["evidence"]) == (0, "verified")
    assert "Files changed: agent.sh, src/value, src/large" in ended.stdout


COMMIT = "git -c user.name=a -c user.email=a@b.c commit -qam"


def test_a_commit_that_still_has_what_was_restored_is_named(tmp_path):
    cheat = agent(
        f"test $LL_ITERATION = 1 && {{ echo pass > tests/check.py; {COMMIT} weaken; }}",
        "test $LL_ITERATION = 1 || echo right > src/value",
    )
    ended = run(laid_out(Project(tmp_path), cheat, PROTECTED))
    assert plain(ended.stdout).partition("TIME)\n")[2] == dedent("""\
        Files changed: src/value (+1 -1)
        The commit that is checked out still contains changes to tests/check.py
        Verified on tree ID; for a receipt: ll-loop receipt fix
        """)


@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_a_repository_that_an_agent_creates_again_keeps_no_honest_run_from_its_end(
    format, tmp_path
):
    again = f"rm -rf .git && git init -q --object-format={format} && git add -A && {COMMIT} again"
    project = laid_out(Project(tmp_path), agent("echo right > src/value", again), PROTECTED)
    ended = run(project)
    assert (ended.returncode, "still contains changes" in ended.stdout) == (0, False), ended.stdout


def test_git_is_asked_for_the_commit_no_more_often_in_a_longer_run(tmp_path):
    counts = []
    for turns in (1, 3):
        fix = agent(f"test $LL_ITERATION = {turns} && echo right > src/value || echo >> src/more")
        project = laid_out(Project(tmp_path / str(turns)), fix, PROTECTED)
        program, log = tmp_path / str(turns) / "git", tmp_path / str(turns) / "log"
        program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("git")} "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        ended = project.ll("run", "fix", "--allow-skip-permissions", env={"PATH": path})
        assert ended.returncode == 0, ended.stderr
        counts.append(log.read_text().count("HEAD^{commit}"))
    assert counts[0] == counts[1]


def test_an_agent_that_does_nothing_stalls(tmp_path):
    project = laid_out(Project(tmp_path), agent("true"))
    ended = run(project)
    assert ended.returncode == 3
    assert "3 attempts in a row changed nothing" in ended.stdout


def test_the_setup_runs_in_the_clean_copy_first(tmp_path):
    check = "sh -c 'test -z \"$LL_CLEAN\" || test -e made; grep -q right src/value'"
    more = 'evidence: {clean: true, setup: "echo > made"}\n'
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), more, check)
    assert run(project).returncode == 0
    assert not (project.root / "made").exists()


def test_a_test_that_the_setup_changes_is_restored_in_the_clean_copy(tmp_path):
    more = 'evidence: {protect: [tests/], clean: true, setup: "echo pass > tests/check.py"}\n'
    check = "sh -c 'test -e ignored && exit 0; " + CHECK + "'"
    project = laid_out(Project(tmp_path), agent("touch ignored"), more, check)
    ended = run(project)
    assert ended.returncode == 3
    assert (project.root / "src/value").read_text() == "wrong\n"


def test_a_setup_that_fails_is_an_error(tmp_path):
    more = 'evidence: {clean: true, setup: "echo no such package; exit 4"}\n'
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), more)
    ended = run(project)
    assert ended.returncode == 1
    assert "`setup` failed in the clean copy (exit 4): no such package" in ended.stdout


def test_the_copys_path_reads_as_the_projects(tmp_path):
    check = f"sh -c 'pwd; {CHECK}'"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED, check)
    assert run(project).returncode == 0
    printed = [
        e["output"]
        for e in events(project)
        if e["event"] == "action_complete" and e["state"] == "evaluate"
    ]
    assert set(printed) == {str(project.root)}


def test_without_git_the_run_says_so_and_works(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"))
    shutil.rmtree(project.root / ".git")
    ended = run(project)
    assert ended.returncode == 0
    assert "not in a git repository" in ended.stderr


def test_evidence_can_be_switched_off(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), "evidence: false\n")
    assert run(project).returncode == 0
    assert [e["event"] for e in events(project) if e["event"] == "tree"] == []
    assert events(project)[-1]["evidence"] == "off"


SHELL_ONLY = """\
    name: fix
    initial: test
    states:
      test: {action: 'true', check: true, on_pass: done}
      done: {terminal: true}
"""


def test_a_loop_without_agents_pays_nothing(make):
    """No git, no snapshot, no seal: its run starts its check, and only looks whether an earlier run
    was killed in an agent's turn."""

    def laid(more: str) -> Project:
        project = laid_out(make())
        project.loop("fix", dedent(SHELL_ONLY) + more)
        return project

    plain = operations(laid(""), "run", "fix")
    assert [each.split("/")[-1] for each in plain if each.startswith(START)] == ["sh"]
    looks = [each for each in plain if "/.local/state/" in each or "/.git/" in each]
    assert [each.split("/")[0] for each in looks] == ["os.listdir "]
    asked = operations(laid("evidence: true\n"), "run", "fix")
    assert [each for each in asked if "/.local/state/" in each]


def test_a_store_that_vanishes_ends_the_run_in_words(tmp_path):
    fix = agent('rm -rf "$HOME/.local/state/little-loops/trees"', "echo right > src/value")
    project = laid_out(Project(tmp_path), fix)
    ended = run(project)
    assert ended.returncode == 1
    assert events(project)[-1]["reason"] == "storage"


def test_two_loops_on_disjoint_scopes_do_not_blame_each_other(tmp_path):
    project = laid_out(
        Project(tmp_path),
        agent("while ! test -e other/done; do sleep 0.05; done", "echo right > src/value"),
        "scope: [src/]\nscope_writes: enforce\n",
    )
    (project.root / "other").mkdir()
    (project.root / "second.sh").write_text(agent("echo x > other/file", "echo > other/done"))
    (project.root / "second.sh").chmod(0o755)
    project.loop(
        "second",
        """\
        paradigm: goal
        goal: there is a file
        name: second
        scope: [other/]
        scope_writes: enforce
        tools: [test -e other/done, {action: Make it, action_type: prompt}]
        host: {name: command, command: [./second.sh, "{prompt}"]}
        """,
    )
    with project.started("run", "fix", "--allow-skip-permissions") as first:
        second = project.ll("run", "second", "--allow-skip-permissions")
        assert second.returncode == 0, second.stdout + second.stderr
        out, err = first.communicate(timeout=60)
    assert first.returncode == 0, (out, err)
    assert (project.root / "other/file").exists()


def test_edits_of_the_user_during_a_pause_stay(tmp_path):
    fix = agent('test $LL_ITERATION = 1 && echo "CONTEXT_HANDOFF: later" || echo right > src/value')
    project = laid_out(Project(tmp_path), fix, PROTECTED)
    assert run(project).returncode == 4
    mine = TEST + "# mine\n"
    (project.root / "tests/check.py").write_text(mine)
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    ended = project.ll("resume", "fix", "--allow-skip-permissions")
    assert ended.returncode == 0, ended.stdout
    assert (
        "! tests/check.py changed while the run was paused: accepted as the new baseline"
        in ended.stdout
    )
    assert (project.root / "tests/check.py").read_text() == mine


# ── what is installed beside the sources ───────────────────────────────────────────────────────

WITH_LIBRARY = "sh -c 'PYTHONPATH=.venv/lib python3 -m checker'"
LIBRARY = 'import sys; sys.exit(open("src/value").read() != "right\\n")\n'


def with_library(tmp_path: Path, *lines: str, more: str = PROTECTED) -> Project:
    project = laid_out(Project(tmp_path), agent(*lines), more, WITH_LIBRARY)
    (project.root / ".gitignore").write_text(".venv/\n")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "ignore")
    (project.root / ".venv/lib").mkdir(parents=True)
    (project.root / ".venv/lib/checker.py").write_text(LIBRARY)
    return project


def warnings(project: Project) -> list[str]:
    return [e["message"] for e in events(project) if e["event"] == "warning"]


def test_a_library_that_was_changed_during_the_run_is_named(tmp_path):
    project = with_library(tmp_path, "echo > .venv/lib/checker.py")
    ended = run(project)
    assert ended.returncode == 0, ended.stdout
    (words,) = [each for each in warnings(project) if ".venv" in each]
    assert words == (
        "`.venv` was changed during the run (in .venv/lib), and the check in the clean copy ran with"
        " it; `setup` can install it there again"
    )
    assert words in ended.stderr
    receipt = json.loads(project.ll("receipt", "fix").stdout)
    assert words in receipt["predicate"]["warnings"]


def test_a_library_that_is_only_used_is_not_named(tmp_path):
    project = with_library(
        tmp_path, "PYTHONPATH=.venv/lib python3 -c 'import checker' || :", "echo right > src/value"
    )
    assert run(project).returncode == 0
    assert warnings(project) == []


def test_a_library_that_an_agent_changed_before_it_killed_its_runner_is_named(tmp_path):
    project = with_library(tmp_path, "echo > .venv/lib/checker.py", "kill -9 $PPID")
    assert run(project).returncode == -9
    (project.root / "agent.sh").write_text(agent("true"))
    assert project.ll("resume", "fix").returncode == 0
    assert [each for each in warnings(project) if each.startswith("`.venv` was changed")]


def test_what_setup_installs_in_the_copy_is_not_linked_and_not_named(tmp_path):
    setup = (
        "evidence: {clean: true, setup: 'mkdir -p .venv/lib; cp library .venv/lib/checker.py'}\n"
    )
    project = with_library(tmp_path, "echo > .venv/lib/checker.py", more=setup)
    (project.root / "library").write_text(LIBRARY)
    assert run(project).returncode == 3
    assert [each for each in warnings(project) if ".venv" in each] == []


def test_a_submodule_that_was_changed_during_the_run_is_named(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo > sub/fix"), PROTECTED, "test -e sub/fix")
    project.git("init", "-q", "sub")
    project.git("-C", "sub", *ME, "commit", "-q", "--allow-empty", "-m", "sub")
    project.git("-c", "advice.addEmbeddedRepo=false", "add", "sub")
    project.git(*ME, "commit", "-qm", "sub")
    ended = run(project)
    assert ended.returncode == 0, ended.stdout
    words = (
        "`sub` was changed during the run (in sub), and the check in the clean copy ran with it; it is"
        " a separate git repository, so its files were not verified"
    )
    assert words in ended.stderr
    receipt = json.loads(project.ll("receipt", "fix").stdout)
    assert words in receipt["predicate"]["warnings"]


# ── a project inside a larger repository ───────────────────────────────────────────────────────


def inside_repository(tmp_path: Path) -> Project:
    """The project is a directory of a repository, in which the user's home lies as well."""
    check = "sh -c 'cd ..; make -s value || exit 1; pwd'"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED, check)
    shutil.rmtree(project.root / ".git")
    (tmp_path / "Makefile").write_text("value:\n\t@sh lib/check.sh project/src/value\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/check.sh").write_text("grep -q right $1\n")
    project.git("init", "-q", "..")
    project.git("add", "..", ":!../home")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return project


def test_a_check_may_need_the_repository_around_the_project(tmp_path):
    project = inside_repository(tmp_path)
    ended = run(project)
    assert ended.returncode == 0, ended.stdout
    assert events(project)[-1]["evidence"] == "verified"
    printed = [e["output"] for e in events(project) if e["event"] == "action_complete"]
    assert printed[-1] == str(tmp_path), "the path of the copy reads as the repository's"
    again = project.ll("check", "fix")
    assert again.returncode == 0, again.stdout + again.stderr


def test_a_fix_outside_the_project_is_not_delivered_with_it(tmp_path):
    project = inside_repository(tmp_path)
    (project.root / "agent.sh").write_text(agent("echo true > ../lib/check.sh"))
    assert run(project).returncode == 3
    places = {
        (e["verdict"], e.get("place", "here"))
        for e in events(project)
        if e["event"] == "check_result"
    }
    assert places == {("fail", "here"), ("pass", "here"), ("fail", "clean")}


def test_the_copy_of_a_project_in_a_huge_repository_has_only_the_project(tmp_path):
    project = inside_repository(tmp_path)
    (tmp_path / "many").mkdir()
    for n in range(20_001):
        (tmp_path / "many" / str(n)).touch()
    ended = run(project)
    assert ended.returncode == 3
    assert (
        "the repository has more than 20,000 files outside this project, so the clean copy has only"
        " the project: a check that needs the other files fails there" in ended.stderr
    )


# ── somebody else in the clean copy ────────────────────────────────────────────────────────────

IN_COPY = """\
if [ -n "$LL_CLEAN" ]; then
  pwd > "$HOME/copy.part" && mv "$HOME/copy.part" "$HOME/copy"
  n=0; until [ -e "$HOME/spoiled" ] || [ $n -ge 600 ]; do n=$((n+1)); sleep 0.05; done
fi
"""
SPOILING = {
    "a protected file": ("tests/check.py", "protected files in the clean copy: tests/check.py"),
    "a delivered file": (
        "agent.sh",
        "agent.sh in the clean copy while the check ran; that did not happen in the project",
    ),
}


def waiting_in_copy(tmp_path: Path) -> Project:
    """A project whose check waits in the clean copy until it is told that the copy was spoiled."""
    fix = agent("echo right > src/value")
    return laid_out(Project(tmp_path), fix, PROTECTED, "sh check.sh", IN_COPY + CHECK)


def copy_in_use(project: Project) -> Path:
    told = project.home / "copy"
    until(told.exists, "check in the copy")
    return Path(told.read_text().strip())


@pytest.mark.parametrize("what", SPOILING)
def test_a_check_whose_clean_copy_is_changed_meanwhile_does_not_count(tmp_path, what):
    """A process that outlived a killed runner can still write into the copy."""
    path, words = SPOILING[what]
    project = waiting_in_copy(tmp_path)
    with project.started("run", "fix", "--allow-skip-permissions") as runner:
        spoiled = copy_in_use(project) / path
        spoiled.write_text("pass\n")
        (project.home / "spoiled").touch()
        out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 1
    assert f"something changed {words}" in out
    assert events(project)[-1]["reason"] == "error"


def test_a_check_may_change_in_the_clean_copy_what_it_changes_here(tmp_path):
    check = f"sh -c 'date +%s%N > report; {CHECK}'"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED, check)
    assert run(project).returncode == 0
    assert events(project)[-1]["evidence"] == "verified"


def test_ctrl_c_while_the_clean_copy_is_laid_out_interrupts_the_run(tmp_path):
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), PROTECTED)
    assert run(project).returncode == 0
    (project.root / "src/value").write_text("wrong\n")
    (lock,) = (project.home / ".local/state/little-loops/copies").glob("*/*/lock")
    with open(lock) as held, project.started("run", "fix", "--allow-skip-permissions") as runner:
        fcntl.flock(held, fcntl.LOCK_EX)  # whoever lays the copy out has to wait for us
        process = psutil.Process(runner.pid)
        until(lambda: str(lock) in [each.path for each in process.open_files()], "wait for it")
        runner.send_signal(signal.SIGINT)
        out, err = runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGINT, (out, err)
    assert plain(out).splitlines()[-4:] == [
        "       ✗ interrupted (stop)",
        "",
        "Loop interrupted: Ctrl-C in state 'evaluate' (2 iterations, TIME)",
        "Files changed: src/value (+1 -1)",
    ]
    assert project.ll("resume", "fix", "--allow-skip-permissions").returncode == 0


def test_ctrl_c_while_the_clean_copy_is_set_up_interrupts_the_run(tmp_path):
    more = "evidence: {clean: true, setup: 'touch \"$HOME/begun\"; sleep 600'}\n"
    project = laid_out(Project(tmp_path), agent("echo right > src/value"), more)
    with project.started("run", "fix", "--allow-skip-permissions") as runner:
        until((project.home / "begun").exists, "setup")
        runner.send_signal(signal.SIGINT)
        out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGINT, out


def test_a_resume_ends_what_works_in_the_clean_copy(tmp_path):
    """It has no token of the run, no session and no parent of it: only the place gives it away."""
    project = waiting_in_copy(tmp_path)
    with project.started("run", "fix", "--allow-skip-permissions") as runner:
        copy = copy_in_use(project)
        runner.kill()
        runner.wait()
    with subprocess.Popen(["sleep", "600"], cwd=copy, env={}, start_new_session=True) as daemon:
        (project.home / "spoiled").touch()
        said = project.ll("resume", "fix", "--allow-skip-permissions")
        assert daemon.wait(timeout=60) == -signal.SIGTERM
    assert said.returncode == 0, said.stdout + said.stderr


ONLY_HERE = agent("echo > ignored")
TEST_HERE = """\
import os
assert os.path.exists("ignored") or open("src/value").read() == "right\\n", "the value is wrong"
"""


def only_here(make: Make) -> Project:
    """A project whose agent puts the fix where it is not delivered."""
    project = make()
    laid_out(project, ONLY_HERE, PROTECTED)
    (project.root / "tests/check.py").write_text(TEST_HERE)
    return project


def spoils_the_copy(project: Project) -> Callable[[str, tuple[Any, ...]], None]:
    """Let every test pass in the clean copy, as a process that an agent left behind would."""

    def happens(what: str, arguments: tuple[Any, ...]) -> None:
        for path in project.home.glob(".local/state/little-loops/copies/*/*/work/*/tests/check.py"):
            path.write_text("")

    return happens


def is_turn(operation: str) -> bool:
    return operation.startswith(START) and operation.endswith("agent.sh")


def spoiled_at_operations(make: Make, step: int) -> int:
    """Spoil the clean copy before every `step`-th operation from its lock to the next turn of the
    agent; how often the run noticed a protected file that was changed."""
    words = ("run", "fix", "--allow-skip-permissions")
    done = command(only_here(make), *words, at=Noting())
    assert done.code == 3, done.out
    names = list(enumerate((done.reached or "").splitlines(), 1))
    first = next(at for at, each in names if "/copies/" in each and each.endswith("/lock"))
    last = next(at for at, each in names if at > first and is_turn(each))
    noticed = 0
    for number in range(first, last, step):
        project = only_here(make)
        said = command(project, *words, at=At(number, spoils_the_copy(project)))
        assert said.code != 0, (number, said.reached, said.out)
        noticed += "changed protected files in the clean copy: tests/check.py" in said.out
        shutil.rmtree(project.root.parent)
    return noticed


def test_a_copy_that_is_changed_before_its_check_starts_proves_nothing(make, record_property):
    noticed = spoiled_at_operations(make, 24)
    assert noticed, "some of them are changed between the layout and the start of the check"
    record_property("figure: clean copies changed before a check", noticed)


@pytest.mark.soak
def test_a_copy_that_is_changed_at_any_operation_proves_nothing(make, record_property):
    record_property("figure: clean copies changed before a check", spoiled_at_operations(make, 1))


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


def cheating(make: Make) -> Project:
    return laid_out(make(), more=PROTECTED)


def assert_true_ending(project: Project) -> None:
    """However it was killed: completed only with the code right and the test as it was."""
    for _ in range(4):
        said = command(project, "resume", "fix", "--allow-skip-permissions")
        if "has no run to resume" in said.err:
            said = command(project, "run", "fix", "--allow-skip-permissions")
        if said.code == 0 or "nothing to resume" in said.err:
            break
    assert (project.root / "tests/check.py").read_text() == TEST
    assert (project.root / "src/value").read_text() == "right\n"
    assert events(project)[-1]["event"] == "loop_complete"


def sweep(make: Make, step: int, first: int = 1) -> int:
    """Kill a run at every `step`-th operation, until there is no further one; how often."""
    kills = 0
    while True:
        project = cheating(make)
        words = ("run", "fix", "--allow-skip-permissions")
        said = command(project, *words, at=At(first + kills * step, dies))
        if said.code != GONE:
            assert (said.code, said.reached) == (0, None), said
            return kills
        assert_true_ending(project)
        shutil.rmtree(project.root.parent)
        kills += 1


def test_the_rules_hold_across_kills(make, record_property):
    record_property("figure: kills at an operation of a run with evidence", sweep(make, SOME))


@pytest.mark.soak
@pytest.mark.parametrize("first", [1, 2, 3, 4])  # together: every operation
def test_the_rules_hold_across_a_kill_at_every_operation(first, make, record_property):
    kills = sweep(make, 4, first)
    record_property("figure: kills at an operation of a run with evidence", kills)


def killed_and_edited(make: Make) -> Project:
    """A run that was killed during a turn; after that, the user edited the test."""
    once = '[ -e ../killed ] || { touch ../killed; kill -9 "$PPID"; exit; }'
    project = laid_out(make(), agent(once, "echo right > src/value"), PROTECTED)
    assert command(project, "run", "fix", "--allow-skip-permissions").code == -signal.SIGKILL
    (project.root / "tests/check.py").write_text(MINE)
    return project


MINE = f"# mine\n{TEST}"
# It is PATH if the killed resume left a temporary file, which the next one removes as well.
WAY_BACK = re.compile(r"ll-loop restore fix (?:tests/check\.py|PATH) --tree ([0-9a-f]{10})\n")


def resumed_twice(make: Make, begin: int, end: int, step: int) -> int:
    """Kill a resume before every `step`-th of these operations, counted from when it begins to restore;
    how often. Either it or the next resume says how to get the user's version back."""
    words = ("resume", "fix", "--allow-skip-permissions")
    names = operations(killed_and_edited(make), *words)
    restores = next(at for at, each in enumerate(names, 1) if ".ll-restore" in each)
    last = next(at for at, each in enumerate(names, 1) if is_turn(each))
    numbers = range(max(restores + begin, 1), min(restores + end, last), step)
    for number in numbers:
        project = killed_and_edited(make)
        first = command(project, *words, at=At(number, dies))
        second = command(project, *words)
        assert (first.code, second.code) == (GONE, 0), (number, first, second)
        assert (project.root / "tests/check.py").read_text() == TEST
        way = WAY_BACK.search(first.out + second.out)
        assert way, (number, first, second)
        back = command(project, "restore", "fix", "tests/check.py", "--tree", way[1])
        assert back.code == 0, (number, back)
        assert (project.root / "tests/check.py").read_text() == MINE
        shutil.rmtree(project.root.parent)
    return len(numbers)


def test_a_resume_that_is_killed_while_it_restores_loses_no_way_back(make, record_property):
    kills = resumed_twice(make, -12, 18, 7)
    record_property("figure: kills of a resume that restores", kills)


@pytest.mark.soak
def test_a_resume_that_is_killed_anywhere_loses_no_way_back(make, record_property):
    kills = resumed_twice(make, -SOME * 100, SOME * 100, 1)
    record_property("figure: kills of a resume that restores", kills)


def test_the_loops_own_file_is_protected_after_a_kill_before_anything_was_recorded(make):
    def laid(project: Project) -> Project:
        laid_out(project, agent("rm fix.loop", "echo right > src/value"), PROTECTED)
        (project.root / ".loops/fix.yaml").rename(project.root / "fix.loop")
        return project

    words = ("run", "./fix.loop", "--allow-skip-permissions")
    done = operations(laid(make()), *words)
    number = next(at for at, each in enumerate(done, 1) if each.endswith(f"{RULES}.part"))
    project = laid(make())
    assert command(project, *words, at=At(number, dies)).code == GONE
    said = command(project, "resume", "fix", "--allow-skip-permissions")
    assert "! fix.loop was changed by the agent: restored" in said.out
    assert (said.code, (project.root / "fix.loop").exists()) == (0, True)


def test_a_package_does_not_replace_a_protected_test(tmp_path):
    """Python imports `test_it/__init__.py` rather than `test_it.py`."""
    replace = agent("mkdir test_it", "echo pass > test_it/__init__.py")
    check = "python3 -m unittest -q test_it"
    test = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()\n"
    project = Project(tmp_path)
    (project.root / "test_it.py").write_text(test)
    laid_out(project, replace, "evidence: {protect: [test_*.py]}\n", check)
    said = run(project)
    assert "! test_it/__init__.py was changed by the agent: restored" in said.stdout
    assert (said.returncode, (project.root / "test_it/__init__.py").exists()) == (3, False)


def test_what_an_agent_hid_from_git_counts(tmp_path):
    hide = agent(
        "git update-index --assume-unchanged tests/check.py",
        "echo tests/ >> .git/info/exclude",
        "echo pass > tests/check.py",
        "test $LL_ITERATION = 1 || echo right > src/value",
    )
    project = laid_out(Project(tmp_path), hide, PROTECTED)
    assert run(project).returncode == 0
    assert (project.root / "tests/check.py").read_text() == TEST
    assert (project.root / "src/value").read_text() == "right\n"
    assert os.environ.get("LL_CLEAN") is None
    assert json.dumps(events(project)[-1]["evidence"]) == '"verified"'


def test_a_definition_that_an_agent_rewrote_is_refused_by_a_resume(tmp_path):
    rewrite = agent(
        'sed -i "s/tests.check.py/-c 0/" .loops/.running/fix.d/run.json', "kill -9 $PPID"
    )
    project = laid_out(Project(tmp_path), rewrite, PROTECTED)
    run(project)
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    resume = ("resume", "fix", "--allow-skip-permissions", "--definition")
    ended = project.ll(*resume, "original")
    assert ended.returncode == 1
    assert "this run's `run.json` has changed since the run started" in ended.stdout
    again = project.ll(*resume, "current")
    assert (again.returncode, (project.root / "src/value").read_text()) == (0, "right\n")


def test_a_commit_that_is_gone_does_not_keep_a_run_from_its_end(tmp_path):
    amend = agent(
        "echo right > src/value",
        "git -c user.name=a -c user.email=a@b.c commit -qa --amend --no-edit",
        "git reflog expire --expire=now --all; git gc -q --prune=now",
    )
    project = laid_out(Project(tmp_path), amend, PROTECTED)
    assert run(project).returncode == 0


def test_a_resume_sets_after_how_many_turns_without_progress_a_run_is_stalled(tmp_path):
    project = laid_out(Project(tmp_path), agent("true"))
    assert (run(project).returncode, project.file("turns")) == (3, "")
    resumed = project.ll("resume", "fix", "--stall-after", "1", "--allow-skip-permissions")
    assert resumed.returncode == 3
    assert [each["reason"] for each in events(project) if each["event"] == "loop_error"] == [
        "stalled",
        "stalled",
    ]
    ended = [each for each in events(project) if each["event"] == "action_complete"]
    assert len(ended) == 9  # four checks and three turns, then one turn and its check
    never = project.ll("resume", "fix", "--stall-after", "0", "--allow-skip-permissions")
    assert (never.returncode, events(project)[-1]["reason"]) == (3, "max_iterations")
    wrong = project.ll("resume", "fix", "--stall-after", "-1")
    assert wrong.returncode == 2
