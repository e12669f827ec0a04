"""The images of a node's engine: one command, whose output `--inventory FILE` can read, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from reprokit.engine import LABEL
from reprokit.errors import EngineError
from reprokit.nodes.config import find
from reprokit.nodes.ssh import SshConnection, last_line
from reprokit.oci.model import Descriptor
from reprokit.oci.store import Chain, Form, LayerChains, is_containerd
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import LAYERS

_BEGIN = "reprokit: inventory"
_ZSTD_SINCE = 23  # moby's archive.DecompressStream reads zstd since then, gzip in all versions
_IMAGE = (
    '{"id":{{json .Id}},"tags":{{json .RepoTags}},"layers":{{json .RootFS.Layers}},"size":{{.Size}},'
    '"labels":{{with .Config}}{{json .Labels}}{{else}}null{{end}}}'
)
_INFO = "{{.DockerRootDir}}{{println}}{{json .DriverStatus}}{{println}}{{json .Driver}}"
# One JSON document a line. The lists are split by the shell on purpose; an image that goes meanwhile is no error.
SCRIPT = f"""
command -v docker >/dev/null || {{ echo 'no docker command' >&2; exit 3; }}
engine=$(docker version --format '{{{{json .Server}}}}') || exit 3
echo '{_BEGIN}'
printf '%s\\n' "$engine"
docker info --format '{_INFO}' | {{
  IFS= read -r root
  cat
  df -P -k "$root" 2>/dev/null | {{ read -r _; read -r _ _ _ free _; echo "${{free:-null}}"; }}
}}
if command -v zstd >/dev/null; then echo true; else echo false; fi
images=$(docker image ls -q --no-trunc | sort -u)
[ -z "$images" ] || docker image inspect --format '{_IMAGE}' $images 2>/dev/null
for manifest in "${{XDG_CACHE_HOME:-$HOME/.cache}}"/reprokit/manifests/*; do
  [ ! -f "$manifest" ] || printf '{{"manifest":"sha256:%s","content":%s}}\\n' "${{manifest##*/}}" "$(cat "$manifest")"
done
"""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class NodeImage(_Frozen):
    """An image: ID, names, diff IDs of its layers from the base up, bytes, and reprokit's own labels.

    `config` is the digest of its config if that is not the ID: for a sent image in a containerd store.
    """

    id: str
    config: str = ""
    tags: tuple[str, ...]
    layers: tuple[str, ...]
    size: int
    labels: dict[str, str]


class Inventory(_Frozen):
    """An engine: version, whether containerd keeps its images, storage driver, images.

    `free` are the free bytes at its root folder, None where the login cannot see it; `zstd` is whether the program
    exists. `blobs` are the known blobs of a containerd store, by diff ID; empty for other stores.
    """

    version: str
    architecture: str
    containerd: bool
    storage: str
    free: int | None
    zstd: bool
    images: tuple[NodeImage, ...]
    blobs: dict[str, Descriptor] = {}

    @property
    def chains(self) -> LayerChains:
        return LayerChains((image.layers, image.id) for image in self.images)

    @property
    def form(self) -> Form:
        """The archive that the engine loads. Without a zstd there, an old engine gets layers in gzip."""
        if self.containerd:
            return Form.LAYOUT
        major = self.version.split(".")[0]
        if major.isdigit() and int(major) >= _ZSTD_SINCE:
            return Form.ZSTD
        return Form.PLAIN if self.zstd else Form.GZIP


def inventory(connection: SshConnection, limit_s: float = 60) -> Inventory:
    """Ask a node. Raises SourceError where the connection breaks, EngineError where no engine answers."""
    answer = connection.run(SCRIPT, limit_s=limit_s)
    if answer.returncode:
        raise no_engine(connection, answer.stderr)
    try:
        return parse(answer.stdout)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise EngineError(f"the node's answer is not valid: {error}", connection.node.name) from None


def layers_on(name: str) -> list[Chain]:
    """The layers of each image that a node has now. Raises UsageError, SourceError, EngineError."""
    with SshConnection(find(name)) as connection:
        return [image.layers for image in inventory(connection).images]


def parse(output: str) -> Inventory:
    """Parse the script's output. Raises ValueError, LookupError, TypeError or AttributeError."""
    lines = output.partition(f"{_BEGIN}\n")[2].splitlines()
    # docker prints an empty line if all the images have been removed meanwhile.
    engine, status, storage, free, zstd, *held = map(_read, filter(None, lines))
    manifests = {line["manifest"]: line["content"] for line in held if line and "manifest" in line}
    LAYERS.check(max((len(line.get("layers") or ()) for line in held if line), default=0), "layers in an image")
    images = tuple(_images((line for line in held if line and "id" in line), manifests))
    return Inventory(
        version=engine["Version"],
        architecture=engine.get("Arch") or "",
        containerd=is_containerd(status),
        storage=storage,
        free=None if free is None else free * 1024,
        zstd=zstd,
        images=images,
        blobs=dict(_blobs(images, manifests)),
    )


def _read(line: str) -> Any:
    try:
        return parsed(line)
    except ValueError:
        if line.startswith('{"manifest"'):  # damaged, but only a hint
            return None
        raise


def _images(lines: Iterable[Any], manifests: Mapping[str, Any]) -> Iterator[NodeImage]:
    for line in lines:
        labels = {key: value for key, value in (line["labels"] or {}).items() if key.startswith(f"{LABEL}.")}
        yield NodeImage(
            id=line["id"],
            config=manifests[line["id"]]["config"]["digest"] if line["id"] in manifests else "",
            tags=tuple(line["tags"] or ()),
            layers=tuple(line["layers"] or ()),
            size=line["size"],
            labels=labels,
        )


def _blobs(images: Iterable[NodeImage], manifests: Mapping[str, Any]) -> Iterator[tuple[str, Descriptor]]:
    """The blobs that the manifests of present images name; containerd stores identify images by manifest."""
    for image in images:
        named = manifests[image.id]["layers"] if image.id in manifests else ()
        for diff_id, blob in zip(image.layers, named, strict=False):
            yield diff_id, Descriptor(blob["mediaType"], blob["digest"], blob["size"])


def no_engine(connection: SshConnection, said: str) -> EngineError:
    """The error of a node's engine, from the output of its `docker`."""
    why, name = last_line(said.encode()), connection.node.name
    if "permission denied" in why.lower():
        hint = 'on the node: sudo usermod -aG docker "$USER", then log in again'
        return EngineError("this login may not use the node's Docker Engine", name, hint)
    return EngineError(f"no Docker Engine answers there: {why}", name, "install and start one on the node")
