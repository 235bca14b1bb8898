"""The catalogue of error codes: what each means, a file that has the mistake, and one without it.

A code is a promise: it keeps its meaning, so that it can be searched for.  LL0xx is about the file
as YAML, LL1xx about keys, values and names, LL2xx about the machine, LL3xx are warnings, LL4xx is
about templates and the shell.
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.records import NamedTuple


class Code(NamedTuple):
    """One entry; `wrong` and `right` are whole files, empty where one cannot be shown."""

    code: str
    title: str
    text: str
    wrong: str = ""
    right: str = ""


def catalogue() -> Mapping[str, Code]:
    """All codes there are, in order."""
    from little_loops.authoring import (  # only looked at to explain one of them
        codes_machine,
        codes_values,
        codes_yaml,
    )

    entries = (*codes_yaml.CODES, *codes_values.CODES, *codes_machine.CODES)
    return {entry.code: entry for entry in sorted(entries)}
