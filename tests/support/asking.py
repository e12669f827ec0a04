"""Requests to a gateway, as the programs of a build make them."""

from __future__ import annotations

import http.client
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

from reprokit.supply.gateway import Gateway


def authorization(gateway: Gateway) -> dict[str, str]:
    address = urlsplit(gateway.url)
    return {"Proxy-Authorization": "Basic " + b64encode(f"{address.username}:{address.password}".encode()).decode()}


def connect(gateway: Gateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", urlsplit(gateway.url).port, timeout=60)


def ask(gateway: Gateway, url: str, method: str = "GET", body: bytes | None = None, **headers: str):
    connection = connect(gateway)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, url, body, {**authorization(gateway), **fields})
    answer = connection.getresponse()
    return answer, answer.read()


def environment(gateway: Gateway, home: Path) -> dict[str, str]:
    """The environment of a RUN: the proxies, without this machine's settings."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), **gateway.build_arguments()}
