"""What is said about a value that stands in the wrong place."""

from __future__ import annotations

from typing import get_args

import pytest

from little_loops.templates.render import check_shell, references
from little_loops.templates.shell.positions import Reason, ScriptPosition
from little_loops.templates.shell.refusals import why
from little_loops.templates.shell.rules import GRAMMARS

VALUE = "${captured.n.output}"


def told(action: str, context: dict[str, object] | None = None, shell: str = "sh") -> list[str]:
    return [
        f"{'warning' if each.warning else 'error'}: {each.message} = {each.help}"
        for each in check_shell(action.replace("@", VALUE), context or {}, shell)
    ]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        pytest.param(
            "@ --version",
            "error: `@` is used as a command name, and would be run = "
            "write the command literally, and pass the value to it as an argument",
            id="command",
        ),
        pytest.param(
            '$CMD "@"',
            "error: `@` would be run as a command if the expansion before it is empty = "
            "write the command literally, or put the expansion before it in double quotes",
            id="behind what may be empty",
        ),
        pytest.param(
            "sh -c 'echo @'",
            "error: `@` is inside the program text of `sh`, and would be run = "
            "pass it as an argument: `sh -c 'echo \"$1\"' sh @`",
            id="shell",
        ),
        pytest.param(
            "python3 -c 'print(\"@\")'",
            "error: `@` is inside the program text of `python`, and would be run = "
            "pass it as an argument: `python3 -c 'import sys; print(sys.argv[1])' @`",
            id="python",
        ),
        pytest.param(
            "perl -e 'print \"@\"'",
            "error: `@` is inside the program text of `perl`, and would be run = "
            "pass it as an argument: `perl -e 'print $ARGV[0]' -- @`",
            id="perl",
        ),
        pytest.param(
            "awk '/@/' log",
            "error: `@` is inside the program text of `awk`, and would be run = "
            "pass it as a variable: `awk -v value=@ '{ print value }'`",
            id="awk",
        ),
        pytest.param(
            "sed 's/@/x/' log",
            "error: `@` is inside the program text of `sed`, and would be run = "
            "`sed` has no variables: use `awk -v value=@` or a program that does",
            id="sed",
        ),
        pytest.param(
            "jq '.a == \"@\"' log",
            "error: `@` is inside the program text of `jq`, and would be run = "
            "pass it as a variable: `jq --arg value @ '.name == $value'`",
            id="jq",
        ),
        pytest.param(
            "eval echo @",
            "error: `@` is inside the program text of `eval`, and would be run = "
            "run the command itself, with the value as its argument",
            id="eval",
        ),
        pytest.param(
            "let n=@",
            "error: `@` is inside the program text of `let`, and would be run = "
            "write `${captured.n.output:int}` if it is a whole number",
            id="let",
        ),
        pytest.param(
            "trap 'echo @' EXIT",
            "error: `@` is inside the program text of `trap`, and would be run = "
            "first assign it to a variable, on a separate line: `value=@`, "
            'and use `"$value"` in the text of the trap',
            id="trap",
        ),
        pytest.param(
            "alias x='echo @'",
            "error: `@` is inside the program text of `alias`, and would be run = "
            "use a function, and pass it the value as an argument",
            id="alias",
        ),
        pytest.param(
            "bash <<'E'\n@\nE",
            "error: `@` is inside the program text of `bash`, and would be run = "
            "pass it as an argument: `bash -c 'echo \"$1\"' bash @`",
            id="a program in a here-document",
        ),
        pytest.param(
            "read @",
            "error: `@` is used as a variable name, which bash evaluates = "
            "write the name literally",
            id="name",
        ),
        pytest.param(
            "echo $((@ + 1))",
            "error: `@` is used in shell arithmetic, where bash runs commands it finds in a value = "
            "write `${captured.n.output:int}` if it is a whole number",
            id="arithmetic",
        ),
        pytest.param(
            "[[ @ -gt 3 ]]",
            "error: `@` is compared as a number in `[[ … ]]`, "
            "where bash runs commands it finds in a value = "
            "write `${captured.n.output:int}` if it is a whole number",
            id="test",
        ),
        pytest.param(
            "[ @ @ ]",
            "error: `@` may be read as an operator of `[`, "
            "and bash evaluates what follows `-v` = write an operator between two values",
            id="operator",
        ),
        pytest.param(
            "PS4=@",
            "error: `@` is assigned to `PS4`, which the shell evaluates = use your own variable",
            id="variable",
        ),
        pytest.param(
            "compgen -W @",
            "error: `@` is inside the program text of `compgen`, and would be run = "
            "pass the value to `compgen` as an argument or a variable",
            id="a program without words of its own",
        ),
        pytest.param(
            "echo `cat @`",
            "error: `@` is inside backticks = write `$(…)` instead of the backticks",
            id="backticks",
        ),
        pytest.param(
            "echo ${x:-@}",
            "error: `@` is inside a `${…}` expansion of the shell = "
            "first assign it to a variable, on a separate line: `value=@`",
            id="parameter",
        ),
        pytest.param(
            "cat <<'E'\n@\nE",
            "error: `@` is inside a here-document with a quoted delimiter, "
            "where nothing is replaced = remove the quotes from the delimiter, "
            "and write `\\$` for the shell's own dollar signs",
            id="literal document",
        ),
        pytest.param(
            "echo $'@'",
            "error: `@` is inside `$'…'`, where nothing is replaced = use plain double quotes",
            id="dollar quotes",
        ),
        pytest.param(
            "cat <<@",
            "error: `@` is used as a here-document's delimiter = write the delimiter literally",
            id="delimiter",
        ),
        pytest.param(
            "echo \\@",
            "error: `@` directly follows a backslash = "
            "write `$${` for a literal `${`, or remove the backslash",
            id="backslash",
        ),
        pytest.param(
            "echo 'a @",
            "error: `@` is in a script with a `'` that is not closed, "
            "so its position is not known = "
            "close every quote, bracket and here-document",
            id="unbalanced",
        ),
        pytest.param(
            "coproc cat @",
            "error: `@` is in a script with `coproc`, so its position is not certain = "
            "first assign it to a variable, on a separate line: `value=@`, "
            "at the top of the script",
            id="unclear",
        ),
    ],
)
def test_a_refusal_names_the_place_and_the_way_out(action, message):
    assert set(told(action)) == {message.replace("@", VALUE)}


