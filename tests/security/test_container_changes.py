"""A container's commands can make any number of files, and reprokit asks the engine about each changed folder."""

from __future__ import annotations

import contextlib
import io
import tarfile

import pytest

from reprokit.container.recreate import changed_file


class Engine:
    """An engine with one container, in which commands made this many empty folders."""

    def __init__(self, folders: int) -> None:
        self.folders, self.requests = folders, 0

    def changes(self, container: str) -> list[dict]:
        return [{"Path": f"/made/{number}", "Kind": 1} for number in range(self.folders)]

    @contextlib.contextmanager
    def archive(self, container: str, path: str):
        self.requests += 1
        stream, folder = io.BytesIO(), tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.addfile(folder)
        yield iter([stream.getvalue()])


@pytest.mark.parametrize(("folders", "requests", "changed"), [(3, 3, ""), (5000, 1000, "/made/4999")])
def test_many_empty_folders_cost_few_requests_and_count_as_files(folders, requests, changed):
    engine = Engine(folders)
    found = {"Id": "c", "Config": {"Labels": {}}}
    assert (changed_file(engine, found), engine.requests) == (changed, requests)
