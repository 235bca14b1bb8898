"""`--seed N` plays one history again."""

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
