"""What the page promises everywhere: accessible, by keyboard, for its reader alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import CHROMIUM, FLAGS, Server, serving, sync_api, tab
from tests.e2e.shop import QUICK, Shop
from tests.project import until

expect = sync_api.expect
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = """async () => (await axe.run()).violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`)"""


def visit(page: Any, view: str) -> None:
    """Open a view by its links, as a reader does, and wait until it is loaded."""
    name, _, item = view.partition(" ")
    page.get_by_role("navigation").get_by_role("link", name=name).click()
    if item:
        page.get_by_role("link", name=item, exact=True).first.click()
    # The heading of the view before it may still be there.
    expect(page.locator("h1")).to_have_text(item or name)
    expect(page.locator(".loading")).to_have_count(0)


VIEWS = ["Runs", "Runs fix-types", "Runs release", "Loops", "Loops tune", "Loops broken", "Charts"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(busy_server: Server, browser, scheme: str):
    # The rules are evaluated by a script of the test, which the page's policy would not admit.
    with tab(browser, busy_server.url, color_scheme=scheme, bypass_csp=True) as watched:
        watched.page.wait_for_selector("h1")
        watched.page.add_script_tag(content=AXE.read_text())
        found = {}
        for view in VIEWS:
            visit(watched.page, view)
            if problems := watched.page.evaluate(RULES):
                found[view] = problems
        assert found == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility_of_the_editor(shop: Shop, browser, scheme: str):
    shop.loop("quick", QUICK)
    with (
        serving(shop, "--edit") as server,
        tab(browser, server.url, color_scheme=scheme, bypass_csp=True) as watched,
    ):
        page = watched.page
        visit(page, "Loops")
        page.get_by_role("link", name="Edit quick").click()
        page.locator('.react-flow__node[data-id="build"]').click()
        expect(page.get_by_role("heading", name="State build")).to_be_visible()
        expect(page.locator(".connection")).to_contain_text("live")
        page.add_script_tag(content=AXE.read_text())
        assert page.evaluate(RULES) == []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_a_small_screen(busy_server: Server, browser, view: str):
    with tab(browser, busy_server.url, viewport={"width": 360, "height": 740}) as watched:
        visit(watched.page, view)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_policy_forbids_inline_scripts_and_styles(busy_server: Server, browser):
    with tab(browser, busy_server.url) as watched:
        page = watched.page
        expect(page.locator("h1")).to_be_visible()
        watched.check()
        watched.expected = ["Content Security Policy"]
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
        )
        assert page.evaluate("window.ran") is None
        assert watched.problems != []


def test_all_by_keyboard(shop: Shop, browser):
    shop.loop("quick", QUICK)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        expect(page.locator("h1")).to_be_visible()

        def tab_to(name: str) -> None:
            for _ in range(60):
                page.keyboard.press("Tab")
                label = page.evaluate(
                    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
                )
                if label == name:
                    return
            raise AssertionError(f"Tab does not reach {name!r}")

        tab_to("Loops")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name="Loops")).to_be_focused()
        expect(page.get_by_role("button", name="Run quick")).to_be_visible()
        tab_to("Run quick")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_label("Iterations")).to_be_visible()
        tab_to("Run")
        page.keyboard.press("Enter")
        expect(page.locator(".run-head")).to_contain_text("completed")
        expect(page.get_by_role("option")).to_have_count(3)
        tab_to("3 steps")
        page.keyboard.press("Home")
        expect(page.locator(".step-view")).to_contain_text("Step 1")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".step-view")).to_contain_text("Step 2")


def test_a_tab_without_a_token_asks_the_others(busy_server: Server, browser):
    with tab(browser, busy_server.url) as watched:
        expect(watched.page.locator("h1")).to_be_visible()
        other = watched.context.new_page()
        other.goto(busy_server.base)
        expect(other.locator("h1")).to_have_text("Runs")
    with tab(browser, busy_server.base) as alone:
        expect(alone.page.locator("main")).to_contain_text("This tab has no token")
        # Opened in another tab, the URL helps this one, too.
        alone.context.new_page().goto(busy_server.url)
        expect(alone.page.locator("h1")).to_have_text("Runs")


def test_enter_does_not_close_a_dialog_that_was_just_opened(busy_server: Server, browser):
    with tab(browser, busy_server.url) as watched:
        page = watched.page
        dialog = page.get_by_role("dialog")
        for view, button, field in (
            ("Runs release", "Approve release", dialog.get_by_role("combobox")),
            ("Runs release", "Reject release", dialog.get_by_role("textbox")),
            ("Runs fix-types", "Undo fix-types", dialog.get_by_role("button", name="Show what")),
            ("Runs fix-types", "Fork here", dialog.get_by_role("button", name="Fork", exact=True)),
            ("Loops watch", "Run", dialog.get_by_label("lines")),
        ):
            visit(page, view)
            page.get_by_role("button", name=button, exact=True).click()
            expect(field).to_be_focused()
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)


def test_read_only_shows_no_action(busy: Shop, browser):
    with serving(busy, "--read-only") as server, tab(browser, server.url) as watched:
        expect(watched.page.locator(".run").first).to_be_visible()
        expect(watched.page.locator(".run button:has-text('Approve')")).to_have_count(0)
        visit(watched.page, "Loops")
        expect(watched.page.locator(".loop button")).to_have_count(0)


# ── attacks ────────────────────────────────────────────────────────────────────────────────────

ATTACK = """<!doctype html><title>attack</title><script>
async function attack(base, options) {
  try { const answer = await fetch(base + "api/runs", options); return `${answer.status} ${await answer.text()}`; }
  catch (error) { return "refused"; }
}
</script>"""


@contextmanager
def hostile_page() -> Iterator[str]:
    """A page of another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = ATTACK.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _address(page: Any) -> str:
    """Where the frame of a page is; empty if it is nowhere yet."""
    page.wait_for_timeout(20)  # the browser's events arrive meanwhile
    return str(page.frames[1].url) if len(page.frames) > 1 else ""


def test_a_page_of_another_origin_gets_nothing(busy_server: Server, browser):
    with hostile_page() as url, tab(browser, url) as watched:
        watched.expected = ["CORS", "Failed to load resource", "ERR_FAILED"]
        page, base = watched.page, busy_server.base
        headers = {"Authorization": f"Bearer {busy_server.token}"}
        assert page.evaluate("([b, o]) => attack(b, o)", [base, {}]) == "refused"
        assert page.evaluate("([b, o]) => attack(b, o)", [base, {"headers": headers}]) == "refused"
        body = {"method": "POST", "body": "{}", "mode": "no-cors"}
        page.evaluate("([b, o]) => attack(b, o)", [base, body])
        frame = "document.body.append(Object.assign(document.createElement('iframe'), {src: '%s'}))"
        watched.expected += ["frame", "Framing", "X-Frame-Options"]
        page.evaluate(frame % base)
        page.wait_for_function("frames.length === 1")
        until(lambda: _address(page) != "", "frame")
        assert _address(page) == "chrome-error://chromewebdata/"


def test_a_name_that_is_rebound_to_this_machine_gets_nothing(busy_server: Server, browser):
    flags = [*FLAGS, "--host-resolver-rules=MAP attacker.example 127.0.0.1"]
    other = browser.browser_type.launch(executable_path=CHROMIUM, args=flags)
    try:
        page = other.new_page()
        address = f"http://attacker.example:{busy_server.port}"
        assert [page.goto(f"{address}{path}").status for path in ("/", "/api/runs")] == [421, 421]
    finally:
        other.close()
