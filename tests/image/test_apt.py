"""The shell that blocks install packages with."""

from __future__ import annotations

import subprocess

import pytest

from reprokit.supply.kinds.apt.install import enable

LINES = """\
deb http://mirror.test/debian bookworm main
deb [signed-by="/x.gpg"] http://mirror.test/debian bookworm main
deb http://mirror.test/debian bookworm-updates main
deb http://security.test/debian-security bookworm-security main
"""
STANZAS = """\
Types: deb
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /x.gpg

Types: deb
URIs: http://security.test/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("name", "text", "changed"),
    [("sources.list", LINES, [0, 1]), ("sources.list.d/debian.sources", STANZAS, [3])],
)
def test_components_are_asked_of_the_main_archive_only(tmp_path, name: str, text: str, changed: list[int]):
    file = tmp_path / "apt" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (tmp_path / "os-release").write_text("VERSION_CODENAME=bookworm\n")
    script = "; ".join(enable(["contrib", "non-free"])).replace("/etc/", f"{tmp_path}/")
    for _ in range(2):  # a second block that asks for them changes nothing more
        subprocess.run(["sh", "-euc", script], check=True)
        expected = text.splitlines()
        for line in changed:
            expected[line] += " contrib non-free"
        assert file.read_text().splitlines() == expected
