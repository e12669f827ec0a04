"""The package that has a module, a library or a header: on PyPI, in conda or Debian, from `distributions.yaml`."""

from __future__ import annotations

import sys
from functools import cache, cached_property
from pathlib import Path

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict

# Modules of older standard libraries.
_GONE = {
    "distutils", "imp", "asyncore", "asynchat", "smtpd", "cgi", "telnetlib", "pipes", "crypt", "audioop",
    "__main__",
}  # fmt: skip
# Modules of Python 2's standard library whose names changed.
PYTHON_2 = {
    "BaseHTTPServer", "ConfigParser", "Cookie", "HTMLParser", "Queue", "SimpleHTTPServer", "SocketServer",
    "StringIO", "Tkinter", "cPickle", "cStringIO", "commands", "cookielib", "copy_reg", "httplib", "htmlentitydefs",
    "robotparser", "thread", "urllib2", "urlparse", "xmlrpclib",
}  # fmt: skip


class Distributions(BaseModel):
    """The table. An empty name is a module without a distribution on PyPI."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    modules: dict[str, str]
    alternatives: dict[str, tuple[str, ...]]
    stand_ins: dict[str, str]
    companions: dict[str, tuple[str, ...]]
    same: frozenset[str]
    conda: dict[str, str]
    conda_system: frozenset[str]
    libraries: dict[str, tuple[str, ...]]
    system: dict[str, tuple[str, ...]]
    parts: dict[str, str]

    def of_module(self, module: str) -> str | None:
        """The distribution of a module: None if unknown, "" if PyPI has none."""
        if module in self.modules:
            return self.modules[module]
        return canonicalize_name(module) if module.lower() in self.same else None

    def knows(self, project: str) -> bool:
        """Whether the table has this distribution of PyPI; an unlisted name may be another project there."""
        return project in self._projects

    @cached_property
    def _projects(self) -> frozenset[str]:
        return frozenset(canonicalize_name(name) for name in (*self.modules.values(), *self.same) if name)

    def of_part(self, part: str) -> str:
        """The package of Debian with a header, a library, a program or a package of pkg-config; empty if unknown."""
        if part in self.libraries:
            return next(iter(self.libraries[part]), "")
        name = part.removeprefix("lib").removesuffix(".so") if part.endswith(".so") else ""
        package = self.parts.get(part) or self.parts.get(f"{part.partition('/')[0]}/") or self.parts.get(name)
        # Most libraries have a header of the same name.
        return package or self.parts.get(f"{name or part}.h", "")

    def of_conda(self, name: str) -> str | None:
        """The distribution of PyPI, `apt:NAME`, "" for a part of conda's own system; None if unknown.

        An unlisted conda name is not assumed to be PyPI's: anyone can register it there.
        """
        if name in self.conda_system:
            return ""
        project = canonicalize_name(name)
        listed = self.conda.get(name) or self.conda.get(project) or _conda_names().get(project)
        return listed or (project if self.knows(project) else None)


@cache
def _conda_names() -> dict[str, str]:
    """Projects of PyPI by the canonical name of their conda package."""
    text = Path(__file__).with_name("conda_names.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {row[0]: row[-1] for row in rows}


@cache
def bundled_distributions() -> Distributions:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("distributions.yaml").read_text(encoding="utf-8")
    return Distributions.model_validate(yaml.load(text, loader))


def is_standard(module: str) -> bool:
    """Whether a module is of the standard library of some Python 3."""
    return module in sys.stdlib_module_names or module in _GONE or module.startswith("_")
