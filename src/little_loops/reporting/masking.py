"""Mask secrets in everything that is displayed or logged: their values become `***`.

A secret is the value of an environment variable whose name looks like one, as it is or as JSON,
Python or a terminal would write it. Overlapping occurrences become one mask, so that no end of one
shows beside the other. A stream holds back text that may yet become a secret.

Not here: state, `run.json` and output files, which are not masked, because a resume needs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from little_loops import light_json as json
from little_loops.fsm.colour_codes import Uncoloured
from little_loops.light_typing import AnyStr

SHORTEST = 8
"""Shorter values are shown: hiding them would hide ordinary words."""
MASK = "***"
ENDINGS = ("KEY", "TOKEN", "SECRET")
PARTS = ("PASSWORD", "CREDENTIAL")
SHORT_PIECE = 4
LONG_PIECE = 12
"""A fragment this long is recognised where text was cut off; a shorter one could be anything."""

Span = tuple[int, int]


class Masker:
    """Knows the secrets of an environment, and of those it learns about later."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begin with the secrets of this environment."""
        self.words: tuple[str, ...] = ()
        self.longest = 0
        self._words_as_bytes: tuple[bytes, ...] = ()
        self.learn(environ)

    def learn(self, environ: Mapping[str, str]) -> None:
        """Add the secrets of an environment that an action gets."""
        found = {word for secret in secrets_of(environ) for word in spellings(secret)}
        if found <= set(self.words):
            return
        self.words = tuple(sorted(found | set(self.words)))
        self.longest = max(map(len, self.words))
        self._words_as_bytes = tuple(_encoded(word) for word in self.words)

    def mask(self, text: str) -> str:
        return _replaced(text, _found(text, self.words), MASK)

    def mask_excerpt(self, text: str) -> str:
        """Like `mask`, for a text that was cut somewhere: fragments of secrets are masked, too."""
        spans = _found(text, self.words) + _fragments(text, self.words)
        return _replaced(text, merged_spans(spans), MASK)

    def mask_bytes(self, data: bytes) -> bytes:
        return _replaced(data, self.secrets_in(data), MASK.encode())

    def secrets_in(self, data: bytes) -> list[Span]:
        """Return the spans of all secrets."""
        return _found(data, self._words_as_bytes)

    def may_have_secret(self, data: bytes) -> bool:
        """Return whether the data has the beginning or the end of a secret: most has neither."""
        pieces = ((word[:SHORT_PIECE], word[-SHORT_PIECE:]) for word in self._words_as_bytes)
        return any(first in data or last in data for first, last in pieces)

    def safe_end(self, data: bytes) -> int:
        """Return the length of the part that no continuation can turn into part of a secret."""
        return _safe_end(data, self._words_as_bytes)


