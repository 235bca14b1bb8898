"""Format amounts for people: tokens, money, iterations."""

from __future__ import annotations


def count_text(number: int) -> str:
    """Format a number as `812`, `41k` or `1.2M`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def money_text(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.005 else "less than $0.01"


def times_text(count: int) -> str:
    return f"{count:,} iteration{'' if count == 1 else 's'}"