def test_every_reason_and_every_program_has_its_words():
    reasons = [reason for reason in get_args(Reason) if reason not in ("", "program")]
    (reference,) = references(VALUE)
    spoken = [why(ScriptPosition("bare", reason, "sh"), reference) for reason in reasons]
    spoken += [why(ScriptPosition("bare", "program", program), reference) for program in GRAMMARS]
    assert all(message and help for message, help in spoken)


@pytest.mark.parametrize(
    ("programs", "help"),
    [
        ("sh bash dash", "pass it as an argument: `NAME -c 'echo \"$1\"' NAME @`"),
        (
            "awk gawk mawk nawk",
            "pass it as a variable: `NAME -v value=@ '{ print value }'`",
        ),
        ("jq", "pass it as a variable: `jq --arg value @ '.name == $value'`"),
        (
            "sed gsed",
            "`NAME` has no variables: use `awk -v value=@` or a program that does",
        ),
        ("eval", "run the command itself, with the value as its argument"),
        ("alias", "use a function, and pass it the value as an argument"),
        (
            "source",
            "write the file name literally, and pass the value to its commands in a variable",
        ),
    ],
)
def test_what_to_do_instead_with_each_program(programs, help):
    (reference,) = references(VALUE)
    for program in programs.split():
        said = why(ScriptPosition("bare", "program", program), reference)[1]
        assert said == help.replace("NAME", program).replace("@", VALUE), program


@pytest.mark.parametrize(
    ("action", "message"),
    [
        pytest.param(
            "${captured.n.output:raw} x",
            "warning: `${captured.n.output:raw}` is inserted into the script unquoted, "
            "so its content runs as code = "
            "remove `:raw` unless you trust whoever writes this value to run commands here",
            id="raw",
        ),
        pytest.param(
            "sed -n p @",
            "warning: `@` is refused if it begins with `-`: "
            "`sed` would read it as an option = write `--` before it: `-- @`",
            id="option",
        ),
        pytest.param(
            "n=@; echo $((n + 1))",
            "warning: `n` holds `@`, and is used in shell arithmetic, "
            "where bash runs commands it finds in a value = "
            "write `${captured.n.output:int}` if it is a whole number",
            id="arithmetic by way of a variable",
        ),
        pytest.param(
            "n=@; [[ $n -eq 1 ]]",
            "warning: `n` holds `@`, and is compared as a number in `[[ … ]]`, "
            "where bash runs commands it finds in a value = "
            "write `${captured.n.output:int}` if it is a whole number",
            id="a test by way of a variable",
        ),
        pytest.param(
            "n=@; [ $n = 1 ]",
            "warning: `n` holds `@`, and may be read as an operator of `[`, "
            "and bash evaluates what follows `-v` = put it in double quotes",
            id="an operator by way of a variable",
        ),
        pytest.param(
            'n=@; printf "$n"',
            "warning: `n` holds `@`, and may begin with `-`, "
            "and `printf` would read it as an option = write `--` before it",
            id="an option by way of a variable",
        ),
        pytest.param(
            'n=@; eval "$n"',
            "warning: `n` holds `@`, and is inside the program text of `eval`, and would be run = "
            "accept only known values first: `case $n in build|test) … esac`",
            id="a program by way of a variable",
        ),
        pytest.param(
            "[[ $(cat @) -gt 3 ]]",
            "warning: `$(…)` may print `@`, and is compared as a number in `[[ … ]]`, "
            "where bash runs commands it finds in a value = "
            'compare with `[ "$(…)" -gt 1 ]`, and calculate with `expr`',
            id="a substitution in a test",
        ),
        pytest.param(
            'echo "\\$${PRICE}"',
            "warning: `\\$${` gives a literal `${`, whatever precedes it = "
            'to put a dollar sign before a value, separate the two: `\\$""${`',
            id="an escape after a backslash",
        ),
        pytest.param(
            "echo $$${HOME}",
            "warning: `$$${` gives a literal `${`, whatever precedes it = "
            'to put a dollar sign before a value, separate the two: `$$""${`',
            id="an escape after a dollar",
        ),
    ],
)
def test_what_may_stand_but_is_risky_is_a_warning(action, message):
    assert told(action) == [message.replace("@", VALUE)]


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("echo @ '@' \"@\"", id="data among arguments"),
        pytest.param("# `@`\nls", id="data in a comment"),
        pytest.param("sed -n p -- @", id="behind two dashes"),
        pytest.param("sed -n p ${captured.n.file} ${loop.run_dir}", id="paths made by the engine"),
        pytest.param("echo $((${captured.n.exit_code} + ${state.iteration}))", id="inert"),
        pytest.param("echo 'it is ${loop.elapsed}", id="inert, whatever the script is like"),
        pytest.param("${state.name:raw} x", id="inert and raw"),
        pytest.param("echo $((${prev.output:int} + 1)) `${env.A:number}`", id="numbers"),
        pytest.param("[[ ${prev.output:int} -gt ${context.list:int} ]]", id="numbers compared"),
        pytest.param("n=${prev.output:int}; ((n > 3))", id="a number in a variable"),
        pytest.param("`${context.cmd}`", id="code"),
        pytest.param("${context.cmd:q} x", id="the author's word as a command"),
        pytest.param("${context.cmd:words} x", id="the author's words as a command"),
        pytest.param("awk ${context.cmd:q} f", id="the author's program"),
        pytest.param("[[ ${context.cmd:q} == x ]]", id="the author's word in a test"),
        pytest.param("ls @ ${context.list:words}", id="words among arguments"),
        pytest.param("echo $${a} '$${a}' \"$${a}\" $'$${a}'", id="escapes"),
        pytest.param("cat <<'E'\n$${a}\nE", id="an escape where nothing is replaced"),
    ],
)
def test_what_is_fine(action):
    assert told(action, {"cmd": "ls -l", "list": ["a b", "c"]}) == []


