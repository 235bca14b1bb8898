"""Names that the parties of a fleet agree on: of workflows, queues, and refs.

Not here: what is sent (`workflow`, `worker`).
"""

from __future__ import annotations

import hashlib
import re

WORKFLOW = "ll-run"
RUNS_QUEUE = "ll-runs"
CLAIM = "claim_workspace"
PREPARE = "prepare"
PERFORM = "perform"
INTERRUPT = "interrupt"
RELEASE = "release"
LOST = "lost"
"""The error type for a worker that does not hold the workspace."""
REFUSED = "refused"
"""The error type for a worker that is not allowed to run the repository."""
CLAIM_QUEUE = "ll-claims"
"""All workers listen on it; any free one takes the next run."""

SCP_ADDRESS = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>(?!//).*)")


def repository_key(url: str) -> str:
    """Return a readable, unique name for a repository, whatever its URL is."""
    plain = url.rstrip("/").removesuffix(".git")
    shown = re.sub(r"[^A-Za-z0-9._-]", "-", plain.rpartition("/")[2].rpartition(":")[2])[:40]
    return f"{shown or 'root'}-{hashlib.sha256(plain.encode()).hexdigest()[:12]}"


def workflow_id(repository: str, name: str) -> str:
    """Return the id of the workflow of a run: a name has one run at a time."""
    return f"{workflow_prefix(repository)}{name}"


def workflow_prefix(repository: str) -> str:
    return f"ll/{repository_key(repository)}/"


def private_queue(worker: str) -> str:
    return f"ll-worker:{worker}"


def control_queue(worker: str) -> str:
    """Return the queue of what must not wait for actions."""
    return f"ll-control:{worker}"


def checkpoint_ref(run: str) -> str:
    return f"refs/ll/{run}"


def result_branch(loop: str, run: str) -> str:
    return f"ll/fleet/{loop}/{run}"
