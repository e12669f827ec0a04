"""Kill -9 of one process of a transfer at a random moment."""

from __future__ import annotations

import random
import time

from tests.support.images import Images
from tests.support.machine import Machine
from tests.support.sender import MB, Sender, arrived, same
from tests.support.waiting import wait_for

SIZE = 21 * MB  # of `image`, compressed
VICTIMS = ("sender", "session", "shell", "engine")
# Bytes in flight and ssh's own: what a kill may cost.
LOST = 6 * MB


def image(images: Images) -> str:
    """Two layers of 20 MB together that cannot be compressed, and a small one on top."""
    lower = images.base("kills", {"a": random.Random(1).randbytes(12 * MB)})
    return images.on(lower, "upon-kills", [{"b": random.Random(2).randbytes(8 * MB)}, {"c": b"c"}])


def kill_and_repeat(node: Machine, user: Sender, images: Images, name: str, seed: int) -> None:
    """Kill once and repeat the command."""
    chance = random.Random(seed)
    victim, after = VICTIMS[seed % len(VICTIMS)], chance.uniform(0.1, 3.5)
    before = node.sent_to()
    process = user.start(name, node.login)
    wait_for(lambda: process.poll() is not None or node.pids("root@notty"))
    time.sleep(after)
    had = arrived(node)
    if victim == "sender":
        process.kill()
    elif victim == "session":
        node.kill("root@notty")
    elif victim == "shell":
        node.kill("printf %b")
    else:
        node.kill("dockerd")
        node.start_engine()
    _, err = process.communicate(timeout=200)
    assert victim == "sender" or "a bug in reprokit" not in err, err
    expected = images.engine.image(name).id
    for found in node.engine().api.images():
        assert found["Id"] == expected, f"{victim} after {after:.2f} s: half an image"
    again = user.send(name, node.login)
    assert again.returncode == 0, f"{victim} after {after:.2f} s: {again.stderr}"
    assert same(images, name, node)
    wire = node.sent_to() - before
    assert wire < SIZE + LOST, f"{victim} after {after:.2f} s: {wire} bytes on the wire, {had} were there"
