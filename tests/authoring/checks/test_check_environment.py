"""Data in the environment of an action, and scripts that evaluate it."""

from __future__ import annotations

import pytest

from little_loops.authoring.load import load
from tests.authoring.telling import row, told

LOOP = """\
initial: count
states:
  count: {{action: ./count, next: check}}
  check:
    shell: bash
    env: {{COUNT: "${{captured.count.output}}"}}
    action: |
      {action}
    on_pass: done
    on_fail: check
  done: {{terminal: true}}
"""


def verdict_on(action: str) -> str:
    """`refused`, `warned`, or nothing at all."""
    source = LOOP.format(action=action.replace("@", "${captured.count.output}"))
    problems = {each.code for each in load(source, "a.yaml", "a").problems}
    return {"LL407": "refused", "LL312": "warned"}.get("".join(problems), "".join(problems))


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        # A reference that stands in a code position is refused.
        pytest.param("[[ @ -gt 3 ]]", "refused", id="a numeric test"),
        pytest.param("(( @ > 3 ))", "refused", id="an arithmetic command"),
        pytest.param("echo $(( @ + 1 ))", "refused", id="arithmetic"),
        pytest.param("let n=@", "refused", id="let"),
        pytest.param("perl -ne '@' f", "refused", id="perl -n"),
        pytest.param("perl -n <<E\n      @\n      E", "refused", id="perl reads its program"),
        pytest.param("xargs -0I{} sh -c 'echo @ {}' < f", "refused", id="xargs runs a program"),
        # A variable that holds data, and is named in code, is warned of.
        pytest.param("[[ $COUNT -gt 3 ]]", "warned", id="a variable in a numeric test"),
        pytest.param("[[ COUNT -gt 3 ]]", "warned", id="a name in a numeric test"),
        pytest.param("(( COUNT > 3 ))", "warned", id="a variable in an arithmetic command"),
        pytest.param("echo $((COUNT + 1))", "warned", id="a variable in arithmetic"),
        pytest.param("let COUNT+=1", "warned", id="a variable in let"),
        pytest.param('eval "echo $COUNT"', "warned", id="a variable in eval"),
        pytest.param('sh -c "echo $COUNT"', "warned", id="a variable in a program"),
        pytest.param("bash -c '(( COUNT > 3 ))'", "warned", id="arithmetic in a program"),
        pytest.param("n=@; (( n > 3 ))", "warned", id="a variable of the script"),
        pytest.param("f() { [[ $COUNT -gt 3 ]]; }; f", "warned", id="inside a function"),
        # What the script does with its variables otherwise is up to its author.
        pytest.param("f() { (( $1 > 3 )); }; f @", "", id="an argument of a function"),
        pytest.param('n=$COUNT; eval "$n"', "", id="another variable"),
        pytest.param('echo "$COUNT" | sh', "", id="a pipe"),
        pytest.param("printf '%s\\0' \"$COUNT\" | xargs -0I{} sh -c '{}'", "", id="xargs"),
        pytest.param('exec 3<<< "$COUNT"; sh <&3', "", id="a descriptor"),
        # And these are safe.
        pytest.param("[[ ${captured.count.output:int} -gt 3 ]]", "", id="a number"),
        pytest.param('[ "$COUNT" -gt 3 ] && [[ -n "@" ]]', "", id="plain tests"),
        pytest.param("[[ $COUNT == 3 || -z $COUNT ]]", "", id="texts in a test"),
        pytest.param("sh -c 'echo \"$COUNT\"'", "", id="a variable of a program"),
        pytest.param('echo "$COUNT" $((1 + 2))', "", id="an argument"),
    ],
)
def test_printed_text_and_code(action, verdict):
    assert verdict_on(action) == verdict


ROWS = [
    row(
        "the environment of the loop, of a state, and a state's own context",
        """\
        initial: count
        env: {A: "${env.A}", B: "3", C: "${context.c}", D: "${env.D}"}
        context: {c: "${env.C}"}
        states:
          count:
            action: echo $((A + B + C))
            next: check
          check:
            action: echo $((A + E + LL_CONTEXT_F + LL_CONTEXT_G + LL_CONTEXT_H))
            env: {E: "a ${prev.output:q}"}
            context: {f: "${env.F}", g: 3, h: "3"}
            next: done
          done: {terminal: true}
        """,
        """
        warning[LL312] 2:11 ${env.A}
          `A` holds `${env.A}`, and is used in shell arithmetic, where bash runs commands it finds \
in a value
          help: write `${env.A:int}` if it is a whole number
        warning[LL312] 2:34 ${context.c}
          `C` holds `${env.C}`, and is used in shell arithmetic, where bash runs commands it finds \
in a value
          help: write `${env.C:int}` if it is a whole number
        warning[LL312] 10:17 ${prev.output:q}
          `E` holds `${prev.output:q}`, and is used in shell arithmetic, where bash runs commands \
it finds in a value
          help: write `${prev.output:int}` if it is a whole number
        warning[LL312] 11:19 ${env.F}
          `LL_CONTEXT_F` holds `${env.F}`, and is used in shell arithmetic, where bash runs \
commands it finds in a value
          help: write `${env.F:int}` if it is a whole number
        """,
    ),
    row(
        "a string that cannot be filled in",
        """\
        initial: check
        env: {A: "${context.gone}"}
        states:
          check: {action: echo $((A)), next: again}
          again: {action: "echo $((A)) ${context.b}", next: done}
          done: {terminal: true}
        """,
        """
        error[LL403] 2:11 ${context.gone}
          `context` has no `gone`
          help: the loop has no `context`
        error[LL403] 5:32 ${context.b}
          `context` has no `b`
          help: the loop has no `context`
        """,
    ),
    row(
        "an agent reads no shell",
        """\
        initial: check
        env: {A: "${env.A}"}
        states:
          check: {action: /review $((A)), next: done}
          done: {terminal: true}
        """,
        "",
    ),
]


@pytest.mark.parametrize(("source", "expected"), ROWS)
def test_each_warning_has_its_words_and_its_place(source, expected):
    assert told(source) == expected


def test_that_a_very_long_script_was_not_read_is_reported():
    text = LOOP.format(action="(( COUNT > 3 )); # " + "x" * 200_000)
    assert [problem.code for problem in load(text, "a.yaml", "a").problems] == ["LL314"]
