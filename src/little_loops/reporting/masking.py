"""Hide secrets in whatever is shown, logged or told: their values become `***`.

A secret is the value of an environment variable whose name looks like one, as it stands or as JSON,
Python or a terminal would write it.  Occurrences that overlap become one mask, so that no end of
the one shows beside the other.  From a stream nothing is given out that may yet become a secret.

Not here: state, `run.json` and output files, which keep what was said: a resume needs it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import AnyStr

from little_loops.fsm.colour_codes import Uncoloured

SHORTEST = 8
MASK = "***"
ENDINGS = ("KEY", "TOKEN", "SECRET")
PARTS = ("PASSWORD", "CREDENTIAL")
SHORT_PIECE = 4
LONG_PIECE = 12
"""So much of a secret is recognised wherever a text was cut; less could be anything."""

Span = tuple[int, int]


class Masker:
    """Knows the secrets of an environment, and of those it learns of later."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.words: tuple[str, ...] = ()
        self.longest = 0
        self._words_as_bytes: tuple[bytes, ...] = ()
        self.learn(environ)

    def learn(self, environ: Mapping[str, str]) -> None:
        """An action is given these variables too; what they hold may be known only now."""
        found = {word for secret in secrets_of(environ) for word in spellings(secret)}
        if found <= set(self.words):
            return
        self.words = tuple(sorted(found | set(self.words)))
        self.longest = max(map(len, self.words))
        self._words_as_bytes = tuple(_encoded(word) for word in self.words)

    def mask(self, text: str) -> str:
        return _replaced(text, _found(text, self.words), MASK)

    def mask_excerpt(self, text: str) -> str:
        """As `mask`, for a text that was cut somewhere: a piece of a secret is hidden too."""
        spans = _found(text, self.words) + _pieces(text, self.words)
        return _replaced(text, _merged(spans), MASK)

    def mask_bytes(self, data: bytes) -> bytes:
        return _replaced(data, self.secrets_in(data), MASK.encode())

    def secrets_in(self, data: bytes) -> list[Span]:
        """Where secrets are."""
        return _found(data, self._words_as_bytes)

    def safe_end(self, data: bytes) -> int:
        """How much of it no continuation can turn into a part of a secret."""
        return _safe_end(data, self._words_as_bytes)


class MaskedStream:
    """A text that comes in pieces; it leaves masked as if it had come in one.

    Held back is only an end that may be the beginning of a secret.
    """

    def __init__(self, masker: Masker) -> None:
        self._words = masker.words
        self._held = ""
        self._covered = 0  # so much of what is held lies under a mask given out already

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        if not self._words:
            return text
        text = self._held + text
        return self._give(text, _safe_end(text, self._words))

    def finish(self) -> str:
        """The rest: nothing came to make it a secret."""
        return self._give(self._held, len(self._held))

    def _give(self, text: str, end: int) -> str:
        under = [(0, self._covered)] if self._covered else []
        spans = _merged(under + _found(text, self._words))
        start = spans.pop(0)[1] if under else 0
        spans = [span for span in spans if span[0] < end]
        last = spans[-1][1] if spans else start
        self._held, self._covered = text[end:], max(last - end, 0)
        return _replaced(text[:end], spans, MASK, start)


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    values = (value.strip() for name, value in environ.items() if looks_secret(name))
    return [value for value in values if len(value) >= SHORTEST]


def looks_secret(name: str) -> bool:
    upper = name.upper()
    return upper.endswith(ENDINGS) or any(part in upper for part in PARTS)


def spellings(secret: str) -> set[str]:
    """The ways a secret is commonly written; most have only one."""
    return {
        secret,
        secret.replace("\n", "\r\n"),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        repr(f'"{secret}')[2:-1],  # where a double quote makes Python escape the single ones
        _encoded(secret).decode("utf-8", "replace"),  # as an output is read
    }


def _encoded(word: str) -> bytes:
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:  # a lone surrogate that never came from the system
        return word.encode("utf-8", "surrogatepass")


def _found(text: AnyStr, words: Sequence[AnyStr]) -> list[Span]:
    """Where the words are, overlaps included, as stretches that do not overlap.

    Colour codes inside a word do not hide it: whoever reads the text drops them.
    """
    if not words:
        return []
    uncoloured = Uncoloured(text)
    return [uncoloured.span(*span) for span in _found_in(uncoloured.text, words)]


def _found_in(text: AnyStr, words: Sequence[AnyStr]) -> list[Span]:
    spans: list[Span] = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if spans and spans[-1][0] <= at < spans[-1][1]:  # `aaaaaaaa` in a long row of them
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((at, end))
            at = text.find(word, at + 1)
    return _merged(spans)


def _pieces(text: str, words: Sequence[str]) -> list[Span]:
    """Where a long piece of a word is, or at either end of the text a short one."""
    spans: list[Span] = []
    for word in words:
        spans += _beginnings(text, word)
        mirrored = _beginnings(text[::-1], word[::-1])
        spans += [(len(text) - end, len(text) - start) for start, end in mirrored]
    return spans


def _beginnings(text: str, word: str) -> Iterator[Span]:
    """Where the text has the beginning of a word, and then goes on in another way or ends."""
    at = text.find(word[:SHORT_PIECE])
    while at >= 0:
        end = at + _agreeing(text, at, word)
        if end == len(text) or end - at >= min(LONG_PIECE, len(word) - 1):
            yield at, end
        at = text.find(word[:SHORT_PIECE], at + 1)


def _agreeing(text: str, at: int, word: str) -> int:
    """How many characters of the word are there."""
    most = min(len(word), len(text) - at)
    return next((n for n in range(SHORT_PIECE, most) if text[at + n] != word[n]), most)


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replaced(text: AnyStr, spans: list[Span], mask: AnyStr, start: int = 0) -> AnyStr:
    """The text from `start`, with a mask for each span."""
    if not spans:
        return text[start:]
    parts: list[AnyStr] = []
    for begin, end in spans:
        parts += [text[start:begin], mask]
        start = end
    parts.append(text[start:])
    return text[:0].join(parts)


def hidden(data: bytes, spans: list[Span]) -> bytes:
    """The data with a mask for each of these places."""
    return _replaced(data, _merged(spans), MASK.encode())


def _safe_end(text: AnyStr, words: Sequence[AnyStr]) -> int:
    """How much of the text no continuation of it can turn into a part of a secret."""
    if not words:
        return len(text)
    uncoloured = Uncoloured(text)
    safe = _safe_end_in(uncoloured.text, words)
    return len(text) if safe == len(uncoloured.text) else uncoloured.span(safe, safe + 1)[0]


def _safe_end_in(text: AnyStr, words: Sequence[AnyStr]) -> int:
    safe = len(text)
    for word in words:
        at = text.find(word[:1], max(0, len(text) - len(word) + 1))
        while 0 <= at < safe:
            if word.startswith(text[at:]):
                safe = at
            at = text.find(word[:1], at + 1)
    return safe
