"""Say why a value may not stand where it does in a script, and what to write instead.

Not here: finding out where it stands (`script`), writing it there (`render`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.templates.parse import Escape, Reference
from little_loops.templates.shell.positions import Place, Reason, Refusal, Use
from little_loops.templates.splice import Own, is_data

_VARIABLE = "put it into a variable on a line of its own first: `value={text}`"

# Each is a message and its help; `{text}` is the reference, `{it}` that or what was made of it,
# `{value}` how that is written, `{of}` what the place knows besides.
_WORDS: Mapping[Reason, tuple[str, str]] = {
    "command": (
        "{it} stands where the name of a command belongs, and would be run",
        "write the command out, and give the value to it as an argument",
    ),
    "vanishing": (
        "{it} would be run as a command where what stands before it is empty",
        "write the command out, or put what stands before it in double quotes",
    ),
    "program": (
        "{it} stands in program text of `{of}`, and would be run",
        "give the value to `{of}` as an argument or a variable",
    ),
    "name": (
        "{it} stands where the name of a variable belongs, which bash evaluates",
        "write the name out",
    ),
    "variable": (
        "{it} is put into `{of}`, and the shell evaluates what is in there",
        "use a variable of your own",
    ),
    "option": (
        "{it} may begin with `-`, and `{of}` would take it for an option",
        "write `--` before it",
    ),
    "operator": (
        "{it} may be taken for an operator of `{of}`, and bash evaluates what follows `-v`",
        "put `$(…)` in double quotes, and write an operator between two values",
    ),
    "arithmetic": (
        "{it} stands in shell arithmetic, where bash runs commands it finds in a value",
        "use `expr {value} + 1` to calculate, and `[ {value} -gt 1 ]` to compare",
    ),
    "test": (
        "{it} stands in `[[ … ]]`, where bash runs commands it finds in a value",
        "use `[ … ]`, or `case {value} in …`",
    ),
    "backticks": ("`{text}` stands in backticks", "write `$(…)` instead of the backticks"),
    "parameter": ("`{text}` stands in a `${{…}}` of the shell's own", _VARIABLE),
    "literal document": (
        "{it} stands in a here-document with a quoted delimiter, where nothing is replaced",
        "take the quotes off the delimiter, and write `\\$` for the shell's own dollar signs",
    ),
    "dollar quotes": (
        "`{text}` stands in `$'…'`, where nothing is replaced",
        "use plain double quotes",
    ),
    "delimiter": (
        "`{text}` stands where the delimiter of a here-document belongs",
        "write the delimiter out",
    ),
    "backslash": (
        "`{text}` stands right after a backslash",
        "write `$${{` for a literal `${{`, or take the backslash away",
    ),
    "dollar": ("`{text}` stands right after a `$`", "write `\\$` for a dollar sign"),
    "unbalanced": (
        "the script has {of}, so it cannot be told where `{text}` stands",
        "close every quote, bracket and here-document",
    ),
    "unclear": (
        "the script has {of}, so it cannot be told for sure where `{text}` stands",
        _VARIABLE + ", at the top of the script",
    ),
}

_PROGRAM_HELP: Mapping[str, str] = {
    **dict.fromkeys(
        ("sh", "bash", "dash"),
        "give it as an argument: `{of} -c 'echo \"$1\"' {of} {text}`",
    ),
    "python": "give it as an argument: `python3 -c 'import sys; print(sys.argv[1])' {text}`",
    "perl": "give it as an argument: `perl -e 'print $ARGV[0]' -- {text}`",
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"),
        "give it as a variable: `{of} -v value={text} '{{ print value }}'`",
    ),
    "jq": "give it as a variable: `jq --arg value {text} '.name == $value'`",
    **dict.fromkeys(
        ("sed", "gsed"),
        "`{of}` takes no variables: use `awk -v value={text}` or a program that does",
    ),
    "eval": "run the command itself, with the value as its argument",
    "let": "use `expr {text} + 1` to calculate",
    "trap": _VARIABLE + ', and use `"$value"` in the trap\'s own text',
    "alias": "use a function, and give it the value as an argument",
    "source": "write the name of the file out, and give the value to its commands in a variable",
}

# The same for a variable `{name}` that gets the value, where it is not for the reference alone.
_VARIABLE_HELP: Mapping[Reason, str] = {
    **dict.fromkeys(
        ("arithmetic", "test"),
        "use `expr` and `[ … ]`, or let nothing but digits through first",
    ),
    "option": "write `--` before it",
    "operator": "put double quotes around `${name}`",
}
_KNOWN_ONLY = "let nothing but what you know through first: `case ${name} in build|test) … esac`"


# The author's own words may stand here, but no data.
_NOT_DATA: tuple[Reason, ...] = (
    *("command", "vanishing", "program", "name", "variable", "option", "operator", "test"),
)
_NOT_EVEN_ESCAPES: tuple[Reason, ...] = (
    *("arithmetic", "backticks", "parameter", "delimiter", "unbalanced", "unclear"),
)


def judged(piece: Escape | Reference | Own, place: Place) -> Iterator[Refusal]:
    """Say what speaks against a piece in its place."""
    if isinstance(piece, Escape):
        if place.refused in _NOT_EVEN_ESCAPES and _for_all(place):
            yield Refusal(piece, *why(place, piece.text))
        elif place.refused in ("backslash", "dollar"):
            yield _escape(piece, place)
        return
    reference = piece.reference if isinstance(piece, Own) else piece
    data, modifier = is_data(piece), reference.modifier
    if place.quote == "comment" or (not data and modifier in (None, "raw")):
        return
    if modifier == "raw":
        yield _raw(reference)
    elif place.refused and (data or _for_all(place)):
        yield Refusal(reference, *why(place, reference.text))
    elif place.file_of and _holds_output(reference):
        yield _run_as_file(reference, place)
    elif modifier == "words" and not place.splits:
        yield Refusal(
            reference,
            f"`{reference.text}` gives any number of words, and here one word belongs",
            "let it stand between blanks, without quotes, among the arguments of a command",
        )
    elif data:
        yield from _warnings(reference, place)


def _for_all(place: Place) -> bool:
    """No value at all may stand here; what is carried elsewhere matters for data alone."""
    return place.refused not in _NOT_DATA and not place.through


def taken_for_option(reference: Reference, place: Place, warning: bool = False) -> Refusal:
    return Refusal(
        reference,
        f"`{reference.text}` is refused where it begins with `-`: "
        f"`{place.option_of}` would take it for an option",
        f"write `--` before it: `-- {reference.text}`",
        warning,
    )


def _warnings(reference: Reference, place: Place) -> Iterator[Refusal]:
    path_of_ours = reference.name == "loop.run_dir" or reference.path[-1] == "file"
    if place.option_of and not path_of_ours:
        yield taken_for_option(reference, place, warning=True)
    if place.evaluated:
        yield _used(reference, place.evaluated)


def _used(reference: Reference, use: Use) -> Refusal:
    message = _WORDS[use.reason][0].replace(" stands ", " is used ", 1)
    help = _VARIABLE_HELP.get(use.reason, _KNOWN_ONLY)
    it = f"`{use.name}` gets `{reference.text}` and"
    said = message.format(it=it, of=use.of), help.format(name=use.name)
    return Refusal(reference, *said, warning=True)


def _holds_output(reference: Reference) -> bool:
    return reference.namespace in ("captured", "prev") and reference.path[-1] == "file"


def _run_as_file(reference: Reference, place: Place) -> Refusal:
    return Refusal(
        reference,
        f"`{reference.text}` is the file with what a command printed, "
        f"and `{place.file_of}` would run it",
        "write `:raw` behind it if whoever prints that may run commands here",
    )


def _escape(escape: Escape, place: Place) -> Refusal:
    before = "\\" if place.refused == "backslash" else "$"
    return Refusal(
        escape,
        f"`{before}$${{` gives a literal `${{`, whatever stands before it",
        f'for a dollar sign before a value keep the two apart: `{before}$""${{`',
        warning=True,
    )


def _raw(reference: Reference) -> Refusal:
    return Refusal(
        reference,
        f"`{reference.text}` is put into the script as it is: what it holds is run",
        "take `:raw` away unless whoever writes this value may run commands here",
        warning=True,
    )


def why(place: Place, text: str) -> tuple[str, str]:
    """The message and the way out for a reference written as `text` in a refused place."""
    reason: Reason = (
        "program" if place.refused == "literal document" and place.of else place.refused
    )
    message, help = _WORDS[reason]
    if reason == "program":
        help = _PROGRAM_HELP.get(place.of, help)
    it = f"what {place.through} makes of `{text}`" if place.through else f"`{text}`"
    value = '"$(…)"' if place.through else text
    said = {"text": text, "it": it, "value": value, "of": place.of}
    return message.format(**said), help.format(**said)
