"""Build secrets: values that the user passes to one build, and the steps that may read them.

A recipe only names secrets. A step that names one finds its value as a file, which is gone before the next step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.image.render import Rendered
from reprokit.recipe.fields import SECRET_NAME
from reprokit.recipe.find import Target
from reprokit.recipe.spelling import nearest
from reprokit.redact import SHORTEST_SECRET, secret_parts
from reprokit.untrusted import files

_MOST = 1 << 20  # bytes of a secret
_HINT = "write --secret id=NAME, --secret id=NAME,env=VARIABLE or --secret id=NAME,src=FILE"


def parse_secrets(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, bytes]:
    """The secrets of `--secret`, by name. Raises UsageError that quotes no text: it may be the value."""
    secrets: dict[str, bytes] = {}
    for number, text in enumerate(texts, 1):
        parts = [part.partition("=") for part in (text if "=" in text else f"id={text}").split(",")]
        fields = {key: value for key, _, value in parts}
        name = fields.get("id", "")
        if len(fields) != len(parts) or fields.keys() - {"id", "env", "src"} or {"env", "src"} <= fields.keys():
            raise UsageError(f"--secret number {number} cannot be read", hint=_HINT)
        if not re.fullmatch(SECRET_NAME, name):
            raise UsageError(f"the name of --secret number {number} is not a variable name", hint=_HINT)
        if name in secrets:
            raise UsageError(f"the secret {name} is given twice", hint="remove one --secret")
        variable = fields.get("env", name)
        value = _file(name, fields["src"]) if "src" in fields else _variable(number, variable, environment)
        if not secret_parts(value.decode(errors="replace")):
            problem = f"the secret {name} has no line of {SHORTEST_SECRET} characters to recognise it by in a log"
            raise UsageError(problem, hint="use a longer one")
        secrets[name] = value
    return secrets


def _variable(number: int, variable: str, environment: Mapping[str, str]) -> bytes:
    if variable not in environment:
        problem = f"--secret number {number} names a variable that is not in the environment"
        raise UsageError(problem, hint="export it, or write --secret id=NAME,src=FILE")
    return environment[variable].encode("utf-8", "surrogateescape")


def _file(name: str, path: str) -> bytes:
    try:
        return files.read(paths.expanded(path), _MOST)
    except OSError as error:
        raise UsageError(f"cannot read the secret {name}: {error.strerror}", path) from None


def check_known(target: Target, rendered: Rendered, given: Collection[str]) -> None:
    """Raises UsageError for a secret that no block names."""
    names = rendered.secrets
    if unknown := [name for name in given if name not in names]:
        hint = f"it reads {', '.join(names)}" if names else "remove --secret"
        problem = f"no block of {target.label} reads the secret {unknown[0]}{nearest(unknown[0], names)}"
        raise UsageError(problem, str(target.path), hint)


def check_complete(target: Target, rendered: Rendered, given: Collection[str]) -> None:
    """Raises UsageError for a secret that a block names and the user did not give."""
    if missing := [name for name in rendered.secrets if name not in given]:
        options = " ".join(f"--secret id={name}" for name in missing)
        raise UsageError(
            f"{target.label} needs the secret {', '.join(missing)} to be built",
            str(target.path),
            f"if you trust the recipe: `reprokit build {target.label} {options}` takes it from the environment, "
            "`--secret id=NAME,src=FILE` from a file",
        )
