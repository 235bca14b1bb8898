"""`python -m bench.audited FILE WORDS…`: run `ll-loop WORDS…` and write to FILE how often it synced."""

from __future__ import annotations

import sys

from little_loops.cli.main import main
from little_loops.system.files import SYNC


class Count:
    def __init__(self) -> None:
        self.syncs = 0

    def __call__(self, event: str, _: tuple[object, ...]) -> None:
        if event == SYNC:
            self.syncs += 1


if __name__ == "__main__":
    count = Count()
    sys.addaudithook(count)
    code = main(sys.argv[2:])
    with open(sys.argv[1], "w") as file:
        file.write(str(count.syncs))
    sys.exit(code)
