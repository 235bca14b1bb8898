"""Which pager is used."""

from __future__ import annotations

import pytest

from little_loops.terminal.pager import pager_command


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        pytest.param({"PAGER": "cat -n"}, ["cat", "-n"], id="the user's own, with an option"),
        pytest.param({"PAGER": ""}, None, id="none wanted"),
        pytest.param({"PAGER": "cat"}, None, id="cat alone"),
        pytest.param({"PAGER": "no-such-pager"}, None, id="not installed"),
        pytest.param({"PAGER": "'sed"}, None, id="an unclosed quote"),
        pytest.param({"PAGER": "cat -n", "CI": "1"}, None, id="nobody reads pages in CI"),
    ],
)
def test_the_pager(environ: dict[str, str], command: list[str] | None):
    assert pager_command(environ) == command
