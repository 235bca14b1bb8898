"""The project's own lists agree with each other and with the tree."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {each["id"]: each for each in PROJECT["tool"]["importlinter"]["contracts"]}
PURE = CONTRACTS["pure"]["source_modules"]

# Entry points and package fronts; what they import is checked where it is defined.
OUTSIDE_THE_LAYERS = {"little_loops", "little_loops.__main__", "little_loops.fsm"}


def modules() -> set[str]:
    files = (ROOT / "src").rglob("*.py")
    dotted = (".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files)
    return {name.removesuffix(".__init__") for name in dotted}


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def normal(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def layers(text: list[str]) -> set[str]:
    return {f"little_loops.{word}" for word in re.findall(r"[a-z_.]+", " ".join(text))}


def test_every_module_is_in_a_layer():
    placed = layers(CONTRACTS["layers"]["layers"])
    strays = {name for name in modules() - OUTSIDE_THE_LAYERS if not within(name, placed)}
    assert strays == set()


def test_all_below_the_world_is_held_pure():
    order = CONTRACTS["layers"]["layers"]
    world = next(place for place, layer in enumerate(order) if layer.startswith("world |"))
    # Of `relay` only the rules are pure; preparing and settling a turn touch files.
    below = (layers(order[world + 1 :]) - {"little_loops.relay"}) | {"little_loops.relay.rules"}
    pure = {name for name in modules() if within(name, below)}
    assert pure == {name for name in modules() if within(name, set(PURE))}


def test_the_modules_held_pure_are_those_that_must_be_covered():
    patterns = PROJECT["tool"]["coverage"]["report"]["include"]
    files = {name: f"src/{name.replace('.', '/')}.py" for name in modules()}
    covered = {
        name
        for name, file in files.items()
        if any(fnmatch(file, pattern) or fnmatch(f"{file[:-3]}/", pattern) for pattern in patterns)
    }
    pure = {name for name in modules() if within(name, set(PURE))}
    assert covered == pure


def test_every_dependency_is_pinned_for_development():
    declared = PROJECT["project"]["dependencies"] + [
        requirement
        for extra in PROJECT["project"]["optional-dependencies"].values()
        for requirement in extra
    ]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.]+", pin)] == []
    assert {normal(each) for each in declared} - {normal(pin) for pin in pins} == set()
