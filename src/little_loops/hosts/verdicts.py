"""Ask an agent for a verdict, and read it.

CLIs that support it return structured output; otherwise the last line is `VERDICT: word`. A word
that was not asked for is no verdict: guessing what an agent meant makes loops end too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from little_loops.light_typing import Any

DEFAULT_WORDS = ("pass", "fail")

# Models often put Markdown around it, which does not change the answer.
LINE = re.compile(r"[ \t>*_`#]*VERDICT:[ \t*_`]*([\w-]+?)[ \t*_`.]*", re.IGNORECASE)

NO_VERDICT = "the agent gave no verdict"
MEANING = "`pass` if what was asked for is true or done, `fail` if it is not"


def schema_for(words: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of the answer: one of these words, and a reason."""
    verdict: dict[str, Any] = {"type": "string", "enum": list(words)}
    if tuple(words) == DEFAULT_WORDS:
        verdict["description"] = MEANING
    reason = {"type": "string", "description": "why, in one sentence"}
    return {
        "type": "object",
        "properties": {"verdict": verdict, "reason": reason},
        "required": ["verdict", "reason"],
        "additionalProperties": False,
    }


def schema_text(words: Sequence[str]) -> str:
    return json.dumps(schema_for(words), separators=(",", ":"))


def request_line(words: Sequence[str]) -> str:
    """Return the request for a verdict, for a CLI that does not support schemas."""
    listed = ", ".join(f"`{word}`" for word in words)
    meaning = f" ({MEANING})" if tuple(words) == DEFAULT_WORDS else ""
    return f"End your answer with a line `VERDICT: word`, where word is one of {listed}{meaning}."


def last_line_verdict(text: str) -> str | None:
    """Return the word of `VERDICT: word` if that is the last non-blank line; else None."""
    lines = text.rstrip().rsplit("\n", 1)
    found = LINE.fullmatch(lines[-1])
    return found[1] if found else None


def any_line_verdict(text: str) -> str | None:
    """Return the word of the last `VERDICT: word` line, wherever it is; None without one."""
    found = [match[1] for line in text.splitlines() if (match := LINE.fullmatch(line))]
    return found[-1] if found else None


def among(word: object, words: Sequence[str]) -> str | None:
    """Return the word as it was requested, ignoring case; None if it was not asked for."""
    if not isinstance(word, str):
        return None
    folded = {known.casefold(): known for known in words}
    return word if word in words else folded.get(word.casefold())


def missing(said: str | None, words: Sequence[str]) -> str:
    """Return why there is no verdict."""
    if said is None:
        return NO_VERDICT
    listed = ", ".join(f"`{word}`" for word in words)
    return f"the agent gave the verdict `{said[:40]}`; expected one of {listed}"
