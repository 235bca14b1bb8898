"""`ll-loop explain`: explain an error code, with a wrong and a right example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from little_loops.authoring.codes import ErrorCode, catalogue
from little_loops.cli.options import OutputArgs, operand
from little_loops.errors import OK, UsageError
from little_loops.terminal import paint
from little_loops.terminal.console import print_json, say


class ExplainArgs(
    OutputArgs,
    verb="explain",
    summary="Explain an error code, with an example of the mistake and its fix.",
    examples=[("ll-loop explain LL201", ""), ("ll-loop explain", "list them all")],
):
    code: str | None = operand("a code such as LL201; default: list them", optional=True)


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop explain`. Return 0; raise `UsageError` for an unknown code."""
    args = ExplainArgs.read(argv)
    if args.code is None:
        return _list(json=args.json)
    code = catalogue().get(args.code.upper())
    if code is None:
        raise UsageError(f"unknown error code `{args.code}`", "`ll-loop explain` lists them")
    if args.json:
        print_json({"schema": 1, **code._asdict()})
    else:
        say(page(code), paint.codes)
    return OK


def _list(*, json: bool) -> int:
    """Print all codes with their titles, and return 0."""
    if json:
        print_json({"schema": 1, "codes": {name: code.title for name, code in catalogue().items()}})
    else:
        for name, code in catalogue().items():
            say(f"{name}  {code.title}", paint.codes)
    return OK


def page(code: ErrorCode) -> str:
    """Return the explanation of a code."""
    parts = [f"{code.code}: {code.title}", "", code.text.strip()]
    wrong, right = code.wrong.strip().splitlines(), code.right.strip().splitlines()
    for title, example, other in (("Wrong", wrong, right), ("Right", right, wrong)):
        if example:
            parts += ["", f"{title}:", *_marked(example, other)]
    return "\n".join(parts)


def _marked(example: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an example; those that differ from the other one are marked."""
    from difflib import SequenceMatcher  # only one page compares anything

    differences = SequenceMatcher(None, example, other).get_opcodes()
    is_alike = any(kind == "equal" for kind, *_ in differences)
    for kind, start, end, _, _ in differences:
        mark = ">" if is_alike and kind != "equal" else " "
        yield from (f"  {mark} {line}".rstrip() for line in example[start:end])
