from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from little_loops.definitions.loading import load_loop
from tests.fleet.case import Case
from tests.fleet.fleet import Fleet
from tests.project import Project


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    yield made
    made.close()


@pytest.fixture
def begin(project: Project, fleet: Fleet) -> Iterator[Callable[..., Case]]:
    made: list[Case] = []

    def start(
        text: Mapping[str, Any], files: Mapping[str, str] = {}, *, broken: bool = False
    ) -> Case:
        written = yaml.safe_dump({**text}).replace("$OUT", str(project.home))
        project.loop("slow", written)
        (project.root / "src").mkdir()
        for name, content in {"src/value": "0\n", **files}.items():
            (project.root / name).write_text(content)
        if broken:
            (project.home / "broken").touch()
        project.git("init", "-q", "-b", "main")
        project.git("add", "-A")
        project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
        loop = load_loop("slow", str(project.root)).loop
        case = Case(fleet, project, fleet.runtime(project), loop)
        made.append(case)
        case.runtime.start(loop)
        return case

    yield start
    for case in made:
        case.runtime.stop(case.loop.name)
        case.runtime.close()
