"""Records of any class, generated from the annotations of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType

from hypothesis import strategies as st

from little_loops.fsm.plain import hints
from little_loops.light_typing import Annotated, Any, Literal, get_args, get_origin

NUMBERS = st.integers(-(10**12), 10**12)
TEXTS = st.text(max_size=5)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: NUMBERS,
    float: st.one_of(NUMBERS, st.floats(allow_nan=False, allow_infinity=False)),
    str: TEXTS,
}
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=3,
)


@cache
def records(kind: Any) -> st.SearchStrategy[Any]:
    """Records of a class or of a union of classes; each field may be its default."""
    if isinstance(kind, UnionType):
        return st.one_of([records(each) for each in get_args(kind)])
    fields = []
    for name, note in hints(kind).items():
        default = kind._field_defaults
        is_default = [st.just(default[name])] if name in default else []
        fields.append(st.one_of([*is_default, values(note)]))
    return st.tuples(*fields).map(kind._make)


@cache
def values(note: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(note), get_args(note)
    if note is Any:
        return ANYTHING
    if note in SCALARS:
        return SCALARS[note]
    if origin is Annotated:
        return values(inner[0])
    if isinstance(note, UnionType):
        return st.one_of([values(each) for each in inner])
    if origin is tuple:
        return st.lists(st.deferred(lambda: values(inner[0])), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXTS, values(inner[1]), max_size=2)
    if origin is Literal:
        return st.sampled_from(inner)
    return st.deferred(lambda: records(note))
