"""What is said about templates."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from little_loops.authoring.checks.references import covered, read
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


TEMPLATES = [
    row(
        "nesting",
        acting("echo ${context.${context.a}}", "context: {a: b}"),
        """
        error[LL401] 6:18 ${context.${
          a reference inside a reference: `${context.…`
          help: references cannot be nested; write one after the other
        """,
    ),
    row(
        "several mistakes in one text",
        acting("echo ${capture.files.output} ${prev.output:upper}"),
        """
        error[LL402] 6:18 ${capture.files.output}
          unknown namespace `capture`
          help: did you mean `captured`? known: `context`, `captured`, `prev`, `state`, `loop`, \
`branch`, `env`; write `$${` for a literal `${`
        error[LL401] 6:42 ${prev.output:upper}
          unknown modifier `:upper`
          help: known: `:int`, `:number`, `:raw`, `:q`, `:words`; a fallback is written `:-text`
        """,
    ),
    row(
        "a variable that is not there",
        acting("echo ${context.drectory}", "context: {directory: src}"),
        """
        error[LL403] 6:18 ${context.drectory}
          `context` has no `drectory`
          help: did you mean `directory`?
        """,
    ),
    row(
        "no variables at all",
        acting("echo ${context.directory}"),
        """
        error[LL403] 6:18 ${context.directory}
          `context` has no `directory`
          help: the loop has no `context`
        """,
    ),
    row(
        "a path into a variable",
        acting(
            "echo ${context.a.b} ${context.a.c} ${context.l.1} ${context.l.7}",
            "context: {a: {b: 1}, l: [1, 2]}",
        ),
        """
        error[LL403] 6:33 ${context.a.c}
          `context.a.c` does not exist
          help: `context.a` has no such value
        error[LL403] 6:63 ${context.l.7}
          `context.l.7` does not exist
          help: `context.l` has no such value
        """,
    ),
    row(
        "results that are not there",
        acting("echo ${captured.flies.output} ${captured.done.output}"),
        """
        error[LL404] 6:18 ${captured.flies.output}
          there is no capture named `flies`
          help: did you mean `files`?
        error[LL404] 6:43 ${captured.done.output}
          state `done` has no action, so there is no `captured.done`
          help: name a state with an action, or a capture
        """,
    ),
    row(
        "fields that are not there",
        acting(
            "echo ${captured.files.ouput} ${captured.files} ${prev.output.length} ${loop.nmae} "
            "${state.x}"
        ),
        """
        error[LL405] 6:18 ${captured.files.ouput}
          `captured.files` has no field `ouput`
          help: did you mean `output`?
        error[LL405] 6:42 ${captured.files}
          `${captured.files}` needs a field
          help: write `${captured.files.output}`, or another field
        error[LL405] 6:60 ${prev.output.length}
          `prev.output` has no fields
          help: write `${prev.output}`
        error[LL405] 6:82 ${loop.nmae}
          `loop` has no field `nmae`
          help: did you mean `name`?
        error[LL405] 6:95 ${state.x}
          `state` has no field `x`
          help: known: `attempt`, `iteration`, `name`
        """,
    ),
    row(
        "what is there",
        acting(
            "echo ${captured.files.structured.a.b} ${captured.first.exit_code} ${prev.state} "
            "${loop.run_id} ${state.attempt} ${env.HOME} ${HOME} $${context.x}"
        ),
        "",
    ),
    row(
        "always the fallback",
        acting("echo ${context.drectory:-src} ${captured.flies.output:-}"),
        """
        warning[LL311] 6:18 ${context.drectory:-src}
          `${context.drectory:-src}` always uses its fallback: `context` has no `drectory`
          help: the loop has no `context`
        warning[LL311] 6:43 ${captured.flies.output:-}
          `${captured.flies.output:-}` always uses its fallback: there is no capture named `flies`
          help: did you mean `files`?
        """,
    ),
    row(
        "in values, deep down, and in a block",
        """\
        initial: check
        context:
          list: [a, {b: "${capture.x}"}]
        env: {A: "${context.lst}"}
        states:
          check:
            action: |
              echo one
              echo '${captured.nothing.output}' two
            context: {own: "${context.missing}"}
            env: {B: "${loop.nothing}"}
            next: done
          done: {terminal: true}
        """,
        """
        error[LL402] 3:18 ${capture.x}
          unknown namespace `capture`
          help: did you mean `captured`? known: `context`, `captured`, `prev`, `state`, `loop`, \
`branch`, `env`; write `$${` for a literal `${`
        error[LL403] 4:11 ${context.lst}
          `context` has no `lst`
          help: did you mean `list`?
        error[LL404] 9:13 ${captured.nothing.output}
          there is no capture named `nothing`
          help: known: `check`
        error[LL403] 10:21 ${context.missing}
          `context` has no `missing`
          help: known: `list`, `own`
        error[LL405] 11:15 ${loop.nothing}
          `loop` has no field `nothing`
          help: known: `answer`, `continuation`, `cycle`, `elapsed`, `elapsed_ms`, `name`, `run_dir`, \
`run_id` and 1 more
        """,
    ),
    row(
        "where nothing is filled in",
        """\
        initial: check
        description: "for ${loop.name}, not ${loop.run_id}; but $${loop.name}, ${HOME}"
        context: {first: check}
        cwd: ${context.first}
        host: {model: "${context.first}", args: ["${context.first}"]}
        states:
          check:
            action: pytest
            condition: {type: verdict, words: [a, b]}
            on_a: x${context.first}
            route: {b: "x${context.first}"}
            on_error: x${context.first}
            host: {model: "${context.first}", env: {A: "${prev.output"}}
            cwd: ${context.first}
          done: {terminal: true}
        """,
        """
        error[LL406] 2:19 ${loop.name}
          `${loop.name}` is not filled in here
          help: HELP
        error[LL406] 4:6 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 5:16 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 5:43 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 10:12 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 11:18 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 12:16 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 13:20 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        error[LL406] 14:10 ${context.first}
          `${context.first}` is not filled in here
          help: HELP
        """.replace(
            "HELP",
            "templates are for `action`, `context` and `env` values, and a condition's `source`, "
            "`target`, `pattern`, `path` and `tolerance`",
        ),
    ),
    row(
        "a choice at a gate",
        """\
        initial: check
        context: {first: check}
        states:
          check: {action: pytest, next: look}
          look: {terminal: true, outcome: review, next: check, choices: [check, "${context.first}"]}
        """,
        """
        error[LL406] 5:74 ${context.first}
          `${context.first}` is not filled in here
          help: templates are for `action`, `context` and `env` values, and a condition's `source`, \
`target`, `pattern`, `path` and `tolerance`
        """,
    ),
    row(
        "hooks get JSON",
        """\
        initial: check
        context: {first: check}
        states:
          check:
            action: pytest
            before: echo ${context.first}
            after: echo ${context.first}
            cwd: a[1]*
            next: done
          done: {terminal: true, outcome: review, on_rejected: "${context.first}"}
        """,
        """
        error[LL406] 6:5 before
          `${context.first}` is not filled in here
          help: a hook reads values such as `context` as JSON from its standard input
        error[LL406] 7:5 after
          `${context.first}` is not filled in here
          help: a hook reads values such as `context` as JSON from its standard input
        error[LL406] 10:57 ${context.first}
          `${context.first}` is not filled in here
          help: templates are for `action`, `context` and `env` values, and a condition's `source`, \
`target`, `pattern`, `path` and `tolerance`
        """,
    ),
    row(
        "a circle",
        acting(
            "echo ${context.a}",
            'context: {x: "${context.a}", a: "${context.b}", b: ["${context.c}"], '
            'c: "${context.a} ${context.d}", d: 1, e: "${context.e}"}',
        ),
        """
        error[LL212] 2:33 "${context.b}"
          circular reference between `context` values: `a` → `b` → `c` → `a`
          help: give one of them a plain value
        error[LL212] 2:111 "${context.e}"
          circular reference between `context` values: `e` → `e`
          help: give one of them a plain value
        """,
    ),
    row(
        "two ways to the same variable are no circle",
        acting(
            "echo ${context.a} ${context.b}",
            'context: {a: "${context.c}", b: "${context.c} ${context.c}", c: "${context.d}", d: 1}',
        ),
        "",
    ),
    row(
        "a circle through a state's own variable",
        """\
        initial: check
        context: {a: "${context.b}", b: 1}
        states:
          check:
            action: echo ${context.a}
            context: {b: "${context.a}"}
            next: done
          done: {terminal: true}
        """,
        """
        error[LL401] 5:18 ${context.a}
          circular reference between `context` values: `context.a` → `context.b` → `context.a`
          help: None
        error[LL401] 6:19 ${context.a}
          circular reference between `context` values: `context.a` → `context.b` → `context.a`
          help: None
        """,
    ),
    row(
        "a variable that only another state has",
        """\
        initial: first
        context: {a: "${context.b}"}
        states:
          first: {action: "echo ${context.a}", context: {b: 1}, next: second}
          second: {action: "echo ${context.a}", next: done}
          done: {terminal: true}
        """,
        """
        error[LL403] 5:20 "echo ${context.a}"
          `context` has no `b` in state `second`, but a value used here refers to it
          help: add it to the loop's `context`
        """,
    ),
    row(
        "said once, not again where it is used",
        acting("echo ${context.a} ${context.c}", 'context: {a: "${context.else}", c: "${x.y}"}'),
        """
        error[LL403] 2:15 ${context.else}
          `context` has no `else`
          help: known: `a`, `c`
        error[LL402] 2:37 ${x.y}
          unknown namespace `x`
          help: known: `context`, `captured`, `prev`, `state`, `loop`, \
`branch`, `env`; write `$${` for a literal `${`
        """,
    ),
]


@pytest.mark.parametrize(("source", "expected"), TEMPLATES)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected


PIECES = ["${", "}", "$", "$${", "a", ".", "context", ":-", ":q", "\n", "{", " ", "${context.x}"]


@settings(deadline=None)
@example("${${a.${prev.output}")
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_mistakes_do_not_hide_the_references_beside_them(text: str) -> None:
    found = read(text)
    mistakes = [(error.start, error.end) for error in found.errors]
    assert len(covered(text, mistakes)) == len(text)
    for reference in found.references:
        assert text[reference.start : reference.end] == reference.text
        assert all(end <= reference.start or reference.end <= start for start, end in mistakes)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], "abcdef"),
        ([(1, 3)], "aéédef"),
        ([(3, 5), (0, 4), (1, 2)], "éééééf"),
        ([(0, 6)], "é" * 6),
    ],
)
def test_covered(spans: list[tuple[int, int]], expected: str) -> None:
    assert covered("abcdef", spans) == expected
