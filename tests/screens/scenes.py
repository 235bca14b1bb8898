"""Every screen of `ll-loop` that a person gets to see: what was done before, and what is typed.

A scene plays in a project of its own, laid out in `stage`; `before` is a shell script that nobody
sees.  `at` is the moment the picture is taken, by what is on the screen then; without it the
picture is of the end.  What follows the moment (`after`) only lets the scene come to an end.

Not here: playing a scene (`tools.screens`).
"""

from __future__ import annotations

import os
from typing import NamedTuple

STAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stage")
CTRL_C = "\x03"


class Scene(NamedTuple):
    """`answers`: what is typed as soon as something is shown; `changes`: it can be played once."""

    name: str
    types: tuple[str, ...]
    before: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    at: str | None = None
    after: str = ""
    piped: bool = False
    changes: bool = True


BRANCHES = """cat > .loops/review.yaml <<'.'
name: review
initial: files
states:
  files:
    for_each: [api.py, models.py, views.py]
    action: echo "looking at ${branch.item}"; test '${branch.item}' = api.py || until [ -e go ]; do sleep 0.1; done
    next: done
  done: {terminal: true}
."""


def look(name: str, *types: str, before: str = "") -> Scene:
    """A scene of commands that change nothing."""
    return ll(name, *types, before=before)._replace(changes=False)


def ll(name: str, *types: str, before: str = "") -> Scene:
    return Scene(name, tuple(f"ll-loop {each}" for each in types), before)


WATCHED = "ll-loop run watch --background"
LET_GO = "touch go; ll-loop wait watch"
CRASHED = """\
ll-loop run watch --background
kill -9 $(head -n 1 .loops/.running/watch.pid)
ll-loop wait watch
"""
LIVED_THROUGH = """\
cp src/types types
ll-loop run fix-types
ll-loop run safe-deploy
ll-loop run write-docs
cat types types > src/types
ll-loop run fix-types --max-iterations 2
ll-loop run build
ll-loop run quality-guard
"""
AT_GATE = """\
cp release.yaml .loops/
ll-loop run release
"""
IN_GIT = """\
git init -q
git add -A
git -c user.name=A -c user.email=a@example.invalid commit -qm start
ll-loop run fix-types
ll-loop receipt fix-types -o receipt.json
"""
EXPORTED = """\
ll-loop export fix-types -o run.llrun
rm -r .loops/.history
"""
# The history knows its runs by the second.
SLOWLY = LIVED_THROUGH.replace("\n", "\nsleep 1\n")

READING = (
    look("help", "--help"),
    look("help-run", "run --help"),
    look("help-resume", "resume --help"),
    look("help-history", "history --help"),
    look("help-exit-codes", "help exit-codes"),
    look("help-environment", "help environment"),
    look("help-interpolation", "help interpolation"),
    look("help-conditions", "help conditions"),
    look("explain", "explain LL104"),
    look("validate", "validate", before="cp lint.yaml .loops/"),
    look("validate-well", "validate"),
    look("show", "show safe-deploy"),
    look("graph", "graph safe-deploy"),
    look("compile", "compile fix-types"),
    look("dry-run", "run fix-types --dry-run"),
    look("dry-run-deploy", "run safe-deploy --dry-run"),
    look("check", "check quality-guard"),
    look("diff", "diff fix-types 2", before=IN_GIT),
    look("verify", "verify receipt.json", before=IN_GIT),
    look("verify-stale", "verify receipt.json", before=f"{IN_GIT}\necho more >> src/types"),
    look("doctor", "doctor"),
    look("doctor-ill", "doctor", before=f"cp lint.yaml .loops/\n{CRASHED}"),
    look("list-new", "list"),
    look("list", "list", before=f"cp lint.yaml .loops/\n{LIVED_THROUGH}"),
    look("status-none", "status"),
    look("status-all", "status", before=LIVED_THROUGH),
    look("status-paused", "status write-docs", before="ll-loop run write-docs"),
    look("status-gate", "status release", before=AT_GATE),
    look("status-failed", "status build", before="ll-loop run build"),
    look("status-crashed", "status watch", before=CRASHED),
    look("history", "history fix-types", before=SLOWLY),
    look("history-all", "history", before=SLOWLY),
    look("cost", "cost", before=LIVED_THROUGH),
    look("logs", "logs fix-types", before="ll-loop run fix-types"),
    look("wrong-verb", "validat"),
    look("wrong-option", "run fix-types --max-iteration 5"),
    look("wrong-loop", "run fix-type"),
    look("wrong-context", "run safe-deploy --context targt=staging"),
)

