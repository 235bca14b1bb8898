"""Where in a script a value stands.

`@` in these scripts is where a value will be put; a real one is written `¤`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.templates.shell.positions import HOLE, Place, Use
from little_loops.templates.shell.script import places


def told(script: str, shell: str = "sh") -> list[str]:
    """Each place in few words: how it is quoted, `+` if it may be split, or why it is refused."""
    script = script.replace("@", HOLE).replace("¤", "@")
    return [in_words(place) for place in places(script, shell)]


def in_words(place: Place) -> str:
    if place.refused:
        through = f" through {place.through}" if place.through else ""
        return f"no: {place.refused}" + (f" ({place.of})" if place.of else "") + through
    said = place.quote + ("+" if place.splits else "")
    said += f", option of {place.option_of}" if place.option_of else ""
    said += f", run by {place.file_of}" if place.file_of else ""
    return said + (f", {used(place.evaluated)}" if place.evaluated else "")


def used(use: Use) -> str:
    return f"{use.name} is {use.reason}" + (f" of {use.of}" if use.of else "")


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
        pytest.param("echo $x $1 $$ $? ${?} ${x:-'}'} `date` @", ["bare+"], id="expansions"),
        pytest.param('echo "$x ${x:-"}"} `date` $((1 + (2)))" @', ["bare+"], id="quoted ones"),
        pytest.param("echo \"${x%'c'}\" @", ["bare+"], id="harmless quotes in an expansion"),
        pytest.param("echo ${x:-$y} ${x:-\\}} @", ["bare+"], id="nested expansions"),
        pytest.param('echo $((x "1" + `date` + $(cat x))) @', ["bare+"], id="arithmetic"),
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
        pytest.param("$CMD @", ["no: vanishing"], id="after what may be empty"),
        pytest.param('$SUDO $CMD "@"', ["no: vanishing"], id="after two of these"),
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
        pytest.param("{ " * 101 + ":", "more than 100 levels of nesting", id="groups"),
        pytest.param('"${x:-' * 50 + '}"' * 50, "more than 40 levels of nesting", id="braces"),
    ],
)
def test_where_shells_differ_what_follows_is_refused(script, what):
    assert told(f"echo @\n{script}\necho @") == ["bare+", f"no: unclear ({what})"]


@pytest.mark.parametrize("script", ["echo $'it\\'s' '@'", "ls &> x @", "ls &>> x @"])
def test_where_only_sh_is_unclear_bash_is_not(script):
    assert [place.refused for place in places(script.replace("@", HOLE), "sh")] == ["unclear"]
    assert [place.refused for place in places(script.replace("@", HOLE), "bash")] == [""]


NUMBERS = ["bare, n is arithmetic", "bare, m is arithmetic"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("n=@; echo $((n + 1))", ["bare, n is arithmetic"], id="arithmetic"),
        pytest.param("n=@; (( n > 3 ))", ["bare, n is arithmetic"], id="arithmetic command"),
        pytest.param("n=@; [[ $n -gt 3 ]]", ["bare, n is test"], id="double brackets"),
        pytest.param("n=@; [[ -z $n || $n =~ ^[0-9]+ ]]", ["bare"], id="texts are not evaluated"),
        pytest.param("n=@; [[ -v $n ]]", ["bare, n is test"], id="names are"),
        pytest.param("[[ `cat @` ]]", ["no: backticks"], id="backticks in a test"),
        pytest.param("n=@ m=@; echo $((m))", ["bare", "bare, m is arithmetic"], id="the right one"),
        pytest.param("n=`@`; echo $((n))", ["no: backticks"], id="refused anyway"),
        pytest.param('n=@; [ "$n" -gt 3 ]', ["bare"], id="brackets evaluate nothing"),
        pytest.param("n=@; [ $n -gt 3 ]", ["bare, n is operator of ["], id="unless it is split"),
        pytest.param("echo ${x:n} ${y[m]}; n=@ m=@", NUMBERS, id="offsets and subscripts"),
        pytest.param("n=@ m=@; echo ${y[¤]:$n} ${y[*]} ${#y[m]}", NUMBERS, id="of arrays"),
        pytest.param("n=@ m=@; a[n]=1 b=([m]=2)", NUMBERS, id="assigned elements"),
        pytest.param(
            "n=@; echo ${n} ${n:-1} ${n%.} ${#n} ${n¤Q} ${n[0]} ${n:0:1}", ["bare"], id="not"
        ),
        pytest.param("n=@; echo ${!n}", ["bare, n is arithmetic"], id="a name in a variable"),
        pytest.param("n=@; echo ${n¤P}", ["bare, n is arithmetic"], id="a prompt"),
        pytest.param(
            "declare -i n; read n <<< @", ["bare, n is arithmetic"], id="an integer is read"
        ),
        pytest.param('x=@; eval "$x"', ["bare, x is program of eval"], id="eval"),
        pytest.param('eval "$x"; x=@', ["bare, x is program of eval"], id="whatever comes first"),
        pytest.param('eval "`echo $x`"; x=@', ["bare, x is program of eval"], id="in backticks"),
        pytest.param("x=@; $x", ["bare, x is command"], id="a command"),
        pytest.param("x=@; read $x", ["bare, x is name of read"], id="a name"),
        pytest.param('x=@; printf "$x"', ["bare, x is option of printf"], id="an option"),
        pytest.param("x=@; sh <<E\n$x\nE", ["bare, x is program of sh"], id="a document"),
        pytest.param("x=@; PS4=$x", ["bare, x is variable of PS4"], id="a prompt's text"),
        pytest.param("x=@; y=$x; z=a$y; sh -c $z", ["bare, x is program of sh"], id="over others"),
        pytest.param("x=@; y=$x; y=$y; $z", ["bare"], id="in a circle"),
        pytest.param("x=$(cat @); $x", ["bare+, x is command"], id="by a substitution"),
        pytest.param(": ${x:=$(cat @)}; $x", ["bare+, x is command"], id="by default"),
        pytest.param("export x=@; $x", ["bare, x is command"], id="exported"),
        pytest.param("x=(a @); ${x[1]}", ["bare+, x is command"], id="in an array"),
        pytest.param("for x in a @; do $x; done", ["bare+, x is command"], id="in a loop"),
        pytest.param("read -r x <<< @; $x", ["bare, x is command"], id="read"),
        pytest.param("read x <<E\n@\nE\n$x", ["document, x is command"], id="from a document"),
        pytest.param(
            "cat @ | while read x; do $x; done", ["bare+, x is command"], id="from a pipe"
        ),
        pytest.param("while read x; do $x; done < @", ["bare, x is command"], id="into a group"),
        pytest.param(
            "cat <<E | while read x\n@\nE\ndo $x; done", ["document, x is command"], id="both"
        ),
        pytest.param('set -- @; eval "$¤"', ["bare+, 1 is program of eval"], id="set"),
        pytest.param('f() { eval "$1"; }; f @', ["bare+, 1 is program of eval"], id="a function"),
        pytest.param("f() { ${2}; }; f @", ["bare+, 1 is command"], id="in braces"),
        pytest.param("f() { ${¤:1}; }; f @", ["bare+, 1 is command"], id="some of them"),
        pytest.param('f() { echo "$1"; }; f @', ["bare+"], id="a harmless function"),
    ],
)
def test_a_variable_that_is_evaluated_later(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('eval "$(cat @)"', "no: program (eval)", id="eval"),
        pytest.param("eval a\"$(cat '@')\"b", "no: program (eval)", id="part of a word"),
        pytest.param('eval "$(echo "$(cat @)")"', "no: program (eval)", id="deeper"),
        pytest.param('eval "${x:-$(cat @)}"', "no: program (eval)", id="in an expansion"),
        pytest.param('sh -c "$(cat @)"', "no: program (sh)", id="sh"),
        pytest.param('sed "s/a/$(cat @)/" f', "no: program (sed)", id="sed"),
        pytest.param("sed $(cat @) p f", "no: program (sed)", id="options of sed"),
        pytest.param("$(cat @) x", "no: command", id="a command"),
        pytest.param("$(cat @) sed p", "no: command", id="a command, or nothing"),
        pytest.param("a/$(cat @) x", "no: command", id="in a path"),
        pytest.param("read $(cat @)", "no: name (read)", id="a name"),
        pytest.param("declare -i x=$(cat @)", "no: name (declare)", id="an integer"),
        pytest.param("declare -i x; x=$(cat @)", "no: arithmetic", id="an integer, later"),
        pytest.param("OPTIND=$(cat @)", "no: variable (OPTIND)", id="an integer of the shell's"),
        pytest.param("echo $((1 + $(cat @)))", "no: arithmetic", id="arithmetic"),
        pytest.param("(($(cat @)))", "no: arithmetic", id="arithmetic command"),
        pytest.param("echo ${x:$(cat @)}", "no: arithmetic", id="an offset"),
        pytest.param("x=([$(cat @)]=1)", "no: arithmetic", id="a subscript"),
        pytest.param("[[ $(cat @) -eq 1 ]]", "no: test", id="double brackets"),
        pytest.param("[ $(cat @) -eq 1 ]", "no: operator ([)", id="brackets, split"),
        pytest.param('printf "$(cat @)"', "no: option (printf)", id="an option"),
        pytest.param('sed -n p "$(cat @)"', "no: option (sed)", id="an option of sed"),
        pytest.param("sh <<E\n$(cat @)\nE", "no: program (sh)", id="a document"),
        pytest.param('sh <<< "$(cat @)"', "no: program (sh)", id="a here-string"),
    ],
)
def test_what_a_substitution_prints_stands_where_that_stands(script, expected):
    assert told(script, "bash") == [f"{expected} through `$(…)`"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("[ $(cat @ | wc -l) -gt 3 ]", id="lines"),
        pytest.param("[ $(cat @ | wc -l | tr -d ' ') -gt 3 ]", id="lines without blanks"),
        pytest.param("[ $(cat @ | grep -c error) -gt 3 ]", id="matches"),
        pytest.param("[ $(cat @ | grep -ic '^e [0-9]' || true) -gt 3 ]", id="matches or nothing"),
        pytest.param("[ $(cat @ | grep -c error || echo 0) -gt 3 ]", id="matches or none"),
        pytest.param("echo $(($(cat @ | wc) + $(cat x | wc -l)))", id="in arithmetic"),
        pytest.param("[[ $(cat @ | wc -l) -gt 3 ]]", id="in double brackets"),
        pytest.param("n=$(cat @ | wc -l); echo $((n + 1))", id="in a variable"),
        pytest.param('$(echo "$(cat @)" | wc -l)', id="by way of another"),
        pytest.param("eval $(cat x; : | wc -l)$(cat @ | wc -l)", id="beside another"),
        pytest.param("(cat @ | wc -l) | sh", id="in a subshell"),
    ],
)
def test_what_is_counted_is_a_number(script):
    assert told(script, "bash") == ["bare+"]


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param("< @", id="a file"),
        pytest.param("<<E\n@\nE\n", id="a document"),
        pytest.param("wc -l @", id="a file's name"),
        pytest.param("grep -c x* @", id="names of files"),
        pytest.param("grep -c @", id="what may be an option"),
        pytest.param("grep -c '@'", id="the same, in quotes"),
        pytest.param('grep -c "$x"$(cat @)', id="any number of words"),
        pytest.param("grep -cH x @", id="names of files besides"),
        pytest.param("tr -d x < @", id="not counted"),
        pytest.param("cat @ | wc -l | tee", id="handed on"),
        pytest.param("wc -l; cat @", id="and something else"),
        pytest.param("cat @ && wc -l", id="something else first"),
        pytest.param("wc -l > >(cat @)", id="something else on the way"),
        pytest.param("if x; then cat @; fi", id="in a compound command"),
        pytest.param("(cat @)", id="in a subshell"),
        pytest.param("wc() { cat; }; cat @ | wc", id="by a function of that name"),
    ],
)
def test_what_is_not_only_counted_stands_where_it_is_printed(commands):
    assert told(f"$( {commands})", "bash") == ["no: command through `$(…)`"]


def test_what_is_run_before_it_is_counted_is_run():
    assert told("[ $(echo @ | sh | wc -l) -gt 3 ]") == ["no: program (sh) through a pipe"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('echo "$(cat @)" $(cat @)', ["bare+"] * 2, id="arguments"),
        pytest.param('x=$(cat @); [ "$x" = "$(cat @)" ]', ["bare+"] * 2, id="compared"),
        pytest.param("echo ${x:-$(cat @)} ${x#$(cat @)}", ["bare+"] * 2, id="expansions"),
        pytest.param('printf -- "$(cat @)"', ["bare+"], id="behind two dashes"),
        pytest.param('printf "$x @" "$(cat @)"', ["double", "bare+"], id="beside an option"),
        pytest.param('printf "@$(cat x)"', ["double, option of printf"], id="before another"),
        pytest.param(
            'printf "$(cat @)@"', ["no: option (printf) through `$(…)`", "double"], id="in one word"
        ),
        pytest.param('eval "$(ls # \'@\n)"', ["comment"], id="in a comment"),
        pytest.param("diff <(cat @) <(cat @)", ["bare+"] * 2, id="as files"),
    ],
)
def test_a_substitution_may_stand_where_a_value_may(script, expected):
    assert told(script, "bash") == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("cat @ | sh", "(sh)", id="one command"),
        pytest.param("cat @ | tee x | sh -x", "(sh)", id="several"),
        pytest.param("cat @ |& sh", "(sh)", id="with its errors"),
        pytest.param("cat @ |\n# then\nsh", "(sh)", id="over lines"),
        pytest.param("cat @ | sudo -u me bash -s", "(bash)", id="by a prefix"),
        pytest.param("cat @ | ssh host bash -s", "(bash)", id="somewhere else"),
        pytest.param("cat @ | python3 -", "(python)", id="python"),
        pytest.param("cat @ | sh /dev/stdin", "(sh)", id="as a file"),
        pytest.param("cat @ | . /dev/stdin", "(source)", id="sourced"),
        pytest.param("cat @ | awk -f - x", "(awk)", id="a program's file"),
        pytest.param("cat @ | sed --file=/dev/stdin x", "(sed)", id="the same, glued"),
        pytest.param("cat @ | (cd x; sh)", "(sh)", id="into a subshell"),
        pytest.param("cat @ | { cat | sh; }", "(sh)", id="into a group"),
        pytest.param("cat @ | if :; then sh; fi", "(sh)", id="into an if"),
        pytest.param("cat @ | case a in a) sh;; esac", "(sh)", id="into a case"),
        pytest.param("cat @ | echo $(sh)", "(sh)", id="into a substitution"),
        pytest.param("{ :; cat @; } | sh", "(sh)", id="out of a group"),
        pytest.param("(cat @; ls) | sh", "(sh)", id="out of a subshell"),
        pytest.param("for x in a; do cat @; done | sh", "(sh)", id="out of a loop"),
        pytest.param("f() { sh; }; cat @ | f", "(sh)", id="into a function"),
        pytest.param("function f { sh; }; cat @ | f", "(sh)", id="into a function in words"),
        pytest.param("function f() { sh; }; cat @ | f", "(sh)", id="into one with both"),
        pytest.param("cat @ > >(sh)", "(sh)", id="into a process"),
        pytest.param("cat @ | tee >(sh) x", "(sh)", id="into a process on the way"),
        pytest.param("cat @ | xargs sh -c", "(sh)", id="xargs"),
        pytest.param("cat @ | xargs env", "(xargs)", id="xargs and a prefix"),
        pytest.param("cat @ | xargs -I{} sh -c 'x {}'", "(sh)", id="xargs with a mark"),
    ],
)
def test_what_a_pipe_carries_into_a_program_is_its_text(script, expected):
    assert told(script, "bash") == [f"no: program {expected} through a pipe"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("cat <<E | sh\n@\nE", id="a pipe"),
        pytest.param("cat <<E |\n@\nE\ncat | sh", id="a pipe behind it"),
        pytest.param("{ sh; } <<E\n@\nE", id="a group"),
        pytest.param("(sh) <<E\n@\nE", id="a subshell"),
        pytest.param("case a in a) sh;; esac <<E\n@\nE", id="a case"),
        pytest.param("while :; do sh; done <<< @", id="a here-string into a loop"),
        pytest.param("f() { sh; }; f <<< @", id="into a function"),
        pytest.param("f() { sh; } <<< @", id="into each call of it"),
        pytest.param("sh < @", id="a file"),
        pytest.param("sh < <(cat @)", id="what is a file"),
        pytest.param("ssh host sh <<E\n@\nE", id="somewhere else"),
    ],
)
def test_what_is_on_the_input_of_a_program_is_its_text(script):
    (place,) = places(script.replace("@", HOLE), "bash")
    assert (place.refused, place.of) == ("program", "sh")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("cat @ | grep x || ls | sh", ["bare+"], id="another pipeline"),
        pytest.param("cat @; ls | sh", ["bare+"], id="another command"),
        pytest.param("cat @ & ls | sh", ["bare+"], id="in the background"),
        pytest.param("cat @\nls | sh", ["bare+"], id="another line"),
        pytest.param("if cat @; then ls | sh; else ls | sh; fi", ["bare+"], id="another branch"),
        pytest.param("{ cat @; ls; }; ls | sh", ["bare+"], id="another group"),
        pytest.param("cat @ | sh x", ["bare+"], id="a script reads it"),
        pytest.param("cat @ | python3 -c pass @", ["bare+", "bare+"], id="a program reads it"),
        pytest.param("cat @ | python3 -m json.tool", ["bare+"], id="a module reads it"),
        pytest.param("ls | sh -s -- @", ["bare+"], id="an argument"),
        pytest.param("cat @ | xargs -n 1 echo", ["bare+"], id="xargs"),
        pytest.param("cat @ | xargs -I{} mv {} x", ["bare+"], id="xargs with a mark"),
        pytest.param("cat @ | xargs", ["bare+"], id="xargs alone"),
        pytest.param("while read x; do ls; done < <(cat @)", ["bare+"], id="read in a loop"),
        pytest.param("cat <<E | tr a b\n@\nE", ["document"], id="a harmless reader"),
        pytest.param("grep sh <<< @", ["bare"], id="no program but its name"),
        pytest.param("} | sh; echo @", ["bare+"], id="a brace out of place"),
        pytest.param("f() (sh); cat @ | g", ["bare+"], id="another function"),
    ],
)
def test_a_pipe_into_something_else_is_fine(script, expected):
    assert told(script, "bash") == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("sh @", ["bare+, option of sh, run by sh"], id="sh"),
        pytest.param("sh -e -- @", ["bare+"], id="behind two dashes"),
        pytest.param("sed -f @ x", ["bare, run by sed"], id="sed"),
        pytest.param("sh <(cat @)", ["no: program (sh) through `<(…)`"], id="a process"),
        pytest.param("sed -f <(cat @) x", ["no: program (sed) through `<(…)`"], id="sed and one"),
        pytest.param("source <(cat @)", ["no: program (source) through `$(…)`"], id="sourced"),
        pytest.param("cat <(cat @)", ["bare+"], id="not run"),
    ],
)
def test_files_that_are_run(script, expected):
    assert told(script, "bash") == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("x=(a); declare x=@", ["no: name"], id="before"),
        pytest.param("declare x=@; x=(a)", ["no: name"], id="behind"),
        pytest.param("declare -a x; local x=@", ["no: name"], id="declared"),
        pytest.param("mapfile x; declare x=@", ["no: name"], id="read"),
        pytest.param("x=(a); export x=@", ["bare"], id="exported"),
        pytest.param("x=(a); declare y=@", ["bare"], id="another"),
    ],
)
def test_what_is_declared_may_be_a_list(script, expected):
    assert told(script, "bash") == expected


def test_of_a_script_that_is_not_balanced_no_more_is_told():
    assert told("n=@; echo $((n)) '") == ["no: unbalanced (a `'` that is not closed)"]


def test_where_the_reader_is_lost_nothing_is_under_way():
    """What was read already may be going somewhere that cannot be seen."""
    lost = "no: unclear (`coproc`)"
    assert told('echo @\neval "$(cat @; coproc sh)"') == ["bare+", lost]
    assert told("cat @ | coproc sh") == [lost]


def test_a_script_no_shell_can_be_given_is_not_read():
    script = "echo @;" + " " * 128 * 1024
    assert told(script) == ["no: unclear (more than 131072 characters)"]


shellish = st.lists(
    st.sampled_from(
        [
            *("@", "'", '"', "\\", "`", "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "\n"),
            *(" ", "#", "$(", "${", "$((", "))", "((", "[[ ", " ]]", "$'", "<<E\n", "\nE\n", "=("),
            *("case x in ", " esac ", "a) ", ";;", "for x in ", "echo ", "A=", "sh -c ", "sed "),
            *(
                " | ",
                "{ ",
                "; }",
                "read x",
                "$x",
                "f() { ",
                "sh;",
                "if ",
                "; then ",
                "; fi",
                "<(",
                ">(",
            ),
            *("time ", "sudo ", "declare -i ", "xargs ", "env ", "-e", "--", "f()", "\\\n", "&>"),
        ]
    ),
    max_size=30,
).map("".join)


@given(shellish, st.sampled_from(["sh", "bash"]))
def test_every_script_gets_an_answer(script, shell):
    assert len(told(script, shell)) == script.count("@")
