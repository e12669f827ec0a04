"""1000 damaged bundles: refused before the engine is asked anything, none crashes, nothing is written."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from reprokit.bundle.load import checked
from reprokit.bundle.model import METADATA
from reprokit.errors import UsageError
from reprokit.oci.model import DOCKER_MANIFEST, INDEX, OCI_LAYOUT
from tests.support import made as making
from tests.support.damage import ALL, spoilt
from tests.support.images import noise, tar_of
from tests.support.made import Made, tar

COUNT = 1000


def made() -> Made:
    a, b, c = (tar_of({f"bin/{name}": noise(20_000, seed)}) for seed, name in enumerate("abc"))
    return Made.of({"reprokit-test-damaged/x:1": [a, b, c], "reprokit-test-damaged/y:1": [a, c]})


def refusal(path: Path) -> UsageError | None:
    with ExitStack() as stack:
        try:
            checked([path], stack, lambda path: nullcontext(lambda done, total: None))
        except UsageError as error:
            return error
    return None


def files_below(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_the_undamaged_bundle_is_accepted(tmp_path):
    assert refusal(made().write(tmp_path / "x.rkit")) is None


def test_a_config_that_engines_read_differently_is_refused(tmp_path, monkeypatch):
    plain = making.config_of
    monkeypatch.setattr(making, "config_of", lambda *args: plain(*args)[:-1] + b', "Config": {"Entrypoint": ["/x"]}}')
    error = refusal(made().write(tmp_path / "x.rkit"))
    assert error and "readers understand the key 'config' of its config differently" in error.message


@pytest.mark.slow
def test_every_damaged_bundle_is_refused(tmp_path):
    path, found, accepted = tmp_path / "in" / "x.rkit", Counter(), []
    path.parent.mkdir()
    for number in range(COUNT):
        kind, raw = spoilt(number, made())
        path.write_bytes(raw)
        error = refusal(path)
        if error is None:
            accepted.append((number, kind))
        else:
            assert error.where.startswith(str(path)) and error.message, (number, kind)
            found[kind] += 1
    assert not accepted
    assert files_below(tmp_path) == [str(path.parent), str(path)]
    assert set(found) == {kind.__name__ for kind in ALL}


@pytest.mark.parametrize("name", [METADATA, INDEX, DOCKER_MANIFEST, OCI_LAYOUT])
@pytest.mark.slow
def test_no_bit_of_a_small_file_can_change(tmp_path, name):
    files = made().files
    for at in range(len(files[name])):
        content = bytearray(files[name])
        content[at] ^= 1 << at % 8
        (tmp_path / "x.rkit").write_bytes(tar({**files, name: bytes(content)}))
        assert refusal(tmp_path / "x.rkit") is not None, at
