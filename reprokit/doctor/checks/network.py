"""The network: names, proxies, certificates, the user's mirrors, and keys for nodes."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from reprokit import config
from reprokit.compat.model import Finding
from reprokit.container.session import caller_variables
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.shell import clipped
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.mirrors.effective import PUBLIC, WAYS, Line, MirrorAnswer, ask, lines, silent_kinds
from reprokit.supply.store import Store

_HOST = "github.com"
_STUB = "127.0.0.53"  # systemd's; engines pass on its upstream resolvers
_DNS = f"""
grep -E '^ *nameserver ' "$ROOT/etc/resolv.conf" 2>/dev/null | say server
env | grep -iE '^(https?|all)_proxy=.' | say proxy
limit=; if command -v timeout >/dev/null; then limit='timeout -k 1 3'; fi
$limit getent hosts {_HOST} >/dev/null 2>&1
echo $? | say code
"""


def dns(host: Examined) -> Iterator[Finding]:
    """The resolvers of the machine, and those that containers get."""
    answer = host.ask(_DNS)
    servers = [words[1] for line in answer.all("server") if len(words := line.split()) > 1]
    subject = f"host.dns={', '.join(servers) or 'none'}"
    yield info("dns", subject)
    if answer.first("code") != "0" and not answer.first("proxy"):
        reason = f"the name {_HOST} cannot be looked up: downloads fail, locked inputs in the store do not need it"
        remedy = f"check /etc/resolv.conf and the network: `getent hosts {_HOST}`"
        yield warning("dns.resolve", subject, reason, remedy)
    if servers and all(_on_loopback(server) and server != _STUB for server in servers):
        reason = "all resolvers are on the host's loopback: containers get public ones, which a closed network blocks"
        remedy = 'name a resolver that containers can reach: "dns": ["ADDRESS"] in /etc/docker/daemon.json'
        yield warning("dns.loopback", subject, reason, remedy)


def _on_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return False


_CONNECT_S = 3.0
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_NO_ADDRESS = "it is not an address such as http://HOST:PORT"


def proxies(host: Examined) -> Iterator[Finding]:
    """The login's proxies, and whether builds and containers can reach them."""
    # Redact before clipping: a token may be long.
    answer = host.ask("env | grep -iE '^(http|https|all)_proxy=.' | say proxy\n").lines.get("proxy", [])
    environment = dict(line.partition("=")[::2] for line in answer)
    loopback = caller_variables(environment, "bridge", False).unreachable
    errors: dict[str, str] = {}
    for name, value in environment.items():
        subject = f"${name}={_shown(value)}"
        if not host.node and value not in errors:
            errors[value] = _connection_error(value)
        if errors.get(value):
            reason = f"the proxy cannot be used: {errors[value]}; downloads and builds go through it"
            yield error("proxies.unreachable", subject, reason, f"correct it, or `unset {name}`")
        elif name in loopback:
            reason = (
                "the proxy is on the host's loopback: builds reach it through reprokit's gateway, but containers do "
                "not, and do not get it"
            )
            remedy = "`--network host` reaches it, or let the proxy listen on an address that containers reach"
            yield warning("proxies.loopback", subject, reason, remedy)
        else:
            yield info("proxies", subject, "builds reach it through reprokit's gateway")
    yield from _unlike(environment)


