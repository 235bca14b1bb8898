"""`python -m tools.reference`: write the reference pages and the JSON Schema anew, from the code.

What is said here stands in the program already; a page that says otherwise fails a test.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from little_loops.authoring.fields.schema_json import schema
from tools.pages import ROOT
from tools.reference_commands import commands_page
from tools.reference_events import events_page
from tools.reference_fields import conditions_page, fields_page
from tools.reference_runs import (
    environment_page,
    error_codes_page,
    exit_codes_page,
    interpolation_page,
)

NOTE = "<!-- made by `make docs`; edit the code it is made from -->"
PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "fields": fields_page,
    "conditions": conditions_page,
    "commands": commands_page,
    "events": events_page,
    "exit-codes": exit_codes_page,
    "error-codes": error_codes_page,
    "environment": environment_page,
    "interpolation": interpolation_page,
}
SCHEMA = "schemas/loop.schema.json"


def generated() -> dict[str, str]:
    """Every generated file by its path, as it should be."""
    pages = {f"docs/reference/{name}.md": page_text(make()) for name, make in PAGES.items()}
    return {**pages, SCHEMA: json.dumps(schema(), indent=2) + "\n"}


def page_text(lines: Iterator[str]) -> str:
    return "\n".join([NOTE, "", *lines]).rstrip("\n") + "\n"


def current(path: str) -> str | None:
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 on drift")
    args = parser.parse_args(argv)
    stale = {path: text for path, text in generated().items() if current(path) != text}
    for path, text in stale.items():
        print(f"{'stale' if args.check else 'wrote'} {path}")
        if not args.check:
            os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as stream:
                stream.write(text)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
