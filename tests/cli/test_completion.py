"""Completion: what the shells themselves make of the scripts, and the words they ask for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from little_loops.cli.commands import VERBS
from little_loops.cli.completion import SHELLS, names, place_of
from little_loops.cli.completion_scripts import SCRIPTS
from little_loops.cli.completion_words import candidates
from little_loops.cli.options import args_of
from tests.project import DEADLINE_S, Project
from tests.stand_ins import StandIns, lay_out, tree

LOOP = "initial: one\nstates: {one: {action: 'true', next: two}, two: {terminal: true}}\n"

BASH = """\
COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
. "$SCRIPT"
COMP_LINE=$LINE
COMP_POINT=${#LINE}
_ll_loop
printf '%s\\n' "${COMPREPLY[@]}"
"""
# What completes on a screen only is told instead of shown.
ZSH = """\
compdef() { : }
_describe() { print -l -- ${(P)2} }
_files() { : }
. "$SCRIPT"
words=(${(s: :)LINE})
[[ $LINE == *' ' ]] && words+=('')
CURRENT=$#words
_ll-loop
"""
FISH = """\
source $SCRIPT
complete -C $LINE
"""
PROGRAMS = {"bash": ["--norc", "-c", BASH], "zsh": ["-f", "-c", ZSH], "fish": ["-c", FISH]}


@pytest.fixture
def full(project: Project) -> Project:
    """A project with loops, a run that is alive, one that is paused and one of the past."""
    run = json.dumps({"loop": {"states": {"one": {}, "two": {}, "$(rm -rf x)": {}}}})
    loops = {
        "fix-types.yaml": LOOP,
        "other.yml": LOOP,
        ".config.yaml": "",
        "not a name.yaml": LOOP,
        ".running/fix-types@2.pid": "1\n",
        ".running/fix-types@2.state.json": "{}",
        ".running/other.state.json": "{}",
        ".running/other.d/run.json": run,
        ".running/`touch x`.pid": "1\n",
        ".history/gone/2026-01-15T10-30-00.d/run.json": run,
    }
    lay_out(project.root / ".loops", loops)
    return project


@pytest.mark.parametrize(
    ("kind", "argument", "expected"),
    [
        pytest.param("loops", "", "fix-types other", id="loops"),
        pytest.param("live", "", "fix-types@2", id="alive"),
        pytest.param("runs", "", "fix-types@2 gone other", id="runs"),
        pytest.param("all", "", "fix-types fix-types@2 gone other", id="all"),
        pytest.param("states", "other", "one two", id="states of a run"),
        pytest.param("states", "gone", "one two", id="states of a past run"),
        pytest.param("states", "fix-types", "", id="never ran"),
        pytest.param("states", "../other", "", id="no name"),
        pytest.param("what", "", "", id="unknown"),
    ],
)
def test_names(full: Project, kind, argument, expected):
    assert sorted(set(names(kind, str(full.root), argument))) == expected.split()


def test_names_are_answered_without_yaml_or_options(full: Project):
    before = tree(full.root)
    done = full.ll("completion", "words", "--", "run", "", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert (done.returncode, done.stdout) == (0, "fix-types\nother\n")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert loaded & {"yaml", "argparse", "json", "subprocess", "little_loops.authoring"} == set()
    assert tree(full.root) == before


OFFERED = [
    pytest.param("ll-loop st", "stop status steps", id="verbs"),
    pytest.param("ll-loop -q st", "stop status steps", id="verbs after an option"),
    pytest.param("ll-loop --v", "--version", id="options before a verb"),
    pytest.param("ll-loop fi", "fix-types", id="a loop instead of a verb"),
    pytest.param("ll-loop l", "list logs ls", id="aliases"),
    pytest.param("ll-loop run ", "fix-types other", id="loops"),
    pytest.param("ll-loop run --queue o", "other", id="loops after a flag"),
    pytest.param("ll-loop stop ", "fix-types@2", id="runs that are alive"),
    pytest.param("ll-loop resume ", "fix-types@2 gone other", id="runs"),
    pytest.param("ll-loop status o", "other", id="loops and runs"),
    pytest.param("ll-loop resume --queue other --from ", "one two", id="states"),
    pytest.param("ll-loop logs other --state t", "two", id="states of logs"),
    pytest.param("ll-loop run --dr", "--dry-run", id="options"),
    pytest.param("ll-loop ps --r", "--running", id="options of an alias"),
    pytest.param("ll-loop fix-types --dr", "--dry-run", id="options of a loop"),
    pytest.param("ll-loop graph --format m", "mermaid", id="words to choose from"),
    pytest.param("ll-loop completion z", "zsh", id="arguments to choose from"),
    pytest.param("ll-loop help exi", "exit-codes", id="topics"),
    pytest.param("ll-loop help expl", "explain", id="pages"),
    pytest.param("ll-loop schema ", "", id="no arguments"),
    pytest.param("ll-loop run --timeout ", "", id="a value nobody can guess"),
]


@pytest.mark.parametrize(("line", "expected"), OFFERED)
def test_what_may_come_next(full: Project, line, expected):
    """What every shell gets, whether it is installed here or not."""
    words = line.split(" ")[1:]
    found = [word for word, _ in candidates(words, str(full.root))]
    assert sorted(found) == sorted(expected.split())


def test_every_candidate_has_one_line_and_verbs_say_what_they_do(full: Project):
    for words in ([], [""], ["run", "-"], ["help", ""], *([verb, "--"] for verb in VERBS)):
        for word, text in candidates(words, str(full.root)):
            assert word.split() == [word]
            assert not {"\t", "\n"} & set(text)
    assert ("stop", VERBS["stop"].summary) in list(candidates(["sto"], str(full.root)))
    assert ("--dry-run", "run nothing; show what would happen") in list(
        candidates(["run", "--dry"], str(full.root))
    )


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("resume", "broken", "--from", ""), id="a damaged run"),
        pytest.param(("resume", "nothing", "--from", ""), id="no run"),
        pytest.param(("run", "--timeout", "9"), id="nothing to offer"),
    ],
)
def test_a_tab_prints_no_error(project: Project, words):
    lay_out(project.root / ".loops", {".running/broken.d/run.json": "["})
    done = project.ll("completion", "words", "--", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ── the scripts, in their shells ───────────────────────────────────────────────────────────────


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "bin")


def completed(shell: str, project: Project, stand_ins: StandIns, line: str) -> set[str]:
    """What a shell offers at the end of a line."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = project.home / f"script.{shell}"
    path.write_text(SCRIPTS[shell])
    done = subprocess.run(
        [program, *PROGRAMS[shell]],
        cwd=project.root,
        env=project.environ(**stand_ins.environ, SCRIPT=str(path), LINE=line),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    # zsh and fish have descriptions behind the words.
    words = {word.split("\t")[0].split(":")[0] for word in done.stdout.splitlines() if word}
    last = line.rpartition(" ")[2]
    return {word for word in words if word.startswith(last)} if shell == "zsh" else words


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "expected"), OFFERED)
def test_what_a_shell_offers(full: Project, stand_ins: StandIns, shell, line, expected):
    assert completed(shell, full, stand_ins, line) == set(expected.split())


