"""Where in a script a value stands.  `@` in these scripts is where a value will be put."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.shell_places import HOLE, Place
from little_loops.fsm.shell_text import places


def told(script: str, shell: str = "sh") -> list[str]:
    """Each place in few words: how it is quoted, `+` if it may be split, or why it is refused."""
    return [in_words(place) for place in places(script.replace("@", HOLE), shell)]


def in_words(place: Place) -> str:
    if place.refused:
        return f"no: {place.refused}" + (f" ({place.of})" if place.of else "")
    said = place.quote + ("+" if place.splits else "")
    said += f", option of {place.option_of}" if place.option_of else ""
    return said + (f", {place.evaluated} is evaluated" if place.evaluated else "")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("echo @", ["bare+"], id="argument"),
        pytest.param("echo a@b", ["bare+"], id="part of an argument"),
        pytest.param('echo "a @ b"', ["double"], id="double quotes"),
        pytest.param("echo 'a @ b'", ["single"], id="single quotes"),
        pytest.param("echo '@'@\"@\"", ["single", "bare+", "double"], id="side by side"),
        pytest.param('echo "it\'s @"', ["double"], id="single inside double"),
        pytest.param("echo 'say \"' @", ["bare+"], id="double inside single"),
        pytest.param('echo "\\"" @', ["bare+"], id="escaped double quote"),
        pytest.param('echo "\\\\" @', ["bare+"], id="escaped backslash"),
        pytest.param("echo \\' @ \\'", ["bare+"], id="escaped single quote"),
        pytest.param("echo 'a\\' @", ["bare+"], id="a backslash in single quotes"),
        pytest.param("echo \\\n @", ["bare+"], id="continued line"),
        pytest.param("# it's @\necho @", ["comment", "bare+"], id="comment"),
        pytest.param("echo a # @", ["comment"], id="comment behind a command"),
        pytest.param("echo a#@ b", ["bare+"], id="no comment inside a word"),
        pytest.param("echo @ #", ["bare+"], id="comment at the end"),
        pytest.param("A=@", ["bare"], id="assignment"),
        pytest.param("A=x@ B='@' echo @", ["bare", "single", "bare+"], id="assignments before"),
        pytest.param("A+=@", ["bare"], id="appended"),
        pytest.param("a[0]=@", ["bare"], id="array element"),
        pytest.param("a=(x @ '@'\n@)", ["bare+", "single", "bare+"], id="array"),
        pytest.param("local -r a=(@)", ["bare+"], id="declared array"),
        pytest.param("echo > @", ["bare"], id="redirection"),
        pytest.param("echo 2>@ @", ["bare", "bare+"], id="redirection of a descriptor"),
        pytest.param("echo {fd}>@ @", ["bare", "bare+"], id="named descriptor"),
        pytest.param("cat < '@' >> @", ["single", "bare"], id="several redirections"),
        pytest.param("cat <<< @", ["bare"], id="here-string"),
        pytest.param("cat <(sort @) >(wc @)", ["bare+", "bare+"], id="process substitution"),
        pytest.param("echo $(cat @)", ["bare+"], id="substitution"),
        pytest.param('echo "a $(cat @ "@") @"', ["bare+", "double", "double"], id="fresh context"),
        pytest.param('echo "$(echo "$(echo \'@\')")"', ["single"], id="deeper"),
        pytest.param("x=$(case a in a) echo @;; esac) y=@", ["bare+", "bare"], id="case in it"),
        pytest.param("if [ @ = a ]; then echo @; fi", ["bare", "bare+"], id="if"),
        pytest.param("for f in @ b; do echo @; done", ["bare+", "bare+"], id="for"),
        pytest.param("for f\nin @\ndo :; done", ["bare+"], id="for over lines"),
        pytest.param("for f; do echo @; done", ["bare+"], id="for without in"),
        pytest.param("select f in @; do break; done", ["bare+"], id="select"),
        pytest.param("case @ in @) echo @;; esac", ["bare", "bare", "bare+"], id="case"),
        pytest.param(
            "case a in\n# note\n(x|'@') echo 1 ;&\n*) echo @ ;;&\nesac\necho @",
            ["single", "bare+", "bare+"],
            id="case with all it can have",
        ),
        pytest.param("case a in ( @ | @ ) :;; esac", ["bare", "bare"], id="case with blanks"),
        pytest.param("echo $$'@' $#'@' $$\"@\"", ["single", "single", "double"], id="process id"),
        pytest.param("case a in a) echo @\nesac; echo @", ["bare+", "bare+"], id="last branch"),
        pytest.param("case a in a) case b in b) :; esac;; esac; echo @", ["bare+"], id="case case"),
        pytest.param("(cd x && echo @) | cat @", ["bare+", "bare+"], id="subshell"),
        pytest.param("f() { echo @; }; f @", ["bare+", "bare+"], id="function"),
        pytest.param("function f { echo @; }", ["bare+"], id="function in words"),
        pytest.param("function f() { echo @; }", ["bare+"], id="function with both"),
        pytest.param("while ! grep @; do :; done < @", ["bare+", "bare"], id="while"),
        pytest.param("time -p grep @", ["bare+"], id="time"),
        pytest.param("time { grep @; }", ["bare+"], id="time of a group"),
        pytest.param("esac; echo @", ["bare+"], id="a word that is out of place"),
        pytest.param(
            "cat <<E @\n@ '@ \"@\nE\necho @",
            ["bare+", *["document"] * 3, "bare+"],
            id="here-document",
        ),
        pytest.param("cat <<-E\n\t@\n\tE\necho @", ["document", "bare+"], id="with tabs"),
        pytest.param("cat <<E\n\tE\n@\nE", ["document"], id="without tabs"),
        pytest.param(
            "cat <<E <<F\n@\nE\n'@\nF\necho '@'", ["document", "document", "single"], id="two"
        ),
        pytest.param("cat <<E | (\n@\nE\ncat @)", ["document", "bare+"], id="before a parenthesis"),
        pytest.param("x=$(cat <<E\n@\nE\n)", ["document"], id="in a substitution"),
        pytest.param("cat <<E\n$(cat @ '@')\nE", ["bare+", "single"], id="a substitution in it"),
        pytest.param("cat <<E\na\\\nE\n@\nE", ["document"], id="a joined line does not end it"),
        pytest.param("cat <<E\na\\\\\nE\necho @", ["bare+"], id="two backslashes join nothing"),
        pytest.param("cat <<'E'\na\\\nE\necho @", ["bare+"], id="nothing joins when quoted"),
        pytest.param("echo $x $1 $$ $? ${x:-'}'} `date` @", ["bare+"], id="expansions"),
        pytest.param('echo "$x ${x:-"}"} `date` $((1 + (2)))" @', ["bare+"], id="quoted ones"),
        pytest.param("echo \"${x%'c'}\" @", ["bare+"], id="harmless quotes in an expansion"),
        pytest.param("echo ${x:-$y} ${x:-\\}} @", ["bare+"], id="nested expansions"),
        pytest.param('echo $((x "1" + `date` + $(cat @))) @', ["bare+", "bare+"], id="arithmetic"),
        pytest.param("echo $'a\\n' @", ["bare+"], id="dollar quotes"),
        pytest.param('echo $"a" "$" $ @', ["bare+"], id="lonely dollars"),
        pytest.param("echo a; echo b & echo c | cat && ls || ls @", ["bare+"], id="operators"),
        pytest.param("printf '%s' @ | tee -a @", ["bare+", "bare+"], id="pipe"),
    ],
)
def test_values_may_stand(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("@", ["no: command"], id="alone"),
        pytest.param("'@' x", ["no: command"], id="quoted"),
        pytest.param("bin/@ x", ["no: command"], id="in a path"),
        pytest.param("A=b @", ["no: command"], id="after an assignment"),
        pytest.param(">x @", ["no: command"], id="after a redirection"),
        pytest.param("2>x @", ["no: command"], id="after a descriptor"),
        pytest.param("naïve=@", ["no: command"], id="no assignment in any shell"),
        pytest.param('"A"=@', ["no: command"], id="a quoted name is no assignment"),
        pytest.param("a[@]=1", ["no: command"], id="subscript"),
        pytest.param(": && @ || @ ; @ & @ | @", ["no: command"] * 5, id="after operators"),
        pytest.param("if @; then @; elif @; then @; else @; fi", ["no: command"] * 5, id="if"),
        pytest.param("while @; do @; done; until ! @; do :; done", ["no: command"] * 3, id="while"),
        pytest.param("{ @; }; ( @ ); f() { @; }; f() @", ["no: command"] * 4, id="groups"),
        pytest.param("case a in a) @;; esac", ["no: command"], id="case"),
        pytest.param('echo $(@) "$(@)"', ["no: command"] * 2, id="substitution"),
        pytest.param("time @", ["no: command"], id="time"),
        pytest.param("time { @; }", ["no: command"], id="time of a group"),
        pytest.param("done @", ["no: command"], id="after the end of a loop"),
        pytest.param("$CMD @", ["no: command"], id="after what may be empty"),
        pytest.param("echo `cat @`", ["no: backticks"], id="backticks"),
        pytest.param('echo "`cat @`"', ["no: backticks"], id="backticks in quotes"),
        pytest.param("echo $((@ + 1))", ["no: arithmetic"], id="arithmetic"),
        pytest.param("echo $[@ + 1]", ["no: arithmetic"], id="old arithmetic"),
        pytest.param("((@ > 1)) && echo", ["no: arithmetic"], id="arithmetic command"),
        pytest.param(
            "for ((i = 0; i < @; i++)); do :; done", ["no: arithmetic"], id="counted loop"
        ),
        pytest.param("a=([@]=1 @)", ["no: arithmetic", "bare+"], id="subscript in an array"),
        pytest.param("declare -i n; n=@", ["no: arithmetic"], id="integer variable"),
        pytest.param("[[ @ == '@' ]]", ["no: test", "no: test"], id="double brackets"),
        pytest.param("[[ a == b && (\n@ < b) ]]; echo @", ["no: test", "bare+"], id="all of it"),
        pytest.param('echo ${x:-@} "${x#@}"', ["no: parameter"] * 2, id="the shell's own"),
        pytest.param("echo ${x:-'@'} ${x:-\"@\"}", ["no: parameter"] * 2, id="quoted in it"),
        pytest.param("cat <<'E'\n@\nE", ["no: literal document"], id="quoted here-document"),
        pytest.param("cat <<\\E\n@\nE", ["no: literal document"], id="escaped here-document"),
        pytest.param(
            "cat <<@\nx\n@",
            ["no: delimiter", "no: unclear (the delimiter of a here-document)"],
            id="delimiter",
        ),
        pytest.param("echo $'@'", ["no: dollar quotes"], id="dollar quotes"),
        pytest.param('echo \\@ "\\@"', ["no: backslash"] * 2, id="backslash"),
        pytest.param('echo $@ "$@"', ["no: dollar"] * 2, id="dollar"),
        pytest.param("for @ in a; do :; done", ["no: name"], id="name of a loop's variable"),
        pytest.param("function @ { :; }", ["no: name"], id="name of a function"),
        pytest.param("sh <<E\n@\nE", ["no: program (sh)"], id="a program on standard input"),
        pytest.param("sh <<'E'\n@\nE", ["no: literal document (sh)"], id="the same, quoted"),
        pytest.param("bash <<< '@'", ["no: program (bash)"], id="a program in a here-string"),
    ],
)
def test_no_value_may_stand(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    ("script", "what"),
    [
        pytest.param("echo 'a", "a `'` that is not closed", id="single quote"),
        pytest.param('echo "a', 'a `"` that is not closed', id="double quote"),
        pytest.param("echo `a", "a backtick that is not closed", id="backtick"),
        pytest.param("echo $'a", "a `$'` that is not closed", id="dollar quote"),
        pytest.param("echo ${a", "a `${` that is not closed", id="expansion"),
        pytest.param("echo $((1", "a `$((` that is not closed", id="arithmetic"),
        pytest.param("echo $(ls", "no `)`", id="substitution"),
        pytest.param("(ls", "no `)`", id="subshell"),
        pytest.param("a=(ls", "no `)`", id="array"),
        pytest.param("ls)", "a `)` too many", id="one too many"),
        pytest.param("[[ a", "no `]]`", id="double brackets"),
        pytest.param("case a in a) ls", "no `esac`", id="case"),
        pytest.param("cat <<E\na", "no line `E` after `<<`", id="here-document"),
        pytest.param("cat <<E", "a here-document without its text", id="nothing of it"),
        pytest.param("cat <<E\n$(\nE\n", "no `)`", id="substitution in a here-document"),
    ],
)
def test_what_is_not_balanced_is_refused_from_the_start(script, what):
    assert told("echo @; " + script) == [f"no: unbalanced ({what})"]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        pytest.param("echo \"${x:-'}'}\"", "a `'` inside `${…}` inside quotes", id="quote in it"),
        pytest.param("echo ${ ls; }", "a command in `${…}`", id="command in braces"),
        pytest.param("echo $'it\\'s'", "`\\'` inside `$'…'`", id="escaped quote"),
        pytest.param("echo `echo '`' ` '", "a backtick inside quotes inside backticks", id="ticks"),
        pytest.param("echo $((ls) | cat)", "`$((` that may be a subshell", id="two parentheses"),
        pytest.param("((ls); ls)", "`((` that may be a subshell", id="two in a row"),
        pytest.param("((1 << 2))", "`<<` inside `((`", id="shift"),
        pytest.param("echo $((1 # 2\n))", "`#` in arithmetic", id="number sign"),
        pytest.param("echo $((1 + \\\n2))", "`\\` in arithmetic", id="backslash"),
        pytest.param("echo $(('a)'))", "quotes in arithmetic", id="quotes"),
        pytest.param("echo $\\\n(ls)", "a line that ends right after `$`", id="cut dollar"),
        pytest.param("cat <\\\n<E", "a line that ends in the middle of a redirection", id="cut"),
        pytest.param("ls &> x", "`&>`, which `sh` may read as `&` and `>`", id="both streams"),
        pytest.param("coproc ls", "`coproc`", id="coproc"),
        pytest.param("ls @(a|b)".replace("@", "x"), "a `(` in the middle of a command", id="glob"),
        pytest.param("a=(b;c)", "`;` in an array", id="array"),
        pytest.param("case a of b) ls;; esac", "a `case` without `in`", id="no in"),
        pytest.param("case a in b c) ls;; esac", "a pattern of `case`", id="pattern"),
        pytest.param("cat <<$x\n$x\n", "the delimiter of a here-document", id="odd delimiter"),
        pytest.param("cat <<\n", "the delimiter of a here-document", id="no delimiter"),
        pytest.param(
            "cat <<EF\nE\\\nF\n", "the delimiter of a here-document over two lines", id="in two"
        ),
        pytest.param(
            "x=$(cat <<E)\na\nE", "a here-document that goes on behind `$(…)`", id="goes on"
        ),
        pytest.param(
            "cat <<E $(ls\n)\na\nE", "a here-document that goes on behind `$(…)`", id="goes before"
        ),
        pytest.param("$(" * 50 + ")" * 50, "more than 40 levels of nesting", id="deep"),
        pytest.param("$((" * 50 + "))" * 50, "more than 40 levels of nesting", id="sums"),
        pytest.param('"${x:-' * 50 + '}"' * 50, "more than 40 levels of nesting", id="braces"),
    ],
)
def test_where_shells_differ_what_follows_is_refused(script, what):
    assert told(f"echo @\n{script}\necho @") == ["bare+", f"no: unclear ({what})"]


@pytest.mark.parametrize("script", ["echo $'it\\'s' '@'", "ls &> x @", "ls &>> x @"])
def test_where_only_sh_is_unclear_bash_is_not(script):
    assert [place.refused for place in places(script.replace("@", HOLE), "sh")] == ["unclear"]
    assert [place.refused for place in places(script.replace("@", HOLE), "bash")] == [""]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("n=@; echo $((n + 1))", ["bare, n is evaluated"], id="arithmetic"),
        pytest.param("n=@; (( n > 3 ))", ["bare, n is evaluated"], id="arithmetic command"),
        pytest.param("n=@; [[ $n -gt 3 ]]", ["bare, n is evaluated"], id="double brackets"),
        pytest.param("n=@ m=@; echo $((m))", ["bare", "bare, m is evaluated"], id="the right one"),
        pytest.param("n=`@`; echo $((n))", ["no: backticks"], id="refused anyway"),
        pytest.param("n=@; [ $n -gt 3 ]", ["bare"], id="brackets evaluate nothing"),
    ],
)
def test_a_variable_that_is_evaluated_later(script, expected):
    assert told(script) == expected


def test_a_script_no_shell_can_be_given_is_not_read():
    script = "echo @;" + " " * 128 * 1024
    assert told(script) == ["no: unclear (more than 131072 characters)"]


shellish = st.lists(
    st.sampled_from(
        [
            *("@", "'", '"', "\\", "`", "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "\n"),
            *(" ", "#", "$(", "${", "$((", "))", "((", "[[ ", " ]]", "$'", "<<E\n", "\nE\n", "=("),
            *("case x in ", " esac ", "a) ", ";;", "for x in ", "echo ", "A=", "sh -c ", "sed "),
            *("time ", "sudo ", "declare -i ", "xargs ", "env ", "-e", "--", "f()", "\\\n", "&>"),
        ]
    ),
    max_size=30,
).map("".join)


@given(shellish, st.sampled_from(["sh", "bash"]))
def test_every_script_gets_an_answer(script, shell):
    assert len(told(script, shell)) == script.count("@")
