"""The user's mirrors as templates: which placeholders each kind of input has, and how they are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BeforeValidator

from reprokit.recipe.spelling import nearest
from reprokit.supply.mirrors.archives import archives

PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "apt": ("archive", "path", "as_of"),
    "wheels": ("name", "version", "file", "sha256"),
    "git": ("host", "owner", "repo", "path"),
    "conda": ("channel",),
    "files": ("host", "path", "name", "sha256"),
}
_SCHEMES = ("https", "http", "file")


def check(kind: str, text: str) -> str:
    """The template itself. Raises ValueError where it is no address or a placeholder is not of this kind."""
    scheme, found, _ = text.partition("://")
    if not found or scheme not in _SCHEMES:
        raise ValueError(f"{text!r} is no address; write https://..., http://... or file:///...")
    if re.search(r"[\s,\"'<>\\]", text):
        raise ValueError(f"{text!r} has characters that an address cannot have")
    known = PLACEHOLDERS[kind]
    for name in re.findall(r"\{([^{}]*)\}", text):
        if name not in known:
            listed = ", ".join(f"{{{n}}}" for n in known)
            raise ValueError(f"{{{name}}} is no placeholder of {kind}{nearest(name, known)} (there are {listed})")
    if "{" in (rest := re.sub(r"\{\w+\}", "", text)) or "}" in rest:
        raise ValueError(f"{text!r} has a brace without its other half")
    if kind in ("git", "files", "apt") and rest == text:
        listed = ", ".join(f"{{{n}}}" for n in known)
        raise ValueError(f"{text!r} names one place for all {kind}; say where each is with {listed}")
    if kind == "conda" and "{channel}" not in text:
        raise ValueError(f"{text!r} must hold {{channel}}")
    return text


def _apt(value: Any) -> str:
    """An apt mirror, for all archives or, as `{ARCHIVE: TEMPLATE}`, for one; the latter becomes `ARCHIVE=TEMPLATE`."""
    if isinstance(value, dict) and len(value) == 1:
        value = "=".join(str(part) for part in next(iter(value.items())))
    if not isinstance(value, str):
        raise ValueError("write TEMPLATE, or ARCHIVE: TEMPLATE")
    archive, template = split_archive(value)
    if archive and archive not in archives():
        raise ValueError(f"{archive!r} is no archive{nearest(archive, archives())} (there are {', '.join(archives())})")
    check("apt", template)
    return value


def split_archive(text: str) -> tuple[str, str]:
    """`ARCHIVE=TEMPLATE` as both; the archive is empty where the template is for all."""
    found = re.fullmatch(r"([\w-]+)=(.+)", text)
    return (found[1], found[2]) if found else ("", text)


def _registry(text: str) -> str:
    text = text.removeprefix("https://").rstrip("/")
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*", text):
        raise ValueError(f"{text!r} is no registry; write HOST[:PORT][/PREFIX]")
    return text


def fill(template: str, fields: Mapping[str, str]) -> str | None:
    """The address; None where a value is not known, or would lead out of its folder."""
    names = re.findall(r"\{(\w+)\}", template)
    if any(not fields.get(name) or ".." in fields[name].split("/") for name in names):
        return None
    return re.sub(r"\{(\w+)\}", lambda match: quote(fields[match[1]], safe="/%:~=?&;@!"), template)


def git_fields(url: str) -> dict[str, str]:
    """`https://HOST/OWNER/REPO[.git]` as the fields of git's templates; `owner` is all between host and repository."""
    address = urlsplit(url)
    path = address.path.strip("/").removesuffix(".git")
    owner, _, repo = path.rpartition("/")
    return {"host": address.netloc.rpartition("@")[2], "owner": owner, "repo": repo, "path": path}


def file_fields(urls: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """`host` and `path` of each of a file's addresses."""
    for url in urls:
        address = urlsplit(url)
        query = f"?{address.query}" if address.query else ""
        yield {"host": address.netloc.rpartition("@")[2], "path": address.path.lstrip("/") + query}


def _host(text: str) -> str:
    if not re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", text):
        raise ValueError(f"{text!r} is no host; write HOST or HOST:PORT")
    return text


Host = Annotated[str, AfterValidator(_host)]
Registry = Annotated[str, AfterValidator(_registry)]
Apt = Annotated[str, BeforeValidator(_apt)]
Wheels = Annotated[str, AfterValidator(partial(check, "wheels"))]
Git = Annotated[str, AfterValidator(partial(check, "git"))]
Conda = Annotated[str, AfterValidator(partial(check, "conda"))]
Files = Annotated[str, AfterValidator(partial(check, "files"))]
