"""Fill in `${namespace.path}` references: look up values and insert them into a text.

There are three kinds of values. Code is the author's own text (`context`): it is inserted first,
and references inside it stay references. Inert values come from the engine and contain nothing
special to a shell. Data is everything else: the output of commands, the environment. In a shell
action, data never becomes part of the script: it is passed in a variable, and the script gets a
reference to that variable.

Inserted text is never scanned again. Values come without the trailing newline that a command
printed: the capture dropped it, and no other is dropped here. NUL is dropped from data.

A fallback (`${captured.n.output:-0}`) replaces a value that is missing, null or empty, as in a
shell. Modifiers: `:int` and `:number` check a value when it is used, and make it inert; `:raw`
inserts data unchanged, `:q` makes any value one word, `:words` makes each word (or each element of
a list) one argument. Outside a shell, `:q` puts the text in shell quotes, and `:words` puts one
space between words.

Not here: the parser (`parse`), the author's values (`splice`), reading a script (`shell.reader`),
files and the environment (the caller passes in a `Lookup`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from little_loops.errors import LittleLoopsError
from little_loops.light_modules import re
from little_loops.light_typing import TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.parse import (
    FIELDS,
    MODIFIERS,
    NAMESPACES,
    NUMBERS,
    RESULT_FIELDS,
    SLASH_COMMAND,
    Escape,
    Piece,
    Reference,
    TemplateError,
    classify,
    number,
    parse,
    references,
    template_errors,
)
from little_loops.templates.shell.positions import HOLE, RefusedValue, ScriptPosition
from little_loops.templates.splice import (
    AuthorValue,
    Spliced,
    Unresolved,
    ValueNotANumber,
    as_text,
    is_data,
    spliced,
    texts_of,
    value_at,
    written,
)

__all__ = [
    "FIELDS",
    "MODIFIERS",
    "NAMESPACES",
    "RESULT_FIELDS",
    "Escape",
    "Lookup",
    "Piece",
    "Reference",
    "RefusedScript",
    "RefusedValue",
    "Script",
    "TemplateError",
    "TooLarge",
    "Unresolved",
    "ValueNotANumber",
    "as_text",
    "check_held",
    "check_shell",
    "check_variable",
    "classify",
    "lookup_in",
    "parse",
    "references",
    "render_agent_text",
    "render_shell",
    "render_text",
    "show",
    "splice",
    "template_errors",
    "unknown",
]

Lookup: TypeAlias = Callable[[Reference], object]
"""Returns the value of a reference, or raises `Unresolved`."""

LARGEST = 128 * 1024
"""The kernel's limit on one environment string: the name, `=`, the value and a NUL."""

# As strings, compiled on use: few scripts need them.
_BLANKS = r"[ \t\n]+"
# Lone surrogates that cannot be encoded, except those that stand for bytes that are not UTF-8.
_UNWRITABLE = "[\ud800-\udc7f\udd00-\udfff]"
_SLASH_COMMAND = rf"\s*{SLASH_COMMAND}"


class Script(NamedTuple):
    """A shell script, and the variables that contain its data."""

    text: str
    env: dict[str, str]


class RefusedScript(LittleLoopsError):
    """A script in which values stand where no safe form exists."""

    def __init__(self, refusals: Sequence[RefusedValue]) -> None:
        super().__init__(refusals[0].message, refusals[0].help)
        self.refusals = tuple(refusals)


class TooLarge(LittleLoopsError):
    """A value that no process can be given."""

    def __init__(self, reference: Reference, size: int) -> None:
        """Build the message, with the way to pass the value instead; `size` is in bytes."""
        super().__init__(
            f"`{reference.text}` is {size} bytes long, but a shell action accepts less than "
            f"{LARGEST // 1024} KiB: {_remedy(reference)}"
        )
        self.reference, self.size = reference, size


# Values


def lookup_in(values: Mapping[str, Mapping[str, object]]) -> Lookup:
    """Return a lookup in one mapping per namespace; missing environment variables are empty."""

    def lookup(reference: Reference) -> object:
        """Return the value of a reference. Raises `Unresolved` if it is missing."""
        names = values.get(reference.namespace, {})
        if reference.namespace == "env":
            return names.get(".".join(reference.path), "")
        return value_at(names, reference.path, reference.namespace)

    return lookup


