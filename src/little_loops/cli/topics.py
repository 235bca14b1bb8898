"""`ll-loop help TOPIC`: what belongs to no single verb.  Made of the tables the program itself uses.

A topic is at most 80 columns wide, like every page of help, and no wider than its terminal.
"""

from __future__ import annotations

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
from little_loops.terminal import paint
from little_loops.terminal.console import columns_of, say
from little_loops.terminal.tables import ASCII, Column, Style, table

WIDTH = 80
INDENT = 2
SIGINT, SIGTERM = 2, 15

TOPICS = {
    "exit-codes": "what `ll-loop` exits with, and what can be resumed after it",
    "environment": "variables it reads, and those it gives to actions",
    "interpolation": "`${namespace.name}` in a loop file",
    "conditions": "how a result becomes a verdict",
}


def main(argv: Sequence[str]) -> int:
    width = min(columns_of(sys.stdout) or WIDTH, WIDTH)
    if not argv or argv[0] in ("-h", "--help"):
        say("\n".join(_listed(width)), paint.help_page)
        return OK
    topic = argv[0]
    if topic not in TOPICS:
        raise UsageError(f"there is no help on `{topic}`", f"there is: {', '.join(TOPICS)}")
    say("\n".join(page(topic, width)), paint.help_page)
    return OK


def _listed(width: int) -> Iterator[str]:
    yield "usage: ll-loop help TOPIC"
    yield ""
    yield from rows(TOPICS, width)
    yield ""
    yield "ll-loop VERB --help is the page of a verb."


def page(topic: str, width: int = WIDTH) -> list[str]:
    makers = {
        "exit-codes": exit_codes,
        "environment": environment,
        "interpolation": interpolation,
        "conditions": conditions,
    }
    return list(makers[topic](width))


# ── laying out ─────────────────────────────────────────────────────────────────────────────────


def rows(known: Mapping[str, str], width: int = WIDTH) -> Iterator[str]:
    """Names and what they mean, in two columns; a name without room there has a line of its own."""
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
    """Broken at blanks only: names have hyphens in them."""
    return wrap(text, width, break_on_hyphens=False)


# ── exit codes ─────────────────────────────────────────────────────────────────────────────────


def exit_codes(width: int) -> Iterator[str]:
    yield "What `ll-loop` exits with"
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
        "`ll-loop wait NAME` exits as the run did, `ll-loop status NAME` with 0 whenever it could"
        " answer. A run whose process was killed has no exit code of its own; it is shown as"
        " interrupted (crashed) and can be resumed.",
        width,
    )


CODES = {
    OK: "done: the run reached a success state",
    FAILED: "the run failed, or a file could not be read or written",
    USAGE: "a mistake on the command line or in a loop file; nothing was run",
    LIMIT: "a limit was reached: iterations, time, cost or tokens",
    PAUSED: "the run waits for you: a context handoff, or a review",
    CONFLICT: "another run has the name, or works on an overlapping scope",
    STOPPED_BY_ACTION: "an action printed LOOP_STOP: the run ended early, which is not a success",
    INTERNAL: "a bug in ll-loop; LL_TRACEBACK=1 shows where",
    SIGNALLED + SIGINT: "stopped by Ctrl-C; the state is saved",
    SIGNALLED + SIGTERM: "stopped by `ll-loop stop` or SIGTERM; the state is saved",
}


def endings() -> Iterator[tuple[str, str, str, str]]:
    """The manual's table of endings: title, status, exit code, what a resume does."""
    from little_loops.fsm.endings import ENDINGS  # only this topic needs it

    for kind in ENDINGS.values():
        code = kind.exit_code + SIGINT if kind.status == "interrupted" else kind.exit_code
        yield kind.title, kind.status, str(code), AFTER[kind.resume]


AFTER = {
    "nothing": "nothing to resume",
    "same state": "that state again",
    "higher limit": "with a higher limit",
    "next state": "the next state",
    "on_interrupt": "by on_interrupt",
}


# ── environment ────────────────────────────────────────────────────────────────────────────────


