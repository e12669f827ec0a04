"""What is said about the images of services that a bundle lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.bundle.selection import services_left_out

RECIPE = """\
name: served
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants:
  cpu:
    base: debian:12
    services:
      db: {image: 'postgres:16', ports: [5432]}
      server: {recipe: 'served:plain', command: [serve], ports: [7000]}
  plain: {base: debian:12}
"""


def test_each_missing_image_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "served.yaml").write_text(RECIPE)
    label, own, server = "served:cpu", "reprokit/served:cpu", "reprokit/served:plain"
    database, other = services_left_out([label], [own], False)
    assert database == (
        "without the image of the service db of served:cpu, postgres:16; --with-store adds it, if it is locked"
    )
    assert other == "without the image of the service server of served:cpu, served:plain; name served:plain too"
    assert services_left_out([label], [own, server], False) == [database]
    assert services_left_out([label], [own], True) == [other]
    assert services_left_out([label], [own, server], True) == []
    assert services_left_out(["gone:cpu", "served:gone", "served:plain"], [own], False) == []
