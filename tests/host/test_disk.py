"""Free disk space."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from reprokit.errors import EngineError, UsageError
from reprokit.host.disk import check_writable, free_bytes, require_space, unwritable


def test_too_little_space_is_an_error_with_both_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "yet")
    assert free is not None and free > 0
    require_space(1, tmp_path)
    require_space(2_000_000, "/there", free=2_000_000)
    with pytest.raises(EngineError, match="not enough disk space: need 2 MB, 100 B free") as error:
        require_space(2_000_000, "/there", free=100)
    assert error.value.where == "/there" and error.value.exit_code == 3
    assert error.value.hint.startswith("free 2 MB there: `reprokit store gc` ")
    monkeypatch.setattr("reprokit.host.disk.free_bytes", lambda folder: None)
    require_space(1 << 60, tmp_path)  # unknown free space is no error


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, EngineError), (errno.EROFS, EngineError), (errno.EACCES, EngineError), (errno.ENOENT, UsageError),
     (errno.ENOTDIR, UsageError), (errno.EEXIST, UsageError)],
)  # fmt: skip
def test_a_disk_that_refuses_is_the_hosts_fault_and_a_wrong_path_the_users(number: int, kind: type) -> None:
    error = unwritable(OSError(number, "why"), "the page", Path("a/b"))
    assert (type(error), error.message, error.where) == (kind, "the page cannot be written: why", "a/b")


def test_a_read_only_folder_is_named_for_what_would_be_made_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check_writable(tmp_path / "not" / "yet", "the page")
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(EngineError, match=f"the page cannot be written: {tmp_path} is read-only") as error:
        check_writable(tmp_path / "not" / "yet", "the page", "go away")
    assert (error.value.where, error.value.hint) == (str(tmp_path / "not" / "yet"), "go away")
