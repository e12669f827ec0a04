"""The user's mirrors as templates of addresses, and their placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator

from reprokit.config.archives import archives
from reprokit.recipe.spelling import nearest

# Placeholders by kind of mirror. A registry's mirror is a name, not a template.
PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "registry": (),
    "apt": ("archive", "path", "as_of"),
    "wheels": ("name", "version", "file", "sha256"),
    "git": ("host", "owner", "repo", "path"),
    "conda": ("channel",),
    "files": ("host", "path", "name", "sha256"),
}
_SCHEMES = ("https", "http", "file")


def mirror(kind: str) -> Any:
    """The type of a mirror of this kind."""
    special = {"registry": _registry, "apt": _apt}
    return Annotated[str, BeforeValidator(special[kind]) if kind in special else AfterValidator(partial(check, kind))]


def check(kind: str, text: str) -> str:
    """Return the template. Raises ValueError if it is not an address or has a placeholder of another kind."""
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ValueError(f"{text!r} is not an address; write https://..., http://... or file:///...")
    if re.search(r"[\s,\"'<>\\]", text):
        raise ValueError(f"{text!r} has characters that an address cannot have; write a space as %20")
    names = PLACEHOLDERS[kind]
    listed = ", ".join(f"{{{name}}}" for name in names)
    for name in re.findall(r"\{([^{}]*)\}", text):
        if name not in names:
            raise ValueError(f"{{{name}}} is not a placeholder of {kind}{nearest(name, names)} (there are {listed})")
    if "{" in (fixed := re.sub(r"\{\w+\}", "", text)) or "}" in fixed:
        raise ValueError(f"{text!r} has a brace without its other half")
    if kind in ("git", "files", "apt") and fixed == text:
        raise ValueError(f"{text!r} names one place for all {kind}; use placeholders: {listed}")
    if kind == "conda" and "{channel}" not in text:
        raise ValueError(f"{text!r} must hold {{channel}}")
    return text


def _apt(value: Any) -> str:
    """A mirror of all archives, or of one: `{ARCHIVE: TEMPLATE}` becomes `ARCHIVE=TEMPLATE`."""
    if isinstance(value, dict) and len(value) == 1:
        value = "=".join(str(part) for part in next(iter(value.items())))
    if not isinstance(value, str):
        raise ValueError("write TEMPLATE, or ARCHIVE: TEMPLATE")
    archive, template = split_archive(value)
    if archive and archive not in archives():
        raise ValueError(
            f"{archive!r} is not an archive{nearest(archive, archives())} (there are {', '.join(archives())})"
        )
    check("apt", template)
    return value


def split_archive(text: str) -> tuple[str, str]:
    """Split `ARCHIVE=TEMPLATE`; the archive is empty if the template is for all archives."""
    match = re.fullmatch(r"([\w-]+)=(.+)", text)
    return (match[1], match[2]) if match else ("", text)


def _registry(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.removeprefix("https://").rstrip("/")
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*", text):
        raise ValueError(f"{text!r} is not a registry; write HOST[:PORT][/PREFIX]")
    return text


def fill(template: str, fields: Mapping[str, str]) -> str | None:
    """The address; None if a field is missing or empty, or would lead out of its folder."""
    names = re.findall(r"\{(\w+)\}", template)
    if any(not fields.get(name) or _leads_out(fields[name]) for name in names):
        return None
    return re.sub(r"\{(\w+)\}", lambda match: quote(fields[match[1]], safe="/%:~=?&;@!"), template)


def _leads_out(value: str) -> bool:
    """Whether a server could read a part of the value as `..`: some decode twice, read \\ as /, or stop at `;`."""
    while True:
        if ".." in re.split(r"[/\\?;]", value):
            return True
        decoded = unquote(value)
        if decoded == value:
            return False
        value = decoded


def filled(templates: Iterator[str] | tuple[str, ...] | list[str], fields: Mapping[str, str]) -> Iterator[str]:
    """The addresses of these templates, without those that cannot be filled in."""
    return (url for template in templates if (url := fill(template, fields)))


def git_fields(url: str) -> dict[str, str]:
    """`https://HOST/OWNER/REPO[.git]` as the fields of git's templates; `owner` may have slashes."""
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
        raise ValueError(f"{text!r} is not a host; write HOST or HOST:PORT")
    return text


Host = Annotated[str, AfterValidator(_host)]
