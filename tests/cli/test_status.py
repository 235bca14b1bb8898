"""`ll-loop status`: where a run is, in words and for programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.cli.status import overview
from little_loops.errors import WaitStopped
from little_loops.fsm.state import Limits, Spending, WaitFor
from little_loops.fsm.timestamps import timestamp
from little_loops.runs.claims import Claim, claim
from little_loops.runs.layout import LIVE
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail
from little_loops.terminal.status_page import document, page
from little_loops.terminal.tables import ASCII, Style
from tests.cli.runs import (
    COUNTDOWN,
    DAY,
    HOUR,
    MINUTE,
    NOW,
    QUICK,
    SECOND,
    SLOW,
    crashed,
    damaged,
    held,
    ll,
    ran,
    record,
    saved,
    state,
    told,
    under_way,
)

PLAIN = Style()
GUARD = {
    "name": "quality-guard",
    "initial": "check_tests",
    "states": {
        "check_tests": {"action": "pytest", "on_pass": "check_lint", "on_fail": "fix_lint"},
        "check_lint": {"action": "ruff check", "on_pass": "done", "on_fail": "fix_lint"},
        "fix_lint": {"action": "/ll:check_code fix", "next": "check_tests"},
        "done": {"terminal": True},
    },
}
GUARD_EVENTS = [
    record("loop_start", 1),
    record("state_enter", 2, state="check_tests", iteration=3),
    record("action_start", 3, action="pytest", action_type="shell", state="check_tests"),
    record("action_complete", 4, state="check_tests", exit_code=0),
    record("transition", 5, NOW, **{"from": "check_tests"}, to="check_lint", reason="on_pass"),
    record("state_enter", 6, state="check_lint", iteration=3),
    record("action_start", 7, action="ruff check", action_type="shell", state="check_lint"),
    record("action_complete", 8, state="check_lint", exit_code=1),
    record("transition", 9, NOW, **{"from": "check_lint"}, to="fix_lint", reason="on_fail"),
    record("state_enter", 10, NOW - 130 * SECOND, state="fix_lint", iteration=3),
    record(
        "action_start",
        11,
        NOW - 130 * SECOND,
        action="/ll:check_code fix",
        action_type="slash",
        state="fix_lint",
    ),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "LL_ASCII", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quality_guard(root: Path) -> Claim:
    """A run under way, as far as its files and its lock tell."""
    claim = held(root, "quality-guard")
    run = state(
        loop="quality-guard",
        current_state="fix_lint",
        iteration=3,
        costs={"fix_lint": Spending(212_345, 0.61, 7)},
        phase="running",
    )
    files = saved(root, "quality-guard", run, GUARD_EVENTS, GUARD)
    live = Path(files.data, LIVE["stdout"])
    live.write_text("looking\n")
    os.utime(live, (0, (NOW - 4 * SECOND) / 1000))
    return claim


def detail(root: Path, name: str) -> RunDetail:
    found = Runs(str(root)).detail(name)
    assert found is not None
    return found


def shown(root: Path, name: str, style: Style = PLAIN, verbose: int = 0) -> str:
    lines = page(Runs(str(root)), detail(root, name), style, NOW, verbose)
    return "\n".join(lines).replace(f"pid {os.getpid()}", "pid 4242") + "\n"


# ── one run ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_under_way(here):
    with quality_guard(here):
        assert shown(here, "quality-guard") == dedent("""\
            quality-guard  ● running  pid 4242  14m 03s
              state      fix_lint (2m 10s)     iteration 3 of 50
              action     claude: /ll:check_code fix    last output 4s ago
              path       check_tests ✓  check_lint ✗  fix_lint …
              cost       $0.61 · 212k tokens
              scope      .
              log        .loops/.running/quality-guard.log
            """)


def test_a_run_under_way_on_a_narrow_terminal_without_our_signs(here):
    with quality_guard(here):
        assert shown(here, "quality-guard", Style(ASCII, colour=False, width=50)) == dedent("""\
            quality-guard  * running  pid 4242  14m 03s
              state      fix_lint (2m 10s)
                         iteration 3 of 50
              action     claude: /ll:check_code fix
                         last output 4s ago
              path       check_lint FAIL  fix_lint ...
              cost       $0.61 - 212k tokens
              scope      .
              log        .loops/.running/quality-guard.log
            """)


def test_a_path_that_the_terminal_would_break_is_a_command(here):
    with quality_guard(here):
        last = shown(here, "quality-guard", Style(width=40)).splitlines()[-1]
    assert last == "  log        ll-loop logs quality-guard"


def test_colours_repeat_what_signs_say(here):
    with quality_guard(here):
        first = shown(here, "quality-guard", Style(colour=True)).splitlines()[0]
    assert first == "\x1b[1mquality-guard\x1b[0m  \x1b[36m●\x1b[0m running  pid 4242  14m 03s"


ENDINGS = {
    "completed": (
        {"status": "completed", "reason": "terminal", "current_state": "done", "iteration": 3},
        (
            "fix-types  ✓ completed (done)  14m 03s  2h ago\n"
            "  state      done                  iteration 3 of 50\n"
        ),
    ),
    "limit": (
        {
            "status": "failed",
            "reason": "max_iterations",
            "error": "20 iterations, still in `apply`",
            "iteration": 20,
            "limits": Limits(max_iterations=20),
        },
        (
            "fix-types  ! limit (iterations)  14m 03s  2h ago\n"
            "  state      apply                 iteration 20 of 20\n"
            "  error      20 iterations, still in `apply`\n"
        ),
    ),
    "error": (
        {"status": "failed", "reason": "auth", "error": "log in:\n\x1b[31mclaude /login"},
        (
            "fix-types  ✗ failed (apply: auth)  14m 03s  2h ago\n"
            "  state      apply                 iteration 1 of 50\n"
            "  error      log in: claude /login\n"
        ),
    ),
    "failure state": (
        {
            "status": "failed",
            "reason": "terminal",
            "error": "terminal",
            "current_state": "gave_up",
            "cycle": 3,
        },
        (
            "fix-types  ✗ failed (gave_up)  14m 03s  2h ago\n"
            "  state      gave_up               iteration 1 of 50, cycle 3\n"
        ),
    ),
    "stopped": (
        {"status": "stopped", "reason": "stop_signal", "error": "that will do"},
        (
            "fix-types  – stopped (apply)  14m 03s  2h ago\n"
            "  state      apply                 iteration 1 of 50\n"
            "  message    that will do\n"
        ),
    ),
    "review": (
        {"status": "needs_review", "reason": "review", "current_state": "gate"},
        (
            "fix-types  ! needs review (gate)  14m 03s  2h ago\n"
            "  state      gate                  iteration 1 of 50\n"
        ),
    ),
    "handoff": (
        {"status": "awaiting_continuation", "reason": "handoff"},
        (
            "fix-types  ! paused (apply)  14m 03s  2h ago\n"
            "  state      apply                 iteration 1 of 50\n"
        ),
    ),
    "interrupted": (
        {"status": "interrupted", "reason": "signal"},
        (
            "fix-types  ! interrupted (apply)  14m 03s  2h ago\n"
            "  state      apply                 iteration 1 of 50\n"
        ),
    ),
    "crash": (
        {"status": "running"},
        (
            "fix-types  ! interrupted (crashed)  14m 03s  2h ago\n"
            "  state      apply                 iteration 1 of 50\n"
        ),
    ),
}
LAST = "  scope      .\n  log        .loops/.running/fix-types.log\n"


@pytest.mark.parametrize(("fields", "text"), ENDINGS.values(), ids=ENDINGS)
def test_a_run_that_has_ended(fields, text, here):
    saved(here, "fix-types", state(updated_at=timestamp(NOW - 2 * HOUR), **fields))
    assert shown(here, "fix-types") == text + LAST


def test_when_it_ended_by_the_clock(here, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    saved(here, "fix-types", state(status="interrupted", reason="signal"))
    first = shown(here, "fix-types", verbose=1).splitlines()[0]
    assert first == "fix-types  ! interrupted (apply)  14m 03s  2026-11-15 12:00:00"


def test_the_continuation_is_shown_in_one_line_and_not_all_of_it(here):
    text = "Session ended.\n  Remaining:\tsrc/\x1b[2J" + "x" * 300
    run = state(status="awaiting_continuation", reason="handoff", continuation_prompt=text)
    saved(here, "fix-types", run)
    flat = "Session ended. Remaining: src/\x1b[2J" + "x" * 300
    expected = f"Continuation context: {flat[:200]}…".replace("\x1b", "\\x1b")
    assert shown(here, "fix-types").splitlines()[-1] == expected


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        pytest.param(
            WaitFor("host", until_wall_ms=NOW + 2 * HOUR + 1, why="usage limit reached"),
            "2h more: usage limit reached",
            id="an agent's limit",
        ),
        pytest.param(
            WaitFor("maintain", until_ran_ms=15 * MINUTE),
            "57s more: before the next cycle",
            id="maintain",
        ),
        pytest.param(
            WaitFor("backoff", until_ran_ms=0), "0s more: before the next iteration", id="over"
        ),
    ],
)
def test_what_a_run_waits_for(wait, text, here):
    with held(here, "fix-types"):
        saved(here, "fix-types", state(wait=wait))
        assert f"\n  waiting    {text}\n" in shown(here, "fix-types")


@pytest.mark.parametrize(
    ("host", "lead"),
    [
        pytest.param({}, "claude", id="default"),
        pytest.param({"host": {"name": "codex"}}, "codex", id="the loop's"),
    ],
)
def test_which_agent_runs_it(host, lead, here):
    with held(here, "fix-types"):
        records = told(
            ("state_enter", {"state": "apply", "iteration": 1}),
            ("action_start", {"action": "/x", "action_type": "slash", "state": "apply"}),
        )
        saved(here, "fix-types", state(), records, GUARD | host)
        assert f"  action     {lead}: /x" in shown(here, "fix-types")


@pytest.mark.parametrize(
    ("fields", "action", "shows"),
    [
        (
            {"for_each": ["a"], "action": "Fix it", "action_type": "prompt"},
            "Fix it",
            "each: Fix it",
        ),
        ({"branches": {"a": {"action": "x"}, "b": {"action": "y"}}}, "a, b", "a, b"),
        ({"loop": "kid"}, "kid", "loop kid"),
    ],
    ids=["items", "named branches", "a loop"],
)
def test_what_children_do(fields, action, shows, here):
    definition = {
        "initial": "apply",
        "states": {"apply": {**fields, "next": "done"}, "done": {"terminal": True}},
    }
    with held(here, "fix-types"):
        records = told(
            ("state_enter", {"state": "apply", "iteration": 1}),
            ("action_start", {"action": action, "action_type": "loop", "state": "apply"}),
        )
        saved(here, "fix-types", state(), records, {"name": "fix-types", **definition})
        assert f"\n  action     {shows}\n" in shown(here, "fix-types")


def test_a_word_of_ones_own_is_shown_as_it_is(here):
    records = told(
        ("state_enter", {"state": "settle", "iteration": 1}),
        ("condition_eval", {"type": "verdict", "result": "partial", "reason": ""}),
    )
    saved(here, "fix-types", state(status="interrupted", reason="signal"), records)
    assert "\n  path       settle (partial)\n" in shown(here, "fix-types")


# ── the session that goes on ───────────────────────────────────────────────────────────────────


def test_the_session_that_was_started_to_go_on(here):
    files = saved(here, "fix-types", state(status="awaiting_continuation", reason="handoff"))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        Path(files.spawn).write_text(f'{{"pid": {child.pid}}}')
        assert f"\n  session    pid {child.pid} is expected to continue it\n" in shown(
            here, "fix-types"
        )
        assert document(Runs(str(here)), detail(here, "fix-types"), NOW)["spawn"] == {
            "pid": child.pid,
            "alive": True,
        }
    finally:
        child.communicate()
    lines = shown(here, "fix-types")
    assert f"\n  session    ended without a resume (pid {child.pid})\n" in lines


@pytest.mark.parametrize("note", ['{"pid": 1, "created": 0.5}', "{}", "[]", "{", '{"pid": "1"}'])
def test_a_note_about_a_session_that_does_not_hold(note, here):
    files = saved(here, "fix-types", state(status="awaiting_continuation", reason="handoff"))
    Path(files.spawn).write_text(note)
    assert "is to go on with it" not in shown(here, "fix-types")


# ── all runs ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def several(here):
    """One under way, one that needs a look, one whose process is gone, one with a broken file."""
    with quality_guard(here):
        at = timestamp(NOW - DAY)
        saved(here, "safe-deploy", state(status="needs_review", reason="review", updated_at=at))
        saved(here, "lost", state(loop="lost", updated_at=timestamp(NOW - 3 * MINUTE)))
        files = saved(here, "broken", state())
        Path(files.state).write_text("{")
        yield here


def table_of(root: Path, style: Style) -> str:
    text = "\n".join(overview(Runs(str(root)).list(), style, NOW)) + "\n"
    return re.sub(rf"{os.getpid()}", "4242", text)


def test_all_runs_whatever_is_wrong_with_one_of_them(several):
    assert table_of(several, Style(width=80)) == dedent("""\
        NAME           STATUS                          STATE     ITER  COST   PID
        broken         ✗ damaged                       –         –     –      –
        lost           ! interrupted (crashed) 3m ago  apply     1     –      –
        quality-guard  ● running 14m                   fix_lint  3     $0.61  4242
        safe-deploy    ! needs review (for 24h)        apply     1     –      –
        """)


def test_all_runs_on_a_narrow_terminal_without_our_signs(several):
    assert table_of(several, Style(ASCII, width=50)) == dedent("""\
        NAME           STATUS                     STATE
        broken         FAIL damaged               -
        lost           warn interrupted (cras...  apply
        quality-guard  * running 14m              fix_lint
        safe-deploy    warn needs review (for...  apply
        """)


def test_a_damaged_run_is_explained_where_there_is_room(several, capsys):
    said = ll(capsys, "status")
    path = f"{several}/.loops/.running/broken.state.json"
    assert said.code == 0
    assert said.err == f"warning: `{path}` is damaged: not valid JSON at line 1, column 2\n"
    assert "broken         ✗ damaged" in said.out
    said = ll(capsys, "status", "broken")
    assert (said.code, said.out, said.err) == (
        0,
        (
            f"broken  ✗ damaged\n  damage     `{path}` is damaged: not valid JSON at line 1, column 2\n"
            "  log        .loops/.running/broken.log\n"
        ),
        "next: ll-loop resume broken\n",
    )


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"iteration": "three"}, id="a string for a number"),
        pytest.param({"updated_at": "yesterday"}, id="no time"),
        pytest.param({"costs": []}, id="a list for an object"),
        pytest.param({"scope": None}, id="nothing for a list"),
        pytest.param({"costs": {"a": {"tokens": "1"}}}, id="a string in a receipt"),
        pytest.param({"limits": None}, id="no limits"),
    ],
)
def test_a_snapshot_that_is_json_and_no_run(spoil, here, capsys):
    files = saved(here, "odd", state())
    kept = json.loads(Path(files.state).read_text())
    Path(files.state).write_text(json.dumps(kept | spoil))
    said = ll(capsys, "status", "--json")
    [one] = said.json["runs"]
    assert (said.code, one["status"]) == (0, "damaged")
    assert one["damage"].startswith(f"`{files.state}` is damaged: ")


def test_a_run_that_has_begun_and_saved_nothing_yet(here, capsys):
    with held(here, "young"):
        said = ll(capsys, "status", "young")
        assert (
            said.out
            == f"young  ● running  pid {os.getpid()}\n  log        .loops/.running/young.log\n"
        )
        assert ll(capsys, "status").code == 0


def test_a_run_in_the_queue(here, capsys):
    crashed(here, "second")
    ready, stop = threading.Event(), Stopper()
    with held(here, "first", ["src"]):
        waiting = threading.Thread(target=queue_up, args=(here, "second", ready, stop))
        waiting.start()
        try:
            ready.wait()
            assert ll(capsys, "status", "second").out == f"second  … queued  pid {os.getpid()}\n"
            rows = [line.split()[:2] for line in ll(capsys, "list", "--running").out.splitlines()]
            assert rows == [["NAME", "STATUS"], ["first", "●"], ["second", "…"]]
            said = ll(capsys, "status", "second", "--exit-code", "--json")
            assert (said.code, said.json["status"]) == (5, "queued")
            # Nothing of the run it had before.
            assert (said.json["path"], said.json["last_output_at"]) == ([], None)
            said = ll(capsys, "wait", "second", "--timeout", "0.01")
            assert said == (3, "", "second is still queued\n")
        finally:
            stop.asked.set()
            waiting.join()


class Stopper:
    def __init__(self) -> None:
        self.asked = threading.Event()

    def wait(self, seconds: float | None) -> bool:
        return self.asked.wait(seconds)


def queue_up(root: Path, name: str, ready: threading.Event, stop: Stopper) -> None:
    with suppress(WaitStopped):
        claim(
            str(root),
            name,
            (str(root / "src"),),
            "r2",
            loop=name,
            started_at=timestamp(NOW),
            queue=True,
            say=lambda _: ready.set(),
            stop=stop,
        )


# ── the command ────────────────────────────────────────────────────────────────────────────────


def test_a_real_run_from_its_start_to_the_history(here, capsys):
    with under_way(here):
        said = ll(capsys, "status", "slow")
        assert said.code == 0
        assert re.sub(r"\d+\.\ds|\d+s|pid \d+", "T", said.out) == dedent("""\
            slow  ● running  T  T
              state      work (T)           iteration 1 of 50
              action     $ echo started; while [ ! -e go ]; do sleep 0.01; done; echo finished    last output T ago
              path       check ✗  work …
              scope      src
              log        .loops/.running/slow.log
            """)
        assert said.err == "next: ll-loop attach slow   ·   ll-loop stop slow\n"
        assert ll(capsys, "status", "slow", "--exit-code").code == 5
    said = ll(capsys, "status", "slow")
    assert said.out.splitlines()[0].startswith("slow  ✓ completed (done)")
    assert said.err == ""
    assert ll(capsys, "status").out == "no running or unfinished runs\n"
    assert ll(capsys, "status", "slow", "-q").err == ""
    assert ll(capsys, "status", "slow", "-qq").out == ""


def test_a_crash_is_called_a_crash(here, capsys):
    crashed(here)
    said = ll(capsys, "status", "crashed", "--exit-code")
    assert said.code == 1
    assert said.out.startswith("crashed  ! interrupted (crashed)  ")
    assert said.err == "next: ll-loop resume crashed\n"
    document = ll(capsys, "status", "crashed", "--json").json
    assert (document["status"], document["reason"]) == ("interrupted", "crash")


def test_a_damaged_run_does_not_hide_an_older_one(here, capsys):
    ran(here, SLOW | {"name": "damaged", "initial": "done"})
    damaged(here)
    said = ll(capsys, "status", "damaged", "--json", "--exit-code")
    assert (said.code, said.json["status"], said.json["archived_as"]) == (1, "damaged", None)


def test_for_programs(here, capsys):
    ran(here, COUNTDOWN)
    document = ll(capsys, "status", "countdown", "--json").json
    stem = document.pop("archived_as")
    assert document.pop("log") == f"{here}/.loops/.history/countdown/{stem}.log"
    for name in ("run", "started_at", "updated_at", "last_output_at"):
        assert document.pop(name).startswith("20")
    assert document.pop("duration_ms") >= 0
    assert document == {
        "schema": 1,
        "forked_from": None,
        "forks": [],
        "worktree": None,
        "merges": [],
        "name": "countdown",
        "loop": "countdown",
        "no_file": False,
        "status": "completed",
        "reason": "terminal",
        "pid": None,
        "damage": None,
        "state": "done",
        "iteration": 4,
        "cycle": 1,
        "error": None,
        "cost_usd": 0.0,
        "tokens": 0,
        "scope": ["."],
        "continuation_prompt": None,
        "gate": None,
        "max_iterations": 50,
        "action": None,
        "action_type": None,
        "path": [
            {"state": "measure", "verdict": "progress"},
            {"state": "apply", "verdict": "pass"},
            {"state": "measure", "verdict": "progress"},
            {"state": "apply", "verdict": "pass"},
            {"state": "measure", "verdict": "target"},
            {"state": "done", "verdict": None},
        ],
        "wait": None,
        "best": None,
        "spawn": None,
    }


@pytest.mark.parametrize(
    ("status", "reason", "record", "code"),
    [
        pytest.param("completed", "terminal", {}, 0, id="completed"),
        pytest.param("failed", "error", {}, 1, id="failed"),
        pytest.param("failed", "max_iterations", {}, 3, id="limit"),
        pytest.param("needs_review", "review", {}, 4, id="review"),
        pytest.param("interrupted", "signal", {"signal": 2}, 130, id="ctrl-c"),
        pytest.param("interrupted", "signal", {}, 143, id="its last event is lost"),
    ],
)
def test_the_exit_code_of_a_run(status, reason, record, code, here, capsys):
    records = told(("loop_start", {}), ("loop_interrupted", record))
    saved(here, "fix-types", state(status=status, reason=reason), records)
    assert ll(capsys, "status", "fix-types", "--exit-code").code == code
    assert ll(capsys, "status", "fix-types").code == 0


def test_an_end_that_only_the_log_knows(here, capsys):
    """The process was killed between its last event and its last snapshot."""
    files = saved(here, "fix-types", state())
    end = record(
        "loop_error",
        2,
        status="failed",
        reason="error",
        final_state="apply",
        iterations=1,
        duration_ms=5,
    )
    with open(files.events, "a") as log:
        log.write(json.dumps(end) + "\n")
    assert ll(capsys, "status", "fix-types").out.startswith("fix-types  ✗ failed (apply: error)")


def test_a_loop_that_has_not_run(here, capsys):
    (here / ".loops/quick.yaml").write_text("initial: a\nstates: {a: {terminal: true}}\n")
    assert ll(capsys, "status", "quick") == (
        0,
        "quick has not run yet\n",
        "next: ll-loop run quick\n",
    )
    assert ll(capsys, "status", "quick", "--json").json == {
        "schema": 1,
        "name": "quick",
        "status": None,
    }
    said = ll(capsys, "status", "quick", "--exit-code")
    assert (said.code, said.err) == (
        2,
        "error: `quick` has not run yet\n   = help: `ll-loop run quick` starts it\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("nope",),
            "error: no loop or run named `nope`\n   = help: this project has no loops; try `ll-loop init`\n",
            id="no such run",
        ),
        pytest.param(
            ("--exit-code",),
            "error: `--exit-code` needs the name of a run\n   = help: ll-loop status NAME --exit-code\n",
            id="whose exit code?",
        ),
        pytest.param(
            ("a", "b"),
            "error: unrecognized arguments: b\n   = help: see `ll-loop status --help`\n",
            id="two names",
        ),
    ],
)
def test_what_cannot_be_answered(words, said, here, capsys):
    assert ll(capsys, "status", *words) == (2, "", said)


def test_a_run_with_an_id_has_a_name_of_its_own(here, capsys):
    ran(here, QUICK, "quick@two")
    assert ll(capsys, "status", "quick@two").out.startswith("quick@two  ✓ completed (done)")


def test_a_loop_whose_runs_all_have_ids(here, capsys):
    (here / ".loops/quick.yaml").write_text(json.dumps(QUICK))
    saved(here, "quick@two", state(status="needs_review", reason="review"))
    said = ll(capsys, "status", "quick")
    assert [line.split()[0] for line in said.out.splitlines()] == ["NAME", "quick@two"]


def test_names_in_files_cannot_drive_the_terminal(here, capsys):
    files = saved(here, "fix-types", state(current_state="a\x1b[2Jb", status="interrupted"))
    said = ll(capsys, "status", "fix-types")
    assert "\x1b" not in said.out + ll(capsys, "status").out
    assert "a\\x1b[2Jb" in said.out
    assert Runs(files.root).view("fix-types") is not None
