"""`ll-loop validate` as a command: what it says, how much of it, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.project import Project

FILLED = """\
context: {pattern: ok, command: echo hi, code: 3}
initial: look
states:
  look:
    action: ${context.command}
    condition: {type: output_contains, pattern: "${context.pattern}"}
    on_pass: count
    on_fail: look
  count:
    action: exit 3
    condition: {type: exit_code, target: "${context.code}"}
    on_pass: done
    on_fail: look
  done: {terminal: true}
"""


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        pytest.param(["pattern="], ["LL213 6 `pattern` is empty once `context` is filled in"],
                     id="empty pattern"),
        pytest.param(["command= ", "code=five"],
                     ["LL213 5 `action` is empty once `context` is filled in",
                      "LL208 11 `target` is not a number: `five`"], id="two at once"),
        pytest.param(["command=eval ${env.X}"],
                     ["LL407 5 `${env.X}` is inside the program text of `eval`, and would be run"],
                     id="a value that makes data run"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["--dry-run", "--fresh"])
def test_a_value_that_breaks_the_loop_is_found_before_it_runs(
    project: Project, way: str, pairs: list[str], told: list[str]
) -> None:
    project.loop("filled", FILLED)
    given = [word for pair in pairs for word in ("--context", pair)]
    said = project.ll("run", "filled", way, "--json", *given)
    problems = json.loads(said.stdout)["problems"]
    with_ = "with " + ", ".join(f"`--context {pair}`" for pair in pairs) + ": "
    found = [f"{p['code']} {p['line']} {p['message'].removeprefix(with_)}" for p in problems]
    assert (said.returncode, found) == (2, told)


WARNED = "initial: a\nstates: {a: {terminal: true}, b: {terminal: true}}\n"
WRONG = "initial: b\nstates: {a: {terminal: true}}\n"
GOOD = "initial: a\nstates: {a: {terminal: true}}\n"
UNREACHABLE = """\
warning[LL301]: state `b` can never be reached
  --> .loops/doubtful.yaml:2:31
   |
 2 | states: {a: {terminal: true}, b: {terminal: true}}
   |                               ^
   = help: add a transition to it, or remove it

"""
UNKNOWN = """\
error[LL201]: `initial` names a state that does not exist: `b`
  --> .loops/wrong.yaml:1:10
   |
 1 | initial: b
   |          ^
   = help: known: `a`

"""
COUNTED = "checked 3 loops: 1 error, 1 warning in 2 files"
BUT_STRICT = "; --strict treats warnings as errors"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param([], UNREACHABLE + UNKNOWN + COUNTED + "\n", id="everything"),
        pytest.param(["-q"], UNKNOWN + COUNTED + "\n", id="errors and the last line"),
        pytest.param(["-qq"], "", id="nothing but the exit code"),
        pytest.param(["--strict"], UNREACHABLE + UNKNOWN + COUNTED + BUT_STRICT + "\n", id="strict"),
        pytest.param(["--strict", "-q"], UNREACHABLE + UNKNOWN + COUNTED + BUT_STRICT + "\n",
                     id="what counts as an error is shown"),
    ],
)  # fmt: skip
def test_how_much_is_said(project: Project, words: list[str], told: str) -> None:
    for name, text in {"doubtful": WARNED, "good": GOOD, "wrong": WRONG}.items():
        project.loop(name, text)
    said = project.ll("validate", *words)
    assert (said.stdout, said.stderr, said.returncode) == (told, "", 2)


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--strict"], 2)])
def test_strict_in_the_exit_code_and_in_json(project: Project, words: list[str], code: int) -> None:
    project.loop("doubtful", WARNED)
    project.loop("good", GOOD)
    assert project.ll("validate", "-qq", *words).returncode == code
    said = json.loads(project.ll("validate", "--json", *words).stdout)
    assert (said["strict"], said["valid"]) == (bool(code), not code)
    assert [each["valid"] for each in said["files"]] == [not code, True]
    github = project.ll("validate", "--output-format", "github", *words).stdout
    assert github.startswith("::error " if code else "::warning ")


def test_two_files_of_one_name(project: Project) -> None:
    project.loop("one", "name: two\n" + GOOD)
    project.loop("two", GOOD)
    said = project.ll("validate")
    assert (said.stdout, said.returncode) == (
        """\
error[LL015]: the loop name `two` is also used by `.loops/two.yaml`
  --> .loops/one.yaml:1:7
   |
 1 | name: two
   |       ^^^
   = help: give one of them another `name`

error[LL015]: the loop name `two` is also used by `.loops/one.yaml`
  --> .loops/two.yaml:1:1
   |
 1 | initial: a
   | ^^^^^^^
   = help: give one of them another `name`

checked 2 loops: 2 errors, 0 warnings in 2 files
""",
        2,
    )
    assert "LL015" in project.ll("validate", "one").stdout


def test_a_loop_of_another_project_may_have_the_same_name(project: Project) -> None:
    """A repository can contain several projects; pre-commit names the files of all of them."""
    (project.root / "web" / ".loops").mkdir(parents=True)
    files = [".loops/fix.yaml", "web/.loops/fix.yaml", "web/.loops/again.yaml"]
    for file in files[:2]:
        (project.root / file).write_text(f"name: fix\n{GOOD}")
    assert project.ll("validate", *files[:2]).stdout == "checked 2 loops: no problems\n"
    (project.root / files[2]).write_text(f"name: fix\n{GOOD}")
    said = project.ll("validate", *files)
    assert [line for line in said.stdout.splitlines() if "LL015" in line] == [
        "error[LL015]: the loop name `fix` is also used by `web/.loops/again.yaml`",
        "error[LL015]: the loop name `fix` is also used by `web/.loops/fix.yaml`",
    ]


def test_a_compiled_form_is_no_other_file_of_that_name(project: Project) -> None:
    project.loop("up", "paradigm: goal\nname: up\ngoal: Up\ntools: [make]\n")
    project.ll("compile", "up", "-o", ".loops/up.fsm.yaml")
    assert project.ll("validate").stdout == "checked 2 loops: no problems\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_hides_no_other(project: Project) -> None:
    project.loop("closed", GOOD).chmod(0)
    project.loop("wrong", WRONG)
    said = project.ll("validate")
    assert said.stdout.startswith(
        "error[LL014]: cannot read `.loops/closed.yaml`: Permission denied\n"
    )
    assert said.stdout.endswith("checked 2 loops: 2 errors, 0 warnings in 2 files\n")


def test_standard_input_is_checked_like_a_file(project: Project) -> None:
    said = subprocess.run(
        project.argv("validate", "-"),
        cwd=project.root,
        env=project.environ(),
        input="check: make\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (said.returncode, said.stdout.splitlines()[1]) == (2, "  --> stdin:1:1")
