"""Run the filter programs of a repository as in a commit of the user's own.

When git adds files for us, its environment names an index and objects of ours. A filter that
uses git would look there instead of where it wants, and one that an agent wrote could recognise us
and store something else in the real commit.

Not here: adding the files (`delivery`).
"""

from __future__ import annotations

import shlex

from little_loops.trees.git import READING_VARIABLES, Git

PROGRAMS = "^filter[.].*[.](clean|smudge|process)$"
LFS = b"lfs"
LOCALE = "LC_ALL"
SETTINGS = "GIT_CONFIG_PARAMETERS"
"""How git passes on the settings of its command line."""
OURS = (
    *READING_VARIABLES,
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_OPTIONAL_LOCKS",
)


def filters_as_usual(git: Git, project: str) -> bytes:
    """Return git settings by which each filter program runs without our variables of git. Raises
    `StoreError`, or `Interrupted` on a stop."""
    listing = git.read(project, ["config", "-z", "--get-regexp", PROGRAMS])
    entries = (entry.partition(b"\n") for entry in listing.out.split(b"\0"))
    found = {key: command for key, _, command in entries if command}
    return b"".join(_section(git, key, command) for key, command in found.items())


def _section(git: Git, key: bytes, command: bytes) -> bytes:
    """Return the settings for one program; `key` is its name in git's settings."""
    name, _, kind = key.removeprefix(b"filter.").rpartition(b".")
    # By its settings, `git lfs` keeps from storing files in the user's repository.
    ours = OURS if LFS in command else (*OURS, SETTINGS)
    usual = f"unset {' '.join(ours)}; "
    if (locale := git.environ.get(LOCALE)) is not None:
        usual += f"export {LOCALE}={shlex.quote(locale)}; "
    text = usual.encode("utf-8", "surrogateescape") + command
    return b"[filter %s]\n\t%s = %s\n" % (_quoted(name), kind, _quoted(text))


def _quoted(text: bytes) -> bytes:
    """Return a name or value as git reads it from a file of settings."""
    escaped = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
