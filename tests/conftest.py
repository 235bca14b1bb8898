from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_actions()
