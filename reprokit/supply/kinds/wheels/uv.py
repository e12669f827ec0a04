"""uv on the host, which resolves wheels for another Python and platform. It builds and installs nothing.

uv needs only metadata, so that a stack of several gigabytes is resolved without a download. It evaluates markers for
the target's Python, which `pip download` does not.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.redact import redact
from reprokit.supply.kinds.wheels.pip import PipSettings, run_limited
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.untrusted import toml
from reprokit.untrusted.documents import understood
from reprokit.untrusted.limits import DOCUMENT

# glibc minors that `uv --python-platform` knows; for others the next lower one is used.
_GLIBC = (17, 28, *range(31, 41))
# A project with a comparison of its versions, or in a sentence on what it lacks.
_PROJECT = re.compile(
    r"(?<![\w.=])([A-Za-z][\w.-]*)(?:\[[^\]]*\])?(?:(==[^\s,]+)|(?=[<>!~]=?| has no | have no | was not found))"
)
_MISSING = re.compile(r"no versions? of ([A-Za-z][\w.-]*(?:==[^\s,]+)?)")
_UNUSABLE = re.compile(r"(\S+) ha(?:s|ve) no (?:usable )?wheels")
_HARMLESS = ("UV_CACHE_DIR", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES")


@dataclass(frozen=True)
class IndexFile:
    """One file of an index; `sha256` is empty and `size` (bytes) None if the index does not state them.

    `url` may hold the credentials of the user's index: never show it.
    """

    file: str
    url: str = field(repr=False)
    sha256: str = ""
    size: int | None = None


@dataclass(frozen=True)
class Package:
    """One package of a resolution: its wheels that fit the platform, or its sdist; `yanked` by its publisher."""

    name: str
    version: str
    files: tuple[IndexFile, ...]
    yanked: bool = False


class Unsatisfied(SourceError):
    """No choice of versions meets the requirements. `projects` are those that uv names: NAME or NAME==VERSION.

    `unusable` are the requirements for which it reports no release with a usable wheel.
    """

    projects: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()


class Unreachable(SourceError):
    """The index at `where` did not answer, or answered with an error. `connected`: its host could be reached."""

    connected: bool = True


def resolve(
    request: WheelRequest, settings: PipSettings, preferred: Mapping[str, str] = {}, variables: Mapping[str, str] = {}
) -> list[Package]:
    """The newest versions that meet all requirements; `preferred` versions (by name) win if they fit.

    Sdists are used unread. The best version of all indexes wins, as in pip. `variables` are added to uv's environment.
    Raises Unsatisfied, or Unreachable for the first index that fails.
    """
    platform, sdists = request.platform, {sdist.package: sdist.requires for sdist in request.sdists}
    with TemporaryDirectory(prefix="reprokit-uv-") as folder:
        required, config, output = (Path(folder) / name for name in ("requirements.in", "uv.toml", "pylock.toml"))
        always, limited = ([], [*sdists]) if request.sdists_if_needed else ([*sdists], [])
        required.write_text("".join(f"{line}\n" for line in [*sorted(set(request.requirements)), *always]))
        limits = f"constraint-dependencies = {json.dumps([*request.constraints, *limited])}\n"
        config.write_text(limits + "".join(_static_metadata(*entry) for entry in sdists.items()))
        if preferred:
            output.write_text(_as_pylock(preferred))
        command = [_uv(), "pip", "compile", str(required), f"--output-file={output}", "--format=pylock.toml"]
        command += [f"--config-file={config}", "--no-progress", "--only-binary=:all:"]
        command += [f"--no-binary={_name(text)}" for text in sdists]
        command += [f"--python={sys.executable}", "--no-python-downloads", f"--python-version={platform.python}"]
        command += [f"--python-platform={python_platform(platform)}"]
        command += [*index_options(settings, request.indexes), *request.as_of.options()]
        done = run_limited(command, environment({**os.environ, **variables}, settings), folder)
        if done.returncode:
            raise explain(redact(done.stderr), platform)
        yanked = set(re.findall(r"^warning: `(\S+)` is yanked", done.stderr, re.MULTILINE))
        DOCUMENT.check(output.stat().st_size, "bytes in what indexes list")
        with understood("what an index lists"):
            pylock = toml.loads(output.read_text(encoding="utf-8"))
            return _packages(pylock, yanked, [*settings.indexes, *settings.find_links])


def python_platform(platform: Platform) -> str:
    """uv's name for the platform."""
    minor = int(platform.glibc.split(".")[1])
    supported_minor = max((m for m in _GLIBC if m <= minor), default=_GLIBC[0])
    return f"{platform.machine}-manylinux_2_{supported_minor}"


def index_options(settings: PipSettings, indexes: Sequence[str]) -> list[str]:
    """uv's options for the indexes of pip's settings and of the recipe."""
    options = ["--index-strategy=unsafe-best-match"]
    # Some projects publish a page of links instead of an index.
    pages = [index for index in indexes if index.endswith(".html")]
    options += [f"--find-links={page}" for page in [*settings.find_links, *pages]]
    options += [f"--allow-insecure-host={host}" for host in settings.trusted_hosts]
    everywhere = [*settings.extra_indexes, *(index for index in indexes if index not in pages)]
    if settings.index and not settings.own_index:
        options.append(f"--default-index={settings.index}")
    elif not settings.index and everywhere:
        options.append(f"--default-index={everywhere.pop(0)}")
    elif not settings.index:
        options.append("--no-index")
    return [*options, *(f"--index={index}" for index in everywhere)]


