"""The page about agent programs names the versions that the live tests use."""

from __future__ import annotations

import re
from pathlib import Path

from tests.live.agents import PINNED
from tools.pages import ROOT

PAGE = Path(ROOT, "docs/reference/agents.md").read_text()


def test_the_pinned_versions_are_on_the_page() -> None:
    rows = re.findall(r"\| `\w+` \| `([^`]+)` \| (\S+) \| `make live` \|", PAGE)
    assert dict(rows) == PINNED


def test_make_has_the_words_that_the_page_names() -> None:
    makefile = Path(ROOT, "Makefile").read_text()
    words = set(re.findall(r"`make ([a-z-]+)`", PAGE))
    assert {word for word in words if f"\n{word}:" not in makefile} == set()


def test_the_newest_agents_are_reported_and_never_fail_the_build() -> None:
    recipe = Path(ROOT, "Makefile").read_text().partition("\nlive-newest:")[2].partition("\n\n")[0]
    assert "LIVE_AGENTS=newest" in recipe
    assert recipe.rstrip().splitlines()[-2].endswith("|| \\"), "pytest's exit code is not make's"
