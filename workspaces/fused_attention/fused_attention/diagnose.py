"""Explain a failed build or load: the first cause, and where an undefined symbol is declared."""

import ctypes
import os
import re
from typing import List, Optional, Sequence

# In the order of a build: missing tools, compilers, linker, then errors of Python.
_CAUSES = re.compile(
    r"fatal error:|(?<!ninja: )\berror:|\berror #|(?:nvcc|ptxas|nvlink|cudafe\+\+) (?:fatal|error) *:|"
    r"catastrophic error|undefined reference to|cannot find -l|unsupported GNU version|Killed signal|"
    r"command not found|No space left on device|Error: Ninja is required"
)
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_UNDEFINED_REFERENCE = re.compile(r"undefined reference to [`'](.+)'")
_NOT_DECLARED_AFTER = r"return|else|new|throw|case|delete|goto|and|or|not|co_return"


def explain_build(log: str, folders: Sequence[str]) -> str:
    """The first causal lines of a build log, and the declaration of an undefined reference in them."""
    lines = first_errors(log)
    for match in filter(None, map(_UNDEFINED_REFERENCE.search, lines)):
        declaration = declared_at(match.group(1), folders)
        if declaration:
            lines.append("%s is declared at %s" % (match.group(1), declaration))
            break
    return "\n".join(lines)


def first_errors(log: str, limit: int = 3) -> List[str]:
    """The first causal lines of a build log, and the compiler's quotation of the first.

    Later errors are mostly consequences, and the last line of a log only says that something failed.
    """
    lines = log.splitlines()
    found = [i for i, line in enumerate(lines) if _CAUSES.search(line)]
    if not found:
        return [line for line in lines if line.strip()][-limit:]
    # g++ quotes the source after an error, as "   12 | code" and a caret.
    quoted = [line for line in lines[found[0] + 1 : found[0] + 3] if re.match(r"\s*\d* \|", line)]
    return [lines[found[0]]] + quoted + [lines[i] for i in found[1:limit]]


def explain_load(error: BaseException, folders: Sequence[str]) -> str:
    """The message of a failed load, with an undefined symbol's C++ name and its declaration in the first of `folders`
    that has one."""
    # Newer versions of torch wrap the dynamic linker's message in one that gives the path alone.
    message = str(error) if error.__cause__ is None else "%s\n%s" % (error, error.__cause__)
    match = _UNDEFINED.search(message)
    name = demangle(match.group(1)) if match else None
    if name is None:
        return message
    declaration = declared_at(name, folders)
    return "%s\n%s%s is called, and nothing that was linked defines it with these parameters" % (
        message,
        name,
        " (declared at %s)" % declaration if declaration else "",
    )


def demangle(symbol: str) -> Optional[str]:
    """The C++ name of a symbol, or None if it is not a C++ symbol."""
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


def declared_at(function: str, folders: Sequence[str]) -> Optional[str]:
    """FILE:LINE of a demangled function's declaration below the first of `folders` that has one, or None.

    Of several, the one whose file names the function's scopes and that has as many parameters.
    """
    head, _, rest = re.sub(r"<[^<>]*>|\(anonymous namespace\)::", "", function).partition("(")
    scopes = head.split("::")
    pattern = re.compile(
        r"^(?!\s*(?:%s)\b)[ \t]*\w[\w:<>,*& \t]*[ \t*&>](?:\w+::)*%s\s*\(([^)]*)\)"
        % (_NOT_DECLARED_AFTER, re.escape(scopes.pop())),
        re.MULTILINE,
    )
    for folder in folders:
        best = None  # type: Optional[Tuple[int, str]]
        for path in sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names):
            if not path.endswith((".h", ".hpp", ".cuh", ".cpp", ".cu")):
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            for match in pattern.finditer(text):
                fit = 1 + sum(scope in text for scope in scopes)
                fit += 4 * (len(_words(match.group(1))) == len(_words(rest.rsplit(")", 1)[0])))
                if best is None or fit > best[0]:
                    line = text.count("\n", 0, match.start(1)) + 1
                    best = (fit, "%s:%d" % (path, line))
        if best:
            return best[1]
    return None


def _words(parameters: str) -> List[str]:
    return [part for part in parameters.split(",") if part.strip() not in ("", "void")]
