"""What people come for: why a run stopped, what it cost and changed, and going back or on from there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.e2e.conftest import serving, sync_api, tab
from tests.e2e.shop import API, FIX_TYPES, TUNE, WATCH, Shop
from tests.e2e.test_editor import editing, file_of, node, save
from tests.project import until

expect = sync_api.expect
NOTED = FIX_TYPES.replace("max_iterations: 10", "max_iterations: 1")


def done(shop: Shop, text: str) -> None:
    """Run the loop `fix-types` with this text until it ends or reaches its limit."""
    shop.loop("fix-types", text)
    shop.commit()
    shop.ll("trust", "fix-types")
    shop.ll("run", "fix-types")


def open_run(page: Any) -> None:
    page.get_by_role("link", name="fix-types", exact=True).first.click()
    expect(page.get_by_role("heading", level=1, name="fix-types")).to_be_visible()


def downloaded(page: Any, button: str) -> Path:
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    return Path(found.value.path())


def test_what_a_run_cost_and_changed_and_its_files(shop: Shop, browser):
    done(shop, FIX_TYPES)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        open_run(page)
        expect(page.locator(".run-head")).to_contain_text("$0.36")
        page.get_by_role("option").nth(3).click()  # the second turn
        changes = page.get_by_role("region", name="Changes to src/api.py")
        expect(changes).to_contain_text("def discount(price: float, share: float) -> float:")
        expect(changes).not_to_contain_text("+def total")
        page.get_by_text("What the whole run has changed").click()
        whole = page.get_by_role("region", name="Changes to src/api.py").last
        expect(whole).to_contain_text("def total(prices: list[float]) -> float:")
        report = downloaded(page, "Download report").read_text()
        assert report.startswith("<!doctype html>")
        assert "Fix the next type error in src/api.py." in report
        receipt = json.loads(downloaded(page, "Download receipt").read_text())
        assert receipt["predicateType"]


def test_why_a_run_stopped_and_let_it_continue_with_a_note(shop: Shop, browser):
    done(shop, NOTED)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        open_run(page)
        head = page.locator(".run-head")
        expect(head).to_contain_text(
            "It reached its iteration limit in fix; check exited with 1: Found 2 errors"
        )
        page.get_by_role("button", name="Resume fix-types", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Iterations")).to_have_value("2")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        # In the list, too, a run that has reached its limit is not resumed only to reach it again.
        page.get_by_role("navigation").get_by_role("link", name="Runs").click()
        page.get_by_role("button", name="Resume fix-types", exact=True).click()
        expect(dialog.get_by_label("Iterations")).to_have_value("2")
        page.keyboard.press("Escape")
        open_run(page)
        page.get_by_role("button", name="Resume fix-types", exact=True).click()
        dialog.get_by_label("Iterations").fill("10")
        dialog.get_by_label("For the next agent").fill("keep the names")
        dialog.get_by_role("button", name="Resume").click()
        expect(head.locator(".status")).to_contain_text("completed")
    notes = [each["text"] for each in shop.events("fix-types") if each["event"] == "note_received"]
    assert notes == ["keep the names"]


FAILING = """\
name: fetch
initial: get
states:
  get: {action: "echo fetching; echo 'curl: (28) timed out' >&2; exit 28", on_error: gave-up, on_fail: gave-up, on_pass: done}
  done: {terminal: true}
  gave-up: {terminal: true, outcome: failure}
"""


def test_the_list_says_why_a_run_failed(shop: Shop, browser):
    shop.loop("fetch", FAILING)
    shop.ll("run", "fetch")
    with serving(shop) as server, tab(browser, server.url) as watched:
        why = "It ended in the failure state gave-up after get exited with 28: curl: (28) timed out"
        expect(watched.page.locator(".run-why")).to_have_text(why)


FLAKY = """\
name: fetch
initial: get
context: {from: main, retries: "2"}
states:
  get: {action: "echo ${context.from}; [ -e there ] || { echo 'not there' >&2; false; }", on_fail: gave-up, on_pass: done}
  done: {terminal: true}
  gave-up: {terminal: true, outcome: failure}
