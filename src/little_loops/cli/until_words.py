"""The words of `ll-loop until` on the command line: which of them are the check.

The check is one word, usually in quotes, or everything after `--`. Without quotes, options of the
check would silently become options of `ll-loop`, so that is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile

from little_loops.cli.options import Option
from little_loops.errors import UsageError


def with_one_check(argv: Sequence[str], table: Mapping[str, Option]) -> list[str]:
    """Return the command line with the check as one word. Raises `UsageError` for a check without
    quotes."""
    words = list(argv)
    if "--" in words:
        at = words.index("--") + 1
        return [*words[:at], *_joined(words[at:])]
    _refuse_unquoted(words, table)
    return words


def _joined(words: Sequence[str]) -> list[str]:
    """Return several words as one that a shell splits into them again."""
    return [shlex.join(words)] if len(words) > 1 else list(words)


def _refuse_unquoted(words: Sequence[str], table: Mapping[str, Option]) -> None:
    """Raise `UsageError` if words follow the check that could be a part of it."""
    options = {each: option for option in table.values() for each in option.flags}
    at = _check_at(words, options)
    if at is None:
        return
    long = [each for each in options if each.startswith("--")]
    after = list(takewhile(lambda word: word.partition("=")[0] not in long, words[at + 1 :]))
    check = words[at]
    is_script = len(check.split()) > 1
    if is_script:
        after = [word for word in after if word not in options]
    if not after:
        return
    whole = f"{check} {shlex.join(after)}" if is_script else shlex.join([check, *after])
    rest = words[at + 1 + len(after) :]
    line = shlex.join(["ll-loop", "until", *words[:at], whole, *rest])
    own = [word for word in after if word in options]
    hint = f"; an `ll-loop` option such as `{own[0]}` goes before the check" if own else ""
    raise UsageError("the check needs quotes, because it has several words", f"`{line}`{hint}")


def _check_at(words: Sequence[str], options: Mapping[str, Option]) -> int | None:
    """Return the position of the first word that is neither an option nor the value of one."""
    is_value = False
    for at, word in enumerate(words):
        option = options.get(word)
        if not is_value and not word.startswith("-"):
            return at
        is_value = not is_value and option is not None and option.kind == "value"
    return None
