"""Images sent to nodes, with real engines and a real ssh between them, and the script that loads them there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprokit.nodes.remote_staging import load_script
from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.model import ZSTD_LAYER_TYPE, Descriptor, Image, Layer, blob_path, digest_of
from reprokit.oci.store import Form
from reprokit.verify.layers import ImageInEngine, digest
from tests.support.cluster import Cluster
from tests.support.images import Images, noise
from tests.support.machine import Machine
from tests.support.processes import send_when_asleep
from tests.support.send_kills import VICTIMS, image, kill_and_repeat
from tests.support.sender import MB, Sender, arrived, incompressible, same
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

# Of `large`. Sent a second time, the first half would exceed what the tests allow on the wire.
HALF, MOST_OF_HALF, MOST = 14 * MB, 10 * MB, 28 * MB


@pytest.fixture(scope="session")
def small(images: Images) -> str:
    return images.on(images.base("small", {"a": noise(2 * MB, 1)}), "upon", [{"b": noise(MB, 9000)}])


@pytest.fixture(scope="session")
def large(images: Images) -> str:
    """20 MB that cannot be compressed, and a layer of 1 MB on top."""
    return images.on(images.base("large", {"a": incompressible(20, 1)}), "upon-large", [{"b": noise(MB, 20000)}])


def below(images: Images, name: str) -> str:
    """The image that it was made on."""
    return images.names[images.names.index(name) - 1]


@contextlib.contextmanager
def halfway(user: Sender, image: str, node: Machine, *others: str) -> Iterator[subprocess.Popen[str]]:
    """A sender of which the node has half of `large`; the network lets hardly any more through meanwhile."""
    with node.stalling(HALF):
        process = user.start(image, node.login, *others)
        wait_for(lambda: arrived(node) > MOST_OF_HALF)
        yield process


@pytest.fixture
def user(nodes: Cluster, tmp_path) -> Sender:
    return Sender(nodes, tmp_path / "home")


def test_a_dead_node_is_skipped_and_a_hidden_one_reached(nodes, user, images, small, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"nodes: {{far: {{address: {nodes['hidden'].login}, jump: {nodes['gate'].login}}}}}\n")
    user.environment["REPROKIT_CONFIG"] = str(config)
    node = nodes["node1"]
    incoming = node.incoming / "0123456789abcdef"
    incoming.mkdir(parents=True)
    stale, fresh = incoming / "x.part", incoming / "y.part"
    stale.write_bytes(b"x")
    fresh.write_bytes(b"y")
    os.utime(stale, (time.time() - 8 * 86400,) * 2)
    logins = [machine.login for machine in nodes.nodes]
    done = user.send(small, *logins, "far", nodes.down)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-2:] == [
        f"error: 1 of 5 nodes lack the images: {nodes.down}",
        "hint: repeat the command to resume",
    ]
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {*logins, "far"}
    assert (stale.exists(), fresh.exists()) == (False, True)  # files of a week ago are removed
    fresh.unlink()
    assert all(same(images, small, machine) for machine in [*nodes.nodes, nodes["hidden"]])

    again = user.send(small, logins[0], "far")
    assert (again.returncode, again.stdout) == (0, f"{logins[0]}: has them already\nfar: has them already\n")


def test_only_missing_layers_are_sent(nodes, user, images, large):
    node = nodes["node1"]
    rebuilt = images.on(below(images, large), "rebuilt", [{"b": incompressible(3, 5)}])
    other = images.on(rebuilt, "other", [{"c": noise(MB, 70000)}], "ENV X='it is'")
    name = f"{images.prefix}-renamed:2"
    images.engine.tag(other, *name.split(":"))
    images.names.append(name)
    assert user.send(large, node.login).returncode == 0
    before = node.sent_to()
    sent = user.send(rebuilt, other, node.login, "--json")  # they share a layer
    assert sent.returncode == 0
    assert 3 * MB < node.sent_to() - before < 4.5 * MB
    (row,) = json.loads(sent.stdout)["nodes"]
    assert (row["node"], row["present"], row["error"]) == (node.login, False, None) and row["bytes"] > 3 * MB
    before = node.sent_to()
    assert user.send(name, node.login).returncode == 0
    assert node.sent_to() - before < MB // 10
    assert all(same(images, each, node) for each in (large, rebuilt, other, name))


def test_a_name_on_a_node_moves_only_with_replace(nodes, user, images, small):
    node, other = nodes["node1"], nodes["node2"]
    name = f"{images.prefix}-taken:1"
    images.names.append(name)
    images.engine.tag(below(images, small), *name.split(":"))
    assert user.send(name, node.login).returncode == 0
    theirs = node.engine().image(name).id
    images.engine.tag(small, *name.split(":"))
    before = node.sent_to()
    done = user.send(name, node.login)
    assert done.returncode == 2 and "to move the names: --replace" in done.stderr
    assert f"error: other images have the names {name} ({node.login})" in done.stderr
    assert node.engine().image(name).id == theirs and node.sent_to() - before < MB // 10
    # A node without this name still gets the image.
    assert user.send(name, node.login, other.login).returncode == 2 and same(images, name, other)
    assert user.send(name, node.login, "--replace").returncode == 0
    assert same(images, name, node)


def test_another_engines_writing_of_the_same_image_is_present(nodes, user, images, monkeypatch):
    """Its layer repeats the file of the layer below, so it is another image with the same canonical digest."""
    node, base = nodes["node1"], images.base("canonical", {"a": b"1"})
    name, more = f"{images.prefix}-same:1", [("b", b"2"), ("a", b"1")]
    images.names.append(name)
    once, twice = (images.on(base, f"once{count}", [dict(more[:count])]) for count in (1, 2))
    images.engine.tag(once, *name.split(":"))
    assert user.send(name, node.login).returncode == 0
    images.engine.tag(twice, *name.split(":"))
    theirs = node.engine().image_id(name)
    assert user.send(name, node.login).returncode == 2  # nobody has read the layers
    monkeypatch.setenv("REPROKIT_HOME", user.environment["REPROKIT_HOME"])
    assert len({digest(ImageInEngine.of(images.engine, each)) for each in (once, twice)}) == 1
    sent = user.send(name, node.login, "--json")
    assert sent.returncode == 0 and json.loads(sent.stdout)["nodes"][0]["present"]
    assert node.engine().image_id(name) == theirs != images.engine.image_id(name)


def test_a_broken_session_is_resumed(nodes, user, images, large):
    node = nodes["node1"]
    before = node.sent_to()
    with halfway(user, large, node) as process:
        assert node.kill("root@notty")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "retrying" in err
    assert node.sent_to() - before < MOST
    assert same(images, large, node)


def test_an_interrupted_sender_leaves_a_partial_blob_that_is_sent_again_if_damaged(nodes, user, images, large):
    node = nodes["node2"]
    with halfway(user, large, node) as process:
        send_when_asleep(process.pid)
        _, err = process.communicate(timeout=200)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted: the same command continues")
    wait_for(lambda: not node.pids("root@notty"))
    (part,) = [file for file in node.incoming.glob("*/*") if file.suffix != ".pid"]
    assert part.suffix == ".part"
    with part.open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    done = user.send(large, node.login)
    assert done.returncode == 0
    assert "damaged" in done.stderr
    assert same(images, large, node)


@pytest.mark.long
def test_a_transfer_is_resumed_after_a_network_failure(nodes, user, images, large):
    """The node's own processes do not notice the failure and still wait for input."""
    cut, other = nodes["node1"], nodes["node2"]
    before = cut.sent_to()
    with halfway(user, large, cut, other.login) as process:
        cut.cut()
    try:
        assert any("retrying" in line for line in process.stderr)
    finally:
        cut.mend()
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert cut.sent_to() - before < MOST
    assert same(images, large, cut) and same(images, large, other)


