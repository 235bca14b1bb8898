"""What is said about data in scripts."""

from __future__ import annotations

import pytest

from tests.authoring.telling import row, told


def acting(action: str, head: str = "") -> str:
    return f"""\
        initial: first
        {head or "description: x"}
        states:
          first: {{action: ls, capture: files, next: second}}
          second:
            action: {action}
            next: done
          done: {{terminal: true}}
        """


SCRIPTS = [
    row(
        "data as code",
        acting('sh -c "ls ${prev.output}"'),
        """
        error[LL407] 6:23 ${prev.output}
          `${prev.output}` stands in program text of `sh`, and would be run
          help: give it as an argument: `sh -c 'echo "$1"' sh ${prev.output}`
        """,
    ),
    row(
        "data as code, by a variable, in the state's own shell",
        """\
        initial: check
        context: {name: "${env.NAME}"}
        states:
          check:
            action: '[[ ${context.name} == x ]]'
            shell: bash
            next: done
          done: {terminal: true}
        """,
        """
        error[LL407] 5:17 ${context.name}
          `${env.NAME}` stands in `[[ … ]]`, where bash runs commands it finds in a value
          help: use `[ … ]`, or `case ${env.NAME} in …`
        """,
    ),
    row(
        "raw data, and data that is evaluated",
        acting("n=${prev.output}; echo $((n + 1)) ${prev.stderr:raw}"),
        """
        warning[LL312] 6:15 ${prev.output}
          `n` gets `${prev.output}` and is used in shell arithmetic, where bash runs commands it \
finds in a value
          help: use `expr` and `[ … ]`, or let nothing but digits through first
        warning[LL307] 6:47 ${prev.stderr:raw}
          `${prev.stderr:raw}` is put into the script as it is: what it holds is run
          help: take `:raw` away unless whoever writes this value may run commands here
        """,
    ),
    row("words of the author's own", acting("ls ${context.d:words}", "context: {d: a b}"), ""),
    row("an agent may have data anywhere", acting("/review ${prev.output}"), ""),
]


@pytest.mark.parametrize(("source", "expected"), SCRIPTS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected
