"""What each view shows and offers, as far as the tests of tasks and of watching do not: filters, trees, consent."""

from __future__ import annotations

import json

from tests.e2e.conftest import Server, serving, sync_api, tab
from tests.e2e.shop import FIX_TYPES, WATCH, Shop
from tests.e2e.test_page import visit
from tests.project import until

expect = sync_api.expect


def test_runs_are_filtered_by_status_loop_and_day(busy_server: Server, browser):
    with tab(browser, busy_server.url) as watched:
        page = watched.page
        runs = page.locator("main .run")
        expect(runs).to_have_count(7)
        page.get_by_label("Status").select_option("failed")
        expect(runs).to_have_count(1)
        expect(runs).to_contain_text("review")
        page.reload()  # the URL has the filter
        expect(runs).to_have_count(1)
        page.get_by_role("link", name="Clear").click()
        page.get_by_role("search").get_by_label("Loop").select_option("quick")
        expect(runs).to_have_count(2)
        page.get_by_label("Day").fill("2020-01-01")
        expect(page.locator(".empty")).to_contain_text("No run matches")
        page.get_by_role("link", name="Show all runs").click()
        expect(runs).to_have_count(7)
        expect(page.locator(".totals")).to_contain_text("$0.36 today")
        expect(page.locator(".totals")).to_contain_text("$0.36 this week")


def test_the_runs_that_a_run_started_are_a_tree(busy_server: Server, browser):
    with tab(browser, busy_server.url) as watched:
        page = watched.page
        failed = page.locator("main .run", has_text="It ended in the failure state")
        failed.get_by_role("button", name="Show the runs it started").click()
        children = failed.locator(".children .run")
        expect(children).to_have_count(3)
        children.first.get_by_role("link").click()
        expect(page.locator(".crumbs").get_by_role("link", name="review")).to_be_visible()


def test_without_consent_the_page_names_the_command_and_has_no_button(shop: Shop, browser):
    shop.loop("fix-types", FIX_TYPES)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        visit(page, "Loops")
        page.get_by_role("button", name="Run fix-types").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("ll-loop trust fix-types")
        expect(dialog.get_by_role("button", name="Dry run")).to_be_enabled()
        expect(dialog.get_by_role("button", name="Run", exact=True)).to_have_count(0)


def test_a_run_gets_the_context_that_was_filled_in(shop: Shop, browser):
    shop.loop("watch", WATCH)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        visit(page, "Loops")
        page.get_by_role("button", name="Run watch").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("These values become part of scripts, as code")
        dialog.get_by_label("lines").fill("3")
        dialog.get_by_label("pause").fill("0")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".run-head .status")).to_contain_text("completed")
        expect(page.get_by_role("region", name="Context")).to_contain_text("lines")
        expect(page.locator(".variables dd").first).to_have_text("3")
        page.get_by_role("option").first.click()
        expect(page.locator(".lines .line")).to_have_count(3)


HANDOFF = """\
name: port
initial: port
evidence: false
host: {name: command, command: [sh, -c, 'echo "$0"; if [ -e half ]; then echo ported; else touch half; echo "CONTEXT_HANDOFF: api.py is ported"; fi', "{prompt}"]}
states:
  port: {action: Port it., action_type: prompt, next: done}
  done: {terminal: true}
"""


def test_answer_a_handoff(shop: Shop, browser):
    shop.loop("port", HANDOFF)
    shop.ll("trust", "port")
    shop.ll("run", "port")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        waiting = page.get_by_role("region", name="Waiting for you")
        expect(waiting).to_contain_text("api.py is ported")
        waiting.get_by_role("link", name="port").click()
        expect(page.locator(".run-head")).to_contain_text("waiting for a fresh session")
        page.get_by_role("button", name="Resume port", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("For the next agent").fill("db.py is next")
        dialog.get_by_role("button", name="Resume").click()
        expect(page.locator(".run-head .status")).to_contain_text("completed")
        expect(page.locator(".timeline .legend")).to_contain_text("handoff")
    until(lambda: "note_received" in json.dumps(shop.events("port")), "note")


def test_times_are_in_the_zone_of_the_reader(busy_server: Server, browser):
    with tab(browser, busy_server.url, timezone_id="Asia/Kathmandu") as watched:
        visit(watched.page, "Runs fix-types")
        expect(watched.page.locator(".facts.about")).to_contain_text("GMT+5:45")


def test_nothing_moves_where_the_system_says_so(shop: Shop, browser):
    shop.loop("watch", WATCH)
    shop.ll("run", "watch", "--background")
    moving = "document.getAnimations().length"
    with serving(shop) as server:
        with tab(browser, server.url, reduced_motion="reduce") as watched:
            visit(watched.page, "Runs watch")
            expect(watched.page.locator(".run-head .icon .arc")).to_be_visible()
            assert watched.page.evaluate(moving) == 0
        with tab(browser, server.url) as watched:
            visit(watched.page, "Runs watch")
            expect(watched.page.locator(".run-head .icon .arc")).to_be_visible()
            assert watched.page.evaluate(moving) > 0
    shop.ll("stop", "watch")
