"""`NamedTuple`, made in a sixth of the time.

A command makes more than a hundred of these classes before it does anything.  `typing.NamedTuple`
reads every annotation for it and gives each class its own copy of methods that are the same for
all: that was a third of the work of `ll-loop run`.  Here a class is made of what differs, its
constructor when it is first called (most never are), and all of them are what they are called:
tuples with named fields, defaults, `_replace`, `_asdict`, `_fields`.

Unlike a `typing.NamedTuple`, a record equals only a record of its own class: two kinds of event with
the same fields are different events.

To a type checker this is `typing.NamedTuple` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing.TYPE_CHECKING`, without importing `typing`: a fifth of `--help`

if TYPE_CHECKING:
    from typing import Any
    from typing import NamedTuple as NamedTuple
else:
    # What `namedtuple` itself uses; a property would be found in twice the time.
    from collections import _tuplegetter
    from functools import cache
    from types import CodeType, FunctionType

    class _Places:
        """Where each field of a class is, made when the class is first asked: most never are."""

        def __get__(self, record, kind):
            kind._places = dict(zip(kind._fields, _PLACES, strict=False))
            return kind._places

    class _Record(tuple):
        __slots__ = ()
        _places = _Places()

        def __new__(cls, *values, **named):
            made = _new(cls._fields, tuple(cls._field_defaults.values()))
            cls.__new__ = staticmethod(made)
            return made(cls, *values, **named)

        def __eq__(self, other):
            return type(self) is type(other) and tuple.__eq__(self, other)

        def __ne__(self, other):
            return type(self) is not type(other) or tuple.__ne__(self, other)

        __hash__ = tuple.__hash__

        @classmethod
        def _make(cls, values):
            return tuple.__new__(cls, values)

        def _replace(self, /, **changed):
            """Return a copy with these fields changed; raise `ValueError` for an unknown field."""
            # Half of the time that asking for each of forty fields takes.
            values, places = list(self), self._places
            try:
                for name, value in changed.items():
                    values[places[name]] = value
            except KeyError as error:
                raise ValueError(f"there is no field {error}") from None
            return tuple.__new__(type(self), values)

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            pairs = zip(self._fields, self, strict=True)
            return f"{type(self).__name__}({', '.join(f'{name}={item!r}' for name, item in pairs)})"

        def __getnewargs__(self):
            return tuple(self)

    _PLACES = range(100)
    # Shared by all classes; made once, they take a tenth of the time.
    _GETTERS = [_tuplegetter(at, None) for at in _PLACES]

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            """Return a record class whose fields are the annotations in the class body.

            Raises `TypeError` if a field without a default follows one with a default.
            """
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if list(defaults) != list(fields[len(fields) - len(defaults) :]):
                raise TypeError(f"`{name}` has a field without a default after one with it")
            own = {
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
            }
            getters = zip(fields, _GETTERS, strict=False)
            return type(name, (_Record,), {**dict(getters), **body, **own})

    def _new(fields: tuple[str, ...], defaults: tuple[Any, ...]) -> Any:
        """Return a constructor with these parameters; generated code is faster than `*args`."""
        code = _code(len(fields)).replace(co_varnames=("_cls", *fields))
        return FunctionType(code, {"_new": tuple.__new__}, "__new__", defaults)

    @cache
    def _code(count: int) -> CodeType:
        """Return the code of a constructor with `count` parameters, cached, because compiling is slow."""
        names = "".join(f"_{at}, " for at in range(count))
        made = eval(f"lambda _cls, {names}: _new(_cls, ({names}))", {})
        return made.__code__.replace(co_name="__new__", co_qualname="__new__")

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
