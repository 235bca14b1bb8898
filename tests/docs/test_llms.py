"""The page for agents: short, whole, and with a valid loop of each paradigm."""

from __future__ import annotations

import re
import shlex

from little_loops.authoring.fields.table import (
    CONDITIONS,
    CONSTRAINT,
    HOST,
    LOOP,
    OPERATORS,
    OWN,
    PARADIGMS,
    RETRY,
    STATE,
    TASK,
)
from little_loops.authoring.load import load
from little_loops.cli.options import args_of
from little_loops.errors import CONFLICT, FAILED, LIMIT, OK, PAUSED, USAGE
from little_loops.templates.parse import FIELDS, MODIFIERS, NAMESPACES, RESULT_FIELDS
from tools.pages import read_page

PAGE = read_page("docs/llms.txt")
LOOPS = [load(block.text, "llms.yaml", "x") for block in PAGE.blocks if block.language == "yaml"]
WORDS = set(re.findall(r"[\w$]+", PAGE.text))


def test_there_is_a_valid_loop_of_each_paradigm() -> None:
    assert [each.problems for each in LOOPS] == [()] * len(LOOPS)
    assert {each.loop.paradigm for each in LOOPS if each.loop} == {*PARADIGMS}


def test_each_command_on_the_page_can_be_typed() -> None:
    typed = re.findall(r"^ll-loop .*|`(ll-loop [a-z]+ [^`|]*)`", PAGE.text, re.MULTILINE)
    shell = [
        line for block in PAGE.blocks if block.language == "sh" for line in block.text.splitlines()
    ]
    commands = [shlex.split(each, comments=True) for each in [*filter(None, typed), *shell]]
    assert len(commands) > 10
    for _, verb, *words in commands:
        if verb != "help":
            args_of(verb).read(words)


def test_it_stays_short() -> None:
    assert len(PAGE.text.splitlines()) < 200


def test_it_names_every_field_there_is() -> None:
    fields = [*LOOP.fields, *STATE.fields, *RETRY.fields, *HOST.fields, *CONSTRAINT.fields]
    fields += TASK.fields
    fields += [field for own in OWN.values() for field in own]
    fields += [field for table in CONDITIONS.values() for field in table.fields]
    assert {field.name for field in fields} - WORDS == set()


def test_it_names_every_condition_operator_and_value() -> None:
    known = {*CONDITIONS, *OPERATORS.words, *NAMESPACES, *MODIFIERS, *RESULT_FIELDS}
    known |= {name for names in FIELDS.values() for name in names}
    assert known - WORDS == set()


def test_it_names_every_exit_code() -> None:
    codes = PAGE.text.partition("Exit codes:")[2].partition("\n")[0]
    wanted = {str(code) for code in (OK, FAILED, USAGE, LIMIT, PAUSED, CONFLICT)}
    assert set(re.findall(r"\d+", codes)) >= wanted
