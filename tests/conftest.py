from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project

COUNTED = "figure: "
# Python ignores these two itself, and `subprocess` restores them.
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


@pytest.fixture(scope="session", autouse=True)
def _default_signals_for_children() -> None:
    """`nohup make test` and `make test &` have signals ignored, and children would inherit that.

    A handler is not inherited, so a program that a test starts reacts as usual; the process that
    runs the tests (a worker, with xdist) goes on ignoring what it was told to ignore.
    """
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    pass


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
