"""Which words of a command are code.

`@` is where a value will be inserted, `$` what the shell expands.
"""

from __future__ import annotations

import pytest

from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.rules import GRAMMARS, declared, findings, makes_integers
from little_loops.templates.shell.words import UNKNOWN, ArgumentRole, Word


def words(line: str) -> list[Word]:
    """Words between blanks; `_` is a blank inside one, `~` stands for the empty word."""
    marks = str.maketrans({"@": HOLE, "$": UNKNOWN, "_": " ", "~": ""})
    return [Word(text.translate(marks), "_" not in text) for text in line.split()]


def told(line: str) -> str:
    """The words that hold a value, each with its role; the others are left out."""
    found = findings(words(line))
    roles = []
    for at, text in enumerate(line.split()):
        if "@" in text:
            finding = found.get(at)
            roles.append(f"{text} {finding.role} {finding.of}".strip() if finding else text)
    if -1 in found:
        roles.append(f"{found[-1].role} {found[-1].of}")
    return ", ".join(roles)


@pytest.mark.parametrize(
    ("line", "roles"),
    [
        ("", ""),
        ("@", "@ command"),
        ("bin/@ x", "bin/@ command"),
        ("echo @", "@"),
        # prefixes
        ("exec @", "@ command"),
        ("exec", ""),
        ("exec -a @ ls", "@ value exec"),
        ("command @", "@ command"),
        ("command -v @", "@"),
        ("command", ""),
        ("env @ ls", "@ command"),
        ("env A=@ ls @", "A=@ value env, @"),
        ("env -u @ ls", "@ value env"),
        ("env -i ls @", "@"),
        ("env -uHOME @", "@ command"),
        ("env - ls @", "@"),
        ("env -S @", "@ command env"),
        ("sudo -u me -- @", "@ command"),
        ("/usr/bin/env python3 -c @", "@ program python"),
        ("nohup nice -n 5 sh -c @", "@ program sh"),
        ("timeout @ ls", "@ value timeout"),
        ("timeout -s @ 5 @", "@ value timeout, @ command"),
        ("timeout", ""),
        ("xargs -n 1 sed s/@/b/", "s/@/b/ program sed"),
        ("time -p @", "@ command"),
        ("$ @", "@ vanishing"),
        ("$ $ @", "@ vanishing"),
        ("$ $", ""),
        ("$ _x_ @", "@"),
        ("$ sed @", "@ program sed"),
        ("$ -x=@", "-x=@"),
        ("$", ""),
        # shells
        ("sh -c @", "@ program sh"),
        ("/bin/bash -c @ x @", "@ program bash, @"),
        ("bash -ec @", "@ program bash"),
        ("bash -o pipefail -c @", "@ program bash"),
        ("bash +x --rcfile f -c @", "@ program bash"),
        ("bash --rcfile @ -c x", "@ value bash"),
        ("bash --init-file f -c @", "@ program bash"),
        ("sh -c -- @", "@ program sh"),
        ("sh -c x -- @", "@"),
        ("sh $ -c @", "@ program sh"),
        ("sh -e@ x", "-e@ program sh"),
        ("sh --@ x", "--@ program sh"),
        ("sh script @", "@"),
        ("sh @ @", "@ script sh, @"),
        ("sh -- @", "@"),
        ("dash", "input dash"),
        ("sh -s @", "@ option sh, input sh"),
        ("sh -s -- @", "@, input sh"),
        ("sh --", "input sh"),
        ("sh -", "input sh"),
        # python and perl
        ("python -c @ @", "@ program python, @"),
        ("python3.12 -Ic @", "@ program python"),
        ("python3 -cimport_@", "-cimport_@ program python"),
        ("python3 -W @ -m @ -c @", "@ value python, @ value python, @"),
        ("python3 x.py -c @", "@"),
        ("python3 @", "@ script python"),
        ("python3 - @", "@, input python"),
        ("python3", "input python"),
        ("perl -e @ @", "@ program perl, @ option perl"),
        ("perl -lane @", "@ program perl"),
        ("perl -i.bake -pe @ -- @", "@ program perl, @"),
        ("perl -MFoo=e -I @ x.pl @", "@ value perl, @"),
        # awk
        ("awk @ f", "@ program awk"),
        ("awk -F : -v x=@ prog @", "x=@ value awk, @"),
        ("awk -vx=@ @", "-vx=@ value awk, @ program awk"),
        ("gawk -f p.awk @", "@ option gawk"),
        ("gawk --file=p.awk -- @", "@"),
        ("gawk --source @", "@ program gawk"),
        ("gawk --source=@", "--source=@ program gawk"),
        ("gawk --assign @ prog", "@ value gawk"),
        ("gawk --field-separator : @", "@ program gawk"),
        ("gawk --include f --load g @", "@ program gawk"),
        ("gawk --exec f -- @", "@"),
        ("gawk --assign=x=@ prog", "--assign=x=@"),
        ("awk -- @ @", "@ program awk, @"),
        # sed
        ("sed @ f", "@ program sed"),
        ("sed s/@/b/ f", "s/@/b/ program sed"),
        ("sed -n -e p -e @ @", "@ program sed, @ option sed"),
        ("sed -ne @", "@ program sed"),
        ("sed --expr=@", "--expr=@ program sed"),
        ("sed -i.bak p @ @", "@ option sed, @ option sed"),
        ("sed -i ~ @ f", "@ program sed"),
        ("sed -f @ -- @", "@ file sed, @"),
        ("sed p -- @", "@"),
        ("sed $ @", "@ program sed"),
        ("sed -l @ p", "@ value sed"),
        ("sed --line-length 5 @ f", "@ program sed"),
        ("sed --line-length=5 @ f", "@ program sed"),
        ("sed --file f @", "@ option sed"),
        # jq
        ("jq @ f", "@ program jq"),
        ("jq .a @", "@"),
        ("jq -r --arg x @ .a", "@ value jq"),
        ("jq --argjson x @ @", "@ value jq, @ program jq"),
        ("jq -n .a --arg x @", "@ value jq"),
        ("jq -f @ @", "@ file jq, @"),
        ("jq --from-file f @", "@"),
        ("jq --slurpfile a b --rawfile c d --indent 2 @", "@ program jq"),
        ("jq -L dir @", "@ program jq"),
        # found behind other programs
        ("docker run image sh -c @", "@ program sh"),
        ("docker run image sh @", "@"),
        ("find @ -exec sh -c @ {} ;", "@, @ program sh"),
        ("find . -exec sed -i @ {} ; -exec sed @ {} +", "@ program sed, @ program sed"),
        ("find . -exec sed -exec awk @", "@"),
        ("grep sed @", "@"),
        # the shell's own
        ("eval echo @", "@ program eval"),
        ("let x=@", "x=@ program let"),
        ("alias x=@", "x=@ program alias"),
        ("trap @ EXIT", "@ program trap"),
        ("trap -- @ EXIT", "@ program trap"),
        ("read -p @ @", "@ value read, @ name read"),
        ("unset @", "@ name unset"),
        ("declare @", "@ name declare"),
        ("declare x=@", "x=@ value declare"),
        ("declare -a x=@", "x=@ name declare"),
        ("export @", "@ value export"),
        ("export -n x=@", "x=@ name export"),
        ("[ @ = x ]", "@ value ["),
        ("test -v @", "@ name test"),
        ("printf @", "@ option printf"),
        ("printf -- @", "@"),
        ("printf %s @", "@"),
        ("printf -v @ %s", "@ name printf"),
        ("printf -v@ %s", "-v@ name printf"),
        ("printf -vx %s @", "@"),
        ("printf", ""),
        ("compgen -W @", "@ program compgen"),
        ("complete -C @ x", "@ program complete"),
        ("jobs -x @", "@ program jobs"),
        (". @", "@ program source"),
        ("source -- @ @", "@ program source, @"),
        ("source", ""),
        (". /dev/stdin @", "@, input source"),
        ("wait @ -n -p @", "@, @ name wait"),
        ("local x+=@", "x+=@ value local"),
        ("export PS4=@", "PS4=@ variable PS4"),
        ("declare OPTIND+=@", "OPTIND+=@ variable OPTIND"),
        # tests
        ("test @", "@ value test"),
        ("test -n @", "@ value test"),
        ("test ! -R @", "@ name test"),
        ("test @ = @", "@ value test, @ value test"),
        ("test @ -gt 3 -a @ -lt 5", "@ value test, @ value test"),
        ("test @ @", "@ operator test, @ operator test"),
        ("test ! @ @", "@ operator test, @ operator test"),
        ("test -@ a@", "-@ operator test, a@ operator test"),
        ("test a@ @", "a@ value test, @ value test"),
        ("test @ x", "@ value test"),
        # files that are run
        ("awk -f", ""),
        ("awk -f - @", "@ option awk, input awk"),
        ("awk -f/dev/stdin @", "@ option awk, input awk"),
        ("sed --file=- @", "@ option sed, input sed"),
        ("sed -f /proc/self/fd/0 @", "@ option sed, input sed"),
        ("sh /dev/stdin", "input sh"),
        ("python3 /dev/fd/3 @", "@, input python"),
        # prefixes with a word of their own
        ("flock @ sed @", "@ value flock, @ program sed"),
        ("stdbuf -o L awk @", "@ program awk"),
        ("chroot", ""),
        ("env -S@", "-S@ command env"),
        ("env --split-string @", "@ command env"),
        ("env ENV=@ ls", "ENV=@ variable ENV"),
        # xargs
        ("xargs", ""),
        ("xargs -I {} sh -c @", "@ program sh"),
        ("xargs -I", ""),
        # several commands of find
        ("find . -exec sed @ ; -name @", "@ program sed, @"),
        ("find . -exec jq -n @ + -name @", "@ program jq, @"),
        ("docker run image dash -c @", "@ program dash"),
        ("docker run image perl -e @", "@ program perl"),
        # names
        ("readarray @", "@ name readarray"),
        ("mapfile @", "@ name mapfile"),
        ("getopts ab @", "@ name getopts"),
        # letters of options
        ("sed -n@", "-n@ program sed"),
        ("sed -ne@ x", "-ne@ program sed"),
        # standard input that is handed on
        ("ssh host bash -s", "input bash"),
        ("docker exec -i box sh", "input sh"),
        ("ssh host bash x", ""),
        ("grep sh", ""),
        # every letter of an option
        ("bash -o @ -O @ -c @", "@ value bash, @ value bash, @ program bash"),
        ("gawk -E @ @", "@ file gawk, @ option gawk"),
        ("gawk -e @ @", "@ program gawk, @ option gawk"),
        ("perl -E @ x", "@ program perl"),
        ("python3 -X @ -c @", "@ value python, @ program python"),
        ("sed -i.ex @ f", "@ program sed"),
        ("sed --$=@ f", "--$=@ program sed"),
        # operators that a value can complete
        ("test v@ a@", "v@ operator test, a@ operator test"),
        ("test -v@ a@", "-v@ operator test, a@ operator test"),
        ("test R@ a@", "R@ operator test, a@ operator test"),
        ("test -R@ a@", "-R@ operator test, a@ operator test"),
        ("[ -v @ ]", "@ name ["),
        ("[ -R @ ]", "@ name ["),
        ("test -R @", "@ name test"),
        ("command -V @", "@"),
    ],
)
def test_what_a_word_is(line, roles):
    assert told(line) == roles


