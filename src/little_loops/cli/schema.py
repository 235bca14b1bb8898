"""`ll-loop schema`: the JSON Schema of loop files, for editors and agents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from little_loops.authoring.fields.schema_json import schema
from little_loops.cli.parsing import Parser
from little_loops.errors import OK


def parser() -> Parser:
    return Parser(
        "schema",
        "Print the JSON Schema of loop files.",
        [("ll-loop schema > loop.schema.json", "for an editor")],
    )


def main(argv: Sequence[str]) -> int:
    parser().parse_args(argv)
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
    return OK
