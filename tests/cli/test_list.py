"""`ll-loop list`: every loop is a line, whatever is wrong with its file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.cli.loop_table import lines, loops_of
from little_loops.fsm.timestamps import timestamp
from little_loops.terminal.tables import ASCII, Style
from tests.cli.runs import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    QUICK,
    SECOND,
    damaged,
    held,
    ll,
    past,
    ran,
    saved,
    state,
    under_way,
)

FIX_TYPES = """\
paradigm: convergence
description: Fix all type errors
check: mypy src | grep -c error
toward: 0
using: echo fix
"""
GUARD = """\
paradigm: invariants
name: quality-guard
description: Keep tests and lint green
constraints: [{name: tests, check: pytest, fix: echo fix}]
"""
DEPLOY = """\
description: Deploy with rollback
initial: build
states:
  build: {action: make, on_pass: done, on_fail: failed}
  done: {terminal: true}
  failed: {terminal: true}
"""
LINT = """\
initial: chekc
states:
  check: {action: ruff check, on_fial: check}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "LL_ASCII", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(root: Path, **files: str) -> None:
    for stem, text in files.items():
        (root / f".loops/{stem.replace('_', '-')}.yaml").write_text(text)


def ended(root: Path, name: str, at_ms: int, **fields: object) -> None:
    past(root, name, state(loop=name.partition("@")[0], updated_at=timestamp(at_ms), **fields))


@pytest.fixture
def project(here):
    write(here, fix_types=FIX_TYPES, quality_guard=GUARD, safe_deploy=DEPLOY, lint=LINT)
    completed = {"status": "completed", "reason": "terminal", "iteration": 3}
    ended(here, "fix-types", NOW - 2 * HOUR, ran_ms=154 * SECOND, **completed)
    saved(
        here,
        "safe-deploy",
        state(status="awaiting_continuation", updated_at=timestamp(NOW - 26 * HOUR)),
    )
    with held(here, "quality-guard"):
        saved(here, "quality-guard", state(current_state="fix_tests"))
        yield here


def shown(root: Path, style: Style) -> str:
    return "\n".join(lines(loops_of(str(root)), style, NOW)) + "\n"


def test_the_loops_of_a_project(project):
    assert shown(project, Style(width=80)) == dedent("""\
        NAME           PARADIGM     LAST RUN                  DESCRIPTION
        fix-types      convergence  ✓ 2h ago, 3 it, 2m34s     Fix all type errors
        lint           –            ✗ invalid (2 errors)      ll-loop validate lint
        quality-guard  invariants   ● running 14m, fix_tests  Keep tests and lint green
        safe-deploy    fsm          ! paused 26h ago          Deploy with rollback
        """)


def test_the_loops_on_a_narrow_terminal_without_our_signs(project):
    assert shown(project, Style(ASCII, width=50)) == dedent("""\
        NAME           LAST RUN
        fix-types      ok 2h ago, 3 it, 2m34s
        lint           FAIL invalid (2 errors)
        quality-guard  * running 14m, fix_tests
        safe-deploy    warn paused 26h ago
        """)


def test_a_long_name_is_whole_as_it_is_to_be_typed(project):
    write(project, keep_the_documentation_tidy=DEPLOY)
    assert shown(project, Style(width=80)).splitlines()[:3] == [
        "NAME                         LAST RUN                  DESCRIPTION",
        "fix-types                    ✓ 2h ago, 3 it, 2m34s     Fix all type errors",
        "keep-the-documentation-tidy  –                         Deploy with rollback",
    ]


