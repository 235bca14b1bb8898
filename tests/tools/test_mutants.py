from __future__ import annotations

import ast
import os
import signal
from collections import Counter
from textwrap import dedent

import pytest

from tools.mutants.__main__ import EXPECTED as SURVIVORS
from tools.mutants.children import Task, outcomes
from tools.mutants.modules import Module, pure_modules, read_settings, sample
from tools.mutants.mutators import mutants
from tools.mutants.report import Result, read_expected, read_survivors, report, score
from tools.mutants.tracing import Coverage, Uses


def titles(source: str) -> list[str]:
    return [mutant.title.partition(": ")[2] for mutant in mutants(ast.parse(dedent(source)))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a < b", ["a < b -> pass", "a < b -> a <= b", "a < b -> a >= b"], id="order"),
        pytest.param("x = a == b", ["a == b -> a != b"], id="equality"),
        pytest.param("x = a is b", ["a is b -> a is not b"], id="identity"),
        pytest.param("x = a not in b", ["a not in b -> a in b"], id="membership"),
        pytest.param(
            "x = a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"], id="and"
        ),
        pytest.param(
            "x = a or b or c",
            [
                "a or b or c -> a and b and c",
                "a or b or c -> b or c",
                "a or b or c -> a or c",
                "a or b or c -> a or b",
            ],
            id="or",
        ),
        pytest.param("x = not a", ["not a -> a"], id="not"),
        pytest.param("x = -a", ["-a -> a"], id="minus"),
        pytest.param("x = a + b", ["a + b -> a - b"], id="addition"),
        pytest.param("x += y", ["x += y -> x -= y"], id="augmented assignment"),
        pytest.param("x = 1", ["x = 1 -> x = 2", "x = 1 -> x = 0"], id="integer"),
        pytest.param("x = True", ["x = True -> x = False"], id="truth"),
        pytest.param("x = 'word'", ["x = 'word' -> x = ''"], id="word"),
        pytest.param("x = ''", ["x = '' -> x = '?'"], id="no word"),
        pytest.param("x = ', '", ["x = ', ' -> x = ''"], id="separator"),
        pytest.param(
            "x = a if b else c", ["a if b else c -> a", "a if b else c -> c"], id="if-else"
        ),
        pytest.param("f(a, b=c)", ["f(a, b=c) -> pass", "f(a, b=c) -> f(a)"], id="keyword"),
        pytest.param("x = zip(a, b, strict=True)", [], id="strict"),
        pytest.param("x = any(y)", ["any(y) -> all(y)"], id="any"),
        pytest.param("x = y.strip()", ["y.strip() -> y"], id="cleaning"),
        pytest.param("x = y.endswith(z)", ["y.endswith(z) -> y.startswith(z)"], id="other end"),
        pytest.param("x = y[:z]", [":z -> :"], id="slice"),
        pytest.param(
            "x = {a: b, **c}", ["{a: b, **c} -> {**c}", "{a: b, **c} -> {a: b}"], id="dict"
        ),
        pytest.param("x = (a, b)", ["(a, b) -> (b,)", "(a, b) -> (a,)"], id="tuple"),
        pytest.param("x = {a}", [], id="set of one"),
        pytest.param("x = [a for a in b if a]", ["if a -> no filter"], id="filter"),
        pytest.param("def f(a=1): ...", ["a=1 -> a=2", "a=1 -> a=0"], id="default"),
        pytest.param("def f(): return a", ["return a -> return None"], id="return"),
        pytest.param("def f(): return 'two words'", [], id="return of prose"),
        pytest.param("def f(): yield a", ["yield a -> pass"], id="yield"),
        pytest.param("raise a", ["raise a -> pass"], id="raise"),
        pytest.param("if a: pass", ["if a -> if True", "if a -> if False"], id="if"),
        pytest.param("while a: break", ["while a -> while False", "break -> continue"], id="while"),
        pytest.param(
            "for a in b: continue", ["for … in b -> for … in ()", "continue -> break"], id="for"
        ),
        pytest.param("try: pass\nexcept A: pass", ["except A -> except A: raise"], id="except"),
        pytest.param(
            """\
            match a:
                case A() if b: pass
                case B.c | D.e: pass
                case F(): assert_never(a)
                case _: pass
            """,
            [
                "case A() -> no case",
                "case B.c | D.e -> no case",
                "if b -> no guard",
                "case B.c -> no alternative",
                "case D.e -> no alternative",
            ],
            id="match",
        ),
    ],
)
def test_what_is_changed(source, expected):
    assert titles(source) == expected
    for place in range(len(expected)):
        tree = ast.parse(dedent(source))
        mutants(tree)[place].apply()
        compile(tree, "mutated", "exec")
        assert ast.unparse(tree) != ast.unparse(ast.parse(dedent(source)))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("'''A docstring.'''\ndef f():\n    'another'", id="docstring"),
        pytest.param("def f(a: 1 + 1, *b: 'x') -> {2}: ...\nc: 3 = d", id="annotation"),
        pytest.param("assert a == 1, f'{a + 1} not'", id="assert"),
        pytest.param("assert_never(a + 1)", id="assert_never"),
        pytest.param("if TYPE_CHECKING:\n    x = 1", id="type checking"),
        pytest.param("@overload\ndef f(a=1): ...", id="overload"),
        pytest.param("@cache(1)\ndef f(): ...", id="decorator"),
        pytest.param("__all__ = ['a', 'b']", id="all"),
        pytest.param("Kind = Literal['a', 'b']\nSome = A | B", id="type alias"),
        pytest.param("Kind: TypeAlias = Literal['a', 'b']", id="annotated type alias"),
        pytest.param("N = TypeVar('N')\nx = cast('A', y)", id="type variable"),
        pytest.param("x = f'a {y} `c'", id="f-string"),
        pytest.param("x = 'no such state'", id="prose"),
        pytest.param("import a\nfrom b import c", id="import"),
        pytest.param("class A(b=1): ...", id="class arguments"),
    ],
)
def test_what_is_left_alone(source):
    assert titles(source) == []