def unknown(
    reference: Reference, context: Mapping[str, object], captures: Collection[str]
) -> Unresolved | None:
    """Return the error for a reference that can never have a value, as far as known without a run;
    None if it may have one, or has a fallback."""
    names: dict[str, Mapping[str, object]] = {
        **{namespace: dict.fromkeys(fields) for namespace, fields in FIELDS.items()},
        "captured": {name: dict.fromkeys(RESULT_FIELDS) for name in captures},
        "context": context,
    }
    path = reference.path
    for name in ("structured", "result"):  # their fields are not known in advance
        if name in path[1:] or (reference.namespace == "prev" and name in path):
            path = path[: path.index(name, path[0] != name) + 1]
    try:
        lookup_in(names)(reference._replace(path=path))
    except Unresolved as problem:
        return problem if reference.fallback is None else None
    return None


# Texts without a shell


def splice(text: str, context: Mapping[str, object]) -> str:
    """Insert the author's own values; the result is a template with references to the rest."""
    if "${" not in text:  # the usual case, and this runs at every step
        return text
    return "".join(written(piece) for piece in spliced(text, context))


def render_text(text: str, lookup: Lookup, context: Mapping[str, object]) -> str:
    """Fill in a text that neither a shell nor an agent reads: conditions, `env` and `context`
    values."""
    return _joined(spliced(text, context), lookup)


def render_agent_text(text: str, lookup: Lookup, context: Mapping[str, object]) -> str:
    """Fill in a prompt or slash command; data can neither attach a file nor become a command.

    Raises `Unresolved`, `ValueNotANumber` or `TemplateError`.
    """
    result, data_first, after_data = "", False, False
    for piece in spliced(text, context):
        part = _text_of(piece, lookup)
        data = is_data(piece) and not _is_raw(piece)
        if data:
            part = _escape_attachments(part, before=result[-1:])
            data_first = data_first or (not result.strip() and bool(part.strip()))
        elif after_data and part.startswith("@") and _begins_word(result[-1:]):
            part = "\\" + part
        result += part
        after_data = data
    if data_first and re.match(_SLASH_COMMAND, result):
        return result.replace("/", "\\/", 1)
    return result


def data_for_agent(text: str) -> str:
    """Return data that stands in lines of its own in a prompt: it can attach no file."""
    return _escape_attachments(text, before="\n")


def show(text: str, lookup_inert: Lookup, context: Mapping[str, object]) -> str:
    """Fill in what is known and harmless, for display; data and missing values stay references."""
    pieces: Sequence[Spliced]
    try:
        pieces = spliced(text, context)
    except Unresolved:
        pieces = parse(text)
    return "".join(_show_piece(piece, lookup_inert) for piece in pieces)


def _show_piece(piece: Spliced, lookup: Lookup) -> str:
    """Return a piece filled in, or as a reference if it is data or has no value."""
    try:
        return written(piece) if is_data(piece) else _text_of(piece, lookup)
    except (Unresolved, ValueNotANumber):
        return written(piece)


def _joined(pieces: Sequence[Spliced], lookup: Lookup) -> str:
    return "".join(_text_of(piece, lookup) for piece in pieces)


def _text_of(piece: Spliced, lookup: Lookup) -> str:
    """Return the text of a piece, filled in, with its modifier applied. Raises `Unresolved` or
    `ValueNotANumber`."""
    if isinstance(piece, str):
        return piece
    if isinstance(piece, Escape):
        return "${"
    words = _words_of(piece, lookup)
    match _reference(piece).modifier:
        case "q":
            return "'" + words[0].replace("'", "'\\''") + "'"
        case "words":
            return " ".join(words)
        case _:
            return words[0]


def _words_of(piece: Reference | AuthorValue, lookup: Lookup) -> list[str]:
    """Return the words that a value becomes: several with `:words`, else one. Raises `Unresolved`
    or `ValueNotANumber`."""
    modifier = _reference(piece).modifier
    if isinstance(piece, AuthorValue):
        words = [_joined(part, lookup) for part in piece.parts]
        is_list = piece.is_list
    else:
        value = _value(piece, lookup)
        words = texts_of(value, modifier)
        is_list = isinstance(value, list | tuple)
    words = [word.replace("\0", "") for word in words]
    if modifier in NUMBERS:
        (word,) = words
        return [_checked_number(_reference(piece), word)]
    if modifier == "words" and not is_list:
        (word,) = words
        return [each for each in re.split(_BLANKS, word) if each]
    return words


