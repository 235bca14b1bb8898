"""What all paradigms share: the author's pieces keep their places, and no document is too odd."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.authoring.load import load_data
from little_loops.authoring.paradigms import convergence, goal, imperative, invariants
from little_loops.authoring.paradigms.assembly import flag, step
from little_loops.authoring.yaml.nodes import Map, node_of, plain, text
from tests.authoring.telling import row, told

PARADIGMS = {
    "goal": goal,
    "convergence": convergence,
    "invariants": invariants,
    "imperative": imperative,
}
OWN_KEYS = sorted({key for module in PARADIGMS.values() for key in module.KEYS})

values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["ls", "all", "step_0", "min"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "check", "fix", "action", "condition", "source", "type", "on_pass"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
documents = st.dictionaries(
    st.sampled_from([*OWN_KEYS, "name", "scope", "states", "initial", "x-mine"]), values, max_size=6
)


@pytest.mark.parametrize("paradigm", sorted(PARADIGMS))
@given(document=documents)
def test_no_document_makes_it_raise(paradigm: str, document: dict[str, Any]) -> None:
    root = node_of(document)
    assert isinstance(root, Map)
    native = plain(PARADIGMS[paradigm].expand(root, "stem"))
    assert native["initial"] in native["states"]
    assert native.get("x-mine") == document.get("x-mine")


@pytest.mark.parametrize("paradigm", sorted(PARADIGMS))
@given(document=documents)
def test_whatever_is_read_is_compiled_or_told(paradigm: str, document: dict[str, Any]) -> None:
    definition = load_data({**document, "paradigm": paradigm}, "stem")
    assert (definition.loop is None) == any(p.severity == "error" for p in definition.problems)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        row(
            "goal",
            """\
            paradigm: goal
            goal: Up
            tools: [pytest, "fix ${captured.x.output}", {action: ls, cwd: "${loop.name}"}]
            """,
            """
            error[LL404] 3:22 ${captured.x.output}
              there is no capture named `x`
              help: known: `evaluate`, `fix`, `fix_2`
            error[LL406] 3:64 ${loop.name}
              `${loop.name}` is not filled in here
              help: HELP
            """.replace(
                "HELP",
                "templates are for `action`, `context` and `env` values, and a condition's "
                "`source`, `target`, `pattern`, `path` and `tolerance`",
            ),
        ),
        row(
            "convergence",
            """\
            paradigm: convergence
            check: {action: "count ${loop.x}", retry: {max: 3}}
            toward: "${context.most}"
            using: awk ${prev.output}
            patience: 2
            context: {most: some}
            """,
            """
            error[LL405] 2:24 ${loop.x}
              `loop` has no field `x`
              help: known: `answer`, `continuation`, `cycle`, `elapsed`, `elapsed_ms`, `name`, `run_dir`, \
`run_id` and 1 more
            warning[LL310] 2:36 retry
              `retry` of state `measure` has no effect: no transition leads to `$current`
              help: remove it, or write the loop with `states`
            error[LL208] 3:9 "${context.most}"
              `target` is not a number: `some`
              help: write a number, or a template that gives one
            error[LL407] 4:12 ${prev.output}
              `${prev.output}` is inside the program text of `awk`, and would be run
              help: pass it as a variable: `awk -v value=${prev.output} '{ print value }'`
            """,
        ),
        row(
            "convergence, a variable that the paradigm sets",
            """\
            paradigm: convergence
            check: count
            toward: 0
            using: make fix
            context: {target: 5}
            """,
            """
            error[LL012] 5:11 target
              `toward` and `context` both set `target`
              help: set it only with `toward`
            """,
        ),
        row(
            "invariants",
            """\
            paradigm: invariants
            constraints:
              - {name: tests-pass, check: pytest, fix: "fix ${captured.check.output}"}
              - {name: tests pass, check: pytest, fix: ls}
              - {name: lint, check: ruff, fix: {action: git push, timeout: 5}}
            on_error: fix_tests
            """,
            """
            error[LL404] 3:49 ${captured.check.output}
              there is no capture named `check`
              help: known: `check_lint`, `check_tests_pass`, `fix_lint`, `fix_tests_pass`
            error[LL124] 4:31 pytest
              two states would be named `check_tests_pass`
              help: rename one of the items they are made from
            error[LL124] 4:44 ls
              two states would be named `fix_tests_pass`
              help: rename one of the items they are made from
            error[LL202] 6:11 fix_tests
              `on_error` names a state that does not exist: `fix_tests`
              help: known: `all_valid`, `check_lint`, `check_tests_pass`, `fix_lint`, `fix_tests_pass`
            """,
        ),
        row(
            "imperative",
            """\
            paradigm: imperative
            steps: [pytest, "echo ${captured.step_2.output}"]
            until: {type: exit_code, source: step_2}
            """,
            """
            error[LL404] 2:23 ${captured.step_2.output}
              there is no capture named `step_2`
              help: did you mean `step_0`?
            error[LL207] 3:34 step_2
              `source` does not name a state or capture: `step_2`
              help: did you mean `step_0`?
            """,
        ),
    ],
)
def test_a_problem_in_a_compiled_state_points_at_what_was_written(
    source: str, expected: str
) -> None:
    assert told(source) == expected


def test_what_the_author_wrote_is_not_written_over() -> None:
    piece = step("a", node_of({"action": "ls", "next": "b", "capture_exit": False}), next="c")
    assert plain(flag(piece, "capture_exit").fields) == {
        "action": "ls",
        "capture_exit": False,
        "next": "c",
    }
    assert plain(flag(step("a", text("ls")), "capture_exit").fields) == {
        "action": "ls",
        "capture_exit": True,
    }
