"""`python -m little_loops` is `ll-loop`."""

from __future__ import annotations

from little_loops.cli.main import process

if __name__ == "__main__":
    process()
