"""The torch that a package of wheels requires, with the GPU, where the stack does not pin torch itself."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE, KnownGpu
from reprokit.compat.rule import CompatRule, Verdict, combination_rule, error
from reprokit.compat.rules.torch import judge_gpu
from reprokit.compat.torch_wheel import build_of_cuda, torch_wheel
from reprokit.compat.view import View


def _gpu(name: str) -> CompatRule:
    @combination_rule(f"{name}-torch-gpu", of=f"{name} gpu", changes=name, purposes=CODE)
    def check(view: View, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
        spec = view.facts.wheels[name].releases[version].torch
        if view.pin("torch") is not None or not spec.startswith("=="):
            return
        reasons, sources = [], view.facts.wheels[name].source
        for torch, release in view.facts.torch.releases.items():
            for cuda in release.builds if SpecifierSet(spec).contains(torch) else ():
                wheel = torch_wheel(view.facts, torch, build_of_cuda(cuda))
                verdict = next(judge_gpu(view, wheel, gpu), None)
                if verdict is None or verdict.severity != "error":
                    return
                reasons.append(verdict.reason)
        if reasons:
            yield error(f"{name} {version} requires torch {spec.removeprefix('==')}: {reasons[-1]}", sources)

    return check


vllm_torch_gpu, xformers_torch_gpu, torchaudio_torch_gpu = map(_gpu, ("vllm", "xformers", "torchaudio"))
