"""Ask an agent for a verdict, and read it.

Structured output is the way where the CLI has it; a last line `VERDICT: word` is the other.  A word
that was not asked for is no verdict: guessing what an agent meant is how loops end too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

DEFAULT_WORDS = ("pass", "fail")

# Markdown around it is the habit of models, not another answer.
LINE = re.compile(r"[ \t>*_`#]*VERDICT:[ \t*_`]*([\w-]+?)[ \t*_`.]*", re.IGNORECASE)

NO_VERDICT = "the agent gave no verdict"
MEANING = "`pass` if what was asked for is true or done, `fail` if it is not"


def schema_for(words: Sequence[str]) -> dict[str, Any]:
    """The JSON Schema of the answer: one of these words, and why."""
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
    """The request for a CLI that knows no schema."""
    listed = ", ".join(f"`{word}`" for word in words)
    meaning = f" ({MEANING})" if tuple(words) == DEFAULT_WORDS else ""
    return f"End your answer with a line `VERDICT: word`, where word is one of {listed}{meaning}."


def last_line_verdict(text: str) -> str | None:
    """The word of `VERDICT: word` if that is the last line that is not blank."""
    lines = text.rstrip().rsplit("\n", 1)
    found = LINE.fullmatch(lines[-1])
    return found[1] if found else None


def any_line_verdict(text: str) -> str | None:
    """The word of the last `VERDICT: word` line; a plain CLI may print a footer after it."""
    found = [match[1] for line in text.splitlines() if (match := LINE.fullmatch(line))]
    return found[-1] if found else None


def among(word: object, words: Sequence[str]) -> str | None:
    """The word as it was asked for, whatever its case; None if it was not."""
    if not isinstance(word, str):
        return None
    folded = {known.casefold(): known for known in words}
    return word if word in words else folded.get(word.casefold())


def missing(said: str | None, words: Sequence[str]) -> str:
    """Why there is no verdict."""
    if said is None:
        return NO_VERDICT
    listed = ", ".join(f"`{word}`" for word in words)
    return f"the agent gave the verdict `{said[:40]}`; expected one of {listed}"
