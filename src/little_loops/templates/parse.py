"""Parse `${namespace.path}` references in a text.

`run`, `validate`, `compile` and `--dry-run` all use this parser. Only `${word.` is a reference; the
shell's own `${HOME}`, `${F%.txt}` and `${x:-y}` are plain text. `$${` is an escape for `${`.

    ${captured.n.output}         a value
    ${captured.n.output:-none}   with a fallback: literal text up to the closing brace; it may
                                 contain pairs of braces, but no line breaks and no `${`
    ${captured.n.output:q}       with a modifier: `:int`, `:number`, `:raw`, `:q` or `:words`
    ${captured.n.output:q:-none} with both, in this order

Not here: where values come from and how they are inserted (`render`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from little_loops.light_modules import re
from little_loops.light_typing import Literal, TypeAlias
from little_loops.records import NamedTuple

NAMESPACES = ("context", "captured", "prev", "state", "loop", "branch", "env")
MODIFIERS = ("int", "number", "raw", "q", "words")
NUMBERS = ("int", "number")
"""Modifiers that check a value when it is used; a value that passes is inert."""
NUMBER_NAMES = {"int": "a whole number", "number": "a number"}

SLASH_COMMAND = r"/[\w-]+(:[\w-]+)*(\s|$)"
"""The start of a slash command; `/usr/bin/make` does not match."""

RESULT_FIELDS = (
    *("output", "stderr", "exit_code", "duration_ms"),
    *("file", "stderr_file", "log_file", "stream_file", "structured_file"),
    *("structured", "session_id", "cost_usd", "turns"),
    *("status", "reason", "final_state", "iterations", "result"),
    *("total", "passed", "failed"),
    "merge",
)
FIELDS = {
    "state": ("name", "iteration", "attempt"),
    "loop": (
        *("name", "started_at", "elapsed_ms", "elapsed"),
        *("cycle", "run_id", "run_dir", "continuation", "answer"),
    ),
    "prev": (*RESULT_FIELDS, "state"),
}
"""Fields of the fixed namespaces; `captured.<name>` has RESULT_FIELDS."""

Kind: TypeAlias = Literal["code", "inert", "data"]

_INERT_LOOP = ("name", "cycle", "elapsed", "elapsed_ms", "started_at", "run_id")
_INERT_RESULT = (
    *("exit_code", "duration_ms", "cost_usd"),
    *("status", "reason", "final_state", "iterations"),
    *("total", "passed", "failed"),
)

# As strings, compiled on use: many loops have no reference, and few have such a modifier.
_OPENING = r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\."
_PATH = r"[\w-]+(?:\.[\w-]+)*"
_MODIFIER = r":([A-Za-z]\w*)"
_SHOWN = 80
_IN_FALLBACK = r"\$?\{|\}|\n"
_FORMATS = {
    "int": r"[+-]?[0-9]+",
    "number": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
}
_LONGEST_NUMBER = 1000
_LONGEST_KEPT = 4096


class Reference(NamedTuple):
    namespace: str
    path: tuple[str, ...]
    modifier: str | None
    fallback: str | None
    text: str
    start: int
    end: int

    @property
    def name(self) -> str:
        return ".".join((self.namespace, *self.path))


class Escape(NamedTuple):
    text: str
    start: int
    end: int


Piece: TypeAlias = str | Escape | Reference


class TemplateError(Exception):
    """The text is not a valid template; `start` and `end` are offsets in it."""

    def __init__(self, message: str, start: int, end: int, help: str = "") -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.help = message, start, end, help


def parse(text: str) -> tuple[Piece, ...]:
    """Split a text into plain text, escapes and references; joined, they give the text again.

    Raises `TemplateError` at the first mistake.
    """
    if "${" not in text:
        return (text,) if text else ()
    return _parsed(text) if len(text) <= _LONGEST_KEPT else _parse(text)


def _parse(text: str) -> tuple[Piece, ...]:
    pieces = []
    for piece in _scan(text):
        if isinstance(piece, TemplateError):
            raise piece
        pieces.append(piece)
    return tuple(pieces)


_parsed = lru_cache(maxsize=256)(_parse)  # the texts of a loop are parsed again at every step


def references(text: str) -> tuple[Reference, ...]:
    return tuple(piece for piece in parse(text) if isinstance(piece, Reference))


def template_errors(text: str) -> list[TemplateError]:
    """Return all errors of a text; `parse` stops at the first."""
    return [piece for piece in _scan(text) if isinstance(piece, TemplateError)]


def number(text: str, modifier: str) -> str | None:
    """Return the text of a number, in the format of the modifier and without surrounding blanks;
    None if it is not one. An `int` loses its leading zeros."""
    text = text.strip(" \t\r\n")
    if len(text) > _LONGEST_NUMBER or not re.fullmatch(_FORMATS[modifier], text):
        return None
    return str(int(text)) if modifier == "int" else text  # to a shell `010` is eight


def classify(reference: Reference) -> Kind:
    """Return how far a value is trusted: `code` of the author, `inert`, or `data` from anybody."""
    if reference.modifier in NUMBERS:
        return "inert"
    match reference.namespace, reference.path:
        case "context", _:
            return "code"
        case "state", _:
            return "inert"
        case "branch", ("index" | "name",):
            return "inert"
        case "loop", (field,) if field in _INERT_LOOP:
            return "inert"
        case "prev", (field,) if field == "state" or field in _INERT_RESULT:
            return "inert"
        case "captured", (_, field) if field in _INERT_RESULT:
            return "inert"
        case _:
            return "data"


def nearest_first(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Sort the known names by their similarity to `name`."""
    wanted = _pairs(name)

    def distance(other: str) -> float:
        pairs = _pairs(other)
        return -len(wanted & pairs) / (len(wanted) + len(pairs))

    return tuple(sorted(known, key=distance))


