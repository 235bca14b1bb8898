"""Start a loop and watch it end; stop, resume, approve; follow; lose the server and find it again."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

from tests.e2e.conftest import serving, sync_api, tab
from tests.e2e.shop import QUICK, RELEASE, WATCH, Shop
from tests.project import until

expect = sync_api.expect


def open_loops(page: Any) -> None:
    page.get_by_role("navigation").get_by_role("link", name="Loops").click()


def start(page: Any, loop: str) -> None:
    open_loops(page)
    page.get_by_role("button", name=f"Run {loop}").click()
    page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", level=1, name=loop)).to_be_visible()


def head(page: Any) -> Any:
    return page.locator(".run-head")


def test_start_a_loop_and_watch_it_end(shop: Shop, browser):
    shop.loop("quick", QUICK)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        open_loops(page)
        page.get_by_role("button", name="Run quick").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog.locator(".plan")).to_contain_text("echo building")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(head(page)).to_contain_text("completed")
        expect(page.get_by_role("option")).to_have_count(3)
        page.get_by_role("option").nth(1).click()
        expect(page.locator(".lines")).to_have_text(re.compile("12 passed"))
        page.get_by_role("navigation").get_by_role("link", name="Runs").click()
        expect(page.locator(".run")).to_contain_text("completed")
        assert "token" not in page.url


def test_where_the_kernel_reports_no_changes_the_page_polls(shop: Shop, browser):
    shop.loop("quick", QUICK)
    with serving(shop, "--poll") as server, tab(browser, server.url) as watched:
        page = watched.page
        expect(page.locator(".connection")).to_contain_text("polling")
        shop.ll("run", "quick")
        expect(page.locator("main .run")).to_contain_text("completed")


def test_stop_and_resume(shop: Shop, browser):
    shop.loop("watch", WATCH)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        start(page, "watch")
        expect(page.locator(".lines")).to_contain_text("line 2")
        page.get_by_role("button", name="Stop watch", exact=True).click()
        # The button has become the event that acknowledged it.
        expect(page.locator(".acknowledged")).to_contain_text("loop_interrupted · event")
        expect(head(page)).to_contain_text("interrupted")
        page.get_by_role("button", name="Resume watch", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Iterations").fill("80")
        dialog.get_by_role("button", name="Resume").click()
        expect(head(page).locator(".status")).to_contain_text("running")
        expect(head(page)).to_contain_text("of 80")
        page.get_by_role("button", name="Stop watch", exact=True).click()
        expect(head(page).locator(".status")).to_contain_text("interrupted")
        kinds = [event["event"] for event in shop.events("watch")]
        assert [kinds.count(kind) for kind in ("loop_interrupted", "resume")] == [2, 1]


LIMITED = """\
name: limited
initial: check
max_iterations: 2
states:
  check: {action: "echo not yet; false", on_pass: done, on_fail: check}
  done: {terminal: true}
