from __future__ import annotations

import socket
from base64 import b64encode
from pathlib import Path

import pytest

from reprokit.config import Configuration, MirrorEntry
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.settings import (
    AptSettings,
    mirrors_of,
    proxies_of,
    read_settings,
    remember_archive,
    remembered,
)
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.fetching import HOSTS
from tests.support.upstream import Upstream

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


def test_mirrors_of_both_formats(tmp_path: Path):
    assert read_settings(tmp_path).mirrors == {}  # a host without apt
    assert mirrors_of([ONE_LINE, DEB822]) == {
        "debian": "https://mirror.test/pub/debian",
        "debian-security": "http://mirror.test/debian-security",
        "ubuntu": "http://other.test/ubuntu",
    }


def test_proxies():
    settings = AptSettings(
        {}, proxies_of('Acquire::http::Proxy "http://p:1";\nAcquire::http::Proxy::near.test "DIRECT";\n')
    )
    assert (settings.proxy("far.test"), settings.proxy("near.test")) == ("http://p:1", None)
    assert AptSettings().proxy("far.test") is None


@pytest.mark.slow
def test_the_gateway_asks_mirrors_first_and_the_archive_where_they_fail(store: Store, upstream: Upstream):
    upstream.answers |= {
        "/mine/pool/main/a.deb": (200, {}, b"from the user's mirror"),
        "/pub/debian/pool/main/b.deb": (200, {}, b"from the host's"),
        "/debian/pool/main/c.deb": (200, {}, b"only in the archive"),
        "/debian/pool/main/a.deb": (200, {}, b"from the archive"),
    }
    with socket.socket() as taken, Gateway(Mirrors(store), archives=("127.0.0.1",)) as gateway:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        mine = f"debian=http://me:p%40ss@localhost:{upstream.port}/mine/{{path}}"
        mirrors = [MirrorEntry("apt", value, "test") for value in (f"{dead}/{{path}}", mine, "file:///srv/{path}")]
        host = AptSettings({"debian": f"http://localhost:{upstream.port}/pub/debian"})
        gateway.mirrors = Mirrors(store, Configuration(tuple(mirrors), hosts=HOSTS), pip=PipSettings(), apt=host)
        url = f"http://127.0.0.1:{upstream.port}/debian/pool/main"
        assert ask(gateway, f"{url}/a.deb")[1] == b"from the user's mirror"
        headers = upstream.requests[-1][2]
        assert headers["Host"] == f"localhost:{upstream.port}"
        assert headers["authorization"] == "Basic " + b64encode(b"me:p@ss").decode()
        assert ask(gateway, f"{url}/b.deb")[1] == b"from the host's"
        assert ask(gateway, f"{url}/c.deb")[1] == b"only in the archive"
        assert ask(gateway, f"{url}/d.deb")[0].status == 404
        assert not [place for place in gateway.mirrors.archive(f"{url}/a.deb", gateway.archives) if dead in place]
        gateway.archives = ()  # a vendor's folder of the same name
        assert ask(gateway, f"{url}/a.deb")[1] == b"from the archive"


def test_apts_own_proxy_carries_what_is_apts(store: Store, upstream: Upstream):
    upstream.answers |= {"/debian/dists/x": (200, {}, b"via apt's proxy")}
    host = AptSettings({}, {"": f"http://127.0.0.1:{upstream.port}"})
    with Gateway(Mirrors(store, Configuration(hosts=HOSTS), pip=PipSettings(), apt=host)) as gateway:
        assert ask(gateway, "http://archive.invalid/debian/dists/x")[1] == b"via apt's proxy"
        assert ask(gateway, "http://archive.invalid/other")[0].status == 502


def test_the_latest_address_comes_first_and_holds_no_credentials(store: Store):
    assert remembered(store, "debian") == ()
    for base in ("http://one.test/debian/", "http://me:secret@two.test/debian", "http://one.test/debian"):
        remember_archive(store, "debian", base)
    assert remembered(store, "debian") == ("http://one.test/debian", "http://two.test/debian")
    assert remembered(store, "ubuntu") == ()