def test_a_mutant_knows_where_it_is():
    source = """\
    class Box:
        size: int = 1

        def grow(self):
            self.size += (
                1
            )
            return 1 + 1
    """
    found = [
        (mutant.line, list(mutant.lines), mutant.title, sorted(mutant.names))
        for mutant in mutants(ast.parse(dedent(source)))
    ]
    assert found == [
        (2, [2], "Box: size: int = 1 -> size: int = 2", ["Box", "size"]),
        (2, [2], "Box: size: int = 1 -> size: int = 0", ["Box", "size"]),
        (5, [5, 6, 7], "Box.grow: self.size += 1 -> self.size -= 1", ["Box", "grow"]),
        (6, [5, 6, 7], "Box.grow: self.size += 1 -> self.size += 2", ["Box", "grow"]),
        (6, [5, 6, 7], "Box.grow: self.size += 1 -> self.size += 0", ["Box", "grow"]),
        (8, [8], "Box.grow: return 1 + 1 -> return None", ["Box", "grow"]),
        (8, [8], "Box.grow: 1 + 1 -> 1 - 1", ["Box", "grow"]),
        (8, [8], "Box.grow: 1 + 1 -> 2 + 1", ["Box", "grow"]),
        (8, [8], "Box.grow: 1 + 1 -> 0 + 1", ["Box", "grow"]),
        (8, [8], "Box.grow: 1 + 1 -> 1 + 2", ["Box", "grow"]),
        (8, [8], "Box.grow: 1 + 1 -> 1 + 0", ["Box", "grow"]),
    ]


def test_a_long_expression_is_cut_around_the_change():
    (found,) = titles(f"x = {'a' * 40} + f({'b' * 40})")
    assert found == f"…{'a' * 23} + f({'b' * 21}… -> …{'a' * 23} - f({'b' * 21}…"


def test_equal_mutants_of_a_scope_are_numbered():
    both = mutants(ast.parse("def f():\n    f(a + b)\n    g(a + b)"))
    assert [each.title for each in both if "-> a - b" in each.title] == [
        "f: a + b -> a - b",
        "f#2: a + b -> a - b",
    ]


# ── what is mutated ────────────────────────────────────────────────────────────────────────────


def test_the_contract_may_name_modules_and_packages():
    settings = read_settings()
    contracts = settings["tool"]["importlinter"]["contracts"]
    (pure,) = (each for each in contracts if each["id"] == "pure")
    pure["source_modules"] = ["little_loops.errors", "little_loops.relay"]
    pure["ignore_imports"] = ["little_loops.relay.git -> *", "little_loops.relay.turns -> os"]
    names = {module.name for module in pure_modules(settings)}
    assert {"little_loops.errors", "little_loops.relay", "little_loops.relay.turns"} < names
    assert "little_loops.relay.git" not in names


def test_a_sample_is_spread_over_the_modules():
    modules = [Module(f"src/m{size}.py", "x = y + 1\n" * size) for size in (1, 30, 70)]
    picked = sample(modules, 50, seed=1)
    assert Counter(module.name for module, _ in picked) == {"m1": 1, "m30": 15, "m70": 35}
    assert picked == sample(modules, 50, seed=1) != sample(modules, 50, seed=2)


# ── which tests are run ────────────────────────────────────────────────────────────────────────


