"""The editor in a real browser: by mouse, by keyboard, at random, and while somebody else edits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from little_loops.authoring.edits.apply import Edited
from little_loops.authoring.edits.layout import Splice
from little_loops.authoring.edits.operations import (
    OPERATIONS,
    AddState,
    Connect,
    DeleteState,
    Disconnect,
    Operation,
    RemoveField,
    RenameState,
    SetField,
    SetInitial,
)
from little_loops.authoring.load import load_data
from tests.authoring.edits.files import COMMENTED, FILES
from tests.authoring.edits.test_laws import (
    check_edit,
    check_small,
    draw,
    fits,
    intended,
    machine_of,
)
from tests.e2e.conftest import serving, sync_api, tab
from tests.e2e.shop import TUNE, Shop
from tests.e2e.test_page import AXE, RULES

expect = sync_api.expect


@contextmanager
def editing(shop: Shop, browser: Any, name: str, **options: Any) -> Iterator[Any]:
    """The editor of a loop, by the link that the page has for it; yields the tab."""
    with serving(shop, "--edit") as server, tab(browser, server.url, **options) as watched:
        watched.page.wait_for_selector("h1")
        watched.page.goto(f"{server.base}#/edit/{name}.yaml")
        watched.page.wait_for_selector(".react-flow__node")
        yield watched


def file_of(shop: Shop, name: str) -> Path:
    return shop.root / ".loops" / f"{name}.yaml"


def put(shop: Shop, name: str, text: str) -> Path:
    path = file_of(shop, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def node(page: Any, state: str) -> Any:
    return page.locator(f'.react-flow__node[data-id="{state}"]')


def save(page: Any) -> None:
    """Save, after a look at the difference."""
    page.get_by_role("button", name="Save…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Difference")).to_be_visible()
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()


def drag(page: Any, source: str, target: str) -> None:
    """Drag from the dot below a state to another state, and drop near its left end."""
    node(page, source).locator(".react-flow__handle-bottom").hover()
    page.mouse.down()
    end = node(page, target).bounding_box()
    page.mouse.move(end["x"] + end["width"] / 8, end["y"] + end["height"] / 2, steps=6)
    page.mouse.up()


def test_edit_by_mouse(shop: Shop, browser):
    path = put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        drag(page, "check", "broken")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("When").select_option("error")
        dialog.get_by_role("button", name="Connect").click()
        expect(page.locator(".cm-content")).to_contain_text("on_error: broken")

        node(page, "tests").click()
        page.get_by_role("button", name="Rename…").click()
        dialog.get_by_label("Name").fill("pytest")
        dialog.get_by_role("button", name="Rename").click()
        expect(node(page, "pytest")).to_be_visible()

        page.get_by_role("button", name="Add a state").click()
        dialog.get_by_label("Name").fill("report")
        dialog.get_by_label("Action").fill("make report")
        dialog.get_by_role("button", name="Add").click()
        expect(node(page, "report")).to_be_visible()
        page.get_by_label("Add a field").select_option("timeout")
        page.get_by_label("timeout", exact=True).fill("10m")
        page.get_by_label("timeout", exact=True).blur()
        expect(page.locator(".cm-content")).to_contain_text("timeout: 10m")

        node(page, "done").click()
        page.get_by_role("button", name="Delete").click()
        expect(node(page, "done")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(node(page, "done")).to_be_visible()
        save(page)
    expected = (
        COMMENTED.replace("on_fail: fix\n\n\n", "on_fail: fix\n    on_error: broken\n\n\n")
        .replace("on_pass: tests", "on_pass: pytest")
        .replace("  tests:", "  pytest:")
        .replace(
            "    on_error: broken\n\n  # The end.",
            "    on_error: broken\n\n  report:\n    action: make report\n    timeout: 10m\n\n  # The end.",
        )
    )
    assert path.read_bytes() == expected.encode()


OUTSIDE = """() => {
  const pane = document.querySelector(".react-flow").getBoundingClientRect();
  return [...document.querySelectorAll(".react-flow__node")].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.left < pane.left || box.right > pane.right || box.top < pane.top || box.bottom > pane.bottom;
  }).map((each) => each.dataset.id);
}"""
FRAMES = """async (count) => {
  for (let n = 0; n < count; n++) await new Promise(requestAnimationFrame);
}"""


def test_the_drawing_fits_after_each_edit(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        dialog = page.get_by_role("dialog")
        for number in range(5):
            page.get_by_role("button", name="Add a state").click()
            dialog.get_by_label("Name").fill(f"another-end-{number}")
            dialog.get_by_label("The run ends here").check()
            dialog.get_by_role("button", name="Add").click()
            expect(node(page, f"another-end-{number}")).to_be_visible()
            assert page.evaluate(OUTSIDE) == []
        page.evaluate(FRAMES, 3)
        assert page.evaluate(OUTSIDE) == []


def test_a_drawing_that_is_seen_as_a_whole_does_not_move_while_connecting(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types", viewport={"width": 360, "height": 740}) as watched:
        page = watched.page
        node(page, "check").locator(".react-flow__handle-bottom").hover()
        before = node(page, "broken").bounding_box()
        pane = page.locator(".react-flow").bounding_box()
        page.mouse.down()
        page.mouse.move(pane["x"] + 3, pane["y"] + pane["height"] / 2, steps=6)
        page.evaluate(FRAMES, 20)
        assert node(page, "broken").bounding_box() == before
        page.mouse.move(before["x"] + 8, before["y"] + 8, steps=3)
        page.mouse.up()
        expect(page.get_by_role("dialog").get_by_label("Go to")).to_have_value("broken")


# Once the mouse is up, the states are drawn where they belong.
WIDER = """(before) => document.querySelector('.react-flow__node[data-id="tests"]').getBoundingClientRect().width > before"""


def test_an_answer_does_not_move_a_state_away_from_under_the_mouse(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        node(page, "tests").click()
        expect(page.get_by_role("heading", name="State tests")).to_be_visible()
        page.get_by_label("action", exact=True).fill(
            "a much longer action, for which the state is wider"
        )
        page.evaluate("scrollTo(0, 0)")
        before = node(page, "broken").bounding_box()
        narrow = node(page, "tests").bounding_box()["width"]
        page.mouse.move(before["x"] + 5, before["y"] + 15)
        with page.expect_response(lambda answer: "/preview" in answer.url):
            page.mouse.down()  # leaves the field, which sets it
        expect(page.locator(".cm-content")).to_contain_text("a much longer action")
        page.evaluate(FRAMES, 3)
        assert node(page, "broken").bounding_box() == before
        assert node(page, "tests").bounding_box()["width"] == narrow
        page.mouse.up()
        expect(page.get_by_role("heading", name="State broken")).to_be_visible()
        expect(node(page, "tests")).to_contain_text("a much longer action")
        page.wait_for_function(WIDER, arg=narrow)


def test_undo_takes_back_an_edit_that_is_on_its_way(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        late: list[Any] = []

        def keep(route: Any) -> None:
            late.append(route)

        text = page.locator(".cm-content")
        page.get_by_label("max_iterations", exact=True).fill("30")
        page.get_by_label("max_iterations", exact=True).press("Enter")
        expect(text).to_contain_text("max_iterations: 30")
        page.route("**/preview", keep)
        page.get_by_label("max_iterations", exact=True).fill("40")
        page.get_by_label("max_iterations", exact=True).press("Enter")
        expect(page.get_by_text("Checking…")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        late.pop().continue_()
        page.unroute("**/preview")
        expect(page.get_by_text("Checking…")).to_have_count(0)
        expect(text).to_contain_text("max_iterations: 30")
        expect(page.get_by_role("button", name="Redo")).to_be_enabled()
        page.get_by_role("button", name="Redo").click()
        expect(text).to_contain_text("max_iterations: 40")


def test_the_focus_returns_to_where_a_dialog_was_opened(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        button = page.get_by_role("button", name="Add a state")
        button.click()
        page.keyboard.press("Escape")
        expect(button).to_be_focused()
        node(page, "fix").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("F2")
        page.keyboard.press("Enter")  # the same name
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(node(page, "fix")).to_be_focused()


# A field appears, is filled and left, all before the next frame, as on a computer that is busy.
TYPE_AT_ONCE = """async () => {
  const menu = [...document.querySelectorAll(".add-field")].find((each) => each.querySelector("[value=timeout]"));
  const drawn = new Promise((done) => new MutationObserver(done).observe(document.body, { childList: true, subtree: true }));
  menu.value = "timeout";
  menu.dispatchEvent(new Event("change", { bubbles: true }));
  await drawn;
  const label = [...document.querySelectorAll("label")].find((each) => each.textContent === "timeout");
  const field = document.getElementById(label.htmlFor);
  field.focus();
  field.value = "10m";
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  const { port1, port2 } = new MessageChannel();
  await new Promise((done) => { port1.onmessage = done; port2.postMessage(null); });
  field.blur();
}"""


def test_a_field_that_is_filled_at_once_is_not_lost(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        node(watched.page, "tests").click()
        watched.page.evaluate(TYPE_AT_ONCE)
        expect(watched.page.locator(".cm-content")).to_contain_text("timeout: 10m")


def test_save_from_a_field_shows_and_writes_what_is_typed_in_it(shop: Shop, browser):
    path = put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        page.get_by_label("max_iterations", exact=True).fill("30")
        page.keyboard.press("Control+s")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Difference")).to_contain_text("+max_iterations: 30")
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        page.get_by_role("button", name="Save…").click()
        expect(page.get_by_text("Nothing to save")).to_be_visible()
    assert path.read_text() == COMMENTED.replace("max_iterations: 20", "max_iterations: 30")


def test_edit_by_keyboard(shop: Shop, browser):
    path = put(shop, "fix-types", COMMENTED.replace("\n", "\r\n"))
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        keys = page.keyboard
        node(page, "fix").focus()
        keys.press("Enter")
        expect(page.get_by_role("heading", name="State fix")).to_be_visible()
        keys.press("F2")
        expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        keys.press("Control+a")
        keys.type("repair")
        keys.press("Enter")
        expect(node(page, "repair")).to_be_visible()

        node(page, "repair").focus()
        keys.press("c")
        expect(page.get_by_label("When")).to_be_focused()
        page.get_by_label("When").press("t")  # timeout
        page.get_by_label("Go to").select_option("broken")
        page.get_by_label("Go to").press("Tab")
        keys.press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("on_timeout: broken")

        node(page, "check").focus()
        keys.press("a")
        expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        keys.type("stop")
        keys.press("Tab")
        keys.press("Space")
        keys.press("Enter")
        expect(node(page, "stop")).to_be_visible()

        node(page, "done").focus()
        keys.press("Delete")
        expect(node(page, "done")).to_have_count(0)
        node(page, "check").focus()
        keys.press("Control+z")
        expect(node(page, "done")).to_be_visible()
        keys.press("Control+s")
        expect(page.get_by_role("dialog").get_by_label("Difference")).to_be_visible()
        page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).press("Enter")
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    text = path.read_bytes().decode()
    assert "\n" not in text.replace("\r\n", "")
    assert "    next: check    # again\r\n    on_timeout: broken\r\n" in text
    assert "  repair:   # by an agent\r\n" in text
    assert "stop: {terminal: true}\r\n" in text


def test_type_in_the_text_and_see_the_problem_at_its_state(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        page = watched.page
        page.locator(".cm-line", has_text="next: check").click()
        page.keyboard.press("Home")
        page.keyboard.type("on_fial: done")
        page.keyboard.press("Enter")
        problems = page.get_by_label("Problems")
        expect(problems).to_contain_text("on_fial")
        expect(node(page, "fix").get_by_text("1 problem")).to_be_attached()
        expect(page.locator(".cm-lint-marker-error")).to_be_visible()
        page.keyboard.press("Control+z")
        expect(problems).to_contain_text("No problems")


def test_a_file_that_changed_meanwhile_is_not_overwritten(shop: Shop, browser):
    path = put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types") as watched:
        watched.expected.append("409")
        page = watched.page
        node(page, "tests").click()
        page.get_by_role("button", name="Start here").click()
        expect(page.get_by_text("Not saved")).to_be_visible()
        other = COMMENTED.replace("max_iterations: 20", "max_iterations: 30")
        path.write_text(other)
        page.get_by_role("button", name="Save…").click()
        page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
        dialog = page.get_by_role("dialog", name="The file has changed since you opened it")
        expect(dialog.get_by_label("Difference")).to_contain_text("-max_iterations: 30")
        assert path.read_text() == other
        dialog.get_by_role("button", name="Load the file").click()
        expect(page.locator(".cm-content")).to_contain_text("max_iterations: 30")
        node(page, "tests").click()
        page.get_by_role("button", name="Start here").click()
        expect(page.get_by_text("Not saved")).to_be_visible()
        save(page)
    assert path.read_text() == other.replace("initial: check", "initial: tests")


def test_a_paradigm_is_edited_by_its_fields_and_converted_to_states(shop: Shop, browser):
    path = put(shop, "tune", TUNE)
    with editing(shop, browser, "tune") as watched:
        page = watched.page
        expect(node(page, "measure")).to_be_visible()
        expect(page.locator(".react-flow__handle-bottom.connectable")).to_have_count(0)
        page.get_by_label("toward", exact=True).fill("90")
        page.get_by_label("toward", exact=True).press("Enter")
        expect(page.locator(".cm-content")).to_contain_text("toward: 90")
        save(page)
        page.get_by_role("button", name="Convert to states (writes a copy)").click()
        expect(page.locator("h1")).to_have_text(".loops/tune.states.yaml")
        expect(page.get_by_role("button", name="Add a state")).to_be_enabled()
    assert path.read_text() == TUNE.replace("toward: 100", "toward: 90")
    assert machine_of(file_of(shop, "tune.states").read_text()) is not None


def test_without_edit_nothing_can_be_changed(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with serving(shop) as server, tab(browser, server.url) as watched:
        page = watched.page
        page.wait_for_selector("h1")
        page.goto(f"{server.base}#/edit/fix-types.yaml")
        expect(page.get_by_text("ll-loop web --edit")).to_be_visible()
        expect(page.get_by_role("button", name="Add a state")).to_be_disabled()
        page.locator(".cm-content").click()
        page.keyboard.type("x")
        expect(page.get_by_text("Not saved")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(shop: Shop, browser, scheme: str):
    put(shop, "fix-types", COMMENTED)
    # The rules are evaluated by a script of the test, which the page's policy would not admit.
    options = {"color_scheme": scheme, "bypass_csp": True}
    with editing(shop, browser, "fix-types", **options) as watched:
        page = watched.page
        page.add_script_tag(content=AXE.read_text())
        node(page, "tests").click()
        assert page.evaluate(RULES) == []
        page.get_by_role("button", name="Connect to…").click()
        assert page.evaluate(RULES) == []


def test_nothing_is_wider_than_a_small_screen(shop: Shop, browser):
    put(shop, "fix-types", COMMENTED)
    with editing(shop, browser, "fix-types", viewport={"width": 360, "height": 740}) as watched:
        node(watched.page, "tests").click()
        assert watched.page.evaluate("document.documentElement.scrollWidth") == 360


# ── random edits ───────────────────────────────────────────────────────────────────────────────


def by_mouse(page: Any, operation: Operation) -> None:
    """Carry out an operation as somebody with a mouse does."""
    dialog = page.get_by_role("dialog")
    match operation:
        case AddState(name, fields):
            page.get_by_role("button", name="Add a state").click()
            dialog.get_by_label("Name").fill(name)
            if "action" in fields:
                dialog.get_by_label("Action").fill(fields["action"])
            else:
                dialog.get_by_label("The run ends here").check()
            dialog.get_by_role("button", name="Add").click()
        case RenameState(state, to):
            node(page, state).click()
            page.get_by_role("button", name="Rename…").click()
            dialog.get_by_label("Name").fill(to)
            dialog.get_by_role("button", name="Rename").click()
        case DeleteState(state):
            node(page, state).click()
            page.get_by_role("button", name="Delete", exact=True).click()
        case SetInitial(state):
            node(page, state).click()
            page.get_by_role("button", name="Start here").click()
        case Connect(state, on, target):
            drag(page, state, target)
            dialog.get_by_label("When").select_option(on)
            dialog.get_by_role("button", name="Connect").click()
        case Disconnect(state, on, target):
            node(page, state).click()
            page.get_by_label(f"Remove the transition {on} to {target}", exact=True).click()
        case SetField() | RemoveField():
            by_form(page, operation)


def by_form(page: Any, operation: SetField | RemoveField) -> None:
    """Set or remove a field with its control."""
    of_field(page, operation.path)
    name = str(operation.path[-1])
    if isinstance(operation, RemoveField):
        page.get_by_role("button", name=f"Remove {name}", exact=True).click()
        return
    field = page.get_by_label(name, exact=True)
    if field.count() == 0:
        page.locator(".add-field").last.select_option(name)  # those before are of nested fields
    field.fill(str(operation.value))
    field.blur()


def of_field(page: Any, path: Any) -> None:
    """Show the form that has a field."""
    back = page.get_by_role("button", name="Show the loop's fields")
    if len(path) > 1:
        node(page, path[1]).click()
    elif back.count():
        back.click()


def can_be_done(operation: Operation, machine: dict[str, Any], text: str) -> bool:
    """Whether the page has a control for exactly this operation, and it changes something."""
    match operation:
        case AddState(_, fields):
            return set(fields) in ({"terminal"}, {"action"})
        case Connect(state, on, target):
            own = machine["states"][state]
            gate = on == "choice"
            same = own.get("next" if on == "next" else f"on_{on}") == target
            return target != state and not target.startswith("$") and not gate and not same
        case Disconnect(_, _, target):
            return target is not None
        case SetInitial(state):
            return bool(machine["initial"] != state)
        case SetField(path, value):
            simple = path[-1] in ("timeout", "label", "max_iterations", "description", "action")
            one_line = isinstance(value, (str, int)) and "\n" not in str(value)
            return simple and one_line and str(value).strip() == str(value)
        case RemoveField(path):
            return path[-1] in ("timeout", "label", "description", "max_iterations")
        case _:
            return True


def completed(operation: Operation, machine: dict[str, Any]) -> Operation:
    """The operation with what the page adds to it."""
    match operation:
        case AddState(name, fields, _) if "action" in fields:
            return AddState(name, {"action": fields["action"].strip() or "true"})
        case AddState(name):
            return AddState(name, {"terminal": True})
        case Disconnect(state, on, None):
            own = machine["states"][state]
            target = own.get("route", {}).get(on) or own.get("next" if on == "next" else f"on_{on}")
            return Disconnect(state, on, target)
        case _:
            return operation


def one(
    random: Random, kind: type[Operation], text: str
) -> tuple[Operation, dict[str, Any]] | None:
    machine = machine_of(text)
    assert machine is not None
    for _ in range(80):
        drawn = draw(random, kind, machine)
        operation = None if drawn is None else completed(drawn, machine)
        if operation is None or not fits(operation, machine):
            continue
        if not can_be_done(operation, machine, text):
            continue
        wanted = load_data(intended(machine, operation), "loop").loop
        if wanted is not None and wanted.to_dict() != machine:
            return operation, json.loads(json.dumps(wanted.to_dict()))
    return None


def random_edits(shop: Shop, browser: Any, name: str, seed: int, count: int) -> Counter[type]:
    """Make random edits by mouse, check each, and return how many of each kind there were."""
    text, random = FILES[name], Random(seed)
    path = put(shop, "random", text)
    done: Counter[type] = Counter()
    kinds = list(OPERATIONS.values())
    options = {"viewport": {"width": 1600, "height": 1400}, "reduced_motion": "reduce"}
    with editing(shop, browser, "random", **options) as watched:
        for number in range(count):
            kind = kinds[(seed + number) % len(kinds)]
            found = one(random, kind, text)
            if found is None:
                continue
            operation, wanted = found
            with watched.page.expect_response(lambda answer: "/preview" in answer.url) as answer:
                by_mouse(watched.page, operation)
            body = answer.value.json()
            assert "error" not in body, (operation, body)
            splices = tuple(Splice(**each) for each in body["splices"])
            edited = Edited(body["text"], splices)
            check_edit(text, edited, wanted)
            check_small(text, edited, operation)
            text = edited.text
            done[kind] += 1
            expect(watched.page.get_by_text("Checking…")).to_have_count(0)
        save(watched.page)
    assert path.read_bytes().decode() == text
    return done


@pytest.mark.parametrize("name", list(FILES))
def test_random_edits_by_mouse(shop: Shop, browser, name: str):
    done = random_edits(shop, browser, name, list(FILES).index(name), 10)
    assert done.total() >= 6


@pytest.mark.soak
def test_two_hundred_random_edits_by_mouse(shop: Shop, browser):
    done: Counter[type] = Counter()
    for seed in range(60):
        name = list(FILES)[seed % len(FILES)]
        done += random_edits(shop, browser, name, seed, 8)
        if done.total() >= 200 and min(done[kind] for kind in OPERATIONS.values()) >= 10:
            break
    assert done.total() >= 200
    assert min(done[kind] for kind in OPERATIONS.values()) >= 10, done
