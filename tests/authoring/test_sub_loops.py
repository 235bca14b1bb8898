"""Loops that start other loops, as files: what is read, and what is wrong with them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.dump import dump
from little_loops.authoring.load import Definition, load, load_data
from little_loops.authoring.loop_files import Library, LoopText
from little_loops.fsm.schema import ChildLimits, FSMLoop, StateConfig

FIELDS_OF_ACTIONS = (
    "action: ls",
    "action_type: shell",
    "condition: {type: exit_code}",
    "capture_exit: true",
    "check: true",
    "terminal: true",
    "context: {a: b}",
    "env: {A: b}",
    "cwd: src",
    "shell: bash",
    "kill_grace: 1s",
    "idle_timeout: 1s",
    "host: {name: codex}",
)
FILES = {
    "quiet": """\
        context: {dir: src}
        initial: go
        states: {go: {action: "ls ${context.dir}", next: end}, end: {terminal: true}, x: {terminal: true}}
        """,
    "fix": """\
        context: {dir: src, name: x}
        initial: go
        states: {go: {action: "ls ${context.dir}", next: end}, end: {terminal: true}}
        """,
    "wide": """\
        scope: [docs]
        initial: go
        states: {go: {action: ls, next: end}, end: {terminal: true}}
        """,
    "forever": """\
        maintain: true
        initial: go
        states: {go: {action: ls, next: end}, end: {terminal: true}}
        """,
    "broken": """\
        initial: go
        states: {go: {action: ls, next: nowhere}, end: {terminal: true}}
        """,
    "self": """\
        initial: go
        states: {go: {loop: self, next: end}, end: {terminal: true}}
        """,
    "ping": """\
        initial: go
        states: {go: {loop: pong, next: end}, end: {terminal: true}}
        """,
    "pong": """\
        initial: go
        states: {go: {loop: ping, next: end}, end: {terminal: true}}
        """,
    "two": """\
        context: {dir: src, what: ls}
        initial: go
        states: {go: {action: "${context.what} ${context.dir}", next: end}, end: {terminal: true}}
        """,
    "code": """\
        context: {what: ls}
        initial: go
        states: {go: {action: "${context.what}", next: end}, end: {terminal: true}}
        """,
}


def read(name: str) -> LoopText | str:
    if name not in FILES:
        return f"no loop named `{name}`\navailable: `fix`"
    return LoopText(dedent(FILES[name]).encode(), f"{name}.yaml", name, f"/{name}.yaml")


def loaded(text: str, within: tuple[str, ...] = ("/top.yaml",)) -> Definition:
    return load(dedent(text), "top.yaml", "top", Library(read, within))


def told(definition: Definition) -> list[str]:
    found = []
    for problem in definition.problems:
        place = problem.place
        where = "" if place is None else f"{place.file}:{place.line}:{place.column}: "
        found.append(f"{where}{problem.code} {problem.message}")
    return found


def state(text: str, scope: str = "[.]") -> str:
    return f"""\
        scope: {scope}
        initial: kid
        states:
          first: {{action: date, next: kid}}
          kid: {{{text}, next: done}}
          done: {{terminal: true}}
        """


def test_a_loop_by_its_name_and_one_in_place():
    named = loaded(state("loop: fix, with: {dir: lib}, limits: {timeout: 1m}")).loop
    assert named is not None
    kid = named.states["kid"]
    assert (kid.action, kid.action_type, kid.with_) == ("fix", "loop", {"dir": "lib"})
    assert kid.limits == ChildLimits(timeout=60)
    inline = loaded(state("loop: {initial: a, states: {a: {terminal: true}}}")).loop
    assert inline is not None
    assert inline.states["kid"].action == "kid"  # named after its state


FIXED_BY = {
    "check_fix": ("check: make\nfix: {loop: fix, with: {dir: lib}}\n", "fix"),
    "several fixes": ("check: make\nfix: [ls, {loop: fix, with: {dir: lib}}]\n", "fix_2"),
    "goal": (
        "paradigm: goal\ngoal: it is well\ntools: [make, {loop: fix, with: {dir: lib}}]\n",
        "fix",
    ),
    "convergence": (
        "paradigm: convergence\ncheck: ls | wc -l\ntoward: 0\nusing: {loop: fix, with: {dir: lib}}\n",
        "apply",
    ),
    "invariants": (
        "paradigm: invariants\nconstraints:\n- {name: a, check: make, fix: {loop: fix, with: {dir: lib}}}\n",
        "fix_a",
    ),
    "imperative": (
        (
            "paradigm: imperative\nsteps: [make, {name: mend, loop: fix, with: {dir: lib}}]\n"
            "condition: {type: exit_code}\n"
        ),
        "mend",
    ),
    "the step that is judged": (
        "paradigm: imperative\nsteps: [{loop: fix, with: {dir: lib}}]\ncondition: {type: exit_code}\n",
        "step_0",
    ),
}


@pytest.mark.parametrize("form", FIXED_BY)
def test_a_loop_instead_of_a_command(form):
    text, name = FIXED_BY[form]
    found = loaded(text)
    assert told(found) == []
    assert found.loop is not None
    state = found.loop.states[name]
    assert (state.action, state.action_type, state.with_) == ("fix", "loop", {"dir": "lib"})
    assert name in found.children
    again = load(dump(found.loop), "compiled.yaml", "compiled").loop
    assert again == found.loop


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "check: {loop: fix}\nfix: make\n",
            ["top.yaml:1:9: LL221 `check` cannot be a loop"],
            id="a check",
        ),
        pytest.param(
            "paradigm: goal\ngoal: it is well\ntools: [{loop: fix}, make]\n",
            ["top.yaml:3:10: LL221 the first tool, which is the check, cannot be a loop"],
            id="the first tool",
        ),
        pytest.param(
            "paradigm: convergence\ncheck: {loop: fix}\ntoward: 0\nusing: make\n",
            ["top.yaml:2:9: LL221 `check` cannot be a loop"],
            id="a measurement",
        ),
        pytest.param(
            "paradigm: relay\nplan: p.md\nagent: {loop: fix}\n",
            ["top.yaml:3:9: LL221 `agent` cannot be a loop"],
            id="the agent of a relay",
        ),
        pytest.param(
            "check: make\nfix: {loop: nope}\n",
            ["top.yaml:2:13: LL221 no loop named `nope`"],
            id="no such loop",
        ),
        pytest.param(
            "check: make\nfix: {loop: fix, with: {dri: x}}\n",
            ["top.yaml:2:25: LL219 loop `fix` has no context variable `dri`"],
            id="an unknown variable",
        ),
        pytest.param(
            "check: make\nfix: {loop: fix, env: {A: b}}\n",
            ["top.yaml:2:18: LL220 `env` has no effect in state `fix`, which starts a loop"],
            id="a field of an action",
        ),
        pytest.param(
            "check: make\nfix: {loop: fix, next: done}\n",
            ["top.yaml:2:18: LL118 `next` is not allowed in `fix`"],
            id="a transition",
        ),
        pytest.param(
            "check: make\nfix: {loop: }\n",
            ["top.yaml:2:7: LL107 `loop` has no value"],
            id="no value",
        ),
    ],
)
def test_a_loop_where_it_makes_no_sense(text, problems):
    assert told(loaded(text)) == problems


@pytest.mark.parametrize(
    ("runs", "starts"),
    [
        pytest.param("loop: fix", "another loop", id="a loop"),
        pytest.param("for_each: [a], action: date", "branches", id="branches"),
    ],
)
def test_nothing_can_be_started_when_the_time_is_over(runs, starts):
    text = "on_timeout: kid\ntimeout: 5m\n" + dedent(state(runs))
    why = f"state `kid` cannot handle the loop's timeout: it starts {starts}"
    assert told(loaded(text)) == [f"top.yaml:1:13: LL221 {why}"]


@pytest.mark.parametrize("text", ["loop: fix, with: {dir: lib}, limits: {max_iterations: 3}"])
def test_the_compiled_form_is_a_fixed_point(text):
    loop = loaded(state(text)).loop
    assert loop is not None
    again = load(dump(loop), "compiled.yaml", "compiled").loop
    assert again == loop
    assert FSMLoop.from_dict(loop.to_dict()) == loop


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "loop: nope", ["top.yaml:5:15: LL221 no loop named `nope`"], id="no such loop"
        ),
        pytest.param(
            'loop: "${context.x}"',
            ["top.yaml:5:15: LL221 `loop` cannot be a template"],
            id="a template",
        ),
        pytest.param(
            "loop: 5",
            [
                "top.yaml:5:15: LL103 `loop` must be the name of a loop, or a definition, not a number"
            ],
            id="a number",
        ),
        pytest.param(
            "loop: forever",
            [
                "top.yaml:5:15: LL221 loop `forever` has `maintain: true`, so state `kid` would never end"
            ],
            id="it never ends",
        ),
        pytest.param(
            "loop: self",
            ["self.yaml:2:21: LL221 loop `self` contains itself (used by top.yaml:5)"],
            id="it contains itself",
        ),
        pytest.param(
            "loop: broken",
            [
                (
                    "broken.yaml:2:33: LL202 `next` of state `go` names a state that does not exist:"
                    " `nowhere` (used by top.yaml:5)"
                )
            ],
            id="it has errors",
        ),
        pytest.param(
            "loop: fix, with: {dri: lib}",
            ["top.yaml:5:27: LL219 loop `fix` has no context variable `dri`"],
            id="an unknown variable",
        ),
        pytest.param(
            "loop: wide, with: {a: b}",
            ["top.yaml:5:28: LL219 loop `wide` has no context variable `a`"],
            id="no variables",
        ),
        pytest.param(
            "loop: fix, action: ls, env: {A: b}",
            [
                "top.yaml:5:20: LL220 `action` has no effect in state `kid`, which starts a loop",
                "top.yaml:5:32: LL220 `env` has no effect in state `kid`, which starts a loop",
            ],
            id="fields of an action",
        ),
        *(
            pytest.param(
                f"loop: fix, {field}",
                [
                    (
                        f"top.yaml:5:20: LL220 `{field.partition(':')[0]}` has no effect in state `kid`,"
                        " which starts a loop"
                    )
                ],
                id=field,
            )
            for field in FIELDS_OF_ACTIONS
        ),
        pytest.param(
            "action: ls, with: {a: b}",
            ["top.yaml:5:21: LL220 `with` has no effect in state `kid`, which starts no loop"],
            id="no loop",
        ),
    ],
)
def test_what_is_wrong(text, problems):
    found = [each for each in told(loaded(state(text))) if " LL301 " not in each]
    assert found == problems


def test_data_stays_data_in_the_other_loop():
    text = state('loop: code, with: {what: "${captured.first.output}"}')
    assert told(loaded(text.replace("initial: kid", "initial: first"))) == [
        (
            "code.yaml:3:24: LL407 `${context.what}` is used as a command name, and would be run"
            " (with the values of top.yaml:5)"
        )
    ]
    assert loaded(state("loop: code, with: {what: pwd}")).loop is not None


def test_data_of_a_program_stays_data_too():
    other = {
        "context": {"what": "ls"},
        "initial": "go",
        "states": {"go": {"action": "${context.what}", "next": "end"}, "end": {"terminal": True}},
    }
    states = {
        "first": {"action": "date", "next": "kid"},
        "kid": {"loop": other, "with": {"what": "${prev.output}"}, "next": "done"},
        "done": {"terminal": True},
    }
    assert told(load_data({"initial": "first", "states": states}, "x")) == [
        "LL407 `${context.what}` is used as a command name, and would be run"
    ]


def test_a_scope_outside_that_of_the_loop():
    message = "top.yaml:5:15: LL221 loop `wide` works on `docs`, which is outside this loop's scope"
    assert message in told(loaded(state("loop: wide", "[src]")))
    assert loaded(state("loop: wide", "[docs]")).loop is not None
    assert loaded(state("loop: fix", "[src]")).loop is not None  # `.` is the scope of the parent


def test_eight_levels_and_no_more():
    assert loaded(state("loop: fix"), ("x",) * 7).loop is not None
    [problem] = [p for p in loaded(state("loop: fix"), ("x",) * 8).problems if p.code == "LL221"]
    assert problem.message == "loops are nested more than 8 levels deep"


def test_without_a_project_a_name_means_nothing():
    states = {"a": {"loop": "fix", "next": "b"}, "b": {"terminal": True}}
    [problem] = load_data({"initial": "a", "states": states}, "x").problems
    assert problem.message == "there is no project here to look for it in"


def test_for_the_name_alone_no_other_file_is_read():
    text = state("loop: nope, with: {a: b}")
    loop = load(dedent(text), "top.yaml", "top", Library(names_only=True)).loop
    assert loop is not None
    assert loop.states["kid"].loop == FSMLoop("loop", "done", {"done": StateConfig(terminal=True)})


def test_a_template_that_is_wrong_is_reported_once():
    found = told(loaded(state('loop: fix, with: {dir: "${captured.nope.output}"}')))
    assert [each.split()[1] for each in found] == ["LL301", "LL404"]
    found = told(loaded(state('loop: fix, with: {dir: "${what.ever}"}')))
    assert "LL402" in [each.split()[1] for each in found]


def test_a_mistake_that_the_other_loop_has_anyway_is_reported_once():
    text = state('loop: quiet, with: {dir: "${captured.first.output}"}')
    definition = loaded(text.replace("initial: kid", "initial: first"))
    assert told(definition) == []


def test_a_loop_in_place_may_have_a_name_of_its_own():
    text = state("loop: {check: make, fix: make fix, goal: No type errors in src}")
    definition = loaded(text)
    assert definition.loop is not None
    assert definition.loop.states["kid"].action == "goal-no-type-errors"


@pytest.mark.parametrize(("key", "name"), [("kid", "kid"), ("_kid", "kid"), ("_", "loop")])
def test_a_loop_in_place_is_named_after_its_state(key, name):
    text = state("loop: {initial: a, states: {a: {action: x, next: b}, b: {terminal: true}}}")
    definition = loaded(text.replace("kid", key))
    assert definition.loop is not None
    child = definition.loop.states[key].loop
    assert child is not None
    assert child.name == name


def test_what_goes_with_a_loop_that_cannot_be_read_is_not_reported():
    assert [each.split()[1] for each in told(loaded(state("loop: nope, with: {a: b}")))] == [
        "LL221"
    ]


def test_a_loop_may_be_called_loop():
    found = load(
        "initial: a\nstates:\n  a: {loop: {name: loop, initial: x, states: {x: {terminal: true}}},"
        " next: done}\n  done: {terminal: true}\n",
        "x.yaml",
        "x",
    ).loop
    assert found is not None
    assert found.states["a"].loop is not None
    assert found.states["a"].loop.name == "loop"


@pytest.mark.parametrize(
    ("text", "help"),
    [
        pytest.param("loop: nope", "available: `fix`", id="no such loop"),
        pytest.param("loop: fix, with: {dri: lib}", "did you mean `dir`?", id="a similar variable"),
        pytest.param("loop: fix, with: {zz: lib}", "known: `dir`, `name`", id="other variables"),
        pytest.param(
            "loop: wide, with: {a: b}", "add it to that loop's `context`", id="no variables"
        ),
    ],
)
def test_how_to_fix_it(text, help):
    found = loaded(state(text)).problems
    assert [each.help for each in found if each.code in ("LL219", "LL221")] == [help]


def test_without_a_project_only_the_form_can_be_suggested():
    states = {"a": {"loop": "fix", "next": "b"}, "b": {"terminal": True}}
    [problem] = load_data({"initial": "a", "states": states}, "x").problems
    assert problem.help == "write, for example, `loop: fix-types`"


def test_two_loops_that_start_each_other():
    found = told(loaded(state("loop: ping")))
    assert found[0] == (
        "pong.yaml:2:21: LL221 loop `ping` contains itself (used by ping.yaml:2) (used by top.yaml:5)"
    )


def test_a_definition_in_place_is_a_level_of_its_own():
    text = state("loop: {initial: a, states: {a: {loop: fix, next: b}, b: {terminal: true}}}")
    assert loaded(text, ("x",) * 6).loop is not None
    found = [each.message for each in loaded(text, ("x",) * 7).problems if each.code == "LL221"]
    assert found == ["loops are nested more than 8 levels deep"]


def test_a_definition_in_place_that_cannot_be_read():
    found = loaded(state("loop: {initial: a, states: {a: {next: nowhere}}}"))
    assert found.loop is None
    assert {each.split()[1] for each in told(found)} >= {"LL202"}


def test_one_of_several_scopes_is_enough():
    assert loaded(state("loop: wide", "[src, docs]")).loop is not None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("${captured.first.output}", id="alone"),
        pytest.param("now ${captured.first.output}", id="in a text"),
        pytest.param("${context.seen}", id="in a variable"),
    ],
)
def test_what_is_data_for_the_other_loop(value):
    text = f"""\
        context: {{seen: "${{captured.first.output}}"}}
        initial: first
        states:
          first: {{action: date, next: kid}}
          kid:
            loop: two
            with:
              what: "{value}"
            next: done
          done: {{terminal: true}}
        """
    [problem] = told(loaded(text))
    assert problem.startswith("two.yaml:3:24: LL407 ")
    assert problem.endswith(" (with the values of top.yaml:8)")


def test_a_value_that_is_not_there_is_no_data():
    found = told(loaded(state('loop: code, with: {what: "${context.nope}"}')))
    assert [each.split()[1] for each in found if "LL301" not in each] == ["LL403"]
