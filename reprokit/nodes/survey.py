"""Nodes' facts and images: collected by one POSIX sh script per node, from all nodes at once, in bounded time.

The inventory of the engine's images is the output of one command, which `--inventory FILE` can read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from reprokit.config.nodes import Node
from reprokit.engine import EngineInfo, EngineVersion, ImageInfo
from reprokit.errors import EngineError, ReprokitError
from reprokit.host import gpu
from reprokit.host.command import SAY, lines_of
from reprokit.host.gpu import DEVICE_FILES, Gpu
from reprokit.host.memory import memory_of
from reprokit.host.mounts import own_container
from reprokit.host.user import Caller
from reprokit.image.labels import ImageLabels
from reprokit.image.lock.read import Freshness, freshness
from reprokit.nodes.config import find
from reprokit.nodes.ssh import SshConnection, last_line
from reprokit.oci.model import Descriptor, ImageManifest, Size
from reprokit.oci.store import Chain, Form, LayerChains, form_of
from reprokit.recipe.find import recipe_names
from reprokit.recipe.find import target as find_target
from reprokit.untrusted.documents import parsed, validated
from reprokit.untrusted.limits import LAYERS

# The address of the login's engine, for `docker_address`.
DOCKER = """
if [ -n "${DOCKER_HOST-}" ]; then echo "$DOCKER_HOST" | say docker
elif grep -q '"currentContext"' "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null; then
  docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null | say docker
elif [ -n "${CONTAINER_HOST-}" ]; then echo "$CONTAINER_HOST" | say docker
fi
"""
FACTS_SCRIPT = rf"""{SAY}
id -u | say uid
id -g | say gid
id -G | say groups
id -un 2>/dev/null | say user
printf '%s\n' "${{XDG_CACHE_HOME:-$HOME/.cache}}" | say cache
grep MemTotal: /proc/meminfo | say memory
env | grep -iE '^(http|https|ftp|all|no)_proxy=' | say proxy
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep ' 0A ' | say listening
grep -E ' /etc/(hostname|hosts|resolv.conf) ' /proc/self/mountinfo | say mount
for file in {" ".join(DEVICE_FILES)}; do [ -e "$file" ] && echo "$file" | say device; done
{gpu.script()}cat /proc/sys/kernel/random/boot_id 2>/dev/null | say boot
readlink /proc/self/ns/net 2>/dev/null | say network
{DOCKER}true
"""
# Runs after the script, for `NodeFacts.nested`.
RUNNING = "docker ps -q --no-trunc 2>/dev/null | say running\n"
_SOCKET = "unix:///var/run/docker.sock"
_BEGIN, _MANIFEST = "reprokit: inventory", '{"manifest"'
_IMAGE = (
    '{"id":{{json .Id}},"tags":{{json .RepoTags}},"layers":{{json .RootFS.Layers}},"size":{{.Size}},'
    '"labels":{{with .Config}}{{json .Labels}}{{else}}null{{end}}}'
)
_INFO = "{{.DockerRootDir}}{{println}}{{json .DriverStatus}}{{println}}{{json .Driver}}"
_AT_ONCE = 32


@dataclass(frozen=True)
class NodeFacts:
    """A login on a node and its machine.

    `cache` is the user's cache folder, `memory` in bytes, `listening` are TCP ports, `running` the IDs of the engine's
    running containers, `mountinfo` the lines that identify a container around the login. `hung`: the driver does not
    answer. `machine` is the same for all logins on one machine, "" if unknown.
    """

    caller: Caller
    cache: str
    memory: int | None
    proxies: dict[str, str]
    listening: frozenset[int]
    mountinfo: str
    devices: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    hung: bool = False
    docker: str = _SOCKET
    running: frozenset[str] = field(default_factory=frozenset)
    machine: str = ""

    @property
    def nested(self) -> bool:
        """Whether the login runs in a container of this node's engine; its paths are not the engine's."""
        return own_container(self.mountinfo) in self.running


def parse_facts(output: str) -> NodeFacts:
    """Parse the script's output, which may be mixed with that of login scripts. Raises ValueError."""
    facts = lines_of(output)

    def first(name: str, default: str | None = None) -> str:
        values = facts.get(name) or ([] if default is None else [default])
        if not values:
            raise ValueError(f"the node's answer has no {name}")
        return values[0]

    caller = Caller(
        number(first("uid")), number(first("gid")), tuple(map(number, first("groups", "").split())), first("user", "")
    )
    answer = gpu.parse(facts)
    return NodeFacts(
        caller=caller,
        cache=first("cache"),
        memory=memory_of([first("memory", "")], ""),
        proxies=dict(p.partition("=")[::2] for p in facts.get("proxy", ())),
        listening=frozenset(_ports(facts.get("listening", ()))),
        mountinfo="".join(f"{line}\n" for line in facts.get("mount", ())),
        devices=tuple(facts.get("device", ())),
        gpus=answer.known_gpus,
        hung=answer.status == "hangs",
        docker=docker_address(facts),
        running=frozenset(facts.get("running", ())),
        machine=" ".join(facts["boot"] + facts["network"]) if {"boot", "network"} <= facts.keys() else "",
    )


