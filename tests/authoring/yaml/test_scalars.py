"""What plain scalars are taken for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from little_loops.authoring.yaml.scalars import notation, resolve


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        *[pytest.param(each, "null", None, id=each or "nothing") for each in ("", "~", "null", "NULL")],
        *[pytest.param(each, "bool", True, id=each) for each in ("true", "True", "yes", "YES", "on")],
        *[pytest.param(each, "bool", False, id=each) for each in ("false", "no", "No", "OFF")],
        pytest.param("y", "str", "y", id="y is text: PyYAML and YAML 1.2 agree"),
        pytest.param("N", "str", "N", id="N too"),
        pytest.param("tRuE", "str", "tRuE", id="odd case"),
        pytest.param("0", "int", 0, id="zero"),
        pytest.param("-12", "int", -12, id="negative"),
        pytest.param("+7", "int", 7, id="plus"),
        pytest.param("9" * 301, "int", math.inf, id="too long for a number"),
        pytest.param("1.5", "float", 1.5, id="float"),
        pytest.param(".5", "float", 0.5, id="no digit before the point"),
        pytest.param("1.", "float", 1.0, id="no digit behind it"),
        pytest.param("1e3", "float", 1000.0, id="exponent"),
        pytest.param("-1.5E-2", "float", -0.015, id="negative exponent"),
        pytest.param("1e999", "float", math.inf, id="overflow"),
        pytest.param("-.inf", "float", -math.inf, id="minus infinity"),
        *[pytest.param(each, "int", each, id=each)
          for each in ("0777", "08", "0x1F", "0o17", "0b101", "1_000", "1_000.5")],
        *[pytest.param(each, "str", each, id=each)
          for each in ("12:30:45", "2024-01-15", "1.2.3", "-", ".", "+", "1a", "0x", "e5", "--1")],
    ],
)  # fmt: skip
def test_resolve(text: str, kind: str, value: Any) -> None:
    assert resolve(text) == (kind, value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number(text: str) -> None:
    kind, value = resolve(text)
    assert kind == "float"
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0x10", "hexadecimal notation"),
        ("0b1", "binary notation"),
        ("0777", "octal notation"),
        ("0o7", "octal notation"),
        ("089", "a number with a leading zero"),
        ("1:30", "a base-60 number in YAML"),
        ("2024-1-5", "a date in YAML"),
        ("2024-01-15 10:00:00", "a date in YAML"),
        ("1_000", "a number with `_` in it"),
        ("90s", None),
        ("12", None),
        ("text", None),
    ],
)
def test_notation(text: str, words: str | None) -> None:
    assert notation(text) == words


@given(st.text("0123456789.-+eEx_: ", min_size=1, max_size=8))
def test_what_yaml_reads_as_a_number_is_no_plain_text_to_us(text: str) -> None:
    """Text to us is text to YAML 1.1 too, or has a name of its own in messages."""
    try:
        theirs = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return
    if isinstance(theirs, (int, float)) and resolve(text.strip())[0] == "str":
        assert notation(text.strip()) is not None
