"""The plugin's files agree with each other, with the package and with the command line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
import yaml

from little_loops import __version__
from little_loops.authoring.fields.table import LOOP, STATE
from little_loops.authoring.load import load
from little_loops.cli.options import args_of
from little_loops.cli.topics import TOPICS
from little_loops.fsm.signal_detector import SignalDetector
from little_loops.relay.contract import read_text
from little_loops.relay.rules import Metadata

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugin"
NAMES = (
    *("check_code", "create-loop", "handoff", "implement-turn", "implement"),
    *("loop-status", "manage_issue", "run-loop", "stop-loop"),
)


class Page(NamedTuple):
    about: dict[str, Any]
    text: str


def page(path: Path) -> Page:
    start, about, text = path.read_text().split("---\n", 2)
    assert start == "", f"{path.name} begins with its front matter"
    return Page(yaml.safe_load(about), text)


PAGES = {path.stem: page(path) for path in sorted((PLUGIN / "commands").glob("*.md"))}
SKILLS = {path.parent.name: page(path) for path in PLUGIN.glob("skills/*/SKILL.md")}
EVERY = pytest.mark.parametrize("text", [p.text for p in PAGES.values()], ids=PAGES)


def test_it_has_the_version_of_the_package():
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("ll", __version__)


def test_the_marketplace_lists_it():
    market = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    assert [(each["name"], each["source"]) for each in market["plugins"]] == [("ll", "./plugin")]


def test_the_wheel_carries_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"]["plugin"] == "little_loops/plugin"


def test_the_commands_are_those_of_the_manual():
    assert tuple(PAGES) == NAMES
    assert all(each.about["description"] for each in PAGES.values())


def test_the_skill_has_the_name_of_its_directory():
    assert {name: each.about["name"] for name, each in SKILLS.items()} == {
        "offer-loop": "offer-loop"
    }


@EVERY
def test_arguments_stand_once_and_never_in_a_shell_block(text: str):
    assert text.count("$ARGUMENTS") == 1
    assert re.search(r"!`|```!", text) is None  # there is no shell block at all
    assert re.search(r"(^|\s)@", text) is None  # which would attach a file


@EVERY
def test_every_line_of_ours_that_it_names_exists(text: str):
    for line in re.findall(r"`ll-loop ([^`]+)`", text):
        verb, *words = line.split()
        if verb == "help":
            assert words[0] in TOPICS
            continue
        known = {flag for option in args_of(verb).table.values() for flag in option.flags}
        assert [word for word in words if word[:1] == "-" != word and word not in known] == [], line


def test_what_runs_without_asking_is_only_reading_and_stopping():
    rules = [rule for each in PAGES.values() for rule in rules_of(each)]
    verbs = {found[1] for rule in rules if (found := re.match(r"Bash\(ll-loop ([a-z]+)", rule))}
    assert verbs == {
        "explain",
        "help",
        "list",
        "logs",
        "schema",
        "status",
        "stop",
        "test",
        "trust",
        "validate",
        "wait",
    }
    assert [rule for rule in rules if "trust" in rule] == ["Bash(ll-loop trust --list)"]
    others = {rule for rule in rules if not rule.startswith("Bash(ll-loop ")}
    asked = {"Bash(printenv LL_RUN_DIR)", "Bash(printenv LL_RUN_ID)"}
    assert others == {"Read", "Glob", "Grep", *asked}


def rules_of(each: Page) -> list[str]:
    written = each.about.get("allowed-tools", "")
    return [rule.strip() for rule in written.split(", ") if rule]


def test_the_loop_command_knows_every_paradigm():
    _, *rows = re.findall(r"\| `(\w+)` \|", PAGES["create-loop"].text)  # without the head
    assert sorted(rows) == ["convergence", "fsm", "goal", "imperative", "invariants", "relay"]


@pytest.mark.parametrize("name", ["run-loop", "implement"])
def test_a_run_is_waited_for_in_pieces_under_100_s(name: str):
    assert re.findall(r"--timeout (\w+)", PAGES[name].text) == ["90s"]


@pytest.mark.parametrize("path", sorted(PLUGIN.rglob("*.md")), ids=lambda path: path.stem)
def test_nothing_of_it_skips_permission_prompts(path: Path):
    assert not re.search(
        r"skip[_-]permissions|bypassPermissions|ll-loop trust [A-Z]", path.read_text()
    )


def test_the_relay_that_a_plan_starts_is_valid_and_asks_before_it_runs_commands():
    shown = re.search(r"```yaml\n(.*?)```", PAGES["implement"].text, re.DOTALL)
    assert shown is not None
    text = dedent(shown[1]).replace("NAME", "implement-886").replace("PLAN", "plan.md")
    loop = load(text, "relay.yaml", "relay").loop
    assert loop is not None
    assert (loop.paradigm, loop.name, loop.max_iterations) == ("relay", "implement-886", 5)
    assert loop.states["turn"].action == "/ll:implement-turn plan.md"
    assert loop.host.permission_mode == "acceptEdits"


def test_a_plan_that_a_person_typed_names_its_options_and_why_it_stops():
    page = PAGES["implement"]
    for option in ("--no-loop", "--max-iterations", "--resume"):
        assert option in page.about["argument-hint"]
        assert option in page.text
    stops = ("implemented", "requires_user_review", "blocked", "failed", "limit of turns")
    assert [word for word in stops if word not in page.text] == []


@pytest.mark.parametrize("words", ["`metadata_path:`", "`printenv LL_RUN_ID`", "implement-turn.md"])
def test_a_plan_inside_a_run_is_one_turn(words: str):
    first, _, _ = PAGES["implement"].text.partition("Otherwise a person has typed this command")
    assert words in first
    assert "Never start a run" in first
    assert "Never start a run" in PAGES["implement-turn"].text


def test_a_loop_is_drafted_without_a_file_and_with_one_approval_at_most():
    before, _, _ = PAGES["create-loop"].text.partition("5. **Show it**")
    assert re.findall(r"`ll-loop ([^`]+)`", before.partition("3. **Draft")[2]) == [
        *("help loops", "list", "init", "validate -", "explain CODE")
    ]
    assert "Bash(ll-loop validate:*)" in rules_of(PAGES["create-loop"])
    assert "Bash(ll-loop help:*)" in rules_of(PAGES["create-loop"])


def test_the_handoff_line_is_one():
    line = re.search(r"^ *`(CONTEXT_HANDOFF:.*)`$", PAGES["handoff"].text, re.MULTILINE)
    assert line is not None
    found = SignalDetector().detect_first(f"All is written down.\n{line[1]}\n")
    assert found is not None
    assert (found.signal_type, found.payload) == ("handoff", "Ready for fresh session")


def test_the_metadata_that_is_shown_keeps_its_contract():
    shown = re.search(r"```json\n(.*?)```", PAGES["implement-turn"].text, re.DOTALL)
    assert shown is not None
    metadata = read_text(shown[1])
    assert isinstance(metadata, Metadata)
    assert (metadata.status, metadata.progress.completed) == ("partial", 2)


@pytest.mark.parametrize("name", ["check_code", "manage_issue"])
def test_a_judging_command_ends_with_a_verdict(name: str):
    lines = [line.strip() for line in PAGES[name].text.splitlines()]
    assert {"VERDICT: pass", "VERDICT: fail"} <= set(lines)


def test_a_loop_may_be_made_of_loops_and_branches():
    fields = {field.name for table in (LOOP, STATE) for field in table.fields}
    named = {"for_each", "branches", "matrix", "join", "max_parallel", "worktree", "loop", "hooks"}
    assert named <= fields
    assert all(f"`{name}`" in PAGES["create-loop"].text for name in named)
