"""The page: how soon its views begin to arrive, and what its server costs while nobody looks."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.model import Gauge, Question, Reading, Setting
from bench.rows.idle import pss_mb, woken
from bench.rows.seen import GATE, many
from little_loops.runs.past_runs import reindex

NUMBER = 21
CURRENT, PAST = 500, 10_000
IDLE_S = 20
SETTLED_S = 12
"""After the last request, its worker thread and connection are still there for a while."""
LISTS = ("/api/loops", "/api/runs")
LINE = (
    '{"event":"state_enter","state":"%s","iteration":%d,"step":%d,"reason":"next",'
    '"ts":"2026-01-15T10:30:00.000Z","run":"%s","seq":%d,"ran_ms":1}\n'
    '{"event":"action_start","action":"true","state":"%s","attempt":1,"action_type":"shell",'
    '"ts":"2026-01-15T10:30:00.000Z","run":"%s","seq":%d,"ran_ms":1}\n'
    '{"event":"action_complete","state":"%s","exit_code":0,"duration_ms":1,"output":"","stderr":"",'
    '"ts":"2026-01-15T10:30:00.000Z","run":"%s","seq":%d,"ran_ms":1}\n'
    '{"event":"transition","from":"%s","to":"%s","reason":"next",'
    '"ts":"2026-01-15T10:30:00.000Z","run":"%s","seq":%d,"ran_ms":1}\n'
)
VIEWS = ("", "/machine", "/steps", "/timeline")
"""What the page asks for to open a run."""


def rows(setting: Setting) -> list[Question]:
    crowd = setting.project("page-crowd", {"gate": GATE})
    alone = setting.project("page-alone", {"gate": GATE})
    current = setting.by_scale(quick=10, normal=CURRENT, full=CURRENT)
    past = setting.by_scale(quick=100, normal=PAST, full=PAST)
    lengths = setting.by_scale(quick=(1000,), normal=(50_000, 1_000_000), full=(50_000, 1_000_000))
    bars = {1000: 1500, 50_000: 1500, 1_000_000: 3000}
    return [
        Gauge(
            NUMBER,
            f"page: first byte of its lists, {current} current and {past} past runs",
            "ms",
            Reading("ours", partial(first_byte, setting, crowd, current, past)),
            bar=100,
            beyond=50,
            repeats=1,
        ),
        *(
            Gauge(
                NUMBER,
                f"page: opening a run of {length:,} events",
                "ms",
                Reading("ours", partial(opening, setting, alone, length)),
                bar=bars[length],
                beyond=bars[length] / 2,
                repeats=1,
            )
            for length in lengths
        ),
        Gauge(
            NUMBER,
            "page: memory of an idle server",
            "MB",
            Reading("ours", partial(idle, setting, alone, is_memory=True)),
            bar=60,
            beyond=45,
            repeats=1,
        ),
        Gauge(
            NUMBER,
            f"page: wake-ups of an idle server in {IDLE_S} s",
            "wake-ups",
            Reading("ours", partial(idle, setting, alone, is_memory=False)),
            bar=IDLE_S / 10,
            beyond=0,
            repeats=1,
        ),
    ]


class Server:
    """A server under test."""

    def __init__(self, url: str, pid: int) -> None:
        self.pid = pid
        self.url = url
        base, _, self._token = url.partition("/#token=")
        self._host = base.removeprefix("http://")

    def ms_to_first_byte(self, path: str) -> float:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(self._host, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        answer.read(1)
        took_ms = (time.perf_counter() - began) * 1000
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        return took_ms


@contextmanager
def serving(setting: Setting, project: str) -> Iterator[Server]:
    process = subprocess.Popen(
        [*setting.tool, "web", "--json", "--no-open"],
        cwd=project,
        env=setting.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Server(json.loads(process.stdout.readline())["url"], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def first_byte(setting: Setting, project: str, current: int, past: int) -> float:
    """The slower of the two lists, each the median of five, after the first."""
    with many(setting, project, current, past):
        reindex(project)
        with serving(setting, project) as server:
            return max(sorted(server.ms_to_first_byte(p) for _ in range(6))[2] for p in LISTS)


def opening(setting: Setting, project: str, length: int) -> float:
    """All that the page asks for to open a run, one after the other."""
    with serving(setting, project) as server:
        write_run(setting, project, length)
        return sum(server.ms_to_first_byte(f"/api/runs/long{view}") for view in VIEWS)


def write_run(setting: Setting, project: str, length: int) -> None:
    """Write a past run of many events."""
    folder = f"{project}/.loops/.history/long"
    os.makedirs(folder, exist_ok=True)
    stem, run = f"{folder}/2026-01-15T10-30-00", "20260115T103000-00000000"
    state = {"action": "true", "next": "b"}
    loop = {"name": "long", "initial": "a", "states": {"a": state, "b": {**state, "next": "a"}}}
    with open(f"{stem}.events.jsonl", "w") as file:
        for step in range(1, length // 4 + 1):
            name, then = ("a", "b") if step % 2 else ("b", "a")
            seq = step * 4 - 3
            file.write(
                LINE
                % (
                    *(name, step, step, run, seq, name, run, seq + 1),
                    *(name, run, seq + 2, name, then, run, seq + 3),
                )
            )
    os.makedirs(f"{stem}.d", exist_ok=True)
    with open(f"{stem}.d/run.json", "w") as file:
        json.dump({"loop": loop}, file)
    at = "2026-01-15T10:30:00.000Z"
    found = {"format": 1, "run": run, "loop": "long", "current_state": "a", "started_at": at}
    found |= {"updated_at": at, "scope": ["."], "context": {}, "captured": {}, "status": "failed"}
    found |= {"phase": "ended", "iteration": 1, "step": length // 4, "continuation_prompt": None}
    found |= {"ran_ms": 1, "seq": length // 4 * 4, "reason": "error"}
    with open(f"{stem}.state.json", "w") as file:
        json.dump(found, file)


def idle(setting: Setting, project: str, *, is_memory: bool) -> float:
    """What a server costs that has shown its lists once, and that no page asks any more."""
    with serving(setting, project) as server:
        for path in LISTS:
            server.ms_to_first_byte(path)
        time.sleep(SETTLED_S)
        return pss_mb(server.pid) if is_memory else woken([server.pid], IDLE_S)
