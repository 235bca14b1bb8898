"""Loops for coding agents: write one as YAML, run it, kill it, resume it."""

__version__ = "1.0.0.dev0"
