"""flag > LL_* variable > loop file > .loops/.config.yaml > the user's config > default."""

from __future__ import annotations

import pytest

from little_loops.authoring.load import load
from little_loops.definitions.settings import with_settings
from little_loops.fsm.schema import Evidence
from tests.project import Project

LOOP = """\
name: round
initial: a
{own}
states:
  a: {{action: "false", on_fail: b, on_pass: done}}
  b: {{action: "true", next: a}}
  done: {{terminal: true}}
"""


def limit(project: Project, *words: str, **env: str) -> int:
    """How many times around the loop is allowed to go."""
    said = project.ll("run", "round", "--fresh", *words, env=env)
    assert said.returncode == 3, said.stderr
    return int(said.stdout.split("/")[1].split("]")[0])


@pytest.mark.parametrize(
    ("flag", "variable", "own", "of_project", "of_user", "expected"),
    [
        (None, None, None, None, None, 50),
        (None, None, None, None, 2, 2),
        (None, None, None, 3, 2, 3),
        (None, None, 4, 3, 2, 4),
        (None, 5, 4, 3, 2, 5),
        (6, 5, 4, 3, 2, 6),
    ],
    ids=["default", "user", "project", "loop file", "variable", "flag"],
)
def test_who_has_the_last_word(project, flag, variable, own, of_project, of_user, expected):
    project.loop("round", LOOP.format(own="" if own is None else f"max_iterations: {own}"))
    if of_project is not None:
        config = project.root / ".loops" / ".config.yaml"
        config.write_text(f"max_iterations: {of_project}\n")
    if of_user is not None:
        config = project.home / ".config" / "little-loops" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f"max_iterations: {of_user}\n")
    words = () if flag is None else ("--max-iterations", str(flag))
    env = {} if variable is None else {"LL_MAX_ITERATIONS": str(variable)}
    assert limit(project, *words, **env) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_iterations: 0\n", "`max_iterations`"),
        ("colour: red\n", "unknown settings: `colour`"),
        ("- a\n", "is not a mapping of settings"),
        ("a: [\n", "error[LL0"),
    ],
    ids=["out of range", "unknown", "no mapping", "no YAML"],
)
def test_a_wrong_config_is_said(project, text, said):
    project.loop("round", LOOP.format(own=""))
    (project.root / ".loops" / ".config.yaml").write_text(text)
    answer = project.ll("run", "round")
    assert answer.returncode == 2
    assert said in answer.stderr


def test_a_config_file_is_no_loop(project):
    project.loop("round", LOOP.format(own=""))
    (project.root / ".loops" / ".config.yaml").write_text("max_iterations: 3\n")
    assert "checked 1 loop: no problems" in project.ll("validate").stdout


@pytest.mark.parametrize(
    ("own", "of_project", "of_user", "expected"),
    [
        pytest.param("", "", "", Evidence(), id="nothing"),
        pytest.param("", "{protect: [tests/], clean: true}", "",
                     Evidence(None, ("tests/",), clean=True), id="of the project"),
        pytest.param("", "{clean: false}", "{clean: true, confirm: 2}",
                     Evidence(None, clean=False, confirm=2), id="project before user"),
        pytest.param("", "true", "", Evidence(True), id="for every loop"),
        pytest.param("", "false", "{clean: true}", Evidence(False, clean=True), id="for none"),
        pytest.param("true", "{clean: true}", "", Evidence(True, clean=True), id="asked for"),
        pytest.param("false", "{clean: true}", "", Evidence(False), id="refused"),
        pytest.param("{clean: false, stall_after: 5}", "{protect: [tests/], clean: true}", "",
                     Evidence(True, ("tests/",), stall_after=5), id="key by key"),
        pytest.param("{protect: [spec/]}", "{protect: {existing: [tests/]}}", "",
                     Evidence(True, ("spec/",)), id="patterns are replaced"),
    ],
)  # fmt: skip
def test_evidence_counts_key_by_key(tmp_path, own, of_project, of_user, expected):
    written = f"evidence: {own}\n" if own else ""
    agents = LOOP.format(own="").replace('"true"', "/fix")
    definition = load(written + agents, "round.yaml", "round")
    for place, text in (("p/.loops/.config.yaml", of_project),
                        ("c/little-loops/config.yaml", of_user)):  # fmt: skip
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"evidence: {text}\n" if text else "")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "c")}
    assert with_settings(definition, str(tmp_path / "p"), environ).evidence == expected


def test_evidence_in_a_config_file_is_for_loops_with_agents(tmp_path):
    (tmp_path / ".loops").mkdir()
    (tmp_path / ".loops" / ".config.yaml").write_text("evidence: {clean: true}\n")
    definition = load(LOOP.format(own=""), "round.yaml", "round")
    assert with_settings(definition, str(tmp_path), {"HOME": str(tmp_path)}).evidence == Evidence()
