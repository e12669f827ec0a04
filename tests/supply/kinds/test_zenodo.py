"""Files of Zenodo records: a recorded answer of the record API, served over HTTP, and hostile ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from reprokit.errors import SourceError, UsageError
from reprokit.image.lock.resolve import data_of
from reprokit.recipe.model import Recipe
from reprokit.supply.fetch.pool import FetchFailed, fetch_all
from reprokit.supply.kinds import zenodo
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Lock, PlainFile, RecordFile
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from reprokit.supply.upkeep import of_target
from tests.support.fetching import local_mirrors
from tests.support.stores import a_lock, export_inputs, write_recipe
from tests.support.upstream import Upstream

CONTENT = b"# A tiny data file for test purposes only\n1  2  3  4  5  6\n"
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
RECORD = "4924875"
NAME = "tiny-data.txt"


def answer(**file: Any) -> dict[str, Any]:
    """The API's answer for a record with two files, with little of its metadata."""
    links = {"self": f"https://zenodo.org/api/records/{RECORD}/files/{NAME}/content"}
    first = {"id": "513d7033-93a2-4eeb-821c-2fb0bbab0012", "key": NAME, "size": len(CONTENT), "checksum": f"md5:{MD5}"}
    second = {"id": "a34c0d0b", "key": "store.zip", "size": 181, "checksum": f"md5:{'7' * 32}", "links": links}
    return {
        "created": "2021-06-11T01:33:21.107537+00:00",
        "conceptrecid": "4924874",
        "id": int(RECORD),
        "doi": f"10.5281/zenodo.{RECORD}",
        "metadata": {"title": "Test data for the Pooch library", "access_right": "open"},
        "files": [{**first, "links": links, **file}, second],
        "owners": [{"id": "5982"}],
        "revision": 5,
    }


@pytest.fixture
def api(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    monkeypatch.setattr(zenodo, "ADDRESS", f"http://127.0.0.1:{upstream.port}")
    content = f"/records/{RECORD}/files/{NAME}?download=1"
    upstream.answers[content] = (200, {"Content-Type": "application/octet-stream"}, CONTENT)
    serve(upstream, answer())
    return upstream


def serve(upstream: Upstream, document: Any) -> None:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    upstream.answers[f"/api/records/{RECORD}"] = (200, {"Content-Type": "application/json"}, body)


@pytest.fixture
def mirrors(store: Store) -> Mirrors:
    return local_mirrors(store)


def recipe(**data: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "paper",
            "paper": {"title": "T", "venue": "V", "year": 2021, "licence": "MIT"},
            "variants": {"cpu": {"base": "debian:12"}},
            "data": [{"name": NAME, **data}],
        }
    )


def lock(mirrors: Mirrors, *kept: PlainFile | RecordFile, **data: Any) -> tuple[PlainFile | RecordFile, ...]:
    return data_of(recipe(**(data or {"source": f"zenodo:{RECORD}"})), kept, False, mirrors)


def test_lock_takes_size_and_md5_from_the_record_and_downloads_nothing(api: Upstream, mirrors: Mirrors):
    (locked,) = lock(mirrors)
    assert isinstance(locked, RecordFile)
    assert (locked.md5, locked.size, locked.sha256) == (MD5, len(CONTENT), None)
    assert [path for _, path, _, _ in api.requests] == [f"/api/records/{RECORD}"]
    assert lock(mirrors, locked) == (locked,)
    assert len(api.requests) == 1  # what is locked is not asked for again
    urls = ("https://forge.test/x",)
    old = PlainFile(name=NAME, sha256="a" * 64, size=1, urls=urls)
    assert lock(mirrors, old, urls=list(urls)) == (old,)  # a plain file keeps its form


