"""The package as it is installed, not as it lies in its repository: nothing of it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.project import DEADLINE_S, Project, chain, numbers

ROOT = Path(__file__).parent.parent.parent
NOT_SHIPPED = {"__pycache__", ".mypy_cache", ".ruff_cache", ".cache"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the wheel cannot be built")
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


def ll(project: Project, installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (script,) = installed.glob("*.dist-info/entry_points.txt")
    assert "ll-loop = little_loops.cli.main:process" in script.read_text()
    return subprocess.run(
        [sys.executable, "-P", "-m", "little_loops", *words],
        cwd=project.root,
        env=project.environ(PYTHONPATH=str(installed)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_everything_is_in_it(installed):
    def files(top: Path) -> set[str]:
        return {
            os.path.relpath(path, top)
            for path in top.rglob("*")
            if path.is_file() and not NOT_SHIPPED & set(path.parts)
        }

    shipped = files(installed / "little_loops")
    assert files(ROOT / "src" / "little_loops") - shipped == set()
    assert {f"plugin/{name}" for name in files(ROOT / "plugin")} - shipped == set()


def test_a_run_behind_starts_from_it(project: Project, installed):
    project.loop("chain", chain(2, "echo {n} >> trace; ll-loop list > listed"))
    said = ll(project, installed, "run", "chain", "--background")
    assert said.returncode == 0, said
    assert ll(project, installed, "wait", "chain").returncode == 0
    assert numbers(project.file("trace")) == [1, 2]
    assert "chain" in project.file("listed")


@pytest.mark.parametrize(
    "words", [("schema",), ("explain", "LL104"), ("help", "loops"), ("doctor",)], ids=" ".join
)
def test_what_it_reads_of_itself_is_there(project: Project, installed, words):
    said = ll(project, installed, *words)
    assert said.returncode in (0, 1), said
    assert "bug" not in said.stderr
    assert str(ROOT) not in said.stdout
