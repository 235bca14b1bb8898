"""Which values there are, and how they are written into a string."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from little_loops.templates.render import (
    FIELDS,
    NAMESPACES,
    RESULT_FIELDS,
    RefusedScript,
    Script,
    TemplateError,
    TooLarge,
    Unresolved,
    ValueNotANumber,
    check_held,
    check_shell,
    check_variable,
    data_for_agent,
    lookup_in,
    parse,
    references,
    render_agent_text,
    render_shell,
    render_text,
    show,
    splice,
    unknown,
)

CONTEXT = {"dir": "src/", "cmd": "mypy ${context.dir}", "list": ["a b", "c"], "none": None}
VALUES: dict[str, dict[str, object]] = {
    "captured": {
        "n": {"output": "3 errors", "stderr": "", "exit_code": 1, "duration_ms": 1234},
        "plan": {"output": "ok", "structured": {"files": ["x y", "z"], "done": True}},
    },
    "prev": {"output": "p", "stderr": "e", "exit_code": 0, "duration_ms": 5, "state": "check"},
    "state": {"name": "fix", "iteration": 2, "attempt": 1},
    "loop": {
        "name": "fix-types",
        "started_at": "2026-01-15T10:30:00Z",
        "elapsed_ms": 154000,
        "elapsed": "2m 34s",
    },
    "env": {"HOME": "/home/me", "EMPTY": ""},
}
LOOKUP = lookup_in(VALUES)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", ""),
        ("plain $HOME ${HOME} ${F%.txt} ${x:-y}", "plain $HOME ${HOME} ${F%.txt} ${x:-y}"),
        ("${context.cmd}", "mypy src/"),
        ("${captured.n.output}", "3 errors"),
        ("${captured.n.stderr}|", "|"),
        ("${captured.n.exit_code} ${captured.n.duration_ms}", "1 1234"),
        ("${captured.plan.structured}", '{"files": ["x y", "z"], "done": true}'),
        ("${captured.plan.structured.files.0}", "x y"),
        ("${captured.plan.structured.done}", "true"),
        ("${prev.output} ${prev.stderr} ${prev.exit_code}", "p e 0"),
        ("${prev.duration_ms} ${prev.state}", "5 check"),
        ("${state.name} ${state.iteration} ${state.attempt}", "fix 2 1"),
        ("${loop.name} ${loop.started_at}", "fix-types 2026-01-15T10:30:00Z"),
        ("${loop.elapsed_ms} ${loop.elapsed}", "154000 2m 34s"),
        ("${env.HOME} ${env.UNSET}.${env.EMPTY}.", "/home/me .."),
        ("${env.UNSET:-a} ${env.EMPTY:-b} ${env.HOME:-c}", "a b /home/me"),
        ("${captured.gone.output:-0}", "0"),
        ("${context.none}${context.none:-x}", "x"),
        ("$${env.HOME} $${ ${env.HOME}", "${env.HOME} ${ /home/me"),
        ("${captured.n.output:raw}", "3 errors"),
        ("${captured.n.output:q} ${env.Q:q:-it's}", "'3 errors' 'it'\\''s'"),
        ("${captured.n.output:words}", "3 errors"),
        ("${captured.plan.structured.files:words}", "x y z"),
        ("${captured.plan.structured.files:q}", '\'["x y", "z"]\''),
        ("${context.list:words} ${context.dir:q}", "a b c 'src/'"),
        ("${context.list}", '["a b", "c"]'),
    ],
)
def test_a_text_is_filled_in(text, result):
    assert render_text(text, LOOKUP, CONTEXT) == result


@pytest.mark.parametrize(
    ("modifier", "value", "text"),
    [
        ("int", "5", "5"),
        ("int", " \t5\r\n", "5"),
        ("int", "-08", "-8"),
        ("int", "+3", "3"),
        ("int", 7, "7"),
        ("number", "2.50 ", "2.50"),
        ("number", ".5", ".5"),
        ("number", "-1e-05", "-1e-05"),
        ("number", 0.1, "0.1"),
        ("number", "9" * 1000, "9" * 1000),
    ],
)
def test_numbers_are_inserted_as_they_are(modifier, value, text):
    lookup = lookup_in({"env": {"A": value}})
    reference = f"${{env.A:{modifier}}}"
    assert render_text(f"a {reference} b", lookup, {}) == f"a {text} b"
    assert render_agent_text(reference, lookup, {}) == text
    assert render_shell(f"eval {reference}", lookup, {}) == Script(f"eval {text}", {})
    own = {"n": "${env.A}"}
    assert render_shell(f"${{context.n:{modifier}}}", lookup, own) == Script(text, {})
    assert show(reference, lookup, {}) == text


@pytest.mark.parametrize(
    ("modifier", "value", "problem"),
    [
        ("int", "5 errors", "a whole number: '5 errors'"),
        ("int", "", "a whole number: it is empty"),
        ("int", None, "a whole number: it is empty"),
        ("int", "1.5", "a whole number: '1.5'"),
        ("int", True, "a whole number: 'true'"),
        ("int", "1\n2", "a whole number: '1\\n2'"),
        ("int", "\u0663", "a whole number: '\u0663'"),
        ("int", "9" * 1001, f"a whole number: '{'9' * 40}…'"),
        ("number", "a[$(id)]", "a number: 'a[$(id)]'"),
        ("number", "nan", "a number: 'nan'"),
        ("number", "0x10", "a number: '0x10'"),
        ("number", "1,5", "a number: '1,5'"),
        ("number", "x" * 40, f"a number: '{'x' * 40}'"),
        ("number", "x" * 41, f"a number: '{'x' * 40}…'"),
    ],
)
def test_what_is_not_a_number_is_named(modifier, value, problem):
    lookup = lookup_in({"env": {"A": value}})
    reference = f"${{env.A:{modifier}}}"
    for render in (render_text, render_agent_text, render_shell):
        with pytest.raises(ValueNotANumber) as caught:
            render(f"echo {reference}", lookup, {})
        assert str(caught.value) == f"`{reference}` is not {problem}"
    assert show(f"echo {reference}", lookup, {}) == f"echo {reference}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "${captured.m.output}",
            "`captured.m.output` has no value; known: `captured.n`, `captured.plan`",
        ),
        (
            "${loop.elapsd}",
            (
                "`loop.elapsd` has no value; known: `loop.elapsed`, `loop.elapsed_ms`, "
                "`loop.name`, `loop.started_at`"
            ),
        ),
        (
            "${context.cdm}",
            (
                "`context.cdm` has no value; known: `context.cmd`, `context.dir`, "
                "`context.none`, `context.list`"
            ),
        ),
    ],
)
def test_a_value_that_is_not_there_is_named(text, message):
    for render in (render_text, render_agent_text, render_shell):
        with pytest.raises(Unresolved) as caught:
            render(f"echo {text}", LOOKUP, CONTEXT)
        assert str(caught.value) == message


def test_a_namespace_without_values_knows_nothing():
    with pytest.raises(Unresolved) as caught:
        render_text("${prev.output}", lookup_in({}), {})
    assert str(caught.value) == "`prev.output` has no value"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${context.dir}", None),
        ("${context.dri}", "`context.dri` has no value; known: `context.dir`, `context.list`"),
        ("${context.dri:-x}", None),
        ("${context.list.1}", None),
        (
            "${context.list.2}",
            "`context.list.2` has no value; known: `context.list.0`, `context.list.1`",
        ),
        (
            "${captured.chekc.output}",
            "`captured.chekc.output` has no value; known: `captured.check`",
        ),
        ("${captured.check.structured.a.b}", None),
        (
            "${captured.check.output.a}",
            "`captured.check.output.a` has no value",
        ),
        ("${env.WHATEVER}", None),
        *[(f"${{{space}.{field}}}", None) for space in FIELDS for field in FIELDS[space]],
        *[(f"${{captured.check.{field}}}", None) for field in RESULT_FIELDS],
        (
            "${state.nam}",
            "`state.nam` has no value; known: `state.name`, `state.attempt`, `state.iteration`",
        ),
    ],
)
def test_what_can_be_known_before_a_run(text, problem):
    (reference,) = references(text)
    found = unknown(reference, {"dir": "src/", "list": [1, 2]}, {"check"})
    assert (str(found) if found else None) == problem


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        pytest.param("see ${env.A}", "@/etc/passwd", "see \\@/etc/passwd", id="after a blank"),
        pytest.param("${env.A}", "@a b@c\n@d\t@e", "\\@a b@c\n\\@d\t\\@e", id="words of the value"),
        pytest.param(
            "${env.A}", "a\u00a0@b\u200b@c\ufeff@d", "a\u00a0\\@b\u200b\\@c\ufeff\\@d", id="unseen"
        ),
        pytest.param("(${env.A})", "@x", "(@x)", id="after a bracket"),
        pytest.param("me${env.A}", "@x.org", "me@x.org", id="inside a word"),
        pytest.param("${env.A}@host", "", "\\@host", id="the author's sign after nothing"),
        pytest.param("${env.A}@host", "me", "me@host", id="the author's sign inside a word"),
        pytest.param("@notes ${env.A}", "x", "@notes x", id="the author's own attachment"),
        pytest.param("see @${env.A}", "notes", "see @notes", id="the author's own sign"),
        pytest.param("${env.A:raw}", "@x", "@x", id="raw"),
        pytest.param("${env.A:q}", "@x", "'@x'", id="quoted"),
        pytest.param("${context.own:q}", "@x", "'@a \\@x'", id="quoted with data inside"),
        pytest.param("${context.code}", "", "@a", id="code"),
        pytest.param("${env.A}", "/ll:deploy /x", "\\/ll:deploy /x", id="no slash command"),
        pytest.param(" ${env.A} b", "\n/compact", " \n\\/compact b", id="not after blanks either"),
        pytest.param("${env.A}${env.A}", "/a", "/a/a", id="no command anyway"),
        pytest.param("${env.A}", "/usr/bin/make", "/usr/bin/make", id="a path"),
        pytest.param("${env.A:raw}", "/compact", "/compact", id="raw slash command"),
        pytest.param("/fix ${env.A}", "/compact", "/fix /compact", id="the author's command"),
        pytest.param("${env.A}/compact", " ", " /compact", id="the author's after a blank"),
        pytest.param("$${env.A}", "x", "${env.A}", id="escape"),
    ],
)
def test_what_an_agent_gets(text, value, result):
    context = {"own": "@a ${env.A}", "code": "@a"}
    assert render_agent_text(text, lookup_in({"env": {"A": value}}), context) == result


def test_data_in_lines_of_its_own_attaches_no_file():
    assert data_for_agent("@a b@c\n@d") == "\\@a b@c\n\\@d"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("${context.cmd} ${captured.n.output}", "mypy src/ ${captured.n.output}"),
        ("${state.name} ${captured.n.exit_code}", "fix 1"),
        ("${loop.cycle} ${captured.gone.exit_code}", "${loop.cycle} ${captured.gone.exit_code}"),
        ("${captured.n.output:raw} ${env.HOME:-x}", "${captured.n.output:raw} ${env.HOME:-x}"),
        ("$${a}", "${a}"),
        ("${context.dir:q} ${context.data:q}", "'src/' ${context.data:q}"),
        ("${context.gone} ${state.name}", "${context.gone} fix"),
    ],
)
def test_what_people_are_shown(text, shown):
    assert show(text, LOOKUP, {**CONTEXT, "data": "${prev.output}"}) == shown


@pytest.mark.parametrize(
    ("action", "script", "env"),
    [
        pytest.param("${context.cmd}", "mypy src/", {}, id="code"),
        pytest.param("echo ${state.name}.${loop.elapsed}", "echo fix.2m 34s", {}, id="inert"),
        pytest.param("echo ${env.HOME}", 'echo "${LL_V1}"', {"LL_V1": "/home/me"}, id="bare"),
        pytest.param(
            'echo "a ${env.HOME}"', 'echo "a ${LL_V1}"', {"LL_V1": "/home/me"}, id="double"
        ),
        pytest.param(
            "echo 'Found ${captured.n.output}'",
            "echo 'Found '\"${LL_V1}\"''",
            {"LL_V1": "3 errors"},
            id="single",
        ),
        pytest.param(
            "cat <<E\n${env.HOME}\nE\n",
            "cat <<E\n${LL_V1}\nE\n",
            {"LL_V1": "/home/me"},
            id="document",
        ),
        pytest.param(
            "echo ${env.HOME} ${prev.output} ${env.HOME}",
            'echo "${LL_V1}" "${LL_V2}" "${LL_V1}"',
            {"LL_V1": "/home/me", "LL_V2": "p"},
            id="several",
        ),
        pytest.param(
            "echo ${env.A:-x y}", 'echo "${LL_V1}"', {"LL_V1": "x y"}, id="fallback of data"
        ),
        pytest.param("echo ${loop.cycle:-x y}", "echo x y", {}, id="fallback of what is inert"),
        pytest.param("echo ${context.a:-x y}", "echo x y", {}, id="fallback of code"),
        pytest.param(
            "# ${captured.gone.output}\nls", "# ${captured.gone.output}\nls", {}, id="comment"
        ),
        pytest.param("# ${context.dir:q}\nls", "# ${context.dir:q}\nls", {}, id="own in a comment"),
        pytest.param("${captured.n.output:raw}; ls", "3 errors; ls", {}, id="raw"),
        pytest.param(
            "ls ${captured.n.output:words} ${context.list:words}",
            'ls "${LL_V1}" "${LL_V2}" "${LL_V3}" "${LL_V4}"',
            {"LL_V1": "3", "LL_V2": "errors", "LL_V3": "a b", "LL_V4": "c"},
            id="words",
        ),
        pytest.param("ls ${env.EMPTY:words} x", "ls  x", {}, id="no words"),
        pytest.param(
            "ls ${context.a:words:-x y} ${env.A:words:-y z}",
            'ls "${LL_V1}" "${LL_V2}" "${LL_V2}" "${LL_V3}"',
            {"LL_V1": "x", "LL_V2": "y", "LL_V3": "z"},
            id="words of a fallback",
        ),
        pytest.param("ls ${context.dir:q}", 'ls "${LL_V1}"', {"LL_V1": "src/"}, id="one word"),
        pytest.param(
            "ls ${context.both:q}", 'ls "${LL_V1}"', {"LL_V1": "it's 3 errors"}, id="one with data"
        ),
        pytest.param("echo ${state.iteration}>x", 'echo "2">x', {}, id="no descriptor"),
        pytest.param("cat ${state.iteration}<x", 'cat "2"<x', {}, id="nor one to read from"),
        pytest.param("echo '${state.iteration}>x'", "echo '2>x'", {}, id="no redirection"),
        pytest.param("echo '${state.iteration}<x'", "echo '2<x'", {}, id="nor here"),
        pytest.param("echo ${state.name}>x", "echo fix>x", {}, id="no number"),
        pytest.param("echo ${prev.exit_code:int}>x", 'echo "0">x', {}, id="no descriptor either"),
        pytest.param("((${prev.exit_code:int}>2))", "((0>2))", {}, id="compared"),
        pytest.param("echo ${env.A:int:-010}", "echo 10", {}, id="fallback of a number"),
        pytest.param("echo ${context.a:int:-3}", "echo 3", {}, id="fallback of an own number"),
        pytest.param(
            "echo $${a,b} '$${a}' \"$${a}\" \\$${a} $$${a}",
            "echo '${'a,b} '${a}' \"\\${a}\" \\${a} $\\${a}",
            {},
            id="escapes",
        ),
        pytest.param(
            "cat <<E\n$${a}\nE\ncat <<'E'\n$${a}\nE\n# $${a}",
            "cat <<E\n\\${a}\nE\ncat <<'E'\n${a}\nE\n# ${a}",
            {},
            id="escapes in documents and comments",
        ),
    ],
)
def test_a_script_gets_references(action, script, env):
    context = {**CONTEXT, "both": "it's ${captured.n.output}"}
    assert render_shell(action, LOOKUP, context) == Script(script, env)


def test_data_loses_nul_and_what_cannot_be_written():
    lookup = lookup_in({"env": {"A": "a\0b\ud800c\udcffd"}})
    assert render_shell("echo ${env.A}", lookup, {}).env == {"LL_V1": "ab\ufffdc\udcffd"}
    assert render_text("${env.A}", lookup, {}) == "ab\ud800c\udcffd"


def test_a_script_with_a_nul_is_left_to_whoever_runs_it():
    assert render_shell("echo \0 ${env.A}", LOOKUP, {}).text == 'echo \0 "${LL_V1}"'


def test_a_place_without_a_safe_form_is_refused():
    with pytest.raises(RefusedScript) as caught:
        render_shell("${env.A}; eval ${prev.output}; echo ${env.HOME}", LOOKUP, {})
    assert str(caught.value) == ("`${env.A}` is used as a command name, and would be run")
    assert (
        caught.value.help == "write the command literally, and pass the value to it as an argument"
    )
    assert [each.reference.text for each in caught.value.refusals] == [
        "${env.A}",
        "${prev.output}",
    ]


@pytest.mark.parametrize("value", ["-e", "--expression=1e"])
def test_a_value_that_would_be_an_option_is_refused_when_it_comes(value):
    lookup = lookup_in({"env": {"A": value}})
    with pytest.raises(RefusedScript) as caught:
        render_shell("sed -n p ${env.A}", lookup, {})
    assert str(caught.value) == (
        "`${env.A}` is refused if it begins with `-`: `sed` would read it as an option"
    )
    assert [each.warning for each in caught.value.refusals] == [False]
    assert render_shell("sed -n p -- ${env.A}", lookup, {}).env == {"LL_V1": value}
    harmless = lookup_in({"env": {"A": f"x{value}"}})
    assert render_shell("sed -n p ${env.A}", harmless, {}).env == {"LL_V1": f"x{value}"}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("${captured.n.output}", "read it from the file `${captured.n.file}`"),
        ("${prev.stderr}", "read it from the file `${prev.stderr_file}`"),
        ("${loop.continuation}", "write it to a file, and pass the file name to the action"),
    ],
)
def test_what_no_process_can_be_given(text, fix):
    fits = 128 * 1024 - len("LL_V1=\0")
    assert render_shell(f"echo {text}", lambda _: "ä" * (fits // 2), {}).env
    with pytest.raises(TooLarge) as caught:
        render_shell(f"echo {text}", lambda _: "x" * (fits + 1), {})
    assert str(caught.value) == (
        f"`{text}` is 131066 bytes long, but a shell action accepts less than 128 KiB: {fix}"
    )
    assert len(render_shell(f"echo {text}", lambda _: "x" * fits, {}).env["LL_V1"]) == fits


ORDINARY = [
    "pytest",
    "npm run build && npm test",
    "mypy src/ 2>&1 | grep -c 'error:' || echo 0",
    "ruff check src/ --output-format=json | jq '.count'",
    'for f in *.py; do echo "${f%.py}"; done',
    "echo ${HOME} ${PATH:-none} ${x:=y} ${#x} ${x##*/} ${x//a/b}",
    "echo $$ $! $? $# $@ $* $0 $1 ${1} ${10}",
    "awk '{ print $1 \"-\" $NF }' file",
    "sed -e 's/\\(a\\)/\\1/g' -i.bak file",
    "cat <<'EOF'\n${not.ours\nEOF".replace("not.ours", "notours"),
    "cat <<-EOF\n\t$HOME `date` $(date)\n\tEOF",
    'if [ "$CI" = true ]; then exit 0; else exit 1; fi',
    'case $1 in -h|--help) usage ;; *) run "$@" ;; esac',
    "x=$(( 1 + 2 )); y=$((x * (2 + 3)))",
    "[[ $x =~ ^[a-z]+$ ]] && echo yes",
    "((i++)) || true",
    "find . -name '*.pyc' -exec rm {} +",
    "git log --format='%h %s' | head -n 5",
    "echo 'it'\\''s' \"a\\\"b\" a\\ b",
    "echo `date +%s`",
    "trap 'rm -f \"$tmp\"' EXIT",
    'while read -r line; do echo "$line"; done < file',
    "python3 - <<'EOF'\nprint('{}'.format(1))\nEOF",
    "printf '%s\\n' {a,b,c}",
    "echo $'tab\\there'",
    "test -f a || { echo missing; exit 1; }",
    "(cd sub && make)",
    "a=1 b=2 env | sort",
    "exec 3>&1 1>log 2>&1",
    "diff <(sort a) <(sort b)",
    'f() { local x=$1; echo "$x"; }; f a',
    "kill -0 $pid 2>/dev/null",
    "echo unbalanced '",
    'echo "unbalanced',
    "$(",
    "# just a comment with ' and \"",
    "ls | tee >(wc -l) > /dev/null",
    "set -euo pipefail",
    "select x in a b; do break; done",
    "until ping -c1 host; do sleep 1; done",
    'echo "${x:-"a b"}" "${x:-\'}\'}"',
    "cmd &> log &",
    "jq -r '.items[] | \"\\(.name)\"' f.json",
    'curl -s "http://x/?a=1&b=2"',
    "tar czf - . | ssh host 'cat > backup.tgz'",
    'echo "$(basename "$(pwd)")"',
    "echo a \\\n  b",
    "let x=1+2",
    "/ll:manage_issue bug fix",
    "",
]


@pytest.mark.parametrize("action", ORDINARY)
def test_ordinary_scripts_pass_unchanged(action):
    for shell in ("sh", "bash"):
        assert render_shell(action, LOOKUP, {}, shell) == Script(action, {})
        assert check_shell(action, {}, shell) == []


without_references = st.text(st.characters(codec="utf-8")).filter(
    lambda text: "$${" not in text and not has_reference(text)
)


def has_reference(text: str) -> bool:
    try:
        return any(not isinstance(piece, str) for piece in parse(text))
    except TemplateError:
        return True


@given(without_references | st.sampled_from(ORDINARY))
def test_what_holds_no_reference_passes_through_everything(text):
    assert splice(text, CONTEXT) == text
    assert render_text(text, LOOKUP, CONTEXT) == text
    assert render_agent_text(text, LOOKUP, CONTEXT) == text
    assert show(text, LOOKUP, CONTEXT) == text
    assert render_shell(text, LOOKUP, CONTEXT) == Script(text, {})


tricky = st.text(st.sampled_from("${}.:-'\"\\@ /\naq") | st.characters(codec="utf-8")).map(
    lambda text: text.replace("\0", "")
)


@given(tricky, tricky, tricky)
def test_nothing_inserted_is_scanned_again(before, value, after):
    assume(not has_reference(before) and not before.endswith("$") and not has_reference(after))
    text = f"{before}${{env.A}}{after}"
    assert render_text(text, lookup_in({"env": {"A": value}}), {}) == before + value + after


@given(tricky)
def test_no_value_enters_a_script(value):
    assume(value not in ("", "echo", "\\") and value not in 'echo \'"${LL_V1}"\' "${LL_V1}"')
    action = "echo '${env.A}' \"${env.A}\" ${env.A}"
    script = render_shell(action, lookup_in({"env": {"A": value}}), {})
    assert script == Script('echo \'\'"${LL_V1}"\'\' "${LL_V1}" "${LL_V1}"', {"LL_V1": value})


@given(st.lists(st.sampled_from(["$${", "a", " ", "{", "}", "\n"])).map("".join))
def test_an_escape_always_comes_out(text):
    expected = text.replace("$${", "${")
    assert render_text(text, LOOKUP, {}) == expected
    assert render_agent_text(text, LOOKUP, {}) == expected
    assert show(text, LOOKUP, {}) == expected


names = st.sampled_from(NAMESPACES).flatmap(
    lambda space: st.sampled_from([f"${{{space}.a}}", f"${{{space}.a.b:-x}}", f"${{{space}.a:q}}"])
)


@given(
    st.lists(names | st.sampled_from(["'", '"', " ", "; ", "echo ", "`", "$(", ")"])).map("".join)
)
def test_what_passes_the_check_is_rendered(action):
    context = {"a": {"b": "x ${env.c} $${"}}
    refused = [each for each in check_shell(action, context) if not each.warning]
    if refused:
        with pytest.raises(RefusedScript) as caught:
            render_shell(action, lambda _: "1", context)
        assert list(caught.value.refusals) == refused
    else:
        at_once = render_shell(action, lambda _: "1", context)
        assert render_shell(splice(action, context), lambda _: "1", context) == at_once


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        pytest.param("BASH_ENV", "${captured.n.output}", True, id="run by bash"),
        pytest.param("PS4", "+ ${context.data} ", True, id="data in the author's text"),
        pytest.param("BASH_ENV", "${context.own}", False, id="the author's text"),
        pytest.param("BASH_ENV", "${captured.n.output:raw}", False, id="the author's risk"),
        pytest.param("BASH_ENV", "/etc/bashrc $${x}", False, id="no value"),
        pytest.param("BASH_ENV", "/etc/bashrc", False, id="no reference"),
        pytest.param("NAME", "${captured.n.output}", False, id="another variable"),
    ],
)
def test_data_in_a_variable_that_the_shell_runs(name, text, refused):
    said = check_variable(name, text, {"data": "${captured.n.output}", "own": "x"})
    messages = [f"`${{captured.n.output}}` is assigned to `{name}`, which the shell evaluates"]
    assert [each.message for each in said] == (messages if refused else [])


def test_variables_that_hold_data_and_are_named_in_code():
    held = {name: references(f"${{env.{name}}}")[0] for name in ("A", "B", "C")}
    said = check_held("echo $((A + 1)) ${context.x}; echo $B", held, {"x": "$((C))"}, "bash")
    assert [f"{name}: {each.help}" for name, each in said.items()] == [
        "A: write `${env.A:int}` if it is a whole number",
        "C: write `${env.C:int}` if it is a whole number",
    ]
