"""PyYAML imported without compiling its patterns: nobody else notices."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from textwrap import dedent

import pytest
import yaml

from little_loops.authoring.yaml.pyyaml import LazyPattern, compiling_later
from tests.project import DEADLINE_S


def test_importing_it_compiles_no_pattern_and_leaves_re_alone():
    program = dedent("""\
        import re

        compile_now = re.compile
        import little_loops.authoring.yaml.source
        from yaml.reader import Reader
        from yaml.resolver import Resolver

        assert re.compile is compile_now
        resolvers = Resolver.yaml_implicit_resolvers.values()
        patterns = [Reader.NON_PRINTABLE, *(pattern for each in resolvers for _, pattern in each)]
        print(*sorted({(type(each).__name__, *vars(each)) for each in patterns}))
        """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("('LazyPattern', '_arguments')\n", "")


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader], ids=["pure", "C"])
def test_other_users_of_pyyaml_get_what_they_expect(loader):
    text = "- 1\n- 2.5\n- yes\n- ~\n- 2026-01-15\n- <<: {a: 1}\n- '='\n- plain\n"
    expected = [1, 2.5, True, None, date(2026, 1, 15), {"a": 1}, "=", "plain"]
    assert yaml.load(text, loader) == expected


def test_the_pure_parser_still_refuses_characters():
    with pytest.raises(yaml.reader.ReaderError):
        yaml.load("a: \x07", yaml.SafeLoader)


def test_a_lazy_pattern_is_compiled_once_with_its_flags():
    pattern = LazyPattern("A+", re.IGNORECASE)
    assert pattern.match("aa").group() == "aa"
    assert pattern.match is pattern.match
    assert pattern.pattern == "A+"


def test_a_pattern_of_other_modules_is_compiled_at_once():
    with compiling_later():
        assert isinstance(re.compile("a"), re.Pattern)


def test_re_is_restored_after_an_error():
    compile_now = re.compile
    with pytest.raises(ImportError), compiling_later():
        raise ImportError
    assert re.compile is compile_now
