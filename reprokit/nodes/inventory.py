"""The images of a node's engine: one command, whose output `--inventory FILE` can read, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from reprokit.engine import ImageInfo
from reprokit.errors import EngineError
from reprokit.nodes.config import find
from reprokit.nodes.probe import free_bytes
from reprokit.nodes.ssh import SshConnection, last_line
from reprokit.oci.model import Descriptor, ImageManifest, Size
from reprokit.oci.store import Chain, Form, LayerChains, form_of
from reprokit.untrusted.documents import parsed, validated
from reprokit.untrusted.limits import LAYERS

_BEGIN, _MANIFEST = "reprokit: inventory", '{"manifest"'
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


_OrNone = BeforeValidator(lambda value: value or ())


class NodeImage(BaseModel):
    """An image: ID, names, diff IDs of its layers from the base up, bytes, labels.

    `manifest` is known for a sent image in a containerd store, whose ID is the manifest's digest.
    """

    id: str
    tags: Annotated[tuple[str, ...], _OrNone]
    layers: Annotated[tuple[str, ...], _OrNone]
    size: Size
    labels: dict[str, str] | None
    manifest: ImageManifest | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The digests that identify the image: its ID, and that of its config if it is known."""
        return (self.id, self.manifest.config.digest) if self.manifest else (self.id,)


@dataclass(frozen=True)
class Inventory:
    """An engine: version, storage driver, the archive that it loads, images.

    `free` are the free bytes at its root folder, None if the login cannot see it.
    """

    version: str
    storage: str
    form: Form
    free: int | None
    images: tuple[NodeImage, ...]

    @property
    def containerd(self) -> bool:
        return self.form is Form.BLOBS

    @cached_property
    def blobs(self) -> dict[str, Descriptor]:
        """The known blobs of a containerd store, by diff ID; empty for other stores."""
        known = [(image.layers, image.manifest.layers) for image in self.images if image.manifest]
        return {diff_id: blob for layers, blobs in known for diff_id, blob in zip(layers, blobs, strict=False)}

    def has(self, image: ImageInfo) -> bool:
        """Whether this image has its name there."""
        return any(image.name in each.tags and image.id in each.ids for each in self.images)

    @property
    def chains(self) -> LayerChains:
        return LayerChains((image.layers, image.id) for image in self.images)


def inventory(connection: SshConnection, limit_s: float = 60) -> Inventory:
    """Ask a node. Raises SourceError if the connection breaks, EngineError if no engine answers."""
    answer = connection.run(SCRIPT, limit_s=limit_s)
    if answer.returncode:
        raise no_engine(connection, answer.stderr)
    return parse(answer.stdout, connection.node.name)


def layers_on(name: str) -> list[Chain]:
    """The layers of each image that a node has now. Raises UsageError, SourceError, EngineError."""
    with SshConnection(find(name)) as connection:
        return [image.layers for image in inventory(connection).images]


def parse(output: str, node: str) -> Inventory:
    """Parse the script's output. Raises EngineError."""
    try:
        return _parsed(output)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EngineError(f"the node's answer is not valid: {error}", node) from None


def _parsed(output: str) -> Inventory:
    lines = output.partition(f"{_BEGIN}\n")[2].split("\n")  # labels may have other ends of lines, such as U+0085
    # docker prints an empty line if all the images have been removed meanwhile.
    engine, status, storage, free, zstd, *others = filter(None, lines)
    manifests = dict(filter(None, (_manifest(line) for line in others if line.startswith(_MANIFEST))))
    images = [validated(NodeImage, line) for line in others if not line.startswith(_MANIFEST)]
    LAYERS.check(max((len(image.layers) for image in images), default=0), "layers in an image")
    version = parsed(engine)
    form = form_of({"DriverStatus": parsed(status)}, version)
    return Inventory(
        version=str(version["Version"]),
        storage=str(parsed(storage)),
        # Without the program zstd, an old engine gets layers in gzip.
        form=Form.GZIP if form is Form.PLAIN and parsed(zstd) is not True else form,
        free=None if free == "null" else free_bytes(free),
        images=tuple(image.model_copy(update={"manifest": manifests.get(image.id)}) for image in images),
    )


def _manifest(line: str) -> tuple[str, ImageManifest] | None:
    """A kept manifest by its digest; None if it is damaged, as it is only a hint."""
    try:
        value = parsed(line)
        return value["manifest"], ImageManifest.model_validate(value["content"])
    except (ValueError, LookupError, TypeError):
        return None


def no_engine(connection: SshConnection, said: str) -> EngineError:
    """The error of a node's engine, from the output of its `docker`."""
    why, name = last_line(said), connection.node.name
    if "permission denied" in why.lower():
        hint = 'on the node: sudo usermod -aG docker "$USER", then log in again'
        return EngineError("this login may not use the node's Docker Engine", name, hint)
    return EngineError(f"no Docker Engine answers there: {why}", name, "install and start one on the node")
