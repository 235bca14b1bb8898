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
            error[LL201]: the loop has no state `x`
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
            {red}error[LL201]{/}{bold}: the loop has no state `x`{/}
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
            paint.problems,
            """\
            next: ll-loop resume x
            next: look, then ll-loop resume x
            next: ll-loop attach x   or   ll-loop stop x
            next: ll-loop status x   (a run that has not ended)
            next: fix it
            checked 2 loops: 1 error, 0 warnings in 1 file
            checked 2 loops: 0 errors, 3 warnings in 1 file; with --strict a warning is as bad""",
            """\
            {bold}next:{/} {cyan}ll-loop resume x{/}
            {bold}next:{/} look, then {cyan}ll-loop resume x{/}
            {bold}next:{/} {cyan}ll-loop attach x{/}   or   {cyan}ll-loop stop x{/}
            {bold}next:{/} {cyan}ll-loop status x{/}   (a run that has not ended)
            next: fix it
            checked 2 loops: {red}1 error{/}, 0 warnings in 1 file
            checked 2 loops: 0 errors, {yellow}3 warnings{/} in 1 file; with --strict a warning is as bad""",
            id="hints and counts",
        ),
        pytest.param(
            paint.checkup,
            """\
            ✓ project: .
                fix: ll-loop resume x    or    ll-loop run x --fresh
                fix: git init
            2 problems, 1 warning
            1 warning
            no problems""",
            """\
            ✓ project: .
                fix: {cyan}ll-loop resume x{/}    or    {cyan}ll-loop run x --fresh{/}
                fix: {cyan}git init{/}
            {red}2 problems{/}, {yellow}1 warning{/}
            {yellow}1 warning{/}
            {green}no problems{/}""",
            id="doctor",
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
            ■ done   success
            # lost   failure
            ■ asked  needs review""",
            """\
            {green}▶{/} {bold}check{/}  $ test -e x
                {dim}├{/} pass  {dim}→{/} {cyan}done{/}
                {dim}`-{/} fail  {dim}->{/} {cyan}check{/} ^
              {bold}fix{/}    decides
            {green}■{/} {bold}done{/}   success
            {red}#{/} {bold}lost{/}   failure
            {blue}■{/} {bold}asked{/}  needs review""",
            id="graph",
        ),
        pytest.param(
            paint.codes,
            """\
            LL104: a title

            Wrong:
              > a: 0
                b: 1

            Right:
              > a: 1
                b: 1
            LL105  another""",
            """\
            {cyan}LL104{/}{bold}: a title{/}

            {red}Wrong:{/}
            {bad}  > a: 0{/}
                b: 1

            {green}Right:{/}
            {good}  > a: 1{/}
                b: 1
            {cyan}LL105{/}  another""",
            id="error codes",
        ),
    ],
)
def test_how_a_page_is_painted(page, text, painted):
    assert named(page(dedent(text))) == dedent(painted)


LOG = """\
[1/20] check → running mypy src/...
       | ✗ what it printed
       ✗ 2 errors (exit 1)
       2 is nearer to 0 than 3
       → fix (on_fail)
       · handed off
       → context handoff: half is done
10:30:00  [2/20] check → running mypy src/...
10:30:00         ✓ 0 errors (exit 0)
10:30:00         → done (on_pass)
Resuming loop 'x' from state 'fix' (iteration 3)
warning: odd

Loop completed: done (3 iterations, 2m 34s)
Loop failed in state 'check': no (1 iteration, 1.0s)
Loop needs review: read (1 iteration, 1.0s)
"""
PAINTED_LOG = """\
{bold}[1/20] check{/} → running mypy src/...
       | ✗ what it printed
       {bad}✗{/} 2 errors (exit 1)
{dim}       2 is nearer to 0 than 3{/}
{dim}       → fix (on_fail){/}
       {dim}·{/} handed off
       → context handoff: half is done
10:30:00  {bold}[2/20] check{/} → running mypy src/...
10:30:00         {good}✓{/} 0 errors (exit 0)
10:30:00  {dim}       → done (on_pass){/}
Resuming loop 'x' from state 'fix' (iteration 3)
{care}warning:{/} odd

{good}Loop completed{/}: done (3 iterations, 2m 34s)
{bad}Loop failed{/} in state 'check': no (1 iteration, 1.0s)
{care}Loop needs review{/}: read (1 iteration, 1.0s)
"""


def log_page(text: str) -> str:
    return "\n".join(paint.log(line, line) for line in text.split("\n"))


def test_a_log_has_the_colours_of_the_run():
    assert named(log_page(LOG)) == PAINTED_LOG


def test_a_folded_line_of_a_log_is_painted_in_all_its_rows():
    line = f"{' ' * 7}2 is nearer to 0 than 3"
    rows = f"{' ' * 7}2 is nearer\n{' ' * 7}to 0 than 3"
    assert named(paint.log(line, rows)) == (
        f"{{dim}}{' ' * 7}2 is nearer{{/}}\n{{dim}}{' ' * 7}to 0 than 3{{/}}"
    )


PAGES = [
    *(paint.problems, paint.help_page, paint.description, paint.graph, paint.codes),
    *(paint.checkup, log_page),
]


@given(st.sampled_from(PAGES), st.text(alphabet=" \n|^->=$→├▶✓·LL0123:/[]abcerrorwarningnextfix"))
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
    "list",
    "status good",
    "logs good",
    "doctor",
]


@pytest.fixture
def loops(project: Project) -> Project:
    project.loop(
        "good", "initial: a\nstates: {a: {action: 'true', next: b}, b: {terminal: true}}\n"
    )
    project.loop("bad", "initial: x\nstates: {a: {terminal: true}}\n")
    project.ll("run", "good")
    return project


def timeless(text: str) -> str:
    """Each command is run at another time, with other free space on the disk."""
    return re.sub(r"\d+(?:\.\d)? (?=[kMGT]B of)", "0 ", re.sub(r"\d+(?:\.\d)?s\b", "0s", text))


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
        assert timeless(re.sub(r"\x1b\[[0-9;]*m", "", colourful)) == timeless(text)
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