def test_what_is_wrong_is_the_next_thing_to_look_at(project, capsys):
    assert ll(capsys, "list").err == "next: ll-loop validate lint\n"
    assert ll(capsys, "list", "-q").err == ""
    write(project, lint_too=LINT)
    assert ll(capsys, "list").err == "next: ll-loop validate\n"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param(
            {"status": "failed", "reason": "error"}, "✗ 2d ago, 1 it, 14m03s", id="failed"
        ),
        pytest.param({"status": "failed", "reason": "max_cost"}, "! limit 2d ago", id="limit"),
        pytest.param(
            {"status": "stopped", "reason": "stop_signal"}, "– stopped 2d ago", id="stopped"
        ),
        pytest.param({"status": "interrupted"}, "! interrupted 2d ago", id="interrupted"),
        pytest.param({"status": "running"}, "! interrupted (crashed) 2d ago", id="crashed"),
    ],
)
def test_how_a_loop_last_ended(fields, text, here):
    write(here, fix_types=FIX_TYPES)
    ended(here, "fix-types", NOW - 2 * DAY, **fields)
    [entry] = loops_of(str(here))
    assert lines([entry], Style(), NOW)[1] == f"fix-types  convergence  {text}  Fix all type errors"


def test_a_loop_that_never_ran(here, capsys):
    write(here, fix_types=FIX_TYPES)
    assert ll(capsys, "list") == (
        0,
        (
            "NAME       PARADIGM     LAST RUN  DESCRIPTION\n"
            "fix-types  convergence  –         Fix all type errors\n"
        ),
        "",
    )


def test_no_loops(here, capsys):
    assert ll(capsys, "list") == (0, "this project has no loops\n", "next: ll-loop init\n")
    assert ll(capsys, "list", "--json").json == {"schema": 1, "loops": []}


def test_a_source_and_its_compiled_form_are_one_line(here):
    write(here, fix_types=FIX_TYPES)
    compiled = "# compiled from .loops/fix-types.yaml\nname: fix-types\n" + DEPLOY
    (here / ".loops/fix-types.fsm.yaml").write_text(compiled)
    assert [(entry.name, entry.paradigm) for entry in loops_of(str(here))] == [
        ("fix-types", "convergence")
    ]


def test_a_compiled_form_without_its_source_is_a_loop(here):
    (here / ".loops/x.fsm.yaml").write_text("# compiled from .loops/x.yaml\nname: x\n" + DEPLOY)
    assert [(entry.name, entry.wrong) for entry in loops_of(str(here))] == [("x", None)]


def test_two_files_of_one_name_are_both_listed_as_what_they_are(here):
    write(here, one="name: same\n" + DEPLOY, two="name: same\n" + DEPLOY)
    assert shown(here, Style()) == dedent("""\
        NAME  PARADIGM  LAST RUN                       DESCRIPTION
        same  fsm       ✗ same name as .loops/two.yaml  give one of them another name
        same  fsm       ✗ same name as .loops/one.yaml  give one of them another name
        """).replace("LAST RUN                       ", "LAST RUN                        ")


