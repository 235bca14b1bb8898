"""The changes a mutation test makes to a module: one small edit of the syntax tree each.

Not mutated, because no test could or should notice: docstrings, annotations and type aliases,
`assert` statements (they inform the type checker), `assert_never`, `if TYPE_CHECKING:` blocks,
overloads, decorators and `__all__`, and `strict=` of `zip`, which states what is always true.  Prose (a string with letters and spaces, and the literal parts
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
        match getattr(node, field):
            case [ast.stmt(), *_]:
                yield from _of_body(node, field, within)
            case list(children):
                for index, child in enumerate(children):
                    yield from _of_node((node, field, index), child, inner, spot)
            case child:
                yield from _of_node((node, field, None), child, inner, spot)


def _of_node(place: Place, node: object, inner: Spot, spot: Spot) -> Iterator[Mutant]:
    match node:
        case ast.Call(func) if _name(func) in TYPE_MAKERS:
            return
        case ast.keyword("strict"):
            return
        case ast.Constant() if isinstance(place[0], ast.JoinedStr):
            return
        case ast.AST():
            pass
        case _:
            return
    if isinstance(node, ast.match_case | ast.ExceptHandler):
        lines = range(_line(node), max(node.body[0].lineno, _line(node) + 1))
        inner = inner._replace(lines=lines)
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
    return _around_change(before, after)


def _fields(node: ast.AST) -> Iterator[str]:
    skipped = {"annotation", "returns", "decorator_list", "bases", "keywords", "type_params"}
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.arguments() | ast.arg() | ast.AnnAssign():
            yield from (field for field in node._fields if field not in skipped)
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
        case ast.AnnAssign(annotation=ast.Name("TypeAlias")):
            return True
        case ast.FunctionDef():
            return any(_name(each) == "overload" for each in statement.decorator_list)
        case _:
            return False


def _is_type_checking(test: ast.expr) -> bool:
    return _name(test) == "TYPE_CHECKING"


def _header(statement: ast.stmt) -> range:
    """The lines of a statement without those of the statements in it."""
    inner = [each.lineno for each in ast.walk(statement) if isinstance(each, ast.stmt)][1:]
    end = min(inner, default=(statement.end_lineno or statement.lineno) + 1)
    return range(statement.lineno, max(end, statement.lineno + 1))


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
        case ast.If() | ast.While() | ast.For() | ast.Match():
            yield from _compound_edits(node)
        case ast.stmt():
            yield from _simple_edits(node)
        case ast.expr():
            for new in _variants(node):
                yield _difference(node, new)
        case _:
            yield from _part_edits(node)


def _compound_edits(node: ast.If | ast.While | ast.For | ast.Match) -> Iterator[Edit]:
    match node:
        case ast.If(test):
            if not _is_type_checking(test):
                yield from _fixed_tests(node, "if", (True, False))
        case ast.While():
            yield from _fixed_tests(node, "while", (False,))
        case ast.For():
            nothing = _with(node, iter=ast.Tuple([], ast.Load()))
            yield Edit(nothing, f"for … in {_short(node.iter)}", "for … in ()")
        case ast.Match(cases=cases):
            for case, fewer in zip(cases, _one_fewer(node, "cases"), strict=True):
                if len(cases) > 1 and not _is_without_effect(case):
                    yield Edit(fewer, f"case {_short(case.pattern)}", "no case")


def _is_without_effect(case: ast.match_case) -> bool:
    """It cannot be reached, or it only says that nothing is done."""
    unreachable = any(_name(each) == "assert_never" for each in ast.walk(case))
    return unreachable or ast.unparse(case).split() == ["case", "_:", "pass"]


def _fixed_tests(node: ast.If | ast.While, word: str, values: tuple[bool, ...]) -> Iterator[Edit]:
    for value in values:
        new = _with(node, test=ast.Constant(value))
        yield Edit(new, f"{word} {_short(node.test)}", f"{word} {value}")


def _simple_edits(node: ast.stmt) -> Iterator[Edit]:
    match node:
        case ast.Expr() | ast.Raise():
            yield Edit(ast.Pass(), _short(node), "pass")
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield Edit(ast.Return(ast.Constant(None)), _short(node), "return None")
        case ast.AugAssign(op=op):
            yield from (_difference(node, _with(node, op=other())) for other in _swapped(op))
        case ast.Continue():
            yield Edit(ast.Break(), "continue", "break")
        case ast.Break():
            yield Edit(ast.Continue(), "break", "continue")
        case _:
            return


def _part_edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.comprehension(ifs=ifs):
            for test, fewer in zip(ifs, _one_fewer(node, "ifs"), strict=True):
                yield Edit(fewer, f"if {_short(test)}", "no filter")
        case ast.match_case(guard=ast.expr() as guard):
            yield Edit(_with(node, guard=None), f"if {_short(guard)}", "no guard")
        case ast.MatchOr(patterns=patterns):
            for pattern, rest in zip(patterns, _but_one(node, "patterns"), strict=True):
                yield Edit(rest, f"case {_short(pattern)}", "no alternative")
        case ast.ExceptHandler():
            caught = f"except {ast.unparse(node.type)}" if node.type else "except"
            yield Edit(_with(node, body=[ast.Raise()]), caught, f"{caught}: raise")
        case _:
            return


# ── edits of expressions ───────────────────────────────────────────────────────────────────────


def _variants(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Constant():
            yield from _other_constants(node)
        case ast.Compare() | ast.BoolOp() | ast.BinOp() | ast.UnaryOp():
            yield from _other_operations(node)
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Slice():
            yield from (_with(node, **{end: None}) for end in _ends(node))
        case ast.Dict() | ast.Set() | ast.List() | ast.Tuple():
            yield from _other_displays(node)
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


def _other_operations(
    node: ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp,
) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in _swapped(op):
                    yield _with(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BoolOp(op):
            yield from (_with(node, op=other()) for other in _swapped(op))
            yield from _but_one(node, "values")
        case ast.BinOp(op=op):
            yield from (_with(node, op=other()) for other in _swapped(op))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case _:
            return


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    if _name(node.func) != "zip":
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


def _ends(node: ast.Slice) -> list[str]:
    return [end for end in ("lower", "upper") if getattr(node, end) is not None]


def _other_displays(node: ast.Dict | ast.Set | ast.List | ast.Tuple) -> Iterator[ast.expr]:
    match node:
        case ast.Dict():
            for values, fewer in zip(
                _all_but_one(node.values), _one_fewer(node, "keys"), strict=True
            ):
                yield _with(fewer, values=values)
        case ast.Set() if len(node.elts) == 1:
            return  # without its element it would be a dictionary
        case ast.Set() | ast.List(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()):
            yield from _one_fewer(node, "elts")
        case _:
            return


# ── changed copies ─────────────────────────────────────────────────────────────────────────────


def _swapped(op: ast.AST) -> tuple[type[ast.AST], ...]:
    return SWAPPED.get(type(op), ())


def _with(node: Node, **changes: Any) -> Node:
    new = copy.copy(node)
    for field, value in changes.items():
        setattr(new, field, value)
    return new


def _one_fewer(node: Node, field: str) -> Iterator[Node]:
    yield from (_with(node, **{field: rest}) for rest in _all_but_one(getattr(node, field)))


def _but_one(node: ast.AST, field: str) -> Iterator[ast.AST]:
    """The same for what must have two parts at least: the other one of a pair stands alone."""
    for rest in _all_but_one(getattr(node, field)):
        yield rest[0] if len(rest) == 1 else _with(node, **{field: rest})


def _all_but_one(parts: list[Any]) -> Iterator[list[Any]]:
    yield from (parts[:index] + parts[index + 1 :] for index in range(len(parts)))


# ── showing an edit ────────────────────────────────────────────────────────────────────────────


def _short(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= 3 * CONTEXT else f"{line[: 3 * CONTEXT]}…"


def _difference(node: ast.AST, new: ast.AST) -> Edit:
    return Edit(new, *_around_change(ast.unparse(node), ast.unparse(new)))


def _around_change(before: str, after: str) -> tuple[str, str]:
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