def environment(environ: Mapping[str, str], settings: PipSettings) -> dict[str, str]:
    """uv's environment: pip's settings, and no settings of uv that would change the result."""
    variables = {k: v for k, v in environ.items() if not k.startswith("UV_") or k in _HARMLESS}
    variables |= {"NO_COLOR": "1", "UV_SYSTEM_CERTS": "1"}
    bundle = settings.cert or next((environ[k] for k in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if environ.get(k)), "")
    if bundle:
        variables["SSL_CERT_FILE"] = bundle
    if settings.client_cert:
        variables["SSL_CLIENT_CERT"] = settings.client_cert
    if settings.proxy:
        variables |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), settings.proxy)
    return variables


def _uv() -> str:
    from uv import find_uv_bin

    try:
        return find_uv_bin()
    except FileNotFoundError:
        raise SourceError("uv is missing", sys.executable, "install reprokit again, which needs uv") from None


def _name(requirement: str) -> str:
    return re.split(r"[=<>!~\[; ]", requirement, maxsplit=1)[0]


def _static_metadata(requirement: str, requires: Sequence[str]) -> str:
    """An entry of uv.toml with a package's dependencies, so that uv does not build it. TOML has JSON's strings."""
    name, _, version = requirement.partition("==")
    lines = ["[[dependency-metadata]]", f"name = {json.dumps(name)}", f"version = {json.dumps(version)}"]
    return "\n".join([*lines, f"requires-dist = [{', '.join(map(json.dumps, requires))}]"]) + "\n"


def _as_pylock(versions: Mapping[str, str]) -> str:
    """Versions as an earlier output, which uv prefers to newer versions."""
    entries = (
        f"[[packages]]\nname = {json.dumps(n)}\nversion = {json.dumps(v)}\n" for n, v in sorted(versions.items())
    )
    return 'lock-version = "1.0"\ncreated-by = "reprokit"\n' + "".join(entries)


def _packages(pylock: dict[str, Any], yanked: set[str], indexes: Sequence[str]) -> list[Package]:
    """The packages of a pylock.toml (PEP 751)."""
    packages = []
    for entry in pylock.get("packages", []):
        if "archive" in entry:
            continue  # a stub of a git project
        name, version = entry["name"], entry["version"]
        files = tuple(_file(file, indexes) for file in entry.get("wheels") or [entry["sdist"]])
        packages.append(Package(name, version, files, f"{name}=={version}" in yanked))
    return packages


def _file(entry: dict[str, Any], indexes: Sequence[str]) -> IndexFile:
    name = entry.get("name") or unquote(urlsplit(entry["url"]).path.rpartition("/")[2])
    sha256 = entry.get("hashes", {}).get("sha256", "")
    return IndexFile(name, with_credentials(entry["url"], indexes), sha256, entry.get("size"))


def with_credentials(url: str, indexes: Iterable[str]) -> str:
    """`url` with the credentials of the index on the same server, as in pip; uv omits them."""
    parts = urlsplit(url)
    server = (parts.scheme, parts.hostname, parts.port)
    for index in map(urlsplit, indexes):
        same = (index.scheme, index.hostname, index.port) == server
        if same and index.username is not None and parts.username is None:
            userinfo = quote(unquote(index.username), safe="")
            if index.password:
                userinfo += ":" + quote(unquote(index.password), safe="")
            return parts._replace(netloc=f"{userinfo}@{parts.netloc}").geturl()
    return url


def explain(stderr: str, platform: Platform) -> ReprokitError:
    """uv's output as one error. For Unsatisfied, `where` is the requirement that uv names."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("warning:")]
    words = " ".join(line.removeprefix("error: ").removeprefix("cause: ") for line in lines if "hint: " not in line)
    hints = " ".join(line.removeprefix("hint: ") for line in lines if line.startswith("hint: "))
    if "No space left on device" in words:
        return EngineError("the disk is full", hint="free space below the home folder, where uv keeps its cache")
    if "No solution found" in words:
        unsatisfied = _unsatisfied(words, hints, platform)
        named = [*_MISSING.findall(words), *("".join(project) for project in _PROJECT.findall(words))]
        unsatisfied.projects = tuple(dict.fromkeys(named))
        unsatisfied.unusable = tuple(dict.fromkeys(_UNUSABLE.findall(words)))
        return unsatisfied
    if address := re.search(r"(?:Failed to fetch|Failed to read[^:]*): `?((?:https?|file)://[^\s`]+)", words):
        causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
        unreachable = Unreachable(
            f"a package index could not be reached: {(causes or [words])[-1][:300]}",
            address[1],
            "`pip config list` shows the indexes and proxies",
        )
        unreachable.connected = "client error (Connect)" not in causes
        return unreachable
    return SourceError(f"uv failed: {words[:400]}", hint=hints)


def _unsatisfied(words: str, hints: str, platform: Platform) -> Unsatisfied:
    target = f"Python {platform.python} and glibc {platform.glibc}"
    if missing := re.search(r"Because there is no version of (\S+) and you require \1", words):
        return Unsatisfied(f"no index has {missing[1]}", missing[1])
    if unknown := re.search(r"Because (\S+) was not found in the ", words):
        return Unsatisfied(f"no index has a wheel of {unknown[1]} for {target}", unknown[1], "is the name right?")
    none = r"Because (?:only |all versions of )?(\S+?)(?: is available and \S+)? ha(?:s|ve) no (?:usable )?wheels"
    if unusable := re.search(none, words):
        if "building from source is disabled" in hints or not hints:
            hints = "list a release without a wheel under `sdists`: it is built inside the image"
        return Unsatisfied(f"no wheel of {unusable[1]} for {target}", unusable[1], hints)
    causes = re.sub(r"^No solution found when resolving dependencies:?\s*", "", words)
    return Unsatisfied(f"the wheels do not fit together: {causes[:600]}", hint=hints or "loosen or correct a pin")
