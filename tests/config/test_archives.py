"""apt's archives: recognised by address whatever the mirror, and never taken for another vendor's."""

from __future__ import annotations

import pytest

from reprokit.config.archives import archive_of, public_places

NVIDIA = "https://developer.download.nvidia.com/compute"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://any.test/debian/pool/main/c/curl/c_1.deb", ("debian", "pool/main/c/curl/c_1.deb")),
        ("http://any.test/pub/mirrors/debian/pool/non-free/n/n.deb", ("debian", "pool/non-free/n/n.deb")),
        ("http://any.test/debian/dists/bookworm/InRelease", ("debian", "dists/bookworm/InRelease")),
        ("https://s.test/archive/debian/20261121T000000Z/pool/main/a/a.deb", ("debian", "pool/main/a/a.deb")),
        ("http://x.test/debian-security/pool/updates/main/o/o.deb", ("debian-security", "pool/updates/main/o/o.deb")),
        ("http://x.test:8080/ubuntu/pool/universe/z/z.deb", ("ubuntu", "pool/universe/z/z.deb")),
        ("http://x.test/ubuntu-ports/pool/main/z/z.deb", ("ubuntu-ports", "pool/main/z/z.deb")),
        (f"{NVIDIA}/cuda/repos/debian12/x86_64/./cuda-nvcc_1.deb", ("nvidia-cuda", "debian12/x86_64/cuda-nvcc_1.deb")),
        (f"{NVIDIA}/machine-learning/repos/ubuntu1804/x86_64/n.deb", ("nvidia-ml", "ubuntu1804/x86_64/n.deb")),
        ("https://apt.llvm.org/bookworm/pool/main/l/l.deb", ("llvm", "bookworm/pool/main/l/l.deb")),
        ("https://docker.test/linux/debian/dists/bookworm/pool/stable/amd64/ce.deb", None),
        ("https://apt.kitware.com/ubuntu/pool/main/c/cmake.deb", None),
        ("https://ppa.launchpadcontent.net/deadsnakes/ppa/ubuntu/pool/main/p/python3.9.deb", None),
        ("https://vendor.test/apt/pool/main/c/cmake.deb", None),
        ("https://nginx.test/packages/debian/pool/nginx/n/nginx.deb", None),
    ],
)
def test_what_an_address_belongs_to(url: str, found: tuple[str, str] | None):
    assert archive_of(url) == found


@pytest.mark.parametrize(
    ("archive", "path"),
    [
        *(
            (archive, "pool/main/a.deb")
            for archive in ("debian", "debian-debug", "ubuntu", "ubuntu-ports", "nvidia-cuda")
        ),
        ("debian-security", "pool/updates/main/a.deb"),
        ("llvm", "bookworm/pool/main/a.deb"),
    ],
)
def test_public_places_are_recognised_as_their_own_archive(archive: str, path: str):
    for place in public_places(archive):
        assert archive_of(place.format(path=path, as_of="20261121T101500Z")) == (archive, path)
    assert public_places("vendor") == ()
