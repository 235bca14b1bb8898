"""Runs described in a few words."""

from __future__ import annotations

import pytest

from little_loops.terminal.summaries import clause_of


@pytest.mark.parametrize(
    ("status", "clause"),
    [
        ("running", "is still running"),
        ("completed", "has completed"),
        ("failed", "has failed"),
        ("stopped", "has stopped"),
        ("interrupted", "was interrupted"),
        ("awaiting_continuation", "is awaiting continuation"),
        ("queued", "is queued"),
    ],
)
def test_a_status_ends_a_sentence(status, clause):
    assert clause_of(status) == clause