def docker_address(facts: Mapping[str, list[str]]) -> str:
    """The address of the login's engine, in the form of DOCKER_HOST."""
    return (facts.get("docker") or [""])[0] or _SOCKET


def number(text: str) -> int:
    """Parse a whole number of at most 18 digits from a node. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def free_bytes(kilobytes: str) -> int:
    """Bytes of the free kilobytes that df prints, negative if root's reserve is in use. Raises ValueError."""
    return 0 if re.fullmatch(r"-[0-9]{1,18}", kilobytes) else number(kilobytes) * 1024


def _ports(lines: Iterable[str]) -> Iterable[int]:
    """The ports in lines of /proc/net/tcp, in hexadecimal after the address."""
    for line in lines:
        if match := re.match(r"\s*\d+: [0-9A-F]+:([0-9A-F]{4}) ", line):
            yield int(match[1], 16)


# One JSON document per line. The shell splits the lists on purpose; an image that is removed meanwhile is no error.
INVENTORY_SCRIPT = f"""
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

    `manifest` exists for a sent image in a containerd store; the manifest's digest is the image's ID.
    """

    id: str
    tags: Annotated[tuple[str, ...], _OrNone]
    layers: Annotated[tuple[str, ...], _OrNone]
    size: Size
    labels: dict[str, str] | None
    manifest: ImageManifest | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The digests that identify the image: its ID, and its config's digest if known."""
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
        listed = [(image.layers, image.manifest.layers) for image in self.images if image.manifest]
        return {diff_id: blob for layers, blobs in listed for diff_id, blob in zip(layers, blobs, strict=False)}

    def has(self, image: ImageInfo) -> bool:
        """Whether the engine has this image under its name."""
        return any(image.name in present.tags and image.id in present.ids for present in self.images)

    @property
    def chains(self) -> LayerChains:
        return LayerChains((image.layers, image.id) for image in self.images)


def inventory(connection: SshConnection, limit_s: float = 60) -> Inventory:
    """Ask a node. Raises SourceError if the connection breaks, EngineError if no engine answers."""
    answer = connection.run(INVENTORY_SCRIPT, limit_s=limit_s)
    if answer.returncode:
        raise no_engine(connection, answer.stderr)
    return parse_inventory(answer.stdout, connection.node.name)


def layers_on(name: str) -> list[Chain]:
    """The layers of each image that a node has now. Raises UsageError, SourceError, EngineError."""
    with SshConnection(find(name)) as connection:
        return [image.layers for image in inventory(connection).images]


def parse_inventory(output: str, node: str) -> Inventory:
    """Parse the script's output. Raises EngineError."""
    try:
        return _parsed_inventory(output)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EngineError(f"the node's answer is not valid: {error}", node) from None


def _parsed_inventory(output: str) -> Inventory:
    lines = output.partition(f"{_BEGIN}\n")[2].split("\n")  # labels may have other ends of lines, such as U+0085
    # docker prints an empty line if all the images have been removed meanwhile.
    engine, status, storage, free, zstd, *others = filter(None, lines)
    manifests = dict(filter(None, (_manifest(line) for line in others if line.startswith(_MANIFEST))))
    images = [validated(NodeImage, line) for line in others if not line.startswith(_MANIFEST)]
    LAYERS.check(max((len(image.layers) for image in images), default=0), "layers in an image")
    version = EngineVersion.of(parsed(engine))
    form = form_of(EngineInfo.of({"DriverStatus": parsed(status)}), version)
    return Inventory(
        version=version.version,
        storage=str(parsed(storage)),
        # Without the program zstd, an old engine gets layers in gzip.
        form=Form.GZIP if form is Form.PLAIN and parsed(zstd) is not True else form,
        free=None if free == "null" else free_bytes(free),
        images=tuple(image.model_copy(update={"manifest": manifests.get(image.id)}) for image in images),
    )


