"""States with branches, as files: what is read, and what is wrong with them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.branch_view import unfolded
from little_loops.authoring.dump import dump
from little_loops.authoring.load import Definition, load
from little_loops.authoring.loop_files import Library
from little_loops.authoring.yaml.places import Places, Source
from little_loops.fsm.schema import Branches, FSMLoop, StateConfig
from tests.authoring.test_sub_loops import read, told

INLINE = "{initial: a, states: {a: {action: make, next: b}, b: {terminal: true}}}"


def loaded(*state: str) -> Definition:
    """A loop whose state `all` has these lines."""
    lines = "\n".join(f"    {line}" for part in state for line in dedent(part).splitlines())
    text = (
        "context: {dir: src}\ninitial: first\nstates:\n  first: {action: date, next: all}\n"
        f"  all:\n{lines}\n    next: done\n  done: {{terminal: true}}\n"
    )
    return load(text, "top.yaml", "top", Library(read, ("/top.yaml",)))


EACH = "for_each: [a, b]\naction: make ${branch.item}"


@pytest.mark.parametrize(
    ("state", "branches"),
    [
        pytest.param(EACH, Branches(("a", "b")), id="a list"),
        pytest.param(
            'for_each: "${captured.first.output}"\nas: file\nloop: fix\nwith: {dir: "${branch.file}"}',
            Branches("${captured.first.output}", "file"),
            id="a text",
        ),
        pytest.param(
            'for_each: {glob: "${context.dir}/*.py"}\naction: cat ${branch.item}',
            Branches({"glob": "${context.dir}/*.py"}),
            id="files",
        ),
        pytest.param(
            "for_each: [{path: a.py, line: 1}]\naction: cat ${branch.item.path}\nmax_parallel: 8",
            Branches(({"path": "a.py", "line": 1},), max_parallel=8),
            id="objects",
        ),
        pytest.param(
            'matrix: {python: ["3.11", 3.10], db: [a]}\nexclude: [{python: "3.11"}]\n'
            "action: tox -e py${branch.python}-${branch.db}\njoin: any\nfail_fast: true",
            Branches(
                matrix={"python": ("3.11", "3.10"), "db": ("a",)},
                exclude=({"python": "3.11"},),
                join="any",
                fail_fast=True,
            ),
            id="a matrix",
        ),
        pytest.param(
            f'branches:\n  lint: {{action: "ruff ${{branch.name}}"}}\n  types: {{loop: {INLINE}}}\n'
            'join: "80%"',
            None,
            id="named",
        ),
        pytest.param(
            f"{EACH}\njoin: 2\ntimeout: 5m\nlimits: {{max_cost_usd: 1}}", None, id="limits"
        ),
        pytest.param(
            f"{EACH}\ncondition: {{type: output_json, path: length, target: 2}}", None, id="judged"
        ),
        pytest.param(
            "for_each: [claude, codex]\nas: who\nmax_parallel: 1\naction: /fix\n"
            "host: ${branch.who}",
            None,
            id="hosts",
        ),
    ],
)
def test_what_is_read_and_written_again(state, branches):
    definition = loaded(state)
    assert told(definition) == []
    loop = definition.loop
    assert loop is not None
    if branches is not None:
        assert loop.states["all"].branches == branches
    again = load(dump(loop), "compiled.yaml", "compiled").loop
    assert again == loop
    assert FSMLoop.from_dict(loop.to_dict()) == loop


def test_named_branches_have_their_own_fields():
    loop = loaded(f"branches:\n  lint: {{action: ruff, timeout: 5}}\n  t: {{loop: {INLINE}}}").loop
    assert loop is not None
    state = loop.states["all"]
    assert (state.action, state.action_type) == ("lint, t", "loop")
    assert state.branches is not None
    assert state.branches.named["lint"] == StateConfig(action="ruff", timeout=5)
    inner = state.branches.named["t"].loop
    assert inner is not None
    assert inner.name == "t"


@pytest.mark.parametrize(
    ("state", "problems"),
    [
        pytest.param(
            f"{EACH}\nmatrix: {{a: [1]}}",
            [
                "8:5: LL222 state `all` defines its branches in several ways: `for_each` and `matrix`"
            ],
            id="two of them",
        ),
        pytest.param(
            "for_each: [a]",
            ["5:3: LL222 state `all` has neither an `action` nor a `loop`"],
            id="nothing to run",
        ),
        pytest.param(
            "for_each: 5\naction: make",
            ["6:15: LL103 `for_each` must be a list, text or a mapping with `glob`, not a number"],
            id="a number",
        ),
        pytest.param(
            "for_each: {globs: x}\naction: make ${branch.item}",
            ["6:16: LL102 unknown key `globs` in `for_each`"],
            id="no glob",
        ),
        pytest.param(
            'for_each: ["${context.dir}"]\naction: make',
            ["6:16: LL222 an item of `for_each` is a template"],
            id="a template as item",
        ),
        pytest.param(
            "for_each: [.inf]\naction: make",
            ["6:16: LL109 an item in `for_each` is not a finite number"],
            id="not data",
        ),
        pytest.param(
            f"for_each: [{'x, ' * 1001}]\naction: make",
            ["6:15: LL222 1,001 branches; a state can have at most 1,000"],
            id="too many items",
        ),
        pytest.param(
            f"matrix: {{a: [{'x, ' * 40}], b: [{'x, ' * 40}]}}\naction: make",
            ["6:13: LL222 1,600 branches; a state can have at most 1,000"],
            id="too many combinations",
        ),
        pytest.param(
            "branches: {" + ", ".join(f"b{n}: {{action: make}}" for n in range(1001)) + "}",
            ["6:15: LL222 1,001 branches; a state can have at most 1,000"],
            id="too many named ones",
        ),
        pytest.param(
            "matrix: {a: []}\naction: make",
            ["6:17: LL103 `a` must be a list of values, not a list"],
            id="no values",
        ),
        pytest.param("matrix: {}\naction: make", ["6:13: LL111 `matrix` is empty"], id="no matrix"),
        pytest.param(
            "matrix: [a]\naction: make",
            ["6:13: LL103 `matrix` must be a mapping of names and lists of values, not a list"],
            id="not a matrix",
        ),
        pytest.param(
            'matrix: {a: ["${context.dir}"]}\naction: make',
            ["6:18: LL222 an item of `a` is a template"],
            id="a template in a matrix",
        ),
        pytest.param(
            f"{EACH}\njoin: most",
            ["8:11: LL103 `join` must be `all`, `any`, a number or a percentage, not text"],
            id="another join",
        ),
        pytest.param(
            f"{EACH}\njoin: 0", ["8:11: LL104 `join` must be at least 1, not `0`"], id="0"
        ),
        pytest.param(
            f'{EACH}\njoin: "0%"',
            ["8:11: LL103 `join` must be `all`, `any`, a number or a percentage, not text"],
            id="no percentage",
        ),
        pytest.param(
            f"{EACH}\nas: name",
            [
                "7:18: LL405 `branch` has no `item`",
                "8:5: LL222 `name` cannot be used as a name here: `${branch.name}` is reserved",
            ],
            id="a reserved name",
        ),
        pytest.param(
            "matrix: {index: [1]}\naction: make",
            ["6:5: LL222 `index` cannot be used as a name here: `${branch.index}` is reserved"],
            id="a reserved key",
        ),
        pytest.param(
            "matrix: {a: [1]}\nas: b\nexclude: [{c: 1}]\naction: make",
            [
                "7:5: LL222 `as` has no effect in state `all` without `for_each`",
                "8:5: LL222 the matrix has no `c`",
            ],
            id="partners",
        ),
        pytest.param(
            f"{EACH}\ncondition: {{type: exit_code}}\njoin: any\nfail_fast: true",
            [
                "9:5: LL222 `join` has no effect in state `all`, whose condition judges its branches",
                (
                    "10:5: LL222 `fail_fast` has no effect in state `all`, whose condition judges its"
                    " branches"
                ),
            ],
            id="a condition and a join",
        ),
        pytest.param(
            f"{EACH}\ncheck: true\nwith: {{a: b}}",
            [
                "8:5: LL220 `check` has no effect in state `all`, which has branches",
                "9:5: LL220 `with` has no effect in state `all`, which starts no loop",
            ],
            id="fields of another action",
        ),
        pytest.param(
            "for_each: [a]\nloop: fix\nenv: {A: b}",
            ["8:5: LL220 `env` has no effect in state `all`, which starts a loop"],
            id="fields of an action beside a loop",
        ),
        pytest.param(
            "branches: {a: {action: make}}\naction: make\nenv: {A: b}",
            [
                "7:5: LL220 `action` has no effect in state `all`, whose branches say what they run",
                "8:5: LL220 `env` has no effect in state `all`, whose branches say what they run",
            ],
            id="fields beside branches",
        ),
        pytest.param(
            "action: make\nmax_parallel: 3\nas: x",
            [
                "7:5: LL220 `max_parallel` has no effect in state `all`, which has no branches",
                "8:5: LL220 `as` has no effect in state `all`, which has no branches",
            ],
            id="no branches",
        ),
        pytest.param("branches: {}", ["6:15: LL111 `branches` is empty"], id="none"),
        pytest.param(
            "branches: [a]",
            ["6:15: LL103 `branches` must be a mapping of branches, not a list"],
            id="a list of branches",
        ),
        pytest.param(
            "branches:\n  a: make\n  1: {action: make}\n  b/c: {action: make}\n  B: {action: make}\n"
            "  b: {action: make}",
            [
                "7:10: LL103 branch `a` must be a mapping of fields, not text",
                "8:7: LL121 YAML reads this branch's name as a number, not as text",
                "9:7: LL106 `b/c` is not a valid branch name",
                "11:7: LL222 there is another branch `b`",
            ],
            id="wrong branches",
        ),
        pytest.param(
            "branches:\n  a: {timeout: 5}\n  b: {loop: fix, cwd: x}\n  c: {action: make, with: {x: 1}}\n"
            "  d: {action: make, condition: {source: first}}\n  e: [x]",
            [
                "7:7: LL222 branch `a` has neither an `action` nor a `loop`",
                "8:22: LL220 `cwd` has no effect in branch `b`, which starts a loop",
                "9:25: LL220 `with` has no effect in branch `c`, which starts no loop",
                "10:10: LL222 the condition of branch `d` names a `source`",
                "11:10: LL103 branch `e` must be a mapping of fields, not a list",
            ],
            id="what branches run",
        ),
        pytest.param(
            "branches:\n  a: {loop: fix, with: {dri: x}}\n  b: {loop: broken}",
            [
                "7:29: LL219 loop `fix` has no context variable `dri`",
                (
                    "broken.yaml:2:33: LL202 `next` of state `go` names a state that does not exist:"
                    " `nowhere` (used by top.yaml:8)"
                ),
            ],
            id="loops of branches",
        ),
        pytest.param(
            "branches:\n  a: {action: 'eval ${captured.first.output}'}",
            [
                (
                    "7:25: LL407 `${captured.first.output}` is inside the program text of `eval`, and"
                    " would be run"
                )
            ],
            id="data as code in a branch",
        ),
        pytest.param(
            "for_each: [a]\naction: ${branch.item} x",
            ["7:13: LL407 `${branch.item}` is used as a command name, and would be run"],
            id="an item is data",
        ),
        pytest.param(
            "action: make ${branch.item}",
            ["6:18: LL405 `${branch.item}` has no value here"],
            id="no branch here",
        ),
        pytest.param(
            'for_each: "${branch.item}"\naction: make ${branch.itme}\n'
            'condition: {type: output_contains, pattern: "${branch.item}"}',
            [
                "6:16: LL405 `${branch.item}` has no value here",
                "7:18: LL405 `branch` has no `itme`",
                "8:50: LL405 `${branch.item}` has no value here",
            ],
            id="where a branch has values",
        ),
        pytest.param(
            'for_each: {glob: "${context.dri}"}\naction: make',
            ["6:23: LL403 `context` has no `dri`"],
            id="a template in a glob",
        ),
        pytest.param(
            "for_each: [claude, gpt]\nas: who\naction: /fix\nhost: ${branch.who}",
            ["9:11: LL222 `gpt` is not a known host, so `${branch.who}` cannot be used as one"],
            id="an unknown host",
        ),
        pytest.param(
            'for_each: "${captured.first.output}"\naction: /fix\nhost: ${branch.item}',
            ["8:11: LL222 `${branch.item}` cannot be a host"],
            id="hosts that are not in the file",
        ),
        pytest.param(
            "matrix: {who: claude, n: [1, [2]]}\naction: /fix\nhost: ${branch.n}",
            [
                "6:19: LL103 `who` must be a list of values, not text",
                "8:11: LL222 `1` is not a known host, so `${branch.n}` cannot be used as one",
            ],
            id="hosts in a matrix",
        ),
    ],
)
def test_what_is_wrong(state, problems):
    whole = [each if each[0] == "b" else f"top.yaml:{each}" for each in problems]
    assert sorted(told(loaded(state))) == sorted(whole)


def test_branches_are_checked_like_states_also_without_a_file():
    loop = loaded("branches: {a: {action: make}}").loop
    assert loop is not None
    view = unfolded(loop, Places(Source("", ()), None))
    assert list(view.loop.states) == ["first", "all", "done", "all/a"]
    assert view.places.root is None


def evidence(fields: str, *, wide: int = 2) -> list[str]:
    inner = INLINE.replace("{initial", f"{{{fields}, initial", 1)
    return told(loaded(f"for_each: [a, b]\nmax_parallel: {wide}\nloop: {inner}"))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("scope_writes: enforce", "LL223 loop `all` has `scope_writes: enforce`, but shares"),
        ("evidence: {protect: [x]}", "LL223 loop `all` has `tampering: restore`, but shares"),
        ("evidence: {clean: true}", "LL310 `clean` of loop `all` has no effect in branches"),
    ],
)
def test_rules_about_files_need_files_of_their_own(fields, problem):
    [found] = evidence(fields)
    assert problem in found
    assert evidence(fields, wide=1) == []


def test_the_same_in_a_named_branch():
    inner = INLINE.replace("{initial", "{scope_writes: enforce, initial", 1)
    [found] = told(loaded(f"branches:\n  a: {{loop: {inner}}}\n  b: {{action: make}}"))
    assert found.startswith("top.yaml:7:17: LL223 loop `a` has")


@pytest.mark.parametrize(
    ("state", "warned"),
    [
        ("for_each: [a, b]\naction: Fix ${branch.item}\naction_type: prompt", True),
        ("for_each: [a]\naction: Fix ${branch.item}\naction_type: prompt", False),
        (
            "for_each: [a, b]\naction: Read\naction_type: prompt\nhost: {permission_mode: plan}",
            False,
        ),
        ("for_each: [a, b]\naction: /read\nhost: {permission_mode: read-only}", False),
        ("for_each: [a, b]\nmax_parallel: 1\naction: Fix it\naction_type: prompt", False),
        ('for_each: "${captured.first.output}"\naction: Fix it\naction_type: prompt', True),
        ("branches:\n  a: {action: Fix it, action_type: prompt}\n  b: {action: make}", True),
        (f"for_each: [a, b]\nloop: {INLINE.replace('make', '/fix')}", True),
        (f"for_each: [a, b]\nloop: {INLINE}", False),
    ],
)
def test_agents_that_work_on_the_same_files_at_once(state, warned):
    found = [each.split()[1] for each in told(loaded(state))]
    assert found == (["LL324"] if warned else [])
