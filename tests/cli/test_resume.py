"""`ll-loop resume`: which run is continued."""

from __future__ import annotations

from tests.project import Project

GATE = "initial: a\nstates:\n  a: {action: kill -TERM $PPID; sleep 5, next: b}\n  b: {terminal: true}\n"


def test_without_a_name_it_is_the_only_unfinished_run(project: Project) -> None:
    none = project.ll("resume")
    assert (none.returncode, none.stderr) == (
        2,
        "error: there is no unfinished run here\n   = help: `ll-loop run LOOP` starts a new run\n",
    )
    for name in ("one", "two"):
        project.loop(name, GATE)
    project.ll("run", "one")
    assert "[1/50] a" in project.ll("resume").stdout
    project.ll("run", "two")
    both = project.ll("resume")
    assert (both.returncode, both.stderr) == (
        2,
        "error: there are 2 unfinished runs\n   = help: name one of `one`, `two`\n",
    )
