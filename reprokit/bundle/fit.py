"""Whether this host's driver and GPUs can run an image: said before any container starts, as `reprokit check` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reprokit.bundle.model import Described
from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import Facts, bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, Stack
from reprokit.compat.model import Gpu as KnownGpu
from reprokit.compat.pins import check_driver, check_pin
from reprokit.container.gpu_host import Gpu
from reprokit.errors import UsageError, WorkFailed
from reprokit.untrusted.documents import parsed


def findings(described: Described, gpus: Sequence[Gpu]) -> list[Finding]:
    """What speaks against running the image with this driver on these GPUs; nothing where nothing is known of them."""
    facts = bundled()
    driver = next((gpu.driver for gpu in gpus if _valid(check_driver, gpu.driver)), None)
    known = tuple(dict.fromkeys(found for gpu in gpus if (found := _known(facts, gpu))))
    if not driver and not known:
        return []
    pins = {name: value for name, value in described.pins.items() if _valid(check_pin, name, value, "")}
    stack = Stack(
        pins=pins,
        purpose="run",
        gpus=known,
        driver=driver,
        # What the pin of CUDA says of the driver is more than the number that follows from it.
        requires_driver=described.min_driver if "cuda" not in pins else None,
    )
    host = {gpu.label for gpu in known} | {f"driver={driver}"}
    return [f for f in evaluate(facts, stack) if host & set(f.subjects)]


def require(described: Described, gpus: Sequence[Gpu], force: bool, say: Callable[[str], None]) -> None:
    """Say what is found. Raises WorkFailed where an error is among it, unless `force` goes past."""
    found = findings(described, gpus)
    for finding in found:
        if finding.severity != "error" or force:
            say(f"{described.name}: {finding.severity}: {_words(finding)}")
    errors = [_words(finding) for finding in found if finding.severity == "error"]
    if errors and not force:
        raise WorkFailed(
            f"this host cannot run {described.name}: {errors[0]}",
            hint="--force goes past it, for a host that only passes the image on",
        )


def described_by(name: str, image_id: str, size: int, labels: Mapping[str, str]) -> Described:
    """An image from its labels, as `reprokit.json` would have it."""
    try:
        pins = parsed(labels.get("reprokit.pins", "{}"))
    except ValueError:
        pins = {}
    return Described(
        name=name,
        id=image_id,
        size=size,
        packed=0,
        recipe=labels.get("reprokit.recipe", ""),
        variant=labels.get("reprokit.variant", ""),
        inputs=labels.get("reprokit.inputs", ""),
        pins=pins if isinstance(pins, dict) else {},
        min_driver=labels.get("reprokit.min-driver", ""),
        compute_capabilities=tuple(c for c in labels.get("reprokit.compute-capabilities", "").split(",") if c),
    )


def _words(finding: Finding) -> str:
    nearest = f" (nearest: {', or '.join(finding.nearest)})" if finding.nearest else ""
    return f"{' with '.join(finding.subjects)}: {finding.reason}{nearest}"


def _known(facts: Facts, gpu: Gpu) -> KnownGpu | None:
    for text in (gpu.capability, gpu.name):
        try:
            return parse_gpu(facts, text)
        except UsageError:
            continue
    return None


def _valid(check: Callable[..., object], *values: str) -> bool:
    try:
        check(*values)
    except UsageError:
        return False
    return True
