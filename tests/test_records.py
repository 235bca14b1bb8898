"""Our own `NamedTuple` does what that of `typing` does, for all we use of it."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

from little_loops.records import NamedTuple


class Ours(NamedTuple):
    """A place."""

    name: str
    line: int | None = None
    seen: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.line}"

    @classmethod
    def nowhere(cls) -> Ours:
        return cls("?")


class Theirs(typing.NamedTuple):
    """A place."""

    name: str
    line: int | None = None
    seen: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.line}"

    @classmethod
    def nowhere(cls) -> Theirs:
        return cls("?")


class Empty(NamedTuple):
    """No fields at all."""


def parameters(kind: Any) -> list[tuple[str, Any]]:
    """As soon as there is one of them: ours has no constructor before."""
    kind("a")
    return [(one.name, one.default) for one in inspect.signature(kind).parameters.values()]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda kind: tuple(kind("a", seen=("b",))), id="made"),
        pytest.param(lambda kind: kind("a", 3).line, id="a field"),
        pytest.param(lambda kind: kind("a", 3).shown, id="a property"),
        pytest.param(lambda kind: tuple(kind.nowhere()), id="a class method"),
        pytest.param(lambda kind: kind("a")._replace(line=2)._asdict(), id="replaced"),
        pytest.param(lambda kind: tuple(kind._make(["a", 1, ()])), id="made of a list"),
        pytest.param(lambda kind: (kind._fields, kind._field_defaults), id="fields"),
        pytest.param(lambda kind: kind.__match_args__, id="for `match`"),
        pytest.param(parameters, id="parameters"),
        pytest.param(lambda kind: kind.__doc__, id="docstring"),
        pytest.param(lambda kind: repr(kind("a")).partition("(")[2], id="shown"),
        pytest.param(lambda kind: (kind("a") == kind("a"), hash(kind("a"))), id="compared"),
        pytest.param(lambda kind: [*kind("a"), len(kind("a"))], id="a tuple after all"),
        pytest.param(lambda kind: tuple(pickle.loads(pickle.dumps(kind("a")))), id="pickled"),
        pytest.param(lambda kind: tuple(copy.deepcopy(kind("a", 1))), id="copied"),
        pytest.param(typing.get_type_hints, id="type hints"),
        pytest.param(type, id="a plain class"),
    ],
)
def test_it_does_as_that_of_typing(use):
    assert use(Ours) == use(Theirs)


def outcome(use: Any, kind: Any) -> str:
    try:
        use(kind)
    except (AttributeError, TypeError, ValueError) as problem:
        return type(problem).__name__
    return "done"


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda kind: kind(), id="a field is missing"),
        pytest.param(lambda kind: kind("a", 1, (), 4), id="too many"),
        pytest.param(lambda kind: kind("a", colour=1), id="unknown"),
        pytest.param(lambda kind: setattr(kind("a"), "name", "b"), id="a field set"),
        pytest.param(lambda kind: setattr(kind("a"), "colour", "b"), id="another attribute set"),
    ],
)
def test_it_refuses_as_that_of_typing(use):
    assert outcome(use, Ours) == outcome(use, Theirs) != "done"


def test_it_replaces_no_field_that_there_is_not():
    """A `ValueError` as in Python 3.11; since 3.13 that of `typing` gives a `TypeError`."""
    with pytest.raises(ValueError, match="there is no field 'colour'"):
        Ours("a")._replace(colour=1)  # type: ignore[call-arg]


def test_it_is_shown_by_its_name():
    assert repr(Ours("a", 1)) == "Ours(name='a', line=1, seen=())"


def test_it_is_matched_by_position():
    match Ours("a", 1):
        case Ours(name, 1):
            assert name == "a"
        case _:
            raise AssertionError


def test_no_fields_are_fine():
    assert (tuple(Empty()), repr(Empty())) == ((), "Empty()")


class Other(NamedTuple):
    name: str
    line: int | None = None
    seen: tuple[str, ...] = ()


@pytest.mark.parametrize("other", [Other("a"), ("a", None, ()), Theirs("a"), "a"], ids=repr)
def test_it_equals_only_its_own_kind(other):
    assert (Ours("a") == other, Ours("a") != other) == (False, True)


def test_it_equals_one_with_the_same_values():
    one, same, unlike = Ours("a"), Ours("a"), Ours("b")
    assert (one == same, one != same, one == unlike, one != unlike) == (True, False, False, True)
    assert len({one, same, unlike}) == 2


class Derived(Ours):
    @property
    def shown(self) -> str:
        return self.name


@pytest.mark.parametrize("order", [(Ours, Derived), (Derived, Ours)], ids=str)
def test_a_subclass_makes_its_own(order):
    assert [(type(kind("a", 1)), kind("a", 1).shown) for kind in order] == [
        (kind, "a:1" if kind is Ours else "a") for kind in order
    ]


def test_a_default_before_a_field_without_one_is_refused():
    with pytest.raises(TypeError, match="`Wrong` has a field without a default after one with it"):

        class Wrong(NamedTuple):
            first: int = 1
            second: int  # type: ignore[misc]
