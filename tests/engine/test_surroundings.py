"""Odd surroundings: it works, or says what is missing."""

from __future__ import annotations

import subprocess

import pytest

from tests.project import Project, chain, numbers


def run(project: Project, environ: dict[str, str | None]) -> subprocess.CompletedProcess[str]:
    given = {**project.environ(), **environ}
    return subprocess.run(
        project.argv("run", "chain"),
        cwd=project.root,
        env={name: value for name, value in given.items() if value is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "environ",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"LANG": "nonsense", "LC_ALL": "nonsense"},
        {"HOME": None},
        {"HOME": "/nonexistent"},
        {"TERM": None},
        {"TMPDIR": "/nonexistent"},
        {"PYTHONIOENCODING": "ascii"},
        {"COLUMNS": "nonsense"},
    ],
    ids=str,
)
def test_a_run_is_none_the_worse_for_it(project: Project, environ: dict[str, str | None]):
    project.loop("chain", chain(2, "echo {n} >> trace; echo →"))
    said = run(project, environ)
    assert (said.returncode, said.stderr) == (0, ""), said
    assert numbers(project.file("trace")) == [1, 2]


@pytest.mark.parametrize("path", ["", "/nonexistent", None], ids=repr)
def test_without_a_path_a_shell_is_found_or_missed_by_name(project: Project, path: str | None):
    project.loop("chain", chain(2))
    said = run(project, {"PATH": path})
    assert said.returncode in (0, 1), said
    assert "Traceback" not in said.stderr
    if said.returncode:
        assert "`sh` was not found" in said.stdout


def test_variables_of_an_outer_run_change_nothing_but_the_depth(project: Project):
    """Left over from another run, or exported by hand."""
    project.loop("chain", chain(2, "echo {n} >> trace; echo $LL_ATTEMPT $LL_LOOP >> seen"))
    stray = {"LL_RUN_ID": "another", "LL_ATTEMPT": "7", "LL_LOOP": "another", "LL_CLAIM": "gone"}
    said = run(project, {**stray, "LL_STEP_ID": "another/9", "LL_RUN_DIR": "/nonexistent"})
    assert said.returncode == 0, said.stderr
    assert project.file("seen").split() == ["1", "chain", "1", "chain"]


def test_a_project_that_is_moved_while_it_runs_takes_its_run_along(project: Project):
    """Its files are held by their directory, not by a path."""
    elsewhere = project.root.with_name("elsewhere")
    project.loop(
        "chain", chain(2, f"echo {{n}} >> {elsewhere}-trace; mv {project.root} {elsewhere}; :")
    )
    said = project.ll("run", "chain")
    assert "Traceback" not in said.stderr
    assert said.returncode in (0, 1), said
    project.root = elsewhere
    told = project.events("chain")
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    assert [e["state"] for e in told if e["event"] == "action_complete"][:1] == ["s1"]


# ── what an action is given ────────────────────────────────────────────────────────────────────


def test_a_step_keeps_its_number_and_counts_its_attempts(project: Project):
    """So a script can see that it runs again, and make that harmless."""
    note = "echo $LL_STEP_ID $LL_ATTEMPT $LL_ITERATION >> seen"
    project.loop("chain", chain(2, f"{note}; test -e ok || kill -9 $PPID; :"))
    with project.started("run", "chain") as child:
        child.wait(timeout=60)
    (project.root / "ok").touch()
    assert project.ll("resume", "chain").returncode == 0
    first, again, second = (line.split() for line in project.file("seen").splitlines())
    assert first[0] == again[0] != second[0]
    assert [first[1:], again[1:], second[1:]] == [["1", "1"], ["2", "1"], ["1", "1"]]


def test_one_newline_at_the_end_of_an_output_is_dropped(project: Project):
    project.loop(
        "chain",
        """\
        name: chain
        initial: a
        states:
          a: {action: 'printf "two\\n\\n"', next: b}
          b: {action: 'printf "[%s]" "${captured.a.output}" > seen', next: done}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "chain").returncode == 0
    assert project.state("chain")["captured"]["a"]["output"] == "two\n"
    assert project.file("seen") == "[two\n]"


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(b"one\ntwo\n", id="lines"),
        pytest.param(b"one\n\n\n", id="newlines at the end"),
        pytest.param(b"no newline", id="an open end"),
        pytest.param(b"\n", id="a newline alone"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"caf\xe9\r\n\x00\xff", id="no text"),
        pytest.param(b"x" * 5000, id="more than is kept in a state"),
    ],
)
def test_the_file_of_an_output_has_its_bytes(project: Project, printed: bytes):
    (project.root / "printed").write_bytes(printed)
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a: {action: cat printed, capture: it, next: b}
          b: {action: 'cmp printed ${captured.it.file} && cmp printed "${prev.file}"', on_pass: done}
          done: {terminal: true}
        """,
    )
    said = project.ll("run", "row")
    assert said.returncode == 0, said.stdout
