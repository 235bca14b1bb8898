"""What stands on the pages is true: loops load, sessions go as they are told, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from little_loops.authoring.load import load, load_data
from little_loops.authoring.loop_files import Library, LoopText
from little_loops.definitions.agent_checks import agent_problems
from little_loops.definitions.evidence_checks import evidence_problems
from little_loops.definitions.worktree_checks import worktree_problems
from little_loops.errors import Problem
from tools.pages import ROOT, Block, Page, all_pages, read_page
from tools.sessions import commands, differences, is_typed

PAGES = all_pages()
OF_A_LOOP = {"initial", "paradigm", "goal", "constraints", "steps", "toward"}
OF_OTHERS = {"jobs", "repos", "runs"}
SETTINGS = ".config.yaml"
WITH_LOOPS = [
    path
    for where in ("docs", "examples", "plugin", "src/little_loops")
    for path in Path(ROOT, where).rglob("*")
    if path.suffix in (".md", ".txt", ".yaml", ".toml", ".py")
    and "pytest" in path.read_text()
    and "fail: [" in path.read_text()
] + [Path(ROOT, "README.md")]


OTHER_CODES = {
    "find-flaky.yaml": ["[1]"],  # what cannot be imported is broken, not flaky
    "error-codes.md": ["[0, 1]"],  # that is the mistake
    "codes.toml": ["[0, 1]"],
}


def blocks(*languages: str) -> list[Any]:
    return [
        pytest.param(page, block, id=f"{page}:{block.line}")
        for page in PAGES
        for block in read_page(page).blocks
        if block.language in languages
    ]


def is_loop(block: Block, read: Any) -> bool:
    """A whole loop: a file of `.loops`, or what begins like one; else it is a part of one.

    Tests of loops are run with their page.
    """
    if (block.file or "").startswith(".loops/tests/"):
        return False
    if (block.file or "").startswith(".loops/") and not (block.file or "").endswith(SETTINGS):
        return True
    keys = set(read) if isinstance(read, dict) else set()
    return not keys.isdisjoint(OF_A_LOOP) and keys.isdisjoint(OF_OTHERS)


def stem(block: Block) -> str:
    return os.path.splitext(os.path.basename(block.file or "example.yaml"))[0]


def loops_on(page: str) -> Library:
    """The loops of a page, for another one that names them."""
    texts = {stem(block): block.text for block in read_page(page).blocks if block.file}

    def read(name: str) -> LoopText | str:
        text = texts.get(name)
        return "no such loop" if text is None else LoopText(text.encode(), page, name, name)

    return Library(read)


@pytest.mark.parametrize(("page", "block"), blocks("yaml"))
def test_yaml_is_what_it_looks_like(page: str, block: Block, tmp_path: Path) -> None:
    definition = load(block.text, block.file or page, stem(block), loops_on(page))
    of_agents: tuple[Problem, ...] = ()
    of_evidence, without_git = of_agents, of_agents
    if definition.loop is not None:
        of_agents = agent_problems(definition, str(tmp_path))
        without_git = evidence_problems(definition, str(tmp_path), {"HOME": str(tmp_path)})
        without_git += worktree_problems(definition, str(tmp_path), {"HOME": str(tmp_path)})
        (tmp_path / ".git").mkdir()
        of_evidence = evidence_problems(definition, str(tmp_path), {"HOME": str(tmp_path)})
    if "wrong" in block.words:
        assert [*definition.problems, *of_agents, *of_evidence, *without_git]
        return
    read = yaml.safe_load(block.text)
    if is_loop(block, read):
        assert [told(each) for each in definition.problems] == []
        assert [told(each) for each in of_agents if each.severity == "error"] == []
        assert [told(each) for each in of_evidence] == []
    elif "condition" in read:
        state = {"action": "true", "next": "done", **read}
        frame = {"initial": "a", "states": {"a": state, "done": {"terminal": True}}}
        assert load_data(frame, "fragment").loop is not None


@pytest.mark.parametrize(("page", "block"), blocks("yaml"))
def test_an_agent_is_sent_to_what_a_command_printed_on_both_streams(
    page: str, block: Block
) -> None:
    assert "${prev.file}" not in block.text, "that is stdout alone: say `${prev.log_file}`"


@pytest.mark.parametrize("file", sorted(WITH_LOOPS), ids=lambda file: str(file.relative_to(ROOT)))
def test_pytest_is_judged_by_the_same_codes_everywhere(file: Path) -> None:
    """Failed, cannot be imported, no tests left; anything else is an error of pytest itself."""
    pattern = r"pytest[^\n]*(?:\n[^\n]*){0,2}?fail: (\[[\d, ]+\])"
    assert set(re.findall(pattern, file.read_text())) <= {
        "[1, 2, 5]",
        *OTHER_CODES.get(file.name, ()),
    }


def told(problem: Any) -> str:
    return f"{problem.code} {problem.place and problem.place.line}: {problem.message}"


@pytest.mark.parametrize(("page", "block"), blocks("json"))
def test_json_is_json(page: str, block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize(("page", "block"), blocks("sh", "bash"))
def test_scripts_have_no_mistakes_of_grammar(page: str, block: Block) -> None:
    subprocess.run(["sh", "-n"], input=block.text, text=True, check=True)


@pytest.mark.parametrize("page", PAGES)
def test_sessions_go_as_they_are_told(page: str) -> None:
    blocks = read_page(page).blocks
    sessions = [block for block in blocks if block.language == "console" or is_typed(block)]
    if any(block.not_run is None for block in sessions):
        assert "\n\n".join(differences(page)) == ""


@pytest.mark.parametrize(("page", "block"), blocks("console"))
def test_a_session_has_commands(page: str, block: Block) -> None:
    rest = block.text.partition("\n")[2] if block.not_run else block.text
    assert commands(block._replace(text=rest))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    here = read_page(page)
    assert [f"{page}:{line}: {link}" for line, link in here.links if not leads(here, link)] == []


def leads(page: Page, link: str) -> bool:
    if link.startswith("https://"):
        return True  # nobody is asked: the tests need no network
    path, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page.path), path)) if path else page.path
    if not is_there(target):
        return False
    return not anchor or anchor in read_page(target).anchors


def is_there(path: str) -> bool:
    return os.path.exists(os.path.join(ROOT, path))


def test_every_page_can_be_reached() -> None:
    """From the README, by links alone."""
    seen, ahead = set[str](), ["README.md"]
    while ahead:
        path = ahead.pop()
        if path in seen or not path.endswith((".md", ".txt")) or not is_there(path):
            continue
        seen.add(path)
        for _, link in read_page(path).links:
            target = link.partition("#")[0]
            ahead.append(os.path.normpath(os.path.join(os.path.dirname(path), target)))
    manual = {page for page in PAGES if not page.startswith(os.path.join("docs", "adr"))}
    assert manual - seen == set()


TITLED = [page for page in PAGES if page.startswith(os.path.join("docs", "howto"))]


@pytest.mark.parametrize("page", TITLED)
def test_the_title_of_a_page_has_the_words_of_its_name(page: str) -> None:
    words = re.findall(r"\w+", Path(ROOT, page).read_text().partition("\n")[0].lower())
    assert set(Path(page).stem.split("-")) <= set(words)


GLOSSARY = re.findall(
    r"^\| \*\*(.+?)\*\* \| (.+) \|$", Path(ROOT, "docs/glossary.md").read_text(), re.MULTILINE
)


def test_the_glossary_has_one_line_for_each_term_in_order() -> None:
    terms = [term for term, _ in GLOSSARY]
    assert terms == sorted(set(terms))
    assert [meaning for _, meaning in GLOSSARY if not meaning or ". " in meaning] == []
