"""Values in real shells: hostile text arrives as text, or is refused; nothing of it is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from little_loops.templates.render import (
    LARGEST,
    RefusedScript,
    Script,
    ValueNotANumber,
    check_shell,
    lookup_in,
    render_shell,
)

SHELLS = {"sh": "dash", "bash": "bash"}
CANARY = "CANARY"
# The interpreter of the tests first: a wrapper called `python3` can be slow.
PATH = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
VALUE = "${captured.x.output}"

HOSTILE = [
    "$(touch CANARY)",
    "`touch CANARY`",
    "; touch CANARY",
    "& touch CANARY &",
    "| touch CANARY",
    "|| touch CANARY",
    "\ntouch CANARY\n",
    "'; touch CANARY; '",
    "'$(touch CANARY)'",
    '"; touch CANARY; "',
    '"$(touch CANARY)"',
    "'\"$(touch CANARY)\"'",
    "\\'; touch CANARY; \\'",
    "\\$(touch CANARY)",
    "${X:-$(touch CANARY)}",
    "$((a[$(touch CANARY)]))",
    "a[$(touch CANARY)]",
    "x=$(touch CANARY)",
    "a[$(touch CANARY)]=1",
    "($(touch CANARY))",
    "> CANARY",
    ">CANARY",
    ") ; touch CANARY ; (",
    "} ; touch CANARY ; {",
    ";; esac; touch CANARY",
    "\nE\ntouch CANARY\n",
    "E\n$(touch CANARY)\nE",
    "# \ntouch CANARY",
    "touch CANARY",
    "a[$(touch${IFS}CANARY)]",
    "-v a[$(touch${IFS}CANARY)]",
    "! -v a[$(touch${IFS}CANARY)]",
    "-va[$(touch CANARY)]",
    "-v",
    "-ctouch CANARY",
    "x/e;1e touch CANARY;s/a",
    "-e touch CANARY",
    'BEGIN { system("touch CANARY") }',
    "1e touch CANARY",
    "import os; os.system('touch CANARY')",
    "${LL_V1} $LL_V1 ${captured.x.output} $${",
    "~ * ? [a-z] {a,b} !! ^a^b",
    "a  b\tc\nd ",
    "ünï→\u2028\u202e\x1b[31m\x07\r\x7f",
    "'\"\\`$&|;<>()[]{}*?!#~=%^,@/ \t\n",
]

# A place is a script, and what it prints of a value.
SAME: Callable[[str], str] = str
PLACES: dict[str, tuple[str, Callable[[str], str]]] = {
    "an argument": ("printf %s @", SAME),
    "part of an argument": ("printf %s a@b", lambda value: f"a{value}b"),
    "double quotes": ('printf %s "a @ b"', lambda value: f"a {value} b"),
    "single quotes": ("printf %s 'a @ b'", lambda value: f"a {value} b"),
    "quotes of all kinds": ("printf %s '@'@\"@\"", lambda value: value * 3),
    "an assignment": ('v=@; printf %s "$v"', SAME),
    "an assignment before a command": ("v=@ sh -c 'printf %s \"$v\"'", SAME),
    "an exported variable": ("export v=@; sh -c 'printf %s \"$v\"'", SAME),
    "env": ("env v=@ sh -c 'printf %s \"$v\"'", SAME),
    "a here-document": ("cat <<E\n@\nE\n", lambda value: f"{value}\n"),
    "a here-document with tabs": ("cat <<-E\n\ta @ b\n\tE\n", lambda value: f"a {value} b\n"),
    "a here-document with quotes": ("cat <<E\n'@' \"@\"\nE\n", lambda v: f"'{v}' \"{v}\"\n"),
    "a substitution": ("printf %s \"$(printf '%sx' @)\"", lambda value: f"{value}x"),
    "deeper": ('printf %s "$(printf \'%s\' "$(printf \'%sx\' "@")")"', lambda v: f"{v}x"),
    "a substitution in a document": ("cat <<E\n$(printf '%sx' @)\nE\n", lambda v: f"{v}x\n"),
    "a for loop": ('for v in @ end; do printf "%s|" "$v"; done', lambda v: f"{v}|end|"),
    "a case": ("case @ in *) printf %s @;; esac", SAME),
    "a pattern": ('case "$LL_V1" in @) printf %s @;; *) printf no;; esac', SAME),
    "a test": ("if [ @ = '@' ]; then printf %s \"@\"; fi", SAME),
    "a test with numbers": ("[ @ -gt 3 ] 2>/dev/null; [ 3 -gt @ ] 2>/dev/null; printf %s @", SAME),
    "a group and a subshell": ("{ (printf %s @); } | cat", SAME),
    "a function": ('f() { printf %s "$1" @; }; f @', lambda value: value * 2),
    "set": ('set -- @; printf %s "$#$1"', lambda value: f"1{value}"),
    "a comment": ("# @ '\nprintf done # @", lambda _: "done"),
    "a program's argument": ("sh -c 'printf %s \"$1\"' sh @", SAME),
    "python's argument": (
        "python3 -c 'import sys; sys.stdout.buffer.write(sys.argv[1].encode())' @",
        SAME,
    ),
    "jq's argument": ("jq -jn --arg v @ '$v'", SAME),
    "a substitution in an expansion": ('printf %s "${X:-$(printf %sx @)}"', lambda v: f"{v}x"),
    "a test of a substitution": (
        'if [ "$(printf %sx @)" = @x ] && [ ! "@" = b ]; then printf %s @; fi',
        SAME,
    ),
    "a pipe": ("printf %s @ | cat | { cat; }", SAME),
    "a pipe into a program": ("printf %s @ | sh -c 'cat; true'", SAME),
    "xargs": ("printf '%s\\0' @ | xargs -0 printf %s", SAME),
    "a pipeline beside a program": ("printf %s @ || echo exit 1 | sh; echo : | sh", SAME),
    "the author's word with data in it": ("printf %s ${context.note:q}", lambda v: f"it's {v}"),
    "data in the author's text": ("${context.say}", lambda value: f"said: {value}"),
}
CONTEXT = {"note": f"it's {VALUE}", "say": f"printf %s 'said: {VALUE}'"}
QUICK = [name for name in PLACES if "python" not in name and "jq" not in name]


class RunOutcome(NamedTuple):
    exit_code: int
    output: str


@pytest.fixture
def run(tmp_path: Path):
    """Run a script of ours in a real shell; afterwards nothing of a value may have run."""

    def run(script: Script, shell: str) -> RunOutcome:
        done = subprocess.run(
            [SHELLS[shell], "-c", script.text],
            env={"PATH": PATH, "LC_ALL": "C.UTF-8", **script.env},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert not (tmp_path / CANARY).exists(), script
        return RunOutcome(done.returncode, done.stdout.decode())

    return run


def rendered(action: str, value: object, shell: str) -> Script:
    lookup = lookup_in({"captured": {"x": {"output": value}}})
    return render_shell(action.replace("@", VALUE), lookup, CONTEXT, shell)


def test_the_matrix_is_as_large_as_promised():
    assert (len(HOSTILE) >= 32, len(PLACES) >= 20) == (True, True)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_value_that_is_run_would_be_noticed(shell, run, tmp_path):
    script = rendered("${captured.x.output:raw}", f"touch {CANARY}", shell)
    with pytest.raises(AssertionError):
        run(script, shell)
    assert (tmp_path / CANARY).exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("place", QUICK)
def test_hostile_text_arrives_as_text(place, shell, run):
    action, expected = PLACES[place]
    for value in HOSTILE:
        assert run(rendered(action, value, shell), shell).output == expected(value), value


@pytest.mark.parametrize("place", sorted(PLACES.keys() - set(QUICK)))
def test_hostile_text_is_no_program_of_others(place, run):
    action, expected = PLACES[place]
    if not shutil.which(action.split()[0]):
        pytest.skip("not installed here")
    for value in HOSTILE:
        assert run(rendered(action, value, "sh"), "sh").output == expected(value), value


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "action",
    [
        *("@", "'@'", '"@" x', "A=b @", "if @; then :; fi", ": && @", "(@)", "{ @; }", "! @"),
        *("echo $(@)", "exec @", "command @", "env @", "nohup @", "xargs @", "$EMPTY @"),
        *("echo `printf %s @`", "echo $((@ + 1))", "((@))", "echo $[@]", "[[ @ -gt 3 ]]"),
        *("echo ${X:-@}", "echo ${X[@]}", "cat <<'E'\n@\nE\n", "echo $'@'", "cat <<@\n@\n"),
        *("eval @", "eval \"echo '@'\"", "sh -c @", 'bash -ec "@"', "dash -c 'echo @'"),
        *("python3 -c 'print(@)'", "perl -e '@'", "awk '@'", "sed '@' /dev/null", "jq -n '@'"),
        *("sh <<E\n@\nE\n", "python3 - <<E\n@\nE\n", "bash <<< @", "find . -exec sh -c @ {} +"),
        *("let @", "declare -i n=@", "declare -i n; n=@", "declare @", "declare -a n=@"),
        *("n[@]=1", "n=([@]=1)", "test -v @", "[ -v @ ]", "printf -v @ x", "read @ </dev/null"),
        *(
            "trap @ EXIT",
            "alias a=@",
            "echo \\@",
            'echo "\\@"',
            "echo 'a @",
            "for @ in a; do :; done",
        ),
        *('eval "$(echo @)"', 'sh -c "$(echo @)"', 'bash -c "x=$(echo @)"', "$(echo @)"),
        *("$(echo @) x", 'trap "$(echo @)" EXIT', 'awk "$(echo @)" /dev/null'),
        *('python3 -c "$(echo @)"', "declare -i x=$(echo @)", "[[ -v @ ]]", "[[ 3 -lt @ ]]"),
        *('eval "${X:-$(echo @)}"', "sed $(echo @) /dev/null"),
        *("[ @ @ ]", "test @ @", "[ ! @ @ ]", "[ -@ @ ]", "[ ! -v @ ]"),
        *("RANDOM=@", "OPTIND=@", "HISTCMD=$(echo @)", "PS4=@; set -x; :", "export PS4=@"),
        *("BASH_ENV=@ bash -c :", "env ENV=@ sh -i", "compgen -W @", "wait -n -p @", "jobs -x @"),
        *("mapfile -C @ -c 1 x", "declare -n r=@", ". /dev/stdin <<E\n@\nE\n"),
        *("awk -f - <<E\n@\nE\n", "sed -f - /dev/null <<E\n@\nE\n", "perl -n <<E\n@\nE\n"),
        *(
            "source @",
            ". @",
            "env -S@",
            "env --split-string=@",
            "flock x awk @",
            "stdbuf -oL sed @",
        ),
        *("sh ${captured.x.file}", "sh < ${captured.x.file}", "sed -f ${captured.x.file} x"),
    ],
)
def test_no_code_position_takes_a_value(action, shell):
    action = action.replace("@", VALUE)
    assert any(not each.warning for each in check_shell(action, {}, shell))
    with pytest.raises(RefusedScript):
        rendered(action, "harmless", shell)


@pytest.mark.parametrize(
    "action",
    [*("source <(echo @)", ". <(echo @)", "bash <<< @", "sh < <(echo @)", "bash <(echo @)")],
)
def test_no_code_position_of_bash_takes_a_value(action):
    with pytest.raises(RefusedScript):
        rendered(action, "harmless", "bash")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "action",
    [
        *('x=@; eval "$x"', "for x in @; do $x; done", 'x=@; sed "s/a/$x/" f', "x=@; read $x"),
        *("x=@; [ $x -gt 3 ]", "x=@; echo $((x))", 'x=@; printf "$x"', "x=@; let x+=1"),
        *("x=@; bash -c '[[ $x -gt 3 ]]'", "export x=@; bash -c '((x))'"),
        *("(($(echo @)))", "echo $(($(echo @)))", "[[ $(echo @) -eq 1 ]]", "[ $(echo @) -gt 3 ]"),
        *('printf "$(echo @)" x', 'sed -n p "$(echo @)"'),
    ],
)
def test_a_value_in_code_by_way_of_a_variable_or_a_substitution_is_warned_of(action, shell):
    (said,) = check_shell(action.replace("@", VALUE), {}, shell)
    assert said.warning


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("echo @ | sh", id="a pipe"),
        pytest.param("cat <<E | bash\n@\nE\n", id="a here-document and a pipe"),
        pytest.param("{ sh; } <<E\n@\nE\n", id="a group of commands"),
        pytest.param("echo @ > >(sh); wait $!", id="a process"),
        pytest.param("echo @ > f; sh f", id="a file"),
        pytest.param("exec 3< <(echo @); sh <&3", id="a descriptor"),
        pytest.param('f() { eval "$1"; }; f @', id="an argument of a function"),
        pytest.param('set -- @; eval "$1"', id="a positional parameter"),
        pytest.param('read -r x <<< @; eval "$x"', id="read"),
        pytest.param('x=@; y=$x; eval "$y"', id="another variable"),
        pytest.param('x=$(echo @); eval "$x"', id="what a command printed"),
        pytest.param("printf '%s\\0' @ | xargs -0I{} sh -c '{}'", id="xargs"),
    ],
)
def test_what_the_script_does_with_a_value_is_the_authors(action, run, tmp_path):
    """Not noticed, and run: `docs/security.md` names these, and claims no more."""
    assert check_shell(action.replace("@", VALUE), {}, "bash") == []
    with pytest.raises(AssertionError):
        run(rendered(action, "touch CANARY", "bash"), "bash")
    assert (tmp_path / CANARY).exists()


BASH_TEXTS: dict[str, str] = {
    "not empty": "[[ -n @ ]] && printf %s @",
    "alone, and in quotes": "[[ @ && \"@\" && '@' ]] && printf %s @",
    "equal": "[[ @ == '@' ]] && printf %s @",
    "not equal": "[[ a != @ && @ != a ]] && printf %s @",
    "beside a number": "[[ 1 -lt 2 && -n @ ]] && printf %s @",
    "a file": "[[ -e @ || -t @ || @ -nt x || -o @ ]]; printf %s @",
    "in order": "[[ @ < a || @ > a || ( @ =~ @ ) ]] 2>/dev/null; printf %s @",
}


@pytest.mark.parametrize("test", BASH_TEXTS)
def test_hostile_text_arrives_in_double_brackets(test, run):
    for value in HOSTILE:
        assert run(rendered(BASH_TEXTS[test], value, "bash"), "bash").output == value, value


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("action", ["sed -n p @", "printf @ x", "sh @", "perl -e 1 @", "python3 @"])
def test_no_value_brings_options_along(action, shell, run):
    for value in ["-e1e touch CANARY", "-va[$(touch CANARY)]", "-ctouch CANARY", "--expression=1e"]:
        with pytest.raises(RefusedScript):
            run(rendered(action, value, shell), shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("action", "value", "output"),
    [
        pytest.param("printf '<%s>' @", "a  b\tc\nd", "<a><b><c><d>", id="blanks"),
        pytest.param(
            "printf '<%s>' @", "* $(touch CANARY) ;", "<*><$(touch><CANARY)><;>", id="hostile"
        ),
        pytest.param("printf '<%s>' @", ["a b", "", "c"], "<a b><><c>", id="a list"),
        pytest.param("printf '<%s>' @ x", "", "<x>", id="none"),
        pytest.param("printf '<%s>' a@b", "1 2", "<a1><2b>", id="glued"),
        pytest.param('for v in @; do printf "<%s>" "$v"; done', "1 2", "<1><2>", id="for"),
    ],
)
def test_words_are_arguments(action, value, output, shell, run):
    script = rendered(action.replace("@", "${captured.x.output:words}"), value, shell)
    assert run(script, shell).output == output


NUMBER_PLACES = (
    *("echo $((@ + 1))", "((@ > 3)); echo 6", "[[ @ -gt 3 ]] && echo 6", "let n=@+1; echo $n"),
    *(
        'eval "echo $((@ + 1))"',
        "n=@; echo $((n + 1))",
        "declare -i n=@+1; echo $n",
        "echo `expr @ + 1`",
    ),
    *("awk 'BEGIN { print @ + 1 }'", "bash -c 'echo $((@ + 1))'", "cat <<'E'\n@\nE\n:;echo 6"),
)


@pytest.mark.parametrize("action", NUMBER_PLACES)
def test_a_number_may_stand_anywhere_and_nothing_else_is_one(action, run):
    for modifier in ("int", "number"):
        with_number = action.replace("@", f"${{captured.x.output:{modifier}}}")
        assert check_shell(with_number, {}, "bash") == []
        assert run(rendered(with_number, " 5\n", "bash"), "bash").output.endswith("6\n")
        for value in HOSTILE:
            with pytest.raises(ValueNotANumber):
                rendered(with_number, value, "bash")


DESIGN = lookup_in(
    {
        "captured": {"error_count": {"output": "5"}, "lint_count": {"output": "0\n0"}},
        "prev": {"output": "o", "stderr": "e", "exit_code": 1, "duration_ms": 7, "state": "check"},
        "state": {"name": "fix", "iteration": 3, "attempt": 2},
        "loop": {
            "name": "fix-types",
            "started_at": "2026-01-15T10:30:00Z",
            "elapsed_ms": 154000,
            "elapsed": "2m 34s",
        },
        "env": {"HOME": "/home/me", "PATH": "/bin:/usr/bin", "CI": "true"},
    }
)
CI_AWARE = """\
if [ "${env.CI}" = "true" ]; then
  echo "CI mode: creating issue instead of fixing"
  # Would transition to create_issue state
