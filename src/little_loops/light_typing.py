"""The names of `typing` that the package uses, without loading `typing`.

Loading it takes a tenth of the work of `ll-loop status`, and half a megabyte in every process that
waits for an action.  Annotations are never evaluated, except those of records that are read from
files (`fsm.plain`), and these need next to nothing: `Literal["a", "b"]` has its values as arguments.

To a type checker these are the names of `typing` themselves.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing.TYPE_CHECKING`, which a type checker knows by its name

if TYPE_CHECKING:
    from typing import IO as IO
    from typing import Annotated as Annotated
    from typing import Any as Any
    from typing import AnyStr as AnyStr
    from typing import BinaryIO as BinaryIO
    from typing import ClassVar as ClassVar
    from typing import Final as Final
    from typing import Generic as Generic
    from typing import Literal as Literal
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import Self as Self
    from typing import TextIO as TextIO
    from typing import TypeAlias as TypeAlias
    from typing import TypeGuard as TypeGuard
    from typing import TypeVar as TypeVar
    from typing import assert_never as assert_never
    from typing import cast as cast
    from typing import get_args as get_args
    from typing import get_origin as get_origin
    from typing import overload as overload
else:
    from types import GenericAlias

    class _Form:
        """Can be subscribed, and the result can be part of a union."""

        __class_getitem__ = classmethod(GenericAlias)

    class Annotated(_Form):
        pass

    class Generic(_Form):
        pass

    class Literal(_Form):
        pass

    class Protocol(_Form):
        pass

    class Any:
        pass

    # Only in annotations, which are not evaluated.
    AnyStr = BinaryIO = ClassVar = Final = IO = NoReturn = Self = TextIO = TypeAlias = Any
    TypeGuard = Any

    class TypeVar:
        def __init__(self, name, *constraints, **bounds):
            self.__name__ = name

        def __typing_subst__(self, argument):
            return argument

    def overload(function):
        return function

    def cast(kind, value):
        return value

    def assert_never(value, /):
        raise AssertionError(f"cannot happen: {value!r:.100}")

    def get_origin(form):
        return getattr(form, "__origin__", None)

    def get_args(form):
        return getattr(form, "__args__", ())
