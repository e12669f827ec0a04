"""`setup.cfg`, `tox.ini` and `pytest.ini`, and the plugins that pytest's settings need."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from configparser import Error, RawConfigParser
from dataclasses import replace
from typing import Any

from reprokit.importing.model import Scope, SourceFile, Statements, scope_of_group
from reprokit.importing.requirement_lines import requirement_statements
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
    """The plugins that `required_plugins` and `addopts` need, each a text or a list of texts."""
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
    except ValueError:  # an unclosed quote
        return value.split()


def read_setup_cfg(file: SourceFile) -> Statements:
    config = parsed(file)
    for key, subject in (("name", "project"), ("version", "version"), ("license", "licence")):
        value = config.get("metadata", key, fallback="").strip()
        if value and not value.startswith(("attr:", "file:")):
            yield file.states(subject, value, file.line_of("[metadata]", f"\n{key}") + 1)  # type: ignore[arg-type]
    for text in lines(config.get("metadata", "classifiers", fallback="")):
        yield from classifier(file, text, file.line_of(text))
    if python := config.get("options", "python_requires", fallback="").strip():
        yield file.states("python", python, file.line_of("python_requires"))
    scopes: dict[str, Scope | None] = {"install_requires": None, "setup_requires": "build", "tests_require": "test"}
    for key, scope in scopes.items():
        yield from _requirements(file, key, config.get("options", key, fallback=""), scope)
    yield from ini_plugins(file, config, "tool:pytest")
    section = "options.extras_require"
    for group, value in config.items(section) if config.has_section(section) else ():
        yield from _requirements(file, group, value, scope_of_group(group))


def _requirements(file: SourceFile, key: str, value: str, scope: Scope | None) -> Statements:
    if value.strip().startswith("file:"):
        for name in value.strip().removeprefix("file:").split(","):
            yield file.states("include", f"-r {name.strip()}", file.line_of(key), scope)
        return
    # `%(other)s` is another option of the section, which is read by itself.
    for text in (text for text in lines(value) if not text.startswith("%(")):
        yield file.states("package", text, file.line_of(key, text), scope)


def ini_plugins(file: SourceFile, config: RawConfigParser, section: str) -> Statements:
    """The pytest plugins that a section of an INI file needs."""
    keys = ("required_plugins", "addopts")
    yield from plugin_statements(file, *(config.get(section, key, fallback="") or "" for key in keys))


def parsed(file: SourceFile) -> RawConfigParser:
    """The file as configparser reads it, without interpolation. Raises ValueError."""
    config = RawConfigParser(strict=False, allow_no_value=True)
    try:
        config.read_string(file.text)
    except Error as error:
        raise ValueError(str(error).replace("\n", " ")) from None
    return config


def lines(value: str | None) -> Iterator[str]:
    """The entries of a list in lines, without comments."""
    for line in (value or "").splitlines():
        text = line.partition(" #")[0].strip()
        if text and not text.startswith("#"):
            yield text


def read_tox(file: SourceFile) -> Statements:
    config = parsed(file)
    yield from ini_plugins(file, config, "pytest")
    names = config.get("tox", "envlist", fallback="")
    for mark in "{}-,":
        names = names.replace(mark, " ")
    for word in names.split():
        version = word.removeprefix("py")  # `py{38,39}` gives numbers of their own
        if version.isdigit() and version.startswith("3") and len(version) in (2, 3):
            yield file.states("tested", f"3.{version[1:]}", file.line_of("envlist"))
    for text in lines(config.get("testenv", "deps", fallback="")):
        if "{" not in text and ":" not in text.partition(";")[0]:
            part = file.part(text, file.line_of("deps", text))
            yield from requirement_statements(part, one_line=True, scope="test")


def classifier(file: SourceFile, text: str, line: int) -> Statements:
    """A trove classifier of a Python version."""
    version = text.rpartition(" :: ")[2]
    if text.startswith("Programming Language :: Python :: 3.") and version.count(".") == 1:
        yield file.states("tested", version, line)
