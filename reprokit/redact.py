"""Remove credentials from text before it is shown or kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

# Shorter values, such as 1 or true, occur in ordinary output.
SHORTEST_SECRET = 6
_LONGEST_LINE = 1 << 20
_SECRET_NAME = re.compile(r"token|secret|passw|credential|auth|_key$|_pw$|apikey", re.IGNORECASE)
# RFC 3986 allows an apostrophe in a password.
_USERINFO = re.compile(r"(?<=://)[^/?#\s\"]+@")


def redact(text: str) -> str:
    """`text` without `user:password@` in addresses."""
    return _USERINFO.sub("", text)


def environment_secrets(environment: Mapping[str, str]) -> list[str]:
    """The values of variables with names of secrets, such as GITHUB_TOKEN."""
    return [value for name, value in environment.items() if _SECRET_NAME.search(name)]


def secret_parts(value: str) -> set[str]:
    """The parts of a secret to mask in output: its lines, and their printable parts."""
    parts = {*value.split("\n"), *re.split("[\x00-\x1f\x7f\ufffd]", value)}
    return {part.strip() for part in parts if len(part.strip()) >= SHORTEST_SECRET}


def masking(values: Iterable[str]) -> Callable[[str], str]:
    """A function that writes `***` for these values. Parts of less than SHORTEST_SECRET characters stay."""
    parts = sorted({part for value in values for part in secret_parts(value)}, key=len, reverse=True)

    def mask(text: str) -> str:
        for part in parts:
            text = text.replace(part, "***")
        return text

    return mask


class MaskedLines:
    """Pass output on in complete lines, without these values. Lines longer than 1 MiB are split."""

    def __init__(self, write: Callable[[bytes], None], values: Iterable[str]) -> None:
        self._write, self._mask = write, masking(values)
        self._rest = b""

    def write(self, data: bytes) -> None:
        self._rest += data
        end = self._rest.rfind(b"\n") + 1 or (len(self._rest) if len(self._rest) > _LONGEST_LINE else 0)
        self._pass_on(end)

    def finish(self) -> None:
        """Pass on a last line without an end."""
        self._pass_on(len(self._rest))

    def _pass_on(self, end: int) -> None:
        text, self._rest = self._rest[:end], self._rest[end:]
        self._write(self._mask(text.decode(errors="surrogateescape")).encode(errors="surrogateescape"))
