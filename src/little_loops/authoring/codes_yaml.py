"""Codes about the file and its YAML: LL0xx."""

from __future__ import annotations

from little_loops.authoring.codes import Code

MACHINE = """\
initial: check
states:
  check: {action: pytest, on_pass: done, on_fail: fix}
  fix: {action: make fix, next: check}
  done: {terminal: true}
"""
"""A small loop that nothing is wrong with."""

CODES = (
    Code(
        "LL001",
        "the file is too large",
        "A loop file is at most 1 MiB. Data belongs in files that actions read.",
        right=MACHINE,
    ),
    Code(
        "LL002",
        "the file is not UTF-8",
        "Loop files are UTF-8 text. Your editor can save it so; `iconv` converts it.",
        right=MACHINE,
    ),
    Code(
        "LL003",
        "a character that YAML does not allow",
        "Control characters cannot stand in a file as they are, and they hide from readers. In "
        'double quotes they can be written as escapes, such as `"\\x1b"`.',
        right='description: "a bell \\x07 here"\n' + MACHINE,
    ),
    Code(
        "LL004",
        "the file is empty",
        "There is nothing in the file but blanks and comments.",
        "# to be written\n",
        MACHINE,
    ),
    Code(
        "LL005",
        "too many nodes",
        "A file has at most 50,000 keys, values and items.",
        right=MACHINE,
    ),
    Code(
        "LL006",
        "nested too deeply",
        "Mappings and lists can stand in each other, at most 50 levels deep.",
        "context: {deep: " + "[" * 50 + "]" * 50 + "}\n" + MACHINE,
        "context: {flat: []}\n" + MACHINE,
    ),
    Code(
        "LL007",
        "more than one document",
        "A line `---` begins another YAML document. A loop file holds one loop.",
        MACHINE + "---\nname: another\n",
        "---\n" + MACHINE,
    ),
    Code(
        "LL008",
        "an anchor or an alias",
        "`&name` and `*name` share a piece of YAML between places. Loop files are read without "
        "them: what stands somewhere is all that counts there. Text that begins with one of these "
        "signs must be quoted.",
        "context:\n  a: &dirs src/\n  b: *dirs\n" + MACHINE,
        "context:\n  a: src/\n  b: ${context.a}\n" + MACHINE,
    ),
    Code(
        "LL009",
        "a tag",
        "`!name` tells YAML how to read a value. Loop files are plain data. Text that begins with "
        "`!` must be quoted.",
        "description: !text hello\n" + MACHINE,
        'description: "!text hello"\n' + MACHINE,
    ),
    Code(
        "LL010",
        "a merge key",
        "`<<` copies the keys of another mapping. Write them where they are used.",
        "context:\n  <<: {a: 1}\n  b: 2\n" + MACHINE,
        "context:\n  a: 1\n  b: 2\n" + MACHINE,
    ),
    Code(
        "LL011",
        "a key that is no text",
        "Keys are texts. YAML also allows lists and mappings as keys; loop files have none.",
        "context: {[a, b]: 1}\n" + MACHINE,
        "context: {a_b: 1}\n" + MACHINE,
    ),
    Code(
        "LL012",
        "a key is given twice",
        "Of two equal keys in one mapping YAML would silently keep one. Say which.",
        "max_iterations: 5\nmax_iterations: 50\n" + MACHINE,
        "max_iterations: 50\n" + MACHINE,
    ),
    Code(
        "LL013",
        "the file is not a mapping",
        "A loop file consists of `key: value` lines, not of a list or a single text.",
        "- check\n- fix\n",
        MACHINE,
    ),
    Code(
        "LL014",
        "the file cannot be read",
        "The operating system does not let this file be read: it belongs to somebody else, or the "
        "disk has an error.",
        right=MACHINE,
    ),
    Code(
        "LL015",
        "two files of one name",
        "Runs go by the name of their loop, so two files whose loops have the same name cannot be "
        "told apart. What `ll-loop compile` made of a file may lie beside it.",
        right=MACHINE,
    ),
    Code(
        "LL020",
        "not YAML",
        "The YAML parser gave up here. Often the mistake is on this line or the one before.",
        "scope: [src/,, tests/]\n" + MACHINE,
        "scope: [src/, tests/]\n" + MACHINE,
    ),
    Code(
        "LL021",
        "a tab as indentation",
        "YAML counts blanks to see what belongs together, and a tab is no number of blanks.",
        "context:\n\ttarget_dir: src/\n" + MACHINE,
        "context:\n  target_dir: src/\n" + MACHINE,
    ),
    Code(
        "LL022",
        "a quote is not closed",
        "A text that begins with a quote goes on until the same quote comes again.",
        MACHINE + 'description: "all tests\n',
        MACHINE + 'description: "all tests"\n',
    ),
    Code(
        "LL023",
        "a bracket is not closed",
        "A list in brackets ends with `]`, a mapping in braces with `}`; commas part the items.",
        "scope: [src/, tests/\n" + MACHINE,
        "scope: [src/, tests/]\n" + MACHINE,
    ),
    Code(
        "LL024",
        "`: ` in a value without quotes",
        "A colon and a blank end a key. A value that contains them must be quoted.",
        "description: goal: all tests pass\n" + MACHINE,
        'description: "goal: all tests pass"\n' + MACHINE,
    ),
    Code(
        "LL025",
        "wrong indentation",
        "What belongs together has the same indentation, and what belongs to a key more than it.",
        "context:\n    a: 1\n  b: 2\n" + MACHINE,
        "context:\n    a: 1\n    b: 2\n" + MACHINE,
    ),
    Code(
        "LL026",
        "a colon is missing",
        "Every key is followed by a colon and a blank.",
        "max_iterations 20\n" + MACHINE,
        "max_iterations: 20\n" + MACHINE,
    ),
    Code(
        "LL027",
        "a text that begins with a sign of YAML",
        "Texts that begin with @ ` % * & must be quoted: YAML has other plans with these signs.",
        "description: @work, by nobody\n" + MACHINE,
        'description: "@work, by nobody"\n' + MACHINE,
    ),
    Code(
        "LL028",
        "an unknown escape",
        "In double quotes a backslash begins an escape, and only some exist. In single quotes a "
        "backslash is just a backslash.",
        'context: {pattern: "\\d+ failed"}\n' + MACHINE,
        "context: {pattern: '\\d+ failed'}\n" + MACHINE,
    ),
    Code(
        "LL029",
        "text behind the end of a text",
        "After a closing quote, and behind `|` or `>`, the line must end.",
        "description: 'it's done'\n" + MACHINE,
        "description: 'it''s done'\n" + MACHINE,
    ),
    Code(
        "LL030",
        "`${` inside brackets",
        "Between `[` and `]` or `{` and `}` a brace begins a mapping of its own, also the one of "
        "a template. In quotes it is text.",
        "scope: [${context.dir}]\n" + MACHINE,
        'context: {dir: src, all: ["${context.dir}"]}\n' + MACHINE,
    ),
)
