"""What the tests of trees share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.command import in_memory


@pytest.fixture
def place() -> Iterator[Path]:
    with in_memory() as place:
        yield place
