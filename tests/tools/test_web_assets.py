"""The built page belongs to its sources, or the check says which file is stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.web_assets import BUILT, MANIFEST, SOURCES, hashes, problems


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Path]:
    """Sources and a built page that belong together."""
    sources, assets = tmp_path / "web", tmp_path / "assets"
    for path, text in (
        (sources / "src" / "main.tsx", "source"),
        (sources / "package-lock.json", "{}"),
        (sources / "node_modules" / "preact" / "index.js", "installed"),
        (assets / "app.js", "built"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    manifest = {"sources": hashes(sources), "built": hashes(assets)}
    (assets / MANIFEST).write_text(json.dumps(manifest))
    return sources, assets


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        pytest.param("web/node_modules/preact/index.js", "another", [], id="an installed package"),
        pytest.param("web/src/main.tsx", "edited", ["web/src/main.tsx has changed"], id="a source"),
        pytest.param(
            "web/package-lock.json", "[]", ["web/package-lock.json has changed"], id="the lockfile"
        ),
        pytest.param("web/src/new.ts", "", ["web/src/new.ts is new"], id="a new source"),
        pytest.param("web/src/main.tsx", None, ["web/src/main.tsx is missing"], id="one less"),
        pytest.param("assets/app.js", "edited", ["assets/app.js has changed"], id="a built file"),
        pytest.param("assets/manifest.json", None, ["manifest.json is missing"], id="no manifest"),
    ],
)
def test_a_stale_page_is_found(built, tmp_path, path: str, text: str | None, said: list[str]):
    assert problems(*built) == []
    if text is None:
        (tmp_path / path).unlink()
    else:
        (tmp_path / path).write_text(text)
    assert problems(*built) == said


def test_the_page_of_this_project_is_up_to_date():
    assert problems(SOURCES, BUILT) == []


def test_the_lockfile_names_no_registry():
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()
