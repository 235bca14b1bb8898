"""Check that the built page belongs to its sources, without Node.

`make web` writes a manifest beside the built files: a hash of each source in `web/`, the lockfile
included, and of each built file. `make check` runs this module, which compares them with the files.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ROOT / "web"
BUILT: Final = ROOT / "src" / "little_loops" / "web" / "assets"
MANIFEST: Final = "manifest.json"
INSTALLED: Final = "node_modules"


def hashes(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a folder by its path, without the manifest and without
    installed packages."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = ((path.relative_to(folder), path) for path in files)
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in named
        if name.parts[0] != INSTALLED and name.as_posix() != MANIFEST
    }


def differences(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return a line for each file that was added, removed or changed since it was recorded."""
    lines = []
    for name in sorted({*recorded, *found}):
        if name not in found:
            lines.append(f"{name} is missing")
        elif name not in recorded:
            lines.append(f"{name} is new")
        elif recorded[name] != found[name]:
            lines.append(f"{name} has changed")
    return lines


def problems(sources: Path, built: Path) -> list[str]:
    """Return what makes the built page stale; empty if it belongs to its sources."""
    try:
        manifest = json.loads((built / MANIFEST).read_bytes())
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    return [
        *(f"web/{line}" for line in differences(manifest["sources"], hashes(sources))),
        *(f"assets/{line}" for line in differences(manifest["built"], hashes(built))),
    ]


def main() -> int:
    """Print what is stale. Return 1 if anything is."""
    found = problems(SOURCES, BUILT)
    if not found:
        return 0
    print("error: the built page does not belong to its sources", file=sys.stderr)
    for line in found:
        print(f"  {line}", file=sys.stderr)
    print("  = help: run `make web`, and commit what it writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
