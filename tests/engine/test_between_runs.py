"""What an agent leaves in ignored places or in protected files does not count for the next run, however
its own run ended; what the user changes between runs does."""

from __future__ import annotations

import pytest

from tests.engine.test_evidence import CHECK, PROTECTED, TEST, WEAKEN_AND_KILL, agent, laid_out, run
from tests.project import Project

EITHER = "sh -c 'test -e made || test -e ignored || grep -q right src/value'"
KILL = ("kill -9 $PPID", "sleep 1")
HIDES = {
    "an ignored file": "echo > ignored",
    "an ignored directory": "mkdir -p ignored; echo > ignored/x",
    "a repository": "git init -q made",
    "a line of .gitignore": "echo made >> .gitignore; echo > made",
    "a line of info/exclude": "echo made >> .git/info/exclude; echo > made",
    "another excludes file": 'echo made > .git/own; git config core.excludesFile "$PWD/.git/own"; echo > made',
}
ENDS: dict[str, tuple[tuple[str, ...], str]] = {
    "the run fails": ((), ""),
    "the run is killed": (KILL, "--fresh"),
    "the run is killed and its files are removed": (("rm -rf .loops/.running", *KILL), ""),
}


def once(project: Project) -> None:
    """From now on, the agent does nothing."""
    (project.root / "agent.sh").write_text(agent())


@pytest.mark.parametrize("hides", HIDES)
@pytest.mark.parametrize("ends", ENDS)
def test_what_a_run_made_where_git_ignores_it_is_not_in_the_copy_of_the_next(tmp_path, hides, ends):
    then, how = ENDS[ends]
    project = laid_out(Project(tmp_path), agent(HIDES[hides], *then), PROTECTED, EITHER)
    assert run(project, "--max-iterations", "1").returncode in (3, -9)
    once(project)
    ended = run(project, "--max-iterations", "1", *how.split())
    assert (ended.returncode, "✗ (exit 1) · clean copy" in ended.stdout) == (3, True)
    path = "ignored" if "ignored" in HIDES[hides] and "made" not in HIDES[hides] else "made"
    assert (
        "warning: ignored by git, and made or changed while a run worked, so the clean copy does not"
        f" have this version of it: {path}; if the check needs it, make it again yourself, or use `setup`"
    ) in ended.stderr.splitlines()


def test_a_new_file_that_the_agent_hides_from_git_is_not_delivered(tmp_path):
    project = laid_out(Project(tmp_path), agent(HIDES["a line of .gitignore"]), PROTECTED, EITHER)
    ended = run(project, "--max-iterations", "1")
    assert (ended.returncode, "✗ (exit 1) · clean copy" in ended.stdout) == (3, True)
    assert (
        "warning: a commit would not include these files, because git ignores or overlooks them, so they are not in the clean copy: made"
        in (ended.stderr.splitlines())
    )


def test_a_file_that_the_agent_takes_out_of_git_is_not_delivered(tmp_path):
    untrack = agent(
        "echo right > src/value", "git rm -q --cached src/value; echo src >> .gitignore"
    )
    project = laid_out(
        Project(tmp_path),
        untrack,
        PROTECTED,
        "sh -c 'test -e src/value && grep -q right src/value'",
    )
    assert run(project, "--max-iterations", "1").returncode == 3


def test_an_ignored_file_that_a_run_changed_is_in_the_copy_as_you_made_it(tmp_path):
    """The copy of the first run and that of the next one have the same."""
    change = agent("echo right > ignored")
    project = laid_out(Project(tmp_path), change, PROTECTED, "grep -q right ignored")
    (project.root / "ignored").write_text("wrong\n")
    assert run(project, "--max-iterations", "1").returncode == 3
    assert run(project, "--max-iterations", "1").returncode == 3
    assert (project.root / "ignored").read_text() == "right\n"
    (project.root / "ignored").write_text("right, by you\n")
    assert run(project).returncode == 0


@pytest.mark.parametrize("path", ["ignored", "made"])
def test_what_you_make_between_two_runs_is_in_the_copy(tmp_path, path):
    project = laid_out(Project(tmp_path), agent(), PROTECTED, EITHER)
    assert run(project, "--max-iterations", "1").returncode == 3
    with (project.root / ".gitignore").open("a") as file:
        file.write("made\n")
    (project.root / path).write_text("")
    ended = run(project)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_you_make_again_is_yours(tmp_path):
    project = laid_out(
        Project(tmp_path), agent("mkdir -p ignored; echo > ignored/x"), PROTECTED, EITHER
    )
    assert run(project, "--max-iterations", "1").returncode == 3
    (project.root / "ignored/x").unlink()
    (project.root / "ignored/x").write_text("")
    assert run(project).returncode == 0


