"""The plugins that pytest's settings name, or whose options they use: without them it collects nothing."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import texts

# Beginnings of options, by the distribution that adds them.
_OPTIONS = {
    "pytest-asyncio": ("--asyncio-mode",),
    "pytest-benchmark": ("--benchmark",),
    "pytest-black": ("--black",),
    "pytest-codestyle": ("--codestyle",),
    "pytest-cov": ("--cov", "--no-cov"),
    "pytest-doctestplus": ("--doctest-plus", "--doctest-rst"),
    "pytest-flake8": ("--flake8",),
    "pytest-forked": ("--forked",),
    "pytest-html": ("--html",),
    "pytest-isort": ("--isort",),
    "pytest-mpi": ("--with-mpi", "--only-mpi"),
    "pytest-mpl": ("--mpl",),
    "pytest-mypy": ("--mypy",),
    "pytest-pylint": ("--pylint",),
    "pytest-random-order": ("--random-order",),
    "pytest-rerunfailures": ("--reruns",),
    "pytest-socket": ("--allow-hosts", "--disable-socket"),
    "pytest-timeout": ("--timeout",),
    "pytest-xdist": ("-n", "--dist", "--numprocesses"),
}


def plugin_statements(file: SourceFile, required: Any, options: Any) -> Statements:
    """What `required_plugins` and `addopts` need, each a text or a list of texts."""
    named = [(text, text) for text in _words(required)]
    named += [(plugin, word) for word in _words(options) if (plugin := _plugin_of(word))]
    for plugin, word in dict(named).items():
        yield replace(file.states("package", plugin, file.line_of("pytest", word), "test"), format="pytest")


def _plugin_of(word: str) -> str:
    return next((plugin for plugin, options in _OPTIONS.items() if word.startswith(options)), "")


def _words(value: Any) -> list[str]:
    if not isinstance(value, str):
        return list(texts(value))
    try:
        return shlex.split(value, comments=True)
    except ValueError:  # a quote without its other
        return value.split()
