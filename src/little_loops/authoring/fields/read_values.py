"""Read one value of a simple kind: text, numbers, times, names, paths, lists, variables.

Each function takes the reader (to report problems), the kind, the node and a label for messages,
and returns plain data or INVALID.
"""

from __future__ import annotations

import math
import re

from little_loops.authoring.fields.kinds import (
    CODE_RANGE,
    DURATION,
    LARGEST_CODE,
    LONGEST_S,
    STATE_NAME,
    VARIABLE_NAME,
    AnyScalar,
    CodeKind,
    Codes,
    Environment,
    Flag,
    Identifier,
    InProject,
    ListOf,
    Name,
    Num,
    OneOf,
    PatternKind,
    Plain,
    Str,
    TargetKind,
    Time,
    Variables,
    Whole,
)
from little_loops.authoring.fields.refused_texts import no_nul, no_template
from little_loops.authoring.messages import listed, shown
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Node, Text, plain, walk
from little_loops.authoring.yaml.scalars import notation
from little_loops.fsm.schema import AS_ERROR, CURRENT
from little_loops.fsm.scope import normalise
from little_loops.light_typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

INVALID: Final = object()
"""Returned for a value that could not be read; the problem has been reported."""

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DECIMAL = "write it as a plain decimal number"
_TIMES = "write a number of seconds, or a duration such as `90s`, `10m` or `2h`"
_NAME_HELP = {
    "loop": "letters, digits, `.`, `_` and `-`, beginning with a letter or digit; at most 100 characters",
    "state": "letters, digits, `_` and `-`, beginning with a letter or `_`; at most 100 characters",
    "capture": "letters, digits, `_` and `-`, beginning with a letter or `_`; at most 100 characters",
    "variable": "letters, digits and `_`, not beginning with a digit",
}


def text(reader: Reader, kind: Str, node: Node, label: str) -> Any:
    """Read non-empty text."""
    if type(node) is not Text:
        return reader.wrong(label, "text", node)
    if node.kind != "str":
        return reader.not_text(label, node)
    if not node.text or node.text.isspace():
        return reader.report("LL111", f"{label} is empty", node.mark)
    if "\0" in node.text:
        return no_nul(reader, node, label)
    return node.text


def plain_text(reader: Reader, kind: Plain, node: Node, label: str) -> Any:
    """Read non-empty text without templates."""
    value = text(reader, _STR, node, label)
    if value is INVALID or "${" not in value:
        return value
    assert isinstance(node, Text)
    return no_template(reader, node)


def identifier(reader: Reader, kind: Identifier, node: Node, label: str) -> Any:
    if isinstance(node, Text) and node.kind == "int":
        return node.text
    return plain_text(reader, _PLAIN, node, label)


def flag(reader: Reader, kind: Flag, node: Node, label: str) -> Any:
    """Read true or false."""
    if type(node) is Text and node.kind == "bool":
        return node.value
    help = None
    if isinstance(node, Text) and node.kind == "str":
        meant = {"true": "true", "yes": "true", "y": "true", "false": "false", "no": "false"}
        known = meant.get(node.text.strip().lower())
        help = f"write {known}, without quotes" if known else None
    return reader.wrong(label, "true or false", node, help)


def whole(reader: Reader, kind: Whole, node: Node, label: str) -> Any:
    """Read a whole number within the kind's limits, or a template if allowed."""
    value = _numeric(reader, node, label, "a whole number", kind.template)
    if value is INVALID or isinstance(value, str):
        return value
    if not isinstance(value, int):
        if not value.is_integer():
            message = f"{label} must be a whole number, not {value:g}"
            help = f"write {math.floor(value)} or {math.ceil(value)}"
            return reader.report("LL103", message, node.mark, help)
        value = int(value)
    if value < kind.least:
        return _too_small(reader, node, label, kind.least, False)
    if value > kind.most:
        message = f"{label} must be at most {kind.most:,}"
        return reader.report("LL104", message, node.mark, f"write {kind.most} or less")
    return value


def codes(reader: Reader, kind: Codes, node: Node, label: str) -> Any:
    """Read a list of exit codes and ranges, or one range."""
    if isinstance(node, Text) and node.kind == "str":
        return _code_range(reader, node, label)
    return list_of(reader, _CODES, node, label)


def code(reader: Reader, kind: CodeKind, node: Node, label: str) -> Any:
    if isinstance(node, Text) and node.kind == "str" and "-" in node.text[1:]:
        return _code_range(reader, node, label)
    return whole(reader, _ONE_CODE, node, label)