class MaskedStream:
    """Masks a text that arrives in pieces, as if it were one text.

    It only holds back an end that may be the beginning of a secret.
    """

    def __init__(self, masker: Masker) -> None:
        self._words = masker.words
        self._held = ""
        self._covered = 0  # the length of the held text that is already masked

    def feed(self, text: str) -> str:
        """Take a piece. Return the masked text that can be displayed now."""
        if not self._words:
            return text
        text = self._held + text
        return self._release(text, _safe_end(text, self._words))

    def finish(self) -> str:
        """Return the rest, which did not become a secret."""
        return self._release(self._held, len(self._held))

    def _release(self, text: str, end: int) -> str:
        """Return the text up to `end`, masked, and hold back the rest."""
        under = [(0, self._covered)] if self._covered else []
        spans = merged_spans(under + _found(text, self._words))
        start = spans.pop(0)[1] if under else 0
        spans = [span for span in spans if span[0] < end]
        last = spans[-1][1] if spans else start
        self._held, self._covered = text[end:], max(last - end, 0)
        return _replaced(text[:end], spans, MASK, start)


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the values of the secret variables that are long enough to be masked."""
    values = (value.strip() for name, value in environ.items() if looks_secret(name))
    return [value for value in values if len(value) >= SHORTEST]


def looks_secret(name: str) -> bool:
    upper = name.upper()
    return upper.endswith(ENDINGS) or any(part in upper for part in PARTS)


def spellings(secret: str) -> set[str]:
    """Return the ways in which a secret is commonly written; most have only one."""
    return {
        secret,
        secret.replace("\n", "\r\n"),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        repr(f'"{secret}')[2:-1],  # if a double quote makes Python escape single quotes
        _encoded(secret).decode("utf-8", "replace"),  # as decoded output
    }


def _encoded(word: str) -> bytes:
    """Return the bytes of a word as the system encodes it; never raise."""
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:  # a lone surrogate that is not from the system
        return word.encode("utf-8", "surrogatepass")


def _found(text: AnyStr, words: Sequence[AnyStr]) -> list[Span]:
    """Return the spans of the words, merged where they overlap.

    Colour codes inside a word do not hide it, because they are removed for display.
    """
    if not words:
        return []
    uncoloured = Uncoloured(text)
    return [uncoloured.span(*span) for span in _found_in(uncoloured.text, words)]


def _found_in(text: AnyStr, words: Sequence[AnyStr]) -> list[Span]:
    """Return the merged spans of the words in a text without colour codes."""
    spans: list[Span] = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if (
                spans and spans[-1][0] <= at < spans[-1][1]
            ):  # such as `aaaaaaaa` in a long run of `a`
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((at, end))
            at = text.find(word, at + 1)
    return merged_spans(spans)


def _fragments(text: str, words: Sequence[str]) -> list[Span]:
    """Return the spans of long fragments of a word, and of short ones at either end of the text."""
    spans: list[Span] = []
    for word in words:
        spans += _prefixes(text, word)
        mirrored = _prefixes(text[::-1], word[::-1])
        spans += [(len(text) - end, len(text) - start) for start, end in mirrored]
    return spans


def _prefixes(text: str, word: str) -> Iterator[Span]:
    """Yield the spans where the text has a long enough prefix of the word, or ends within it."""
    at = text.find(word[:SHORT_PIECE])
    while at >= 0:
        end = at + _common_length(text, at, word)
        if end == len(text) or end - at >= min(LONG_PIECE, len(word) - 1):
            yield at, end
        at = text.find(word[:SHORT_PIECE], at + 1)


def _common_length(text: str, at: int, word: str) -> int:
    """Return how many characters of the word are at this position."""
    most = min(len(word), len(text) - at)
    return next((n for n in range(SHORT_PIECE, most) if text[at + n] != word[n]), most)


def merged_spans(spans: list[Span]) -> list[Span]:
    """Return the spans sorted, with overlapping ones merged."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replaced(text: AnyStr, spans: list[Span], mask: AnyStr, start: int = 0) -> AnyStr:
    """Return the text from `start`, with each span replaced by the mask."""
    if not spans:
        return text[start:]
    parts: list[AnyStr] = []
    for begin, end in spans:
        parts += [text[start:begin], mask]
        start = end
    parts.append(text[start:])
    return text[:0].join(parts)


def mask_spans(data: bytes, spans: list[Span]) -> bytes:
    """Return the data with each of these spans masked."""
    return _replaced(data, merged_spans(spans), MASK.encode())


def _safe_end(text: AnyStr, words: Sequence[AnyStr]) -> int:
    """Return the length of the part that no continuation can turn into part of a secret."""
    if not words:
        return len(text)
    uncoloured = Uncoloured(text)
    safe = _safe_end_in(uncoloured.text, words)
    return len(text) if safe == len(uncoloured.text) else uncoloured.span(safe, safe + 1)[0]


def _safe_end_in(text: AnyStr, words: Sequence[AnyStr]) -> int:
    """Like `_safe_end`, for a text without colour codes."""
    safe = len(text)
    for word in words:
        at = text.find(word[:1], max(0, len(text) - len(word) + 1))
        while 0 <= at < safe:
            if word.startswith(text[at:]):
                safe = at
            at = text.find(word[:1], at + 1)
    return safe