@pytest.mark.long
@pytest.mark.kills(len(VICTIMS))
def test_a_kill_leaves_no_partial_image_and_costs_little(nodes, user, images, kills: int):
    name = image(images)
    for seed in range(kills):
        kill_and_repeat(nodes["node1"], user, images, name, seed)
        nodes.clear()


def test_without_zstd_the_engine_is_given_gzip(nodes, user, images, small):
    node = nodes["node3"]
    node.inside("sh", "-c", "mount --bind /dev/null $(command -v zstd)")
    try:
        done = user.send(small, node.login, nodes["node1"].login)
        assert done.returncode == 0, done.stderr
    finally:
        node.inside("sh", "-c", "umount $(readlink -f /usr/bin/zstd)")
    assert same(images, small, node) and same(images, small, nodes["node1"])


def test_concurrent_sends_do_not_collide(nodes, user, images, large, tmp_path):
    """Two sends of one user, and one of another user."""
    node, stranger = nodes["node3"], Sender(nodes, tmp_path / "stranger")
    with ThreadPoolExecutor(3) as senders:
        ended = list(senders.map(lambda sender: sender.send(large, node.login), (user, user, stranger)))
    assert [done.returncode for done in ended] == [0, 0, 0], [done.stderr for done in ended]
    assert sorted("already" in done.stdout for done in ended[:2]) == [False, True]
    assert same(images, large, node)


def test_a_full_disk_is_reported_on_a_node_and_on_this_machine(nodes, user, large, tmp_path):
    node, home = nodes["node3"], tmp_path / "home"
    node.cache.mkdir()
    there = f"/root/{node.cache.name}"
    node.inside("mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", there)
    try:
        done = user.send(large, node.login)
    finally:
        node.inside("umount", there)
    assert done.returncode == 3
    assert "not enough disk space: need 20 MB, 10 MB free" in done.stderr
    assert "hint: free 10 MB there" in done.stderr

    subprocess.run(["rm", "-r", home], check=True)
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m,mode=700", "tmpfs", home], check=True)
    try:
        done = user.send(large, nodes["node1"].login)
        # A complete layer may stay; the name of an unfinished one begins with a dot.
        assert [path.name for path in (home / "send" / "spool").glob(".*")] == [".lock"]
    finally:
        subprocess.run(["umount", home], check=True)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-2:] == [
        f"error: layers cannot be packed: No space left on device ({home}/send/spool)",
        "hint: free space there, or choose another place with $REPROKIT_HOME",
    ]


