"""Explain why a value is not allowed in its place in a script, and what to write instead.

To refuse a new kind of place: `reader` (syntax) or `rules` (commands) recognises it,
`positions.Reason` names it, and the message goes here.

Not here: finding the place (`reader`), inserting the value (`render`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.templates.parse import NUMBERS, Escape, Reference
from little_loops.templates.shell.positions import Reason, RefusedValue, ScriptPosition, Use
from little_loops.templates.splice import AuthorValue, is_data

_VARIABLE = "first assign it to a variable, on a separate line: `value={text}`"

_WHOLE_NUMBER = "write `{number}` if it is a whole number"

# The problem and the remedy; `{text}` is the reference, `{number}` the same with `:int`, and
# `{of}` the program, or whatever else the place says.
_WORDS: Mapping[Reason, tuple[str, str]] = {
    "command": (
        "is used as a command name, and would be run",
        "write the command literally, and pass the value to it as an argument",
    ),
    "vanishing": (
        "would be run as a command if the expansion before it is empty",
        "write the command literally, or put the expansion before it in double quotes",
    ),
    "program": (
        "is inside the program text of `{of}`, and would be run",
        "pass the value to `{of}` as an argument or a variable",
    ),
    "name": (
        "is used as a variable name, which bash evaluates",
        "write the name literally",
    ),
    "variable": (
        "is assigned to `{of}`, which the shell evaluates",
        "use your own variable",
    ),
    "option": (
        "may begin with `-`, and `{of}` would read it as an option",
        "write `--` before it",
    ),
    "operator": (
        "may be read as an operator of `{of}`, and bash evaluates what follows `-v`",
        "write an operator between two values",
    ),
    "arithmetic": (
        "is used in shell arithmetic, where bash runs commands it finds in a value",
        _WHOLE_NUMBER,
    ),
    "test": (
        "is compared as a number in `[[ … ]]`, where bash runs commands it finds in a value",
        _WHOLE_NUMBER,
    ),
    "backticks": ("is inside backticks", "write `$(…)` instead of the backticks"),
    "parameter": ("is inside a `${{…}}` expansion of the shell", _VARIABLE),
    "literal document": (
        "is inside a here-document with a quoted delimiter, where nothing is replaced",
        "remove the quotes from the delimiter, and write `\\$` for the shell's own dollar signs",
    ),
    "dollar quotes": (
        "is inside `$'…'`, where nothing is replaced",
        "use plain double quotes",
    ),
    "delimiter": (
        "is used as a here-document's delimiter",
        "write the delimiter literally",
    ),
    "backslash": (
        "directly follows a backslash",
        "write `$${{` for a literal `${{`, or remove the backslash",
    ),
    "dollar": ("directly follows a `$`", "write `\\$` for a dollar sign"),
    "unbalanced": (
        "is in a script with {of}, so its position is not known",
        "close every quote, bracket and here-document",
    ),
    "unclear": (
        "is in a script with {of}, so its position is not certain",
        _VARIABLE + ", at the top of the script",
    ),
}

_PROGRAM_HELP: Mapping[str, str] = {
    **dict.fromkeys(
        ("sh", "bash", "dash"),
        "pass it as an argument: `{of} -c 'echo \"$1\"' {of} {text}`",
    ),
    "python": "pass it as an argument: `python3 -c 'import sys; print(sys.argv[1])' {text}`",
    "perl": "pass it as an argument: `perl -e 'print $ARGV[0]' -- {text}`",
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"),
        "pass it as a variable: `{of} -v value={text} '{{ print value }}'`",
    ),
    "jq": "pass it as a variable: `jq --arg value {text} '.name == $value'`",
    **dict.fromkeys(
        ("sed", "gsed"),
        "`{of}` has no variables: use `awk -v value={text}` or a program that does",
    ),
    "eval": "run the command itself, with the value as its argument",
    "let": _WHOLE_NUMBER,
    "trap": _VARIABLE + ', and use `"$value"` in the text of the trap',
    "alias": "use a function, and pass it the value as an argument",
    "source": "write the file name literally, and pass the value to its commands in a variable",
}

_KNOWN_ONLY = "accept only known values first: `case ${name} in build|test) … esac`"
_PRINTED = 'compare with `[ "$(…)" -gt 1 ]`, and calculate with `expr`'

# Places for the author's own words, but not for data.
_NOT_DATA: tuple[Reason, ...] = (
    *("command", "vanishing", "program", "name", "variable", "option", "operator", "test"),
)
_NOT_EVEN_ESCAPES: tuple[Reason, ...] = (
    *("arithmetic", "backticks", "parameter", "delimiter", "unbalanced", "unclear"),
)


def objections_to(
    piece: Escape | Reference | AuthorValue, place: ScriptPosition
) -> Iterator[RefusedValue]:
    """Yield the objections to a piece in its place."""
    if isinstance(piece, Escape):
        if place.refused in _NOT_EVEN_ESCAPES:
            yield RefusedValue(piece, *why(place, piece))
        elif place.refused in ("backslash", "dollar"):
            yield _escape(piece, place)
        return
    reference = piece.reference if isinstance(piece, AuthorValue) else piece
    data, modifier = is_data(piece), reference.modifier
    if place.quote == "comment" or (not data and modifier in (None, "raw", *NUMBERS)):
        return
    if modifier == "raw":
        yield _raw(reference)
    elif place.refused and (data or place.refused not in _NOT_DATA):
        yield RefusedValue(reference, *why(place, reference))
    elif place.file_of and _is_output_file(reference):
        yield _run_as_file(reference, place)
    elif modifier == "words" and not place.splits:
        yield RefusedValue(
            reference,
            f"`{reference.text}` gives any number of words, but only one word is allowed here",
            "write it between spaces, without quotes, among the arguments of a command",
        )
    elif data:
        yield from _warnings(reference, place)


def taken_for_option(
    reference: Reference, place: ScriptPosition, warning: bool = False
) -> RefusedValue:
    """Return the refusal of a value that starts with `-`; or the warning that it may."""
    return RefusedValue(
        reference,
        f"`{reference.text}` is refused if it begins with `-`: "
        f"`{place.option_of}` would read it as an option",
        f"write `--` before it: `-- {reference.text}`",
        warning,
    )


def _warnings(reference: Reference, place: ScriptPosition) -> Iterator[RefusedValue]:
    """Yield warnings for data that is allowed, but risky."""
    path_of_ours = reference.name == "loop.run_dir" or reference.path[-1] == "file"
    if place.option_of and not path_of_ours:
        yield taken_for_option(reference, place, warning=True)
    if place.used:
        yield used(reference, place.used)


def used(reference: Reference, use: Use) -> RefusedValue:
    """Return a warning about a value that reaches an evaluated place through a variable or `$(…)`."""
    it = f"`{use.name}` holds" if use.name else "`$(…)` may print"
    values = f"{it} `{reference.text}`, and {_WORDS[use.reason][0].format(of=use.of)}"
    help = _used_help(use).format(name=use.name, number=_as_int(reference))
    return RefusedValue(reference, values, help, warning=True)


def _used_help(use: Use) -> str:
    """Return the remedy for a variable, or for `$(…)`, in an evaluated place."""
    match use.reason:
        case "arithmetic" | "test":
            return _WHOLE_NUMBER if use.name else _PRINTED
        case "option":
            return "write `--` before it"
        case "operator":
            return "put it in double quotes"
        case _:
            return _WHOLE_NUMBER if use.of == "let" else _KNOWN_ONLY


def _as_int(reference: Reference | Escape) -> str:
    name = reference.name if isinstance(reference, Reference) else "x.y"
    return f"${{{name}:int}}"


def _is_output_file(reference: Reference) -> bool:
    """Return whether a reference is the path of a file with a command's output."""
    return reference.namespace in ("captured", "prev") and reference.path[-1] == "file"