def environment(width: int) -> Iterator[str]:
    from little_loops.definitions.settings import SETTINGS  # only this topic needs it

    yield "What `ll-loop` reads"
    yield ""
    yield from rows(READ, width)
    yield ""
    yield "Settings, above a loop file and below a flag"
    yield ""
    names = ", ".join(f"LL_{name.upper()}" for name in SETTINGS)
    yield from (f"  {line}" for line in lines_of(names, width - INDENT))
    yield ""
    yield "What every action is given, beside the caller's environment and `env`"
    yield ""
    yield from rows(GIVEN, width)
    yield ""
    yield from prose(
        "An outer agent's session variables are taken away from actions:"
        f" {_words(SESSION_VARIABLES)}.",
        width,
    )


READ = {
    "NO_COLOR, FORCE_COLOR": "colour never, or always (`--color` decides over both)",
    "CI": "no questions, plain lines",
    "LL_ASCII": "signs as words, whatever the terminal can show",
    "LL_HEARTBEAT": "seconds of silence before a sign of life where no terminal is; 0: none",
    "LL_ALLOW_SKIP_PERMISSIONS": "1: agents may act without asking, as with the flag",
    "LL_CHECK_ON_STOP": "a loop; Claude Code with the plugin does not end while its check fails",
    "IS_SANDBOX": "1: `claude` may skip permissions as root",
    "LL_TRACEBACK": "show where in ll-loop a bug is",
    "MAX_ITERATIONS": "turns of a relay, above its file",
    "XDG_CONFIG_HOME": "little-loops/config.yaml in it holds your own settings",
    "XDG_STATE_HOME": "what you agreed to (`ll-loop trust`) is kept in little-loops/ there",
}
GIVEN = ACTION_VARIABLES


# ── interpolation ──────────────────────────────────────────────────────────────────────────────


def interpolation(width: int) -> Iterator[str]:
    from little_loops.templates.parse import FIELDS, MODIFIERS, NAMESPACES, RESULT_FIELDS

    yield from prose(
        "`${namespace.name}` is filled in just before use: in `action`, in values of `context` and"
        " `env`, and in a condition's source, target, pattern, path and tolerance.",
        width,
    )
    yield ""
    known = {
        "context": "your own variables, those of the state first",
        "captured": f"<state or capture>. {_words(RESULT_FIELDS)}",
        "env": "any environment variable; an unset one is empty",
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
        "In a shell action a value of your own `context` stands as you wrote it; everything else is"
        " data, and reaches the shell as one word that it never runs. In a prompt values are plain"
        " text. Nothing that was filled in is looked at again. A name that does not exist is an"
        " error: `ll-loop validate` finds it where it can be known, else the run does.",
        width,
    )


FORMS = {
    "${x.y}": "the value",
    "${x.y:-text}": "the value, or the text where there is none",
    "$${": "a literal `${`",
    "${HOME} ${F%.txt}": "without a dot after a word: the shell's own, left alone",
}
MODIFIER_HELP = {
    "int": "checked to be a whole number, and may stand anywhere, also in arithmetic",
    "number": "the same for any decimal number",
    "raw": "as it stands, also where the shell will run it: your risk",
    "q": "any value as one quoted word",
    "words": "split at blanks, each word an argument",
}


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)


# ── conditions ─────────────────────────────────────────────────────────────────────────────────


def conditions(width: int) -> Iterator[str]:
    from little_loops.authoring.fields.table import CONDITIONS, OPERATORS

    yield from prose(
        "A state's `condition` makes a verdict of what its action gave. Without one, a shell action"
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
        " JSON, no such path) gives the verdict `error` with the reason, never a silent fail; so"
        " does an action that was not found, killed or out of time. Completion is never read out of"
        " prose.",
        width,
    )


CONDITION_HELP = {
    "exit_code": "0 passes, 1 fails, everything else is an error",
    "output_contains": "passes when a text or regular expression is found in the output",
    "output_json": "passes when a value in the output, found with jq, compares to the target",
    "output_numeric": "passes when the number the action printed (its last line) compares",
    "convergence": "target, progress or stall: does the number come nearer to its target?",
    "verdict": "what the agent decides: structured output, or a last line `VERDICT: word`",
    "all": "passes when all of them pass",
    "any": "passes when one of them passes",
    "not": "passes when it fails",
}