def test_a_constant_is_tested_where_what_is_made_of_it_is_used():
    sizes = Module("src/sizes.py", "SMALL = 1\nSIZES = {'small': SMALL}\nLARGE = 2\n")
    shop = Module("src/shop.py", "def sell(size):\n    return SIZES[size]\n")
    uses = Uses([sizes, shop], {"test_large.py": "LARGE", "test_shop.py": "shop.sell(0)"})
    assert uses.of({"SMALL"}) == ({("src/shop.py", 2)}, set())
    assert uses.of({"LARGE"}) == (set(), {"test_large.py"})
    assert uses.of({"sell"}) == (set(), {"test_shop.py"})


def test_a_test_file_that_imports_a_module_may_look_at_any_of_its_names():
    files = {
        "test_all.py": "from shop import sizes, sell",
        "test_one.py": "from shop.sizes import LARGE",
    }
    assert Uses([], files).whole["shop.sizes"] == {"test_all.py"}


def test_what_runs_when_a_module_is_loaded_is_tested_by_the_file_of_its_name():
    slow, quick = "tests/fsm/test_codec.py::slow", "tests/fsm/test_plain.py::quick"
    codec = Module("src/little_loops/fsm/codec.py", "register()\n")
    traces = {
        "": {"seconds": {}, "lines": {"": [[codec.path, 1]]}},
        "tests/fsm/test_plain.py": {"seconds": {quick: 1}, "lines": {quick: [[codec.path, 1]]}},
        "tests/fsm/test_codec.py": {"seconds": {slow: 5}, "lines": {}},
    }
    trial = Coverage(traces, [codec]).trial(0, codec, codec.mutants[0])
    assert list(trial.tests) == [slow, quick]


def test_children_report_how_they_ended():
    def kill() -> int:
        os.kill(os.getpid(), signal.SIGPROF)
        return 0

    def hang() -> int:
        signal.pause()
        return 0

    works = {"passes": lambda: 0, "fails": lambda: 1, "is stopped": kill, "hangs": hang}
    tasks = [Task(name, work, 0 if name == "hangs" else 60) for name, work in works.items()]
    assert dict(outcomes(tasks, jobs=2)) == {
        "passes": 0,
        "fails": 1,
        "is stopped": -signal.SIGPROF,
        "hangs": -signal.SIGKILL,
    }


# ── what is reported ───────────────────────────────────────────────────────────────────────────

BOX = Module("src/box.py", "def grow(a):\n    note(a)\n    return a + b\n")
EXPECTED = """\
# comment

src/box.py grow: note(a) -> pass  # says nothing
src/box.py grow: a + b -> a - b  # b is zero
src/box.py grow: a # b -> c  # not there
"""


@pytest.mark.parametrize(
    ("killed", "expected", "share"),
    [
        pytest.param(
            {"return a + b -> return None", "a + b -> a - b"},
            """\
            expected: src/box.py:2: grow: note(a) -> pass  # says nothing
            no such mutant: src/box.py grow: a # b -> c
            killed although expected: src/box.py:3: grow: a + b -> a - b
            2 of 2 mutants killed: 100.0%
            """,
            1.0,
            id="all killed",
        ),
        pytest.param(
            {"note(a) -> pass", "a + b -> a - b"},
            """\
            survived: src/box.py:3: grow: return a + b -> return None
            no such mutant: src/box.py grow: a # b -> c
            killed although expected: src/box.py:2: grow: note(a) -> pass
            killed although expected: src/box.py:3: grow: a + b -> a - b
               2 of   3 killed in src/box.py
            2 of 3 mutants killed: 66.7%
            """,
            2 / 3,
            id="one survived",
        ),
    ],
)
def test_report(killed, expected, share):
    results = [
        Result(BOX, mutant, mutant.title.partition(": ")[2] in killed) for mutant in BOX.mutants
    ]
    reasons = read_expected(EXPECTED)
    assert "\n".join([*report(results, reasons, [BOX]), ""]) == dedent(expected)
    assert score(results, reasons) == share


def test_nothing_tried_is_no_failure():
    assert score([], {}) == 1


def test_the_survivors_of_a_report_are_found_wherever_their_lines_are_now():
    text = "3 of 5: a.py:9: f: x -> y\nsurvived: a.py:9: f: x -> y\nexpected: a.py:1: g: 1 -> 2  # why\n"
    assert read_survivors(text) == {("a.py", "f: x -> y")}


def test_every_survivor_that_is_listed_still_exists():
    modules = pure_modules(read_settings())
    listed = read_expected(SURVIVORS.read_text())
    present = {(module.path, mutant.title) for module in modules for mutant in module.mutants}
    assert listed.keys() - present == set()
    assert all(listed.values()), "each has a reason"
