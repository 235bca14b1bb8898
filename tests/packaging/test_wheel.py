"""The wheel by itself: what a user gets, in an environment with nothing else, far from the sources.

It is built and installed for real, without a network: its dependencies, those it declares and no
others, are lent by this environment.  Fetching them by name is a test of `tests/live`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from little_loops.authoring.fields.schema_json import schema

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
LIMIT_S = 120.0

# On one worker, so that the wheel is built once.
pytestmark = pytest.mark.xdist_group("wheel")


class Installed:
    """An environment that has the wheel and what it needs; `ll` runs its `ll-loop` anywhere."""

    def __init__(self, place: Path, wheel: Path) -> None:
        self.wheel = wheel
        self.home = place / "home"
        self.home.mkdir()
        self.environment = place / "environment"
        venv.create(self.environment, with_pip=False, symlinks=True)
        self._install(wheel)
        self._lend(needed("ll-loop"))

    def _install(self, wheel: Path) -> None:
        # With the pip of this environment: one of its own takes seconds to set up.
        pip = [sys.executable, "-m", "pip", "--python", str(self.environment / "bin" / "python")]
        options = ["--disable-pip-version-check", "--no-index", "--no-deps", "--quiet"]
        done = self.run([*pip, "install", *options, str(wheel)], ROOT)
        assert done.returncode == 0, done.stderr

    def _lend(self, distributions: Sequence[metadata.Distribution]) -> None:
        (site,) = self.environment.glob("lib/python*/site-packages")
        for one in distributions:
            for file in one.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    (site / file).parent.mkdir(parents=True, exist_ok=True)
                    (site / file).symlink_to(Path(str(one.locate_file(file))).absolute())

    def run(self, argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={
                "PATH": f"{self.environment / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
                "HOME": str(self.home),
                "LANG": "C.UTF-8",
                "TERM": "dumb",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def ll(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return self.run([str(self.environment / "bin" / "ll-loop"), *words], cwd)


def needed(name: str) -> list[metadata.Distribution]:
    """What a distribution declares to need, and what that needs."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [name]
    while wanted:
        for requirement in metadata.requires(wanted.pop()) or ():
            other = re.split(r"[\s<>=!~;\[(]", requirement)[0]
            if "extra ==" not in requirement and other not in found:
                found[other] = metadata.distribution(other)
                wanted.append(other)
    return list(found.values())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed here")
    place = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(place)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return Installed(place, place / built.stdout.split()[-1])


@pytest.fixture(params=["an empty directory", "the root"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "the root":
        return Path("/")
    made = tmp_path / "here and there"
    made.mkdir()
    return made


def test_the_demo_goes_to_its_good_end(installed: Installed, anywhere: Path):
    done = installed.ll("demo", "--no-wait", cwd=anywhere)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "    ll-loop init"), done.stderr
    assert "Loop completed: done (4 iterations" in done.stdout


def test_the_schema_is_there(installed: Installed, anywhere: Path):
    done = installed.ll("schema", cwd=anywhere)
    assert (done.returncode, json.loads(done.stdout)) == (0, schema())


def test_the_page_about_loops_is_there(installed: Installed, anywhere: Path):
    done = installed.ll("help", "loops", cwd=anywhere)
    page = ROOT / "docs" / "llms.txt"
    assert (done.returncode, done.stdout) == (0, page.read_text(encoding="utf-8"))


def test_another_program_of_the_old_name_is_reported(installed: Installed, tmp_path: Path):
    """`little-loops` on the package index is another project with the same import and command."""
    (site,) = installed.environment.glob("lib/python*/site-packages")
    other = site / "little_loops-9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: little-loops\nVersion: 9.9\n")
    try:
        version = installed.ll("--version", cwd=tmp_path)
        doctor = installed.ll("doctor", cwd=tmp_path)
    finally:
        shutil.rmtree(other)
    assert (version.returncode, version.stderr) == (0, OTHER)
    assert OTHER_IN_DOCTOR in doctor.stdout
    assert installed.ll("--version", cwd=tmp_path).stderr == ""


OTHER = (
    "warning: the unrelated package `little-loops` 9.9 is installed in the same environment and "
    "also provides an `ll-loop` command\n"
    "   = help: uninstall both packages, then run `pipx install .` in a clone of the ll-loop "
    "repository\n"
)
OTHER_IN_DOCTOR = (
    "! the unrelated package little-loops 9.9 is installed in the same environment and also "
    "provides an `ll-loop` command\n"
    "    fix: uninstall both packages, then run `pipx install .` in a clone of the ll-loop "
    "repository\n"
)


def test_the_doctor_finds_all_it_needs(installed: Installed, anywhere: Path):
    checks = json.loads(installed.ll("doctor", "--json", cwd=anywhere).stdout)["checks"]
    found = {check["text"].split()[0] for check in checks if check["level"] == "ok"}
    assert found >= {"ll-loop", "python", "jq", "re2", "psutil", "YAML"}


def test_the_first_loop_is_written_and_runs(installed: Installed, tmp_path: Path):
    written = installed.ll("init", "--template", "empty", cwd=tmp_path)
    assert (written.returncode, written.stdout.splitlines()[0]) == (
        *(0, "wrote .loops/my-loop.yaml   (valid; its first line is for your editor)"),
    )
    for words in (["validate"], ["run", "my-loop", "--dry-run"]):
        assert installed.ll(*words, cwd=tmp_path).returncode == 0
    done = installed.ll("run", "my-loop", cwd=tmp_path)
    assert "Loop completed: done" in done.stdout


def test_it_carries_the_plugin_the_types_and_nothing_of_the_tests(installed: Installed):
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"little_loops", "ll_loop"}
    assert {"little_loops/py.typed", "little_loops/plugin/.claude-plugin/plugin.json"} <= {*names}
    assert not [name for name in names if re.search(r"(^|/)(tests|bench|tools|docs)/", name)]


BUDGET = 15 << 20
"""What the package and all it needs may take on a disk, without compiled files."""


def test_it_is_small(installed: Installed):
    wheel = sum(each.file_size for each in zipfile.ZipFile(installed.wheel).infolist())
    files = [one.locate_file(file) for one in needed("ll-loop") for file in one.files or ()]
    sizes = [Path(str(file)).stat().st_size for file in files if not str(file).endswith(".pyc")]
    assert wheel + sum(sizes) < BUDGET


def test_it_is_a_library_too(installed: Installed, tmp_path: Path):
    python = str(installed.environment / "bin" / "python")
    code = "import little_loops.fsm as it; print(it.validate('initial: x')[0].code, it.__file__)"
    done = installed.run([python, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1].startswith(str(installed.environment))
