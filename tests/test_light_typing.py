"""The stand-ins for `typing` do what its names do, for all we use of them."""

from __future__ import annotations

import types
import typing

import pytest

from little_loops import light_typing
from little_loops.light_typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    assert_never,
    cast,
    get_args,
    get_origin,
    overload,
)

Field = TypeVar("Field", bound=object)
Kept = Annotated[Field, "kept"]


class Named(Protocol):
    name: str


class Box(Generic[Field]):
    pass


def test_every_name_is_one_of_typing():
    made = {name for name in vars(light_typing) if not name.startswith("_")}
    assert made - set(typing.__all__) - {"BinaryIO", "IO", "TextIO"} == {
        "GenericAlias",
        "annotations",
    }


@pytest.mark.parametrize(
    ("form", "origin", "args"),
    [
        pytest.param(Literal["a", "b"], Literal, ("a", "b"), id="literal"),
        pytest.param(Literal["a"], Literal, ("a",), id="literal-of-one"),
        pytest.param(Kept[str], Annotated, (str, "kept"), id="annotated"),
        pytest.param(tuple[str, ...], tuple, (str, ...), id="tuple"),
        pytest.param(str, None, (), id="class"),
        pytest.param(Any, None, (), id="any"),
    ],
)
def test_a_form_has_an_origin_and_arguments(form, origin, args):
    assert (get_origin(form), get_args(form)) == (origin, args)


def test_typing_reads_our_forms_too():
    assert typing.get_args(Literal["a", "b"]) == ("a", "b")


def test_forms_can_be_part_of_a_union():
    union = Literal["a"] | Kept[int] | None
    assert isinstance(union, types.UnionType)
    assert get_args(union) == (Literal["a"], Kept[int], types.NoneType)


def test_generic_classes_and_protocols_are_plain_classes():
    assert Box.__mro__[1:] == (Generic, *Generic.__mro__[1:])
    assert Named.__mro__[1:] == (Protocol, *Protocol.__mro__[1:])


def test_functions_for_a_type_checker_do_nothing():
    def same(value: object) -> object:
        return value

    assert overload(same) is same
    text: object = "text"
    assert cast(int, text) is text


def test_what_never_happens_is_reported_with_its_value():
    with pytest.raises(AssertionError, match="'value'"):
        assert_never("value")  # type: ignore[arg-type]
