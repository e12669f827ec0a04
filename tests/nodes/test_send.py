"""Images sent to nodes, with real engines and a real ssh between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.support.cluster import Cluster
from tests.support.images import Images, noise
from tests.support.machine import Machine
from tests.support.processes import send_when_asleep
from tests.support.sender import MB, Sender, arrived, incompressible, same
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

# Of `large`. Sent a second time, the first half would exceed what the tests allow on the wire.
HALF, MOST_OF_HALF = 25 * MB, 20 * MB


@pytest.fixture(scope="session")
def small(images: Images) -> str:
    return images.on(images.base("small", {"a": noise(2 * MB, 1)}), "upon", [{"b": noise(MB, 9000)}])


@pytest.fixture(scope="session")
def large(images: Images) -> str:
    """40 MB that cannot be compressed, and a layer of 1 MB on top."""
    return images.on(images.base("large", {"a": incompressible(40, 1)}), "upon-large", [{"b": noise(MB, 20000)}])


@pytest.fixture
def user(nodes: Cluster, tmp_path) -> Sender:
    return Sender(nodes, tmp_path / "home")


def _killed_halfway(user: Sender, image: str, node: Machine) -> None:
    with node.stalling(HALF):
        process = user.start(image, node.login)
        wait_for(lambda: arrived(node) > MOST_OF_HALF)
        process.kill()
        process.communicate()


def test_a_dead_node_is_skipped_and_a_hidden_one_reached(nodes, user, images, small, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"nodes: {{far: {{address: {nodes['hidden'].login}, jump: {nodes['gate'].login}}}}}\n")
    user.environment["REPROKIT_CONFIG"] = str(config)
    logins = [machine.login for machine in nodes.nodes]
    done = user.send(small, *logins, "far", nodes.down)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-2:] == [
        f"error: 1 of 6 nodes lack the images: {nodes.down}",
        "hint: repeat the command to resume",
    ]
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {*logins, "far"}
    assert all(same(images, small, machine) for machine in [*nodes.nodes, nodes["hidden"]])

    again = user.send(small, logins[0], "far")
    assert (again.returncode, again.stdout) == (0, f"{logins[0]}: has them already\nfar: has them already\n")


def test_only_the_last_layer_of_a_rebuilt_image_is_sent(nodes, user, images, large):
    node = nodes["node1"]
    assert user.send(large, node.login).returncode == 0
    rebuilt = images.on(images.names[images.names.index(large) - 1], "rebuilt", [{"b": incompressible(3, 5)}])
    before = node.sent_to()
    sent = user.send(rebuilt, node.login, "--json")
    assert sent.returncode == 0
    assert 3 * MB < node.sent_to() - before < 3 * MB + MB
    (row,) = json.loads(sent.stdout)["nodes"]
    assert (row["node"], row["present"], row["error"]) == (node.login, False, None) and row["bytes"] > 3 * MB
    assert same(images, rebuilt, node)
    assert same(images, large, node)


def test_two_images_share_their_layers(nodes, user, images, large):
    other = images.on(large, "other", [{"c": noise(MB, 70000)}], "ENV X='it is'")
    before = nodes["node2"].sent_to()
    assert user.send(large, other, nodes["node2"].login).returncode == 0
    assert nodes["node2"].sent_to() - before < 52 * MB
    assert same(images, large, nodes["node2"])
    assert same(images, other, nodes["node2"])


def test_another_name_of_an_image_needs_no_layer(nodes, user, images, large):
    node = nodes["node1"]
    assert user.send(large, node.login).returncode == 0
    name = f"{images.prefix}-renamed"
    images.engine.tag(large, name, "2")
    images.names.append(f"{name}:2")
    before = node.sent_to()
    assert user.send(f"{name}:2", node.login).returncode == 0
    assert node.sent_to() - before < MB // 10
    assert same(images, f"{name}:2", node)


def test_a_name_on_a_node_moves_only_with_replace(nodes, user, images, small):
    node, other = nodes["node1"], nodes["node2"]
    name = f"{images.prefix}-taken:1"
    images.names.append(name)
    images.engine.tag(images.names[images.names.index(small) - 1], *name.split(":"))
    assert user.send(name, node.login).returncode == 0
    theirs = node.engine().image(name)["Id"]
    images.engine.tag(small, *name.split(":"))
    before = node.sent_to()
    done = user.send(name, node.login)
    assert done.returncode == 2 and "to move the names: --replace" in done.stderr
    assert f"error: other images have the names {name} ({node.login})" in done.stderr
    assert node.engine().image(name)["Id"] == theirs and node.sent_to() - before < MB // 10
    # A node without this name still gets the image.
    assert user.send(name, node.login, other.login).returncode == 2 and same(images, name, other)
    assert user.send(name, node.login, "--replace").returncode == 0
    assert same(images, name, node)


def test_a_broken_session_is_resumed(nodes, user, images, large):
    node = nodes["node1"]
    before = node.sent_to()
    with node.stalling(HALF):
        process = user.start(large, node.login)
        wait_for(lambda: arrived(node) > MOST_OF_HALF)
        assert node.kill("root@notty")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "retrying" in err
    assert node.sent_to() - before < 52 * MB
    assert same(images, large, node)


def test_a_transfer_is_resumed_after_a_network_failure(nodes, user, images, large):
    """The node's own processes do not notice the failure and still wait for input."""
    cut, other = nodes["node1"], nodes["node2"]
    before = cut.sent_to()
    with cut.stalling(HALF):
        process = user.start(large, cut.login, other.login)
        wait_for(lambda: arrived(cut) > MOST_OF_HALF)
        cut.cut()
    try:
        assert any("retrying" in line for line in process.stderr)
    finally:
        cut.mend()
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert cut.sent_to() - before < 52 * MB
    assert same(images, large, cut)
    assert same(images, large, other)


