"""Whether a machine can build or run a recipe, or run an image, by the rules of `compat`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import Facts, bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, KnownGpu, KnownHost, Stack
from reprokit.compat.rules import host as of_host
from reprokit.compat.stack import check_driver, check_pin, stack_of
from reprokit.display import notify
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.host.gpu import Gpu
from reprokit.recipe.find import Target
from reprokit.recipe.model import Variant


@dataclass(frozen=True)
class ImageNeeds:
    """What an image was built for; empty if its labels do not say."""

    pins: Mapping[str, str] = field(default_factory=dict)
    min_driver: str = ""
    compute_capabilities: tuple[str, ...] = ()


def image_findings(needs: ImageNeeds, gpus: Sequence[Gpu]) -> list[Finding]:
    """Findings against an image on these GPUs and their driver; none if the GPUs are unknown."""
    facts = bundled()
    driver = _driver(gpus)
    models = {gpu: model for gpu in gpus if (model := _model(facts, gpu))}
    if not driver and not models:
        return []
    stack = Stack(
        pins={name: value for name, value in needs.pins.items() if _valid(check_pin, name, value, "")},
        purpose="run",
        gpus=tuple(dict.fromkeys(models.values())),
        driver=driver,
        requires_driver=needs.min_driver if _valid(check_driver, needs.min_driver) else None,
    )
    findings = _about_machine(evaluate(facts, stack), stack.gpus, driver)
    if any(finding.severity == "error" and _is_about(finding, "cuda=") for finding in findings):
        # The minimum driver follows from the CUDA pin, whose finding says more.
        findings = [finding for finding in findings if not _is_about(finding, "requires.driver=")]
    for gpu, model in models.items():
        listed = needs.compute_capabilities
        mentioned = any(model.label in finding.subjects for finding in findings)
        if listed and gpu.capability and gpu.capability not in listed and not mentioned:
            reason = f"the image was built for compute capability {', '.join(listed)}, this GPU has {gpu.capability}"
            remedy = "build the image for this GPU: add its capability to requires.compute_capability"
            findings.append(Finding("warning", "host.capability", (model.label,), reason, remedy=remedy))
    return findings


def recipe_findings(
    variant: Variant, has_gpu: bool, gpus: Sequence[Gpu], memory: int | None, disk_free: int | None
) -> list[Finding]:
    """Findings against a recipe on a machine. Sizes are bytes, None if unknown."""
    findings = []
    if variant.requires.gpu == "required" and not has_gpu:
        remedy = "use a machine with an NVIDIA GPU, or a variant that needs none (`reprokit show NAME`)"
        findings = [Finding("error", "host.gpu", ("requires.gpu=required",), "this machine has no GPU", remedy=remedy)]
    facts = bundled()
    models = tuple(dict.fromkeys(model for gpu in gpus if (model := _model(facts, gpu))))
    driver = _driver(gpus)
    no_gpu = bool(findings) or variant.requires.gpu != "required"
    stack = stack_of(variant, models, driver, KnownHost(memory, disk_free), no_gpu)
    return [*findings, *_about_machine(evaluate(facts, stack), models, driver)]


def require_image(name: str, needs: ImageNeeds, gpus: Sequence[Gpu], force: bool) -> None:
    """Report findings against an image on this machine. Raises WorkFailed for an error, unless `force` is set."""
    findings = image_findings(needs, gpus)
    for finding in findings:
        if finding.severity != "error" or force:
            notify(f"{name}: {finding.severity}: {in_words(finding)}")
    errors = [in_words(finding) for finding in findings if finding.severity == "error"]
    if errors and not force:
        raise WorkFailed(
            f"this host cannot run {name}: {errors[0]}",
            hint="--force goes past it, for a host that only passes the image on",
        )


def in_words(finding: Finding) -> str:
    """`cuda=12.1 with driver=450.80.02: REASON (nearest: cuda=11.0)`."""
    nearest = f" (nearest: {', or '.join(finding.nearest)})" if finding.nearest else ""
    return f"{' with '.join(finding.subjects)}: {finding.reason}{nearest}"


def _about_machine(findings: Sequence[Finding], gpus: Sequence[KnownGpu], driver: str | None) -> list[Finding]:
    """The findings that name the machine, not only pins."""
    labels = {gpu.label for gpu in gpus} | {f"driver={driver}"}
    return [f for f in findings if labels & set(f.subjects) or _is_about(f, "host.")]


def _is_about(finding: Finding, prefix: str) -> bool:
    return any(subject.startswith(prefix) for subject in finding.subjects)


def _driver(gpus: Sequence[Gpu]) -> str | None:
    return next((gpu.driver for gpu in gpus if _valid(check_driver, gpu.driver)), None)


def _model(facts: Facts, gpu: Gpu) -> KnownGpu | None:
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


def host_errors_of(target: Target, host: KnownHost, force: bool, anyway: str) -> list[str]:
    """What a machine lacks for a recipe, one line for each finding.

    Raises EngineError for a finding unless `force` is set; `anyway` is the hint how to continue.
    """
    findings = evaluate(bundled(), stack_of(target.variant, host=host), (of_host.memory, of_host.disk))
    errors = [in_words(finding) for finding in findings if finding.severity == "error"]
    if errors and not force:
        remedies = [finding.remedy for finding in findings if finding.severity == "error"]
        raise EngineError(
            "\n  ".join([f"this machine is too small for {target.label}:", *errors]),
            hint="; ".join([*remedies, anyway]),
        )
    for error in errors:
        notify(f"ignored because of --force: {error}")
    return errors
