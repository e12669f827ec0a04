"""`reprokit fetch --json`."""

from __future__ import annotations

import json

from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe.find import target
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.store import Store
from tests.support.stores import a_lock, plain, put, write_recipe


def test_as_json(call, tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    lock = a_lock("mine", [plain(b"stored", "a.bin")])
    path = write_recipe(tmp_path / "recipes", lock)
    mine = target(f"{path}:cpu")
    fresh = lock.variants["cpu"].model_copy(update={"inputs": sections(mine, render(mine), "x86_64")})
    write(lock_path(path), lock.model_copy(update={"variants": {"cpu": fresh}}))
    put(Store(), b"stored")
    done = call("fetch", str(path), "--json")
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert found == {"downloaded": {"bytes": 0, "files": 0, "commits": 0}, "stored": {"bytes": 6, "files": 1}}
