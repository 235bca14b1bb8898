"""The closed sets of words in the server's answers.

`web/src/api.ts` has the same sets, under the same names, and a test compares them. Each side is
checked by its own type checker: that every member is given here, and that each has words and a
drawing there.
"""

from __future__ import annotations

from little_loops.light_typing import Literal

Tone = Literal["good", "bad", "warn", "running", "waiting", "queued", "none"]
Group = Literal["waiting", "running", "queued", "ended"]
StateKind = Literal["shell", "agent", "builtin", "loop", "branches", "decision", "terminal"]
MarkKind = Literal[
    "handoff", "wait", "stop", "resume", "cost", "gate", "fork", "note", "warning", "end"
]
Verb = Literal[
    "run",
    "stop",
    "resume",
    "approve",
    "reject",
    "tell",
    "fork",
    "undo",
    "receipt",
    "report",
    "edit",
    "create",
]
OutputStream = Literal["stdout", "stderr", "agent"]
