"""Sign a receipt with an SSH key, and verify such a signature, with `ssh-keygen -Y`.

The signature is a file beside the receipt: `FILE.sig`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from little_loops.errors import ProgramError
from little_loops.records import NamedTuple

NAMESPACE = "ll-loop-receipt"
SUFFIX = ".sig"
PROGRAM = "ssh-keygen"
SIGN_S = 300.0
"""Long enough to type a passphrase or touch a security key."""
CHECK_S = 60.0


class Signature(NamedTuple):
    """Whether a signature is valid, and what `ssh-keygen` printed about it."""

    is_good: bool
    words: str


def sign(path: str, key: str, within_s: float = SIGN_S) -> str:
    """Sign a file with the SSH key at `key`, which may ask for a passphrase. Return the signature's
    path; an existing signature is replaced.

    Raises `ProgramError` if `ssh-keygen` is missing, fails or takes too long.
    """
    signature = path + SUFFIX
    if os.path.lexists(signature):
        os.unlink(signature)  # ssh-keygen would ask whether to overwrite it
    done = _run(["sign", "-f", key, "-n", NAMESPACE, path], None, within_s)
    if done.returncode != 0 or not os.path.exists(signature):
        raise ProgramError(f"`{key}` did not sign: {_last_line(done.stderr)}")
    return signature


def check(data: bytes, signature: str, signers: str | None, within_s: float = CHECK_S) -> Signature:
    """Verify a signature against a file of allowed signers.

    Without one, only check that it is a signature of `data`, by whatever key. Raises `ProgramError`
    if `ssh-keygen` is missing or takes too long.
    """
    if signers is None:
        done = _run(["check-novalidate", "-n", NAMESPACE, "-s", signature], data, within_s)
        return Signature(done.returncode == 0, _last_line(done.stdout or done.stderr))
    found = _run(["find-principals", "-s", signature, "-f", signers], b"", within_s)
    names = found.stdout.split()
    if found.returncode != 0 or not names:
        return Signature(False, f"signed by a key that is not in `{signers}`")
    name = names[0].decode("utf-8", "replace")
    words = ["verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", signature]
    done = _run(words, data, within_s)
    return Signature(done.returncode == 0, _last_line(done.stdout or done.stderr))


def _run(
    words: Sequence[str], data: bytes | None, within_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen -Y`. Without `data` it inherits stdin, because it may ask for a passphrase.

    Raises `ProgramError` if it is missing or takes too long.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise ProgramError(f"`{PROGRAM}` is not installed", "it comes with OpenSSH 8.1 or newer")
    argv = [program, "-Y", *words]
    try:
        return subprocess.run(argv, input=data, capture_output=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"`{PROGRAM}` did not finish within {within_s:g} s") from None


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