def _manifest(line: str) -> tuple[str, ImageManifest] | None:
    """A stored manifest with its digest; None if it is damaged: manifests are optional."""
    try:
        value = parsed(line)
        return value["manifest"], ImageManifest.model_validate(value["content"])
    except (ValueError, LookupError, TypeError):
        return None


def no_engine(connection: SshConnection, output: str) -> EngineError:
    """The error of a node's engine, from the output of its `docker`."""
    why, name = last_line(output), connection.node.name
    if "permission denied" in why.lower():
        hint = 'on the node: sudo usermod -aG docker "$USER", then log in again'
        return EngineError("this login may not use the node's Docker Engine", name, hint)
    return EngineError(f"no Docker Engine answers there: {why}", name, "install and start one on the node")


@dataclass(frozen=True)
class NodeAnswer:
    """The answer of a node. Unknown parts are None; `error` is the reason."""

    node: Node
    seen: NodeFacts | None = None
    inventory: Inventory | None = None
    error: str = ""


def survey(nodes: Sequence[Node], limit_s: float) -> Iterator[NodeAnswer]:
    """Every node's answer, in the order of `nodes`, after twice `limit_s` seconds at most."""
    connections = [SshConnection(node, limit_s) for node in nodes]
    with ThreadPoolExecutor(min(_AT_ONCE, len(nodes) or 1)) as pool:
        try:
            yield from pool.map(lambda connection: ask(connection, limit_s), connections)
        except BaseException:
            # Closing the connections ends the threads, so that Ctrl-C does not wait for nodes that are down.
            pool.shutdown(wait=False, cancel_futures=True)
            for connection in connections:
                connection.close()
            raise


def ask(connection: SshConnection, limit_s: float) -> NodeAnswer:
    """Connect to a node and run the script; each has `limit_s` seconds."""
    node = connection.node
    try:
        with connection:
            done = connection.run(f"({FACTS_SCRIPT}{RUNNING})\n{INVENTORY_SCRIPT}", limit_s=limit_s)
    except ReprokitError as error:
        return NodeAnswer(node, error=error.message)
    try:
        seen = parse_facts(done.stdout)
    except ValueError as error:
        return NodeAnswer(node, error=str(error))
    if done.returncode:
        return NodeAnswer(node, seen, error=f"no engine: {last_line(done.stderr)}")
    try:
        engine = parse_inventory(done.stdout, node.name)
    except ReprokitError as error:
        return NodeAnswer(node, seen, error=error.message)
    return NodeAnswer(node, seen, engine, "nvidia-smi does not answer" if seen.hung else "")


@dataclass(frozen=True)
class RecipeImage:
    """A recipe's image on a node. `freshness` compares it with the local recipe and lock, "" without a recipe.

    It is `unknown` if a file that the recipe names cannot be read.
    """

    label: str
    id: str
    freshness: Freshness | str


def images_of_recipes(node_images: Sequence[NodeImage]) -> list[RecipeImage]:
    """The images that reprokit built, by name."""
    recipe_images = []
    for image in node_images:
        labels = image.labels or {}
        label = ImageLabels.read(labels).target
        if f"reprokit/{label}" in image.tags:
            recipe_images.append(RecipeImage(label, image.id, _freshness(label, labels)))
    return sorted(recipe_images, key=lambda image: image.label)


def _freshness(label: str, labels: Mapping[str, str]) -> Freshness | str:
    try:
        target = find_target(label) if label.partition(":")[0] in recipe_names() else None
    except ReprokitError:  # an unreadable recipe, or one without this variant
        return ""
    try:
        return freshness(target, labels) if target else ""
    except ReprokitError:
        return "unknown"


def as_json(answer: NodeAnswer) -> dict[str, Any]:
    """The answer as JSON: sizes in bytes, null for unknown values."""
    seen, engine = answer.seen, answer.inventory
    return {
        "name": answer.node.name,
        "reachable": seen is not None,
        "error": answer.error or None,
        "nested": seen.nested if seen else None,
        "engine": None if engine is None else engine.version,
        "store": None if engine is None else "containerd" if engine.containerd else engine.storage,
        "free": None if engine is None else engine.free,
        "driver": driver(seen.gpus) or None if seen else None,
        "gpus": [{"name": gpu.name, "compute_capability": gpu.capability} for gpu in seen.gpus if gpu.name]
        if seen
        else None,
        "images": None if engine is None else [vars(image) for image in images_of_recipes(engine.images)],
    }


def driver(gpus: Sequence[Gpu]) -> str:
    """The NVIDIA driver's version, the same for all cards."""
    return next((gpu.driver for gpu in gpus if gpu.driver), "")
