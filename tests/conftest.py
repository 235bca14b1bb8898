from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project

COUNTED = "figure: "


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_actions()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was counted, of every test that counts."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.getreports(kind)]
    counted: dict[str, float] = {}
    for report in reports:
        for name, value in report.user_properties:
            if name.startswith(COUNTED):
                counted[name] = counted.get(name, 0) + float(str(value))
    if not counted:
        return
    terminalreporter.section("figures")
    width = max(len(name) for name in counted) - len(COUNTED)
    for name, value in counted.items():
        shown = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
        terminalreporter.write_line(f"{name.removeprefix(COUNTED):<{width}}  {shown:>12}")
