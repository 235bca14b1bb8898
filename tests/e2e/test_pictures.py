"""Pictures of the page: twelve scenes, wide and narrow, light and dark.

`make pictures` keeps them in `.cache/pictures`, and writes those of the manual. Look at each of them:

- The eye finds the name, the status and what to do first.
- Status is told by a word and a shape, not by its colour alone.
- Nothing is cut, covered or wider than the screen; long names wrap.
- Times and numbers have units, and columns of them are aligned.
- An empty, failed or offline page says what to do next.
- Dark is as legible as light.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Server, serving, sync_api, tab
from tests.e2e.shop import ALL, QUICK, Shop, busy_shop
from tests.e2e.test_page import visit

expect = sync_api.expect
NARROW = {"viewport": {"width": 360, "height": 740}}
ZOOMED = {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2}
LONG = "a-loop-with-a-name-that-is-much-longer-than-anybody-would-choose-for-a-loop"
RTL = """\
name: rtl
description: "\u05ea\u05d9\u05e7\u05d5\u05df \u05db\u05dc \u05d4\u05e9\u05d2\u05d9\u05d0\u05d5\u05ea (src/)"
initial: say
states:
  say: {action: "echo '\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645: 3 errors'", next: done}
  done: {terminal: true}
"""


def many_states(count: int) -> str:
    """A loop with this number of states."""
    lines = ["name: large", "initial: s1", "states:"]
    for n in range(1, count):
        back = f", on_fail: s{max(n - 7, 1)}" if n % 5 == 0 else ""
        lines.append(f"  s{n}: {{action: 'true', on_pass: s{n + 1}{back}}}")
    return "\n".join([*lines, f"  s{count}: {{terminal: true}}", ""])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("PICTURES")
    path = Path(kept).resolve() if kept else tmp_path_factory.mktemp("pictures")
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Many past runs, a large loop, a run with very many steps, long and right-to-left texts."""
    shop = busy_shop(tmp_path_factory.mktemp("crowded"))
    shop.loops({"large": many_states(200), "rtl": RTL, LONG: QUICK.replace("quick", LONG)})
    spin = (
        "name: spin\ninitial: a\nmax_iterations: 100000\nstates:\n  a: {action: 'true', next: b}\n"
    )
    shop.loop("spin", spin + "  b: {terminal: true}\n")
    for name in ("large", "rtl", LONG, "spin"):
        shop.ll("run", name)
    lengthen(shop.past("spin"), 12_500)
    copy_runs(shop, "quick", 500)
    with serving(shop, "--edit") as server:
        yield server
    shop.end_actions()


def copy_runs(shop: Shop, name: str, count: int) -> None:
    """Write past runs that differ only in when they started."""
    folder = shop.past(name).parent
    stem = shop.past(name).name.removesuffix(".events.jsonl")
    files = [path for path in folder.iterdir() if path.name.startswith(f"{stem}.")]
    for n in range(count):
        other = f"2026-10-{n % 28 + 1:02}T{n // 28:02}-00-00"
        for path in files:
            if path.is_file():
                (folder / path.name.replace(stem, other)).write_bytes(path.read_bytes())


