"""`run --dry-run` and `show`: a loop in words; nothing is run, nothing is written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.values import seconds_text
from little_loops.terminal.description import condition_text, described, state_lines
from tests.project import Project, until

FIX_TYPES = """\
name: fix-types
paradigm: convergence
description: Fix all type errors
check: "mypy src/ | grep -c 'error:' || echo 0"
toward: 0
using: /ll:manage_issue bug fix
scope: [src/]
max_iterations: 20
"""
EVERYTHING = """\
name: everything
description: |
  All there is.
  In two lines.
initial: measure
max_iterations: 3
timeout: 2h
backoff: 1.5
max_cost_usd: 5
max_tokens: 1000000
maintain: true
on_error: gave_up
on_interrupt: gave_up
env: {WHO: "${env.USER}"}
context: {tool: ruff, where: src, all: "${context.tool} check ${context.where}"}
states:
  start:
    action: |
      echo ${state.name} of ${loop.name}
      ${context.all} --as "${env.USER}" "${prev.output}"
    timeout: 90
    cwd: src
    env: {X: "1"}
    retry: {max: 3}
    condition: {type: all, of: [{type: output_contains, pattern: ok}, {type: not, of: {type: exit_code, fail: [2, 5]}}]}
    on_pass: pick
    on_fail: $current
    on_timeout: gave_up
  measure:
    action: "echo ${loop.cycle}"
    capture_exit: true
    next: start
  pick:
    condition: {type: verdict, words: [left, right, both], source: "${captured.measure.output}"}
    on_left: ask
    on_right: done
    route: {both: done}
  ask:
    action: "Look at ${captured.start.output:-nothing}"
    action_type: prompt
    host: {name: codex, permission_mode: read-only}
    next: done
  done: {terminal: true, on_maintain: start}
  gave_up: {action: "echo sorry", terminal: true, outcome: failure}
"""
SLOW = """\
name: slow
initial: work
scope: [src/api]
states:
  work: {action: "touch begun; while [ ! -e go ]; do sleep 0.02; done", next: done}
  done: {terminal: true}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    project.loop("fix-types", FIX_TYPES)
    project.loop("everything", EVERYTHING)
    project.loop("slow", SLOW)
    yield project
    project.end_actions()


def agent_on_path(project: Project, name: str) -> dict[str, str]:
    """A program of that name that tells on whoever starts it."""
    directory = project.home / "bin"
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\ntouch '{project.root}/started'\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", "IS_SANDBOX": "1"}


def tree(project: Project) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for top in (project.root, project.home)
        for path in sorted(top.rglob("*"))
    }


def dry(project: Project, *words: str, env: dict[str, str] | None = None) -> str:
    """What a dry run says; it must leave everything as it was."""
    before = tree(project)
    done = project.ll("run", *words, "--dry-run", env=env)
    assert tree(project) == before
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_screen_of_the_manual(project):
    env = agent_on_path(project, "claude")
    assert project.ll("trust", "fix-types", env=env).returncode == 0
    told = dry(project, "fix-types", env=env)
    since = told.partition("since ")[2].partition("\n")[0]
    assert told == dedent(f"""\
        fix-types · convergence → 3 states · dry run

          measure  $ mypy src/ | grep -c 'error:' || echo 0
                   on_target → done    on_progress → apply    on_stall → done
          apply    claude: /ll:manage_issue bug fix
                   next → measure
          done     end (success, failure when entered via on_stall)

        limits   20 iterations · no timeout · backoff 0s
        scope    src/            free (no other run overlaps)
        checks   measure
        evidence none: not in a git repository
        host     claude found · permissions: skip, trusted for this project since {since}
    """)
    assert not project.file("started")


def test_all_that_a_loop_can_have(project):
    env = {"USER": "me", "PATH": "/nowhere"}
    assert dry(project, "everything", env=env) == dedent("""\
        everything · fsm → 6 states · starts in measure · dry run

          start      $ echo start of everything
                       ruff check src --as "${env.USER}" "${prev.output}"
                     judged by all (output_contains (pattern ok), not (exit_code (fail 2/5)))
                     timeout 90s · retry at most 3 times · in src · env X
                     on_pass → pick    on_fail → $current    on_timeout → gave_up
          measure    $ echo ${loop.cycle}
                     judged later
                     next → start
          pick       decides
                     judged by verdict (words left/right/both, source ${captured.measure.output})
                     on_left → ask    on_right → done    both → done
          ask        codex: Look at ${captured.start.output:-nothing}
                     next → done
          done       on_maintain → start
                     end (success)
          gave_up    $ echo sorry
                     end (failure)
          any state  on_error → gave_up    on_interrupt → gave_up

        limits   3 iterations · timeout 2h · backoff 1.5s · $5 for agents · 1,000,000 tokens for agents · starts again 1m after success
        scope    .               free (no other run overlaps)
        evidence none: git is not installed
        host     codex not found on PATH · permissions: read-only
        from the environment: USER
        known only at run time: ${prev.output}, ${loop.cycle}, ${captured.measure.output}, ${captured.start.output:-nothing}
    """)


