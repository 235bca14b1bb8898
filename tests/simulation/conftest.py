"""`--seed N` plays one history again; figures of the long tests are printed at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Figures = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="play this one history of the simulation")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """A directory in memory where there is one: syncing to a real disk would take minutes."""
    if not os.access("/dev/shm", os.W_OK):
        yield str(tmp_path)
        return
    place = tempfile.mkdtemp(prefix="ll-simulation-", dir="/dev/shm")
    try:
        yield place
    finally:
        shutil.rmtree(place)


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


COUNTED = "figure: "
