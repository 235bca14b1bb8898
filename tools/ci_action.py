"""What the GitHub Action does: validate loops, run one, repair a pull request, verify a receipt.

`action.yml` passes its inputs as environment variables. Everything goes through the `ll-loop` and
`git` programs on PATH, in the current directory. The exit code is that of the job's step.

A repair continues the last run of the pull request: the directory STATE, which the action keeps
between jobs, has that run as a run file, its unfinished changes as a patch, and the trees that were
tried. A tree that was tried before is the same attempt, and gets the patch; another tree is the next
one. Whether the repair worked is decided by the loop's check, run by this job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

OK, FAILED, USAGE, LIMIT = 0, 1, 2, 3
MODES = ("validate", "run", "repair", "verify")
ENDED_FOR_GOOD = {
    *(("completed", "terminal"), ("failed", "terminal")),
    *(("failed", "handoff"), ("stopped", "stop_signal")),
}
"""Endings that cannot be resumed; the next repair starts a new run."""
OWN_FILE = ".loops/.gitignore"
"""What `ll-loop` itself writes, and a repair does not commit."""
AUTHOR = ("-c", "user.name=ll-loop", "-c", "user.email=ll-loop@localhost")


class Refused(Exception):
    """The action cannot do what is asked; the text says why, and what to do."""


class Inputs(NamedTuple):
    """The inputs of the action, and what the job says about itself."""

    mode: str
    loop: str
    arguments: tuple[str, ...]
    strict: bool
    push: bool
    receipt: str
    max_attempts: int
    state: Path
    results: Path
    summary: str | None
    pull_request: Mapping[str, Any] | None


class PullRequest(NamedTuple):
    """The branch that a repair works on; `is_fork`: it is in another repository."""

    branch: str
    commit: str
    is_fork: bool


# ── what is asked ──────────────────────────────────────────────────────────────────────────────


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Read the inputs. Raises `Refused` if they make no sense."""
    loop = environ.get("LOOP", "")
    mode = environ.get("MODE") or ("run" if loop else "validate")
    if mode not in MODES:
        raise Refused(f"unknown mode `{mode}`; write one of {', '.join(MODES)}")
    if mode in ("run", "repair") and not loop:
        raise Refused(f"the mode `{mode}` needs the input `loop`")
    attempts = environ.get("MAX_ATTEMPTS") or "3"
    if not attempts.isdigit():
        raise Refused(f"`max-attempts` must be a number, not `{attempts}`")
    temp = Path(environ.get("RUNNER_TEMP") or "/tmp")
    return Inputs(
        mode,
        loop,
        tuple(environ.get("ARGUMENTS", "").split()),
        environ.get("STRICT") == "true",
        environ.get("PUSH") == "true",
        environ.get("RECEIPT") or "receipt.json",
        int(attempts),
        Path(environ.get("STATE") or temp / "ll-loop-state"),
        Path(environ.get("RESULTS") or temp / "ll-loop-results"),
        environ.get("GITHUB_STEP_SUMMARY"),
        _pull_request_event(environ.get("GITHUB_EVENT_PATH")),
    )


def _pull_request_event(path: str | None) -> Mapping[str, Any] | None:
    """Return the pull request that the job is for, as GitHub describes it; None if there is none."""
    if not path or not os.path.exists(path):
        return None
    found: Mapping[str, Any] | None = json.loads(Path(path).read_text()).get("pull_request")
    return found


def pull_request_of(event: Mapping[str, Any] | None) -> PullRequest:
    """Return the branch to repair. Raises `Refused` if the job is not for a pull request."""
    if event is None:
        raise Refused("the mode `repair` works in jobs for a pull request (`on: pull_request`)")
    head, base = event["head"], event["base"]
    # The repository of a fork that was deleted is null.
    name = (head["repo"] or {}).get("full_name")
    return PullRequest(head["ref"], head["sha"], name != base["repo"]["full_name"])