RUNNING = (
    ll("run", "run fix-types"),
    ll("trust", "trust skip", "trust --revoke"),
    ll("receipt", "receipt fix-types -o again.json", before=IN_GIT),
    ll("restore", "restore fix-types src/types", before=IN_GIT),
    ll("export", "export fix-types", before=IN_GIT),
    ll("import", "import run.llrun", before=f"{IN_GIT}\n{EXPORTED}"),
    ll("run-quiet", "run fix-types -q"),
    ll("run-verbose", "run fix-types -v"),
    ll("run-invariants", "run quality-guard"),
    ll("run-failed", "run build"),
    ll("run-failure-state", "run safe-deploy"),
    ll("run-limit", "run fix-types --max-iterations 1"),
    ll("run-handoff", "run write-docs"),
    ll("run-invalid", "run lint", before="cp lint.yaml .loops/"),
    Scene("run-piped", ("ll-loop run fix-types",), piped=True),
    Scene("run-failed-piped", ("ll-loop run build",), piped=True),
    Scene("consent-refused", ("ll-loop run skip",), piped=True),
    ll("until", "until 'test -e b' --fix '$ touch b'"),
    ll("resume", "resume write-docs", before="ll-loop run write-docs"),
    ll("approve", "approve release --to notes", before=AT_GATE),
    ll("reject", "reject release -m 'not before Monday'", before=AT_GATE),
    ll("tell", "tell release 'mention the new flag'", before=AT_GATE),
    ll("resume-crashed", "resume watch", before=f"{CRASHED}\ntouch go"),
    ll("resume-nothing", "resume fix-types", before="ll-loop run fix-types"),
    Scene(
        "run-live",
        ("ll-loop run watch",),
        at=r"41%|renamed|\d+s . tests/api",
        after="touch go",
    ),
    Scene(
        "run-branches",
        ("ll-loop run review",),
        before=BRANCHES,
        at=r"models.py +looking.*\n.*views.py +looking.*\n.*1 of 3 ended.*\n.*ctrl-c",
        after="touch go",
    ),
    Scene("run-stopped", ("ll-loop run watch",), answers=((r"\ds . tests/api", CTRL_C),)),
    Scene(
        "consent",
        ("ll-loop run skip",),
        answers=((r"\] ?$", "n\n"),),
    ),
    Scene(
        "run-unfinished",
        ("ll-loop run write-docs",),
        before="ll-loop run write-docs",
        answers=((r"\] ?$", "n\n"),),
    ),
    Scene(
        "conflict",
        ("ll-loop run fix-types",),
        before=WATCHED,
        after=LET_GO,
    ),
    Scene(
        "already-running",
        ("ll-loop run watch",),
        before=WATCHED,
        after=LET_GO,
    ),
    Scene(
        "queue",
        ("ll-loop run fix-types --queue",),
        before=WATCHED,
        at="Waiting for",
        after=LET_GO,
    ),
    Scene(
        "background",
        ("ll-loop run watch --background",),
        after=LET_GO,
    ),
    Scene(
        "status",
        ("ll-loop status watch",),
        before=WATCHED,
        after=LET_GO,
    ),
    Scene(
        "attach",
        ("ll-loop attach watch",),
        before=WATCHED,
        answers=((r"\ds . tests/api", CTRL_C),),
        after=LET_GO,
    ),
    Scene(
        "stop",
        ("ll-loop stop watch", "ll-loop stop watch"),
        before=WATCHED,
    ),
    Scene(
        "init",
        ("ll-loop init",),
        before="rm -r .loops",
        answers=((r"\[1\] ?$", "1\n"), (r"\[Y/n\] ?$", "n\n")),
    ),
    Scene(
        "init-again",
        ("ll-loop init --yes --no-try", "ll-loop init --yes --no-try"),
        before="rm -r .loops",
    ),
    ll("demo", "demo --no-wait"),
)

SCENES = {scene.name: scene for scene in (*READING, *RUNNING)}
