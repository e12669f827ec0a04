from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from reprokit.supply.aptsettings import AptSettings, mirrors_of, proxies_of, read_settings
from reprokit.supply.gateway import Gateway
from reprokit.supply.offer import Offer
from reprokit.supply.store import Store

from .conftest import Upstream
from .test_gateway import ask

ONE_LINE = """\
# deb http://off.test/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://mirror.test/pub/debian/ bookworm main
deb http://second.test/debian bookworm-updates main
deb cdrom:[x]/debian bookworm main
deb https://tools.test/linux/apt stable main
"""
DEB822 = """\
Types: deb
URIs: http://mirror.test/debian-security
  http://other.test/ubuntu
Suites: bookworm-security
"""


def test_mirrors_of_both_formats():
    assert mirrors_of([ONE_LINE, DEB822]) == {
        "debian": "https://mirror.test/pub/debian",
        "debian-security": "http://mirror.test/debian-security",
        "ubuntu": "http://other.test/ubuntu",
    }


def test_where_the_host_would_ask():
    settings = AptSettings(mirrors_of([ONE_LINE]))

    def mirrored(url: str) -> str | None:
        found = settings.mirrored(urlsplit(url))
        return found.geturl() if found else None

    assert mirrored("http://public.test/debian/pool/a.deb") == "https://mirror.test/pub/debian/pool/a.deb"
    assert mirrored("http://public.test/debian-security/x") is None
    assert mirrored("http://mirror.test/debian/pool/a.deb") is None


def test_proxies():
    settings = AptSettings(
        {}, proxies_of('Acquire::http::Proxy "http://p:1";\nAcquire::http::Proxy::near.test "DIRECT";\n')
    )
    assert (settings.proxy("far.test"), settings.proxy("near.test")) == ("http://p:1", None)
    assert AptSettings().proxy("far.test") is None


def test_a_host_without_apt(tmp_path: Path):
    assert read_settings(tmp_path).mirrors == {}


def test_the_gateway_asks_the_mirror_first_and_the_archive_where_it_fails(
    store: Store, upstream: Upstream, monkeypatch
):
    upstream.answers |= {
        "/pub/debian/pool/a.deb": (200, {}, b"from the mirror"),
        "/debian/pool/a.deb": (200, {}, b"from the archive"),
        "/debian/pool/b.deb": (200, {}, b"only in the archive"),
    }
    mirror = AptSettings({"debian": f"http://localhost:{upstream.port}/pub/debian"})
    with Gateway(store, Offer(), archives=("127.0.0.1",)) as gateway:
        gateway.apt = mirror
        url = f"http://127.0.0.1:{upstream.port}/debian/pool"
        assert ask(gateway, f"{url}/a.deb")[1] == b"from the mirror"
        assert upstream.requests[-1][2]["Host"] == f"localhost:{upstream.port}"
        assert ask(gateway, f"{url}/b.deb")[1] == b"only in the archive"
        gateway.archives = ()
        assert ask(gateway, f"{url}/a.deb")[1] == b"from the archive"


def test_apts_own_proxy_carries_what_is_apts(store: Store, upstream: Upstream):
    upstream.answers |= {"/debian/dists/x": (200, {}, b"via apt's proxy")}
    with Gateway(store, Offer()) as gateway:
        gateway.apt = AptSettings({}, {"": f"http://127.0.0.1:{upstream.port}"})
        assert ask(gateway, "http://archive.invalid/debian/dists/x")[1] == b"via apt's proxy"
        assert ask(gateway, "http://archive.invalid/other")[0].status == 502
