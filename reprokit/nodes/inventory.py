"""What a node's engine holds: asked in one command, kept as data that `--inventory FILE` reads again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from reprokit.bundle.model import Descriptor
from reprokit.engine import LABEL
from reprokit.errors import EngineError
from reprokit.nodes.ssh import Connection, last_line
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import LAYERS

_BEGIN = "reprokit: inventory"
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


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Held(_Model):
    """An image: its id, names, the diff ids of its layers from the base on, bytes, and reprokit's own labels.

    `config` is the digest of its config where that is not the id: in a containerd store, for an image that was sent.
    """

    id: str
    config: str = ""
    tags: tuple[str, ...]
    layers: tuple[str, ...]
    size: int
    labels: dict[str, str]


class Inventory(_Model):
    """An engine: its version, whether containerd keeps its images, its storage driver, its images.

    `free` are the bytes that are free at its root folder, None where that is not to be seen from the login; `zstd` is
    whether there is a program of this name. `blobs` are those that a containerd store is known to keep, by diff id;
    for other stores there are none.
    """

    version: str
    architecture: str
    containerd: bool
    storage: str
    free: int | None
    zstd: bool
    images: tuple[Held, ...]
    blobs: dict[str, Descriptor] = {}

    def held(self, layers: Sequence[str]) -> int:
        """How many of an image's layers, counted from its base, the engine has one upon the other."""
        return max((_common(layers, image.layers) for image in self.images), default=0)

    @property
    def layers(self) -> frozenset[str]:
        """The diff ids of all layers."""
        return frozenset(layer for image in self.images for layer in image.layers)

    @property
    def major(self) -> int:
        """The engine's major version, 0 where it says none."""
        first = self.version.split(".")[0]
        return int(first) if first.isdigit() else 0


def inventory(connection: Connection, limit_s: float = 60) -> Inventory:
    """Ask a node. Raises SourceError where it is lost, EngineError where no engine answers there."""
    answer = connection.run(SCRIPT, limit_s=limit_s)
    if answer.returncode:
        raise no_engine(connection, answer.stderr)
    try:
        return parse(answer.stdout)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise EngineError(f"the node's answer makes no sense: {error}", connection.node.name) from None


def parse(output: str) -> Inventory:
    """What the script printed. Raises ValueError, LookupError, TypeError or AttributeError."""
    lines = output.partition(f"{_BEGIN}\n")[2].splitlines()
    # docker prints an empty line where no image that it is asked for is there any more.
    engine, status, storage, free, zstd, *held = map(_read, filter(None, lines))
    manifests = {line["manifest"]: line["content"] for line in held if line and "manifest" in line}
    LAYERS.check(max((len(line.get("layers") or ()) for line in held if line), default=0), "layers in an image")
    images = tuple(_images((line for line in held if line and "id" in line), manifests))
    return Inventory(
        version=engine["Version"],
        architecture=engine.get("Arch") or "",
        # Since Engine 23 such a store says so; podman's are read by their own names.
        containerd=any("io.containerd.snapshotter" in str(value) for _, value in status or ()),
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
        if line.startswith('{"manifest"'):  # damaged, and no more than a hint
            return None
        raise


def _images(lines: Iterable[Any], manifests: Mapping[str, Any]) -> Iterator[Held]:
    for line in lines:
        labels = {key: value for key, value in (line["labels"] or {}).items() if key.startswith(f"{LABEL}.")}
        yield Held(
            id=line["id"],
            config=manifests[line["id"]]["config"]["digest"] if line["id"] in manifests else "",
            tags=tuple(line["tags"] or ()),
            layers=tuple(line["layers"] or ()),
            size=line["size"],
            labels=labels,
        )


def _blobs(images: Iterable[Held], manifests: Mapping[str, Any]) -> Iterator[tuple[str, Descriptor]]:
    """Containerd stores go by the manifest: one of an image that is there names blobs that are there."""
    for image in images:
        named = manifests[image.id]["layers"] if image.id in manifests else ()
        for diff_id, blob in zip(image.layers, named, strict=False):
            yield diff_id, Descriptor(blob["mediaType"], blob["digest"], blob["size"])


def no_engine(connection: Connection, said: str) -> EngineError:
    """Why a node's engine is not to be used, from what its `docker` said."""
    why, name = last_line(said.encode()), connection.node.name
    if "permission denied" in why.lower():
        hint = 'there: sudo usermod -aG docker "$USER", then log in again'
        return EngineError("this login may not talk to the node's Docker Engine", name, hint)
    return EngineError(f"no Docker Engine answers there: {why}", name, "install and start one on the node")


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
