"""A build behind the host's own proxy on loopback, which wants a password: nothing keeps that or the gateway's."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.supply.gateway import Gateway
from tests.support.builds import TOOLS, Builds, root_file_system
from tests.support.names import unique
from tests.support.ports import free_port
from tests.support.upstream import Upstream

PASSWORD = "p4ss-of-the-proxy"
# What apt would do, by bash alone: ask the proxy that the build was given.
ASK = r"""RUN bash -c 'a=${http_proxy#http://}; login=$(printf %s "${a%@*}" | base64 -w0); at=${a##*@}; \
    exec 3<>/dev/tcp/${at%:*}/${at#*:}; \
    printf "GET http://archive.invalid/pool/%s HTTP/1.0\r\nProxy-Authorization: Basic %s\r\n\r\n" a.deb $login >&3; \
    cat <&3'
"""


@pytest.fixture(scope="module")
def base(engine: Engine) -> Iterator[str]:
    """The small base with what it takes to ask a proxy."""
    name = unique("proxied")
    engine.import_image(io.BytesIO(root_file_system((*TOOLS, "bash", "base64"))), name, "1", ["ENV PATH=/bin"])
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


def test_it_works_and_the_password_stays_nowhere(
    builds: Builds, engine: Engine, inside, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    upstream.answers["/pool/a.deb"] = (200, {}, b"from behind the proxy\n")
    monkeypatch.setenv("http_proxy", f"http://me:{PASSWORD}@127.0.0.1:{upstream.port}")
    gateways: list[Gateway] = []
    start = Gateway.__enter__
    monkeypatch.setattr(Gateway, "__enter__", lambda gateway: gateways.append(gateway) or start(gateway))
    result = builds(ASK + 'RUN test -n "$http_proxy" -a "$http_proxy" = "$HTTPS_PROXY"; env\n')
    log = result.log.read_text()
    assert "from behind the proxy" in log and "=http://reprokit:***@127.0.0.1:" in log
    ((_, path, headers, _),) = upstream.requests
    assert path == "http://archive.invalid/pool/a.deb"
    logins = [value for name, value in headers.items() if name.lower() == "proxy-authorization"]
    assert logins == [f"Basic {b64encode(f'me:{PASSWORD}'.encode()).decode()}"]
    assert not [variable for variable in engine.image(result.name).config["Env"] if "proxy" in variable.lower()]
    image = repr([engine.image(result.name), engine.history(result.name)])
    assert "127.0.0.1" not in image
    kept = image + inside(result.name, "env; cat /etc/* 2>/dev/null") + repr(builds.events)
    assert f":{upstream.port}" not in kept
    kept += "".join(file.read_text(errors="replace") for file in result.log.parent.parent.rglob("*") if file.is_file())
    secret = urlsplit(gateways[0].url).password
    assert secret and secret not in kept and PASSWORD not in kept


def test_a_proxy_that_is_away_is_named_without_it(builds: Builds, no_proxies: None, monkeypatch: pytest.MonkeyPatch):
    port = free_port()
    monkeypatch.setenv("http_proxy", f"http://me:{PASSWORD}@127.0.0.1:{port}")
    with pytest.raises(ReprokitError) as error:
        builds(ASK + "RUN false\n")
    shown = repr(builds.events) + error.value.message + error.value.hint
    assert f"through the proxy http://127.0.0.1:{port}" in shown
    assert PASSWORD not in shown
