"""Claims between real processes: one at a time, and over when their process is."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from little_loops.errors import ConflictError, StorageError, UsageError
from little_loops.runs.claims import (
    Claim,
    alive,
    holders,
    waiting,
)
from little_loops.runs.folders import make_folder
from little_loops.runs.holders import to_bytes
from tests.engine.claimants import CLAIMED, STARTED, Answer, hold, names, workers
from tests.engine.faults import KILLED, REFUSED, SURVIVED, attempts, die, failing_with, outcome

# ── one process ────────────────────────────────────────────────────────────────────────────────


def test_a_claim_is_seen_until_it_is_released(tmp_path):
    held = hold(tmp_path, "fix", "src", "tests")
    with held:
        [holder] = holders(str(tmp_path))
        assert holder == held.holder == alive(str(tmp_path), "fix")
        assert (holder.name, holder.pid, holder.run_id) == ("fix", os.getpid(), "run-fix")
        assert holder.scope == (str(tmp_path / "src"), str(tmp_path / "tests"))
        lines = (tmp_path / ".loops/.running/fix.pid").read_text().splitlines()
        assert lines[0] == str(os.getpid())
        assert json.loads(lines[1])["run_id"] == "run-fix"
    assert holders(str(tmp_path)) == []
    assert alive(str(tmp_path), "fix") is None
    assert sorted(os.listdir(tmp_path / ".loops/.running")) == [".gitignore", ".lock"]
    held.release()


def test_looking_makes_nothing(tmp_path):
    assert (holders(str(tmp_path)), waiting(str(tmp_path))) == ([], [])
    assert alive(str(tmp_path), "fix") is None
    assert os.listdir(tmp_path) == []
    make_folder(str(tmp_path), ".running").close()
    assert (holders(str(tmp_path)), waiting(str(tmp_path))) == ([], [])
    assert os.listdir(tmp_path / ".loops/.running") == [".gitignore"]


def test_an_overlap_names_the_holder_and_the_ways_out(tmp_path):
    with hold(tmp_path, "quality-guard", "src", "docs"), pytest.raises(ConflictError) as caught:
        hold(tmp_path, "fix-types", "src/api")
    assert caught.value.exit_code == 5
    assert caught.value.message == (
        "Cannot start 'fix-types' - loop 'quality-guard' is running with overlapping scope"
    )
    assert caught.value.help == (
        f"'quality-guard' (pid {os.getpid()}) is working on `src`, `docs`, and 'fix-types' would work on `src/api`:"
        " narrow the `scope` of one, or pass `--scope PATH`; or use `--queue` to wait until the other run ends"
    )


def test_the_same_name_is_already_running_whatever_its_scope(tmp_path):
    with hold(tmp_path, "fix", "src"), pytest.raises(ConflictError) as caught:
        hold(tmp_path, "fix", "tests")
    assert caught.value.message == (
        f"Cannot start 'fix' - it is already running (pid {os.getpid()})"
    )
    assert caught.value.help == (
        "to see it: `ll-loop status fix`; to stop it: `ll-loop stop fix`; or use `--queue` to wait until the other run ends"
    )


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("src", "src", True),
        ("src", "src/api", True),
        ("src/api", "src", True),
        (".", "anything", True),
        ("src/api", "src/api2", False),
        ("src", "tests", False),
    ],
)
def test_scopes_are_compared_by_path_components(tmp_path, one, other, conflict):
    with hold(tmp_path, "a", one), ExitStack() as stack:
        if conflict:
            stack.enter_context(pytest.raises(ConflictError))
        stack.enter_context(hold(tmp_path, "b", other))


def test_runs_of_one_loop_are_told_apart_by_their_id(tmp_path):
    with hold(tmp_path, "fix@1", "a"), hold(tmp_path, "fix@2", "b"):
        assert names(holders(str(tmp_path))) == ["fix@1", "fix@2"]


def test_a_name_that_is_none_claims_nothing(tmp_path):
    with pytest.raises(UsageError):
        hold(tmp_path, "../fix")
    assert os.listdir(tmp_path) == []


def test_files_are_their_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with hold(tmp_path, "fix"):
            modes = {
                path.name: path.stat().st_mode & 0o777
                for path in (tmp_path / ".loops").rglob("*")
                if path.name != ".gitignore"
            }
    finally:
        os.umask(before)
    assert modes == {".running": 0o700, ".lock": 0o600, "fix.pid": 0o600}


@pytest.mark.parametrize("name", [".lock", "fix.pid"])
def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path, name):
    make_folder(str(tmp_path), ".running").close()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".loops/.running" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError) as caught:
        hold(tmp_path, "fix")
    assert caught.value.message == (
        f"`{tmp_path}/.loops/.running/{name}` is a symbolic link, and links are not followed here"
    )
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_link_in_the_place_of_anothers_claim_blocks_nobody(tmp_path):
    make_folder(str(tmp_path), ".running").close()
    (tmp_path / ".loops/.running/other.pid").symlink_to("/etc/passwd")
    with hold(tmp_path, "fix"):
        assert names(holders(str(tmp_path))) == ["fix"]


def test_a_held_file_that_says_nothing_useful_blocks_everything(tmp_path):
    with hold(tmp_path, "fix", "src"):
        (tmp_path / ".loops/.running/fix.pid").write_text("?")
        with pytest.raises(ConflictError) as caught:
            hold(tmp_path, "other", "docs")
    assert "its `fix.pid` belongs to another user or is damaged" in (caught.value.help or "")


def test_a_holder_on_another_machine_is_named_with_it(tmp_path):
    with hold(tmp_path, "fix") as held:
        elsewhere = to_bytes(held.holder._replace(host="far.away", pid=12))
        (tmp_path / ".loops/.running/fix.pid").write_bytes(elsewhere)
        with pytest.raises(ConflictError) as caught:
            hold(tmp_path, "fix")
    assert caught.value.message == (
        "Cannot start 'fix' - it is already running (pid 12 on far.away)"
    )


def test_a_claim_file_somebody_replaced_is_not_removed_with_ours(tmp_path):
    held = hold(tmp_path, "fix")
    pid_file = tmp_path / ".loops/.running/fix.pid"
    pid_file.unlink()
    with hold(tmp_path, "fix"):
        held.release()
        assert names(holders(str(tmp_path))) == ["fix"]


def test_a_claim_can_be_given_up_when_its_directory_is_gone(tmp_path):
    held = hold(tmp_path, "fix")
    for name in os.listdir(tmp_path / ".loops/.running"):
        os.unlink(tmp_path / ".loops/.running" / name)
    os.rmdir(tmp_path / ".loops/.running")
    held.release()


def test_a_claim_of_a_project_that_is_moved_goes_along(tmp_path):
    (tmp_path / "here").mkdir()
    held = hold(tmp_path / "here", "fix")
    (tmp_path / "here").rename(tmp_path / "there")
    assert names(holders(str(tmp_path / "there"))) == ["fix"]
    held.release()
    assert holders(str(tmp_path / "there")) == []


# ── stale files ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("1\n", id="the number of a stranger"),
        pytest.param('1\n{"name":"fix","pid":1,"scope":["/"]}\n', id="a whole one of a stranger"),
        pytest.param("999999999\n", id="nobody's number"),
        pytest.param("\0" * 100, id="garbage"),
    ],
)
def test_a_file_nobody_holds_blocks_nothing(tmp_path, text):
    make_folder(str(tmp_path), ".running").close()
    for name in ("fix", "other"):
        (tmp_path / f".loops/.running/{name}.pid").write_text(text)
    assert holders(str(tmp_path)) == []
    assert alive(str(tmp_path), "fix") is None
    with hold(tmp_path, "fix"):
        assert names(holders(str(tmp_path))) == ["fix"]


def test_a_claim_ends_with_its_process(tmp_path):
    with workers(tmp_path, 1) as [worker]:
        worker.claim("fix")
        assert worker.told() == CLAIMED
        assert [holder.pid for holder in holders(str(tmp_path))] == [worker.pid]
        worker.end()
        assert alive(str(tmp_path), "fix") is None
        assert (tmp_path / ".loops/.running/fix.pid").exists()
    with hold(tmp_path, "fix"):
        pass


def test_a_child_does_not_inherit_the_claim(tmp_path):
    """Neither one that is executed nor one that is only forked, though both outlive the claim."""
    held = hold(tmp_path, "fix")
    executed = subprocess.Popen(["cat"], stdin=-1, close_fds=False)
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        os.close(reader)
        held.release()
        with hold(tmp_path, "fix"):
            pass
    finally:
        os.close(writer)
        os.waitpid(forked, 0)
        executed.communicate()


def test_the_orphan_of_a_killed_holder_does_not_keep_its_claim(tmp_path):
    program = (
        "import subprocess, sys, time\n"
        "from little_loops.runs.claims import claim\n"
        "root = sys.argv[1]\n"
        f"held = claim(root, 'fix', (root,), 'r', loop='fix', started_at='{STARTED}')\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=-1)
    assert holder.stdout is not None
    orphan = int(holder.stdout.readline())
    try:
        assert names(holders(str(tmp_path))) == ["fix"]
        holder.kill()
        holder.wait()
        with hold(tmp_path, "fix"):
            os.kill(orphan, 0)
    finally:
        os.kill(orphan, signal.SIGKILL)
        holder.kill()
        holder.communicate()


# ── faults ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "code"),
    [(die, KILLED), (failing_with(errno.EIO), REFUSED), (failing_with(errno.ENOLCK), REFUSED)],
    ids=["killed", "failing", "no locks"],
)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_a_claim_cut_short_anywhere_leaves_nothing_in_the_way(tmp_path, fault, code, waits):
    root = tmp_path

    def take() -> None:
        if not waits:
            hold(root, "fix")
            return
        first = hold(root, "first")
        second = hold(root, "fix", queue=True, stop=ReleasingFirst(first))
        assert second.holder.name == "fix"

    for number in attempts():
        root = tmp_path / str(number)
        root.mkdir()
        ended = outcome(take, number, fault)
        assert holders(str(root)) == waiting(str(root)) == []
        with hold(root, "fix"), pytest.raises(ConflictError):
            hold(root, "other")
        if ended == 0:
            return
        assert ended in (code, SURVIVED)


class ReleasingFirst:
    """Ends the run that is waited for while it is waited for."""

    def __init__(self, first: Claim) -> None:
        self.first = first

    def wait(self, seconds: float | None) -> bool:
        self.first.release()
        return False


# ── races ──────────────────────────────────────────────────────────────────────────────────────


def race(team, scopes, **more) -> list[Answer]:
    at = time.time() + 0.05
    for number, (worker, scope) in enumerate(zip(team, scopes, strict=True)):
        worker.claim(f"loop-{number}", *scope, at=at, **more)
    return [worker.told() for worker in team]


def let_go(team, answers) -> None:
    for worker, answer in zip(team, answers, strict=True):
        if answer == CLAIMED:
            worker.order(release=True)
            assert worker.told() == {"released": True}


def test_of_twenty_at_once_one_gets_in_if_they_overlap_and_all_if_not(tmp_path):
    with workers(tmp_path, 20) as team:
        for _ in range(5):
            answers = race(team, [["src"] if number % 2 else ["src/x"] for number in range(20)])
            assert answers.count(CLAIMED) == 1
            winner = answers.index(CLAIMED)
            assert [answer for answer in answers if answer != CLAIMED] == [
                {
                    "error": f"Cannot start 'loop-{number}' - loop 'loop-{winner}' is running"
                    " with overlapping scope",
                    "code": 5,
                }
                for number in range(20)
                if number != winner
            ]
            let_go(team, answers)
        answers = race(team, [[f"part-{number}"] for number in range(20)])
        assert answers == [CLAIMED] * 20
        assert len(holders(str(tmp_path))) == 20
        let_go(team, answers)
    assert sorted(os.listdir(tmp_path / ".loops/.running")) == [".gitignore", ".lock"]


def test_of_six_resumes_at_once_one_gets_in(tmp_path):
    with workers(tmp_path, 6) as team:
        at = time.time() + 0.05
        for worker in team:
            worker.claim("fix", at=at)
        answers = [worker.told() for worker in team]
        assert answers.count(CLAIMED) == 1
        winner = team[answers.index(CLAIMED)].pid
        turned_away = {str(answer.get("error")) for answer in answers} - {"None"}
        assert turned_away == {f"Cannot start 'fix' - it is already running (pid {winner})"}


def test_looking_never_makes_a_start_fail(tmp_path):
    with workers(tmp_path, 1) as [worker]:
        for _ in range(100):
            worker.claim("fix")
            while worker.is_silent():
                alive(str(tmp_path), "fix")
                holders(str(tmp_path))
            assert worker.told() == CLAIMED
            worker.order(release=True)
            assert worker.told() == {"released": True}