def _value(reference: Reference, lookup: Lookup) -> object:
    """Look up a reference, and apply its fallback if the value is missing, None or empty. Raises
    `Unresolved` without a fallback."""
    if reference.fallback is None:
        return lookup(reference)
    try:
        value = lookup(reference)
    except Unresolved:
        return reference.fallback
    return reference.fallback if value in (None, "") else value


def _checked_number(reference: Reference, text: str) -> str:
    """Return the text of a number; raise `ValueNotANumber` if it is something else."""
    found = number(text, reference.modifier or "number")
    if found is None:
        raise ValueNotANumber(reference, text)
    return found


def _reference(piece: Reference | AuthorValue) -> Reference:
    return piece.reference if isinstance(piece, AuthorValue) else piece


def _is_inert(piece: Reference | AuthorValue) -> bool:
    """Return whether a value can be inserted unchanged anywhere in a script."""
    return not is_data(piece) and _reference(piece).modifier in (None, *NUMBERS)


def _is_raw(piece: Spliced) -> bool:
    return isinstance(piece, Reference) and piece.modifier == "raw"


def _begins_word(before: str) -> bool:
    """Return whether a word begins after this character: at the start, or after a space or control."""
    return before in ("", " ") or not before.isprintable()


def _escape_attachments(text: str, before: str) -> str:
    """Escape each `@` at the start of a word, because agents attach the file `name` for `@name`.
    `before` is the character before the text."""
    parts = text.split("@")
    result = parts[0]
    for part in parts[1:]:
        previous = result[-1:] or before
        result += ("\\@" if _begins_word(previous) else "@") + part
    return result


# Shell scripts

_NO_PLACE = ScriptPosition("bare")
_FORMS = {
    "bare": '"${%s}"',
    "double": "${%s}",
    "single": "'\"${%s}\"'",
    "document": "${%s}",
}
_ESCAPES = {
    "bare": "'${'",  # in bash, a comma after `\${` would make a list of words
    "double": "\\${",
    "single": "${",
    "document": "\\${",
    "literal": "${",
    "comment": "${",
}


def render_shell(
    text: str, lookup: Lookup, context: Mapping[str, object], shell: str = "sh"
) -> Script:
    """Fill in a shell action: data goes into variables.

    Raises `RefusedScript`, `TooLarge`, `ValueNotANumber`, `Unresolved` or `TemplateError`.
    """
    if "${" not in text:  # a shortcut for most scripts, because this runs at every step
        return Script(text, {})
    located = _locate(text, context, shell)
    refused = [each for each in _objections(located) if not each.warning]
    if refused:
        raise RefusedScript(refused)
    variables = _EnvironmentValues()
    parts = []
    for piece, place, following in located:
        match piece:
            case str():
                parts.append(piece)
            case Escape():
                parts.append(_escape(place))
            case _:
                parts.append(_in_script(piece, place, following, lookup, variables))
    return Script("".join(parts), {name: value for value, name in variables.names.items()})


def check_shell(text: str, context: Mapping[str, object], shell: str = "sh") -> list[RefusedValue]:
    """Return what `render_shell` would refuse, and warnings about risky places."""
    return list(_objections(_locate(text, context, shell)))


def check_variable(name: str, text: str, context: Mapping[str, object]) -> list[RefusedValue]:
    """Return the objections to a value in an environment variable that the shell evaluates; none
    for other variables. Raises `Unresolved` or `TemplateError`."""
    if "${" not in text:
        return []
    from little_loops.templates.shell.rules import EVALUATED  # few variables contain references

    if name not in EVALUATED:
        return []
    from little_loops.templates.shell.refusals import objections_to

    pieces = (
        piece for piece in spliced(text, context) if isinstance(piece, Reference | AuthorValue)
    )
    place = ScriptPosition("bare", "variable", name)
    return [said for piece in pieces for said in objections_to(piece, place) if not said.warning]


def check_held(
    text: str, held: Mapping[str, Reference], context: Mapping[str, object], shell: str = "sh"
) -> dict[str, RefusedValue]:
    """Return warnings, by name, for variables with data that a script uses where the shell
    evaluates them. Raises `Unresolved` or `TemplateError`.

    `held` maps the variables to the references they contain.
    """
    from little_loops.templates.shell.reader import read_script  # few variables contain data
    from little_loops.templates.shell.refusals import used

    uses = read_script("".join(_marks(spliced(text, context))), shell).uses
    return {name: used(reference, uses[name]) for name, reference in held.items() if name in uses}


