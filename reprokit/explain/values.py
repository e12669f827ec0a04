"""What follows from what a log names: a C++ name in words, the nearest pins, the packages that are missing."""

from __future__ import annotations

import re
import shutil
import subprocess

from reprokit.untrusted.terminal import escaped

_LONGEST = 1000
_SHOWN = 300
_SECONDS = 2
# Groups of the rules' patterns that name what an apt package has.
_PARTS = ("header", "library", "loaded", "program", "package")


def demangled(symbol: str) -> str:
    """`at::cos(at::Tensor)` for `_ZN2at3cosENS_6TensorE`; the symbol itself if binutils' c++filt finds no such form.

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


def pins(values: dict[str, str]) -> dict[str, str]:
    """What follows from captured values, where it is known.

    `oldest_cuda` for an `arch` such as 86, 8.6 or sm_86; `driver_newest_cuda` for a driver's `driver_cuda`, 11040.
    """
    implied = {}
    if number := int(values.get("driver_cuda", 0)):
        implied["driver_newest_cuda"] = f"{number // 1000}.{number % 1000 // 10}"
    if digits := re.search(r"(\d+)\.?(\d)\b", values.get("arch", "")):
        from reprokit.compat.facts import bundled
        from reprokit.compat.version import key

        sm = int(digits[1] + digits[2])
        toolkits = [version for version, toolkit in bundled().cuda.toolkits.items() if sm in toolkit.sm]
        implied |= {"oldest_cuda": min(toolkits, key=key)} if toolkits else {}
    return implied


def packages(values: dict[str, str]) -> dict[str, str]:
    """`distribution` of PyPI for a captured `module`, `apt` for a captured header, library or program; if known.

    Names come from reprokit's own table, never from the log: whoever writes the log, such as a setup.py, chooses among
    known packages at most.
    """
    names: dict[str, str] = {}
    if not {"module", *_PARTS} & values.keys():
        return names
    from reprokit.compat.distributions import bundled_distributions

    distributions = bundled_distributions()
    if module := values.get("module"):
        project = distributions.of_module(module) or distributions.of_module(module.partition(".")[0])
        names |= {"distribution": project} if project else {}
    for name in _PARTS:
        if apt := distributions.of_part(values.get(name, "")):
            names["apt"] = apt
    return names
