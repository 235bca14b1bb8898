"""`ll-loop attach`: a run is watched as if it ran here, and left alone."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pexpect
import pytest

from little_loops.cli.main import main
from tests.cli.paper import ExcerptWidth
from tests.cli.runs import QUICK, SLOW, crashed, damaged, ll, ran
from tests.cli.runs import under_way as running
from tests.project import Project, until

LOOP = """\
name: slow
initial: check
states:
  check: {action: "echo looking; exit 1", on_pass: done, on_fail: work}
  work:
    action: "echo started; while [ ! -e go ]; do sleep 0.02; done; echo finished"
    next: done
  done: {terminal: true}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "LL_ASCII", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\ds|\d+s", "T", text)


# ── not on a terminal ──────────────────────────────────────────────────────────────────────────


class Attached:
    """`attach` in a thread, with what it has printed so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
        self._out, self._err = io.BytesIO(), io.StringIO()
        stream = io.TextIOWrapper(self._out, encoding="utf-8", write_through=True)
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", self._err)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._attach, args=(words,))
        self._thread.start()

    def _attach(self, words: tuple[str, ...]) -> None:
        self.code = main(["attach", *words])

    @property
    def said(self) -> str:
        return self._out.getvalue().decode()

    def end(self) -> tuple[int | None, str, str]:
        self._thread.join()
        return self.code, timeless(self.said), self._err.getvalue()


WORK = SLOW["states"]["work"]["action"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(
            (),
            f"""\
            [1/50] work → running {WORK}...
                   ✓ finished (exit 0)
                   → done

            Loop completed: done (1 iteration, T)
            """,
            id="its lines",
        ),
        pytest.param(
            ("-v",),
            f"""\
            [1/50] work → running {WORK}...
                   | started
                   | finished
                   ✓ finished (exit 0)
                   → done

            Loop completed: done (1 iteration, T)
            """,
            id="with what actions print",
        ),
        pytest.param(("-q",), "\nLoop completed: done (1 iteration, T)\n", id="its last line"),
        pytest.param(("-qq",), "", id="nothing"),
    ],
)
def test_a_run_is_watched_to_its_end(words, text, here, monkeypatch):
    with running(here):
        attached = Attached(monkeypatch, "slow", *words)
        if "-q" not in words and "-qq" not in words:
            until(lambda: "work" in attached.said, "first line")
    assert attached.end() == (0, dedent(text), "")


def test_it_exits_as_the_run_does(here, monkeypatch):
    failing = SLOW | {"states": SLOW["states"] | {"done": {"terminal": True, "outcome": "failure"}}}
    with running(here, failing):
        attached = Attached(monkeypatch, "slow")
        until(lambda: "work" in attached.said, "first line")
    code, said, hint = attached.end()
    assert (code, hint) == (1, "next: ll-loop logs slow\n")
    assert said.splitlines()[-1] == "Loop failed: ended in state 'done' (1 iteration, T)"


def test_for_programs(here, monkeypatch):
    with running(here):
        attached = Attached(monkeypatch, "slow", "--json")
        until(lambda: "action_start" in attached.said, "first event")
    code, said, err = attached.end()
    events = [json.loads(line)["event"] for line in said.splitlines()]
    assert (code, err) == (0, "")
    assert events == ["state_enter", "action_start", "action_complete", "transition"] + [
        *("state_enter", "loop_complete"),
    ]


# ── what is not running ────────────────────────────────────────────────────────────────────────


def test_a_run_that_has_ended_is_shown_by_its_end(here, capsys):
    ran(here, QUICK)
    said = ll(capsys, "attach", "quick")
    assert (said.code, timeless(said.out), timeless(said.err)) == (
        0,
        "Loop completed: done (1 iteration, T)\n",
        "quick is not running: completed T ago\n",
    )
    assert ll(capsys, "attach", "quick", "--json").json["event"] == "loop_complete"


def test_a_run_that_crashed(here, capsys):
    crashed(here)
    said = ll(capsys, "attach", "crashed")
    assert (said.code, said.out, timeless(said.err)) == (
        1,
        "Loop interrupted: crashed in state 'work'\n",
        "crashed is not running: interrupted (crashed) T ago\nnext: ll-loop resume crashed\n",
    )


def test_a_damaged_run(here, capsys):
    damaged(here)
    said = ll(capsys, "attach", "damaged")
    assert said.code == 1
    assert said.out.startswith("Loop damaged: `")


def test_what_never_ran(here, capsys):
    (here / ".loops/young.yaml").write_text("initial: a\nstates: {a: {terminal: true}}\n")
    said = ll(capsys, "attach", "young")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: `young` has not run yet\n")


# ── on a terminal ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    project.loop("slow", LOOP)
    yield project
    project.end_actions()


class Screen:
    def __init__(self, project: Project, *words: str, width: int = 80, **env: str) -> None:
        argv = project.argv(*words)
        self._written = io.StringIO()
        self._width = width
        self.child = pexpect.spawn(
            argv[0],
            argv[1:],
            cwd=str(project.root),
            env=project.environ(TERM="xterm", LANG="C.UTF-8", PYTHONUTF8="1", **env),
            encoding="utf-8",
            dimensions=(24, width),
            timeout=40,
        )
        self.child.logfile_read = self._written

    def end(self) -> int | None:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus

    @property
    def written(self) -> str:
        return self._written.getvalue()

    @property
    def left(self) -> str:
        """What stands on the terminal after all of it."""
        return timeless(ExcerptWidth.showing(self.written, self._width).text)


def test_ctrl_c_detaches_and_the_run_goes_on(project):
    with project.started("run", "slow") as run:
        until(lambda: project.has_event("slow", "action_start", state="work"), "action under way")
        screen = Screen(project, "attach", "slow", NO_COLOR="1")
        try:
            screen.child.expect("started")
            screen.child.expect("ctrl-c detaches; the run continues")
            screen.child.sendcontrol("c")
            assert screen.end() == 0
        finally:
            screen.child.close(force=True)
        assert run.poll() is None
        (project.root / "go").touch()
        assert run.wait() == 0
    action = "echo started; while [ ! -e go ]; do sleep 0.02; done; echo finished"
    told = f"[1/50] work → running {action}..."
    assert " ".join(screen.left.split()) == (
        f"slow · fsm · up to 50 iterations {told} detached; slow keeps running"
        " next: ll-loop attach slow or ll-loop stop slow"
    )
    assert "\x1b[3" not in screen.written


def test_the_end_of_a_run_is_seen_on_a_narrow_terminal(project):
    with project.started("run", "slow") as run:
        until(lambda: project.has_event("slow", "action_start", state="work"), "action under way")
        screen = Screen(project, "attach", "slow", width=50)
        try:
            screen.child.expect("ctrl-c detaches")
            (project.root / "go").touch()
            assert screen.end() == 0
        finally:
            screen.child.close(force=True)
        assert run.wait() == 0
    assert screen.left.endswith("Loop completed: done (1 iteration, T)")
    assert "\x1b[32mLoop completed" in screen.written