"""


def fetched(shop: Shop) -> None:
    """Let a run fail that was started with a value of its own, and then one without."""
    shop.loop("fetch", FLAKY)
    shop.ll("run", "fetch", "--context", "from=mirror")
    shop.ll("run", "fetch")


def test_the_runs_of_a_loop_can_be_told_apart(shop: Shop, browser):
    fetched(shop)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        plain, given = (page.locator("main .run").nth(number) for number in (0, 1))
        expect(given.locator(".tag")).to_have_text("from=mirror")
        expect(plain.locator(".tag")).to_have_count(0)
        expect(given).to_contain_text("in gave-up")
        for row in (plain, given):
            expect(row.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
        ids = [plain.locator(".run-id").text_content(), given.locator(".run-id").text_content()]
        assert ids[0] != ids[1]
        page.get_by_label("Search").fill(ids[1] or "")
        expect(page.locator("main .run")).to_have_count(1)
        expect(page.locator("main .run .tag")).to_have_text("from=mirror")


def test_search_while_a_run_writes(shop: Shop, browser):
    fetched(shop)
    shop.loop("watch", WATCH.replace('pause: "0.2"', 'pause: "0.02"'))
    shop.ll("run", "watch", "--background")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        ended = page.get_by_role("region", name="Ended")
        expect(page.get_by_role("region", name="Running")).to_be_visible()
        search = page.get_by_label("Search")
        search.press_sequentially("mirror", delay=150)
        expect(ended.locator(".run")).to_have_count(0)
        expect(search).to_have_value("mirror")
        search.fill("gave-up")
        expect(ended.locator(".run")).to_have_count(2)
        page.get_by_role("link", name="Clear").click()
        expect(search).to_have_value("")
        expect(page.get_by_role("region", name="Running")).to_be_visible()
        shop.ll("stop", "watch")


def test_the_whole_line_of_a_run_opens_it(shop: Shop, browser):
    fetched(shop)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        line = page.locator("main .run-line").first
        line.click(position={"x": 20, "y": 10})
        expect(page.get_by_role("heading", level=1, name="fetch")).to_be_visible()


def test_run_a_failed_run_again_with_the_same_values(shop: Shop, browser):
    fetched(shop)
    (shop.root / "there").touch()
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        dialog = page.get_by_role("dialog")
        failed = page.locator("main .run", has_text="from=mirror")
        failed.get_by_role("button", name="Run again: fetch").click()
        expect(dialog.get_by_label("from")).to_have_value("mirror")
        page.keyboard.press("Escape")
        failed.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1, name="fetch")).to_be_visible()
        page.get_by_role("button", name="Run again: fetch", exact=True).click()
        expect(dialog.get_by_label("from")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".run-head .status")).to_contain_text("completed")
        expect(page.locator(".variables")).to_contain_text("mirror")
        expect(page.locator(".step-view .lines")).to_contain_text("mirror")


def test_what_failed_is_marked_in_the_machine_and_the_steps_are_on_the_first_screen(
    shop: Shop, browser
):
    fetched(shop)
    size = {"width": 1280, "height": 720}
    with serving(shop) as server, tab(browser, server.url, viewport=size) as watched:
        page = watched.page
        page.locator("main .run").first.get_by_role("link").click()
        failed, end = (page.locator(f'[data-state="{name}"]') for name in ("get", "gave-up"))
        expect(failed.locator(".ending")).to_contain_text("failed here")
        expect(failed.locator("title").first).to_contain_text("failed here")
        expect(end.locator(".ending")).to_contain_text("ended here")
        expect(page.locator(".state .ending")).to_have_count(2)
        for step in (0, 1):
            expect(page.get_by_role("option").nth(step)).to_be_in_viewport(ratio=1)


def test_undo_is_not_offered_if_nothing_was_changed(shop: Shop, browser):
    fetched(shop)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        page.locator("main .run").first.get_by_role("link").click()
        expect(page.get_by_role("button", name="Run again: fetch", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_from_a_failed_step_to_its_retry(shop: Shop, browser):
    fetched(shop)
    size = {"width": 1280, "height": 720}
    with (
        serving(shop, "--edit") as server,
        tab(browser, server.url, viewport=size) as watched,
    ):
        page = watched.page
        page.locator("main .run").first.get_by_role("link").click()
        page.get_by_role("link", name="Edit this state").click()
        tools = page.get_by_role("toolbar", name="State get")
        retry = tools.get_by_role("button", name="Retry…")
        expect(retry).to_be_in_viewport(ratio=1)
        retry.click()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("next: gave-up")
        run = page.get_by_role("button", name="Run…")
        expect(run).to_have_count(0)  # the file is not what is shown
        save(page)
        run.click()
        page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".run-head .status")).to_contain_text("failed")
        expect(page.get_by_role("listbox", name="2 steps")).to_contain_text("3 attempts")
    assert shop.ll("validate", "fetch").returncode == 0


def test_a_chart_shows_the_target_that_the_loop_was_started_with(shop: Shop, browser):
    shop.loop("tune", TUNE)
    shop.ll("run", "tune", "--context", "target=120")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        page.get_by_role("link", name="tune", exact=True).first.click()
        chart = page.get_by_role("img", name=re.compile("Measured value: 340 at first"))
        expect(chart).to_contain_text("target 120")
        expect(chart).to_contain_text("measurement")


def test_fork_a_run_and_undo_it(shop: Shop, browser):
    done(shop, FIX_TYPES)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        open_run(page)
        page.get_by_role("option").nth(1).click()  # the first turn
        expect(page.locator(".step-view")).to_contain_text("Step 2 ·")
        page.get_by_role("button", name="Fork here").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Fork", exact=True).click()
        dialog.get_by_role("link", name="Open the fork").click()
        expect(page.locator(".run-head .status")).to_contain_text("completed")
        page.get_by_role("navigation").get_by_role("link", name="Runs").click()
        expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
        expect(page.get_by_text("after step 2")).to_be_visible()

        page.get_by_role("link", name="fix-types", exact=True).first.click()
        page.get_by_role("button", name="Undo fix-types", exact=True).click()
        dialog.get_by_role("button", name="Show what would change").click()
        expect(dialog.locator("pre")).to_contain_text("src/api.py")
        assert "TODO" not in shop.file("src/api.py")
        dialog.get_by_role("button", name="Undo", exact=True).click()
        until(lambda: shop.file("src/api.py") == API, "file as it was")


def test_add_a_retry_to_a_state(shop: Shop, browser):
    path = shop.loop("fix-types", FIX_TYPES)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        node(page, "fix").click()
        page.locator(".add-field").last.select_option("retry")
        row = page.locator(".field-row", has=page.get_by_text("retry", exact=True)).first
        row.locator(".add-field").select_option("max")
        row.get_by_label("max", exact=True).fill("2")
        row.get_by_label("max", exact=True).blur()
        expect(page.locator(".cm-content")).to_contain_text("retry:")
        save(page)
    assert path == file_of(shop, "fix-types")
    assert "max: 2" in path.read_text()
    assert shop.ll("validate", "fix-types").returncode == 0


SMOKE = """\
name: deploy
initial: smoke
states:
  smoke:   # is it up?
    action: curl -fsS http://127.0.0.1/health
    on_pass: done
    on_fail: broken
  done: {terminal: true}
  broken: {terminal: true, outcome: failure}
