"""What `ssh-keygen` is given, and for how long it may keep us waiting."""

from __future__ import annotations

import pytest

from little_loops.errors import ProgramError
from little_loops.receipts.signing import check, sign


def test_a_program_that_never_answers_is_given_up(tmp_path, monkeypatch):
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "receipt").write_text("{}")
    for attempt in (
        lambda: sign(str(tmp_path / "receipt"), "key", within_s=0.2),
        lambda: check(b"{}", "receipt.sig", None, within_s=0.2),
        lambda: check(b"{}", "receipt.sig", "signers", within_s=0.2),
    ):
        with pytest.raises(ProgramError) as caught:
            attempt()
        assert caught.value.message == "`ssh-keygen` did not finish within 0.2 s"
