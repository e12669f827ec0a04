"""Events of engines that push and pull, recorded from Engine 20.10 and from a containerd store of 26.1."""

from __future__ import annotations

import pytest

from reprokit.nodes.transfer_progress import TransferProgress

DIGEST = "sha256:" + "65" * 32
PUSHED = f"cpu: digest: {DIGEST} size: 405"
OLD_PUSH = [
    {"status": "The push refers to repository [127.0.0.1:5999/x/t2]"},
    {"status": "Preparing", "progressDetail": {}, "id": "aaaa"},
    {"status": "Layer already exists", "progressDetail": {}, "id": "bbbb"},
    {"status": "Pushing", "progressDetail": {"current": 512, "total": 1048576}, "id": "aaaa"},
    # The estimate does not count the tar's headers.
    {"status": "Pushing", "progressDetail": {"current": 1050624}, "id": "aaaa"},
    {"status": "Pushed", "progressDetail": {}, "id": "aaaa"},
    {"status": PUSHED},
    {"progressDetail": {}, "aux": {"Tag": "cpu", "Digest": DIGEST, "Size": 405}},
]
NEW_PULL = [
    {"status": "Pulling from x/t2", "id": "cpu"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "cccc"},
    {"status": "Already exists", "progressDetail": {}, "id": "dddd"},
    {"status": "Downloading", "progressDetail": {"current": 1049051, "total": 1049051}, "id": "cccc"},
    {"status": "Download complete", "progressDetail": {"hidecounts": True}, "id": "cccc"},
    {"status": f"Digest: {DIGEST}"},
]


@pytest.mark.parametrize(
    ("events", "layers", "digest", "progress"),
    [
        (OLD_PUSH, 1, DIGEST, [(512, 1048576), (1050624, 1050624)]),
        (NEW_PULL, 1, "", [(1049051, 1049051)]),
        ([{"status": PUSHED}], 0, DIGEST, []),
    ],
)
def test_events_are_summed(events: list, layers: int, digest: str, progress: list):
    seen: list[tuple[int, int]] = []
    said = "1 layer sent, 1 already present" if layers else "0 layers sent, 0 already present"
    transfer = TransferProgress(lambda done, total: seen.append((done, total)))
    for event in events:
        transfer.update(event)
    assert (transfer.described("sent"), transfer.digest, seen) == (said, digest, progress)
