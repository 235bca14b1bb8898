"""A project nobody has looked at yet: what lies in it is not imported, not run, not waited for.

The command is started as an installed one is, by a script that lies elsewhere: `python -m` would
put the project first on the path of modules, whoever is run by it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.project import DEADLINE_S, Project

SCRIPT = "#!{python}\nfrom little_loops.cli.main import process\n\nprocess()\n"
MODULES = (
    *("yaml", "json", "jq", "re2", "psutil", "rich", "sitecustomize", "usercustomize"),
    *("little_loops", "subprocess", "signal", "typing", "encodings", "_yaml", "shlex"),
)
PROGRAMS = ("claude", "codex", "git", "ps", "ll-loop", "python", "python3", "env", "stty", "tput")
LOOP = """\
    name: look
    initial: check
    states:
      check:
        action: "echo '{\\"a\\": 1}'"
        condition: {type: output_json, path: .a, target: 1}
        on_pass: read
        on_fail: read
      read:
        action: echo all is well
        condition: {type: output_contains, pattern: "wel+"}
        on_pass: nested
        on_fail: nested
      nested: {action: ll-loop list, next: done}
      done: {terminal: true}
    """
AGENT = """\
    name: mend
    initial: fix
    host: {permission_mode: plan}
    states:
      fix: {action: "/mend it", next: done}
      done: {terminal: true}
    """
RELAY = """\
    paradigm: relay
    name: pass-on
    agent: "echo '{\\"status\\": \\"implemented\\"}' > meta.json"
    metadata: meta.json
    plan: plan.md
    """


@pytest.fixture
def trapped(project: Project) -> Project:
    """Every module and program that could be taken for another leaves a mark if it is."""
    for name in MODULES:
        path = project.root / (f"{name}/__init__.py" if name == "little_loops" else f"{name}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(project.home / 'caught')!r}, 'a').write('{name}\\n')\n")
    for name in PROGRAMS:
        _program(project.root / name, f"echo program {name} >> '{project.home}/caught'")
    _program(project.home / "bin" / "ll-loop", SCRIPT.format(python=sys.executable), own=True)
    project.loop("look", LOOP)
    project.loop("mend", AGENT)
    project.loop("pass-on", RELAY)
    (project.root / "plan.md").write_text("one phase\n")
    return project


def _program(path: Path, text: str, *, own: bool = False) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if own else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def ll(
    project: Project, *words: str, env: Mapping[str, str] | None = None, umask: int = -1
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(project.home / "bin" / "ll-loop"), *words],
        cwd=project.root,
        env=project.environ(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=DEADLINE_S,
        umask=umask,
        check=False,
    )


def caught(project: Project) -> str:
    path = project.home / "caught"
    return path.read_text() if path.exists() else ""


VERBS = [
    *(("run", "look"), ("run", "look", "--dry-run"), ("validate", "look"), ("compile", "look")),
    *(("list",), ("status",), ("history",), ("show", "look"), ("graph", "look"), ("doctor",)),
    *(("trust", "--list"), ("run", "pass-on"), ("schema",), ("init", "--yes"), ("completion", "bash")),
]  # fmt: skip


def test_the_trap_would_catch(trapped):
    """`python -m` is the way in that the page on security warns of."""
    said = trapped.ll("list")
    assert caught(trapped), said


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_module_of_the_project_is_imported(trapped, words):
    said = ll(trapped, *words)
    assert said.returncode in (0, 1, 2), said
    assert caught(trapped) == ""


def test_nor_by_a_run_behind(trapped):
    assert ll(trapped, "run", "look", "--background").returncode == 0
    assert ll(trapped, "wait", "look").returncode == 0
    assert trapped.events("look")[-1]["event"] == "loop_complete"
    assert caught(trapped) == ""


DIRECTORIES = {"a dot": ".:{path}", "nothing": ":{path}", "by its whole name": "{root}:{path}"}


def with_the_project_on_path(project: Project, path: str) -> dict[str, str]:
    return {"PATH": path.format(path=os.environ["PATH"], root=project.root)}


@pytest.mark.parametrize("path", DIRECTORIES.values(), ids=DIRECTORIES.keys())
def test_no_agent_of_the_project_is_started(trapped, path):
    said = ll(trapped, "run", "mend", env=with_the_project_on_path(trapped, path))
    assert said.returncode == 1, said
    assert "found inside the project" in said.stdout
    assert caught(trapped) == ""


@pytest.mark.parametrize("path", DIRECTORIES.values(), ids=DIRECTORIES.keys())
def test_no_git_of_the_project_is_started(trapped, path):
    (trapped.root / ".git").mkdir()
    said = ll(trapped, "run", "pass-on", env=with_the_project_on_path(trapped, path))
    assert said.returncode in (0, 1), said
    assert "program git" not in caught(trapped)


@pytest.mark.parametrize("path", DIRECTORIES.values(), ids=DIRECTORIES.keys())
def test_no_program_of_the_project_is_asked_for_its_version(trapped, path):
    ll(trapped, "doctor", env=with_the_project_on_path(trapped, path))
    assert caught(trapped) == ""


# ── files that are no files ────────────────────────────────────────────────────────────────────


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.write(b"name: look\n")
        file.truncate(8 << 30)


ODD = {"a pipe": pipe, "a link to what has no end": endless, "8 GB": huge}
PLACES = (".loops/odd.yaml", ".loops/.config.yaml", ".loops/.gitignore")


@pytest.mark.parametrize(
    ("place", "kind"),
    [pytest.param(place, kind, id=f"{kind} as {place}") for place in PLACES for kind in ODD],
)
def test_no_file_holds_us_up_or_fills_the_memory(trapped, place, kind):
    ODD[kind](trapped.root / place)
    for words in (("list",), ("validate", "look"), ("run", "look")):
        argv = ["-c", 'ulimit -v 1000000; exec "$@"', "sh", str(trapped.home / "bin" / "ll-loop")]
        said = subprocess.run(
            ["/bin/sh", *argv, *words],
            cwd=trapped.root,
            env=trapped.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        assert said.returncode in (0, 1, 2), said
        assert "bug" not in said.stderr


COMMAND_FILE = ".claude/commands/mend.md"
REFUSED = {
    ".loops/odd.yaml": (
        ("run", "odd"),
        "error: cannot read `.loops/odd.yaml`: not a regular file\n",
    ),
    ".loops/.config.yaml": (
        ("run", "look"),
        (
            "error: cannot read `{root}/.loops/.config.yaml`: not a regular file\n"
            "   = help: move it away\n"
        ),
    ),
    COMMAND_FILE: (
        ("run", "mend"),
        (
            "error[LL422]: `.claude/commands/mend.md`, the file of `/mend`, cannot be read, or is not a"
            " regular file\n"
            "  --> .loops/mend.yaml:5:17\n"
            "   |\n"
            ' 5 |   fix: {{action: "/mend it", next: done}}\n'
            "   |                 ^^^^^^^^^^\n"
            "   = help: replace it with a regular file that you can read, or remove it\n"
        ),
    ),
}


@pytest.mark.parametrize("place", REFUSED)
def test_a_pipe_in_the_place_of_a_file_is_refused_in_words(trapped, place):
    words, error = REFUSED[place]
    (trapped.root / place).parent.mkdir(parents=True, exist_ok=True)
    pipe(trapped.root / place)
    said = ll(trapped, *words)
    assert (said.returncode, said.stderr) == (2, error.format(root=trapped.root))


@pytest.mark.parametrize("name", ["pyproject.toml", "package.json", "Makefile", "tox.ini"])
def test_a_pipe_among_the_files_of_a_project_does_not_hold_up_init(trapped, name):
    pipe(trapped.root / name)
    said = ll(trapped, "init", "--template", "tests")
    assert said.returncode == 0, said.stderr


def test_nothing_waits_for_a_reader_of_what_it_writes(trapped):
    pipe(trapped.root / "out")
    said = ll(trapped, "compile", "look", "-o", "out")
    assert (said.returncode, said.stderr) == (2, "error: cannot write `out`: not a regular file\n")


def test_a_past_run_with_a_date_there_is_not_can_be_pruned(trapped):
    """Whoever wrote it there: it is listed, and `--prune` passes it by or takes it along."""
    assert ll(trapped, "run", "look").returncode == 0
    odd = trapped.root / ".loops/.history/look/2026-99-99T99-99-99.state.json"
    odd.write_text("{}")
    for words in (("history",), ("history", "--prune", "1d"), ("history", "look", "--json")):
        said = ll(trapped, *words)
        assert said.returncode != 70, said
        assert "bug" not in said.stderr


# ── names and texts that drive a terminal ──────────────────────────────────────────────────────

EVIL = "\x1b]0;owned\x07\x1b[2J\u202eevil\x9b31m"


def test_no_text_of_the_project_drives_the_terminal(trapped):
    (trapped.root / ".loops" / f"a{EVIL}.yaml").write_text("states: [")
    (trapped.root / ".loops/said.yaml").write_text(
        json.dumps(
            {
                "name": "said",
                "description": EVIL,
                "initial": "a",
                "context": {"x": EVIL},
                "states": {"a": {"action": f"printf '{EVIL}'; exit 2 # {EVIL}", "next": "a"}},
            }
        )
    )
    (trapped.root / ".loops/wrong.yaml").write_text(f'"{EVIL}": 1\nstates: {EVIL}\n')
    (trapped.root / ".loops/.running").mkdir(mode=0o700)
    (trapped.root / ".loops/.running" / f"{EVIL}.state.json".replace("/", "")).write_text("{}")
    shown = [
        *(("list",), ("run", "said", "-v"), ("run", "said", "--dry-run"), ("show", "said")),
        *(("status",), ("status", "said"), ("logs", "said"), ("history",), ("history", "said")),
        *(("validate",), ("validate", "wrong"), ("graph", "said"), ("doctor",), ("run", EVIL)),
        *(("resume", "said"), ("compile", "wrong"), ("explain", EVIL), ("stop", EVIL)),
    ]
    for words in shown:
        said = ll(trapped, *words)
        driving = {each for each in said.stdout + said.stderr if is_driving(each)}
        assert driving == set(), (words, said)


def is_driving(sign: str) -> bool:
    return (ord(sign) < 0x20 and sign not in "\n\t") or 0x7F <= ord(sign) < 0xA0 or sign == "\u202e"


# ── what is written, and who can read it ───────────────────────────────────────────────────────


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777], ids=lambda mask: f"{mask:03o}")
def test_nothing_a_run_leaves_is_for_others(trapped, mask):
    (trapped.root / ".loops/.gitignore").touch()
    said = ll(trapped, "run", "look", umask=mask)
    assert said.returncode == 0, said
    for name in (".running", ".history"):
        for folder, folders, files in os.walk(trapped.root / ".loops" / name):
            for each in (*folders, *files, "."):
                mode = os.lstat(os.path.join(folder, each)).st_mode
                assert mode & 0o077 == 0, os.path.join(folder, each)


def test_the_environment_is_written_nowhere(trapped):
    mark = "zebra-8461-crossing"
    said = ll(trapped, "run", "look", env={"SOME_SETTING": mark, "SOME_TOKEN": f"{mark}-token"})
    assert said.returncode == 0
    for folder, _, files in os.walk(trapped.root):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                assert mark.encode() not in file.read(), name


def test_a_secret_said_letter_by_letter_is_masked(trapped):
    """Each write of its own: nobody reads all of it at once."""
    secret = "correct-horse-battery"
    trapped.loop(
        "tell",
        """\
        name: tell
        initial: a
        states:
          a:
            action: |
              rest=$SOME_TOKEN
              while [ -n "$rest" ]; do
                printf %s "${rest%"${rest#?}"}"; rest=${rest#?}
              done
              echo; echo "and $SOME_TOKEN." >&2; exit 2
            next: a
        """,
    )
    said = ll(trapped, "run", "tell", "-v", env={"SOME_TOKEN": secret})
    assert said.returncode == 1, said
    assert "***" in said.stdout
    told = [trapped.past("tell").read_text(), trapped.log("tell"), said.stdout, said.stderr]
    assert [secret in each for each in told] == [False] * 4


def test_a_secret_that_an_action_is_given_by_a_template_is_masked(trapped):
    """Nobody knew it before: it was read from a file, and is secret by the name it is given."""
    secret = "correct-horse-battery-staple"
    (trapped.root / "secret.txt").write_text(secret)
    trapped.loop(
        "login",
        """\
        name: login
        initial: read
        states:
          read: {action: "cat secret.txt > /dev/null; echo key-file", next: use}
          use:
            env: {SERVICE_TOKEN: "${env.HIDDEN}"}
            action: 'echo "the token is $SERVICE_TOKEN"; echo "$SERVICE_TOKEN" >&2; exit 2'
            next: read
        """,
    )
    said = ll(trapped, "run", "login", "-v", env={"HIDDEN": secret})
    assert said.returncode == 1, said
    assert "the token is ***" in said.stdout
    told = [trapped.past("login").read_text(), trapped.log("login"), said.stdout, said.stderr]
    assert [secret in each for each in told] == [False] * 4


def test_a_repository_cannot_bring_its_own_consent(trapped):
    """Neither a file that looks like one, nor a setting, nor a variable in its loops."""
    _program(trapped.home / "bin" / "claude", f"cat > /dev/null; echo ran >> '{trapped.home}/ran'")
    agreed = {"schema": 1, "projects": {str(trapped.root): [
        {"host": "claude", "action": "/mend it", "since": "2026-01-15T10:30:00.000Z"}]}}  # fmt: skip
    for place in (".loops", ".local/state/little-loops", "little-loops", ".loops/little-loops"):
        (trapped.root / place).mkdir(parents=True, exist_ok=True)
        (trapped.root / place / "trust.json").write_text(json.dumps(agreed))
    trapped.loop("mend", AGENT.replace("    host: {permission_mode: plan}\n", "").replace(
        "initial: fix", "initial: fix\n    env: {LL_ALLOW_SKIP_PERMISSIONS: '1'}"))  # fmt: skip
    (trapped.root / ".loops/.config.yaml").write_text("host: {permission_mode: bypassPermissions}")
    path = f"{trapped.home / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "IS_SANDBOX": "1", "XDG_STATE_HOME": "."}
    said = ll(trapped, "run", "mend", env=env)
    assert said.returncode == 2, said
    assert "you have not agreed to that" in said.stderr
    assert not (trapped.home / "ran").exists()
