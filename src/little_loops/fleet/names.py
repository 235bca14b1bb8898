"""Names that the parties of a fleet agree on: of workflows, queues, and refs.

Not here: what is sent (`workflow`, `worker`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from itertools import combinations

WORKFLOW = "ll-run"
CHILD_WORKFLOW = "ll-child"
CHILD_ENDED = "child_ended"
SCOPES_WORKFLOW = "ll-scopes"
SCOPE_GRANTED = "scope_granted"
SCOPE_BLOCKED = "scope_blocked"
SCOPE_HELD = "scope_held"
RUNS_QUEUE = "ll-runs"
CLAIM = "claim_workspace"
PREPARE = "prepare"
PERFORM = "perform"
INTERRUPT = "interrupt"
RELEASE = "release"
LOST = "lost"
"""The error type for a worker that does not hold the workspace."""
REFUSED = "refused"
"""The type of the error of a worker that may not run the repository."""
DECIDE = timedelta(seconds=4)
"""How long a worker may take to decide; one that is suspended gets no more."""
CLAIM_QUEUE = "ll-claims"

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


def scopes_workflow_id(repository: str) -> str:
    return f"ll-scopes/{repository_key(repository)}"


def child_workflow_id(parent: str, run: str, folder: str) -> str:
    """Return the id of the workflow of a child: a new run of the same name has others."""
    return f"{parent}#{run}/{folder}"


def claim_queue(labels: Iterable[str]) -> str:
    """Return the queue of runs that need a worker with these labels: whoever has them and is free
    takes the next run."""
    wanted = ",".join(sorted(set(labels)))
    return f"{CLAIM_QUEUE}:{wanted}" if wanted else CLAIM_QUEUE


def claim_queues(labels: Collection[str]) -> list[str]:
    """Return the queues that a worker with these labels listens to."""
    sizes = range(len(labels) + 1)
    return [claim_queue(some) for size in sizes for some in combinations(sorted(labels), size)]


def private_queue(worker: str) -> str:
    return f"ll-worker:{worker}"


def control_queue(worker: str) -> str:
    """Return the queue of what must not wait for actions."""
    return f"ll-control:{worker}"


REFS = "refs/ll/"


def checkpoint_ref(run: str) -> str:
    return f"{REFS}{run}"


def checkpoints_of_child(root: str, run: str) -> str:
    """Return under which name a run keeps its checkpoints that another one has started; `root` is
    the outermost of those."""
    return f"{root}.{run}"


def root_of_ref(ref: str) -> str:
    """Return the run that nobody else has started, to which the checkpoints at a ref belong."""
    return ref.removeprefix(REFS).partition(".")[0]


def result_branch(loop: str, run: str) -> str:
    return f"ll/fleet/{loop}/{run}"
