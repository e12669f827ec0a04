"""A package index in JSON, with upload times."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from tests.support.upstream import Upstream
from tests.support.wheels import make_wheel

JSON = "application/vnd.pypi.simple.v1+json"


class Index:
    """A simple index in JSON; `times` false leaves the upload times out."""

    def __init__(self, upstream: Upstream, folder: Path, times: bool = True) -> None:
        self.upstream, self.folder, self.times = upstream, folder, times
        self.files: dict[str, list[dict[str, object]]] = {}

    def add(self, path: Path, day: str, python: str = "") -> None:
        self.upstream.answers[f"/files/{path.name}"] = (200, {}, path.read_bytes())
        name = path.name.split("-")[0].replace("_", "-")
        entry = {"filename": path.name, "url": f"/files/{path.name}", "hashes": {}, "size": path.stat().st_size}
        entry |= {"upload-time": f"{day}T12:00:00.000000Z"} if self.times else {}
        entry |= {"requires-python": python} if python else {}
        self.files.setdefault(name, []).append(entry)
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": self.files[name]}
        self.upstream.answers[f"/simple/{name}/"] = (200, {"Content-Type": JSON}, json.dumps(page).encode())

    def wheel(
        self,
        name: str,
        version: str,
        day: str,
        tag: str = "py3-none-any",
        requires: tuple[str, ...] = (),
        python: str = "",
    ) -> None:
        self.add(make_wheel(self.folder, name, version, requires, tag), day, python)

    def sdist(self, name: str, version: str, day: str, requires: str, more: dict[str, str] = {}) -> None:  # noqa: B006
        path = self.folder / f"{name}-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            texts = {
                "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                "setup.py": "raise SystemExit",
            }
            for member, text in {**texts, f"{name}.egg-info/requires.txt": requires, **more}.items():
                info = tarfile.TarInfo(f"{name}-{version}/{member}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        self.add(path, day)

    def releases(self, text: str) -> None:
        """Add each `[sdist] NAME VERSION [DAY] [TAG] [needs REQUIREMENT,...] [on PYTHON]`; they are separated by `;`.

        The day is 2021-01-01 by default. A tag such as `cp39` makes a compiled wheel.
        """
        for entry in text.split(";"):
            entry, _, python = entry.strip().partition(" on ")
            entry, _, needs = entry.partition(" needs ")
            requires = tuple(needs.split(",")) if needs else ()
            words = entry.removeprefix("sdist ").split()
            name, version = words[:2]
            day = next((word for word in words[2:] if word.count("-") == 2), "2021-01-01")
            tag = next(
                (f"{word}-{word}-manylinux2014_x86_64" for word in words[2:] if word[:2] == "cp"), "py3-none-any"
            )
            if entry.startswith("sdist "):
                self.sdist(name, version, day, "\n".join(requires))
            else:
                self.wheel(name, version, day, tag, requires, python)
