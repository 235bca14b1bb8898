"""Format amounts for people: tokens, money, iterations, sizes."""

from __future__ import annotations

MB = 1 << 20
GB = 1 << 30


def count_text(number: int) -> str:
    """Format a number as `812`, `41k` or `1.2M`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def money_text(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.005 else "less than $0.01"


def times_text(count: int) -> str:
    return f"{count:,} iteration{'' if count == 1 else 's'}"


def count_of(count: int, noun: str) -> str:
    """Format a number of things: `1 file`, `1,200 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(size: int) -> str:
    """Format a size as `812 kB`, `14 MB` or `1.4 GB`."""
    if size >= GB:
        return f"{size / GB:.1f} GB"
    return f"{size // MB} MB" if size >= MB else f"{-(-size // 1024)} kB"
