"""The errors of `check`, which stop a build without `--force`."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.errors import WorkFailed
from reprokit.recipe.find import Target


def errors_of(target: Target, force: bool, say: Callable[[str], None]) -> list[str]:
    """The errors that `force` ignores, one line each. Raises WorkFailed if there are errors and no `force`."""
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.stack import stack_of

    findings = evaluate(bundled(), stack_of(target.variant, (), None, None))
    errors = [f"{' with '.join(f.subjects)}: {f.reason}" for f in findings if f.severity == "error"]
    if errors and not force:
        raise WorkFailed(
            "\n  ".join([f"{target.label} cannot work:", *errors]),
            hint=f"find pins that work with `reprokit check {target.label}`, or build anyway with --force",
        )
    for error in errors:
        say(f"ignored because of --force: {error}")
    return errors