def test_bash_replaces_only_what_follows_its_last_break(full: Project, stand_ins: StandIns):
    assert completed("bash", full, stand_ins, "ll-loop stop fix-types@") == {"2"}


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_a_file_is_called_is_run(full: Project, stand_ins: StandIns, shell):
    completed(shell, full, stand_ins, "ll-loop stop ")
    completed(shell, full, stand_ins, "ll-loop resume other --from ")
    assert not (full.root / "x").exists()


# ── what they are made of ──────────────────────────────────────────────────────────────────────


def test_names_are_completed_for_every_verb_that_takes_one():
    operands = {"loop", "loops", "files"}
    takes = {verb for verb in VERBS if operands & args_of(verb).table.keys()}
    assert {verb for verb, entry in VERBS.items() if entry.names} == takes


# ── installing ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_installed_where_the_shell_looks(project: Project, shell):
    path = Path(place_of(shell, {"HOME": str(project.home)}))
    for _ in range(2):  # the second time over our own
        done = project.ll("completion", shell, "--install")
        assert (done.returncode, done.stdout) == (0, f"wrote {path}\n")
    assert path.read_text() == SCRIPTS[shell]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_places_of_their_own_are_honoured():
    environ = {"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"}
    assert [place_of(shell, environ) for shell in SHELLS] == [
        "/d/bash-completion/completions/ll-loop",
        "/d/zsh/site-functions/_ll-loop",
        "/c/fish/completions/ll-loop.fish",
    ]


def test_what_somebody_else_put_there_stays(project: Project):
    path = Path(place_of("fish", {"HOME": str(project.home)}))
    lay_out(path.parent, {path.name: "mine"})
    done = project.ll("completion", "fish", "--install")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: `{path}` was not written by ll-loop\n   = help: move it out of the way, then install it again\n",
    )
    assert path.read_text() == "mine"


def test_zsh_is_told_what_else_it_needs(project: Project):
    done = project.ll("completion", "zsh", "--install")
    folder = project.home / ".local" / "share" / "zsh" / "site-functions"
    assert done.stderr == (
        f"next: put this before `compinit` in your .zshrc:  fpath=({folder} $fpath)\n"
    )
