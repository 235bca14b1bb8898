"""Colours: what is painted how, and that a page without them is the same text."""

from __future__ import annotations

import re
import sys
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.terminal import paint
from little_loops.terminal.console import colour_wanted, note_color
from tests.project import Project

NAMES = {f"\x1b[{code}m": f"{{{name}}}" for name, code in paint.SGR.items()} | {"\x1b[0m": "{/}"}


def named(text: str) -> str:
    """Escape codes by name: `{red}error{/}`."""
    return re.sub(r"\x1b\[[0-9;]*m", lambda found: NAMES[found[0]], text)


@pytest.mark.parametrize(
    ("page", "text", "painted"),
    [
        pytest.param(
            paint.problems,
            """\
            error[LL201]: there is no state `x`
              --> .loops/a.yaml:12:3
               |
            12 |   next: x
               |         ^
               = help: did you mean `y`?

            warning: odd
             1 | a
               | ^
            checked 1 loop: no problems""",
            """\
            {red}error[LL201]{/}{bold}: there is no state `x`{/}
            {blue}  -->{/} .loops/a.yaml:12:3
            {blue}   |{/}
            {blue}12 |{/}   next: x
            {blue}   |{/}{red}         ^{/}
               {blue}={/} {bold}help:{/} did you mean `y`?

            {yellow}warning{/}{bold}: odd{/}
            {blue} 1 |{/} a
            {blue}   |{/}{yellow} ^{/}
            checked 1 loop: {green}no problems{/}""",
            id="problems",
        ),
        pytest.param(
            paint.problems, "next: ll-loop resume x", "next: ll-loop resume x", id="a hint"
        ),
        pytest.param(
            paint.help_page,
            """\
            usage: ll-loop stop [loop]

            Stop a run: its state is saved.

            Examples:
              ll-loop stop fix-types  and more
            options:
              -h, --help            show this
              --color {auto,always}
                                    when
            """,
            """\
            {bold}usage:{/} ll-loop stop [loop]

            Stop a run: its state is saved.

            {bold}Examples:{/}
              {cyan}ll-loop stop fix-types{/}  and more
            {bold}options:{/}
              {cyan}-h, --help{/}            show this
              {cyan}--color {auto,always}{/}
                                    when
            """,
            id="help",
        ),
        pytest.param(
            paint.description,
            """\
            fix · goal → 2 states

              check  $ test -e x
                     on_pass → done    on_fail → fix
              fix    claude: on_fail → is not a way here
                     cannot run: no
              any state  on_error -> done

            limits   10 iterations
            scope    .               taken: 'x' is running
            host     claude not found on PATH · permissions: plan
            1 warning: ll-loop validate fix""",
            """\
            {bold}fix{/} · goal → 2 states

              {bold}check{/}  $ test -e x
                     on_pass → {cyan}done{/}    on_fail → {cyan}fix{/}
              {bold}fix{/}    claude: on_fail → is not a way here
                     {red}cannot run:{/} no
              {bold}any state{/}  on_error -> done

            {bold}limits{/}   10 iterations
            {bold}scope{/}    .               {red}taken: 'x' is running{/}
            {bold}host{/}     claude {red}not found on PATH{/} · permissions: plan
            {yellow}1 warning{/}: ll-loop validate fix""",
            id="show and dry run",
        ),
        pytest.param(
            paint.graph,
            """\
            ▶ check  $ test -e x
                ├ pass  → done
                `- fail  -> check ^
              fix    decides
            ■ done   success""",
            """\
            {green}▶{/} {bold}check{/}  $ test -e x
                {dim}├{/} pass  {dim}→{/} {cyan}done{/}
                {dim}`-{/} fail  {dim}->{/} {cyan}check{/} ^
              {bold}fix{/}    decides
            {blue}■{/} {bold}done{/}   success""",
            id="graph",
        ),
        pytest.param(
            paint.codes,
            "LL104: a title\n\nWrong:\n    a: 0\n\nRight:\n    a: 1\nLL105  another",
            "{cyan}LL104{/}{bold}: a title{/}\n\n{red}Wrong:{/}\n    a: 0\n\n{green}Right:{/}\n"
            "    a: 1\n{cyan}LL105{/}  another",
            id="error codes",
        ),
    ],
)
def test_how_a_page_is_painted(page, text, painted):
    assert named(page(dedent(text))) == dedent(painted)


PAGES = [paint.problems, paint.help_page, paint.description, paint.graph, paint.codes]


@given(st.sampled_from(PAGES), st.text(alphabet=" \n|^->=$→├▶LL0123:abcerrorwarning"))
def test_without_its_colours_a_page_is_the_same_text(page, text):
    assert re.sub(r"\x1b\[[0-9;]*m", "", page(text)) == text


# ── whether ────────────────────────────────────────────────────────────────────────────────────

COMMANDS = [
    "validate",
    "validate bad",
    "show good",
    "graph good",
    "explain LL104",
    "explain",
    "run good --dry-run",
    "run bad",
    "run nope",
    "run good --max-cost much",
    "stop",
    "--help",
    "run --help",
    "help conditions",
]


@pytest.fixture
def loops(project: Project) -> Project:
    project.loop(
        "good", "initial: a\nstates: {a: {action: 'true', next: b}, b: {terminal: true}}\n"
    )
    project.loop("bad", "initial: x\nstates: {a: {terminal: true}}\n")
    return project


@pytest.mark.parametrize("command", COMMANDS)
def test_colour_comes_with_color_always_and_changes_no_word(loops: Project, command):
    plain = loops.ll(*command.split())
    painted = loops.ll(*command.split(), "--color", "always")
    forced = loops.ll(*command.split(), env={"FORCE_COLOR": "1"})
    text = plain.stdout + plain.stderr
    assert "\x1b" not in text
    for said in (painted, forced):
        colourful = said.stdout + said.stderr
        assert "\x1b[" in colourful
        assert re.sub(r"\x1b\[[0-9;]*m", "", colourful) == text
        assert said.returncode == plain.returncode


@pytest.mark.parametrize("command", COMMANDS)
def test_no_color_is_obeyed(loops: Project, command):
    said = loops.ll(*command.split(), env={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert "\x1b" not in said.stdout + said.stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", False),
        ("--color always", True),
        ("--color=always", True),
        ("--color always --color never", False),
        ("--color", False),
    ],
)
def test_the_command_line_says_whether(words, wanted, capsys):
    note_color(words.split())
    try:
        assert colour_wanted(sys.stdout) is wanted
    finally:
        note_color([])
