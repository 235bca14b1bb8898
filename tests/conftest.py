from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.project import Project

COUNTED = "figure: "
CI = settings.get_profile("ci")  # the same examples every time

settings.register_profile("fast", CI, max_examples=15)
settings.register_profile("ci", CI, max_examples=50)
settings.register_profile("soak", max_examples=1000, deadline=None)
settings.load_profile("ci")  # unless the command line names another

# A child forked by a test ends without a report: measuring its coverage is wasted.
os.register_at_fork(after_in_child=lambda: sys.settrace(None))

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure coverage by rows and stories: a law may draw other examples tomorrow.

    The mark `no_cover` of pytest-cov has no effect in a worker of xdist.
    """
    if not any(item.iter_markers("hypothesis")) and not any(item.iter_markers("untraced")):
        return (yield)
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracing)


def pytest_collection_finish() -> None:
    """Spare the garbage collector thousands of tests that stay to the end."""
    gc.collect()
    gc.freeze()


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
