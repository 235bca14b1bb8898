"""Say why a value may not stand where it does in a script, and what to write instead.

Not here: finding out where it stands (`shell_text`), writing it there (`interpolation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.fsm.shell_places import Place, Reason, Refusal
from little_loops.fsm.splicing import Own, is_data
from little_loops.fsm.template import Escape, Reference

_VARIABLE = "put it into a variable on a line of its own first: `value={text}`"

# Each is a message and its help; `{text}` is the reference, `{of}` what the place knows besides.
_WORDS: Mapping[Reason, tuple[str, str]] = {
    "command": (
        "`{text}` stands where the name of a command belongs, and would be run",
        "write the command out, and give the value to it as an argument",
    ),
    "program": (
        "`{text}` stands in program text of `{of}`, and would be run",
        "give the value to `{of}` as an argument or a variable",
    ),
    "name": (
        "`{text}` stands where the name of a variable belongs, which bash evaluates",
        "write the name out",
    ),
    "arithmetic": (
        "`{text}` stands in shell arithmetic, where bash runs commands it finds in a value",
        "use `expr {text} + 1` to calculate, and `[ {text} -gt 1 ]` to compare",
    ),
    "test": (
        "`{text}` stands in `[[ … ]]`, where bash runs commands it finds in a value",
        "use `[ … ]`, or `case {text} in …`",
    ),
    "backticks": ("`{text}` stands in backticks", "write `$(…)` instead of the backticks"),
    "parameter": ("`{text}` stands in a `${{…}}` of the shell's own", _VARIABLE),
    "literal document": (
        "`{text}` stands in a here-document with a quoted delimiter, where nothing is replaced",
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
}


# The author's own words may stand here, but no data.
_NOT_DATA: tuple[Reason, ...] = ("command", "program", "name", "test")
_NOT_EVEN_ESCAPES: tuple[Reason, ...] = (
    *("arithmetic", "backticks", "parameter", "delimiter", "unbalanced", "unclear"),
)


def judged(piece: Escape | Reference | Own, place: Place) -> Iterator[Refusal]:
    """Say what speaks against a piece in its place."""
    if isinstance(piece, Escape):
        if place.refused in _NOT_EVEN_ESCAPES:
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
    elif place.refused and (data or place.refused not in _NOT_DATA):
        yield Refusal(reference, *why(place, reference.text))
    elif modifier == "words" and not place.splits:
        yield Refusal(
            reference,
            f"`{reference.text}` gives any number of words, and here one word belongs",
            "let it stand between blanks, without quotes, among the arguments of a command",
        )
    elif data:
        yield from _warnings(reference, place)


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
        yield Refusal(
            reference,
            f"`{place.evaluated}` gets `{reference.text}` and is used in shell arithmetic, "
            "where bash runs commands it finds in a value",
            "use `expr` and `[ … ]`, or let nothing but digits through first",
            warning=True,
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
        help = _PROGRAM_HELP[place.of]
    return message.format(text=text, of=place.of), help.format(text=text, of=place.of)
