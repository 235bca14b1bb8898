"""`python -m tests.fuzz TARGET NUMBER` writes the spoiled file of that number."""

from __future__ import annotations

import sys

from tests.fuzz.targets import TARGETS
from tests.fuzz.test_fuzz import made


def main() -> None:
    target = next(each for each in TARGETS if each.name == sys.argv[1])
    sys.stdout.buffer.write(made(target, int(sys.argv[2]), target.seeds()))


if __name__ == "__main__":
    main()
