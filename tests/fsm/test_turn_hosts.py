"""Which agent has a turn, and what it is called."""

from __future__ import annotations
