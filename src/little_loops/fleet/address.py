"""Where a fleet is, and connecting to it.

TLS, an API key and other settings of the connection are those of Temporal's own environment
variables and config file; the address says the server and the namespace.

Not here: encryption (`encryption`).
"""

from __future__ import annotations

import os

from temporalio.client import Client
from temporalio.envconfig import ClientConfig

from little_loops.errors import LittleLoopsError, UsageError
from little_loops.fleet.encryption import data_converter
from little_loops.records import NamedTuple


class FleetError(LittleLoopsError):
    """Temporal cannot be reached, or did not answer."""


class Address(NamedTuple):
    """Where a fleet is: `temporal://host:port/namespace`."""

    target: str
    namespace: str = "default"

    @classmethod
    def of(cls, text: str) -> Address:
        """Read an address. Raises `UsageError`."""
        scheme, found, rest = text.partition("://")
        target, _, namespace = rest.partition("/")
        if scheme != "temporal" or not found or not target:
            raise UsageError(
                f"`{text}` is not a fleet's address", "write `temporal://host:7233/namespace`"
            )
        return cls(target, namespace or "default")


async def connected(address: Address) -> Client:
    """Connect to a fleet. Raises `UsageError`, `FleetError`."""
    settings = ClientConfig.load_client_connect_config()
    settings |= {"target_host": address.target, "namespace": address.namespace}
    converter = data_converter(os.environ)
    try:
        return await Client.connect(**settings, data_converter=converter)
    except RuntimeError as error:
        raise FleetError(f"`{address.target}` cannot be reached: {error}") from error
