"""Where in a script a value stands.

`@` in these scripts is where a value will be put; a real one is written `¤`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.templates.shell.positions import HOLE, ScriptPosition, Use
from little_loops.templates.shell.reader import read_script


def told(script: str, shell: str = "sh") -> list[str]:
    """Each place in few words: how it is quoted, `+` if it may be split, or why it is refused."""
    script = script.replace("@", HOLE).replace("¤", "@")
    return [in_words(place) for place in read_script(script, shell).places]


def in_words(place: ScriptPosition) -> str:
    if place.refused:
        return f"no: {place.refused}" + (f" ({place.of})" if place.of else "")
    said = place.quote + ("+" if place.splits else "")
    said += f", option of {place.option_of}" if place.option_of else ""
    said += f", run by {place.file_of}" if place.file_of else ""
    return said + (f", {used(place.used)}" if place.used else "")


def used(use: Use) -> str:
    return f"{use.name or '$(…)'} is {use.reason}" + (f" of {use.of}" if use.of else "")


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
        pytest.param('[[ -n "@" ]]', ["double"], id="a string in double brackets"),
        pytest.param(
            "[[ @ == '@' && (\n@ < b) ]]; ls @", ["bare", "single", "bare", "bare+"], id="texts"
        ),
        pytest.param("[[ 1 -lt 2 && -n @ || @ ]]", ["bare"] * 2, id="beside numbers"),
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
        pytest.param("0<x @", ["no: command"], id="after a descriptor to read from"),
        pytest.param("{fd}<x @", ["no: command"], id="after a named one"),
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
        pytest.param("${CMD} @", ["no: vanishing"], id="after one in braces"),
        pytest.param("`cmd` @", ["no: vanishing"], id="after backticks"),
        pytest.param("$(cmd) @", ["no: vanishing"], id="after a substitution"),
        pytest.param(
            "echo ${x:-`@`} $((`@`))", ["no: backticks"] * 2, id="the inner reason counts"
        ),
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
        pytest.param("[[ @ -gt 3 ]]", ["no: test"], id="a number in double brackets"),
        pytest.param("[[ a && (\n3 -le '@') ]]", ["no: test"], id="on the right"),
        pytest.param(
            "[[ @ -eq 1 || @ -ne 1 || @ -lt 1 || @ -le 1 || @ -gt 1 || @ -ge 1 ]]",
            ["no: test"] * 6,
            id="every comparison of numbers",
        ),
        pytest.param('[[ -v @ || -R "@" ]]', ["no: name"] * 2, id="a name in double brackets"),
        pytest.param("[[ `cat @` ]]", ["no: backticks"], id="backticks in double brackets"),
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
        pytest.param(
            "echo $[ a[1] + @ ] @", ["no: arithmetic", "bare+"], id="old arithmetic with an index"
        ),
        pytest.param("echo `a` `echo @@ @`", ["no: backticks"] * 3, id="several backticks"),
        pytest.param("a && b && @", ["no: command"], id="after two others"),
        pytest.param("if a; then b; fi; @ c", ["no: command"], id="after an if"),
        pytest.param("x=(); @", ["no: command"], id="after an empty array"),
        pytest.param("sh <<E\n@\nE", ["no: program (sh)"], id="a program on standard input"),
        pytest.param("sh <<'E'\n@\nE", ["no: literal document (sh)"], id="the same, quoted"),
        pytest.param("bash <<< '@'", ["no: program (bash)"], id="a program in a here-string"),
    ],
)
def test_no_value_may_stand(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    "name",
    [
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "RANDOM",
        "SRANDOM",
        "OPTIND",
        "HISTCMD",
        "SECONDS",
        "LINENO",
    ],
)
def test_variables_that_the_shell_evaluates(name):
    assert told(f"{name}=@") == [f"no: variable ({name})"]


@pytest.mark.parametrize("program", ["sh", "bash", "dash"])
def test_a_program_within_the_script_is_read_too(program):
    assert told(f"x=@; {program} -c 'echo $(($x))'") == ["bare, x is arithmetic"]
    assert told(f"x=@; {program} -c 'echo $(($x))' # $y @")[0] == "bare, x is arithmetic"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("echo '' @ '' '@'", ["bare+", "single"], id="nothing in quotes"),
        pytest.param("x=(a @ b); echo @", ["bare+", "bare+"], id="an array"),
        pytest.param("cat <(echo @) > >(cat @)", ["bare+", "bare+"], id="process substitution"),
        pytest.param("for x in @; do echo @; done; echo @", ["bare+"] * 3, id="for"),
        pytest.param("select x in @; do echo @; done; echo @", ["bare+"] * 3, id="select"),
        pytest.param("until a; do echo @; done; echo @", ["bare+"] * 2, id="until"),
    ],
)
def test_values_may_stand_in_compound_commands(script, expected):
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
        pytest.param("ls)", "an extra `)`", id="one too many"),
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
        pytest.param("echo ${\tls; }", "a command in `${…}`", id="command after a tab"),
        pytest.param("echo ${\nls; }", "a command in `${…}`", id="command on the next line"),
        pytest.param("echo ${|ls; }", "a command in `${…}`", id="command for its variable"),
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
        pytest.param("cat <<`x`\n`x`\n", "the delimiter of a here-document", id="ticks in it"),
        pytest.param("cat <<'a\nb'\n", "the delimiter of a here-document", id="a line end in it"),
        pytest.param(
            "cat <<EF\nE\\\nF\n", "the delimiter of a here-document over two lines", id="in two"
        ),
        pytest.param(
            "x=$(cat <<E)\na\nE", "a here-document that continues after `$(…)`", id="goes on"
        ),
        pytest.param(
            "cat <<E $(ls\n)\na\nE", "a here-document that continues after `$(…)`", id="goes before"
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
    for shell, refused in (("sh", "unclear"), ("bash", "")):
        (place,) = read_script(script.replace("@", HOLE), shell).places
        assert place.refused == refused


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("n=@; echo $((n + 1))", ["bare, n is arithmetic"], id="arithmetic"),
        pytest.param("n=@; (( n > 3 ))", ["bare, n is arithmetic"], id="arithmetic command"),
        pytest.param("n=@; [[ $n -gt 3 ]]", ["bare, n is test"], id="double brackets"),
        pytest.param("n=@; [[ n -gt 3 ]]", ["bare, n is test"], id="a name is enough"),
        pytest.param("n=@; [[ -z $n || $n =~ ^[0-9]+ ]]", ["bare"], id="texts are not evaluated"),
        pytest.param("n=@; [[ -v $n ]]", ["bare, n is name"], id="names are"),
        pytest.param("n=@; [[ -v n ]]", ["bare"], id="asking for a variable is fine"),
        pytest.param("n=@; let n+=1", ["bare, n is program of let"], id="let"),
        pytest.param(
            'n=@; let "x = $n"', ["bare, n is program of let"], id="let with a dollar sign"
        ),
        pytest.param("n=@ m=@; echo $((m))", ["bare", "bare, m is arithmetic"], id="the right one"),
        pytest.param("n=`@`; echo $((n))", ["no: backticks"], id="refused anyway"),
        pytest.param('n=@; [ "$n" -gt 3 ]', ["bare"], id="brackets evaluate nothing"),
        pytest.param("n=@; [ $n -gt 3 ]", ["bare, n is operator of ["], id="unless it is split"),
        pytest.param("n=@; echo ${n} ${n:-1} ${n%.} ${#n} ${n¤Q} ${n[0]}", ["bare"], id="not"),
        pytest.param('x=@; eval "$x"', ["bare, x is program of eval"], id="eval"),
        pytest.param('eval "$x"; x=@', ["bare, x is program of eval"], id="in any order"),
        pytest.param("x=@; eval 'echo \"$x\"'", ["bare"], id="eval of a literal text"),
        pytest.param("x=@; eval '((x))'", ["bare, x is arithmetic"], id="arithmetic in that"),
        pytest.param("x=@; bash -c '[[ $x -eq 1 ]]'", ["bare, x is test"], id="in a shell"),
        pytest.param('eval "`echo $x`"; x=@', ["bare, x is program of eval"], id="in backticks"),
        pytest.param('awk "/$x/" f; x=@', ["bare, x is program of awk"], id="awk"),
        pytest.param("awk '/$x/' f; x=@", ["bare"], id="not expanded"),
        pytest.param("x=@; $x", ["bare, x is command"], id="a command"),
        pytest.param("x=@; $x sed p f", ["bare, x is command"], id="a command, or nothing"),
        pytest.param("x=@; read $x", ["bare, x is name of read"], id="a name"),
        pytest.param('x=@; printf "$x"', ["bare, x is option of printf"], id="an option"),
        pytest.param('x=@; printf -- "$x"', ["bare"], id="behind two dashes"),
        pytest.param("x=@; sh <<E\n$x\nE", ["bare, x is program of sh"], id="a document"),
        pytest.param("x=@; PS4=$x", ["bare, x is variable of PS4"], id="a prompt's text"),
        pytest.param("export x=@; $x", ["bare, x is command"], id="exported"),
        pytest.param("export y x=@; $y", ["bare"], id="another one exported"),
        pytest.param("x=(a @); ${x[1]}", ["bare+, x is command"], id="in an array"),
        pytest.param("for x in a @; do $x; done", ["bare+, x is command"], id="in a loop"),
    ],
)
def test_a_variable_with_a_value_that_is_named_in_code(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    ("script", "use"),
    [
        pytest.param("(( COUNT > 3 ))", "COUNT is arithmetic", id="arithmetic"),
        pytest.param("[[ $COUNT -gt 3 ]]", "COUNT is test", id="double brackets"),
        pytest.param('sh -c "echo $COUNT"', "COUNT is program of sh", id="a program"),
        pytest.param("sh -c 'echo \"$COUNT\"'", None, id="a variable of a program"),
        pytest.param("bash -c '(( COUNT ))'", "COUNT is arithmetic", id="arithmetic of a program"),
        pytest.param('[ "$COUNT" -gt 3 ]', None, id="brackets"),
    ],
)
def test_the_variables_named_in_code_are_known_without_a_value(script, use):
    found = read_script(script, "bash").uses.get("COUNT")
    assert (used(found) if found else None) == use


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('eval "$(cat @)"', "program (eval)", id="eval"),
        pytest.param("eval a\"$(cat '@')\"b", "program (eval)", id="part of a word"),
        pytest.param('eval "$(echo "$(cat @)")"', "program (eval)", id="deeper"),
        pytest.param('eval "${x:-$(cat @)}"', "program (eval)", id="in an expansion"),
        pytest.param('sed "s/a/$(cat @)/" f', "program (sed)", id="sed"),
        pytest.param("sed $(cat @) p f", "program (sed)", id="options of sed"),
        pytest.param("$(cat @) x", "command", id="a command"),
        pytest.param("$(cat @) sed p", "command", id="a command, or nothing"),
        pytest.param("a/$(cat @) x", "command", id="in a path"),
        pytest.param("read $(cat @)", "name (read)", id="a name"),
        pytest.param("declare -i x=$(cat @)", "name (declare)", id="an integer"),
        pytest.param("OPTIND=$(cat @)", "variable (OPTIND)", id="an integer of the shell's"),
        pytest.param("sh <<E\n$(cat @)\nE", "program (sh)", id="a document"),
        pytest.param('sh <<< "$(cat @)"', "program (sh)", id="a here-string"),
        pytest.param("sh < <(cat @)", "program (sh)", id="a process as input"),
        pytest.param("source <(cat @)", "program (source)", id="a process"),
    ],
)
def test_a_substitution_in_code_takes_no_value(script, expected):
    assert told(script, "bash") == [f"no: {expected}"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("declare -i x; x=$(cat @)", "arithmetic", id="an integer"),
        pytest.param("echo $((1 + $(cat @)))", "arithmetic", id="arithmetic"),
        pytest.param("(($(cat @)))", "arithmetic", id="arithmetic command"),
        pytest.param("echo $(($(( $(cat @) ))))", "arithmetic", id="arithmetic in arithmetic"),
        pytest.param("x=([$(cat @)]=1)", "arithmetic", id="a subscript"),
        pytest.param("[[ $(cat @) -eq 1 ]]", "test", id="double brackets"),
        pytest.param("[ $(cat @) -eq 1 ]", "operator of [", id="brackets, split"),
        pytest.param('printf "$(cat @)"', "option of printf", id="an option"),
    ],
)
def test_a_substitution_that_should_be_a_number(script, expected):
    assert told(script, "bash") == [f"bare+, $(…) is {expected}"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('echo "$(cat @)" $(cat @)', ["bare+"] * 2, id="arguments"),
        pytest.param('x=$(cat @); [ "$x" = "$(cat @)" ]', ["bare+"] * 2, id="compared"),
        pytest.param('[[ -n $(cat @) && "$(cat @)" == x ]]', ["bare+"] * 2, id="texts"),
        pytest.param("echo ${x:-$(cat @)} ${x#$(cat @)}", ["bare+"] * 2, id="expansions"),
        pytest.param('printf -- "$(cat @)"', ["bare+"], id="behind two dashes"),
        pytest.param('printf "$x @" "$(cat @)"', ["double", "bare+"], id="beside an option"),
        pytest.param('printf "@$(cat x)"', ["double, option of printf"], id="before another"),
        pytest.param('eval "$(ls # \'@\n)"', ["comment"], id="comment"),
        pytest.param("diff <(cat @) <(cat @)", ["bare+"] * 2, id="as files"),
    ],
)
def test_a_substitution_may_stand_where_a_value_may(script, expected):
    assert told(script, "bash") == expected


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("cat @ | sh", id="a pipe into a program"),
        pytest.param("cat @ | while read x; do $x; done", id="a variable that is read"),
        pytest.param('f() { eval "$1"; }; f @', id="an argument of a function"),
        pytest.param('set -- @; eval "$1"', id="a positional parameter"),
        pytest.param("cat @ | xargs -0I{} sh -c 'x {}'", id="xargs"),
        pytest.param("x=$(cat @); $x", id="a variable with what a command printed"),
        pytest.param("cat @ > >(sh)", id="a process that reads"),
        pytest.param("exec 3< <(cat @); sh <&3", id="a descriptor"),
    ],
)
def test_what_a_script_does_with_a_value_later_is_not_followed(script):
    assert told(script, "bash") == ["bare+"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sh <<E\n@\nE", id="a document"),
        pytest.param("sh <<< @", id="a here-string"),
        pytest.param("sh < @", id="a file"),
        pytest.param("ssh host sh <<E\n@\nE", id="somewhere else"),
    ],
)
def test_what_is_on_the_input_of_a_program_is_its_text(script):
    (place,) = read_script(script.replace("@", HOLE), "bash").places
    assert (place.refused, place.of) == ("program", "sh")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("sh @", ["bare+, option of sh, run by sh"], id="sh"),
        pytest.param("sh -e -- @", ["bare+"], id="behind two dashes"),
        pytest.param("sed -f @ x", ["bare, run by sed"], id="sed"),
        pytest.param("cat <(cat @)", ["bare+"], id="not run"),
        pytest.param("sh <(cat @)", ["no: program (sh)"], id="a process"),
        pytest.param("sed -f <(cat @) x", ["no: program (sed)"], id="sed and a process"),
        pytest.param("sed p <(cat @)", ["bare+"], id="a process as input"),
    ],
)
def test_files_that_are_run(script, expected):
    assert told(script, "bash") == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("echo a; [ -n b ] && printf c", [], id="nothing"),
        pytest.param("declare -r x=1", ["declare"], id="declare"),
        pytest.param("let x=1 y=2", ["let"], id="let"),
        pytest.param("mapfile a b", ["mapfile"], id="mapfile"),
        pytest.param("readarray a b", ["readarray"], id="readarray"),
        pytest.param("shopt -s nullglob", ["shopt"], id="shopt"),
        pytest.param("source a b", ["source"], id="source"),
        pytest.param("typeset -r x=1", ["typeset"], id="typeset"),
        pytest.param("set -eo pipefail", ["pipefail: set -o pipefail"], id="an option of set"),
        pytest.param("echo pipefail; grep -o pipefail x", [], id="a word like it"),
        pytest.param("[[ -n a ]]", ["[["], id="double brackets"),
        pytest.param("function f { ls; }", ["function"], id="function"),
        pytest.param("select x in a; do ls; done", ["select"], id="select"),
        pytest.param("((x > 1))", ["(("], id="arithmetic command"),
        pytest.param("x=(a b)", ["(: x=(…)"], id="array"),
        pytest.param("cat <<< x", ["<<<"], id="here-string"),
        pytest.param("cat <(ls) >(ls)", ["<(", ">("], id="processes"),
        pytest.param("ls &> x", ["&>"], id="both streams"),
        pytest.param("ls &>> x", ["&>>"], id="both streams appended"),
        pytest.param("cat < x > y >> z 2>&1 <<E\nE\n", [], id="other redirections"),
    ],
)
def test_what_not_every_sh_has(script, expected):
    """The words themselves, with the name of the construct where it is another."""
    found = [(script[start:stop], name) for start, stop, name in read_script(script).bash_only]
    assert [text if text == name else f"{text}: {name}" for text, name in found] == expected
    assert read_script(script, "bash").bash_only == ()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("! ls", [0], id="the only command"),
        pytest.param("ls; ! ls", [4], id="the last command"),
        pytest.param("! ls; ls", [], id="another one decides"),
        pytest.param("! ls\nls", [], id="on the next line"),
        pytest.param("! ls | cat", [0], id="of a pipe"),
        pytest.param("! ls && ! cat", [0, 8], id="of both"),
        pytest.param("! ls &&\ncat", [0], id="over two lines"),
        pytest.param("! ls\n\n", [0], id="before empty lines"),
        pytest.param("if ! ls; then ls; fi", [], id="a condition"),
        pytest.param("while ! ls; do ls; done", [], id="of a loop"),
        pytest.param("until ! ls; do ls; done", [], id="of a loop until"),
        pytest.param("for x in a; do ! ls; done", [], id="in a loop"),
        pytest.param("{ ! ls; }", [], id="in a group"),
        pytest.param("(! ls)", [], id="in a subshell"),
        pytest.param("echo $(! ls)", [], id="in a substitution"),
        pytest.param("if a; then b; fi; ! ls", [18], id="after an if"),
        pytest.param("while a; do b; done; ! ls", [21], id="after a loop"),
        pytest.param("{ a; }; ! ls", [8], id="after a group"),
        pytest.param("! ls && { a; b; }", [0], id="before a group"),
        pytest.param("[ ! -f x ]", [], id="of a test"),
    ],
)
def test_where_a_negation_decides(script, expected):
    assert list(read_script(script).negated) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('x=@; sh -c "echo \\$((x)) $y"', ["bare"], id="an expansion"),
        pytest.param('x=@; sh -c "echo \\$((x)) @"', ["bare", "no: program (sh)"], id="a value"),
    ],
)
def test_a_program_is_read_only_if_all_of_it_is_literal(script, expected):
    assert told(script) == expected


@pytest.mark.parametrize(
    ("opens", "closes"), [("$(", ")"), ("$((", "))"), ('"${x:-', '}"'), ("( ", ")")]
)
def test_nesting_is_read_to_forty_levels(opens, closes):
    assert told(f"{opens * 39}1{closes * 39}\necho @") == ["bare+"]
    deeper = "no: unclear (more than 40 levels of nesting)"
    assert told(f"{opens * 40}1{closes * 40}\necho @") == [deeper]


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("echo ${x:-@}", ScriptPosition("bare", "parameter")),
        ("echo $((@))", ScriptPosition("bare", "arithmetic")),
        ("echo `@`", ScriptPosition("bare", "backticks")),
        ("echo $'@'", ScriptPosition("literal", "dollar quotes")),
        ("cat <<'E'\n@\nE", ScriptPosition("literal", "literal document")),
        ("echo \\@", ScriptPosition("bare", "backslash")),
        ('echo "\\@"', ScriptPosition("double", "backslash")),
        ("cat <<E\n\\@\nE", ScriptPosition("document", "backslash")),
        ("echo $@", ScriptPosition("bare", "dollar")),
        ('echo "$@"', ScriptPosition("double", "dollar")),
        ("coproc @", ScriptPosition("bare", "unclear", "`coproc`")),
        ("echo @ '", ScriptPosition("bare", "unbalanced", "a `'` that is not closed")),
        ("# @", ScriptPosition("comment")),
    ],
)
def test_how_a_value_would_be_quoted(script, place):
    (found,) = read_script(script.replace("@", HOLE)).places
    assert found._replace(splits=False) == place


def test_of_a_script_that_is_not_balanced_no_more_is_told():
    assert told("n=@; echo $((n)) '") == ["no: unbalanced (a `'` that is not closed)"]


def test_where_the_reader_is_lost_no_later_value_may_stand():
    lost = "no: unclear (`coproc`)"
    assert told("echo @\nls @ $(cat @; coproc sh @)") == ["bare+", lost, "bare+", lost]


def test_a_script_no_shell_can_be_given_is_not_read():
    script = "echo @;" + " " * 128 * 1024
    assert told(script) == ["no: unclear (more than 131072 characters)"]
    assert told(script[: 128 * 1024]) == ["bare+"]


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