def _code_range(reader: Reader, node: Text, label: str) -> Any:
    """Read a range of exit codes such as `1-125`."""
    if re.fullmatch(CODE_RANGE, node.text) is None:
        message = f"{label} must list exit codes, not `{shown(node.text)}`"
        return reader.report("LL103", message, node.mark, "write a range such as `1-125`")
    first, last = map(int, node.text.split("-"))
    if first <= last <= LARGEST_CODE:
        return node.text
    message = f"{label} must be a range from 0 to {LARGEST_CODE}, with the lower code first"
    return reader.report("LL104", message, node.mark, "write a range such as `1-125`")


def number(reader: Reader, kind: Num, node: Node, label: str) -> Any:
    """Read a number within the kind's limits, or a template or word if allowed."""
    if isinstance(node, Text) and node.text in kind.words:
        return node.text
    expected = " or ".join(["a number", *(f"`{word}`" for word in kind.words)])
    value = _numeric(reader, node, label, expected, kind.template)
    if value is INVALID or isinstance(value, str) or kind.least is None:
        return value
    if value < kind.least or (kind.above and value == kind.least):
        return _too_small(reader, node, label, kind.least, kind.above)
    return value


def time(reader: Reader, kind: Time, node: Node, label: str) -> Any:
    """Read a time as seconds, whether written as a number or as `90s`."""
    value = seconds(node.text) if type(node) is Text and node.kind == "str" else None
    if value is None:
        value = _time_without_unit(reader, node, label)
    if value is INVALID:
        return value
    if value < 0 or (value == 0 and not kind.zero):
        return _too_small(reader, node, label, 0, not kind.zero)
    if value < kind.least:
        return _too_small(reader, node, label, kind.least, False)
    if value > LONGEST_S:
        message = f"{label} is longer than ten years"
        return reader.report("LL104", message, node.mark, _TIMES)
    return value


def seconds(text: str) -> float | None:
    """Return the seconds in text like `90s`, `10m`, `2h`, `1h30m`; None for other text."""
    if len(text) < 20 and text[:-1].isdigit() and text.isascii() and text[-1] in _SECONDS:
        return int(text[:-1]) * _SECONDS[text[-1]]
    if re.fullmatch(DURATION, text) is None:
        return None
    parts = re.findall(r"([0-9.]+)([dhms])", text)
    total = math.fsum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    return int(total) if total.is_integer() else total


def _time_without_unit(reader: Reader, node: Node, label: str) -> Any:
    """Read a time without units: a number of seconds, or a mistake."""
    if not isinstance(node, Text) or node.kind != "str" or notation(node.text):
        return _numeric(reader, node, label, "a duration such as `90s`", False)
    if "${" in node.text:
        help = "references are not allowed here; write a duration"
    elif re.fullmatch(r"[0-9]+(\.[0-9]+)?", node.text):
        help = f"write {node.text}, without quotes, or `{node.text}s`"
    else:
        help = _TIMES
    message = f"{label} must be a duration, not `{shown(node.text)}`"
    return reader.report("LL110", message, node.mark, help)


def one_of(reader: Reader, kind: OneOf, node: Node, label: str) -> Any:
    """Read one of the kind's words."""
    plain_scalar = isinstance(node, Text) and node.kind in ("int", "float", "bool")
    value = (
        node.text if isinstance(node, Text) and plain_scalar else text(reader, _STR, node, label)
    )
    if value is INVALID or value in kind.words or value in kind.made:
        return value
    message = f"{label} must be {listed(kind.words)}, not `{shown(value)}`"
    return reader.report("LL105", message, node.mark, reader.suggest(value, kind.words))


def fits(text: str, pattern: str) -> bool:
    """Return whether a name matches the pattern; plain words are accepted without it."""
    if text.isidentifier() and text.isascii() and len(text) < 100 and text[0] != "_":
        return True
    return re.fullmatch(pattern, text) is not None


def _text_of_name(reader: Reader, node: Node, label: str, pattern: str) -> Any:
    if type(node) is Text and node.kind != "str":
        return reader.not_text(label, node, pattern)
    return text(reader, _STR, node, label)


def name(reader: Reader, kind: Name, node: Node, label: str) -> Any:
    """Read a name that matches the kind's pattern."""
    value = _text_of_name(reader, node, label, kind.pattern)
    if value is INVALID or fits(value, kind.pattern):
        return value
    message = f"`{shown(value)}` is not a valid {kind.what} name"
    return reader.report("LL106", message, node.mark, _NAME_HELP[kind.what])


