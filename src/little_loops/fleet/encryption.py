"""Encryption of what a fleet's server stores, by a codec of the user's own.

Not here: connecting (`address`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
)

from little_loops.errors import LittleLoopsError, UsageError
from little_loops.light_typing import Any

VARIABLE = "LL_FLEET_CODEC"
PLAIN = (b"json/", b"binary/null", b"binary/plain")


class Unreadable(LittleLoopsError):
    """What the server has stored was not written with this codec."""


class NoCodec(PayloadCodec):
    """Leaves data as they are."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises `Unreadable` if the data are encrypted."""
        for each in payloads:
            encoding = each.metadata.get("encoding", b"")
            if not encoding.startswith(PLAIN):
                raise Unreadable(
                    f"the runs of this fleet are encrypted: `{encoding.decode()}`",
                    f"set {VARIABLE} as on its workers",
                )
        return list(payloads)


class Codec(PayloadCodec):
    """Encrypts with a codec of the user's own."""

    def __init__(self, own: PayloadCodec) -> None:
        self._own = own

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._own.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises `Unreadable`."""
        try:
            return await self._own.decode(payloads)
        except Exception as error:  # of the user's code, or of what it uses
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            raise Unreadable(
                f"the runs of this fleet cannot be decrypted: {why}",
                f"{VARIABLE} and the key must be those of its workers",
            ) from error


def data_converter(environ: Mapping[str, str]) -> DataConverter:
    """Return how data are sent to the server: through the codec that the environment names, if it
    does. Raises `UsageError`."""
    named = environ.get(VARIABLE)
    if not named:
        return replace(DataConverter.default, payload_codec=NoCodec())
    own = _loaded(named)
    if not isinstance(own, PayloadCodec):
        raise UsageError(f"`{VARIABLE}`: `{named}` is not a `PayloadCodec`")
    # Without the other converter, the messages of errors would not go through the codec.
    return replace(
        DataConverter.default,
        payload_codec=Codec(own),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


def _loaded(named: str) -> Any:
    """Return what `module:Class` makes. Raises `UsageError`."""
    module, _, name = named.partition(":")
    try:
        made = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"`{VARIABLE}`: `{named}` cannot be loaded: {error}",
            "write `module:Class`, and install the module beside ll-loop",
        ) from error
    return made()
