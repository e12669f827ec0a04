"""Templates of mirrors, and apt's archives, which are recognised by address whatever the mirror."""

from __future__ import annotations

import pytest

from reprokit.config.archives import archive_of
from reprokit.config.templates import check, fill


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("apt", "http://m.test/{archve}/{path}", "{archve} is not a placeholder of apt; did you mean archive?"),
        ("git", "http://m.test/{suite}/{repo}.git", "{suite} is not a placeholder of git"),
        ("git", "http://m.test/mirror.git", "names one place for all git"),
        ("files", "ftp://m.test/{path}", "is not an address"),
        ("wheels", "/srv/wheels", "is not an address; write https://..., http://... or file:///..."),
        ("conda", "https://m.test/conda", "must hold {channel}"),
        ("files", "https://m.test/{path", "a brace without its other half"),
        ("files", "https://m.test/a b/{path}", "characters that an address cannot have; write a space as %20"),
    ],
)
def test_what_is_refused(kind: str, text: str, words: str):
    with pytest.raises(ValueError) as error:
        check(kind, text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "path",
    ["../p", "a/../../p", "%2e%2e/p", "a/%2E./p", "%252e%252e/p", "..%2fp", "..%5cp", "..\\p", "..?p", "..;/p", "a/.."],
)
def test_no_value_leads_out_of_a_mirrors_folder(path: str):
    assert fill("https://m.test/cache/{path}", {"path": path}) is None


@pytest.mark.parametrize(
    ("template", "fields", "address"),
    [
        *(
            ("cache/{path}", {"path": p}, f"cache/{p}")
            for p in ("a..b/p", "...", "a%2Fb", "%2e/p", "100%", "p?from=a..b")
        ),
        ("{file}", {"file": "torch-1.12.1+cu113.whl"}, "torch-1.12.1%2Bcu113.whl"),  # object stores read + as a space
        ("{as_of}/{path}", {"as_of": "", "path": "a"}, None),
        ("{path}", {}, None),
    ],
)
def test_what_becomes_of_a_template(template: str, fields: dict[str, str], address: str | None):
    assert fill(f"https://m.test/{template}", fields) == (address and f"https://m.test/{address}")


# An archive is never taken for another vendor's.
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
        (f"{NVIDIA}/cuda/repos/debian12/x86_64/./cuda-nvcc_1.deb", ("nvidia-cuda", "debian12/x86_64/cuda-nvcc_1.deb")),
        (f"{NVIDIA}/machine-learning/repos/ubuntu1804/x86_64/n.deb", ("nvidia-ml", "ubuntu1804/x86_64/n.deb")),
        ("https://apt.llvm.org/bookworm/pool/main/l/l.deb", ("llvm", "bookworm/pool/main/l/l.deb")),
        ("https://docker.test/linux/debian/dists/bookworm/pool/stable/amd64/ce.deb", None),
        ("https://ppa.launchpadcontent.net/deadsnakes/ppa/ubuntu/pool/main/p/python3.9.deb", None),
        ("https://nginx.test/packages/debian/pool/nginx/n/nginx.deb", None),
    ],
)
def test_what_an_address_belongs_to(url: str, found: tuple[str, str] | None):
    assert archive_of(url) == found