def lengthen(log: Path, visits: int) -> None:
    """Let a run have entered its first state again and again."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    start, end = lines[:1], lines[-2:]
    turn = [line for line in lines if line.get("state") == "a" or line.get("from") == "a"]
    events = list(start)
    for n in range(1, visits + 1):
        for line in turn:
            again = {"step": n, "iteration": n} if "step" in line else {}
            events.append({**line, **again})
    for seq, event in enumerate([*events, *end], 1):
        event["seq"] = seq
        if event.get("state") == "b" and "step" in event:
            event["step"] = event["iteration"] = visits + 1
    log.write_text("\n".join(map(json.dumps, [*events, *end])) + "\n")


SCENES = [
    ("runs", "Runs", {}),
    ("runs-dark", "Runs", {"color_scheme": "dark"}),
    ("runs-narrow", "Runs", NARROW),
    ("run", "Runs fix-types", {}),
    ("run-dark", "Runs fix-types", {"color_scheme": "dark"}),
    ("run-narrow", "Runs fix-types", NARROW),
    ("run-zoomed", "Runs release", ZOOMED),
    ("loops", "Loops", {}),
    ("loops-narrow-dark", "Loops", {**NARROW, "color_scheme": "dark"}),
    ("charts", "Charts tune", {}),
    ("large", "Loops large", {}),
    ("long-names", f"Loops {LONG}", NARROW),
    ("right-to-left", "Runs rtl", {}),
    ("error", "Loops broken", {}),
    ("edit", "Edit fix-types", {}),
    ("edit-dark", "Edit fix-types", {"color_scheme": "dark"}),
    ("edit-narrow", "Edit fix-types", NARROW),
]
MANUAL = {"page-runs": "Runs", "page-run": "Runs fix-types", "page-edit": "Edit fix-types"}


def show(page: Any, base: str, view: str) -> None:
    """Open a view, and wait until it is complete."""
    page.wait_for_selector("h1")
    match view.split():
        case ["Runs", "release" | "rtl" | "fix-types" as loop]:
            page.goto(f"{base}#/runs/{loop}")
            lines = page.locator(".step-view .lines").first
            expect(lines).to_be_visible()
            expect(lines).not_to_contain_text("Loading")
        case ["Charts", loop]:
            visit(page, "Charts")
            page.locator(".view-head select").select_option(label=loop)
            expect(page.get_by_role("heading", name="Measured value")).to_be_visible()
        case ["Edit", loop]:
            page.goto(f"{base}#/edit/{loop}.yaml")
            page.locator('.react-flow__node[data-id="check"]').click()
            expect(page.get_by_role("heading", name="State check")).to_be_visible()
            page.evaluate("scrollTo(0, 0)")
        case _:
            visit(page, view)
    expect(page.locator(".connection")).to_contain_text("live")


@pytest.mark.parametrize(("name", "view", "options"), SCENES, ids=[scene[0] for scene in SCENES])
def test_a_scene(crowded: Server, browser, place: Path, name: str, view: str, options: Any):
    with tab(browser, crowded.url, **options) as watched:
        page = watched.page
        show(page, crowded.base, view)
        width = page.viewport_size["width"]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.screenshot(path=place / f"{name}.png", full_page=not name.startswith("runs"))


def test_pictures_for_the_manual(busy: Shop, browser, place: Path):
    with (
        serving(busy, "--edit") as server,
        tab(browser, server.url, viewport={"width": 1240, "height": 840}) as watched,
    ):
        for name, view in MANUAL.items():
            show(watched.page, server.base, view)
            watched.page.screenshot(path=place / f"{name}.png")


def test_an_empty_page(shop: Shop, browser, place: Path):
    with serving(shop) as server, tab(browser, server.url) as watched:
        expect(watched.page.locator(".empty")).to_contain_text("No runs yet")
        watched.page.screenshot(path=place / "empty.png")
        visit(watched.page, "Loops")
        expect(watched.page.locator(".empty")).to_contain_text("No loops yet")


def test_an_offline_page(shop: Shop, browser, place: Path):
    shop.loops(ALL)
    shop.ll("run", "quick")
    with serving(shop) as server, tab(browser, server.url) as watched:
        watched.expected = ["Failed to load resource", "net::ERR"]
        expect(watched.page.locator(".run")).to_be_visible()
        server.end(signal.SIGKILL)
        expect(watched.page.locator(".connection")).to_contain_text("offline")
        expect(watched.page.locator(".run")).to_be_visible()
        expect(watched.page.locator("main")).to_contain_text("The server is not responding")
        watched.page.screenshot(path=place / "offline.png")


def test_a_run_of_fifty_thousand_events(crowded: Server, browser, place: Path):
    with tab(browser, crowded.url) as watched:
        page = watched.page
        page.wait_for_selector("h1")
        page.goto(f"{crowded.base}#/runs/spin")
        steps = page.get_by_role("listbox")
        expect(steps).to_have_attribute("aria-label", "12,501 steps")
        assert page.get_by_role("option").count() < 100
        steps.focus()
        page.keyboard.press("Home")
        expect(page.locator(".step-view")).to_contain_text("Step 1 ·")
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=place / "many-events.png", full_page=True)
