from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount, own_container, require_source

ID = "9f" * 32
INSIDE = f"""\
500 400 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
510 500 8:1 /var/lib/docker/containers/{ID}/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
511 500 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
"""
PODMAN = f"""\
600 1 0:40 /containers/storage/overlay-containers/{ID}/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw
"""
# A host that runs containers mounts things below the engine's folder, too, but not at these three files.
HOST = f"""\
26 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 26 0:60 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw
91 26 8:1 /run/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
"""


def test_only_inside_a_container_there_is_an_own_id():
    assert own_container(INSIDE) == ID
    assert own_container(PODMAN) == ID
    assert own_container(HOST) is None
    assert own_container("") is None


def test_a_source_that_is_missing_a_link_or_no_name(tmp_path):
    require_source(BindMount(str(tmp_path), "/x"))
    with pytest.raises(UsageError) as error:
        require_source(BindMount(str(tmp_path / "no folder"), "/x"))
    assert error.value.hint == f"mkdir -p '{tmp_path}/no folder'"
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="behind a link") as error:
        require_source(BindMount(str(tmp_path / "link"), "/x"))
    assert error.value.hint == f"mount {tmp_path} itself"
    with pytest.raises(UsageError, match=r"cannot mount .* at /x: File name too long"):
        require_source(BindMount(str(tmp_path / ("x" * 300)), "/x"))
