"""Prove that a check works in a clean copy, before a loop that relies on it is written.

It must pass or fail there as it does here, and a syntax error in a source file of the copy must
make it fail: a check that still passes does not test the copy.

Not here: creating the copy (`trees.copies`), running checks in it during a run (`evidence`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from signal import SIGTERM
from time import monotonic
from uuid import uuid4

from little_loops.engine.action_process import inherited
from little_loops.errors import StorageError, StoreError
from little_loops.light_typing import Literal, Protocol
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.system import process
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.system.stops import StopFlag
from little_loops.system.user_state import state_home
from little_loops.trees.copies import CleanCopy
from little_loops.trees.git import Git, Interrupted, find_git
from little_loops.trees.rules import Rules, find_repository
from little_loops.trees.store import TreeStore

LIMIT_S = 60.0
"""How long all trial runs of the check may take together."""
MOST_TRIED = 3
KEPT = 1 << 20
MENTIONED = 1 << 16
"""How much of the check's output is searched for names of directories."""
SOURCES = (
    *("py", "js", "mjs", "cjs", "jsx", "ts", "tsx", "go", "rs", "rb", "php", "java", "kt", "swift"),
    *("c", "h", "cc", "cpp", "cs", "ex", "scala", "lua", "pl", "sh"),
)
ENTRANCES = frozenset({"__init__", "index", "main", "lib", "mod", "app"})
"""Files that the whole program most likely depends on."""
TESTS = re.compile(r"(^|/)(tests?|specs?|__tests__|e2e)/|(^|/)test_|[._-](test|spec)\.|conftest")
MARK = b"planted to see whether the check notices"
COMPLAINT = re.compile(rb"\b(syntax|parse|parsing)[ _-]?error\b|unexpected token", re.IGNORECASE)
SHOWN = 200
NONSENSE = b"\n)]} " + MARK + b" (((\n"


class CleanProof(NamedTuple):
    """`why_not`: why a clean copy cannot be relied on; None if it can, as the error in `planted`
    showed.

    `cannot_run`: why the check does not even work here.
    """

    why_not: str | None
    planted: str = ""
    cannot_run: str | None = None


class ProofProgress(Protocol):
    """Reports progress to the user: the check may take minutes."""

    def begin(self, step: str) -> None: ...
    def end(self, outcome: str) -> None: ...


class NoProgress:
    def begin(self, step: str) -> None: ...
    def end(self, outcome: str) -> None: ...


class ProofResult(NamedTuple):
    verdict: Literal["pass", "fail", "error"]
    how: str
    said: bytes


class CheckScript(NamedTuple):
    """A script, the exit codes that are failures, and the shell that runs it."""

    script: str
    fails: tuple[int, ...] = (1,)
    shell: str = "sh"


def prove_clean(
    project: str,
    check: CheckScript,
    environ: Mapping[str, str],
    protect: Sequence[str] = (),
    stop: StopFlag | None = None,
    progress: ProofProgress | None = None,
    limit_s: float = LIMIT_S,
) -> CleanProof:
    """Run the check here, in a clean copy, and there with a syntax error in up to three source
    files.

    No error is planted in files that match `protect`. Everything together takes at most `limit_s`.
    Problems and a stop are returned as `why_not`, not raised.
    """
    trial = Trial(check, progress or NoProgress(), stop, monotonic() + limit_s)
    try:
        here = trial.ask("here", project, inherited(environ))
        if here.verdict == "error":
            why = f"the check's result cannot be judged here ({here.how})"
            return CleanProof(why, cannot_run=here.how)
        git = find_git(project, environ, stop).bounded(limit_s)
        if find_repository(git, project) is None:
            return CleanProof("this project is not in a git repository")
        return _in_copy(git, project, environ, protect, here, trial)
    except (StoreError, StorageError) as error:
        return CleanProof(error.message)
    except Skipped:
        return CleanProof("you skipped the trial run")
    except (Interrupted, TookTooLong):
        return CleanProof(f"the trial run took longer than {limit_s:g} s")


class Skipped(Exception):
    """The user does not want to wait any longer."""


class TookTooLong(Exception):
    """The check had no answer in time."""


class Trial(NamedTuple):
    check: CheckScript
    progress: ProofProgress
    stop: StopFlag | None
    deadline_s: float  # on the monotonic clock

    def ask(self, step: str, cwd: str, env: Mapping[str, str]) -> ProofResult:
        """Run the check in `cwd` and return its answer; `step` is shown as the progress.

        Raises `Skipped` if the user stopped it, `TookTooLong` after the deadline of the whole trial.
        """
        self.progress.begin(step)
        left_s = max(self.deadline_s - monotonic(), 0.0)
        answer = _run_check(self.check, cwd, env, self.stop, left_s)
        if self.stop is not None and self.stop.count:
            self.progress.end("skipped")
            raise Skipped
        if answer is None:
            self.progress.end("no answer in time")
            raise TookTooLong
        self.progress.end(_verb_for(answer))
        return answer


