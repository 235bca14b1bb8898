from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.agents import USE_NEWEST, NotInstalled, Stage, installed, installed_versions


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where `claude` and `codex` are; a test that needs them is skipped where they cannot be."""
    try:
        return installed()
    except NotInstalled as why:
        if os.environ.get("CI") and "not on PATH" not in str(why):
            pytest.fail(f"the agent programs could not be installed: {why}")
        pytest.skip(f"no agent programs: {why}")


@pytest.fixture
def stage(tmp_path: Path, programs: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        made = Stage(tmp_path, programs, stack)
        stack.callback(made.end_actions)
        yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which versions were tried, and what came of it: the line for docs/reference/agents.md."""
    if not USE_NEWEST:
        return
    counts = {
        word: len(terminalreporter.stats.get(word, ())) for word in ("passed", "failed", "error")
    }
    result = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    versions = [f"{name} {version}" for name, version in installed_versions().items()]
    terminalreporter.section("newest agents")
    terminalreporter.line(f"{' and '.join(versions) or 'nothing installed'}: {result or 'not run'}")
