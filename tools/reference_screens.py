"""The page that puts each screen of `ll-loop` beside the same kind of screen of another tool.

Ours come from the kept pictures, which `tests/screens` holds against the real command.  Those of
the others were typed once, in the versions named on the page; of `gh` against a local stand-in for
its server.  They are shortened where `…` stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from tests.screens.scenes import SCENES
from tools.markdown import fenced
from tools.screens import kept

MOST_ROWS = 26
LAST_ROWS = 3
STYLE = re.compile(r"\{(?:/|exit \d+|(?:bold|dim|red|green|yellow|blue|cyan)(?: \w+)*)\}")


class Compared(NamedTuple):
    verb: str
    scene: str
    theirs: str
    better: str
    worse: str


COMPARED = (
    Compared(
        "run",
        "run",
        """\
        $ cargo test
           Compiling c v0.1.0 (/home/you/c)
            Finished `test` profile [unoptimized + debuginfo] target(s) in 0.38s
             Running unittests src/main.rs (target/debug/deps/c-f5bf1dc8a4326dab)

        running 1 test
        test adds ... FAILED
        …
        error: test failed, to rerun pass `--bin c`
        """,
        "Each step shows where the run is (`[2/20] measure`), what the result was and how long it took, and the last "
        "line shows the ending, the time and the cost; cargo's last line shows only the failure.",
        "cargo knows how much is left and draws a bar; a loop cannot know that.",
    ),
    Compared(
        "resume",
        "resume",
        """\
        $ gh run rerun 4401
        ✓ Requested rerun of run 4401
        """,
        "It shows from which state and iteration it continues, and what the last session left to do; `gh` starts "
        "again from the beginning, elsewhere.",
        "",
    ),
    Compared(
        "status",
        "status",
        """\
        $ gh run view 4401
        X feature/build-on-windows CI · 4401
        Triggered via push about 16 days ago

        JOBS
        X test in 2m34s (ID 9)
          ✓ Set up job
          X Run mypy src/
        …
        To see what failed, try: gh run view 4401 --log-failed
        """,
        "It shows what the run is doing right now, when it last printed something and how to watch or stop it.",
        "`gh` shows all steps of all jobs; ours shows the last few states, and `history` or `logs` the rest.",
    ),
    Compared(
        "list",
        "list",
        """\
        $ uv pip list
        Package    Version
        ---------- -------
        pillow     13.0.0
        pyte       0.8.2
        …
        """,
        "Besides the loops themselves, it shows how each loop's last run ended, and the command to run for a broken one.",
        "`uv` can also print it as columns for other programs (`--format freeze`); ours has JSON only.",
    ),
    Compared(
        "history",
        "history-all",
        """\
        $ gh run list
        STATUS  TITLE               WORKFLOW  BRANCH        EVENT  ID    ELAPSED     AGE
        ✓       Drive the type ...  CI        main          push   4400  2m34s       16d
        X       Build until it ...  CI        feature/b...  push   4401  2m34s       16d
        *       Keep tests, lin...  CI        main          push   4402  399h22m59s  16d
        """,
        "It shows why a run ended (`limit (iterations)`) and what it cost, and the last line has the totals; at 80 columns "
        "it drops columns before it truncates names beyond recognition.",
        "`gh` has filters by branch, user and event; ours has the loop, the age and the number of runs.",
    ),
    Compared(
        "logs",
        "logs",
        """\
        $ gh run view 4401 --log-failed
        test	Run mypy src/	2026-10-31T10:00:02.0Z ##[group]Run mypy src/
        test	Run mypy src/	2026-10-31T10:00:03.0Z src/a.py:3: error: Incompatible return value type
        test	Run mypy src/	2026-10-31T10:00:03.1Z Found 1 error in 1 file (checked 9 source files)
        test	Run mypy src/	2026-10-31T10:00:03.2Z ##[error]Process completed with exit code 1.
        """,
        "The step is named once, above its output, which keeps lines short; `-t` adds timestamps.",
        "`gh` names the step on every line, so that `grep` finds it.",
    ),
    Compared(
        "attach",
        "attach",
        """\
        $ gh run watch 4402
        Refreshing run status every 3 seconds. Press Ctrl+C to quit.

        * main CI · 4402
        Triggered via push about 16 days ago

        JOBS
        * test in 2m34s (ID 9)
          ✓ Set up job
          * Run mypy src/
        """,
        "It shows what the action prints as it prints it, and tells you that Ctrl-C leaves the run running.",
        "`gh` redraws one picture of the whole run; ours scrolls.",
    ),
    Compared(
        "show",
        "show",
        """\
        $ uv pip show click
        Name: click
        Version: 8.5.1
        Location: /home/you/project/.venv/lib/python3.11/site-packages
        Requires:
        Required-by: import-linter
        """,
        "It is a description of what will happen: each state with its command, its limits and where it leads.",
        "",
    ),
    Compared(
        "graph",
        "graph",
        """\
        $ uv pip tree
        import-linter v2.16
        ├── click v8.5.1
        ├── grimp v3.19
        └── rich v15.0.0
            ├── markdown-it-py v4.3.0
            │   └── mdurl v0.1.2
            └── pygments v2.21.0
        """,
        "A loop has cycles, which a tree cannot show: each state is listed once, with an arrow for each verdict, "
        "and its start and ends are marked.",
        "A tree shows depth at a glance; for a picture of a loop there is `--format mermaid`.",
    ),
    Compared(
        "validate",
        "validate",
        """\
        $ ruff check
        F401 [*] `os` imported but unused
         --> a.py:1:8
          |
        1 | import os
          |        ^^
        2 | import sys
          |
        help: Remove unused import: `os`
        …
        Found 5 errors.
        [*] 2 fixable with `--fix` (1 unsafe fix available with `--fix --unsafe-fixes`).
        """,
        "A long line is cut around the mistake, so that the caret is still below it at 80 columns, and the help names "
        "the word that was probably meant.",
        "ruff shows the lines around a mistake, and can fix some of them itself (`--fix`).",
    ),
    Compared(
        "explain",
        "explain",
        """\
        $ ruff rule E501
        # line-too-long (E501)

        Derived from the **pycodestyle** linter.

        ## What it does
        Checks for lines that exceed the specified maximum character length.
        …
        """,
        "It is a page for a terminal, not Markdown source, and marks the line where the wrong and the right example differ.",
        "ruff explains at more length, with exceptions and the settings that matter.",
    ),
    Compared(
        "doctor",
        "doctor",
        """\
        $ uv pip check
        Checked 47 packages in 0.82ms
        All installed packages are compatible
        """,
        "Everything that was looked at is listed, and each finding comes with the command that fixes it.",
        "",
    ),
    Compared(
        "trust",
        "trust",
        """\
        $ gh auth status
        github.com
          ✓ Logged in to github.com as you (GH_TOKEN)
          ✓ Git operations for github.com configured to use https protocol.
          ✓ Token: *
          ✓ Token scopes: repo, workflow, read:org
        """,
        "It shows word for word what was agreed to, where and since when; none of the four tools asks before "
        "running code from a repository.",
        "",
    ),
    Compared(
        "init",
        "init",
        """\
        $ cargo init
            Creating binary (application) package
        note: see more `Cargo.toml` keys and their definitions at https://doc.rust-lang.org/cargo/reference/manifest.html
        """,
        "It looks at the project, offers what fits, lists each file it wrote with its purpose, and names the next "
        "command.",
        "`cargo init` and `uv init` ask nothing; `ll-loop init` needs `--yes` for that.",
    ),
    Compared(
        "demo",
        "demo",
        """\
        $ cargo new hello && cargo run
           Compiling hello v0.1.0 (/home/you/hello)
            Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.28s
             Running `target/debug/hello`
        Hello, world!
        """,
        "It shows the tool at work on a real failure, including the failed attempts, and leaves nothing behind; none "
        "of the four has such a command.",
        "",
    ),
    Compared(
        "--help",
        "help",
        """\
        $ gh --help
        Work seamlessly with GitHub from the command line.

        USAGE
          gh <command> <subcommand> [flags]

        CORE COMMANDS
          auth:        Authenticate gh and git with GitHub
          browse:      Open the repository in the browser
        …
        """,
        "Five commands to copy come first, then the verbs, grouped by task; nothing is wider than 80 "
        "columns.",
        "ruff has a short help (`-h`) and a long one (`--help`); ours are the same.",
    ),
)


def screens_page() -> Iterator[str]:
    yield from dedent("""\
        # Screens

        What each command looks like in a terminal with 80 columns, next to a comparable screen from ruff 0.17, uv 0.13, cargo 1.95 or
        gh 2.23: what ours does better, and what the other still does better. Long screens are shortened, and colours are left out: they
        only repeat what the symbols and words say. `tests/screens` renders every screen in terminals that are 50, 80 and 120 columns
        wide, with and without colours, and in plain ASCII.
        """).splitlines()
    for one in COMPARED:
        yield from ["", f"## {one.verb}", ""]
        yield from fenced(_picture(one.scene), "text")
        yield from fenced(dedent(one.theirs), "text")
        yield one.better
        if one.worse:
            yield from ["", f"Where the other tool is better: {one.worse}"]


def _picture(scene: str) -> str:
    rows = STYLE.sub("", kept(SCENES[scene])).rstrip().replace("⏎\n", "\n").split("\n")
    if len(rows) > MOST_ROWS:
        rows = [*rows[: MOST_ROWS - LAST_ROWS - 1], "…", *rows[-LAST_ROWS:]]
    return "\n".join(rows)
