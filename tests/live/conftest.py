from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.agents import NotInstalled, Stage, installed


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
