"""A report in a real browser: opened from the disk, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.runs import COUNTDOWN, ran
from tests.e2e.conftest import sync_api, tab
from tests.e2e.test_page import AXE, RULES
from tests.project import Project
from tests.receipts.kept_run import KeptProject

expect = sync_api.expect


def written(project: Project, name: str) -> str:
    """The address of a report on the disk."""
    path = project.root.parent / "report.html"
    assert project.ll("report", name, "-o", str(path)).returncode == 0
    return path.as_uri()


def test_a_report_shows_the_run_without_a_network(tmp_path: Path, browser):
    project = KeptProject(tmp_path).fixed()
    with tab(browser, written(project, "fix"), offline=True) as watched:
        page = watched.page
        expect(page.get_by_role("heading", level=1, name="fix")).to_be_visible()
        main = page.locator("main")
        for text in (
            "Loop completed: done (2 iterations",
            "Secrets are masked.",
            "passed on tree",
            "verified",
        ):
            expect(main).to_contain_text(text)
        page.get_by_text("Show the receipt, as JSON").click()
        expect(main).to_contain_text('"predicateType"')
        for heading in ("Machine", "Steps", "Timeline", "Receipt"):
            expect(page.get_by_role("heading", name=heading)).to_be_visible()
        steps = page.get_by_role("listbox").get_by_role("option")
        expect(steps).to_have_count(4)
        steps.nth(1).click()
        expect(main).to_contain_text(re.compile("fixing with \\*+"))
        expect(main).to_contain_text("x = 1")  # the diff
        expect(page.get_by_role("button", name=re.compile("Stop|Resume|Fork|Undo"))).to_have_count(
            0
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility_of_a_report(tmp_path: Path, browser, scheme: str):
    url = written(KeptProject(tmp_path).fixed(), "fix")
    with tab(browser, url, offline=True, color_scheme=scheme, bypass_csp=True) as watched:
        expect(watched.page.get_by_role("listbox").get_by_role("option")).to_have_count(4)
        expect(watched.page.locator(".loading")).to_have_count(0)
        watched.page.add_script_tag(content=AXE.read_text())
        assert watched.page.evaluate(RULES) == []


def test_a_report_about_a_metric_has_its_chart(tmp_path: Path, browser):
    project = Project(tmp_path)
    ran(project.root, COUNTDOWN)
    with tab(browser, written(project, "countdown"), offline=True) as watched:
        page = watched.page
        expect(page.get_by_role("heading", level=1, name="countdown")).to_be_visible()
        expect(page.get_by_role("heading", name="Measured value")).to_be_visible()
