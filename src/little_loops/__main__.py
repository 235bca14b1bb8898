"""`python -m little_loops` is `ll-loop`."""

from __future__ import annotations

import sys

from little_loops.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
