"""The hidden verb of the relay's own states: `ll-loop relay prepare`, `ll-loop relay settle`."""

from __future__ import annotations

from little_loops.relay.turns import main as main
