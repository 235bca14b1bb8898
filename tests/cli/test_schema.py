"""`ll-loop schema`: what is printed is what is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project import Project

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"


@pytest.mark.parametrize(
    ("words", "file"), [((), "loop.schema.json"), (("--tests",), "test.schema.json")]
)
def test_it_prints_the_schema_of_the_repository(
    project: Project, words: tuple[str, ...], file: str
) -> None:
    done = project.ll("schema", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads((SCHEMAS / file).read_text())
