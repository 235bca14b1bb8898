"""`ll-loop help TOPIC`: help that belongs to no single verb, generated from the program's tables.

A topic is at most 80 columns wide, like every help page, and no wider than the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from little_loops.errors import (
    CONFLICT,
    FAILED,
    INTERNAL,
    LIMIT,
    OK,
    PAUSED,
    SIGNALLED,
    STOPPED_BY_ACTION,
    USAGE,
    UsageError,
)
from little_loops.fsm.variables import ACTION_VARIABLES, SESSION_VARIABLES
from little_loops.system.plain_files import read_plain
from little_loops.terminal import paint
from little_loops.terminal.console import columns_of, say
from little_loops.terminal.tables import ASCII, Column, Style, table

WIDTH = 80
INDENT = 2
SIGINT, SIGTERM = 2, 15

TOPICS = {
    "loops": "how to write a loop: the whole format on one page",
    "exit-codes": "`ll-loop`'s exit codes, and what can be resumed",
    "environment": "the variables it reads, and those it sets for actions",
    "interpolation": "`${namespace.name}` in a loop file",
    "conditions": "how a result becomes a verdict",
}


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop help`: print a topic or their list. Raises `UsageError` for an unknown one."""
    width = min(columns_of(sys.stdout) or WIDTH, WIDTH)
    if not argv or argv[0] in ("-h", "--help"):
        say("\n".join(_listed(width)), paint.help_page)
        return OK
    topic = argv[0]
    if topic not in TOPICS:
        raise UsageError(f"unknown help topic `{topic}`", f"topics: {', '.join(TOPICS)}")
    if topic == "loops":
        sys.stdout.write(loops_page())  # for agents and pagers: as it is, whatever the width
        return OK
    say("\n".join(page(topic, width)), paint.help_page)
    return OK


def _listed(width: int) -> Iterator[str]:
    """Yield the list of topics."""
    yield "usage: ll-loop help TOPIC"
    yield ""
    yield from rows(TOPICS, width)
    yield ""
    yield "For a verb's options: ll-loop VERB --help"


def page(topic: str, width: int = WIDTH) -> list[str]:
    """Return the lines of a topic."""
    makers = {
        "exit-codes": exit_codes,
        "environment": environment,
        "interpolation": interpolation,
        "conditions": conditions,
    }
    return list(makers[topic](width))


