"""What a failed build or load says, said first."""

import ctypes
import re
from typing import List, Optional, Sequence

from . import declared

# In the order that a build meets them: missing tools, the compilers, the linker.
_CAUSES = re.compile(
    r"fatal error:|(?<!ninja: )\berror:|\berror #|(?:nvcc|ptxas|nvlink|cudafe\+\+) (?:fatal|error) *:|"
    r"catastrophic error|undefined reference to|cannot find -l|unsupported GNU version|Killed signal|"
    r"command not found|No space left on device"
)
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_UNDEFINED_REFERENCE = re.compile(r"undefined reference to [`'](.+)'")


def explain_build(log: str, folders: Sequence[str]) -> str:
    """The first causal lines of a build's log; an undefined reference in them with where it was declared."""
    lines = first_errors(log)
    for match in filter(None, map(_UNDEFINED_REFERENCE.search, lines)):
        place = declared.where(match.group(1), folders)
        if place:
            lines.append("%s is declared at %s" % (match.group(1), place))
            break
    return "\n".join(lines)


def first_errors(log: str, limit: int = 3) -> List[str]:
    """The first causal lines of a build's log, the compiler's quotation of the first one with them.

    Later errors are mostly consequences, and the last line of a log says only that something failed.
    """
    lines = log.splitlines()
    found = [i for i, line in enumerate(lines) if _CAUSES.search(line)]
    if not found:
        return [line for line in lines if line.strip()][-limit:]
    # g++ quotes the source after an error, as "   12 | code" and a caret.
    quoted = [line for line in lines[found[0] + 1 : found[0] + 3] if re.match(r"\s*\d* \|", line)]
    return [lines[found[0]]] + quoted + [lines[i] for i in found[1:limit]]


def explain_load(error: BaseException, folders: Sequence[str]) -> str:
    """A failed load's message; an undefined symbol in it comes with its name in C++, and the line that declares it.

    folders: where declarations are looked for, in this order.
    """
    # Newer versions of torch wrap the dynamic linker's message in one that gives the path alone.
    message = str(error) if error.__cause__ is None else "%s\n%s" % (error, error.__cause__)
    match = _UNDEFINED.search(message)
    name = demangle(match.group(1)) if match else None
    if name is None:
        return message
    place = declared.where(name, folders)
    return "%s\n%s%s is called, and nothing that was linked defines it with these parameters" % (
        message,
        name,
        " (declared at %s)" % place if place else "",
    )


def demangle(symbol: str) -> Optional[str]:
    """A C++ symbol as it was written, or None if it is not one, by the C++ runtime that torch has loaded."""
    runtime = ctypes.CDLL("libstdc++.so.6")
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = runtime.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not text:
        return None
    try:
        return ctypes.string_at(text).decode()
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
