"""Mask the secrets in what leaves this machine.

Known secrets are those of the environment here, those that the definition sets, context variables
with the name of a secret, and everything that was recognised as a secret while the run printed it.

In JSON, a secret becomes `***`, as on the screen. In files, which the log refers to by position and
size, every byte of it becomes an asterisk.

A value that is also a name in the loop (`DEPLOY_KEY=evaluate`) is no secret: the definition shows
it, and without it the log would make no sense.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.events import KINDS
from little_loops.fsm.plain import WrongShape, masked
from little_loops.fsm.schema import FSMLoop, acting_states, child_loops
from little_loops.fsm.values import written_hosts
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker, looks_secret, spellings
from little_loops.runs.journal import LONGEST_LINE, Record, parse
from little_loops.runs.recordings import EARLIER
from little_loops.system.files import to_json

Span = tuple[int, int]


class MaskedLog(NamedTuple):
    """A log without secrets, and whether it is still the same."""

    data: bytes
    is_changed: bool


class Secrets:
    """The secrets of one run."""

    def __init__(
        self, loop: FSMLoop, context: Mapping[str, Any], environ: Mapping[str, str], name: str
    ) -> None:
        """Begin with those of the environment, the definition and the context of the run `name`."""
        self._names = frozenset(_names_in(loop, name))
        self._masker = Masker({})
        for variables in (environ, context, *_variables_in(loop)):
            self._learn(variables)

    def learn_context(self, context: Mapping[str, Any]) -> None:
        """Add those of the context of a run that this one has started."""
        self._learn(context)

    def learn_earlier(self, start: Mapping[str, Any]) -> None:
        """Add those of the definitions that the run had before its present one; `start` is what is
        stored about its start."""
        for each in start.get(EARLIER, ()):
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # damaged: not readable
                for variables in _variables_in(FSMLoop.from_dict(each["loop"])):
                    self._learn(variables)

    def _learn(self, environ: Mapping[str, Any]) -> None:
        """Add the secrets among these variables, except those that are names in the loop."""
        found = {
            key: value
            for key, value in environ.items()
            if looks_secret(key) and isinstance(value, str) and not self._is_name(value.strip())
        }
        self._masker.learn(found)

    def learn(self, words: Iterable[str]) -> None:
        """Add texts that were recognised as secrets while the run printed them."""
        self._learn({f"{at}_TOKEN": word for at, word in enumerate(dict.fromkeys(words))})

    def _is_name(self, value: str) -> bool:
        return any(word in name for word in spellings(value) if word for name in self._names)

    def are_in(self, data: bytes) -> bool:
        return bool(self._masker.secrets_in(data))

    def spans_in(self, data: bytes) -> list[Span]:
        return self._masker.secrets_in(data)

    def mask_bytes(self, data: bytes) -> bytes:
        return self._masker.mask_bytes(data)

    def mask_text(self, text: str) -> str:
        """Return a text without secrets, also without parts of one where the text was cut."""
        return self._masker.mask_excerpt(text)

    def mask(self, value: Any) -> Any:
        """Return plain data with every text in it masked, except the names of fields."""
        match value:
            case str():
                return self._masker.mask(value)
            case dict():
                return {key: self.mask(item) for key, item in value.items()}
            case list() | tuple():
                return [self.mask(item) for item in value]
            case _:
                return value

    def mask_log(self, data: bytes) -> MaskedLog:
        """Return the log without secrets; lines that have none are not touched."""
        lines = data.split(b"\n")
        new = [self._line(line) for line in lines]
        return MaskedLog(b"\n".join(new), new != lines)

    def _line(self, line: bytes) -> bytes:
        """Return a line of the log without secrets."""
        if not self._masker.may_have_secret(line):
            return line
        record = parse(line) if len(line) <= LONGEST_LINE else None
        if record is None:
            return self._masker.mask_bytes(line)
        new = self.mask(self._with_masked_texts(record))
        return line if new == record else to_json(new)

    def _with_masked_texts(self, record: Record) -> Record:
        """Return an event with its texts masked, also where a cut has left only part of a secret."""
        try:
            entry = from_record(record)
        except WrongShape:
            return record
        before, after = to_record(entry), to_record(masked(entry, self._masker.mask_excerpt))
        return record if before == after else after


def _variables_in(loop: FSMLoop) -> Iterator[Mapping[str, Any]]:
    """Yield the variables that a definition sets, place by place: two states may give one name two
    values."""
    yield from (loop.env, loop.context)
    for _, state in acting_states(loop):
        yield from (state.env, state.context)
        yield {name: value for name, value in state.with_.items() if "${" not in str(value)}
    for host in written_hosts(loop):
        yield host.env or {}
    for child in child_loops(loop):
        yield from _variables_in(child)


def _names_in(loop: FSMLoop, name: str) -> Iterator[str]:
    """Yield the names that a run of this loop consists of."""
    yield from KINDS
    yield from (name, loop.name)
    for state, config in loop.states.items():
        yield state
        if config.capture:
            yield config.capture
    yield from (name.rpartition("/")[2] for name, _ in acting_states(loop))
    for child in child_loops(loop):
        yield from _names_in(child, child.name)


def starred(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return the data with an asterisk for every byte of these spans."""
    new = bytearray(data)
    for start, end in spans:
        new[start:end] = b"*" * len(new[start:end])
    return bytes(new)


def changed_places(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield the places where plain data was masked: `env.API_TOKEN`, `states.fix.action`."""
    match before, after:
        case dict(), dict():
            for key, item in before.items():
                yield from changed_places(item, after[key], f"{at}.{key}" if at else key)
        case list(), list():
            for number, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from changed_places(one, other, f"{at}.{number}")
        case _ if before != after:
            yield at
        case _:
            return
