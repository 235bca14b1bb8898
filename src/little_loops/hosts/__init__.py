"""Agent CLIs that run slash commands and prompts: `claude`, `codex`, and `command` for any other.

`base` says what a host is; the list of their names is `HOST_NAMES` in `fsm.schema`. The exports are
imported on first use, so that a loop without agents does not pay for them.
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "HOST_NAMES": "base",
    "Host": "base",
    "Launch": "base",
    "Outcome": "base",
    "Probe": "base",
    "StreamReader": "base",
    "Request": "base",
    "SESSION_VARIABLES": "base",
    "check_options": "base",
    "environment": "base",
    "host_named": "base",
    "agent_result_of": "base",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