def test_a_copy_that_had_it_has_it_no_longer(tmp_path):
    """With `setup`, the copy keeps what git ignores."""
    check = "sh -c 'test -e made && { test -z \"$LL_CLEAN\" || test -e second; }'"
    with_setup = "evidence: {protect: [tests/], clean: true, setup: 'true'}\n"
    project = laid_out(Project(tmp_path), agent("echo > made"), with_setup, check)
    assert run(project, "--max-iterations", "1").returncode == 3
    hide = "echo > second; echo made >> .gitignore"
    (project.root / "agent.sh").write_text(agent(hide, *KILL))
    assert run(project).returncode == -9
    once(project)
    assert run(project, "--fresh", "--max-iterations", "1").returncode == 3


def patch_of(line: str) -> str:
    return line.rpartition("`git apply ")[2].partition("`")[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param((), ("other",), id="another loop"),
        pytest.param(("rm -rf .loops/.running",), ("fix",), id="its files are gone"),
        pytest.param(
            ("for f in .loops/.running/fix.*; do [ -d $f ] || echo > $f; done",),
            ("fix", "--fresh"),
            id="its files are damaged",
        ),
    ],
)
def test_a_weakened_test_is_restored_when_the_next_run_starts_whatever_it_is(tmp_path, more, words):
    cheat = agent(WEAKEN_AND_KILL[0], *more, "kill -9 $PPID")
    project = laid_out(Project(tmp_path), cheat, PROTECTED)
    loops = project.root / ".loops"
    (loops / "other.yaml").write_text((loops / "fix.yaml").read_text().replace("fix", "other", 1))
    assert run(project).returncode == -9
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    start = ("run", *words, "--allow-skip-permissions")
    ended = project.ll(*start)
    line = ended.stderr.splitlines()[0]
    patch = patch_of(line)
    assert line == (
        "warning: tests/check.py changed during an agent's interrupted turn: restored; if the change is"
        f" yours, `git apply {patch}` brings it back"
    )
    assert (ended.returncode, (project.root / "tests/check.py").read_text()) == (0, TEST)
    project.git("apply", patch)
    again = project.ll(*start)
    assert (again.stderr, (project.root / "tests/check.py").read_text()) == ("", "\n")


def test_a_test_that_was_weakened_during_a_check_is_restored_when_the_next_run_starts(tmp_path):
    check = f"sh -c 'test ! -e src/hook || sh src/hook; {CHECK}'"
    kill = "echo > tests/check.py; rm src/hook; kill -9 $(cat runner)"
    hook = agent(f"echo '{kill}' > src/hook; echo $PPID > runner")
    project = laid_out(Project(tmp_path), hook, PROTECTED, check)
    assert run(project).returncode == -9
    (project.root / "agent.sh").write_text(agent("echo right > src/value"))
    ended = run(project, "--fresh")
    assert ended.stderr.splitlines()[0].startswith(
        "warning: tests/check.py changed during an interrupted check: restored; if the change is yours"
    )
    assert (project.root / "tests/check.py").read_text() == TEST


def test_what_you_change_after_a_step_of_the_loop_was_killed_is_yours(tmp_path):
    project = laid_out(Project(tmp_path), agent(), PROTECTED)
    (project.root / ".loops/fix.yaml").write_text(
        "name: fix\ninitial: work\nevidence: {protect: [tests/], clean: true}\n"
        "states:\n"
        "  work: {action: 'test -e again || kill -9 $PPID', next: turn}\n"
        "  turn: {action: Work, action_type: prompt, next: check}\n"
        "  check: {action: test -e tests/new, check: true, on_pass: done, on_fail: turn}\n"
        "  done: {terminal: true}\n"
        'host: {name: command, command: [./agent.sh, "{prompt}"]}\n'
    )
    assert run(project).returncode == -9
    for path in ("again", "tests/new"):
        (project.root / path).write_text("")
    ended = run(project, "--fresh")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (project.root / "tests/new").exists()
