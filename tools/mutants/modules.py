"""The modules under test, as the import contract `pure` in `pyproject.toml` names them."""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.mutants.mutators import Mutant, mutants

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


class Module:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        parts = Path(path).with_suffix("").parts[1:]
        self.name = ".".join(parts).removesuffix(".__init__")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def mutants(self) -> list[Mutant]:
        return mutants(self.tree)


def read_settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pure_modules(settings: dict[str, Any]) -> list[Module]:
    """A name in the contract is a module or a whole package, less those exempted by `name -> *`."""
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["id"] == "pure")
    imports = (line.partition(" -> ") for line in contract.get("ignore_imports", []))
    exempt = {importer for importer, _, imported in imports if imported.endswith("*")}
    files = {file for name in contract["source_modules"] for file in _files(name)}
    modules = [Module(str(file.relative_to(ROOT)), file.read_text()) for file in sorted(files)]
    return [module for module in modules if module.name not in exempt]


def _files(name: str) -> Iterator[Path]:
    place = SOURCES.joinpath(*name.rstrip(".*").split("."))
    if place.is_dir():
        yield from place.rglob("*.py")
    else:
        yield place.with_suffix(".py")


def test_files(modules: Iterable[Module]) -> list[str]:
    """`tests/` has a folder or a file for every part of the package; the generated pages are tests
    of the tables that they show."""
    parts = {module.name.split(".")[1] for module in modules}
    patterns = [each for part in parts for each in (f"{part}/**/test_*.py", f"test_{part}.py")]
    patterns.append("docs/test_reference.py")
    files = (file for pattern in patterns for file in (ROOT / "tests").glob(pattern))
    return sorted(str(file.relative_to(ROOT)) for file in files)


def sample(modules: list[Module], size: int, seed: int) -> list[tuple[Module, Mutant]]:
    """Each module has a share by its length, and at least one."""
    lines = {module: module.text.count("\n") for module in modules}
    chance = random.Random(seed)
    picked = []
    for module in modules:
        share = max(1, round(size * lines[module] / sum(lines.values())))
        mutants = chance.sample(module.mutants, min(share, len(module.mutants)))
        picked += [(module, mutant) for mutant in mutants]
    chance.shuffle(picked)
    return picked
