"""Bases made of packages: what goes in and what is said of it."""

from __future__ import annotations

import shutil
import uuid

import pytest

from reprokit.image.bootstrap import bootstrap, installed, packages_hash
from reprokit.image.release import Release
from tests.support.builds import root_file_system

engine_test = pytest.mark.engine


def test_packages_are_hashed_whatever_their_order():
    entries = ["Package: a\nStatus: ok\nVersion: 1.0\n", "Package: b\nDescription: x\n y\nVersion: 2:3\n"]
    found = installed("\n".join(entries))
    assert found == {("a", "1.0"), ("b", "2:3")} == installed("\n".join(entries[::-1]))
    assert packages_hash(found) != packages_hash({("a", "1.1"), ("b", "2:3")})


@engine_test
def test_the_fallback_tool_is_asked_with_the_hosts_proxy_only(engine, home, monkeypatch, tmp_path):
    """mmdebstrap is replaced by a script that says what it was given and prints a small file system."""
    tar = tmp_path / "root.tar"
    tar.write_bytes(root_file_system())
    script = tmp_path / "mmdebstrap"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/arguments\necho "I: working..." >&2\ncat {tar}\n')
    script.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(script))
    release = Release("debian", f"test-{uuid.uuid4().hex[:8]}", "bookworm")
    said: list[str] = []
    name = bootstrap(engine, release, said.append)
    try:
        image = engine.image(name)
        assert image["Config"]["Labels"]["reprokit.bootstrap.suite"] == "bookworm"
        assert image["Config"]["Cmd"] == ["bash"]
        assert said[0] == "bookworm: working..."
        arguments = (tmp_path / "arguments").read_text().splitlines()
        assert arguments[-2:] == ["bookworm", "-"] and "--variant=minbase" in arguments
        assert not [a for a in arguments if "://" in a or "Proxy" in a]
    finally:
        engine.remove_image(name, force=True)
    assert not list((home / "tmp").iterdir())