def test_the_first_fetch_adds_the_sha256_to_the_lock(
    api: Upstream, store: Store, mirrors: Mirrors, tmp_path: Path, recipes: Path
):
    data = lock(mirrors)
    recipe_path = write_recipe(recipes, a_lock("paper").model_copy(update={"data": data}))
    path = lock_file.lock_path(recipe_path)
    assert lock_file.read(path).data == data
    # What was not fetched yet is listed and not exported.
    (row,) = of_target(store, "paper")
    assert (row.name, row.size, row.here) == (NAME, len(CONTENT), False)
    assert export_inputs(["paper"], tmp_path / "x.rkit", store).files == ()
    fetched = fetch_all(lock_file.read(path).data_inputs(), mirrors)
    assert (fetched.files, fetched.bytes) == (1, len(CONTENT))
    lock_file.complete(path, store)
    (file,) = lock_file.read(path).data
    assert file.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert store.path(file.sha256).read_bytes() == CONTENT
    (row,) = of_target(store, "paper")
    assert row.here and row.key == file.sha256
    assert fetch_all([file.locked_input()], mirrors).files == 0
    assert fetch_all(Lock(recipe="paper", data=data).data_inputs(), mirrors).files == 0  # by its md5, too
    # An md5 of one record says nothing of another.
    assert data[0].locked_input().stored(store)
    assert not data[0].model_copy(update={"source": "zenodo:1"}).locked_input().stored(store)


def test_other_bytes_are_refused(api: Upstream, store: Store, mirrors: Mirrors):
    serve(api, answer(checksum="md5:" + "0" * 32))
    locked = zenodo.find(RECORD, NAME, mirrors).locked_input()
    with pytest.raises(FetchFailed, match=f"expected md5 {'0' * 32}, got {MD5}"):
        fetch_all([locked], mirrors)
    assert not locked.stored(store) and not any((store.root / "sha256").rglob("*"))


def test_the_form_of_october_2023_and_links_that_are_not_followed(api: Upstream, mirrors: Mirrors):
    document = answer(links={"self": "http://169.254.169.254/latest/meta-data"})
    for file in document["files"]:
        file["filename"], file["checksum"] = file.pop("key"), file["checksum"].removeprefix("md5:")
    serve(api, document)
    file = zenodo.find(RECORD, NAME, mirrors)
    assert file.md5 == MD5 and file.urls == (f"{zenodo.ADDRESS}/records/{RECORD}/files/{NAME}?download=1",)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>down for maintenance</html>",
        b"[" * 100_000,
        b"[]",
        {},
        {"files": None},
        {"files": {"key": NAME}},
        {"files": ["x"]},
        {"files": [{}]},
        answer(key="../../etc/passwd"),
        answer(key="a/b"),
        answer(key="a\\b"),
        answer(key="a\x00b"),
        answer(key="x" * 1000),
        answer(key=7),
        answer(size=-1),
        answer(size="59"),
        answer(size=1.5),
        answer(checksum="sha1:" + "a" * 40),
        answer(checksum="md5:x"),
        answer(checksum=None),
    ],
)
def test_what_makes_no_sense_is_refused(api: Upstream, mirrors: Mirrors, document: Any):
    serve(api, document)
    with pytest.raises(SourceError) as error:
        zenodo.find(RECORD, NAME, mirrors)
    assert error.value.where.endswith(f"/api/records/{RECORD}") and len(error.value.message) < 400


def test_long_lists_are_bounded(api: Upstream, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch):
    serve(api, {"files": answer()["files"] * 6000})
    with pytest.raises(UsageError, match="more than 10000 files in a record"):
        zenodo.find(RECORD, NAME, mirrors)
    monkeypatch.setenv("REPROKIT_LIMIT_DOCUMENT", "1000000")
    with pytest.raises(UsageError, match="more than 1000000 bytes"):
        zenodo.find(RECORD, NAME, mirrors)


def test_missing_records_and_files_and_files_of_one_name(api: Upstream, mirrors: Mirrors):
    with pytest.raises(SourceError, match=r"no file 'tiny-dat\.txt'; did you mean tiny-data\.txt"):
        zenodo.find(RECORD, "tiny-dat.txt", mirrors)
    with pytest.raises(SourceError, match="HTTP 404"):
        zenodo.find("1", NAME, mirrors)
    serve(api, {"files": [answer()["files"][0], answer(size=1)["files"][0]]})
    with pytest.raises(SourceError, match="twice"):
        zenodo.find(RECORD, NAME, mirrors)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"source": "zenodo:1", "urls": ["https://forge.test/x"]},
        {"source": "zenodo:../1"},
        {"source": "zenodo:1?x"},
        {"source": "zenod:1"},
        {"source": "1"},
    ],
)
def test_a_recipe_names_a_record_or_addresses(data: dict[str, Any]):
    with pytest.raises(ValueError):
        recipe(**data)