class _Located(NamedTuple):
    """A piece of a script, its place, and the character that follows it."""

    piece: Spliced
    place: ScriptPosition
    following: str  # the next character


def _locate(text: str, context: Mapping[str, object], shell: str) -> list[_Located]:
    """Return each piece of a script with its place. The script is only parsed if places matter."""
    pieces = spliced(text, context)
    marks = _marks(pieces)
    follow = [*(mark[:1] for mark in marks[1:]), ""]
    holes = len(pieces) - sum(isinstance(piece, str) for piece in pieces)
    where: Iterable[ScriptPosition] = [_NO_PLACE] * holes
    if any(_depends_on_place(*each) for each in zip(pieces, follow, strict=False)):
        from little_loops.templates.shell.reader import read_script  # few scripts need parsing

        where = read_script("".join(marks), shell).places
    left = iter(where)
    return [
        _Located(piece, _NO_PLACE if isinstance(piece, str) else next(left), following)
        for piece, following in zip(pieces, follow, strict=False)
    ]


def _marks(pieces: Sequence[Spliced]) -> list[str]:
    """Return the pieces of a script as text, with `HOLE` for each value."""
    return [piece.replace(HOLE, " ") if isinstance(piece, str) else HOLE for piece in pieces]


def _depends_on_place(piece: Spliced, following: str) -> bool:
    """Return whether the place of a piece in the script decides how it is inserted.

    Text: never. An inert value: only if the next character, `following`, is `<` or `>`, because
    `3>file` redirects. Anything else: always.
    """
    if isinstance(piece, Reference | AuthorValue) and _is_inert(piece):
        return following in ("<", ">")
    return not isinstance(piece, str)


def _objections(located: Iterable[_Located]) -> Iterator[RefusedValue]:
    """Yield the objections to the values of a script in their places."""
    for piece, place, _ in located:
        if not isinstance(piece, str) and _depends_on_place(piece, ""):
            from little_loops.templates.shell.refusals import (
                objections_to,  # few values can be refused
            )

            yield from objections_to(piece, place)


class _EnvironmentValues:
    """Collects the values to pass in environment variables, each with its variable's name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def take(self, word: str, reference: Reference) -> str:
        """Return the name of the variable for a value; raise `TooLarge` if it cannot be passed."""
        word = re.sub(_UNWRITABLE, "\ufffd", word)
        if word in self.names:
            return self.names[word]
        name = f"LL_V{len(self.names) + 1}"
        size = len(word.encode("utf-8", "surrogateescape"))
        if len(name) + len("=\0") + size > LARGEST:
            raise TooLarge(reference, size)
        self.names[word] = name
        return name


def _in_script(
    piece: Reference | AuthorValue,
    place: ScriptPosition,
    following: str,
    lookup: Lookup,
    variables: _EnvironmentValues,
) -> str:
    """Return what to write into the script for a value at its place, after adding data to
    `variables`.

    Raises `RefusedScript` for an argument that would be read as an option, `TooLarge`, `ValueNotANumber` or
    `Unresolved`.
    """
    reference = _reference(piece)
    if place.quote == "comment":
        return reference.text
    words = _words_of(piece, lookup)
    if _is_raw(piece):
        (word,) = words
        return word
    if _is_inert(piece):
        (word,) = words
        # `echo 3>file` would redirect descriptor 3, not print 3.
        apart = following in ("<", ">") and place.quote == "bare" and not place.refused
        return f'"{word}"' if apart and word.isdecimal() else word
    if place.option_of and any(word.startswith("-") for word in words):
        from little_loops.templates.shell.refusals import taken_for_option  # rare

        raise RefusedScript([taken_for_option(reference, place)])
    form = _FORMS[place.quote]
    return " ".join(form % variables.take(word, reference) for word in words)


def _escape(place: ScriptPosition) -> str:
    """Return how to write a literal `${` at this place in a script."""
    match place.refused:
        case "backslash":
            return "${"
        case "dollar":
            return "\\${"
        case _:
            return _ESCAPES[place.quote]


def _remedy(reference: Reference) -> str:
    """Return how to pass a value that is too large: by its file."""
    special = {"stderr": "stderr_file", "structured": "structured_file"}
    file = next((special[name] for name in reference.path if name in special), "file")
    match reference.namespace:
        case "captured":
            return f"read it from the file `${{captured.{reference.path[0]}.{file}}}`"
        case "prev":
            return f"read it from the file `${{prev.{file}}}`"
        case _:
            return "write it to a file, and pass the file name to the action"
