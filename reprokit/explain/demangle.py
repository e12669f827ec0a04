"""C++ names as their author wrote them, through binutils' c++filt where it is installed."""

from __future__ import annotations

import shutil
import subprocess

from reprokit.untrusted.text import escaped

_LONGEST = 1000
_SHOWN = 300
_SECONDS = 2


def demangled(symbol: str) -> str:
    """`at::cos(at::Tensor)` for `_ZN2at3cosENS_6TensorE`; the symbol itself where it has no such form.

    In a process of its own: a demangler can be crashed by a name made for that.
    """
    program = shutil.which("c++filt")
    if program is None or not symbol.startswith("_Z") or len(symbol) > _LONGEST or not symbol.isascii():
        return symbol
    try:
        done = subprocess.run([program], input=symbol, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return symbol
    return escaped(done.stdout.strip())[:_SHOWN] or symbol
