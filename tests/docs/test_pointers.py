"""Where the design page and the modules point to other modules, those exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import little_loops

SOURCES = Path(little_loops.__file__).parent
ROOT = SOURCES.parents[1]
DESIGN = (ROOT / "docs" / "design.md").read_text()
MODULES = sorted(SOURCES.rglob("*.py"))


def paths() -> Iterator[str]:
    """The modules the page names; a bare one lies beside the one before it."""
    folder = ""
    for path in re.findall(r"`([a-z_/]+\.py)`", DESIGN):
        if "/" in path:
            folder = path.rpartition("/")[0]
        yield path if "/" in path else f"{folder}/{path}"


@pytest.mark.parametrize("path", sorted(set(paths())))
def test_a_module_of_the_design_page_exists(path: str) -> None:
    assert (SOURCES / path).exists() or (ROOT / path).exists()


def test_a_function_of_the_design_page_is_where_it_says() -> None:
    named = re.findall(r"`(\w+)`(?: and `(\w+)`)? in `([a-z_/]+\.py)`", DESIGN)
    assert named
    for *functions, path in named:
        source = (SOURCES / path).read_text()
        assert all(f"def {name}(" in source for name in functions if name), path


def pointers(module: Path) -> Iterator[str]:
    """The names in parentheses of the paragraph "Not here" of a module."""
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    elsewhere = text.partition("Not here:")[2].partition("\n\n")[0]
    for group in re.findall(r"\(((?:`[a-z_.]+`(?:, )?)+)\)", elsewhere):
        yield from re.findall(r"`([a-z_.]+)`", group)


POINTING = [module for module in MODULES if any(pointers(module))]


@pytest.mark.parametrize("module", POINTING, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_module_points_to_modules_that_exist(module: Path) -> None:
    known = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert {name.rpartition(".")[2] for name in pointers(module)} <= known