NO_ROOM = (
    "error: `@` gives any number of words, but only one word is allowed here = "
    "write it between spaces, without quotes, among the arguments of a command"
)


@pytest.mark.parametrize(
    "action",
    ["echo '@'", 'echo "@"', "A=@ ls", "ls > @", "case @ in a) ;; esac", "cat <<E\n@\nE\n"]
    + ["awk -v @ p f", "sudo -u @ ls", "[ @ = a ]", "local x=@", "timeout @ ls"],
)
def test_words_need_room(action):
    for reference in ("${captured.n.output:words}", "${context.list:words}"):
        expected = [NO_ROOM.replace("@", reference)]
        assert told(action.replace("@", reference), {"list": ["a"]}) == expected


def test_the_authors_words_are_data_where_they_hold_data():
    (said,) = told("${context.cmd:q} x", {"cmd": "ls @".replace("@", VALUE)})
    assert said.startswith("error: `${context.cmd:q}` is used as a command name")


@pytest.mark.parametrize("program", ["sh", "python3", "sed -f", "bash -e"])
def test_the_file_with_what_a_command_printed_is_not_run(program):
    reference = "${captured.n.file}"
    name = program.split()[0].removesuffix("3")
    (said,) = told(f"{program} {reference}")
    assert said == (
        f"error: `{reference}` is the output file of a command, and `{name}` would run it "
        "= add `:raw` if you trust whoever writes that output to run commands here"
    )
    assert told(f"{program} ${{prev.file}}") != []
    assert told(f"{program} ${{loop.run_dir}}/x.sh") == []
    assert told(f"{program} ${{context.file}}", {"file": "x.sh"}) == []


@pytest.mark.parametrize(
    "action",
    ['eval "$(echo $${a})"', 'sh -c "$(echo ${context.a:q})"', "echo $(($(echo ${context.a:q})))"]
    + ["echo $(($(echo '$${')))", "echo ${state.name:q} | sh"],
)
def test_what_is_carried_elsewhere_matters_for_data_alone(action):
    assert told(action, {"a": "1"}) == []


@pytest.mark.parametrize("action", ["echo `$${`", "echo $(($${))", "echo ${x:-$${y}", "echo '$${"])
def test_an_escape_needs_a_place_too(action):
    (said,) = told(action)
    assert said.startswith("error: ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(f"cd x; {VALUE}", VALUE), ("cd x; `${context.a:q}`", "${context.a:q}"), ("`$${`", "$${")],
)
def test_a_refusal_points_at_what_the_author_wrote(value, text):
    action = "say ${context.a}; ${context.b}"
    (refusal,) = check_shell(action, {"a": "x", "b": value})
    assert action[refusal.reference.start : refusal.reference.end] == "${context.b}"
    assert refusal.reference.text == text


def test_the_authors_own_number_may_be_compared():
    assert told("[[ ${context.most:q} -gt 3 ]]", {"most": 4}, "bash") == []