def test_a_file_that_cannot_be_read(here):
    write(here, fix_types=FIX_TYPES)
    (here / ".loops/gone.yaml").mkdir()
    (here / ".loops/bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (here / ".loops/huge.yaml").write_text("x: [" + "[" * 100)
    names = [entry.name for entry in loops_of(str(here))]
    assert names == ["bytes", "fix-types", "huge"]


def test_what_is_running_is_said_even_if_its_file_is_broken_now(here):
    write(here, lint=LINT)
    with held(here, "lint"):
        saved(here, "lint", state(loop="lint"))
        assert shown(here, Style()).splitlines()[1] == (
            "lint  –         ● running 14m, apply  ✗ invalid (2 errors): ll-loop validate lint"
        )


def test_runs_without_a_file_are_listed_too(here):
    completed = {"status": "completed", "reason": "terminal"}
    ended(here, "old", NOW - HOUR, **completed)
    ended(here, "old@two", NOW - MINUTE, **completed)
    saved(here, "left", state(status="interrupted"))
    assert shown(here, Style()) == dedent("""\
        NAME     PARADIGM  LAST RUN                DESCRIPTION
        left     –         ! interrupted 0s ago    its file no longer exists
        old      –         ✓ 1h ago, 1 it, 14m03s  its file no longer exists
        old@two  –         ✓ 1m ago, 1 it, 14m03s  its file no longer exists
        """)


def test_runs_with_an_id_belong_to_their_loop(here):
    write(here, fix_types=FIX_TYPES)
    completed = {"status": "completed", "reason": "terminal"}
    ended(here, "fix-types", NOW - DAY, **completed)
    ended(here, "fix-types@a", NOW - HOUR, **completed)
    saved(here, "fix-types@b", state(status="interrupted", updated_at=timestamp(NOW - 2 * HOUR)))
    assert shown(here, Style()) == dedent("""\
        NAME         PARADIGM     LAST RUN                DESCRIPTION
        fix-types    convergence  ✓ 1h ago, 1 it, 14m03s  Fix all type errors
        fix-types@b  convergence  ! interrupted 2h ago
        """)


def test_a_damaged_run_is_a_line_like_the_others(here, capsys):
    write(here, fix_types=FIX_TYPES)
    damaged(here, "fix-types")
    assert ll(capsys, "list") == (
        0,
        (
            "NAME       PARADIGM     LAST RUN   DESCRIPTION\n"
            "fix-types  convergence  ✗ damaged  Fix all type errors\n"
        ),
        "",
    )


def test_a_description_cannot_drive_the_terminal(here):
    write(here, fix_types=FIX_TYPES.replace("Fix all type errors", r'"a\e[2Jb\n  c"'))
    assert shown(here, Style()).splitlines()[1] == "fix-types  convergence  –         a\\x1b[2Jb c"


def test_for_programs(here, capsys):
    write(here, lint=LINT, quick=json.dumps(QUICK))
    ran(here, QUICK)
    document = ll(capsys, "list", "--json").json
    last = document["loops"][1].pop("last_run")
    assert (last["status"], last["state"], last["iteration"]) == ("completed", "done", 1)
    assert document == {
        "schema": 1,
        "loops": [
            {
                "name": "lint",
                "file": f"{here}/.loops/lint.yaml",
                "paradigm": None,
                "description": "",
                "valid": False,
                "errors": 2,
                "warnings": 0,
                "problem": "invalid (2 errors)",
                "last_run": None,
            },
            {
                "name": "quick",
                "file": f"{here}/.loops/quick.yaml",
                "paradigm": "fsm",
                "description": "",
                "valid": True,
                "errors": 0,
                "warnings": 0,
                "problem": None,
            },
        ],
    }


# ── who is alive ───────────────────────────────────────────────────────────────────────────────


def test_what_is_running(here, capsys):
    assert ll(capsys, "ps") == (0, "no loop is running\n", "")
    saved(here, "left", state(status="interrupted"))
    with under_way(here):
        said = ll(capsys, "list", "--running")
        assert [re.sub(r"\d+s|\d{2,}", "N", line).split() for line in said.out.splitlines()] == [
            ["NAME", "STATUS", "STATE", "ITER", "COST", "PID"],
            ["slow", "●", "running", "N", "work", "1", "–", "N"],
        ]
        [one] = ll(capsys, "ps", "--json").json["runs"]
        assert (one["name"], one["status"], one["pid"]) == ("slow", "running", os.getpid())


def test_a_living_run_with_a_damaged_file_is_alive(here, capsys):
    with held(here, "odd"):
        files = saved(here, "odd", state())
        Path(files.state).write_text("{}")
        said = ll(capsys, "list", "--running")
    assert said.out.splitlines()[1].split()[:3] == ["odd", "●", "running"]
    assert said.err == f"warning: `{files.state}` is damaged: `format` is missing\n"


@pytest.mark.parametrize(
    "words", [("status",), ("status", "slow"), ("list", "--running"), ("ps", "--json")]
)
def test_what_is_asked_often_loads_neither_yaml_nor_a_terminal(words, here):
    saved(here, "slow", state(status="interrupted"))
    heavy = (
        "yaml",
        "rich",
        "psutil",
        "subprocess",
        "argparse",
        "hashlib",
        "dataclasses",
        "asyncio",
    )
    program = (
        "import sys; from little_loops.cli.main import main; main(sys.argv[1:]);"
        f" sys.exit(repr([each for each in {heavy} if each in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stderr.splitlines()[-1] == "[]"
