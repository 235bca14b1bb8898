from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.hosts.programs import Program, find_program


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_it_is_found_on_the_path(tmp_path: Path, project: Path):
    path = program(tmp_path / "bin" / "agent")
    assert find_program("agent", str(tmp_path / "bin"), str(project)) == Program(path)


def test_it_is_not_there(tmp_path: Path, project: Path):
    found = find_program("agent", str(tmp_path), str(project))
    assert found == Program("agent", "`agent` is not on PATH")


def test_what_the_project_brings_along_is_not_trusted(project: Path):
    path = program(project / "bin" / "agent")
    why = f"`agent` was found inside the project ({path}), which is not trusted"
    assert find_program("agent", str(project / "bin"), str(project)) == Program("agent", why)


def test_nor_is_a_link_into_the_project(tmp_path: Path, project: Path):
    path = program(project / "tool")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agent").symlink_to(path)
    assert find_program("agent", str(tmp_path / "bin"), str(project)).why_not is not None


def test_what_the_author_named_by_its_whole_path_is(project: Path):
    path = program(project / "bin" / "agent")
    assert find_program(path, "", str(project)) == Program(path)


def test_a_path_is_one_of_the_project_wherever_the_command_was_typed(project: Path):
    path = program(project / "tools" / "agent")
    assert find_program("./tools/agent", "", str(project)) == Program(path)
    assert find_program("tools/agent", "", str(project)) == Program(path)


@pytest.mark.parametrize("name", ["tools/other", "./tools", "tools/text"])
def test_a_path_where_no_program_is(project: Path, name: str):
    program(project / "tools" / "agent")
    (project / "tools" / "text").write_text("no program")
    why = f"`{name}` does not exist or is not executable"
    assert find_program(name, "", str(project)) == Program(name, why)