def test_what_the_command_line_says_instead(project):
    told = dry(
        project,
        *("everything", "--context", "where=lib docs", "--max-iterations", "7", "--timeout", "90"),
        *("--scope", "src", "--scope", "docs"),
        env={"PATH": "/nowhere"},
    ).splitlines()
    assert '               ruff check lib docs --as "${env.USER}" "${prev.output}"' in told
    assert (
        "limits   7 iterations · timeout 90s · backoff 1.5s · $5 for agents · 1,000,000 tokens for agents · starts again 1m after success"
        in told
    )
    assert "scope    src, docs       free (no other run overlaps)" in told
    assert "from the environment: USER (not set)" in told
    assert "limits   1 iteration " in dry(project, "everything", "--no-loop")


@pytest.mark.parametrize(
    ("words", "env", "permissions"),
    [
        pytest.param([], {}, "skip, not agreed to yet: ll-loop trust", id="nobody agreed"),
        pytest.param(
            ["--allow-skip-permissions"],
            {},
            "skip, allowed by --allow-skip-permissions",
            id="this time",
        ),
        pytest.param(
            [],
            {"LL_ALLOW_SKIP_PERMISSIONS": "1"},
            "skip, allowed by LL_ALLOW_SKIP_PERMISSIONS=1",
            id="by the environment",
        ),
    ],
)
def test_permissions(project, words, env, permissions):
    told = dry(project, "fix-types", *words, env={**agent_on_path(project, "claude"), **env})
    assert f"host     claude found · permissions: {permissions}\n" in told


def test_a_program_of_the_users_own(project):
    project.loop(
        "own",
        """\
        name: own
        initial: ask
        host: {name: command, command: [my-agent, "{prompt}"]}
        states:
          ask: {action: "do it", action_type: prompt, next: done}
          done: {terminal: true}
        """,
    )
    told = dry(project, "own", env=agent_on_path(project, "my-agent"))
    assert "host     command (my-agent) found · permissions: the program's default\n" in told


def test_a_run_in_the_way(project):
    with project.started("run", "slow") as run:
        until((project.root / "begun").exists, "action")
        told = project.ll("run", "fix-types", "--dry-run").stdout.splitlines()
        itself = project.ll("run", "slow", "--dry-run").stdout.splitlines()
        document = json.loads(project.ll("run", "fix-types", "--dry-run", "--json").stdout)
        taken = f"taken: 'slow' is running (pid {run.pid}) and works on `src/api`"
        assert f"scope    src/            {taken}" in told
        assert f"scope    src/api         {taken}" in itself
        assert not any(line.startswith("before") for line in itself)
        assert document["conflicts"] == [
            {"name": "slow", "pid": run.pid, "scope": "`src/api`", "doing": "running"}
        ]


def test_an_unfinished_run_in_the_way(project):
    with project.started("run", "slow") as run:
        until((project.root / "begun").exists, "action")
        run.terminate()
        run.wait()
    assert (
        "before   `slow` has an unfinished run: interrupted in state `work`; "
        "`ll-loop resume slow` continues it; `ll-loop run slow --fresh` starts a new run\n"
    ) in dry(project, "slow")
    assert "before" not in dry(project, "slow", "--fresh")


def test_a_secret_is_not_shown(project):
    env = {"MY_TOKEN": "hunter2hunter2"}
    told = dry(project, "everything", "--context", "where=hunter2hunter2", env=env)
    assert "hunter2" not in told
    assert "ruff check *** --as" in told