@pytest.mark.parametrize(
    ("names", "rest", "roles"),
    [
        ("sh bash dash", "-c @", "@ program NAME"),
        ("awk gawk mawk nawk sed gsed jq", "@", "@ program NAME"),
        ("python perl", "- @", "@, input NAME"),
        ("eval let trap alias compgen complete bind enable jobs", "@", "@ program NAME"),
        ("read unset getopts mapfile readarray", "@", "@ name NAME"),
        ("declare typeset local readonly", "@", "@ name NAME"),
        ("declare typeset local readonly export", "x=@", "x=@ value NAME"),
        ("env exec command builtin sudo doas xargs nohup setsid", "@", "@ command"),
        ("time nice ionice stdbuf busybox", "@", "@ command"),
        ("timeout flock chroot", "@ @", "@ value NAME, @ command"),
        ("ssh docker podman kubectl su nsenter lxc incus", "box sh", "input sh"),
    ],
)
def test_what_a_word_is_to_each_of_the_programs(names, rest, roles):
    for name in names.split():
        assert told(f"{name} {rest}") == roles.replace("NAME", name), name


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("env", "uC"),
        ("exec", "a"),
        ("sudo", "ugpCDhRrtTU"),
        ("doas", "uC"),
        ("xargs", "nILPsdEa"),
        ("time", "fo"),
        ("nice", "n"),
        ("ionice", "cn"),
        ("stdbuf", "ioe"),
        ("timeout", "sk"),
        ("flock", "wE"),
    ],
)
def test_options_that_take_a_word_before_the_command(name, letters):
    for letter in letters:
        assert told(f"{name} -{letter} @ @").startswith(f"@ value {name}, @"), letter


