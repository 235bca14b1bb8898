"""What `validate` and `run` say about evidence that cannot be recorded or changes nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.authoring.load import load
from little_loops.definitions.evidence_checks import evidence_problems
from little_loops.trees.repository_files import repository_of
from tests.project import Project

STATES = """\
initial: check
states:
  check: {action: pytest, check: true, on_pass: done, on_fail: fix}
  fix: {action: /fix, next: check}
  done: {terminal: true}
"""
SHELL_ONLY = STATES.replace("/fix", "make fix")
NO_CHECK = STATES.replace(", check: true", "")


def told(text: str, root: Path, config: str = "") -> str:
    definition = load(text, "a.yaml", "a")
    assert definition.loop is not None, definition.problems
    (root / ".loops").mkdir(exist_ok=True)
    (root / ".loops" / ".config.yaml").write_text(config)
    found = evidence_problems(definition, str(root), {"HOME": str(root / "home")})
    return "".join(
        f"{one.severity}[{one.code}]{f' {one.place.line}:{one.place.column}' if one.place else ''}\n"
        f"  {one.message}\n  help: {one.help}\n"
        for one in found
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(STATES, "", id="nothing written"),
        pytest.param("evidence: false\n" + STATES, "", id="switched off"),
        pytest.param("scope_writes: report\n" + STATES, "", id="only reported"),
        pytest.param(
            "evidence: {protect: [tests/]}\nscope_writes: enforce\n" + STATES,
            """\
            error[LL234] 1:1
              `evidence` needs a git repository, but this project is not in one
              help: `git init`, remove `evidence`, or run it with `--no-evidence`
            error[LL234] 2:15
              `scope_writes: enforce` needs a git repository, but this project is not in one
              help: run `git init`, or write `scope_writes: report`
            """,
            id="settings",
        ),
    ],
)
def test_outside_of_git_what_is_written_down_is_an_error(text, expected, tmp_path):
    assert told(text, tmp_path) == dedent(expected)


@pytest.mark.parametrize(
    ("text", "config", "expected"),
    [
        pytest.param("evidence: {protect: [tests/], clean: true, setup: make, confirm: 2}\n" + STATES,
                     "", "", id="all is well"),
        pytest.param("evidence: {tampering: fail}\n" + STATES, "", """\
            warning[LL318] 1:12
              `tampering: fail` without `protect`: it only applies to files named in \
the check command
              help: add `protect: [tests/]`
            """, id="tampering without protect"),
        pytest.param("evidence: {tampering: fail}\n" + STATES, "evidence: {protect: [tests/]}", "",
                     id="protect in the config"),
        pytest.param("evidence: {setup: npm ci}\n" + STATES, "", """\
            warning[LL318] 1:12
              `setup` has no effect: it runs in the clean copy, but `clean` is not true
              help: add `clean: true`, or remove `setup`
            """, id="setup without clean"),
        pytest.param("evidence: {clean: true, confirm: 2}\n" + NO_CHECK, "", """\
            warning[LL318] 1:12
              `clean` has no effect: only shell checks are run again, but the loop has none
              help: mark the shell state that decides with `check: true`
            warning[LL318] 1:25
              `confirm` has no effect: only shell checks are run again, but the loop has none
              help: mark the shell state that decides with `check: true`
            """, id="no check"),
        pytest.param("scope_writes: enforce\n" + SHELL_ONLY, "", """\
            warning[LL318] 1:1
              `scope_writes` has no effect: no evidence is recorded, so the run cannot tell what \
agents write
              help: add `evidence: true`, or remove `scope_writes`
            """, id="no agents"),
        pytest.param(STATES.replace("next: check", "next: check, on_tampered: done, "
                                    "on_out_of_scope: done, on_flaky: done, on_stalled: done"), "",
                     """\
            warning[LL308] 4:36
              `on_tampered` of state `fix` is never taken without `tampering: fail`
              help: add `tampering: fail` to `evidence`
            warning[LL308] 4:55
              `on_out_of_scope` of state `fix` is never taken without `scope_writes: enforce`
              help: add `scope_writes: enforce` to the loop
            warning[LL308] 4:78
              `on_flaky` of state `fix` is never taken without `confirm: 2`
              help: add `confirm: 2` to `evidence`
            warning[LL308] 4:94
              `on_stalled` of state `fix` is never taken without `stall_after: 3`
              help: add `stall_after: 3` to `evidence`
            """, id="verdicts that cannot come"),
        pytest.param("evidence: {confirm: 2, stall_after: 2}\n"
                     + STATES.replace("on_fail: fix", "on_fail: fix, on_flaky: fix, on_stalled: fix"),
                     "", "", id="verdicts that can"),
        pytest.param("evidence: {setup: x}\n" + STATES, "evidence: [", """\
            warning[LL318] 1:12
              `setup` has no effect: it runs in the clean copy, but `clean` is not true
              help: add `clean: true`, or remove `setup`
            """, id="a broken config file is somebody else's to report"),
    ],
)  # fmt: skip
def test_a_setting_that_changes_nothing_is_a_warning(text, config, expected, tmp_path):
    (tmp_path / ".git").mkdir()
    assert told(text, tmp_path, config) == dedent(expected)


def test_a_repository_is_found_from_below(tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert repository_of(str(below)) is None
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")  # as a worktree has it
    assert repository_of(str(below)) == str(tmp_path.resolve())


def test_outside_of_git_a_run_that_asks_for_evidence_is_refused(project: Project):
    project.loop("check", "evidence: {protect: [tests/]}\n" + STATES)
    said = project.ll("run", "check")
    assert said.returncode == 2
    assert "`evidence` needs a git repository, but this project is not in one" in said.stderr