"""


def test_retry_a_state_by_keyboard(shop: Shop, browser):
    """One dialog writes what a retry needs: the transition, its limit, and where it leads after that."""
    path = shop.loop("deploy", SMOKE)
    with editing(shop, browser, "deploy") as watched:
        page = watched.page
        keys = page.keyboard
        node(page, "smoke").focus()
        keys.press("Enter")
        keys.press("r")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Run it again after")).to_be_focused()
        expect(dialog.get_by_label("If the last run does not pass")).to_have_value("broken")
        keys.press("Tab")
        keys.press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("next: broken")
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".cm-content")).to_contain_text("on_fail: broken")
        page.get_by_role("button", name="Redo").click()
        expect(page.locator(".cm-content")).to_contain_text("on_fail: $current")
        save(page)
    assert "# is it up?" in path.read_text()
    assert "max: 3" in path.read_text()
    assert shop.ll("validate", "deploy").stderr == ""


def test_arrow_keys_choose_a_field_and_enter_adds_it(shop: Shop, browser):
    shop.loop("deploy", SMOKE)
    with editing(shop, browser, "deploy") as watched:
        page = watched.page
        node(page, "smoke").click()
        form = page.get_by_role("region", name="State smoke")
        before = form.locator(".field-row").count()
        form.get_by_label("Add a field").focus()
        page.keyboard.type("time")
        expect(form.get_by_role("button", name="Add timeout")).to_be_visible()
        assert form.locator(".field-row").count() == before
        page.keyboard.press("Enter")
        expect(form.get_by_label("timeout", exact=True)).to_be_focused()
        page.keyboard.type("10m")
        page.keyboard.press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("timeout: 10m")
        # A target, too, is set once it is chosen, not at each key on the way.
        form.get_by_label("Target of pass").focus()
        page.keyboard.press("ArrowDown")
        expect(page.locator(".cm-content")).to_contain_text("on_pass: done")
        page.keyboard.press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("on_pass: smoke")


FAILED = SMOKE.replace(
    "curl -fsS http://127.0.0.1/health", "echo GET /health; echo HTTP 503 >&2; exit 1"
)


def test_a_failed_step_shows_what_it_printed_as_an_error_at_once(shop: Shop, browser):
    shop.loop("deploy", FAILED)
    shop.ll("run", "deploy")
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        page.get_by_role("link", name="deploy", exact=True).click()
        step = page.locator(".step-view")
        expect(step.get_by_role("region", name="stderr, step 1")).to_contain_text("HTTP 503")
        expect(step.get_by_role("region", name="stdout, step 1")).to_contain_text("GET /health")


def test_start_from_a_template(shop: Shop, browser):
    with serving(shop, "--edit") as server, tab(browser, server.url) as watched:
        page = watched.page
        page.get_by_role("navigation").get_by_role("link", name="Loops").click()
        page.get_by_role("button", name="New loop").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("radio", name="lint").check()
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(".loops/fix-lint.yaml")
    assert "name: fix-lint" in file_of(shop, "fix-lint").read_text()
