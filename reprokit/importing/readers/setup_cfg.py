"""`setup.cfg` of setuptools."""

from __future__ import annotations

from collections.abc import Iterator
from configparser import Error, RawConfigParser

from reprokit.importing.model import Scope, SourceFile, Statements
from reprokit.importing.pytest_settings import plugin_statements
from reprokit.importing.readers.pyproject import classifier
from reprokit.importing.scopes import scope_of_group

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    return path.rpartition("/")[2] == "setup.cfg"


def read(file: SourceFile) -> Statements:
    config = parsed(file)
    for key, subject in (("name", "project"), ("version", "version"), ("license", "licence"), ("url", "address")):
        value = config.get("metadata", key, fallback="").strip()
        if value and not value.startswith(("attr:", "file:")):
            yield file.states(subject, value, file.line_of("[metadata]", f"\n{key}") + 1)  # type: ignore[arg-type]
    for text in lines(config.get("metadata", "classifiers", fallback="")):
        yield from classifier(file, text, file.line_of(text))
    if python := config.get("options", "python_requires", fallback="").strip():
        yield file.states("python", python, file.line_of("python_requires"))
    scopes: dict[str, Scope | None] = {"install_requires": None, "setup_requires": "build", "tests_require": "test"}
    for key, scope in scopes.items():
        yield from _requirements(file, key, config.get("options", key, fallback=""), scope, "")
    yield from ini_plugins(file, config, "tool:pytest")
    section = "options.extras_require"
    for group, value in config.items(section) if config.has_section(section) else ():
        yield from _requirements(file, group, value, scope_of_group(group), group)


def _requirements(file: SourceFile, key: str, value: str, scope: Scope | None, extra: str) -> Statements:
    if value.strip().startswith("file:"):
        for name in value.strip().removeprefix("file:").split(","):
            yield file.states("include", f"-r {name.strip()}", file.line_of(key), scope, extra)
        return
    # `%(other)s` is another option of the section, which is read by itself.
    for text in (text for text in lines(value) if not text.startswith("%(")):
        yield file.states("package", text, file.line_of(key, text), scope, extra)


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