else
  /ll:manage_issue bug fix
fi
"""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("action", "output"),
    [
        ("${context.metric_cmd}", "mypy src/\n"),
        ("echo 'Found ${captured.error_count.output} errors'", "Found 5 errors\n"),
        ("echo 'Fixed all errors in ${loop.elapsed}'", "Fixed all errors in 2m 34s\n"),
        ("echo ${prev.output} ${prev.stderr} ${prev.exit_code}", "o e 1\n"),
        ("echo ${prev.duration_ms} ${prev.state}", "7 check\n"),
        ("echo ${state.name} ${state.iteration} ${state.attempt}", "fix 3 2\n"),
        ("echo ${loop.name} ${loop.started_at}", "fix-types 2026-01-15T10:30:00Z\n"),
        ("echo ${loop.elapsed_ms} ${loop.elapsed}", "154000 2m 34s\n"),
        ("echo ${env.HOME} ${env.PATH} '${env.UNSET}'", "/home/me /bin:/usr/bin \n"),
        (CI_AWARE, "CI mode: creating issue instead of fixing\n"),
        ("echo '$${x}' \"$${x}\" $${x} '$${context.a}'", "${x} ${x} ${x} ${context.a}\n"),
        ("cat <<E\n$${x} $${a,b}\nE\necho $${a,b}", "${x} ${a,b}\n${a,b}\n"),
        ("cat <<'E'\n$${x}\nE\n# $${x}", "${x}\n"),
        ('echo "\\$${x}" "$(echo "$${x}")"', "${x} ${x}\n"),
        ("echo ${env.UNSET:-none} ${captured.gone.output:-0}", "none 0\n"),
        ("echo ${state.iteration}>&1", "3\n"),
        ("echo $((${prev.exit_code} + ${state.iteration}))", "4\n"),
        ("echo ${HOME:-unset} ${NOPE:-y} ${#NOPE}", "unset y 0\n"),
    ],
)
def test_the_forms_of_the_design(action, output, shell, run):
    context = {"target_dir": "src/", "metric_cmd": "echo mypy ${context.target_dir}"}
    assert run(render_shell(action, DESIGN, context, shell), shell) == RunOutcome(0, output)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_largest_value_arrives_and_no_larger_one_is_tried(shell, run):
    largest = "x" * (LARGEST - len("LL_V1=\0"))
    assert run(rendered("printf %s @ | wc -c", largest, shell), shell).output.strip() == "131065"


@pytest.mark.parametrize("shell", SHELLS)
def test_bytes_that_are_no_text_arrive(shell, run):
    script = rendered("printf %s @ | od -An -tx1", "a\udcffb", shell)
    assert run(script, shell).output.split() == ["61", "ff", "62"]