"""


def test_a_resume_that_must_wait_is_queued(shop: Shop, browser):
    shop.loop("limited", LIMITED)
    shop.loop("watch", WATCH)
    shop.ll("run", "limited")
    shop.ll("run", "watch", "--background")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        watched.expected = ["409"]  # the refusal
        ended = page.get_by_role("region", name="Ended")
        columns = "row => getComputedStyle(row).gridTemplateColumns"
        expect(ended.get_by_role("button", name="Resume limited")).to_be_visible()
        before = ended.locator(".run").evaluate(columns)
        ended.get_by_role("button", name="Resume limited").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        queue = page.get_by_role("dialog").get_by_role("button", name="Queue it")
        expect(queue).to_be_visible()
        held: list[Any] = []

        def hold(route: Any) -> None:
            held.append(route)

        page.route("**/resume", hold)
        queue.click()
        expect(ended.locator(".acknowledged")).to_contain_text("Resuming")
        assert ended.locator(".run").evaluate(columns) == before
        until(lambda: held or page.wait_for_timeout(20), "request")
        held[0].continue_()
        queued = page.get_by_role("region", name="Queued")
        expect(queued.locator(".run")).to_contain_text("It waits for watch, which is running")
        expect(ended).to_have_count(0)
        expect(page.locator(".acknowledged")).to_have_count(0)
        queued.get_by_role("link", name="limited").click()
        expect(head(page).locator(".status")).to_contain_text("queued")
        expect(head(page)).to_contain_text("It waits for watch, which is running")
        expect(page.get_by_role("option")).to_have_count(2)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator("main")).not_to_contain_text("1970")
        shop.ll("stop", "limited")
        # A new run has nothing to show yet.
        shop.loop("fresh", QUICK.replace("quick", "fresh"))
        with shop.started("run", "fresh", "--queue"):
            page.get_by_role("navigation").get_by_role("link", name="Runs").click()
            queued.get_by_role("link", name="fresh").click()
            expect(head(page)).to_contain_text("It waits for watch, which is running")
            expect(page.get_by_role("heading", name="About this run")).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
            expect(page.locator("main")).not_to_contain_text(re.compile("1970|No steps yet"))
        shop.ll("stop", "watch")


def test_many_runs_of_a_group_are_drawn_in_pieces(shop: Shop, browser):
    shop.loop("release", RELEASE)
    shop.ll("run", "release")
    for number in range(59):
        for suffix in (".state.json", ".events.jsonl"):
            data = shop.running("release", suffix).read_bytes()
            shop.running(f"release@{number}", suffix).write_bytes(data)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        waiting = page.get_by_role("region", name="Waiting for you")
        expect(waiting.get_by_role("heading")).to_have_text(re.compile("60"))
        expect(waiting.locator(".run")).to_have_count(50)
        waiting.get_by_role("button", name="Show more").click()
        expect(waiting.locator(".run")).to_have_count(60)


def pauses(shop: Shop, name: str) -> int:
    return sum(event["event"] == "loop_paused" for event in shop.events(name))


def test_answer_a_gate(shop: Shop, browser):
    shop.loop("release", RELEASE)
    shop.ll("run", "release")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        waiting = page.get_by_role("region", name="Waiting for you")
        expect(waiting).to_contain_text("Release 1.4 with these notes?")
        waiting.get_by_role("link", name="release").click()
        page.get_by_role("button", name="Reject release", exact=True).click()
        page.get_by_role("dialog").get_by_role("textbox").fill("mention the new flag")
        page.get_by_role("dialog").get_by_role("button", name="Reject").click()
        # The run works on the notes, and then waits at the gate again.
        until(lambda: pauses(shop, "release") == 2, "second gate")
        shop.ll("wait", "release")
        page.reload()  # what is clicked next belongs to the second gate
        page.get_by_role("button", name="Approve release", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(head(page).locator(".status")).to_contain_text("completed")
        answers = [e["verdict"] for e in shop.events("release") if e["event"] == "gate_answered"]
        assert answers == ["rejected", "approved"]


def test_follow_ten_thousand_lines(shop: Shop, browser):
    shop.loop("watch", WATCH.replace('"100000"', '"10000"').replace("sleep ${context.pause}", ":"))
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        start(page, "watch")
        expect(head(page)).to_contain_text("completed")
        page.get_by_role("option").first.click()
        lines = page.locator(".lines")
        expect(lines).to_contain_text("line 10000")
        # Few of them are in the document.
        assert page.locator(".lines .line").count() < 200
        page.get_by_label("Search the output").fill("line 4321")
        page.get_by_role("button", name="Search").click()
        page.locator(".hits button").first.click()
        expect(page.locator(".line.marked")).to_have_text(re.compile("line 4321"))


def test_the_server_is_killed_and_comes_back(shop: Shop, browser):
    shop.loop("watch", WATCH)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        watched.expected = ["Failed to load resource", "net::ERR"]
        start(page, "watch")
        expect(page.locator(".lines")).to_contain_text("line 1")
        token = server.token
        server.end(signal.SIGKILL)
        expect(page.locator(".connection")).to_contain_text("offline")
        server.start()
        if server.token != token:  # the page asks for the new URL
            page.goto(server.url)
            page.get_by_role("link", name="watch").first.click()
        expect(page.locator(".connection")).to_contain_text("live")
        last = page.locator(".lines .line").last
        expect(last).to_contain_text("line")
        expect(last).not_to_have_text(last.text_content() or "")
        page.get_by_role("button", name="Stop watch", exact=True).click()
        expect(head(page).locator(".status")).to_contain_text("interrupted")
        numbers = [event["seq"] for event in shop.events("watch")]
        assert numbers == sorted(set(numbers)), json.dumps(numbers)
