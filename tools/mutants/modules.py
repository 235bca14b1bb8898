"""The modules under test, as the import contract `pure` in `pyproject.toml` names them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.mutants.mutators import Mutant, mutants

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


class Module:
    def __init__(self, file: Path) -> None:
        self.file = file
        parts = file.relative_to(SOURCES).with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        self.path = str(file.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.file.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def mutants(self) -> list[Mutant]:
        return mutants(self.tree)


def pure_modules(settings: dict[str, Any]) -> list[Module]:
    """A name in the contract is a module or a whole package.

    A module that the contract exempts with `name -> *` is one of the façades of a package.
    """
    contract = next(
        each for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == "pure"
    )
    named = contract["source_modules"]
    exempt = {
        importer
        for importer, _, imported in (
            line.partition(" -> ") for line in contract.get("ignore_imports", [])
        )
        if imported.endswith("*")
    }
    files = sorted(file for name in named for file in _files(name))
    modules = [Module(file) for file in dict.fromkeys(files)]
    return [module for module in modules if module.name not in exempt]


def _files(name: str) -> Iterator[Path]:
    place = SOURCES.joinpath(*name.removesuffix(".*").removesuffix(".**").split("."))
    if place.is_dir():
        yield from place.rglob("*.py")
    else:
        yield place.with_suffix(".py")


def read_settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_files(modules: Iterable[Module]) -> list[Path]:
    """The tests of a package stand in the folder of its name, those of a module beside it."""
    tests = ROOT / "tests"
    tops = {module.name.split(".")[1] for module in modules}
    found = [file for top in tops for file in (tests / top).rglob("test_*.py")]
    return sorted(found + [file for top in tops for file in tests.glob(f"test_{top}.py")])
