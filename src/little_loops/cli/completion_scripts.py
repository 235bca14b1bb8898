"""Completion scripts for bash, zsh and fish, made of the table of verbs and the pages' options.

All three follow one table (`Page`): the options of a verb, what the value of each can be, and what
kind of name its arguments are.  Names are asked for on TAB; everything else stands in the script.
"""

from __future__ import annotations

from argparse import Action
from collections.abc import Iterator, Sequence
from importlib import import_module

from little_loops.cli.commands import ALIASES, VERBS
from little_loops.records import NamedTuple

MARK = "made by `ll-loop completion"
ASKED = "ll-loop completion names"
FILES = "files"
ARGUMENTS = {
    **dict.fromkeys(("run", "validate", "compile", "show", "graph", "trust"), "loops"),
    **dict.fromkeys(("status", "logs", "history", "wait"), "all"),
    **dict.fromkeys(("stop", "attach"), "live"),
    "resume": "runs",
}
"""What kind of name each verb takes."""
VALUES = {"--from": "states", "--state": "states", "--output": FILES, "--scope": FILES}
"""What the value of an option can be, where its choices do not say it."""


class Option(NamedTuple):
    """`choices` are words to choose from; `kind` is what names to ask for, or files."""

    names: tuple[str, ...]
    help: str
    takes_value: bool = False
    choices: tuple[str, ...] = ()
    kind: str = ""


class Page(NamedTuple):
    verb: str
    summary: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()
    kind: str = ""


def script(shell: str) -> str:
    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    return "\n".join(makers[shell](pages())) + "\n"


def pages() -> list[Page]:
    from little_loops.cli.topics import TOPICS  # beside the verbs, only `help` knows them

    found = [_page(verb) for verb in VERBS]
    found += [
        found[list(VERBS).index(words[0])]._replace(verb=alias, summary=f"the same as {words[0]}")
        for alias, words in ALIASES.items()
    ]
    help_words = (*TOPICS, *VERBS)
    return [*found, Page("help", "the page of a verb, or a topic", (), help_words)]


def _page(verb: str) -> Page:
    entry = VERBS[verb]
    parser = import_module(f"little_loops.cli.{entry.module}").parser()
    options, words = [], []
    for action in parser._actions:  # argparse has no other list of them
        if action.option_strings:
            options.append(_option(action))
        elif action.choices:
            words += [str(choice) for choice in action.choices]
    return Page(verb, entry.summary, tuple(options), tuple(words), ARGUMENTS.get(verb, ""))


def _option(action: Action) -> Option:
    kinds = [VALUES[name] for name in action.option_strings if name in VALUES]
    text = (action.help or "").replace("%%", "%")
    return Option(
        names=tuple(action.option_strings),
        help=text if text != "==SUPPRESS==" else "",
        takes_value=action.nargs not in (0, "?"),
        choices=tuple(str(choice) for choice in action.choices or ()),
        kind=kinds[0] if kinds else "",
    )


def quoted(text: str) -> str:
    """In single quotes, as bash and zsh read them."""
    return "'" + text.replace("'", "'\\''") + "'"


def quoted_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ── bash ───────────────────────────────────────────────────────────────────────────────────────


def bash(found: Sequence[Page]) -> list[str]:
    verbs = " ".join(page.verb for page in found)
    return [
        f"# {MARK} bash`",
        *BASH_HEAD,
        f"    local verbs={quoted(verbs)}",
        *BASH_VERB,
        '    case "$verb $before" in',
        *(line for page in found for line in _bash_values(page)),
        "    esac",
        '    case "$verb" in',
        *(line for page in found for line in _bash_page(page)),
        "    esac",
        *BASH_TAIL,
    ]


def _bash_values(page: Page) -> Iterator[str]:
    for option in page.options:
        if option.takes_value:
            patterns = " | ".join(quoted(f"{page.verb} {name}") for name in option.names)
            if option.choices:
                does = f"_ll_loop_reply {quoted(' '.join(option.choices))}; return"
            elif option.kind and option.kind != FILES:
                does = f'_ll_loop_names {option.kind} "$argument"; return'
            else:
                does = "return"
            yield f"        {patterns}) {does} ;;"


def _bash_page(page: Page) -> Iterator[str]:
    flags = " ".join(name for option in page.options for name in option.names)
    yield f"        {page.verb})"
    yield f"            if [[ $cur == -* ]]; then _ll_loop_reply {quoted(flags)}"
    if page.words:
        yield f"            else _ll_loop_reply {quoted(' '.join(page.words))}"
    elif page.kind:
        yield f"            else _ll_loop_names {page.kind}"
    yield "            fi ;;"


BASH_HEAD = r"""
_ll_loop_reply() {
    COMPREPLY=($(compgen -W "$1" -- "$cur"))
}
_ll_loop_names() {
    _ll_loop_reply "$(ll-loop completion names "$@" 2>/dev/null)"
}
_ll_loop() {
    # By blanks alone: `@` and `:` may stand in a word, whatever readline makes of them.
    local line=${COMP_LINE:0:COMP_POINT}
    local cur=${line##*[[:space:]]}
    local words
    read -ra words <<< "$line"
    [[ -n $cur ]] && unset "words[${#words[@]}-1]"
    COMPREPLY=()
""".strip("\n").split("\n")

