"""The locale of the login, which programs that reprokit starts inherit."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning

_SCRIPT = """
echo "${LC_ALL:-${LC_CTYPE:-${LANG:-}}}" | say name
locale 2>&1 >/dev/null | grep -i cannot | say complaint
locale charmap 2>/dev/null | say charmap
"""
_REMEDY = "use one that every system has: `export LC_ALL=C.UTF-8`"


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    subject = f"host.locale={found.one('name') or 'C'}"
    if found.one("complaint"):
        reason = "this locale is not installed here: programs fall back to ASCII, and Perl and Python complain"
        yield warning("locale", subject, reason, _REMEDY)
    elif (charmap := found.one("charmap")) not in ("UTF-8", ""):
        reason = f"the character set is {charmap}: names and messages beyond it become escapes"
        yield warning("locale.charset", subject, reason, _REMEDY)
    else:
        yield info("locale", subject)
