"""The page in a real browser: how soon a view can be used, and an event is seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from bench.model import Gauge, Missing, NotMeasured, Question, Reading, Setting
from bench.rows.page import NUMBER, serving
from bench.rows.seen import GATE, many
from little_loops.runs.past_runs import reindex

if TYPE_CHECKING:
    from playwright.sync_api import Page

CURRENT, PAST, WRITING = 500, 10_000, 20
WATCHED_S = 20
WORK = """\
name: {name}
initial: work
max_iterations: 100000
scope: [{name}]
states:
  work: {{action: "sleep 0.5", on_pass: work, on_fail: done}}
  done: {{terminal: true}}
"""
FLAGS = ("--disable-gpu", "--disable-background-networking", "--disable-component-update")
VIEWS = {"runs": ".run", "loops": ".loop", "charts": "select"}
# When each iteration of each run was seen first.
WATCH = """() => {
  const seen = window.seen = {};
  const look = (records) => {
    const now = Date.now();
    for (const row of new Set(records.map(({ target }) => (target.parentElement ?? target).closest(".run")))) {
      if (!row) continue;
      const name = row.querySelector(".name").textContent;
      const found = /iteration ([\\d,]+)/.exec(row.querySelector(".run-what")?.textContent);
      if (name.startsWith("w") && found) seen[`${name} ${found[1].replaceAll(",", "")}`] ??= now;
    }
  };
  window.began = Date.now();
  new MutationObserver(look).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def rows(setting: Setting) -> list[Question]:
    writing = setting.by_scale(quick=2, normal=WRITING, full=WRITING)
    current = setting.by_scale(quick=10, normal=CURRENT, full=CURRENT)
    past = setting.by_scale(quick=100, normal=PAST, full=PAST)
    loops = {f"w{n}": WORK.format(name=f"w{n}") for n in range(writing)}
    crowd = setting.project("page-browser", {"gate": GATE, **loops})
    few = f"{current} current and {past} past runs"
    return [
        Gauge(
            NUMBER,
            f"page: the slowest view can be used in a browser, {few}",
            "ms",
            Reading("ours", partial(usable, setting, crowd, current, past)),
            bar=1000,
            beyond=500,
            repeats=1,
        ),
        Gauge(
            NUMBER,
            f"page: event on disk until seen, 95 % of them, {current} runs and {writing} that write",
            "ms",
            Reading("ours", partial(seen_after, setting, crowd, current, past, writing)),
            bar=500,
            beyond=250,
            repeats=1,
        ),
    ]


@contextmanager
def browsing(url: str) -> Iterator[Page]:
    """A page in a browser. Raises `Missing` if there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Missing("Playwright is missing; `make e2e` installs it") from None
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        raise Missing("there is no Chromium")
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            page = browser.new_page()
            page.goto(url)
            page.wait_for_selector("h1")
            yield page
        finally:
            browser.close()


def usable(setting: Setting, project: str, current: int, past: int) -> float:
    """From a click on its link until a view shows its content; the slowest view, each the median of
    three."""
    with many(setting, project, current, past):
        reindex(project)
        with serving(setting, project) as server, browsing(server.url) as page:
            return max(_median_ms(page, view, content) for view, content in VIEWS.items())


def _median_ms(page: Page, view: str, content: str) -> float:
    took = []
    for _ in range(3):
        other = "charts" if view != "charts" else "loops"
        page.goto(f"{page.url.partition('#')[0]}#/{other}")
        page.wait_for_selector(f"main {VIEWS[other]}")
        began = time.perf_counter()
        page.click(f'nav a[href="#/{view}"]')
        page.wait_for_selector(f"main {content}")
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)[1]


def seen_after(setting: Setting, project: str, current: int, past: int, writing: int) -> float:
    """How long iterations of the runs that write take from their event to the list of runs."""
    names = [f"w{n}" for n in range(writing)]
    with many(setting, project, current, past), serving(setting, project) as server:
        try:
            for name in names:
                _command(setting, project, "run", name, "--background")
            with browsing(server.url) as page:
                page.wait_for_selector(".run")
                page.evaluate(WATCH)
                time.sleep(WATCHED_S)
                seen, began_ms = page.evaluate("[window.seen, window.began]")
            return _share_95([*_delays(project, names, seen, began_ms)])
        finally:
            for name in names:
                _command(setting, project, "stop", name)


def _command(setting: Setting, project: str, *words: str) -> None:
    subprocess.run(
        [*setting.tool, *words],
        cwd=project,
        env=setting.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def _delays(
    project: str, names: list[str], seen: dict[str, Any], began_ms: float
) -> Iterator[float]:
    """Yield how long after its event each iteration, or a later one, was seen; never counts as the
    whole time."""
    for name in names:
        own = ((key.split()[1], at) for key, at in seen.items() if key.split()[0] == name)
        shown = [(int(number), at) for number, at in own]
        with open(f"{project}/.loops/.running/{name}.events.jsonl") as log:
            records = [json.loads(line) for line in log if line.endswith("}\n")]
        for record in records:
            if record["event"] != "iteration":
                continue
            at_ms = datetime.fromisoformat(record["ts"]).timestamp() * 1000
            # The last of them may have happened after the look.
            if began_ms < at_ms < began_ms + (WATCHED_S - 2) * 1000:
                later = [at for number, at in shown if number >= record["iteration"]]
                yield max(min(later, default=at_ms + WATCHED_S * 1000) - at_ms, 0)


def _share_95(delays: list[float]) -> float:
    if len(delays) < 20:
        raise NotMeasured(f"only {len(delays)} events were recorded")
    return quantiles(delays, n=20)[-1]
