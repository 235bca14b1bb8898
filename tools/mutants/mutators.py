"""The changes a mutation test makes to a module: one small edit of the syntax tree each.

Not mutated, because no test could or should notice: docstrings, annotations and type aliases,
`assert` statements (they inform the type checker), `assert_never`, `if TYPE_CHECKING:` blocks,
overloads, decorators and `__all__`.  Prose (a string with letters and spaces, and the literal parts
of an f-string) is left alone too: whether a message reads well is for a person to judge, and one
mutant per sentence would crowd out those of the logic.  Words, keys and separators are emptied.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

CONTEXT = 24
"""How much of an expression is shown on either side of a change."""

SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
OTHER_FUNCTION = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}
OTHER_METHOD = {"startswith": "endswith", "endswith": "startswith", "find": "rfind"}
CLEANING = {"strip", "lstrip", "rstrip", "lower", "upper", "removeprefix", "removesuffix"}
TYPE_MAKERS = {"TypeVar", "NewType", "cast", "assert_never"}
TYPE_NAME = re.compile(r"_?[A-Z][A-Za-z]*[a-z][A-Za-z]*")

Node = TypeVar("Node", bound=ast.AST)
Place = tuple[ast.AST, str, int | None]
"""Where a node hangs: its parent, the field there, and the position if the field is a list."""


class Edit(NamedTuple):
    new: ast.AST
    before: str
    after: str


class Mutant(NamedTuple):
    line: int
    lines: range
    """The statement (or its header), as far as a tracer may report it."""
    scope: str
    """Dotted names of the enclosing classes and functions."""
    names: frozenset[str]
    """What the statement contributes to if it runs when the module is loaded."""
    before: str
    after: str
    place: Place
    new: ast.AST
    number: int
    """Counts the equal edits of one scope, so that each can be named."""

    @property
    def title(self) -> str:
        where = f"{self.scope or '<module>'}{f'#{self.number}' if self.number > 1 else ''}"
        return f"{where}: {self.before} -> {self.after}"

    def apply(self) -> None:
        _put(self.place, self.new)


def _put(place: Place, node: ast.AST) -> None:
    parent, field, index = place
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


class Spot(NamedTuple):
    """What encloses a node."""

    scope: tuple[str, ...]
    names: frozenset[str]
    lines: range
    in_function: bool = False


def mutants(tree: ast.Module) -> list[Mutant]:
    counts: Counter[tuple[str, str, str]] = Counter()
    return [
        mutant._replace(number=_count(counts, mutant))
        for mutant in _of_body(tree, "body", Spot((), frozenset(), range(0)))
    ]


def _count(counts: Counter[tuple[str, str, str]], mutant: Mutant) -> int:
    key = mutant.scope, mutant.before, mutant.after
    counts[key] += 1
    return counts[key]


# ── walking ────────────────────────────────────────────────────────────────────────────────────


def _of_body(parent: ast.AST, field: str, spot: Spot) -> Iterator[Mutant]:
    for index, statement in enumerate(getattr(parent, field)):
        if not _is_left_alone(statement):
            yield from _of_statement((parent, field, index), statement, spot)


def _of_statement(place: Place, statement: ast.stmt, spot: Spot) -> Iterator[Mutant]:
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            inner = spot._replace(
                scope=(*spot.scope, statement.name),
                names=spot.names | {statement.name},
                lines=_header(statement),
                in_function=spot.in_function or isinstance(statement, ast.FunctionDef),
            )
        case _:
            bound = frozenset() if spot.in_function else _bound(statement)
            inner = spot._replace(names=spot.names | bound, lines=_header(statement))
    yield from _made(place, statement, inner)
    if isinstance(statement, ast.If) and _is_type_checking(statement.test):
        yield from _of_body(statement, "orelse", spot)
    else:
        yield from _of_fields(statement, inner, spot)


def _of_fields(node: ast.AST, inner: Spot, spot: Spot) -> Iterator[Mutant]:
    """Bodies are walked as statements; a function's own belong to it, a branch's to its scope."""
    within = inner if isinstance(node, ast.FunctionDef | ast.ClassDef) else spot
    for field in _fields(node):
        value = getattr(node, field)
        match value:
            case [ast.stmt(), *_]:
                yield from _of_body(node, field, within)
            case list():
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        yield from _of_node((node, field, index), child, inner, spot)
            case ast.AST():
                yield from _of_node((node, field, None), value, inner, spot)


def _of_node(place: Place, node: ast.AST, inner: Spot, spot: Spot) -> Iterator[Mutant]:
    if isinstance(node, ast.Call) and _name(node.func) in TYPE_MAKERS:
        return
    if isinstance(node, ast.match_case | ast.ExceptHandler):
        inner = inner._replace(lines=range(_line(node), node.body[0].lineno))
    yield from _made(place, node, inner)
    yield from _of_fields(node, inner, spot)


def _made(place: Place, node: ast.AST, spot: Spot) -> Iterator[Mutant]:
    line, scope = _line(node) or spot.lines.start, ".".join(spot.scope)
    for edit in edits(node):
        new = ast.fix_missing_locations(ast.copy_location(edit.new, node))
        before, after = edit.before, edit.after
        if isinstance(node, ast.Constant):
            before, after = _seen_around(place, node, new)
        yield Mutant(line, spot.lines, scope, spot.names, before, after, place, new, 0)


def _seen_around(place: Place, node: ast.Constant, new: ast.AST) -> tuple[str, str]:
    """A bare `0 -> 1` would not tell one zero of a function from another."""
    parent = place[0]
    if hasattr(parent, "body"):
        return ast.unparse(node), ast.unparse(new)
    before = ast.unparse(parent)
    _put(place, new)
    after = ast.unparse(parent)
    _put(place, node)
    return _difference(before, after)


def _fields(node: ast.AST) -> Iterator[str]:
    skipped = {"annotation", "returns", "decorator_list", "bases", "keywords", "type_params"}
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.arguments() | ast.arg() | ast.AnnAssign():
            yield from (field for field in node._fields if field not in skipped)
        case ast.JoinedStr():
            yield "values"
        case ast.FormattedValue():
            yield "value"
        case ast.Subscript() if isinstance(node.ctx, ast.Load):
            yield from ("value", "slice")
        case ast.Subscript():
            yield "slice"
        case _:
            yield from node._fields


def _is_left_alone(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Expr(ast.Constant()):  # a docstring
            return True
        case ast.Expr(ast.Call(func)):
            return _name(func) in TYPE_MAKERS
        case ast.Assign([ast.Name(name)], value):
            dunder = name.startswith("__") and name.endswith("__")
            return dunder or bool(TYPE_NAME.fullmatch(name) and not isinstance(value, ast.Dict))
        case ast.FunctionDef():
            return any(_name(each) == "overload" for each in statement.decorator_list)
        case _:
            return False


def _is_type_checking(test: ast.expr) -> bool:
    return _name(test) == "TYPE_CHECKING"


def _header(statement: ast.stmt) -> range:
    """The lines of a statement without those of the statements in it."""
    inner = [each.lineno for each in ast.walk(statement) if _is_inner(each, statement)]
    end = min(inner, default=(statement.end_lineno or statement.lineno) + 1)
    return range(statement.lineno, max(end, statement.lineno + 1))


def _is_inner(node: ast.AST, statement: ast.stmt) -> bool:
    return isinstance(node, ast.stmt) and node is not statement


def _bound(statement: ast.stmt) -> frozenset[str]:
    names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return frozenset(each.id for each in names if isinstance(each.ctx, ast.Store))


def _line(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    return getattr(node, "lineno", 0)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


# ── edits ──────────────────────────────────────────────────────────────────────────────────────


def edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.stmt():
            yield from _statement_edits(node)
        case ast.expr():
            for new in _variants(node):
                yield Edit(new, *_difference(ast.unparse(node), ast.unparse(new)))
        case ast.comprehension():
            for index, test in enumerate(node.ifs):
                new = _without(node, "ifs", index)
                yield Edit(new, f"if {ast.unparse(test)}", "no filter")
        case ast.match_case(guard=ast.expr() as guard):
            yield Edit(_with(node, guard=None), f"if {ast.unparse(guard)}", "no guard")
        case ast.MatchOr():
            two = len(node.patterns) == 2
            fewer = _alone(node.patterns) if two else _one_fewer(node, "patterns")
            for pattern, new in zip(node.patterns, fewer, strict=True):
                yield Edit(new, _case(pattern), "no alternative")
        case ast.ExceptHandler():
            new = _with(node, body=[ast.Raise()])
            yield Edit(new, "except", "except: raise")
        case _:
            return


def _statement_edits(node: ast.stmt) -> Iterator[Edit]:
    match node:
        case ast.Expr() | ast.Raise():
            yield Edit(ast.Pass(), _short(ast.unparse(node)), "pass")
        case ast.Return(ast.expr() as value):
            if not isinstance(value, ast.Constant):
                new = ast.Return(ast.Constant(None))
                yield Edit(new, _short(ast.unparse(node)), "return None")
        case ast.If(test) if not _is_type_checking(test):
            yield from _fixed_tests(node, "if", (True, False))
        case ast.While():
            yield from _fixed_tests(node, "while", (False,))
        case ast.For():
            new = _with(node, iter=ast.Tuple([], ast.Load()))
            yield Edit(new, f"for … in {_short(ast.unparse(node.iter))}", "for … in ()")
        case ast.AugAssign(op=op):
            for swapped in SWAPPED.get(type(op), ()):
                new = _with(node, op=swapped())
                yield Edit(new, *_difference(ast.unparse(node), ast.unparse(new)))
        case ast.Continue():
            yield Edit(ast.Break(), "continue", "break")
        case ast.Break():
            yield Edit(ast.Continue(), "break", "continue")
        case ast.Match():
            yield from _fewer_cases(node)
        case _:
            return


def _fixed_tests(node: ast.If | ast.While, word: str, values: tuple[bool, ...]) -> Iterator[Edit]:
    for value in values:
        new = _with(node, test=ast.Constant(value))
        yield Edit(new, f"{word} {_short(ast.unparse(node.test))}", f"{word} {value}")


def _fewer_cases(node: ast.Match) -> Iterator[Edit]:
    for index, case in enumerate(node.cases):
        unreachable = any(_name(each) == "assert_never" for each in ast.walk(case))
        if len(node.cases) > 1 and not unreachable:
            yield Edit(_without(node, "cases", index), _case(case.pattern), "no case")


def _case(pattern: ast.pattern) -> str:
    return f"case {_short(ast.unparse(pattern))}"


def _variants(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Constant():
            yield from _other_constants(node)
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.BoolOp(op, values):
            yield from (_with(node, op=swapped()) for swapped in _swapped(op))
            yield from _alone(values) if len(values) == 2 else _one_fewer(node, "values")
        case ast.BinOp(op=op):
            yield from (_with(node, op=swapped()) for swapped in _swapped(op))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Dict():
            for index in range(len(node.keys)):
                yield _with(_without(node, "keys", index), values=_but(node.values, index))
        case ast.Set() if len(node.elts) == 1:
            return  # without its element it would be a dictionary
        case ast.Set() | ast.List(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()):
            yield from _one_fewer(node, "elts")
        case ast.Slice():
            yield from (_with(node, lower=None) for _ in [node.lower] if node.lower)
            yield from (_with(node, upper=None) for _ in [node.upper] if node.upper)
        case _:
            return


def _other_constants(node: ast.Constant) -> Iterator[ast.expr]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(value) | float(value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case str(text) if not _is_prose(text):
            yield ast.Constant("" if text else "?")
        case _:
            return


def _is_prose(text: str) -> bool:
    return bool(re.search(r"[^\W\d_]", text) and re.search(r"\s", text))


def _other_comparisons(node: ast.Compare) -> Iterator[ast.expr]:
    for index, op in enumerate(node.ops):
        for swapped in _swapped(op):
            yield _with(node, ops=[*node.ops[:index], swapped(), *node.ops[index + 1 :]])


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    yield from _one_fewer(node, "keywords")
    match node.func:
        case ast.Name(name) if name in OTHER_FUNCTION:
            yield _with(node, func=ast.Name(OTHER_FUNCTION[name], ast.Load()))
        case ast.Attribute(value, name) if name in OTHER_METHOD:
            yield _with(node, func=ast.Attribute(value, OTHER_METHOD[name], ast.Load()))
        case ast.Attribute(value, name) if name in CLEANING:
            yield value
        case _:
            return


def _alone(pair: list[Node]) -> Iterator[Node]:
    """What is left of a pair without its first, and without its second."""
    yield from reversed(pair)


def _swapped(op: ast.AST) -> tuple[type[ast.AST], ...]:
    return SWAPPED.get(type(op), ())


def _one_fewer(node: Node, field: str) -> Iterator[Node]:
    for index in range(len(getattr(node, field))):
        yield _without(node, field, index)


def _with(node: Node, **changes: Any) -> Node:
    new = copy.copy(node)
    for field, value in changes.items():
        setattr(new, field, value)
    return new


def _without(node: Node, field: str, index: int) -> Node:
    return _with(node, **{field: _but(getattr(node, field), index)})


def _but(parts: list[Any], index: int) -> list[Any]:
    return parts[:index] + parts[index + 1 :]


# ── showing an edit ────────────────────────────────────────────────────────────────────────────


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 3 * CONTEXT else f"{line[: 3 * CONTEXT]}…"


def _difference(before: str, after: str) -> tuple[str, str]:
    """Both texts, without what is the same far from the change."""
    before, after = " ".join(before.split()), " ".join(after.split())
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return _window(before, head, tail), _window(after, head, tail)


def _window(text: str, head: int, tail: int) -> str:
    start, end = max(0, head - CONTEXT), min(len(text), len(text) - tail + CONTEXT)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