def test_what_an_override_breaks(project):
    words = ("run", "everything", "--dry-run", "--context", "where=${context.all}")
    done = project.ll(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "circular reference between `context` values: " in done.stderr


def test_a_warning_is_counted(project):
    project.loop("lost", "initial: a\nstates: {a: {terminal: true}, b: {terminal: true}}\n")
    assert dry(project, "lost").endswith("\n1 warning: ll-loop validate lost\n")


def test_nothing_drives_the_terminal(project):
    project.loop(
        "odd", 'initial: a\nstates: {a: {action: "echo \\e[2J", next: b}, b: {terminal: true}}\n'
    )
    assert "$ echo \\x1b[2J\n" in dry(project, "odd")


def test_ascii(project):
    told = dry(project, "slow", env={"LL_ASCII": "1"})
    assert told.isascii()
    assert told.startswith("slow - fsm -> 2 states - dry run\n")


def test_as_json(project):
    env = {"USER": "me", "PATH": "/nowhere"}
    document = json.loads(dry(project, "everything", "--id", "two", "--json", env=env))
    states = {state["name"]: state for state in document.pop("states")}
    assert document == {
        "schema": 1,
        "name": "everything",
        "run": "everything@two",
        "paradigm": "fsm",
        "initial": "measure",
        "limits": {
            "max_iterations": 3,
            "timeout_ms": 7_200_000,
            "idle_timeout_ms": None,
            "backoff_ms": 1500,
            "max_cost_usd": 5,
            "max_tokens": 1_000_000,
        },
        "scope": ["."],
        "evidence": {
            "kept": "git is not installed",
            "checks": [],
            "protect": [],
            "existing_only": False,
            "tampering": "report",
            "unmatched": [],
            "clean_copy": None,
            "setup": None,
            "confirm": 1,
        },
        "hooks": {},
        "conflicts": [],
        "hosts": [{"name": "codex", "program": "codex", "path": None, "permissions": "read-only"}],
        "before": None,
        "environment": {"USER": True},
        "unknown_until_run": [
            "${prev.output}",
            "${loop.cycle}",
            "${captured.measure.output}",
            "${captured.start.output:-nothing}",
        ],
        "warnings": 0,
    }
    assert states["ask"] == {
        "name": "ask",
        "initial": False,
        "kind": "prompt",
        "host": "codex",
        "action": "Look at ${captured.start.output:-nothing}",
        "condition": None,
        "transitions": {"next": "done"},
        "end": None,
        "unknown_until_run": ["${captured.start.output:-nothing}"],
        "problems": [],
    }


# show


def test_show(project):
    before = tree(project)
    shown = project.ll("show", "fix-types")
    assert tree(project) == before
    assert shown.stdout == dedent("""\
        fix-types · convergence → 3 states · .loops/fix-types.yaml
        Fix all type errors

          measure  $ mypy src/ | grep -c 'error:' || echo 0
                   on_target → done    on_progress → apply    on_stall → done
          apply    claude: /ll:manage_issue bug fix
                   next → measure
          done     end (success, failure when entered via on_stall)

        limits   20 iterations · no timeout · backoff 0s
        scope    src/
        checks   measure
        evidence none: not in a git repository
        context  metric_cmd, target, tolerance
        bounds   3 states, at most 20 iterations, no time limit
    """)


def test_show_more(project):
    lines = project.ll("show", "everything").stdout.splitlines()
    assert lines[:3] == [
        "everything · fsm → 6 states · starts in measure · .loops/everything.yaml",
        "All there is.",
        "In two lines.",
    ]
    assert lines[-3] == "context  tool, where, all"
    assert lines[-1] == "from the environment: USER"


def test_show_as_json(project):
    document = json.loads(project.ll("show", "fix-types", "--json").stdout)
    machine = FSMLoop.from_dict(document["machine"])
    assert [state["name"] for state in document["states"]] == list(machine.states)
    assert document["outcomes"] == {"done": "success, failure when entered via on_stall"}
    assert document["worst_case"] == "3 states, at most 20 iterations, no time limit"
    assert document["file"] == ".loops/fix-types.yaml"


def test_show_what_is_not_there(project):
    shown = project.ll("show", "fix-type")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "did you mean `fix-types`?" in shown.stderr


def test_a_file_whose_name_is_no_loop_name_is_to_be_renamed(project):
    project.loop("bad name", "check: 'true'\nfix: 'true'\n")
    shown = project.ll("show", "bad name")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == (
        "error: `bad name` is not a valid loop name\n"
        "   = help: rename the file; use letters, digits, `.`, `_` and `-`\n"
    )


# The words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (5, "5s"),
        (90, "90s"),
        (600, "10m"),
        (7200, "2h"),
        (61.5, "1m 02s"),
    ],
)
def test_seconds(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({"type": "exit_code"}, "exit_code"),
        (
            {"type": "output_numeric", "target": 0.0, "operator": "le"},
            "output_numeric (target 0, operator le)",
        ),
        (
            {
                "type": "any",
                "of": [{"type": "exit_code"}, {"type": "not", "of": {"type": "exit_code"}}],
            },
            "any (exit_code, not (exit_code))",
        ),
        ({"type": "output_contains", "pattern": "a\nb"}, "output_contains (pattern a\\nb)"),
    ],
)
def test_conditions(condition, text):
    assert condition_text(condition) == text


