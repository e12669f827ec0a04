"""Bundles signed with real ssh keys."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.bundle import signature
from reprokit.errors import UsageError, WorkFailed


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("one", "two"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", str(folder / name)], check=True)
    return folder / "one", folder / "two"


TEXT = signature.statement(b"{}", b'{"a": 1}')


def test_a_signature_names_its_key(keys, tmp_path):
    signed = signature.sign(TEXT, keys[0])
    listed = subprocess.run(["ssh-keygen", "-l", "-f", str(keys[0])], capture_output=True, text=True).stdout
    fingerprint = listed.split()[1]
    assert signature.verify(TEXT, signed) == fingerprint
    public = keys[0].with_suffix(".pub")
    assert signature.verify(TEXT, signed, public) == fingerprint
    (tmp_path / "allowed").write_text(f"# ours\nme@lab {public.read_text()}")
    assert signature.verify(TEXT, signed, tmp_path / "allowed") == f"me@lab {fingerprint}"


def test_other_texts_other_keys_and_damaged_signatures_are_refused(keys):
    signed = signature.sign(TEXT, keys[0])
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(signature.statement(b"{}", b'{"a": 2}'), signed)
    with pytest.raises(WorkFailed, match="not an allowed key"):
        signature.verify(TEXT, signed, keys[1].with_suffix(".pub"))
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(TEXT, b"nonsense")


def test_a_key_that_cannot_sign_is_named(tmp_path):
    (tmp_path / "key").write_text("nonsense")
    with pytest.raises(UsageError) as error:
        signature.sign(TEXT, tmp_path / "key")
    assert error.value.where == str(tmp_path / "key")