def _run_as_file(reference: Reference, place: ScriptPosition) -> RefusedValue:
    """Return the refusal of an output file that a program would run."""
    return RefusedValue(
        reference,
        f"`{reference.text}` is the output file of a command, and `{place.file_of}` would run it",
        "add `:raw` if you trust whoever writes that output to run commands here",
    )


def _escape(escape: Escape, place: ScriptPosition) -> RefusedValue:
    """Return a warning about an escape after a backslash or a dollar sign."""
    before = "\\" if place.refused == "backslash" else "$"
    return RefusedValue(
        escape,
        f"`{before}$${{` gives a literal `${{`, whatever precedes it",
        f'to put a dollar sign before a value, separate the two: `{before}$""${{`',
        warning=True,
    )


def _raw(reference: Reference) -> RefusedValue:
    """Return a warning about data with `:raw`."""
    return RefusedValue(
        reference,
        f"`{reference.text}` is inserted into the script unquoted, so its content runs as code",
        "remove `:raw` unless you trust whoever writes this value to run commands here",
        warning=True,
    )


def why(place: ScriptPosition, reference: Reference | Escape) -> tuple[str, str]:
    """Return the message and the remedy for a reference in a refused place."""
    reason: Reason = (
        "program" if place.refused == "literal document" and place.of else place.refused
    )
    message, help = _WORDS[reason]
    if reason == "program":
        help = _PROGRAM_HELP.get(place.of, help)
    values = {"text": reference.text, "of": place.of, "number": _as_int(reference)}
    return f"`{reference.text}` {message.format(**values)}", help.format(**values)
