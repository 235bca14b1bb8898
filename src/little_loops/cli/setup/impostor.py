"""Another program in our environment: `little-loops` on the package index is not this project.

It has the same import name and the same command, so whichever was installed last wins.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def impostor_version() -> str | None:
    """Return the version of that distribution if it is installed here, else None."""
    try:
        return version("little-loops")
    except PackageNotFoundError:
        return None
