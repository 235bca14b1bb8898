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
          `${prev.output}` is inside the program text of `sh`, and would be run
          help: pass it as an argument: `sh -c 'echo "$1"' sh ${prev.output}`
        """,
    ),
    row(
        "the second of two equal references",
        acting('echo ${prev.output} $${prev.output}; sh -c "ls ${prev.output}"'),
        """
        error[LL407] 6:60 ${prev.output}
          `${prev.output}` is inside the program text of `sh`, and would be run
          help: pass it as an argument: `sh -c 'echo "$1"' sh ${prev.output}`
        """,
    ),
    row(
        "the second of two in a block, beside a comment that looks the same",
        """\
        initial: first
        states:
          first:
            action: |  # ${env.A}
              echo ${env.A}
              eval ${env.A}
            env: {A: "${env.A}"}
            next: done
          done: {terminal: true}
        """,
        """
        error[LL407] 6:12 ${env.A}
          `${env.A}` is inside the program text of `eval`, and would be run
          help: run the command itself, with the value as its argument
        """,
    ),
    row(
        "an escape hides where it stands",
        acting('"echo \\x24{env.A} ${env.B}; eval ${env.A}"'),
        """
        error[LL407] 6:13 "echo \\x24{env.A} ${env.B}; eval ${env.A}"
          `${env.A}` is inside the program text of `eval`, and would be run
          help: run the command itself, with the value as its argument
        """,
    ),
    row(
        "beside a mistake, and a variable that is not there",
        acting("echo ${contxt.a} ${context.b} ${context.c:-}; eval ${env.A}"),
        """
        error[LL402] 6:18 ${contxt.a}
          unknown namespace `contxt`
          help: did you mean `context`? known: `context`, `captured`, `prev`, `state`, `loop`, \
`branch`, `env`; write `$${` for a literal `${`
        error[LL403] 6:30 ${context.b}
          `context` has no `b`
          help: the loop has no `context`
        warning[LL311] 6:43 ${context.c:-}
          `${context.c:-}` always uses its fallback: `context` has no `c`
          help: the loop has no `context`
        error[LL407] 6:64 ${env.A}
          `${env.A}` is inside the program text of `eval`, and would be run
          help: run the command itself, with the value as its argument
        """,
    ),
    row(
        "beside a variable that has no such part",
        acting("echo ${context.a.b}; eval ${env.A}", "context: {a: 1}"),
        """
        error[LL403] 6:18 ${context.a.b}
          `context.a.b` does not exist
          help: `context.a` has no such value
        error[LL407] 6:39 ${env.A}
          `${env.A}` is inside the program text of `eval`, and would be run
          help: run the command itself, with the value as its argument
        """,
    ),
    row(
        "what stands first decides who reads it",
        acting("${context.b} ${env.A}; eval ${env.A}"),
        """
        error[LL403] 6:13 ${context.b}
          `context` has no `b`
          help: the loop has no `context`
        """,
    ),
    row(
        "nothing left",
        """\
        initial: first
        context: {command: "", word: " "}
        states:
          first:
            action: ${context.command} ${context.word}
            condition: {type: output_contains, pattern: "${context.word}"}
            env: {A: "${context.command}"}
            next: done
          done: {terminal: true}
        """,
        """
        error[LL213] 5:13 ${context.command} ${context.word}
          `action` is empty once `context` is filled in
          help: give the variable a value, or the template a fallback: `${context.x:-…}`
        error[LL213] 6:49 "${context.word}"
          `pattern` is empty once `context` is filled in
          help: give the variable a value, or the template a fallback: `${context.x:-…}`
        """,
    ),
    row(
        "data as code, by a variable, in the state's own shell",
        """\
        initial: check
        context: {name: "${env.NAME}"}
        states:
          check:
            action: '[[ ${context.name} -gt 3 || -n "${context.name}" ]]'
            shell: bash
            next: done
          done: {terminal: true}
        """,
        """
        error[LL407] 5:17 ${context.name}
          `${env.NAME}` is compared as a number in `[[ … ]]`, where bash runs commands it finds \
in a value
          help: write `${env.NAME:int}` if it is a whole number
        """,
    ),
    row(
        "raw data, and data that is evaluated",
        acting("n=${prev.output}; echo $((n + 1)) ${prev.stderr:raw}"),
        """
        warning[LL312] 6:15 ${prev.output}
          `n` holds `${prev.output}`, and is used in shell arithmetic, where bash runs commands it \
finds in a value
          help: write `${prev.output:int}` if it is a whole number
        warning[LL307] 6:47 ${prev.stderr:raw}
          `${prev.stderr:raw}` is inserted into the script unquoted, so its content runs as code
          help: remove `:raw` unless you trust whoever writes this value to run commands here
        """,
    ),
    row("words of the author's own", acting("ls ${context.d:words}", "context: {d: a b}"), ""),
    row("in the shell of the loop", acting("ls &> ${prev.output}", "shell: bash"), ""),
    row("an agent may have data anywhere", acting("/review ${prev.output}"), ""),
]


@pytest.mark.parametrize(("source", "expected"), SCRIPTS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected
