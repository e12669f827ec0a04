"""What `check` says before a build: its errors stop it, unless the user goes on."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.errors import WorkFailed
from reprokit.recipe.find import Target


def errors_of(target: Target, force: bool, say: Callable[[str], None]) -> list[str]:
    """The error findings that are gone past, one line each. Raises WorkFailed where there are some and no `force`."""
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.stack import stack_of

    findings = evaluate(bundled(), stack_of(target.variant, (), None, None))
    errors = [f"{' with '.join(f.subjects)}: {f.reason}" for f in findings if f.severity == "error"]
    if errors and not force:
        raise WorkFailed(
            "\n  ".join([f"check finds what cannot work in {target.label}:", *errors]),
            hint=f"`reprokit check {target.label}` names the nearest pins that work; --force builds all the same",
        )
    for error in errors:
        say(f"going on past: {error}")
    return errors