def _pairs(name: str) -> set[str]:
    """Return the pairs of adjacent letters in a name, with its start and end."""
    framed = f" {name.lower()} "
    return {framed[at : at + 2] for at in range(len(framed) - 1)}


def _scan(text: str) -> Iterator[Piece | TemplateError]:
    """Yield the pieces of a text, with a `TemplateError` in place of each invalid reference."""
    done = 0
    while "${" in text and (opening := re.compile(_OPENING).search(text, done)):
        start = opening.start()
        if start > done:
            yield text[done:start]
        if opening[1] is None:
            piece: Piece | TemplateError = Escape("$${", start, opening.end())
            done = opening.end()
        else:
            piece = _reference(text, opening)
            # After a mistake, continue right behind its opening, to find the next one, too.
            done = piece.end if isinstance(piece, Reference) else opening.end()
        yield piece
    if done < len(text):
        yield text[done:]


def _reference(text: str, opening: re.Match[str]) -> Reference | TemplateError:
    """Parse the reference at an opening; return a `TemplateError` if it is invalid."""
    start, namespace = opening.start(), opening[1]
    path = re.compile(_PATH).match(text, opening.end())
    if path is None:
        return _syntax_error(text, start, opening.end())
    at, modifier, fallback = path.end(), None, None
    if named := re.compile(_MODIFIER).match(text, at):
        at, modifier = named.end(), named[1]
    if text.startswith(":-", at):
        end = _fallback_end(text, at + 2)
        at, fallback = end, text[at + 2 : end]
    if not text.startswith("}", at):
        return _syntax_error(text, start, at)
    end = at + 1
    if namespace not in NAMESPACES:
        return _unknown_namespace(namespace, start, end)
    if modifier is not None and modifier not in MODIFIERS:
        return _unknown_modifier(modifier, start, end)
    if modifier in NUMBERS and fallback is not None and number(fallback, modifier) is None:
        return _not_a_number(modifier, fallback, start, end)
    keys = tuple(path[0].split("."))
    return Reference(namespace, keys, modifier, fallback, text[start:end], start, end)


def _fallback_end(text: str, at: int) -> int:
    """Return the position of the brace that closes a fallback, or of something not allowed in it."""
    depth = 0
    for mark in re.compile(_IN_FALLBACK).finditer(text, at):
        match mark[0]:
            case "{":
                depth += 1
            case "}" if depth:
                depth -= 1
            case _:
                return mark.start()
    return len(text)


def _syntax_error(text: str, start: int, at: int) -> TemplateError:
    """Return the error for a reference that cannot be parsed beyond `at`."""
    shown = text[start : min(at, start + _SHOWN)]
    if text.startswith(("${", ".${"), at):
        return TemplateError(
            f"a reference inside a reference: `{shown}…`",
            *(start, text.index("{", at) + 1),
            help="references cannot be nested; write one after the other",
        )
    if at == len(text) or text[at] == "\n":
        return TemplateError(
            f"`{shown}` has no closing brace",
            *(start, at),
            help="close it with `}`, or write `$${` for a literal `${`",
        )
    return TemplateError(
        f"`{text[at]}` is not allowed in a reference: `{shown}{text[at]}`",
        *(start, at + 1),
        help="write `${namespace.name}` or `${namespace.name:-fallback}`; "
        "`$${` gives a literal `${`",
    )


def _unknown_namespace(namespace: str, start: int, end: int) -> TemplateError:
    """Return the error for a namespace that does not exist, with the most similar one."""
    likely = nearest_first(namespace, NAMESPACES)[0]
    return TemplateError(
        f"unknown namespace `{namespace}`",
        *(start, end),
        help=f"did you mean `{likely}`? known: {listed(NAMESPACES)}; "
        "write `$${` for a literal `${`",
    )


def _unknown_modifier(modifier: str, start: int, end: int) -> TemplateError:
    """Return the error for a modifier that does not exist, with the known ones."""
    return TemplateError(
        f"unknown modifier `:{modifier}`",
        *(start, end),
        help=f"known: {', '.join(f'`:{name}`' for name in MODIFIERS)}; "
        "a fallback is written `:-text`",
    )


def _not_a_number(modifier: str, fallback: str, start: int, end: int) -> TemplateError:
    """Return the error for the fallback of a numeric modifier that is not a number."""
    return TemplateError(
        f"the fallback `{fallback[:_SHOWN]}` of `:{modifier}` is not {NUMBER_NAMES[modifier]}",
        *(start, end),
        help="write a number, like `:-0`",
    )


def listed(names: tuple[str, ...], most: int = 10) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
