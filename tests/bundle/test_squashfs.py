"""The files that enroot reads from a squashfs."""

from __future__ import annotations

from reprokit.bundle import squashfs


def fstab(volumes: list[str]) -> tuple[str, list[str]]:
    """`/etc/fstab` of an image with these volumes, and what was said."""
    said: list[str] = []
    files = dict(squashfs.enroot_files({"Volumes": {path: {} for path in volumes}}, said.append))
    return files["/etc/fstab"].decode(), said


def test_a_volume_is_a_line_of_fstab():
    line = "${ENROOT_ROOTFS}/data/x-1 /data/x-1 none x-create=dir,bind,rw,nosuid,nodev\n"
    assert fstab(["/data/x-1"]) == (line, [])


def test_volumes_that_would_mount_folders_of_the_host_are_excluded():
    """enroot expands variables in the file, and mounts its lines on the host."""
    bad = ["/../../home", "/a/../../..", "/x none bind\n${HOME} /root none rbind,rw #", "/with space", "/$HOME", "home"]
    text, said = fstab([*bad, "/data"])
    assert text.splitlines() == ["${ENROOT_ROOTFS}/data /data none x-create=dir,bind,rw,nosuid,nodev"]
    assert len(said) == 1 and all(repr(path) in said[0] for path in bad)
