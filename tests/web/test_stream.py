"""Streams: every event once, in order, across restarts of the server, however changes are noticed."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from little_loops.system.watching import KIND, Kind, watch
from little_loops.web.security import Policy
from little_loops.web.site import Site
from little_loops.web.stream import ListStream
from tests.project import DEADLINE_S, Project, until
from tests.simulation.child import in_child
from tests.web.served import serving

COUNTING = """\
    name: counting
    initial: work
    max_iterations: 100000
    states:
      work: {action: "echo out; n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ -e enough ]", on_pass: done, on_fail: again}
      again: {action: "true", next: work}
      done: {terminal: true}
    """


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    made.loop("counting", COUNTING)
    yield made
    (made.root / "enough").touch()
    made.end_actions()


WAYS = [pytest.param((), KIND, id=KIND), pytest.param(("--poll",), "polling", id="--poll")]
"""How a server can be told to notice changes, and how it says that it does."""


@pytest.mark.parametrize(("options", "live"), WAYS)
def test_a_killed_server_misses_and_repeats_nothing(project, options: Sequence[str], live: Kind):
    seen: list[int] = []
    with project.started("run", "counting", "-q") as run_process:
        until(lambda: project.has_event("counting", "iteration", iteration=3), "third iteration")
        with serving(project, *options) as server:
            assert server.get("/api/server").json["live"] == live
            run = server.get("/api/runs/counting").json["run"]["run"]
            with server.stream(f"/api/runs/counting/stream?after=0&run={run}") as items:
                hello = next(items)
                assert (hello["type"], hello["live"]) == ("hello", live)
                for item in items:
                    if item["type"] == "event":
                        seen.append(item["seq"])
                    if len(seen) > 60:
                        break
            os.killpg(server.process.pid, signal.SIGKILL)
        (project.root / "enough").touch()
        assert run_process.wait(DEADLINE_S) == 0  # it has not noticed
    with serving(project, *options) as server:
        path = f"/api/runs/counting/stream?after={seen[-1]}&run={run}"
        with server.stream(path) as items:
            for item in items:
                if item["type"] == "event":
                    seen.append(item["seq"])
                if item["type"] == "end":
                    break
    assert seen == [each["seq"] for each in project.events("counting")]


@pytest.mark.parametrize(("options", "live"), WAYS)
def test_the_list_reports_runs_that_come_and_go(project, options: Sequence[str], live: Kind):
    with serving(project, *options) as server, server.stream("/api/stream") as items:
        assert next(items)["live"] == live
        server.get("/api/runs")
        assert server.post("/api/loops/counting.yaml/run").status == 200
        news = (item for item in items if item["type"] in ("run", "gone"))
        found = []
        for item in news:
            found.append((item["type"], item.get("run", item)["key"]))
            (project.root / "enough").touch()  # it ends only after it was reported
            if item["type"] == "run" and item["run"]["status"] == "completed":
                break
    assert found[0] == ("run", "counting")
    assert ("gone", "counting") in found
    assert found[-1][1].startswith("counting~")


def test_another_run_of_the_name_is_reported(project):
    (project.root / "enough").touch()
    project.ll("run", "counting")
    with serving(project) as server, server.stream("/api/runs/counting/stream?run=other") as items:
        kinds = [item["type"] for item in items]
    assert (kinds[0], kinds[-1]) == ("hello", "replaced")


def test_the_server_ends_at_once_though_a_page_is_open(project):
    with serving(project) as server, server.stream("/api/stream") as items:
        assert next(items)["type"] == "hello"
        server.process.send_signal(signal.SIGTERM)
        assert list(items) == []
        assert server.process.wait(20) == 0


KINDS = [
    pytest.param("inotify", marks=pytest.mark.skipif(KIND != "inotify", reason="needs Linux")),
    pytest.param("kqueue", marks=pytest.mark.skipif(KIND != "kqueue", reason="needs macOS or BSD")),
    "polling",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_reports_what_changes(tmp_path, kind):
    (tmp_path / "old").write_text("a")
    watched = watch([str(tmp_path)], kind)
    try:
        assert (watched.kind, watched.changes()) == (kind, set())
        (tmp_path / "new").write_text("b")
        with open(tmp_path / "old", "a") as file:
            file.write("more")
        assert watched.changes() == {(str(tmp_path), "new"), (str(tmp_path), "old")}
        assert watched.changes() == set()
        (tmp_path / "new").unlink()
        assert watched.changes() == {(str(tmp_path), "new")}
        assert not watched.add(str(tmp_path / "nowhere"))
    finally:
        watched.close()


def test_a_watch_polls_if_the_kernel_cannot_report_changes(tmp_path):
    missing: Kind = "inotify" if hasattr(select, "kqueue") else "kqueue"
    assert watch([str(tmp_path)], missing).kind == "polling"

    def without_descriptors() -> tuple[Kind, int | None]:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
        made = watch([str(tmp_path)])
        return made.kind, made.fileno()

    assert in_child(without_descriptors) == ("polling", None)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_stream_that_nobody_reads(project, kind: Kind):
    """So an idle server has nothing that could wake it up."""

    async def read_and_leave() -> tuple[list[str], int, int]:
        before = len(os.listdir("/dev/fd"))
        items = ListStream(Site([str(project.root)], Policy("token"), {}, kind)).items()
        seen = [each["type"] for each in await anext(items)]
        project.loop("other", COUNTING.replace("counting", "other"))
        seen += [each["type"] for each in await anext(items)]
        await items.aclose()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        return seen, len(left), len(os.listdir("/dev/fd")) - before

    assert asyncio.run(read_and_leave()) == (["hello", "loops"], 0, 0)


@pytest.mark.skipif(KIND != "inotify", reason="needs Linux")
def test_only_what_is_on_the_screen_is_watched(project):
    (project.root / "enough").touch()
    project.ll("run", "counting")
    with serving(project) as server:
        assert watches(server.process.pid) == 0
        with server.stream("/api/stream") as items:
            next(items)
            lists = watches(server.process.pid)
            [past] = server.get("/api/runs").json["past"]
            with server.stream(f"/api/runs/{past['key']}/stream") as events:
                next(events)
                assert watches(server.process.pid) > lists > 0
        until(lambda: watches(server.process.pid) == 0, "end of the watches")


def watches(pid: int) -> int:
    """How many files and directories the kernel watches for a process."""
    folder = Path(f"/proc/{pid}/fdinfo")
    lines = [line for each in folder.iterdir() for line in each.read_text().splitlines()]
    return sum(line.startswith("inotify wd:") for line in lines)