def loops_page() -> str:
    """Return the page for authors of loops: from the package, or from `docs` in the source tree."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = os.path.dirname(os.path.dirname(package))
    places = [os.path.join(package, "llms.txt"), os.path.join(tree, "docs", "llms.txt")]
    path = next((at for at in places if os.path.isfile(at)), places[0])
    return read_plain(path).decode()


# ── laying out ─────────────────────────────────────────────────────────────────────────────────


def rows(known: Mapping[str, str], width: int = WIDTH) -> Iterator[str]:
    """Yield names and their meanings in two columns; a long name gets its own line."""
    first_column = min(max(len(name) for name in known), width // 3)
    margin = " " * (INDENT + first_column + 2)
    for name, text in known.items():
        first, *more = lines_of(text, width - len(margin)) or [""]
        if len(name) > first_column:
            yield " " * INDENT + name
            more = [first, *more]
        else:
            yield f"{' ' * INDENT}{name:<{first_column}}  {first}".rstrip()
        yield from (margin + line for line in more)


def prose(text: str, width: int = WIDTH) -> Iterator[str]:
    yield from lines_of(" ".join(text.split()), width)


def lines_of(text: str, width: int) -> list[str]:
    """Wrap a text at spaces only, because names contain hyphens."""
    return wrap(text, width, break_on_hyphens=False)


# ── exit codes ─────────────────────────────────────────────────────────────────────────────────


def exit_codes(width: int) -> Iterator[str]:
    """Yield the page about exit codes."""
    yield "Exit codes"
    yield ""
    yield from rows({str(code): text for code, text in CODES.items()}, width)
    yield ""
    yield "How a run can end"
    yield ""
    columns = [Column("ENDING", least=14), Column("STATUS", leaves=1), Column("EXIT")]
    lines = table([*columns, Column("RESUME")], list(endings()), Style(ASCII, width=width - INDENT))
    yield from (" " * INDENT + line for line in lines)
    yield ""
    yield from prose(
        "`ll-loop wait NAME` exits with the run's exit code. `ll-loop status NAME` exits with 0 if it"
        " could show the run. A run whose process was killed has no exit code; it is shown as"
        " interrupted (crashed) and can be resumed.",
        width,
    )


CODES = {
    OK: "done: the run reached a success state",
    FAILED: "the run failed, or a file could not be read or written",
    USAGE: "a mistake on the command line or in a loop file; nothing was run",
    LIMIT: "a limit was reached: iterations, time, cost or tokens; `wait` timed out; "
    "`check` could not reach a verdict; or `verify` found that files differ",
    PAUSED: "the run is waiting for you: a context handoff, a review, or a budget",
    CONFLICT: "another run has the same name or an overlapping scope",
    STOPPED_BY_ACTION: "an action printed LOOP_STOP: the run ended early, which is not a success",
    INTERNAL: "a bug in ll-loop; LL_TRACEBACK=1 shows where",
    SIGNALLED + SIGINT: "stopped by Ctrl-C; the state is saved",
    SIGNALLED + SIGTERM: "stopped by `ll-loop stop` or SIGTERM; the state is saved",
}


def endings() -> Iterator[tuple[str, str, str, str]]:
    """Yield the table of endings: title, status, exit code, what a resume does."""
    from little_loops.fsm.endings import ENDINGS  # only this topic needs it

    for kind in ENDINGS.values():
        code = kind.exit_code + SIGINT if kind.status == "interrupted" else kind.exit_code
        yield kind.title, kind.status, str(code), AFTER.get(kind.reason) or AFTER[kind.resume]


AFTER = {
    "nothing": "nothing to resume",
    "same state": "that state again",
    "where it stopped": "where it stopped",
    "higher limit": "with a higher limit",
    "stalled": "with --stall-after N",
    "next state": "the next state",
    "on_interrupt": "by on_interrupt",
}


# ── environment ────────────────────────────────────────────────────────────────────────────────


def environment(width: int) -> Iterator[str]:
    """Yield the page about environment variables."""
    from little_loops.definitions.settings import SETTINGS  # only this topic needs it

    yield "Variables that `ll-loop` reads"
    yield ""
    yield from rows(READ, width)
    yield ""
    yield "Settings: they override a loop file, and flags override them"
    yield ""
    names = ", ".join(f"LL_{name.upper()}" for name in SETTINGS)
    yield from (f"  {line}" for line in lines_of(names, width - INDENT))
    yield ""
    yield "Variables for every action, in addition to the caller's environment and `env`"
    yield ""
    yield from rows(GIVEN, width)
    yield ""
    yield from prose(
        "If an agent runs `ll-loop`, its session variables are removed from actions:"
        f" {_words(SESSION_VARIABLES)}.",
        width,
    )


READ = {
    "NO_COLOR, FORCE_COLOR": "never or always use colour (`--color` overrides both)",
    "CI": "ask no questions, print plain lines",
    "LL_ASCII": "print words instead of symbols",
    "LL_HEARTBEAT": "without a terminal: seconds between reports on silent actions; 0: none",
    "LL_ALLOW_SKIP_PERMISSIONS": "1: agents may skip permission prompts, as with the flag",
    "LL_FLEET": "the fleet to run loops on: temporal://host:7233/namespace",
    "LL_FLEET_CODEC": "module:Class: the Temporal codec that encrypts what a fleet's server stores",
    "LL_CHECK_ON_STOP": "a loop: with the plugin, Claude Code keeps working while its check fails",
    "IS_SANDBOX": "1: `claude` may skip permission prompts as root",
    "LL_TRACEBACK": "1: print a traceback if ll-loop itself fails",
    "MAX_ITERATIONS": "the maximum number of turns of a relay; overrides its file",
    "XDG_CONFIG_HOME": "the directory of your settings: little-loops/config.yaml",
    "XDG_STATE_HOME": "the directory of your consent (`ll-loop trust`) and of stored files: little-loops/",
}
GIVEN = ACTION_VARIABLES


# ── interpolation ──────────────────────────────────────────────────────────────────────────────


def interpolation(width: int) -> Iterator[str]:
    """Yield the page about references."""
    from little_loops.templates.parse import FIELDS, MODIFIERS, NAMESPACES, RESULT_FIELDS

    yield from prose(
        "`${namespace.name}` is filled in just before use: in `action`, in values of `context` and"
        " `env`, and in a condition's source, target, pattern, path and tolerance.",
        width,
    )
    yield ""
    known = {
        "context": "your own variables; a state's override the loop's",
        "captured": f"<state or capture>. {_words(RESULT_FIELDS)}",
        "branch": "in a state with branches: index, name and the item, by the name in `as`",
        "env": "any environment variable; empty if unset",
        **{name: _words(fields) for name, fields in FIELDS.items()},
    }
    yield from rows({name: known[name] for name in NAMESPACES}, width)
    yield ""
    yield from rows(FORMS, width)
    yield ""
    meaning = {f"${{x.y:{name}}}": MODIFIER_HELP[name] for name in MODIFIERS}
    yield from rows(meaning, width)
    yield ""
    yield from prose(
        "In a shell action, values from your own `context` are inserted as written; everything else is"
        " data, which reaches the shell as a single word and is never run. In a prompt, values are plain"
        " text. Filled-in values are not searched for references. A name that does not exist is an"
        " error: `ll-loop validate` reports it if it can, otherwise the run does.",
        width,
    )


FORMS = {
    "${x.y}": "the value",
    "${x.y:-text}": "the value, or the text if there is no value",
    "$${": "a literal `${`",
    "${HOME} ${F%.txt}": "no dot after a word: left to the shell",
}
MODIFIER_HELP = {
    "int": "must be a whole number; allowed anywhere, even in arithmetic",
    "number": "the same for any decimal number",
    "raw": "inserted unquoted, so the shell may run it: use it at your own risk",
    "q": "any value as one quoted word",
    "words": "split at spaces; each word becomes an argument",
}


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)


# ── conditions ─────────────────────────────────────────────────────────────────────────────────


def conditions(width: int) -> Iterator[str]:
    """Yield the page about conditions."""
    from little_loops.authoring.fields.table import CONDITIONS, OPERATORS

    yield from prose(
        "A state's `condition` turns the result of its action into a verdict. Without one, a shell action"
        " is judged by its exit code, an agent by the verdict it gives.",
        width,
    )
    yield ""
    yield "    condition: {type: output_numeric, target: 0}"
    for name, kind in CONDITIONS.items():
        yield ""
        yield from prose(f"{name}: {CONDITION_HELP[name]}", width)
        own = [field for field in kind.fields if field.name not in ("type", "source")]
        described = {
            field.name: field.help + (f" (default: {field.default})" if field.default else "")
            for field in own
        }
        if described:
            yield from rows(described, width)
    yield ""
    source = next(iter(CONDITIONS.values())).by_name["source"]
    yield from prose(f"Each may have a `source`: {source.help}.", width)
    yield ""
    yield from prose(
        f"Operators: {_words(OPERATORS.words)}. A condition that cannot judge (not a number, not"
        " JSON, no such path) gives the verdict `error` with a reason, never a silent fail. So"
        " does an action that was not found, was killed or timed out. Completion is never inferred from"
        " prose.",
        width,
    )


CONDITION_HELP = {
    "exit_code": "0 passes, 1 fails, everything else is an error",
    "output_contains": "passes when the output contains a string or matches a regular expression",
    "output_json": "passes when a value that jq finds in the output matches the target",
    "output_numeric": "passes when the number in the last line of output matches the target",
    "convergence": "target, progress or stall: does the number get closer to its target?",
    "verdict": "the agent decides: with structured output, or a last line `VERDICT: word`",
    "judge": "a second agent, which may only read, confirms a pass or vetoes it",
    "all": "passes when every condition in `of` passes",
    "any": "passes when at least one condition in `of` passes",
    "not": "passes when the given condition fails",
}
