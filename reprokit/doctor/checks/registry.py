"""The engine's registry mirrors and proxies: the engine pulls images, with its own settings."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.checks.proxies import shown
from reprokit.doctor.examined import Examined, texts
from reprokit.doctor.findings import info, warning
from reprokit.redact import redact

_SCRIPT = "env | grep -iE '^https?_proxy=.' | say proxy\n"
_REMEDY = (
    "give the engine a proxy: HTTPS_PROXY in a drop-in of its service (`sudo systemctl edit docker`), then "
    "`sudo systemctl restart docker`"
)


def find(host: Examined) -> Iterator[Finding]:
    engine_info = host.info()
    settings = engine_info.get("RegistryConfig")
    mirrors = texts(settings.get("Mirrors")) if isinstance(settings, dict) else []
    names = ", ".join(map(redact, mirrors)) or "none"
    yield info("registry", f"engine.registry_mirrors={len(mirrors)}", names)
    proxy = engine_info.get("HttpsProxy") or engine_info.get("HttpProxy")
    used = shown(proxy) if proxy and isinstance(proxy, str) else "the engine uses no proxy"
    yield info("registry", f"engine.proxy={'yes' if proxy else 'no'}", used)
    if host.ask(_SCRIPT).one("proxy") and not proxy:
        reason = "this login uses a proxy and the engine does not: pulls fail where the proxy is the only way out"
        yield warning("registry.proxy", "engine.proxy=no", reason, _REMEDY)
