"""The page `commands.md`, from the table of verbs and the options of each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from little_loops.cli import parsing
from little_loops.cli.commands import ALIASES, EXAMPLES, VERBS
from little_loops.cli.options import args_of
from little_loops.cli.parsing import Parser
from little_loops.cli.topics import TOPICS
from tools.markdown import code, fenced, sentence, table

OUTPUT = ("--json", "--quiet", "--verbose", "--color")
INTRO = """\
The syntax is `ll-loop VERB [LOOP] [options]`; `ll-loop LOOP` is the same as `ll-loop run LOOP`. A loop is given by its `name`, its file name, or a path.
A run has the name of its loop, or `NAME@ID` if it was started with `--id ID`. `ll-loop --version` prints the version.
"""
COMMON = """\
also take `--json` (output for programs, including errors), `-q` (only errors and the last line; `-qq` prints nothing), `-v` (also show the output of
actions) and `--color auto|always|never`. Results go to stdout; hints, questions and errors go to stderr. Read-only verbs write no files.
"""

JSON = """\
With `--json`, `run`, `resume`, `attach` and `logs` print [events](events.md), one per line. The other verbs print one object with `"schema": 1`.
In `show --json` and `run --dry-run --json`, `transitions` of a state maps each field that names a next state to that state
(`"transitions": {"on_fail": "fix"}`). In `graph --json`, it maps each verdict to its `target` and to the field that selects it, `reason`
(`"transitions": {"fail": {"target": "fix", "reason": "on_fail"}}`).

A run that waits for an [answer](../howto/ask-a-person.md) has a `gate` in `status --json` and `list --json`, and null otherwise: its `state`, and
`seq`, the number of the event that opened it. For a single run, `ll-loop status NAME --json` adds to it:

| field of `gate` | meaning |
|---|---|
| `asks` | what the gate's action printed |
| `choices` | the states that `approve --to` takes |
| `changed` | what has changed since the start: the number of `files`, the first `paths`, and the lines `added` and `removed`; null without evidence |
| `checks` | the last verdict of each check: its `state`, `verdict`, `reason` and `tree`; `is_current` if the files have not changed since |
| `answer` | the answer that is stored and that a resume will use: its `verdict`, `text` and `to`; null if there is none |
"""


def parser_of(verb: str) -> Parser:
    return parsing.parser_of(args_of(verb))


def commands_page() -> Iterator[str]:
    yield from ("# Commands", "", *INTRO.splitlines(), "")
    width = max(len(command) for command, _ in EXAMPLES)
    examples = (f"{command:<{width}}  # {what}" for command, what in EXAMPLES)
    yield from fenced("\n".join(examples), "sh")
    plain = ", ".join(code(verb) for verb in VERBS if not _has_output_options(parser_of(verb)))
    yield from (f"All verbs except {plain}", *COMMON.splitlines(), "")
    for group in dict.fromkeys(verb.group for verb in VERBS.values()):
        verbs = [name for name, verb in VERBS.items() if verb.group == group]
        linked = ", ".join(f"[{name}](#ll-loop-{name})" for name in verbs)
        yield f"- {group}: {linked}"
    yield ""
    short = ", ".join(f"`{name}` for `{' '.join(words)}`" for name, words in ALIASES.items())
    topics = ", ".join(map(code, TOPICS))
    yield f"Short forms: {short}. `ll-loop help TOPIC` has pages on {topics}."
    yield ""
    for verb in VERBS:
        yield from verb_part(verb)
    yield from ("## JSON output", "", *JSON.splitlines())


def _has_output_options(parser: Parser) -> bool:
    known = {option for action in parser._actions for option in action.option_strings}
    return known.issuperset(OUTPUT)


def verb_part(verb: str) -> Iterator[str]:
    parser = parser_of(verb)
    summary, _, examples = (parser.description or "").partition("\n\nExamples:\n")
    yield from (f"## ll-loop {verb}", "", sentence(" ".join(summary.split())), "")
    if examples:
        yield from fenced(commented(examples), "sh")
    rows = [option_row(action) for action in _actions(parser)]
    if rows:
        yield from table(("", "meaning"), rows)


def commented(examples: str) -> str:
    """Examples with their explanations as comments, so that they can be copied."""
    lines = []
    for line in examples.splitlines():
        command, gap, what = line.strip().partition("  ")
        lines.append(f"{command}{gap}# {what}" if what else command)
    return "\n".join(_aligned(lines))


def _aligned(lines: list[str]) -> Iterator[str]:
    parts = [line.partition("  # ") for line in lines]
    width = max(len(command) for command, _, _ in parts)
    for command, gap, what in parts:
        yield f"{command:<{width}}  # {what.strip()}" if gap else command


def _actions(parser: Parser) -> Iterator[argparse.Action]:
    common = {"--help", *(OUTPUT if _has_output_options(parser) else ())}
    for action in parser._actions:
        if common.isdisjoint(action.option_strings) and action.help != argparse.SUPPRESS:
            yield action


def option_row(action: argparse.Action) -> tuple[str, str]:
    shown = ", ".join(code(_spelled(option, action)) for option in action.option_strings)
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not shown:
        word = "|".join(map(str, action.choices)) if action.choices else name
        shown = code(f"[{word}]" if action.nargs in ("?", "*") else word)
    return shown, sentence(action.help) if action.help else ""


def _spelled(option: str, action: argparse.Action) -> str:
    if action.nargs == 0:
        return option
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices and action.metavar is None:
        value = "|".join(map(str, action.choices))
    return f"{option} [{value}]" if action.nargs == "?" else f"{option} {value}"
