"""Certificates of the site, which this machine trusts and containers do not know."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info

_SCRIPT = """
for name in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
  eval "value=\\${$name-}"
  [ -z "$value" ] || { echo "$name=$value" | say named; [ -r "$value" ] || echo "$name=$value" | say missing; }
done
for file in "$ROOT"/usr/local/share/ca-certificates/*.crt "$ROOT"/etc/pki/ca-trust/source/anchors/*; do
  [ -f "$file" ] && echo "$file" | say own
done
"""


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    for line in found.all("missing"):
        name = line.partition("=")[0]
        reason = "there is no such file, or it cannot be read: every download over TLS fails"
        yield error("certificates.missing", f"${line}", reason, f"correct it, or `unset {name}`")
    if own := len(found.all("own")) + len(found.all("named")):
        reason = (
            "this machine trusts certificates of its own site, perhaps of a proxy that signs TLS. reprokit downloads "
            "on the host, so locked builds work; pip, git and conda in a container do not know them "
            "(CERTIFICATE_VERIFY_FAILED)"
        )
        yield info("certificates", f"host.own_certificates={own}", reason)
