"""Sign a receipt with an SSH key, and check such a signature, by `ssh-keygen -Y`.

The signature lies beside the receipt: `FILE.sig`.
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
"""To type a passphrase, or to find the key that has to be touched."""
CHECK_S = 60.0


class Signature(NamedTuple):
    """What `ssh-keygen` says about a signature: good or not, and in which words."""

    is_good: bool
    words: str


def sign(path: str, key: str, within_s: float = SIGN_S) -> str:
    """Sign the file; gives the path of the signature.  A key with a passphrase asks for it."""
    signature = path + SUFFIX
    if os.path.lexists(signature):
        os.unlink(signature)  # ssh-keygen would ask
    done = _run(["sign", "-f", key, "-n", NAMESPACE, path], None, within_s)
    if done.returncode != 0 or not os.path.exists(signature):
        raise ProgramError(f"`{key}` did not sign: {_last_line(done.stderr)}")
    return signature


def check(data: bytes, signature: str, signers: str | None, within_s: float = CHECK_S) -> Signature:
    """By a file of allowed signers; without one, whether the signature fits at all, and whose key."""
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
    """Without `data` it keeps our stdin: it may ask for a passphrase."""
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
