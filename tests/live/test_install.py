"""Installed as users do it: by pip, which fetches by name what the package asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # pip's own settings say where packages come from.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        argv,
        cwd=cwd,
        env=environment | {"TERM": "dumb", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that was empty before."""
    place = tmp_path_factory.mktemp("fresh")
    assert run(sys.executable, "-m", "venv", "environment", cwd=place).returncode == 0
    programs = place / "environment" / "bin"
    done = run(str(programs / "python"), "-m", "pip", "install", "-q", str(ROOT), cwd=place)
    if done.returncode != 0 and not os.environ.get("CI") and "No matching dist" in done.stderr:
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return programs


def test_it_runs_from_another_directory(programs: Path, tmp_path: Path):
    for words in (
        ["--version"],
        ["demo", "--no-wait"],
        ["schema"],
        ["init", "--template", "empty"],
        ["list"],
    ):
        done = run(str(programs / "ll-loop"), *words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    assert run(str(programs / "ll-loop"), "run", "my-loop", cwd=tmp_path).returncode == 0
    module = run(str(programs / "python"), "-m", "little_loops", "doctor", "--json", cwd=tmp_path)
    assert '"id": "python"' in module.stdout


SIZE = """\
from importlib.metadata import distributions
of_venv = ("pip", "setuptools")
kept = [one for one in distributions() if one.metadata["Name"] not in of_venv]
files = [one.locate_file(file) for one in kept for file in one.files]
print(sum(file.stat().st_size for file in files if file.suffix != ".pyc"))
"""


def test_it_is_small(programs: Path, tmp_path: Path):
    """The budget of the core install, with all it needs and without compiled files, is 15 MiB."""
    size = run(str(programs / "python"), "-c", SIZE, cwd=tmp_path)
    assert int(size.stdout) < 15 << 20