def target(reader: Reader, kind: TargetKind, node: Node, label: str) -> Any:
    """Read the name of a target state; `check` reports whether it exists."""
    value = _text_of_name(reader, node, label, STATE_NAME)
    if value is INVALID or not value.startswith("$") or value in kind.special or "${" in value:
        return value
    help = f"name a state, or {listed(kind.special)}" if kind.special else "name a state"
    if value in (CURRENT, AS_ERROR):
        return reader.report("LL125", f"`{value}` is not allowed in {label}", node.mark, help)
    help = reader.suggest(value, kind.special) or help
    return reader.report("LL125", f"unknown target `{shown(value)}`", node.mark, help)


def in_project(reader: Reader, kind: InProject, node: Node, label: str) -> Any:
    """Read a path relative to the project, which must not lead outside it."""
    value = plain_text(reader, _PLAIN, node, label)
    if value is INVALID:
        return value
    if value.startswith(("/", "~")):
        message = f"{label} must be relative to the project, not `{shown(value)}`"
        return reader.report(
            "LL115", message, node.mark, "write it relative to the project directory"
        )
    if normalise(value).split("/")[0] == "..":
        message = f"{label} is outside the project: `{shown(value)}`"
        return reader.report("LL115", message, node.mark, "name a path inside the project")
    if not kind.globs and any(char in value for char in "*?[]{}"):
        message = f"{label} is a pattern, not a path: `{shown(value)}`"
        help = "name the directory; everything below it is included"
        return reader.report("LL115", message, node.mark, help)
    return value


def pattern(reader: Reader, kind: PatternKind, node: Node, label: str) -> Any:
    """Read a gitignore pattern for paths in the project."""
    value = plain_text(reader, _PLAIN, node, label)
    if value is INVALID:
        return value
    if value.startswith("#") or "\n" in value:
        message = f"{label} is not a gitignore pattern: `{shown(value)}`"
        return reader.report(
            "LL115", message, node.mark, "write a path or pattern, such as `tests/`"
        )
    if ".." in value.split("/") or value.startswith("~"):
        message = f"{label} is outside the project: `{shown(value)}`"
        return reader.report("LL115", message, node.mark, "name a path inside the project")
    sign = "!" if value.startswith("!") else ""
    path = value.removeprefix("!")
    # In a `.gitignore`, `./tests` matches nothing. Nobody means that.
    return f"{sign}{path[1:]}" if path.startswith("./") else value


def any_scalar(reader: Reader, kind: AnyScalar, node: Node, label: str) -> Any:
    """Read a number, text, true, false or null."""
    if not isinstance(node, Text) or node.kind in ("broken", "other"):
        return reader.wrong(label, "a number, text, true, false or null", node)
    if node.kind == "null" and not node.text:
        return reader.report("LL107", f"{label} has no value", node.mark, "write null for null")
    return _finite(reader, node, label)


def list_of(reader: Reader, kind: ListOf, node: Node, label: str) -> Any:
    """Read a list; items that could not be read are left out."""
    if type(node) is not List:
        help = f"write it as a list: [{shown(node.text)}]" if isinstance(node, Text) else None
        return reader.wrong(label, "a list", node, help)
    if len(node.items) < kind.least:
        return reader.report("LL111", f"{label} is empty", node.mark)
    if len(node.items) > kind.most:
        message = f"{label} has {len(node.items):,} items; at most {kind.most:,} are allowed"
        return reader.report("LL123", message, node.items[kind.most].mark, "remove some of them")
    items = [reader.read(kind.item, item, f"an item in {label}") for item in node.items]
    return [item for item in items if item is not INVALID]


def variables(reader: Reader, kind: Variables, node: Node, label: str) -> Any:
    """Read names with plain data; scalars keep the form in which they are written."""
    entries = names(reader, node, label, "a mapping of names to values", "variable")
    if entries is INVALID:
        return INVALID
    found: dict[str, Any] = {}
    for entry in entries:
        value = data(reader, entry.value, f"`{entry.key.text}`")
        if value is not INVALID:
            found[entry.key.text] = value
    if isinstance(node, Map) and len(found) < len(node.entries):
        lost = (entry.key for entry in node.entries if entry.key.text not in found)
        reader.spoiled.update(
            "context" if key.kind == "broken" else f"context.{key.text}" for key in lost
        )
    return found


def environment(reader: Reader, kind: Environment, node: Node, label: str) -> Any:
    """Read names with text; a number or boolean counts as the text it is written as."""
    entries = names(reader, node, label, "a mapping of names to values", "variable")
    if entries is INVALID:
        return INVALID
    found: dict[str, str] = {}
    for key, value in entries:
        if isinstance(value, Text) and "\0" in value.text:
            no_nul(reader, value, f"`{key.text}`")
        elif isinstance(value, Text) and value.kind in ("str", "int", "float", "bool"):
            found[key.text] = value.text
        elif isinstance(value, Text) and value.kind == "null":
            message = f"`{key.text}` has no value"
            reader.report("LL107", message, key.mark, 'write "" for an empty one')
        else:
            reader.wrong(f"`{key.text}`", "text", value)
    return found