def test_a_killed_sender_is_resumed(nodes, user, images, large):
    node = nodes["node3"]
    before = node.sent_to()
    _killed_halfway(user, large, node)
    assert user.send(large, node.login).returncode == 0
    assert node.sent_to() - before < 52 * MB
    assert same(images, large, node)


def test_an_interrupted_sender_leaves_only_partial_blobs(nodes, user, large):
    node = nodes["node3"]
    with node.stalling(HALF):
        process = user.start(large, node.login)
        wait_for(lambda: arrived(node) > MOST_OF_HALF)
        send_when_asleep(process.pid)
        _, err = process.communicate(timeout=200)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted: the same command continues")
    wait_for(lambda: not node.pids("root@notty"))
    assert [file.suffix for file in node.incoming.glob("*/*") if file.suffix != ".pid"] == [".part"]


def test_a_damaged_partial_blob_is_sent_again(nodes, user, images, large):
    node = nodes["node2"]
    _killed_halfway(user, large, node)
    (part,) = node.incoming.glob("*/*.part")
    with part.open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    done = user.send(large, node.login)
    assert done.returncode == 0
    assert "damaged" in done.stderr
    assert same(images, large, node)


def test_without_zstd_the_engine_is_given_gzip(nodes, user, images, large):
    node = nodes["node4"]
    node.inside("sh", "-c", "mount --bind /dev/null $(command -v zstd)")
    try:
        done = user.send(large, node.login, nodes["node1"].login)
        assert done.returncode == 0, done.stderr
    finally:
        node.inside("sh", "-c", "umount $(readlink -f /usr/bin/zstd)")
    assert same(images, large, node)
    assert same(images, large, nodes["node1"])


def test_concurrent_sends_do_not_collide(nodes, user, images, large, tmp_path):
    """Two sends of one user, and one of another user."""
    node, stranger = nodes["node4"], Sender(nodes, tmp_path / "stranger")
    processes = [each.start(large, node.login) for each in (user, user, stranger)]
    outputs = [process.communicate(timeout=200) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], [err.splitlines()[-2:] for _, err in outputs]
    assert sorted("already" in out for out, _ in outputs[:2]) == [False, True]
    assert same(images, large, node)


def test_a_full_node_is_reported(nodes, user, large):
    node = nodes["node3"]
    node.cache.mkdir()
    there = f"/root/{node.cache.name}"
    node.inside("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", there)
    try:
        done = user.send(large, node.login)
    finally:
        node.inside("umount", there)
    assert done.returncode == 3
    assert "not enough disk space: need 40 MB, 21 MB free" in done.stderr
    assert "hint: free 19 MB there" in done.stderr


def test_a_full_disk_here_is_reported(nodes, user, large, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m,mode=700", "tmpfs", home], check=True)
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


def test_after_an_engine_is_killed_nothing_is_sent_again(nodes, user, images, large):
    node = nodes["node2"]
    with node.stalling(HALF):
        process = user.start(large, node.login)
        wait_for(lambda: arrived(node) > MOST_OF_HALF)
        assert node.kill("dockerd", signal.SIGSTOP)  # so that it cannot have loaded the image when it is killed
    wait_for(lambda: node.pids("docker\0load"))
    assert node.kill("dockerd")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 3, err
    node.start_engine()
    assert node.engine().api.images() == []
    before = node.sent_to()
    assert user.send(large, node.login).returncode == 0
    assert node.sent_to() - before < MB // 10
    assert same(images, large, node)


def test_unknown_and_ambiguous_words(nodes, user, small, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("nodes: {featgraph: me@x}\n")
    user.environment["REPROKIT_CONFIG"] = str(config)
    for words, said in [
        ((small, "nonsense"), "'nonsense' is neither a recipe, an image of the engine nor a known node"),
        ((small,), "no node is named"),
        (("me@x",), "no image is named"),
        ((small, "featgraph"), "'featgraph' is both the image reprokit/featgraph:cpu and a node"),
        (("faith:as-published", "me@x"), "the engine has no image of this name (reprokit/faith:as-published)"),
        ((small, "me@x", "-J", "-oX"), "'-oX' is not an address of a node"),
    ]:
        done = user.send(*words)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"error: {said}"), done.stderr
        assert "hint: " in done.stderr


def test_old_files_on_a_node_are_removed(nodes, user, images, small):
    node = nodes["node1"]
    stale = node.incoming / "0123456789abcdef" / "x.part"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"x")
    fresh = stale.with_name("y.part")
    fresh.write_bytes(b"y")
    os.utime(stale, (time.time() - 8 * 86400,) * 2)
    assert user.send(small, node.login).returncode == 0
    assert (stale.exists(), fresh.exists()) == (False, True)
