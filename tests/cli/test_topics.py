"""Help: topics say what the code does, every page fits 80 columns, every example can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from little_loops.authoring.fields.table import CONDITIONS
from little_loops.cli import parsing
from little_loops.cli.commands import ALIASES, HIDDEN, VERBS, help_page
from little_loops.cli.options import args_of
from little_loops.cli.topics import CODES, GIVEN, READ, TOPICS, WIDTH, endings, page, rows
from little_loops.definitions.settings import SETTINGS
from little_loops.templates.parse import FIELDS, MODIFIERS, NAMESPACES
from tests.project import Project

LOOPS_PAGE = Path(__file__).parents[2] / "docs" / "llms.txt"
SOURCE = Path(__file__).parents[2] / "src" / "little_loops"
# Between our own processes.
INTERNAL = {"LL_DETACHED", "LL_DRAIN"}


# ── topics ─────────────────────────────────────────────────────────────────────────────────────


LAID_OUT = [topic for topic in TOPICS if topic != "loops"]


@pytest.mark.parametrize("topic", LAID_OUT)
def test_a_topic_fits_the_screen(topic):
    lines = page(topic)
    assert [line for line in lines if len(line) > WIDTH] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("topic", LAID_OUT)
def test_help_shows_a_topic(project: Project, topic):
    done = project.ll("help", topic, env={"PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stdout.splitlines()) == (0, page(topic))


def test_help_on_loops_is_the_page_for_whoever_writes_one(project: Project):
    done = project.ll("help", "loops", env={"PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stdout) == (0, LOOPS_PAGE.read_text(encoding="utf-8"))


def test_help_on_something_else(project: Project):
    done = project.ll("help", "nothing")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: unknown help topic `nothing`\n   = help: topics: {', '.join(TOPICS)}\n",
    )


def test_help_on_a_verb_is_its_page(project: Project):
    assert project.ll("help", "stop").stdout == project.ll("stop", "--help").stdout


def test_the_front_page_names_all_topics():
    assert f"ll-loop help {' | '.join(TOPICS)}" in help_page()


def test_every_exit_code_in_the_table_of_endings_is_explained():
    for title, _, code, _ in endings():
        assert int(code) in CODES, title


def test_every_variable_of_the_source_is_told_or_internal():
    used = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"[\"'](LL_[A-Z_]*[A-Z])[\"']", path.read_text())
    }
    told = {*READ, *GIVEN, *(f"LL_{name.upper()}" for name in SETTINGS)}
    assert used - told - INTERNAL == set()


def test_every_part_of_a_template_is_told():
    text = " ".join(page("interpolation"))
    fields = {field for fields in FIELDS.values() for field in fields}
    assert [word for word in (*NAMESPACES, *MODIFIERS, *sorted(fields)) if word not in text] == []


def test_every_condition_is_told_with_its_fields():
    text = "\n".join(page("conditions"))
    for name, table in CONDITIONS.items():
        assert f"\n{name}: " in text
        assert [each.name for each in table.fields if each.name not in text] == []


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        pytest.param({"a": "x", "long": "y"}, ["  a     x", "  long  y"], id="two columns"),
        pytest.param(
            {"a": "word " * 20},
            ["  a  " + "word " * 14 + "word", "     " + "word word word word word"],
            id="folded",
        ),
        pytest.param(
            {"a": "x", "b" * 30: "y"},
            ["  a" + " " * 27 + "x", "  " + "b" * 30, " " * 30 + "y"],
            id="a name that is too long",
        ),
    ],
)
def test_rows(table, lines):
    assert list(rows(table)) == lines


# ── pages ──────────────────────────────────────────────────────────────────────────────────────


def parser_of(verb: str):
    return parsing.parser_of(args_of(verb))


def examples(verb: str) -> list[str]:
    """The commands a page gives as examples."""
    told = parser_of(verb).format_help().partition("Examples:\n")[2].partition("\n\n")[0]
    return [re.split(r"\s{2,}", line.strip())[0] for line in told.splitlines()]


def test_the_front_page_fits_the_screen():
    assert [line for line in help_page().splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_fits_the_screen(monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    text = parser_of(verb).format_help()
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_says_what_it_does(verb):
    actions = parser_of(verb)._actions
    assert [action.dest for action in actions if not (action.help or "").strip()] == []


SHOW_MORE = {
    *("until", "run", "check", "resume", "approve", "reject", "attach", "fork"),
    *("history", "list", "status", "validate"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbose_is_named_only_where_it_shows_more(verb):
    assert ("--verbose" in parser_of(verb).format_help()) == (verb in SHOW_MORE)


@pytest.mark.parametrize("verb", VERBS)
def test_examples_come_before_options(verb):
    text = parser_of(verb).format_help()
    assert 0 < text.find("Examples:") < text.find("options:")


@pytest.mark.parametrize("verb", VERBS)
def test_examples_can_be_typed(verb):
    found = examples(verb)
    assert found
    for example in found:
        words = typed(example)
        assert words[:1] == [verb] or words[0] not in {*VERBS, *HIDDEN}, example
        rest = words[1:] if words[0] in VERBS else words
        parser_of(words[0] if words[0] in VERBS else "run").parse_args(rest)


def typed(example: str) -> list[str]:
    """The words behind `ll-loop`, without what the shell keeps for itself."""
    inner = re.fullmatch(r'eval "\$\((.*)\)"', example)
    words = shlex.split(inner[1] if inner else example)
    assert words[0] == "ll-loop", example
    ends = [place for place, word in enumerate(words) if word in (">", ">>", "|", "&&")]
    words = words[1 : min(ends, default=len(words))]
    return [*ALIASES[words[0]], *words[1:]] if words[0] in ALIASES else words
