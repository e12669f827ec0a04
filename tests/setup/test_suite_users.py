"""What `as_user` lets a test do: read every file, and nothing else that only root may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from tests.support.privileges import as_root
from tests.support.users import GID, SHARED, UID, as_user


@as_root()
def test_all_of_roots_rights_but_to_read_are_given_up(tmp_path: Path):
    folder = tmp_path / "of-root"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("x")

    def work():
        assert os.getresuid() == (UID,) * 3 and os.getresgid() == (GID,) * 3 and os.getgroups() == [SHARED]
        assert (folder / "file").read_text() == "x"
        for forbidden in (
            lambda: (folder / "file").open("a"),
            (folder / "file").unlink,
            lambda: os.chown(folder, UID, GID),
            lambda: os.setuid(0),
        ):
            with pytest.raises(PermissionError):
                forbidden()
        return "ended"

    assert as_user(work, groups=[SHARED]) == "ended"
    with pytest.raises(AssertionError, match="Permission denied"):
        as_user((folder / "file").read_text, reads_all=False)


def test_errors_reach_the_test():
    def fail(error: BaseException):
        raise error

    with pytest.raises(UsageError, match="what") as raised:
        as_user(lambda: fail(UsageError("what", "where", "hint")))
    assert (raised.value.where, raised.value.hint) == ("where", "hint")
    with pytest.raises(AssertionError, match="other"):
        as_user(lambda: fail(ValueError("other")))