def test_many_ways_take_several_lines():
    words = {f"on_word{n}": "a-state-with-a-long-name" for n in range(3)}
    loop = FSMLoop.from_dict(
        {
            "name": "n",
            "initial": "a",
            "states": {
                "a": {"action": "true", **words},
                "a-state-with-a-long-name": {"terminal": True},
            },
        }
    )
    assert list(state_lines(loop, described(loop), "·", "→")) == [
        "  a                         $ true",
        "                            on_word0 → a-state-with-a-long-name",
        "                            on_word1 → a-state-with-a-long-name",
        "                            on_word2 → a-state-with-a-long-name",
        "  a-state-with-a-long-name  end (success)",
    ]


# Evidence.

PROVED = """\
name: proved
paradigm: goal
goal: Green
{evidence}
tools:
  - make -C web test tests/unit
  - {{action: Fix it, action_type: prompt, host: {{permission_mode: acceptEdits}}}}
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("", """\
            checks   evaluate
            protect  .loops/*.yaml, .loops/tests/, web/Makefile, web/makefile,
                     web/GNUmakefile, tests/unit
                     reported if an agent changes it
            """, id="guessed"),
        pytest.param("evidence: {protect: [tests/, spce/], clean: true, setup: npm ci}", """\
            checks   evaluate
            protect  tests/, spce/
                     restored if an agent changes it
                     warning: nothing matches spce/
            copy     ~/.local/state/little-loops/copies/NAME/work/NAME
                     setup: npm ci
            """, id="written"),
        pytest.param("evidence: {protect: {existing: [tests/]}, tampering: fail}", """\
            checks   evaluate
            protect  tests/
                     the run fails if an agent changes it; new files are allowed
            """, id="new files allowed"),
        pytest.param("evidence: false", """\
            checks   evaluate
            evidence none
            """, id="off"),
    ],
)  # fmt: skip
def test_what_would_be_proved_is_said(project, written, expected):
    project.git("init", "-q")
    (project.root / "tests").mkdir()
    project.loop("proved", PROVED.format(evidence=written))
    for said in (dry(project, "proved"), project.ll("show", "proved").stdout):
        after = said.partition("\nscope ")[2].partition("\n")[2]
        told = re.split(r"^(?:host|bounds) ", after, maxsplit=1, flags=re.MULTILINE)[0]
        told = re.sub(r"copies/[^/]+/[0-9a-f]{16}/work/.*", "copies/NAME/work/NAME", told)
        assert told == dedent(expected)


def test_a_loop_file_outside_of_the_usual_directory_is_among_what_is_protected(project):
    project.git("init", "-q")
    project.loop("proved", PROVED.format(evidence="")).rename(project.root / "proved.loop")
    for said in (dry(project, "./proved.loop"), project.ll("show", "./proved.loop").stdout):
        assert "\nprotect  proved.loop, .loops/*.yaml, .loops/tests/," in said


def test_a_run_without_evidence_is_asked_for_by_an_option(project):
    project.git("init", "-q")
    project.loop("proved", PROVED.format(evidence=""))
    assert "evidence none\n" in dry(project, "proved", "--no-evidence")


def test_a_run_warns_of_what_protects_nothing(project):
    project.git("init", "-q")
    project.loop("proved", "evidence: {protect: [tset/]}\n" + ONE_STEP)
    said = project.ll("run", "proved")
    assert said.stderr == ("warning: `tset/` in `protect` matches nothing in this project\n")
    assert project.ll("run", "proved", "--quiet").stderr == ""


@pytest.mark.parametrize(("environment", "is_blind"), [("", True), ("PYTHONPATH=src ", False)])
def test_a_run_warns_of_tests_that_import_an_installed_copy(project, environment, is_blind):
    copy = ".venv/lib/python3.11/site-packages/leap"
    for folder in ("src/leap", copy):
        (project.root / folder).mkdir(parents=True)
        (project.root / folder / "__init__.py").touch()
    command = f"{environment}echo python3 -m pytest"
    project.loop("it", ONE_STEP.replace('"true"', f'"{command}"'))
    said = project.ll("run", "it").stderr
    warning = (
        f"warning: tests import `leap` from {copy}, not from src, so they would not see a fix\n"
        "   = help: `.venv/bin/python3 -m pip install -e .` changes that\n"
    )
    assert said == (warning if is_blind else "")


ONE_STEP = """\
initial: check
states:
  check: {action: "true", check: true, on_pass: done, on_fail: check}
  done: {terminal: true}
"""
