"""The whole way from text to a checked loop; and that nothing in a file can break it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.authoring.load import Definition, load, load_data
from tests.authoring.documents import damaged

EXAMPLES = sorted((Path(__file__).parents[1] / "design").glob("*.yaml"))
MACHINE = "initial: a\nstates: {a: {terminal: true}}\n"


def told(definition: Definition) -> list[str]:
    return [f"{problem.code} {problem.message}" for problem in definition.problems]


def test_a_sound_file_is_a_loop_without_problems() -> None:
    definition = load(MACHINE, "x.yaml", "stem")
    assert definition.loop is not None
    assert definition.loop.name == "stem"
    assert definition.problems == ()
    assert definition.places.at("initial", part="value") is not None


@pytest.mark.parametrize(
    ("text", "stem", "name"),
    [
        pytest.param(MACHINE, "fix-types", "fix-types", id="the file's"),
        pytest.param("name: own\n" + MACHINE, "not a name", "own", id="its own"),
        pytest.param("paradigm: goal\ngoal: No type errors in src/\ntools: [mypy]", "not a name",
                     "goal-no-type-errors", id="a goal names itself"),
        pytest.param("paradigm: convergence\ncheck: a\ntoward: 0\nusing: b", "c", "c",
                     id="a paradigm has the file's"),
    ],
)  # fmt: skip
def test_the_name(text: str, stem: str, name: str) -> None:
    definition = load(text, "x.yaml", stem)
    assert definition.loop is not None, definition.problems
    assert definition.loop.name == name


def test_a_file_name_that_cannot_be_a_loops() -> None:
    definition = load(MACHINE, "my loop.yaml", "my loop")
    assert told(definition) == ["LL106 the file name `my loop` cannot be used as the loop's name"]
    assert definition.problems[0].help == "add `name: …`, or rename the file"


def test_aliases_reach_paradigms_by_their_main_names() -> None:
    definition = load(
        dedent("""\
            paradigm: imperative
            steps:
              - {action: make, check_condition: {type: output_contains, pattern: ok}}
              - {action: make test}
            until: {type: exit_code}
        """),
        "x.yaml",
        "x",
    )
    assert definition.loop is not None, definition.problems
    states = definition.loop.to_dict()["states"]
    assert states["step_0"]["condition"] == {"type": "output_contains", "pattern": "ok"}
    assert states["evaluate"]["condition"] == {"type": "exit_code", "source": "step_0"}


def test_aliases_inside_constraints() -> None:
    definition = load(
        "paradigm: invariants\nconstraints:\n"
        "  - {name: a, check: {action: x, check_condition: {fail: [1, 2]}}, fix: y, x-note: why}\n",
        "x.yaml",
        "x",
    )
    assert definition.loop is not None, definition.problems
    check = definition.loop.to_dict()["states"]["check_a"]
    assert check["condition"] == {"type": "exit_code", "fail": [1, 2]}


def test_a_problem_in_a_compiled_state_points_at_what_was_written() -> None:
    text = "paradigm: goal\ngoal: Up\ntools:\n  - pytest\n  - echo ${captured.nope.output}\n"
    (problem,) = load(text, "x.yaml", "x").problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.source) == (5, "  - echo ${captured.nope.output}")


def test_problems_come_in_the_order_of_the_file() -> None:
    text = "initial: nope\nstates:\n  a: {terminal: true, colour: red}\nbackoff: -1\ntimeout: 0\n"
    assert [problem.code for problem in load(text, "x.yaml", "x").problems] == [
        "LL201",
        "LL102",
        "LL104",
        "LL104",
    ]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param("initial: a\ncontext: [x]\nstates: {a: {action: 'echo ${context.x}', next: "
                     "b}}", ["LL103", "LL202"], id="a broken context, but a target is a target"),
        pytest.param("initial: a\ncolour: red\nstates: {a: {action: 'echo ${context.x}', next: "
                     "a}}", ["LL102", "LL302", "LL403"], id="a problem that has nothing to do with it"),
        pytest.param("initial: a\nstates: {a: {action: x, on_fial: b}, b: {terminal: true}}",
                     ["LL102"], id="no warnings about what follows"),
        pytest.param("initial: a\nstates: {a: {actoin: x, next: a}}", ["LL102"],
                     id="misspelt action"),
    ],
)  # fmt: skip
def test_what_only_follows_from_a_problem_is_not_told(text: str, codes: list[str]) -> None:
    assert [problem.code for problem in load(text, "x.yaml", "x").problems] == codes


END = "z: {terminal: true}"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param("initial: a\nstates:\n  a: {action: x, condition: {type: output_numeric}, "
                     "next: b}\n  b: {action: 'echo ${context.no}', next: z}\n  " + END,
                     ["LL101", "LL403"], id="a broken condition"),
        pytest.param("initial: a\nstates:\n  a: {action: x, condition: {type: output_contains, "
                     "pattern: '${context.no}', negate: 3}, next: z}\n  " + END,
                     ["LL403", "LL103"], id="the rest of a broken condition"),
        pytest.param("initial: a\nstates:\n  a: {action: x, condition: {type: output_contains, "
                     "pattern: 'a(', regex: 3}, next: z}\n  " + END,
                     ["LL103"], id="how a pattern is read rests on `regex`"),
        pytest.param("states:\n  a: {action: x, next: b}\n  b: {action: 'echo ${context.no}', "
                     "next: c}\n  " + END, ["LL101", "LL403", "LL202"], id="no initial"),
        pytest.param("initial: a\nstates:\n  a: make\n  b: {action: 'echo ${context.no} "
                     "${captured.a.output} ${captured.c.output}', next: z}\n  " + END,
                     ["LL103", "LL403"], id="a state that is none, and results of it"),
        pytest.param("initial: a\nstates:\n  a: {action: x, capture: 'a b', next: b}\n  b: {action: "
                     "'echo ${captured.n.output} ${context.no}', next: z}\n  " + END,
                     ["LL106", "LL403"], id="a broken capture, and names nobody knows"),
        pytest.param("initial: a\nstates:\n  a: {action: [x], next: b}\n  b: {action: 'echo "
                     "${captured.a.output} ${captured.c.output}', next: z}\n  " + END,
                     ["LL103", "LL404"], id="a broken action leaves a result"),
        pytest.param("initial: a\ncontext: {n: .nan, yes: 1}\nstates:\n  a: {action: 'echo "
                     "${context.n} ${context.yes} ${context.no}', next: z}\n  " + END,
                     ["LL109", "LL121", "LL403"], id="a broken variable is one"),
        pytest.param("initial: a\nstates:\n  a: {action: x, context: [1], next: b}\n  b: {action: "
                     "'echo ${context.no}', next: z}\n  " + END,
                     ["LL103", "LL403"], id="a broken context of another state"),
        pytest.param("initial: a\nstates:\n  a: {action: x, on_maintain: a, outcome: review, "
                     "terminal: maybe}\n  b: {action: x, on_maintain: a, next: z}\n  " + END,
                     ["LL103", "LL204"], id="is it terminal?"),
        pytest.param("initial: a\nstates:\n  a: {terminal: true, outcome: good, next: a, on_fail: a}",
                     ["LL105", "LL203"], id="is it a gate for people?"),
        pytest.param("initial: a\nstates:\n  a: {action: x, condition: {type: verdict, words: "
                     "good}, on_good: z}\n  " + END, ["LL103"], id="words that are no list"),
        pytest.param("initial: a\nstates:\n  a: {action: x, conditon: {type: verdict, words: "
                     "[good]}, on_good: z, on_god: z}\n  " + END, ["LL102", "LL102"],
                     id="words of a misspelt condition"),
        pytest.param("initial: a\nstates:\n  a: {action: x, condition: verdict, on_good: 1}\n  "
                     + END, ["LL103", "LL121"], id="a condition that is none"),
        pytest.param("initial: a\nstates:\n  a: {<<: {action: x}, next: z}\n  " + END, ["LL010"],
                     id="a merge key hides what it holds"),
        pytest.param("initial: a\nstates:\n  !x a: {action: x, next: z}\n  " + END, ["LL009"],
                     id="a state whose name is tagged"),
        pytest.param("initial: a\nstates:\n  !x a: {action: x}\n  ? [b]\n  : {}\n  b: {action: 'echo "
                     "${captured.a.output} ${context.no}'}\n  " + END, ["LL009", "LL011", "LL403"],
                     id="states whose names are none"),
        pytest.param("initial: a\ncontext: {<<: {a: 1}}\nstates:\n  a: {action: 'echo "
                     "${context.a} ${loop.no}', next: z}\n  " + END, ["LL010", "LL405"],
                     id="a merge key among variables"),
        pytest.param("context: {a: '${context.b} ${loop.no}'}\ninitial: a\nstates: []",
                     ["LL405", "LL103"], id="no states at all"),
        pytest.param("on_eror: z\ninitial: deploy\nstates:\n  deploy: {action: x, next: y}\n  y: "
                     "{action: git push, next: z, on_eror: z}\n  " + END, ["LL102", "LL102"],
                     id="doubts that rest on what is misspelt"),
        pytest.param("initial: a\nstates:\n  a: {action: x, on_fial: z}\n  b: {action: x, "
                     "on_pass: z}\n  " + END, ["LL102", "LL303"], id="doubts about another state"),
        pytest.param("intial: a\nstates:\n  " + END, ["LL102"], id="misspelt initial is no missing"),
        pytest.param("initial: a\nstates:\n  a: {action: x, on_target: z, next: a, condition: 1}\n  "
                     + END, ["LL103"], id="a condition that could not be read is not implied"),
        pytest.param("initial: a\nstates:\n  a: {action: '/x; /ll:fix', action_type: shel, next: "
                     "z}\n  " + END, ["LL105"], id="who runs it rests on `action_type`"),
        pytest.param("initial: a\nshell: zsh\nstates:\n  a: {action: 'eval ${env.X}', next: z}\n  "
                     + END, ["LL105"], id="what a shell takes rests on `shell`"),
        pytest.param("paradigm: goal\ntools: ['echo ${context.no}', {action: y, on_error: fxi}]",
                     ["LL101", "LL403", "LL118"], id="a goal without a goal"),
        pytest.param("paradigm: goal\ngoal: Up\non_error: fix\ntols: [a, b]", ["LL102"],
                     id="which states there are cannot be said"),
        pytest.param("paradigm: convergence\ncheck: [a]\ntoward: 0\nusing: b\ncontext: {target: 1, "
                     "a: '${loop.no}'}", ["LL103", "LL012", "LL405"], id="what is made of it is new"),
        pytest.param("initial: check\ntools: [mypy]", ["LL101", "LL112"],
                     id="with `initial` it is a machine"),
        pytest.param("states:\n  a: {action: x, next: z}\n  b: {action: x, next: z}\n  " + END,
                     ["LL101"], id="no initial, so nothing is unreachable"),
        pytest.param("initial: a\nenv: {A: '${prev.output}'}\nstates: {}", ["LL111"],
                     id="a template where there are no states"),
        pytest.param("paradigm: convergence\ncheck: a\ntoward: x\nusing: b", ["LL103"],
                     id="a target that is no number"),
    ],
)  # fmt: skip
def test_a_problem_hides_only_what_rests_on_it(text: str, codes: list[str]) -> None:
    assert [problem.code for problem in load(text, "x.yaml", "x").problems] == codes


def test_data_needs_no_yaml_and_has_no_places() -> None:
    definition = load_data({"initial": "a", "states": {"a": {"terminal": True}}}, "x")
    assert definition.loop is not None
    assert definition.places.at("initial") is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param({"name": "x\0", "initial": "a", "states": {"a": {"terminal": True}}}, "LL126 `name` contains a "
                     "NUL character, which is not allowed in commands, paths and variables", id="a NUL"),
        pytest.param([1], "LL013 a loop file must be a mapping of fields, such as `name: …` and "
                          "`states: …`", id="a list"),
        pytest.param(None, "LL013 a loop file must be a mapping of fields, such as `name: …` and "
                           "`states: …`", id="nothing"),
        pytest.param({"context": {"a": [0] * 60_000}},
                     "LL005 more than 50,000 nodes (keys, values, items)", id="too many"),
    ],
)  # fmt: skip
def test_data_that_is_no_loop(data: Any, words: str) -> None:
    assert told(load_data(data, "x")) == [words]


def test_data_that_contains_itself() -> None:
    data: dict[str, Any] = {}
    data["context"] = data
    assert told(load_data(data, "x")) == ["LL006 more than 50 levels deep"]


@pytest.mark.parametrize(("levels", "words"), [(48, []), (49, ["LL006 more than 50 levels deep"])])
def test_yaml_as_deep_as_data_may_be(levels: int, words: list[str]) -> None:
    deep: Any = "x"
    for _ in range(levels):
        deep = [deep]
    definition = load_data(
        {"initial": "a", "context": {"a": deep}, "states": {"a": {"terminal": True}}}, "x"
    )
    assert told(definition) == words


@pytest.mark.parametrize(
    ("items", "words"),
    [(49_987, []), (49_988, ["LL005 more than 50,000 nodes (keys, values, items)"])],
)
def test_as_much_data_as_there_may_be(items: int, words: list[str]) -> None:
    data = {"initial": "a", "states": {"a": {"terminal": True}}, "context": {"a": [0] * items}}
    assert told(load_data(data, "x")) == words


# Nothing raises.


@settings(deadline=None)
@given(st.text() | st.binary())
def test_no_text_makes_it_raise(text: str | bytes) -> None:
    load(text, "x.yaml", "x")


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_no_data_makes_it_raise(data: Any) -> None:
    load_data(data, "x")


@settings(deadline=None)
@given(st.data())
def test_no_change_to_a_sound_file_makes_it_raise(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES)).read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 10)))
        pieces = st.sampled_from(
            ["", ":", " ", "\n", "\t", "- ", "'", '"', "{", "]", "&a ", "*a", "!x ", "~", "${", "#"]
        )
        text = text[:start] + data.draw(pieces | st.text(max_size=3)) + text[end:]
    definition = load(text, "x.yaml", "x")
    errors = [problem for problem in definition.problems if problem.severity == "error"]
    assert (definition.loop is None) == bool(errors)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * (1 << 20), id="brackets"),
        pytest.param("- " * (1 << 19), id="dashes"),
        pytest.param("a: 1\n" * (1 << 17), id="one key"),
        pytest.param("".join(f"k{number}: 1\n" for number in range(24_000)), id="many keys"),
        pytest.param("a: " + "9" * (1 << 20 - 1), id="a long number"),
        pytest.param("\t" * (1 << 20), id="tabs"),
        pytest.param("'" * (1 << 20), id="quotes"),
        pytest.param("x\n" * (1 << 19), id="lines"),
        pytest.param("a: &a [x]\n" + "b: [*a, *a]\n" * 1000, id="aliases"),
        pytest.param("initial: a\nstates: {a: {action: x, condition: {type: verdict, words: ["
                     + ",".join(f"w{n}" for n in range(9_000)) + "]}, "
                     + ",".join(f"on_v{n}: a" for n in range(9_000)) + "}}", id="words"),
        pytest.param("paradigm: imperative\ncondition: {}\nsteps: [" + "x," * 40_000 + "]",
                     id="steps"),
    ],
)  # fmt: skip
@pytest.mark.untraced
def test_a_mebibyte_of_anything_is_answered_in_words(text: str) -> None:
    definition = load(text[: 1 << 20], "x.yaml", "x")
    assert definition.loop is None
    assert definition.problems[0].code.startswith("LL")