def names(reader: Reader, node: Node, label: str, wants: str, what: str) -> Any:
    """Return the entries of a mapping whose keys are valid names, and report the others; INVALID if
    it is not a mapping. `wants` and `what` are for the messages."""
    if type(node) is not Map:
        return reader.wrong(label, wants, node)
    found: dict[str, MapEntry] = {}
    for entry in node.entries:
        key = entry.key
        if key.kind != "str":
            reader.not_text("this name", key, VARIABLE_NAME)
        elif not fits(key.text, VARIABLE_NAME):
            message = f"`{shown(key.text)}` is not a valid {what} name"
            reader.report("LL106", message, key.mark, _NAME_HELP[what])
        elif key.text in found:
            message = f"the key `{key.text}` is given twice"
            reader.report("LL012", message, key.mark, "keep one of them")
        else:
            found[key.text] = entry
    return list(found.values())


def data(reader: Reader, node: Node, label: str) -> Any:
    """Read plain data: a scalar, a list or a mapping. Return INVALID if any part is not plain data."""
    if isinstance(node, Text):
        return _as_written(reader, node, label)
    texts = [each for each in walk(node) if isinstance(each, Text)]
    read = [_plain_data(reader, each, label) for each in texts]
    return plain(node) if all(value is not INVALID for value in read) else INVALID


def _plain_data(reader: Reader, node: Text, label: str) -> Any:
    """Read a scalar as plain data."""
    if node.kind in ("broken", "other"):
        return reader.wrong(label, "plain data", node)
    if "\0" in node.text:
        return no_nul(reader, node, label)
    return _finite(reader, node, label)


def _as_written(reader: Reader, node: Text, label: str) -> Any:
    """Return the value if it prints as the author wrote it (`1.10` does not), else the text."""
    value = _plain_data(reader, node, label)
    if node.kind == "bool":
        return value if node.text in ("true", "false") else node.text
    if node.kind in ("int", "float") and value is not INVALID:
        return value if repr(value) == node.text else node.text
    return value


def _finite(reader: Reader, node: Text, label: str) -> Any:
    """Return the value, or INVALID after reporting a number that is not finite."""
    if node.kind in ("int", "float") and not isinstance(node.value, str):
        if not math.isfinite(node.value):
            return _not_finite(reader, node, label)
    return node.value


def _not_finite(reader: Reader, node: Text, label: str) -> Any:
    help = f'if you meant it as text, quote it: "{node.text}"' if len(node.text) < 40 else None
    return reader.report("LL109", f"{label} is not a finite number", node.mark, help)


def _numeric(reader: Reader, node: Node, label: str, wants: str, template: bool) -> Any:
    """Read a finite number, or a template if allowed."""
    if type(node) is not Text:
        return reader.wrong(label, wants, node)
    if node.kind in ("int", "float") and not isinstance(node.value, str):
        if math.isfinite(node.value):
            return node.value
        return reader.report("LL109", f"{label} is not a finite number", node.mark, _DECIMAL)
    if template and node.kind == "str" and "${" in node.text:
        return node.text
    odd = notation(node.text) if not node.quoted else None
    if odd is not None:
        message = f"{label} must be {wants}, but `{shown(node.text)}` is {odd}"
        return reader.report(
            "LL122", message, node.mark, _DECIMAL if "duration" not in wants else _TIMES
        )
    return reader.wrong(label, wants, node, _unquote(node))


def _unquote(node: Text) -> str | None:
    """Return the help for a text that was probably meant as a number."""
    if node.kind == "str" and "${" in node.text:
        return "references are not allowed here; write a number"
    if node.kind == "bool" and node.text.lower() not in ("true", "false"):
        return f"YAML reads `{node.text}` as {str(node.value).lower()}"
    looks = node.quoted and re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", node.text)
    return f"write {node.text}, without quotes" if looks else None


def _too_small(reader: Reader, node: Node, label: str, least: float, above: bool) -> Any:
    """Report a number below the minimum; `above` means that the minimum itself is not allowed.
    Return INVALID."""
    given = f"`{shown(node.text)}`" if isinstance(node, Text) else "this"
    wants = "greater than" if above else "at least"
    return reader.report("LL104", f"{label} must be {wants} {least:g}, not {given}", node.mark)


_STR = Str()
_PLAIN = Plain()
_CODES = ListOf(CodeKind())
_ONE_CODE = Whole(0, LARGEST_CODE)
