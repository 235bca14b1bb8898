"""What all reading pages promise: they write nothing, fail for no damaged run, see nothing half."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.cli.runs import (
    COUNTDOWN,
    QUICK,
    crashed,
    damaged,
    held,
    ll,
    ran,
    saved,
    state,
    tree,
    under_way,
)

PAGES = (
    ("status",),
    ("status", "--json"),
    ("list",),
    ("list", "--json"),
    ("list", "--running"),
    ("history",),
    ("history", "--json"),
)
OF_ONE = (
    ("status",),
    ("status", "--json", "--exit-code"),
    ("logs",),
    ("logs", "--tail", "1"),
    ("logs", "--since", "1m", "--raw"),
    ("logs", "--json"),
    ("history",),
)
_HUGE = {".json": (64 << 20) + 1, ".jsonl": 64 << 20, ".log": 1 << 17}
AT_ITS_END = (("logs", "-f"), ("attach",), ("wait",), ("stop",))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def everything(here):
    """A loop with a past, one that crashed, a damaged one, and one under way."""
    (here / ".loops").mkdir()
    (here / ".loops/countdown.yaml").write_text(json.dumps(COUNTDOWN))
    (here / ".loops/broken.yaml").write_text("states: [")
    ran(here, COUNTDOWN)
    crashed(here)
    damaged(here)
    saved(here, "paused", state(status="awaiting_continuation", continuation_prompt="go on"))
    with under_way(here):
        yield here


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_a_page_makes_nothing_where_there_is_nothing(words, here, capsys):
    assert ll(capsys, *words).code == 0
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("words", [*OF_ONE, *AT_ITS_END], ids=" ".join)
def test_a_page_about_nothing_makes_nothing(words, here, capsys):
    said = ll(capsys, words[0], "nope", *words[1:])
    assert said.code == 2
    assert list(here.iterdir()) == []


def test_pages_write_nothing(everything, capsys):
    before = tree(everything)
    for words in PAGES:
        assert ll(capsys, *words).code == 0, words
    for name in ("countdown", "crashed", "damaged", "paused", "slow"):
        for verb, *rest in OF_ONE:
            ll(capsys, verb, name, *rest)
        if name != "slow":
            for verb, *rest in AT_ITS_END:
                ll(capsys, verb, name, *rest)
    assert tree(everything) == before


def test_pages_need_no_right_to_write(everything, capsys):
    places = [os.path.join(each, name) for each, names, _ in os.walk(everything) for name in names]
    folders = [str(everything), *places]
    modes = {folder: os.stat(folder).st_mode for folder in folders}
    for folder in folders:
        os.chmod(folder, 0o500)
    try:
        for words in PAGES:
            assert ll(capsys, *words).code == 0, words
    finally:
        for folder, mode in modes.items():
            os.chmod(folder, mode)


def test_a_damaged_run_breaks_no_page_for_the_others(everything, capsys):
    assert "damaged" in ll(capsys, "status").out
    statuses = {one["name"]: one["status"] for one in ll(capsys, "status", "--json").json["runs"]}
    assert statuses == {
        "crashed": "interrupted",
        "damaged": "damaged",
        "paused": "awaiting_continuation",
        "slow": "running",
    }
    listed = {each["name"]: each["valid"] for each in ll(capsys, "list", "--json").json["loops"]}
    assert listed == {
        "broken": False,
        "countdown": True,
        "crashed": None,
        "damaged": None,
        "paused": None,
        "slow": None,
    }


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(os.urandom(5000)), id="noise"),
        pytest.param(lambda path: path.write_bytes(b"[" * 100_000), id="deep"),
        pytest.param(lambda path: path.write_text('{"format": 99, "seq": 1}'), id="newer"),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), id="a directory"),
        pytest.param(lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), id="a link"),
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: os.truncate(path, _HUGE[path.suffix]), id="huge"),
    ],
)
@pytest.mark.parametrize("suffix", [".state.json", ".events.jsonl", ".log", ".d/run.json"])
def test_no_page_fails_whatever_is_in_a_file(suffix, spoil, here, capsys):
    (here / ".loops").mkdir()
    saved(here, "odd", state(status="interrupted"), log="text\n")
    saved(here, "fine", state(status="interrupted"))
    spoil(here / f".loops/.running/odd{suffix}")
    for words in PAGES:
        assert ll(capsys, *words).code == 0, words
    assert "fine" in ll(capsys, "status").out
    for verb, *rest in (*OF_ONE, *AT_ITS_END):
        assert ll(capsys, verb, "odd", *rest).code != 70, (verb, rest)


def test_a_living_run_whose_file_cannot_be_read_breaks_nothing(here, capsys):
    (here / ".loops").mkdir()
    with held(here, "odd", ["odd"]), held(here, "fine", ["fine"]):
        files = saved(here, "odd", state())
        saved(here, "fine", state())
        os.unlink(files.state)
        os.symlink("/etc/passwd", files.state)
        for words in PAGES:
            assert ll(capsys, *words).code == 0, words
        rows = [line.split()[:3] for line in ll(capsys, "ps").out.splitlines()[1:]]
        assert rows == [["fine", "●", "running"], ["odd", "●", "running"]]


def test_pages_see_nothing_half_while_runs_come_and_go(here, capsys):
    (here / ".loops").mkdir()
    (here / ".loops/quick.yaml").write_text(json.dumps(QUICK))
    ran(here, QUICK)
    failures: list[BaseException] = []

    def keep_running() -> None:
        try:
            for _ in range(25):
                ran(here, QUICK)
        except BaseException as error:
            failures.append(error)

    runner = threading.Thread(target=keep_running)
    runner.start()
    looks = 0
    while runner.is_alive() or not looks:
        looks += 1
        for one in ll(capsys, "status", "--json").json["runs"]:
            assert (one["status"], one["damage"]) == ("running", None)
        one = ll(capsys, "status", "quick", "--json").json
        assert (one["status"] in ("running", "completed"), one["damage"]) == (True, None)
        for one in ll(capsys, "list", "--running", "--json").json["runs"]:
            assert one["status"] == "running"
        for one in ll(capsys, "history", "--json").json["runs"]:
            assert (one["status"], one["damage"]) == ("completed", None)
        for line in ll(capsys, "logs", "quick", "--json").out.splitlines():
            assert json.loads(line)["event"]
        assert ll(capsys, "logs", "quick").code == 0
    runner.join()
    assert failures == []


def test_an_event_is_whole_or_not_there(here, capsys):
    """A writer in the middle of a line."""
    (here / ".loops").mkdir()
    files = saved(here, "odd", state(status="interrupted"))
    whole = Path(files.events).read_text()
    with open(files.events, "a") as log:
        log.write('{"event": "action_start", "se')
    assert ll(capsys, "logs", "odd", "--json").out == whole
    assert ll(capsys, "status", "odd").code == 0


def test_a_project_may_be_looked_at_from_below(everything, capsys, monkeypatch):
    (everything / "src/deep").mkdir(parents=True)
    monkeypatch.chdir(everything / "src/deep")
    assert "slow" in ll(capsys, "ps").out
    assert f"log        {everything}/.loops/.running/slow.log" in ll(capsys, "status", "slow").out
