"""A build behind the host's own proxy on loopback, which wants a password: nothing keeps that or the gateway's."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.supply.gateway import Gateway
from tests.support.builds import TOOLS, Builds, root_file_system
from tests.support.names import unique

PASSWORD = "p4ss-of-the-proxy"
# What apt would do, by bash alone: ask the proxy that the build was given.
ASK = r"""RUN bash -c 'a=${http_proxy#http://}; login=$(printf %s "${a%@*}" | base64 -w0); at=${a##*@}; \
    exec 3<>/dev/tcp/${at%:*}/${at#*:}; \
    printf "GET http://archive.invalid/pool/%s HTTP/1.0\r\nProxy-Authorization: Basic %s\r\n\r\n" a.deb $login >&3; \
    cat <&3'
"""


class Proxy:
    """An HTTP proxy on loopback that serves only who knows the password; it answers for every host itself."""

    def __init__(self) -> None:
        self.served: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                login = b64encode(f"me:{PASSWORD}".encode()).decode()
                known = self.headers.get("Proxy-Authorization") == f"Basic {login}"
                body = b"from behind the proxy\n" if known else b"who are you\n"
                self.send_response(200 if known else 407)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                if known:
                    outer.served.append(self.path)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://me:{PASSWORD}@127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    running = Proxy()
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", running.url)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def base(engine: Engine) -> Iterator[str]:
    """The small base with what it takes to ask a proxy."""
    name = unique("proxied")
    engine.import_image(io.BytesIO(root_file_system((*TOOLS, "bash", "base64"))), name, "1", ["ENV PATH=/bin"])
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


def test_it_works_and_the_password_stays_nowhere(
    builds: Builds, engine: Engine, inside, proxy: Proxy, builder: str, monkeypatch: pytest.MonkeyPatch
):
    gateways: list[Gateway] = []
    start = Gateway.__enter__
    monkeypatch.setattr(Gateway, "__enter__", lambda gateway: gateways.append(gateway) or start(gateway))
    result = builds(ASK + 'RUN test -n "$http_proxy" -a "$http_proxy" = "$HTTPS_PROXY"; env\n', builder=builder)
    log = result.log.read_text()
    assert "from behind the proxy" in log and "=http://reprokit:***@127.0.0.1:" in log
    assert proxy.served == ["http://archive.invalid/pool/a.deb"]
    assert not [variable for variable in engine.image(result.name)["Config"]["Env"] if "proxy" in variable.lower()]
    image = json.dumps([engine.image(result.name), engine.history(result.name)])
    assert "127.0.0.1" not in image
    kept = image + inside(result.name, "env; cat /etc/* 2>/dev/null") + repr(builds.events)
    assert f":{proxy.server.server_port}" not in kept
    kept += "".join(file.read_text(errors="replace") for file in result.log.parent.parent.rglob("*") if file.is_file())
    secret = urlsplit(gateways[0].url).password
    assert secret and secret not in kept and PASSWORD not in kept


def test_a_proxy_that_is_away_is_named_without_it(builds: Builds, proxy: Proxy):
    proxy.stop()
    with pytest.raises(ReprokitError) as error:
        builds(ASK + "RUN false\n")
    told = repr(builds.events) + error.value.message + error.value.hint
    assert f"through the proxy http://127.0.0.1:{proxy.server.server_port}" in told
    assert PASSWORD not in told
