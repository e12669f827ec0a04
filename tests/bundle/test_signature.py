"""Bundles signed with real ssh keys."""

from __future__ import annotations

import subprocess

import pytest

from reprokit.bundle import signature
from reprokit.errors import UsageError, WorkFailed
from tests.support.strangers import new_key

TEXT = signature.statement(b"{}", b'{"a": 1}')


def test_a_signature_names_its_key_and_fits_no_other_text(tmp_path):
    key, other = new_key(tmp_path, "one"), new_key(tmp_path, "two")
    signed = signature.sign(TEXT, key)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True).stdout
    fingerprint = listed.split()[1]
    assert signature.verify(TEXT, signed) == fingerprint
    public = key.with_suffix(".pub")
    assert signature.verify(TEXT, signed, public) == fingerprint
    (tmp_path / "allowed").write_text(f"# ours\nme@lab {public.read_text()}")
    assert signature.verify(TEXT, signed, tmp_path / "allowed") == f"me@lab {fingerprint}"
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(signature.statement(b"{}", b'{"a": 2}'), signed)
    with pytest.raises(WorkFailed, match="not an allowed key"):
        signature.verify(TEXT, signed, other.with_suffix(".pub"))
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(TEXT, b"nonsense")


def test_a_key_that_cannot_sign_is_named(tmp_path):
    (tmp_path / "key").write_text("nonsense")
    with pytest.raises(UsageError) as error:
        signature.sign(TEXT, tmp_path / "key")
    assert error.value.where == str(tmp_path / "key")