BASH_VERB = r"""
    local verb=${words[1]-} before=${words[${#words[@]}-1]-} argument='' word
    if [[ ${#words[@]} -le 1 ]]; then
        if [[ $cur == -* ]]; then _ll_loop_reply '--help --version'
        else _ll_loop_reply "$verbs $(ll-loop completion names loops 2>/dev/null)"; fi
        _ll_loop_broken
        return
    fi
    for word in "${words[@]:2}"; do
        [[ $word == -* ]] || { argument=$word; break; }
    done
    [[ " $verbs " == *" $verb "* ]] || { argument=$verb; verb=run; }
""".strip("\n").split("\n")

BASH_TAIL = r"""
    _ll_loop_broken
}
_ll_loop_broken() {
    # Readline replaces only what follows the last character that breaks words for it.
    local kept=${cur%"${cur##*[@:=]}"}
    if [[ -n $kept && $COMP_WORDBREAKS == *"${kept: -1}"* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
}
complete -o bashdefault -o default -F _ll_loop ll-loop
""".strip("\n").split("\n")


# ── zsh ────────────────────────────────────────────────────────────────────────────────────────


def zsh(found: Sequence[Page]) -> list[str]:
    return [
        "#compdef ll-loop",
        f"# {MARK} zsh`",
        *ZSH_HEAD,
        "    local -a verbs=(",
        *(f"        {_described(page.verb, page.summary)}" for page in found),
        "    )",
        *ZSH_VERB,
        '    case "$verb $before" in',
        *(line for page in found for line in _zsh_values(page)),
        "    esac",
        "    local -a options=()",
        '    case "$verb" in',
        *(line for page in found for line in _zsh_page(page)),
        "    esac",
        *ZSH_TAIL,
    ]


def _described(word: str, text: str) -> str:
    return quoted(f"{word}:{text}" if text else word)


def _zsh_values(page: Page) -> Iterator[str]:
    for option in page.options:
        if option.takes_value:
            patterns = " | ".join(quoted(f"{page.verb} {name}") for name in option.names)
            if option.choices:
                does = f"compadd -- {' '.join(option.choices)}"
            elif option.kind == FILES:
                does = "_files"
            elif option.kind:
                does = f'_ll_loop_names {option.kind} "$argument"'
            else:
                does = "_message value"
            yield f"        ({patterns}) {does}; return ;;"


def _zsh_page(page: Page) -> Iterator[str]:
    yield f"        {page.verb})"
    yield "            options=("
    for option in page.options:
        for name in option.names:
            yield f"                {_described(name, option.help)}"
    yield "            )"
    if page.words:
        yield f"            [[ $cur == -* ]] || compadd -- {' '.join(page.words)}"
    elif page.kind:
        yield f"            [[ $cur == -* ]] || _ll_loop_names {page.kind}"
    yield "            ;;"


ZSH_HEAD = r"""
_ll_loop_names() {
    local -a found=(${(f)"$(ll-loop completion names "$@" 2>/dev/null)"})
    compadd -- $found
}
_ll-loop() {
    local cur=${words[CURRENT]} verb=${words[2]} before=${words[CURRENT-1]}
    local -a others=(${words[3,CURRENT-1]:#-*})
    local argument=${others[1]}
""".strip("\n").split("\n")

ZSH_VERB = r"""
    if (( CURRENT == 2 )); then
        _describe -t verbs verb verbs
        _ll_loop_names loops
        return
    fi
    (( ${verbs[(I)$verb:*]} )) || { argument=$verb; verb=run; }
""".strip("\n").split("\n")

ZSH_TAIL = r"""
    if [[ $cur == -* ]]; then _describe -o option options; fi
}
if [[ $funcstack[1] == _ll-loop ]]; then _ll-loop "$@"; else compdef _ll-loop ll-loop; fi
""".strip("\n").split("\n")


# ── fish ───────────────────────────────────────────────────────────────────────────────────────


def fish(found: Sequence[Page]) -> list[str]:
    verbs = " ".join(page.verb for page in found)
    return [
        f"# {MARK} fish`",
        f"set -g __ll_loop_verbs {verbs}",
        *FISH_HEAD,
        *(
            f"complete -c ll-loop -n __ll_loop_first -a {page.verb} -d {quoted_for_fish(page.summary)}"
            for page in found
        ),
        f"complete -c ll-loop -n __ll_loop_first -a '({ASKED} loops)' -d loop",
        *(line for page in found for line in _fish_page(page)),
    ]


def _fish_page(page: Page) -> Iterator[str]:
    when = f"complete -c ll-loop -n '__ll_loop_is {page.verb}'"
    if page.words:
        yield f"{when} -a {quoted_for_fish(' '.join(page.words))}"
    elif page.kind:
        yield f"{when} -a '({ASKED} {page.kind})'"
    for option in page.options:
        names = [
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        ]
        line = f"{when} {' '.join(names)}"
        if option.choices:
            line += f" -x -a {quoted_for_fish(' '.join(option.choices))}"
        elif option.kind == FILES:
            line += " -r -F"
        elif option.kind:
            line += f" -x -a '({ASKED} {option.kind} (__ll_loop_argument))'"
        elif option.takes_value:
            line += " -x"
        yield line + (f" -d {quoted_for_fish(option.help)}" if option.help else "")


FISH_HEAD = r"""
function __ll_loop_first
    test (count (commandline -opc)) -eq 1
end
function __ll_loop_is
    set -l words (commandline -opc)
    test (count $words) -ge 2; or return 1
    set -l verb $words[2]
    contains -- $verb $__ll_loop_verbs; or set verb run
    test "$verb" = "$argv[1]"
end
function __ll_loop_argument
    set -l words (commandline -opc)
    string match -v -- '-*' $words[3..-1] | head -n 1
end
complete -c ll-loop -f
""".strip("\n").split("\n")
