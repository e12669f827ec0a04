"""Which layer a file of an engine's archive is, before its content has come.

What the target has, or an earlier attempt has compressed, then costs nothing. A layer that is not foretold is just
treated as new.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence

# Docker until 24 names a layer's folder by the hash of an image of version 1 made up for it.
# Source: moby 20.10 `image/tarexport/save.go` (saveImage), `image/v1/imagev1.go` (CreateID).
_NO_CONFIG = {
    **{"Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False},
    **{"AttachStderr": False, "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None},
    **{"Image": "", "Volumes": None, "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": None},
}


class Foretold:
    """For images given by the diff ids of their layers."""

    def __init__(self, images: Sequence[tuple[str, ...]]) -> None:
        self._known = {diff_id for layers in images for diff_id in layers}
        self._folders: dict[str, str] = {}
        self._tops: dict[str, set[str]] = {}
        for layers in set(images):
            chain = parent = ""
            for diff_id in layers[:-1]:
                chain = _digest(f"{chain} {diff_id}") if chain else diff_id
                parent = _digest(_version_1(chain, parent))
                self._folders[_hex(parent)] = diff_id
            for top in layers[-1:]:
                self._tops.setdefault(_hex(parent), set()).add(top)

    def diff_id(self, path: str, texts: Mapping[str, bytes]) -> str | None:
        """The layer in the file `path`; `texts` are the small files that came before it."""
        folder, _, name = path.rpartition("/")
        if name == "layer.tar":
            return self._folders.get(folder) or self._top(texts.get(posixpath.join(folder, "json")))
        # OCI layouts and podman name the file by its digest, which is the diff id where it is not compressed.
        digest = f"sha256:{name.removesuffix('.tar')}"
        return digest if digest in self._known else None

    def _top(self, described: bytes | None) -> str | None:
        """The last layer's folder is named after the whole config, but it names the one below."""
        try:
            parent = json.loads(described or b"").get("parent", "")
        except (ValueError, AttributeError):
            return None
        candidates = self._tops.get(parent, set())
        return next(iter(candidates)) if len(candidates) == 1 else None


def _version_1(chain: str, parent: str) -> str:
    fields = {"container_config": _NO_CONFIG, "created": "1970-01-01T00:00:00Z", "layer_id": chain}
    return json.dumps(fields | ({"parent": parent} if parent else {}), separators=(",", ":"))


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