# ── what is done ───────────────────────────────────────────────────────────────────────────────


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Do what the inputs ask. Return the exit code."""
    try:
        return act(read_inputs(environ))
    except Refused as refused:
        print(f"::error::{refused}", flush=True)
        return USAGE


def act(inputs: Inputs) -> int:
    """Do what the mode asks; the loops are validated first."""
    code = validate(inputs)
    if code != OK or inputs.mode == "validate":
        return code
    match inputs.mode:
        case "run":
            return ll_loop("run", inputs.loop, *inputs.arguments)
        case "verify":
            return ll_loop("verify", inputs.receipt, "--rerun")
        case _:
            return repair(inputs)


def validate(inputs: Inputs) -> int:
    strict = ["--strict"] if inputs.strict else []
    return ll_loop("validate", "--output-format", "github", *strict)


def repair(inputs: Inputs) -> int:
    """Repair a pull request: check, continue its run, check again, and commit if that is wanted."""
    request = pull_request_of(inputs.pull_request)
    if request.is_fork:
        print("::notice::a pull request from a fork is only validated", flush=True)
        return OK
    if git("rev-parse", "HEAD") != request.commit:
        raise Refused(
            "the head of the pull request is not checked out; give actions/checkout"
            " `ref: ${{ github.event.pull_request.head.sha }}`"
        )
    code = ll_loop("check", inputs.loop)
    if code != FAILED:
        return code  # there is nothing to repair, or the check cannot run
    strays = untracked()  # what the check has left
    attempt = count_attempt(inputs.state, git("rev-parse", "HEAD^{tree}"))
    if attempt > inputs.max_attempts:
        print(
            f"::error::{inputs.max_attempts} attempts have not repaired this pull request",
            flush=True,
        )
        return LIMIT
    print(f"attempt {attempt} of {inputs.max_attempts}", flush=True)
    ran = continue_run(inputs)
    repaired = ll_loop("check", inputs.loop)
    keep(inputs, request.commit, strays)
    if repaired != OK:
        return ran or repaired
    if inputs.push:
        push(inputs.loop, request.branch, strays)
    return OK


def count_attempt(state: Path, tree: str) -> int:
    """Return the number of the attempt for this tree. For a tree that was tried last, put back the
    changes that were left."""
    state.mkdir(parents=True, exist_ok=True)
    file, patch = state / "trees.json", state / "changes.patch"
    trees: list[str] = json.loads(file.read_text()) if file.exists() else []
    if trees and trees[-1] == tree and patch.exists() and patch.stat().st_size:
        git("apply", "--binary", str(patch))
    if tree not in trees:
        trees.append(tree)
        file.write_text(json.dumps(trees))
    return trees.index(tree) + 1


def continue_run(inputs: Inputs) -> int:
    """Continue the last run of the pull request, or start one. Return the run's exit code."""
    file = inputs.state / "run.llrun"
    if file.exists() and ll_loop("import", str(file)) == OK:
        last = json.loads(said("ll-loop", "status", inputs.loop, "--json"))
        if (last["status"], last["reason"]) not in ENDED_FOR_GOOD:
            # The loop may have changed with the pull request; its version is what was reviewed.
            return ll_loop("resume", inputs.loop, "--definition", "current", *inputs.arguments)
    return ll_loop("run", inputs.loop, *inputs.arguments)


def keep(inputs: Inputs, base: str, strays: Sequence[str]) -> None:
    """Keep the run and its changes for the next job, and write its report and receipt."""
    inputs.results.mkdir(parents=True, exist_ok=True)
    report, receipt = inputs.results / "report.md", inputs.results / "receipt.json"
    ll_loop("export", inputs.loop, "-o", str(inputs.state / "run.llrun"))
    (inputs.state / "changes.patch").write_bytes(changes(base, strays))
    if ll_loop("report", inputs.loop, "--markdown", "-o", str(report)) == OK and inputs.summary:
        with open(inputs.summary, "a", encoding="utf-8") as summary:
            summary.write(report.read_text(encoding="utf-8"))
    ll_loop("receipt", inputs.loop, "-o", str(receipt))


# ── git ────────────────────────────────────────────────────────────────────────────────────────


def untracked() -> list[str]:
    """Return the files that are neither in git nor ignored."""
    listed = git("ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in listed.split("\0") if path]


def changes(base: str, strays: Sequence[str]) -> bytes:
    """Return what differs from a commit as a patch, without the files that the check left."""
    with TemporaryDirectory() as folder:
        environ = staged(folder, strays)
        command = ["git", "diff", "--cached", "--binary", base]
        return subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True).stdout


def staged(folder: str, strays: Sequence[str]) -> dict[str, str]:
    """Stage all changes in an index of their own. Return the environment in which git uses it."""
    environ = {**os.environ, "GIT_INDEX_FILE": os.path.join(folder, "index")}
    git("read-tree", "HEAD", environ=environ)
    left_out = [f":(exclude,literal){path}" for path in (*strays, OWN_FILE)]
    git("add", "--all", "--", ".", *left_out, environ=environ)
    return environ


def push(loop: str, branch: str, strays: Sequence[str]) -> None:
    """Commit what the run changed, and push it to the branch of the pull request.

    Raises `Refused` if the branch has new commits; nothing is overwritten.
    """
    with TemporaryDirectory() as folder:
        tree = git("write-tree", environ=staged(folder, strays))
    commit = git("rev-parse", "HEAD")
    if tree != git("rev-parse", "HEAD^{tree}"):
        message = f"Repair what the loop `{loop}` checks"
        commit = git(*AUTHOR, "commit-tree", tree, "-p", commit, "-m", message)
    done = subprocess.run(["git", "push", "origin", f"{commit}:refs/heads/{branch}"], check=False)
    if done.returncode != 0:
        raise Refused(f"the repair was not pushed to `{branch}`; the artifact has its report")


def git(*words: str, environ: Mapping[str, str] | None = None) -> str:
    """Run git, and return what it prints. Raises `Refused` if it fails."""
    done = subprocess.run(["git", *words], env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise Refused(f"`git {words[0]}` failed: {last}")
    return done.stdout.strip("\n")


def ll_loop(*words: str) -> int:
    """Run `ll-loop` with its output in the log of the job. Return its exit code."""
    return subprocess.run(["ll-loop", *words], stdin=subprocess.DEVNULL, check=False).returncode


def said(*argv: str) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
