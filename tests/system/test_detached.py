"""`--background`: back at once, but only when the run has really started, or with the reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.engine.test_races import holding
from tests.project import Project, chain, until


@contextmanager
def stopped_at_the_end(project: Project, *names: str) -> Iterator[None]:
    try:
        yield
    finally:
        (project.root / "go_on").touch()
        for name in names:
            project.ll("stop", name)


def test_it_has_its_claim_and_its_first_state_before_the_parent_returns(project: Project):
    project.loop("slow", holding("slow"))
    with stopped_at_the_end(project, "slow"):
        said = project.ll("run", "slow", "--background")
        assert said.returncode == 0, said.stderr
        found = re.search(r"\(pid (\d+)\)", said.stdout)
        assert found is not None
        assert project.running("slow", ".pid").read_text().splitlines()[0] == found[1]
        assert project.state("slow")["status"] == "running"
        # Whoever looks now sees it: no moment in which it is neither there nor refused.
        assert project.ll("run", "slow").returncode == 5


def test_a_start_that_is_refused_is_told_by_the_parent(project: Project):
    project.loop("slow", holding("slow"))
    project.loop("other", holding("other"))
    with stopped_at_the_end(project, "slow"):
        assert project.ll("run", "slow", "--background").returncode == 0
        said = project.ll("run", "other", "--background")
    assert said.returncode == 5
    assert said.stderr.startswith(
        "error: Cannot start 'other' - loop 'slow' is running with overlapping scope\n"
    )
    assert not project.running("other", ".state.json").exists()


def test_an_unfinished_run_is_told_by_the_parent(project: Project):
    project.loop("chain", chain(2, "test -e ok || kill -9 $PPID"))
    project.ll("run", "chain")
    said = project.ll("run", "chain", "--background")
    assert said.returncode == 2
    assert "`chain` has an unfinished run" in said.stderr


def test_every_flag_reaches_the_process_behind(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        context: {word: plain, number: 1}
        states:
          a: {action: "true", next: a}
        """,
    )
    (project.root / "src").mkdir()
    said = project.ll(
        *("run", "row", "--background", "--id", "two", "--max-iterations", "3"),
        *("--timeout", "90s", "--scope", "src", "--context", 'word=it\'s "odd" $HOME;'),
        *("--context", "number=2"),
    )
    assert said.returncode == 0, said.stderr
    ended = project.ll("wait", "row@two")
    assert ended.returncode == 3, ended.stderr
    state = project.state("row@two")
    given = {name: value for name, value in state["limits"].items() if value is not None}
    assert given == {"max_iterations": 3, "timeout": 90}
    assert state["scope"] == ["src"]
    assert state["context"]["word"] == 'it\'s "odd" $HOME;'
    assert str(state["context"]["number"]) == "2"


def test_a_resume_in_the_background(project: Project):
    project.loop("chain", chain(3, "test -e ok || exit 9"))
    assert project.ll("run", "chain").returncode == 1
    (project.root / "ok").touch()
    said = project.ll("resume", "chain", "--background")
    assert said.returncode == 0, said.stderr
    assert project.ll("wait", "chain").returncode == 0
    until(lambda: project.has_event("chain", "loop_complete"), "end")
