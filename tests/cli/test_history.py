"""`ll-loop history`: how earlier runs ended, what they have in common, and how to be rid of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.state import Spending
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView
from little_loops.terminal.durations import now_ms
from little_loops.terminal.history_table import gather, lines, median
from little_loops.terminal.tables import ASCII, Style
from tests.cli.runs import (
    COUNTDOWN,
    HOUR,
    QUICK,
    SECOND,
    ll,
    past,
    ran,
    record,
    saved,
    state,
    tree,
)

RUNS: dict[str, dict[str, Any]] = {
    "2026-11-15T10-30-00": {
        "status": "completed",
        "reason": "terminal",
        "current_state": "done",
        "iteration": 3,
        "ran_ms": 154 * SECOND,
        "costs": {"apply": Spending(41_000, 0.36, 7)},
    },
    "2026-11-14T18-02-11": {
        "status": "failed",
        "reason": "max_iterations",
        "iteration": 20,
        "ran_ms": 1082 * SECOND,
        "costs": {"apply": Spending(401_000, 3.1, 70)},
    },
    "2026-11-14T09-00-00": {
        "status": "failed",
        "reason": "auth",
        "iteration": 1,
        "ran_ms": 4 * SECOND,
    },
}
TRANSITIONS = {
    "2026-11-15T10-30-00": "measure apply measure apply measure done",
    "2026-11-14T18-02-11": "measure apply " * 10,
    "2026-11-14T09-00-00": "measure apply",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "LL_ASCII", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return tmp_path


def entered(way: str, measured: tuple[float, ...] = ()) -> list[dict[str, Any]]:
    """The events of a run that went this way, each state with an action, the last without."""
    found: list[dict[str, Any]] = []
    values = list(measured)
    for name in way.split():
        found.append(record("state_enter", len(found) + 1, state=name, iteration=1))
        if name != "done":
            found.append(record("action_complete", len(found) + 1, state=name, exit_code=0))
        if name == "measure" and values:
            reason = f"{values.pop(0):g} is closer to 0 than before"
            found.append(
                record(
                    "condition_eval",
                    len(found) + 1,
                    type="convergence",
                    result="progress",
                    reason=reason,
                )
            )
    return found


def began(stamp: str) -> str:
    day, _, clock = stamp.partition("T")
    return f"{day}T{clock.replace('-', ':')}.000Z"


@pytest.fixture
def three(here):
    for stamp, fields in reversed(RUNS.items()):
        past(
            here, "fix-types", state(started_at=began(stamp), **fields), entered(TRANSITIONS[stamp])
        )
    return here


def shown(root: Path, style: Style, name: str | None = None) -> str:
    runs = Runs(str(root))
    found = gather(runs.past(name), 20, len(runs.past_files(name)))
    return "\n".join(lines(runs, found, style)) + "\n"


def test_no_more_than_a_thousand_runs_are_read(three):
    """Of twenty thousand the newest make the figures, and the line says so."""
    runs, read = Runs(str(three)), 0

    def many() -> Iterator[RunView]:
        nonlocal read
        (newest, *_) = runs.past()
        for _ in range(20_000):
            read += 1
            yield newest

    found = gather(many(), 2, 20_000)
    assert (read, len(found.shown)) == (1000, 2)
    assert lines(runs, found, Style(ASCII, width=100))[-1] == (
        "20000 runs (2 shown) - of the last 1000: all completed - median 3 iterations, 2m 34s, $0.36"
    )


def test_runs_before_a_time_are_not_even_opened(three):
    since_ms = wall_ms_of("2026-11-14T12:00:00.000Z")
    stems = [files.stem for files in Runs(str(three)).past_files(since_ms=since_ms)]
    assert stems == ["2026-11-15T10-30-00", "2026-11-14T18-02-11"]


def test_earlier_runs(three):
    assert shown(three, Style(width=80), "fix-types") == dedent("""\
        STARTED (UTC)     RESULT                  ITER  TIME    COST   PATH
        2026-11-15 10:30  ✓ completed (done)      3     2m34s   $0.36  m a m a m
        2026-11-14 18:02  ! limit (iterations)    20    18m02s  $3.10  m a ×10
        2026-11-14 09:00  ✗ failed (apply: auth)  1     4.0s    –      m a
        PATH: m measure, a apply
        3 runs · 1 completed (33%) · median 3 iterations, 2m 34s, $1.73
        """)


def test_earlier_runs_on_a_narrow_terminal_without_our_signs(three):
    assert shown(three, Style(ASCII, width=50), "fix-types") == dedent("""\
        STARTED (UTC)     RESULT             TIME    COST
        2026-11-15 10:30  ok completed (...  2m34s   $0.36
        2026-11-14 18:02  warn limit (it...  18m02s  $3.10
        2026-11-14 09:00  FAIL failed (a...  4.0s    -
        3 runs - 1 completed (33%) - median 3 iterations, 2m 34s, $1.73
        """)


def test_all_loops_have_their_names_and_keep_cost_and_path(three):
    """Also where one of them has a metric, for which 80 columns have no room."""
    run = state(loop="lint", started_at=began("2026-11-13T00-00-00"), status="stopped")
    past(three, "lint", run, entered("measure apply measure", (12, 4, 0)))
    assert shown(three, Style(width=80)) == dedent("""\
        NAME       STARTED (UTC)     RESULT                 ITER  TIME    COST   PATH
        fix-types  2026-11-15 10:30  ✓ completed (done)     3     2m34s   $0.36  m a m…
        fix-types  2026-11-14 18:02  ! limit (iterations)   20    18m02s  $3.10  m a ×10
        fix-types  2026-11-14 09:00  ✗ failed (apply: aut…  1     4.0s    –      m a
        lint       2026-11-13 00:00  – stopped (apply)      1     14m03s  –      m a m
        PATH of fix-types: m measure, a apply
        PATH of lint: m measure, a apply
        4 runs · 1 completed (25%) · median 2 iterations, 8m 18s, $1.73
        """)


def test_the_paths_of_many_loops_are_not_explained_one_by_one(three):
    """And they are the first to leave where there is not enough room."""
    for number in range(3):
        loop = f"another-loop-{number}"
        past(three, loop, state(loop=loop, status="stopped"), entered("measure apply"))
    assert shown(three, Style()).splitlines()[-2] == (
        "PATH: the states each run went through, by first letter"
    )
    head, *_, last = shown(three, Style(width=80)).splitlines()
    assert head == "NAME            STARTED (UTC)     RESULT                  ITER  TIME    COST"
    assert last.startswith("6 runs · ")
    assert "PATH" not in shown(three, Style(width=80))


def test_of_many_loops_a_metric_leaves_before_the_paths(three):
    """Most of them have none, so the column would be empty."""
    for loop in ("a", "b", "c"):
        run = state(loop=loop, started_at=began("2026-11-13T00-00-00"), status="stopped")
        past(three, loop, run, entered("measure apply measure", (12, 4, 0) if loop == "a" else ()))
    head = shown(three, Style(width=80)).splitlines()[0]
    assert head == "NAME       STARTED (UTC)     RESULT                 ITER  TIME    COST   PATH"
    assert "  METRIC  " in shown(three, Style()).splitlines()[0]


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("words", "started"),
    [
        pytest.param((), ("STARTED (CET)", "2026-11-15 11:30"), id="local time, with its zone"),
        pytest.param(("--utc",), ("STARTED (UTC)", "2026-11-15 10:30"), id="UTC"),
    ],
)
def test_times_are_those_of_the_user(three, in_berlin, capsys, words, started):
    said = ll(capsys, "history", "fix-types", *words).out.splitlines()
    assert tuple(line[:16].rstrip() for line in said[:2]) == started
    assert said[1].endswith("  2026-11-15T10-30-00"), "the name that `logs --run` takes"


def test_the_course_of_a_metric(here):
    run = state(started_at=began("2026-11-15T10-30-00"), status="completed", reason="terminal")
    past(here, "fix-types", run, entered(TRANSITIONS["2026-11-15T10-30-00"], (12, 4, 0)))
    text = shown(here, Style(), "fix-types")
    assert text.splitlines()[0].endswith("  PATH       METRIC    RUN")
    assert text.splitlines()[1].endswith("  m a m a m  12 █▃▁ 0  2026-11-15T10-30-00")
    assert "  12 -> 0  " in shown(here, Style(ASCII), "fix-types").splitlines()[1]
    assert "RUN" not in shown(here, Style(width=80), "fix-types")
    assert "m a m a m  12 █▃▁ 0" in shown(here, Style(width=80), "fix-types")


def test_a_long_way_is_read_from_its_end_only(here):
    past(here, "long", state(status="interrupted"), entered("a b " * 600))
    path = shown(here, Style()).splitlines()[1].split("  ")[-2].strip()
    assert path == "… a b ×250"


def test_a_damaged_run_is_a_line_like_the_others(three):
    files = past(three, "fix-types", state(started_at=began("2026-11-15T11-00-00")))
    Path(files.state).write_text("{")
    os.unlink(files.events)
    text = shown(three, Style(), "fix-types")
    stamp = "2026-11-15T11-00-00"
    assert text.splitlines()[1].split() == ["2026-11-15", "11:00", "✗", "damaged", *"––––", stamp]
    assert text.splitlines()[-1].startswith("4 runs · 1 completed (25%) · median 3 iterations, ")


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        pytest.param([], None, id="none"),
        pytest.param([3], 3, id="one"),
        pytest.param([9, 1, 5], 5, id="odd"),
        pytest.param([4, 1, 3, 2], 2.5, id="even"),
    ],
)
def test_the_middle_of_several(values, middle):
    assert median(values) == middle


# ── the command ────────────────────────────────────────────────────────────────────────────────


def test_real_runs(here, capsys):
    ran(here, COUNTDOWN)
    said = ll(capsys, "history", "countdown")
    text = re.sub(r"\d{4}-[\d-]+(T\S+| \d\d:\d\d)", "STAMP", re.sub(r"\d+\.\ds", "0.0s", said.out))
    assert text == dedent("""\
        STARTED (UTC)     RESULT              ITER  TIME  COST  PATH      METRIC    RUN
        STAMP  ✓ completed (done)  4     0.0s  –     m a ×3 m  3 █▆▃▁ 0  STAMP
        PATH: m measure, a apply
        1 run · completed · median 4 iterations, 0.0s
        """)
    assert (said.code, said.err) == (0, "")


def test_how_many_and_since_when(three, capsys):
    assert ll(capsys, "history", "--limit", "1").out.splitlines()[-1] == (
        "3 runs (1 shown) · 1 completed (33%) · median 3 iterations, 2m 34s, $1.73"
    )
    past(three, "fix-types", state(started_at=timestamp(now_ms() - HOUR), status="stopped"))
    assert ll(capsys, "history", "--last", "2h").out.splitlines()[-1].startswith("1 run · ")
    assert ll(capsys, "history", "--last", "1m").out == "no past runs in that time\n"


def test_none(here, capsys):
    assert ll(capsys, "history") == (0, "no past runs\n", "")
    saved(here, "fix-types", state(status="interrupted"))
    assert ll(capsys, "history", "fix-types") == (
        0,
        "no past runs of fix-types\n",
        "next: ll-loop status fix-types   (a run that has not ended)\n",
    )
    assert ll(capsys, "history", "nope").code == 2


def test_for_programs(three, capsys):
    document = ll(capsys, "history", "fix-types", "--json", "--limit", "1").json
    [one] = document.pop("runs")
    assert one["archived_as"] == "2026-11-15T10-30-00"
    assert [visit["state"] for visit in one["path"]] == TRANSITIONS["2026-11-15T10-30-00"].split()
    assert one["measurements"] == []
    assert document == {
        "schema": 1,
        "summary": {
            "runs": 3,
            "read": 3,
            "completed": 1,
            "median_iterations": 3,
            "median_duration_ms": 154_000,
            "median_cost_usd": 1.73,
        },
    }


# ── deleting ───────────────────────────────────────────────────────────────────────────────────


def stamps(root: Path) -> list[str | None]:
    return [view.files.stem for view in Runs(str(root)).past()]


def test_old_runs_are_deleted_and_told(three, capsys):
    past(three, "new", state(loop="new", started_at=timestamp(now_ms()), status="stopped"))
    [new] = [stamp for stamp in stamps(three) if stamp not in RUNS]
    said = ll(capsys, "history", "--prune", "1s", "--keep", "1")
    assert said == (0, "deleted 2 runs: 2 of fix-types\n", "")
    assert stamps(three) == [new, "2026-11-15T10-30-00"]
    said = ll(capsys, "history", "fix-types", "--prune", "--keep", "0", "-v")
    assert said.out == dedent("""\
        deleted fix-types 2026-11-15T10-30-00
        deleted 1 run: 1 of fix-types
        """)
    assert stamps(three) == [new]
    assert not [path for path in tree(three) if "fix-types" in path]


def test_what_is_not_old_stays(three, capsys):
    before = tree(three)
    assert ll(capsys, "history", "--prune", "9999d") == (0, "nothing to delete\n", "")
    assert tree(three) == before


def test_deleting_for_programs(three, capsys):
    said = ll(capsys, "history", "--prune", "--keep", "2", "--json")
    assert said.json == {
        "schema": 1,
        "deleted": [{"name": "fix-types", "archived_as": "2026-11-14T09-00-00"}],
        "freed_bytes": 0,
    }


def test_a_run_that_has_not_ended_is_never_deleted(here, capsys):
    saved(here, "fix-types", state(status="interrupted"))
    before = tree(here)
    assert ll(capsys, "history", "--prune", "--keep", "0").out == "nothing to delete\n"
    assert tree(here) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("--prune",),
            "error: `--prune` needs an age or `--keep`\n"
            "   = help: `--prune 30d` deletes runs older than 30 days; `--prune --keep 10` keeps the last"
            " ten runs of each loop\n",
            id="which?",
        ),
        pytest.param(
            ("--keep", "3"),
            "error: `--keep` only works with `--prune`\n   = help: add `--prune`\n",
            id="keep alone",
        ),
        pytest.param(
            ("--prune", "--keep", "-1"),
            "error: argument --keep: '-1' is not a number of runs\n"
            "   = help: see `ll-loop history --help`\n",
            id="less than none",
        ),
        pytest.param(
            ("--prune", "--keep", "few"),
            "error: argument --keep: 'few' is not a number of runs\n"
            "   = help: see `ll-loop history --help`\n",
            id="no number",
        ),
        pytest.param(
            ("--prune", "fix-types"),
            "error: argument --prune: 'fix-types' is not a duration (for example, 90s, 10m, 2h or 1h30m)\n"
            "   = help: see `ll-loop history --help`\n",
            id="no age",
        ),
    ],
)
def test_what_is_not_clear_deletes_nothing(words, said, three, capsys):
    before = tree(three)
    assert ll(capsys, "history", *words) == (2, "", said)
    assert tree(three) == before


def test_the_history_knows_its_loops_by_their_runs(here, capsys):
    ran(here, QUICK, "quick@two")
    assert ll(capsys, "history", "quick@two").out.splitlines()[-1].startswith("1 run · completed ")
