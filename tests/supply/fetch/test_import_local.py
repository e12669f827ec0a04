from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.supply.fetch.download import Partial
from reprokit.supply.fetch.pool import import_files
from tests.support.fetching import Fetch, content, want

A, B = content(5000, 1), content(5000, 2)


def test_files_are_found_by_content_whatever_their_names(fetch: Fetch, tmp_path: Path, reported: list[str]):
    folder = tmp_path / "downloads"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "cudnn (1).tar.xz.download").write_bytes(A)
    (folder / "same name.bin").write_bytes(content(5000, 3))
    (folder / "link").symlink_to(folder / "nowhere")
    fetch.partial(A[:100], of=A)
    assert import_files(folder, [want(A), want(B)], fetch.store) == 1
    assert fetch.has(A) and not fetch.has(B) and fetch.left_over() == []
    assert "cudnn (1).tar.xz.download" in reported[0]
    assert import_files(folder, [want(A), want(B)], fetch.store) == 0


def test_the_user_s_file_stays_theirs_and_a_download_its_process_s(fetch: Fetch, tmp_path: Path):
    (tmp_path / "mine").write_bytes(A)
    (tmp_path / "mine").chmod(0o600)
    claimed = Partial.claim(fetch.store, want(A))
    assert claimed is not None
    with claimed:
        assert import_files(tmp_path, [want(A)], fetch.store) == 0
    import_files(tmp_path, [want(A)], fetch.store)
    (tmp_path / "mine").write_bytes(B)
    assert fetch.has(A) and (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="no such folder") as caught:
        import_files(tmp_path / "no", [want(A)], fetch.store)
    assert caught.value.where == str(tmp_path / "no")