def _unlike(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        values = {value for key, value in environment.items() if key.lower() == name}
        if len(values) > 1:
            reason = f"${name} and ${name.upper()} differ: some programs read one, some the other"
            yield warning("proxies.unlike", f"${name}", reason, f"`export {name.upper()}=${name}`")


def _shown(proxy: str) -> str:
    """The address of a proxy without user and password."""
    return clipped(redact(proxy if "://" in proxy else f"http://{proxy}"))


def _connection_error(proxy: str) -> str:
    """Why the proxy accepts no connection, "" if it does."""
    try:
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port = address.port or _PORTS.get(address.scheme, 0)
        if not address.hostname or not port:
            return _NO_ADDRESS
        socket.create_connection((address.hostname, port), _CONNECT_S).close()
    except ValueError:
        return _NO_ADDRESS
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return ""


_CERTIFICATES = """
for name in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
  eval "value=\\${$name-}"
  [ -z "$value" ] || { echo "$name=$value" | say named; [ -r "$value" ] || echo "$name=$value" | say missing; }
done
for file in "$ROOT"/usr/local/share/ca-certificates/*.crt "$ROOT"/etc/pki/ca-trust/source/anchors/*; do
  [ -f "$file" ] && echo "$file" | say own
done
"""


def certificates(host: Examined) -> Iterator[Finding]:
    """The site's own certificates, which containers do not trust."""
    answer = host.ask(_CERTIFICATES)
    for line in answer.all("missing"):
        reason = "there is no such file, or it cannot be read: every download over TLS fails"
        yield error("certificates.missing", f"${line}", reason, f"correct it, or `unset {line.partition('=')[0]}`")
    if own := len(answer.all("own")) + len(answer.all("named")):
        reason = (
            "this machine trusts certificates of its own site, perhaps of a proxy that signs TLS. reprokit downloads "
            "on the host, so locked builds work; pip, git and conda in a container do not know them "
            "(CERTIFICATE_VERIFY_FAILED)"
        )
        yield info("certificates", f"host.own_certificates={own}", reason)


_MIRROR_S = 4.0
_SLOW = 200e3  # bytes a second: an hour for 700 MB
_MOST_MIRRORS = 24


def mirrors(host: Examined) -> Iterator[Finding]:
    """Whether the user's mirrors answer, and how fast; without mirrors, the public archives."""
    if host.node:
        return  # downloads happen on the machine that builds
    settings = Mirrors(Store())
    every = list({(line.kind, line.value): line for line in lines(settings) if line.kind not in WAYS}.values())
    first_of_kind = list({line.kind: line for line in reversed(every)}.values())
    chosen = [line for line in every if line.source != PUBLIC] or first_of_kind
    client = Client(replace(settings.settings, connect_s=_MIRROR_S, stall_s=_MIRROR_S))
    questions = [(line, Bounded(partial(ask, line, client), _MIRROR_S)) for line in chosen[:_MOST_MIRRORS]]
    for _, question in questions:
        question.start()
    answers = [_answer(line, question) for line, question in questions]
    for answer in answers:
        yield _judged(answer)
    if silent := ", ".join(silent_kinds(answers)):
        remedy = "`reprokit config` shows where each comes from; what the store holds needs none (`reprokit fetch`)"
        yield warning("mirrors.silent", f"mirrors={silent}", f"no mirror of {silent} answers", remedy)


def _answer(line: Line, question: Bounded[MirrorAnswer]) -> MirrorAnswer:
    try:
        return question.result()
    except NoAnswer as error:
        return MirrorAnswer(line, error=str(error))


def _judged(answer: MirrorAnswer) -> Finding:
    line = answer.line
    subject = f"mirror.{line.kind}={line.shown}"
    if "certificate" in answer.error.lower():
        remedy = "if a proxy of your site signs TLS, name its certificates: `export SSL_CERT_FILE=/path/to/ca.pem`"
        return warning("mirrors.certificate", subject, answer.error, remedy)
    if answer.error:
        remedy = f"correct or remove it ({line.source}); `reprokit help mirrors`"
        return warning("mirrors.fails", subject, answer.error, remedy)
    if answer.rate and answer.rate < _SLOW:
        remedy = "put a nearer mirror first: `reprokit help mirrors`"
        return warning("mirrors.slow", subject, f"slow: {answer.in_words}", remedy)
    return info("mirrors", subject, answer.in_words)


_SSH = """
command -v ssh | say ssh
ssh-add -l >/dev/null 2>&1
echo $? | say code
for file in "$HOME"/.ssh/id_*.pub; do [ -f "$file" ] && echo "${file##*/}" | say key; done
"""


def ssh_agent(host: Examined) -> Iterator[Finding]:
    """The keys with which ssh logs in to nodes. Agents are not forwarded to nodes."""
    if host.node or not (nodes := config.load().nodes):
        return
    answer = host.ask(_SSH)
    subject = f"nodes={len(nodes)}"
    if not answer.first("ssh"):
        yield error("ssh_agent.ssh", subject, "ssh is not installed", "install the OpenSSH client")
    elif answer.first("code") != "0" and not answer.first("key"):
        agent = "the agent has no keys" if answer.first("code") == "1" else "no agent answers"
        reason = f"{agent}, and ~/.ssh has no key"
        remedy = "reprokit never asks for passwords: set up a key (`ssh-keygen`, `ssh-copy-id`, `ssh-add`)"
        yield warning("ssh_agent.keys", subject, reason, remedy)
