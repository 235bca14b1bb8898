"""The verbs of `ll-loop`, each with its module and purpose; the help page is made from this."""

from __future__ import annotations

from little_loops.records import NamedTuple


class Verb(NamedTuple):
    module: str
    summary: str
    group: str
    names: str = ""  # the kind of names it takes: `loops`, `live`, `runs` or `all`
    is_new: bool = False  # added after 1.0, so a loop may already have this name


VERBS: dict[str, Verb] = {
    "until": Verb(
        "until", "run a check, and a fix, until the check passes; needs no file", "Run", "", True
    ),
    "run": Verb("run", "run a loop", "Run", "loops"),
    "resume": Verb(
        "resume", "continue a run that was interrupted, paused or failed", "Run", "runs"
    ),
    "approve": Verb("approve", "approve a run that is waiting at a gate", "Run", "runs", True),
    "reject": Verb("reject", "reject a run that is waiting at a gate", "Run", "runs", True),
    "tell": Verb("tell", "send a note to a run's next agent turn", "Run", "live", True),
    "stop": Verb("stop", "stop a running loop and save its state", "Run", "live"),
    "attach": Verb("attach", "watch a running loop live; Ctrl-C detaches", "Run", "live"),
    "wait": Verb("wait", "wait for a run to end, and exit with its exit code", "Run", "all"),
    "worker": Verb("worker", "work on a fleet's runs on this machine", "Run", "", True),
    "list": Verb("list", "list the loops in this project and their last runs", "Inspect"),
    "status": Verb("status", "show what a run is doing, or list all runs", "Inspect", "all"),
    "logs": Verb("logs", "show what a run has printed", "Inspect", "all"),
    "history": Verb("history", "show past runs; --prune deletes old ones", "Inspect", "all"),
    "cost": Verb("cost", "show what agents have cost", "Inspect", "", True),
    "show": Verb("show", "describe what a loop does", "Inspect", "loops"),
    "web": Verb("web", "show runs and loops in the browser", "Inspect", "", True),
    "graph": Verb("graph", "draw a loop's states as text, Mermaid or DOT", "Inspect", "loops"),
    "check": Verb(
        "check", "run a loop's checks once, without starting a run", "Prove and undo", "loops", True
    ),
    "steps": Verb("steps", "list a run's steps", "Prove and undo", "all", True),
    "diff": Verb("diff", "show what a run changed, turn by turn", "Prove and undo", "all", True),
    "restore": Verb("restore", "restore a file from a run", "Prove and undo", "all", True),
    "undo": Verb("undo", "undo what a run changed in your files", "Prove and undo", "all", True),
    "fork": Verb(
        "fork", "start a new run from a step of another run", "Prove and undo", "all", True
    ),
    "worktrees": Verb(
        "worktrees", "list the worktrees of runs; --prune removes some", "Prove and undo", "", True
    ),
    "receipt": Verb("receipt", "write a receipt for what a run did", "Prove and undo", "all", True),
    "verify": Verb("verify", "check a receipt against the files here", "Prove and undo", "", True),
    "report": Verb("report", "write a report about a run", "Share", "all", True),
    "export": Verb("export", "export a run to a file, without its secrets", "Share", "all", True),
    "import": Verb("import_run", "import a run from a file into this project", "Share", "", True),
    "init": Verb("setup.init", "create a first loop for this project", "Write"),
    "validate": Verb("validate", "check loop files and report all problems", "Write", "loops"),
    "test": Verb("test", "run a loop's tests, without its actions", "Write", "loops", True),
    "simulate": Verb(
        "simulate", "predict how runs will end and what they will cost", "Write", "loops", True
    ),
    "replay": Verb(
        "replay",
        "see whether a changed loop would have taken a different path",
        "Write",
        "all",
        True,
    ),
    "compile": Verb("compile", "print the state machine that a loop compiles to", "Write", "loops"),
    "schema": Verb("schema", "print the JSON Schema for loop files, for editors", "Write"),
    "explain": Verb("explain", "explain an error code, with an example", "Write"),
    "demo": Verb("setup.demo", "watch a loop fix a small project", "Set up"),
    "doctor": Verb("setup.doctor", "check that everything a run needs is installed", "Set up"),
    "trust": Verb("trust", "let agents skip permission prompts in this project", "Set up", "loops"),
    "notify": Verb("notify", "show or test who is notified about runs", "Set up", "loops", True),
    "completion": Verb("completion", "print a completion script for bash, zsh or fish", "Set up"),
}
ALIASES = {"ls": ("list",), "ps": ("list", "--running")}
HIDDEN = {"relay": "relay", "background-run": "background", "stop-hook": "stop_hook"}
EXAMPLES = (
    ("ll-loop until 'pytest -q' --fix TEXT", "check, fix, check again: no file needed"),
    ("ll-loop init", "create a first loop for this project"),
    ("ll-loop run fix-tests --dry-run", "see what it would do"),
    ("ll-loop fix-tests", "run it; Ctrl-C stops and saves"),
    ("ll-loop resume fix-tests", "continue where it stopped"),
)


def help_page() -> str:
    """Return the text of `ll-loop --help`."""
    lines = [
        "usage: ll-loop VERB [LOOP] [options]",
        "       ll-loop LOOP              the same as `ll-loop run LOOP`",
        "",
        "Run loops of shell commands and coding agents until your check actually passes.",
        "",
        "Examples:",
    ]
    lines += [f"  {command:<38}{what}" for command, what in EXAMPLES]
    for group in dict.fromkeys(verb.group for verb in VERBS.values()):
        lines += ["", f"{group}:"]
        lines += [
            f"  {name:<12}{verb.summary}" for name, verb in VERBS.items() if verb.group == group
        ]
    lines += [
        "",
        "Each verb has its own page: ll-loop VERB --help",
        "More: ll-loop help loops | exit-codes | environment | interpolation | conditions",
    ]
    return "\n".join(lines) + "\n"