def _in_copy(
    git: Git,
    project: str,
    environ: Mapping[str, str],
    protect: Sequence[str],
    here: ProofResult,
    trial: Trial,
) -> CleanProof:
    """Compare the check in a clean copy with its answer `here`; if they agree, plant errors in the
    copy.

    Stores a snapshot in the user's state directory. Raises `Skipped`, `TookTooLong`, `Interrupted`
    or `StorageError`.
    """
    home = state_home(environ)
    store = TreeStore.open(project, home, git)
    rules = store.rules(f"proof-{uuid4()}", (".",), protect, around=True)
    taken = store.snapshot(rules)
    copy = CleanCopy(store, rules, home)
    with copy.held():
        path = copy.lay_out(taken.project, taken.guard)
        env = copy.environment(inherited(environ))
        script = copy.translate(trial.check.script)
        trial = trial._replace(check=trial.check._replace(script=script))
        there = trial.ask("in a clean copy", path, env)
        if there.verdict != here.verdict:
            words = f"the check {_verb_for(here)} here and {_verb_for(there)} in a clean copy"
            return CleanProof(f"{words} ({there.how})")
        mentioned = os.fsencode(script) + b"\n" + here.said[-MENTIONED:]
        tried = list(_sources(git, project, rules, mentioned))
        for source in tried:
            with _planted(os.path.join(path, source)):
                answer = trial.ask(f"with a syntax error in {visible(source)}", path, env)
                if _noticed(there, answer, source):
                    return CleanProof(None, source)
    where = f"{visible(tried[0])} of the copy" if tried else "the copy"
    return CleanProof(f"the check does not notice a syntax error in {where}")


def _verb_for(answer: ProofResult) -> str:
    return {"pass": "passes", "fail": "fails", "error": "cannot be judged"}[answer.verdict]


def _run_check(
    check: CheckScript, cwd: str, env: Mapping[str, str], stop: StopFlag | None, limit_s: float
) -> ProofResult | None:
    """Run the check and return its answer; None if it was stopped or took longer than `limit_s`.

    The answer is `error` if it cannot start, prints `FATAL_ERROR:`, or exits with an unknown code.
    """
    said = bytearray()

    def keep(chunk: bytes) -> None:
        if len(said) < KEPT:
            said.extend(chunk)

    try:
        ended = process.run(
            [check.shell, "-c", check.script],
            env=env,
            cwd=cwd,
            stdin=None,
            stdout=keep,
            stderr=keep,
            deadline_s=limit_s,
            stop=stop,
            stop_plan=((SIGTERM, 2.0),),
        )
    except process.CannotStart as problem:
        return ProofResult("error", problem.reason, b"")
    if ended.cut_by != "none":
        return None
    how = f"exit {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
    if refused := re.search(rb"^FATAL_ERROR:[ \t]*(.+)", said, re.MULTILINE):
        return ProofResult(
            "error", visible(refused[1].decode("utf-8", "replace")[:SHOWN]), bytes(said)
        )
    verdict: Literal["pass", "fail", "error"] = (
        "fail" if ended.exit_code in check.fails else "error"
    )
    return ProofResult("pass" if ended.exit_code == 0 else verdict, how, bytes(said))


def _noticed(before: ProofResult, after: ProofResult, source: str) -> bool:
    """Return whether the check fails because of the planted error.

    If it failed before, its exit code must differ, or its new output name the error or the file.
    """
    if after.verdict == "pass":
        return False
    if before.verdict == "pass" or before.how != after.how:
        return True
    new = _lines(after.said) - _lines(before.said)
    name = re.compile(rb"(?<![\w.-])" + re.escape(os.fsencode(os.path.basename(source))))
    return MARK in after.said or any(name.search(line) or COMPLAINT.search(line) for line in new)


def _lines(said: bytes) -> set[bytes]:
    """Return the printed lines without numbers: times and counts differ each time."""
    return set(re.sub(rb"\d+", b"", said).splitlines())


def _sources(git: Git, project: str, rules: Rules, mentioned: bytes) -> Iterator[str]:
    """Yield up to three tracked source files of the project, those that a check most likely depends
    on first: files in directories that the check or its output names, then entry points. Tests and
    protected files are left out."""
    answer = git.read(project, ["ls-files", "-z"])
    protected = rules.protected()
    paths = [os.fsdecode(path) for path in answer.out.split(b"\0") if path]
    sized = [
        (
            -_closeness(path, mentioned),
            _is_inner(path),
            -os.path.getsize(os.path.join(project, path)),
            path,
        )
        for path in paths
        if path.rpartition(".")[2] in SOURCES
        and TESTS.search(path) is None
        and not protected.match(os.fsencode(path), False)
        and os.path.isfile(os.path.join(project, path))
    ]
    yield from (path for *_, path in sorted(sized)[:MOST_TRIED])


def _closeness(path: str, mentioned: bytes) -> int:
    """Return how closely a text names the directory of a file, the deeper the closer: `aws/arn` in
    `go test ./aws/arn/...` or in `FAIL example.com/sdk/aws/arn`. 0 if it does not, or names only a
    directory at the top.

    A file in that directory does not name it: the program that a check starts may test something
    else than what is beside it.
    """
    folder = os.fsencode(os.path.dirname(path))
    depth = folder.count(b"/")
    if not depth or folder not in mentioned:
        return 0
    word = rb"(?<![\w-])" + re.escape(folder) + rb"(?![\w-]|/\w)"
    return depth if re.search(word, mentioned) else 0


def _is_inner(path: str) -> bool:
    return os.path.basename(path).partition(".")[0] not in ENTRANCES


@contextmanager
def _planted(path: str) -> Iterator[None]:
    """Put a syntax error into a file, and restore the file at the end of the block."""
    content = read_plain(path)
    _write(path, NONSENSE + content + NONSENSE)
    try:
        yield
    finally:
        _write(path, content)


def _write(path: str, content: bytes) -> None:
    with open(open_plain(path, os.O_WRONLY | os.O_TRUNC), "wb") as stream:
        stream.write(content)