@pytest.mark.parametrize("option", ["-exec", "-execdir", "-ok", "-okdir"])
def test_find_runs_what_follows(option):
    assert told(f"find . {option} sed @ ;") == "@ program sed"


@pytest.mark.parametrize("program", ["sh", "bash", "dash", "python", "perl"])
def test_code_is_found_behind_any_program(program):
    option = "-e" if program == "perl" else "-c"
    assert told(f"anything {program} {option} @") == f"@ program {program}"


@pytest.mark.parametrize(("options", "role"), [(98, "@ program sh"), (99, "@")])
def test_code_is_found_among_the_next_hundred_words(options, role):
    assert told(f"anything sh{' -x' * options} -c @") == role


@pytest.mark.parametrize(
    "name",
    [
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"),
        *("RANDOM", "SRANDOM", "OPTIND", "HISTCMD", "SECONDS", "LINENO"),
    ],
)
def test_variables_that_the_shell_evaluates(name):
    words_of_export = [Word("export"), Word(f"{name}={HOLE}")]
    assert findings(words_of_export)[1] == ArgumentRole(1, "variable", name)


def test_a_quoted_expansion_is_a_word_of_its_own():
    quoted = [Word("sed"), Word(UNKNOWN, bare=False), Word(HOLE)]
    assert findings(quoted)[1].role == "program"
    assert findings(quoted)[2].role == "option"


@pytest.mark.untraced
def test_many_words_are_read_in_one_go():
    line = words("find . " + "-exec sed sh " * 20_000 + "@")
    assert findings(line)[0].role == "command"


def test_the_closed_list():
    assert sorted(GRAMMARS) == [
        *("awk", "bash", "dash", "gawk", "gsed", "jq", "mawk", "nawk"),
        *("perl", "python", "sed", "sh"),
    ]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", ""),
        ("echo x=@", ""),
        ("export x=@ -n y", "x"),
        ("local x=@ y+=@", "x y"),
    ],
)
def test_what_is_assigned_in_arguments(line, names):
    assert " ".join(name for name, _ in declared(words(line))) == names


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("declare -i x", True),
        ("builtin declare -ri x", True),
        ("declare -n x", True),
        ("declare -r x", False),
        ("grep -i x", False),
        ("", False),
    ],
)
def test_what_makes_integers_of_variables(line, does):
    assert makes_integers(words(line)) is does