def test_unknown_and_ambiguous_words(small, tmp_path):
    (tmp_path / "config.yaml").write_text("nodes: {featgraph: me@x}\n")
    for words, said in [
        ((small, "nonsense"), "'nonsense' is neither a recipe, an image of the engine nor a known node"),
        ((small,), "no node is named"),
        (("me@x",), "no image is named"),
        ((small, "featgraph"), "'featgraph' is both the image reprokit/featgraph:cpu and a node"),
        (("faith:as-published", "me@x"), "the engine has no image of this name (reprokit/faith:as-published)"),
        ((small, "me@x", "-J", "-oX"), "'-oX' is not an address of a node"),
    ]:
        done = run_verb("send", *words, env={"REPROKIT_CONFIG": str(tmp_path / "config.yaml")})
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"error: {said}"), done.stderr
        assert "hint: " in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("containerd", [False, True], ids=["graph driver", "containerd"])
def test_newer_engines_get_missing_layers(nodes, user, images: Images, debian: Path, containerd):
    node = nodes["node3"]
    base = images.base(f"newer{containerd:d}", {"a": noise(4 * MB, 1)}, ["ENV A=b"])
    first = images.on(base, f"first{containerd:d}", [{"b": noise(MB, 7000)}])
    second = images.on(base, f"second{containerd:d}", [{"b": incompressible(2, 9)}], "LABEL x=y")
    node.start_other_engine(debian, containerd)
    try:
        done = user.send(first, node.login)
        assert done.returncode == 0, done.stderr
        before = node.sent_to()
        done = user.send(first, second, node.login)
        assert done.returncode == 0, done.stderr
        assert 2 * MB < node.sent_to() - before < 2.3 * MB
        assert user.send(second, first, node.login).stdout == f"{node.login}: has them already\n"
        assert not arrived(node)
        engine = node.engine()
        for name in (first, second):
            here, there = images.engine.image(name), engine.image(name)
            assert here.layers == there.layers
            assert here.config["Env"] == there.config["Env"]
            assert containerd or here.id == there.id
            # The image is complete: `save` fails if the store lacks a blob.
            assert sum(map(len, engine.save(name))) > 2 * MB
    finally:
        nodes.clear()
        node.stop_engine()
        node.start_engine()


DOCKER = """#!/bin/sh
case $1 in load) cat > "$ARCHIVE" ;; image) [ $2 = inspect ] && echo '"sha256:x"' ;; esac
"""
# Of a Linux argument, and ssh gives the script as one.
MOST_ARGUMENT = 128 << 10


class Node:
    """A staging directory with the layers of `count` images, 25 of each."""

    def __init__(self, root: Path, count: int) -> None:
        self.folder, self.archive, program = root / "incoming" / "me", root / "archive.tar", root / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(DOCKER)
        program.chmod(0o755)
        self.folder.mkdir(parents=True)
        self.environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "ARCHIVE": str(self.archive)}
        self.contents: dict[str, bytes] = {}
        self.blobs: dict[str, StoredBlob] = {}
        self.images = [self._image(number) for number in range(count)]

    def _image(self, number: int) -> Image:
        layers = []
        for content in (f"{number} {layer}".encode() for layer in range(25)):
            diff_id, blob = digest_of(b"tar" + content), Descriptor(ZSTD_LAYER_TYPE, digest_of(content), len(content))
            self.blobs[diff_id] = stored = StoredBlob(Path(f"{diff_id[7:]}.{blob.digest[7:]}.zst"), blob)
            (self.folder / f"{stored.name}.blob").write_bytes(content)
            self.contents[blob_path(blob.digest)] = content
            layers.append(Layer(diff_id, 1, blob))
        config = {"rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}}
        return Image(f"reprokit/x{number}:cpu", json.dumps(config).encode(), tuple(layers))

    def run(self, script: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-c", script], input=stdin, capture_output=True, env=self.environment, check=False)


@pytest.mark.parametrize("form", [Form.ZSTD, Form.BLOBS])
@pytest.mark.slow
def test_500_layers_are_loaded_and_their_script_is_a_short_argument(tmp_path, form):
    node = Node(tmp_path, 20)
    script, stdin = load_script(str(node.folder), node.images, node.blobs, form)
    assert len(script) < MOST_ARGUMENT // 16 and len(stdin) > MOST_ARGUMENT
    done = node.run(script, stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"sha256:x"\n', b"")
    with tarfile.open(fileobj=io.BytesIO(node.archive.read_bytes())) as tar:
        loaded = {member.name: tar.extractfile(member).read() for member in tar if member.name in node.contents}
    assert loaded == node.contents and not node.folder.exists()


def test_an_input_that_ends_early_is_an_error(tmp_path):
    node = Node(tmp_path, 1)
    script, stdin = load_script(str(node.folder), node.images, node.blobs, Form.ZSTD)
    for part in (0.1, 0.9, 0.999):
        assert node.run(script, stdin[: int(len(stdin) * part)]).returncode
