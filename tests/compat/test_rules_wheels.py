"""The findings on wheels with Python, the C library and each other."""

from __future__ import annotations

import pytest

from tests.support.stacks import Check

# (pins, gpu, purpose, driver): {rule: severity}, infos left out. Nothing else may be found.
CASES = [
    # wheels with Python, glibc, each other
    ("torch=1.8.0,python=3.8", "", "import", None, {}),
    ("torch=1.8.0,python=3.10", "", "import", None, {"torch-python": "error"}),
    ("torch=1.8,python=3.9.2", "", "import", None, {}),
    ("torch=1.8.2+cu111", "", "import", None, {"torch-index": "warning"}),
    ("torch=1.8.1+cu111", "", "import", None, {}),
    ("torch=1.13.0,python=3.11", "", "import", None, {}),
    ("torch=2.15.0,python=3.10", "", "import", None, {"torch-python": "error"}),
    ("torch=1.8.0,python=3", "", "import", None, {"torch-python": "warning"}),
    ("torch=2.7.0,distro=ubuntu:18.04", "", "import", None, {"wheel-glibc": "error"}),
    ("torch=2.6.0,distro=ubuntu:18.04", "", "import", None, {}),
    ("torch=2.7.0,distro=ubuntu:20.04", "", "import", None, {}),
    ("vllm=0.5.2,distro=ubuntu:20.04", "", "import", None, {"wheel-glibc": "error"}),
    ("vllm=0.5.3,distro=ubuntu:20.04", "", "import", None, {}),
    ("jaxlib=0.7.1,distro=ubuntu:16.04", "", "import", None, {"wheel-glibc": "error"}),
    ("jaxlib=0.7.0,distro=ubuntu:16.04", "", "import", None, {}),
    ("dgl=2.1.0,distro=ubuntu:16.04", "", "import", None, {"wheel-glibc": "error"}),
    ("torchvision=0.9.0,torch=1.8.0", "", "import", None, {}),
    ("torchvision=0.9.1,torch=1.8.0", "", "import", None, {"torchvision-torch": "error"}),
    ("torchvision=0.10.0,torch=1.8.0", "", "import", None, {"torchvision-torch": "error"}),
    ("torchvision=0.15.2+cu117,torch=2.0.0+cu118", "", "import", None, {"torchvision-torch": "error"}),
    ("torchvision=0.15.2+cu118,torch=2.0.0+cu118", "", "import", None, {"torchvision-torch": "error"}),
    ("torchvision=0.15.2,torch=2.0", "", "import", None, {"torchvision-torch": "warning"}),
    ("torchvision=0.9.0+cu111,torch=1.8.0+cu102", "", "import", None, {"torchvision-torch": "error"}),
    ("torchvision=0.24.0,torch=2.9.0+cpu", "", "import", None, {"torchvision-torch": "error"}),  # PyPI's is for CUDA
    ("torchvision=0.24.0+cpu,torch=2.9.0+cpu", "", "import", None, {}),
    ("torchvision=0.9.0,python=3.11", "", "import", None, {"torchvision-python": "error"}),
    ("transformers=4.47.1,python=3.8", "", "import", None, {"transformers-python": "error"}),
    ("transformers=4.46.3,python=3.8", "", "import", None, {}),
    ("transformers=5.0.0,python=3.9", "", "import", None, {"transformers-python": "error"}),
    ("numpy=1.19.5,python=3.9", "", "import", None, {}),
    ("numpy=1.19.2,python=3.9", "", "import", None, {"numpy-python": "warning"}),
    ("numpy=1.23.5,python=3.12", "", "import", None, {"numpy-python": "error"}),
    ("numpy=2,python=3.9", "", "import", None, {"numpy-python": "warning"}),
    ("numpy=2.0.1,torch=2.2.0", "", "import", None, {"numpy-projects": "error"}),
    ("numpy=2.0.1,torch=2.3.0", "", "import", None, {}),
    ("numpy=1.26,torch=2.2.0", "", "import", None, {}),
    ("numpy=1.24,tvm=0.7,llvm=11", "", "compile", None, {"numpy-projects": "error"}),
    ("numpy=1.23,tvm=0.7,llvm=11", "", "compile", None, {}),
    ("numpy=1.24,tvm=0.8,llvm=11", "", "compile", None, {}),
    ("transformers=4.6.1,tokenizers=0.8.1rc1", "", "import", None, {"transformers-tokenizers": "error"}),
    ("transformers=4.34.1,tokenizers=0.14.1", "", "import", None, {}),
    ("transformers=4.30.2,tokenizers=0.11.3", "", "import", None, {"transformers-tokenizers": "error"}),
    ("transformers=4.44,tokenizers=0.20.0", "", "import", None, {"transformers-tokenizers": "error"}),
    ("transformers=4.31.0,python=3.7", "", "import", None, {"transformers-python": "error"}),
    ("transformers=4.30.2,python=3.7", "", "import", None, {}),
    ("transformers=4.30.2,python=3.12", "", "import", None, {"transformers-python": "error"}),
    ("transformers=4.16.2,python=3.12", "", "import", None, {}),  # takes tokenizers that is newer than itself
    ("tokenizers=0.13.1,python=3.11", "", "import", None, {"tokenizers-python": "error"}),
    ("tokenizers=0.13.2,python=3.11", "", "import", None, {}),
    ("tokenizers=0.22.0,python=3.14", "", "import", None, {}),  # abi3
    ("tokenizers=0.22.0,python=3.8", "", "import", None, {"tokenizers-python": "error"}),
    # The CUDA and cuDNN in the version of jaxlib
    ("jaxlib=0.1.65+cuda112,cudnn=8.0.5", "", "run", None, {"jaxlib-cudnn": "error"}),
    ("jaxlib=0.1.65+cuda112,cuda=11.2,cudnn=8.1.0", "", "run", None, {}),
    ("jaxlib=0.4.7+cuda12.cudnn88,cuda=11.8", "", "run", None, {"jaxlib-cuda": "error"}),
    ("jaxlib=0.4.7+cuda11.cudnn86,cuda=11.8,cudnn=8.6.0", "", "run", None, {}),
    ("jaxlib=0.1.74+cuda11.cudnn82,cuda=11.3", "", "run", "465.19.01", {"jaxlib-driver": "error"}),
    ("jaxlib=0.1.74+cuda11.cudnn82,cuda=11.3", "", "run", "470.82.01", {}),
    ("jax=0.3.25,cuda=11.3", "RTX 4090", "run", None, {"jax-ptxas": "error"}),
    ("jax=0.3.25,cuda=11.8", "RTX 4090", "run", None, {}),
    ("jaxlib=0.4.7,cudnn=8.0.5", "", "run", None, {}),
    # What a package requires of others
    ("jax=0.4.23,jaxlib=0.4.25", "", "import", None, {"jax-jaxlib": "error"}),  # jaxlib is newer
    ("jax=0.4.23,jaxlib=0.4.18", "", "import", None, {"jax-jaxlib": "error"}),
    ("jax=0.4.23,jaxlib=0.4.20+cuda12.cudnn89", "", "import", None, {}),
    ("jax=0.4.25,numpy=2.0.1", "", "import", None, {"jax-numpy": "error"}),
    ("jax=0.4.26,numpy=2.0.1", "", "import", None, {}),
    ("jax=0.4.13,python=3.12", "", "import", None, {"jax-python": "error"}),  # no jaxlib that it takes has one
    ("jax=0.4.20,python=3.12", "", "import", None, {}),
    ("jax=0.4.31,python=3.9", "", "import", None, {"jax-python": "error"}),
    ("torch=2.1.0,triton=3.0.0", "", "import", None, {"torch-triton": "error"}),
    ("torch=2.1.2,triton=2.1.0", "", "import", None, {}),
    ("torch=2.1.0+cpu,triton=3.0.0", "", "import", None, {}),
    ("torch=2.0.1,triton=2.1.0", "", "run", None, {"torch-triton": "warning"}),
    ("torch=2.0.1,triton=2.2.0", "", "run", None, {"torch-triton": "error"}),
    ("torch=0.4.1,cudnn=7.6.5", "", "run", None, {"torch-cudnn": "error"}),  # a newer minor, too
    ("torch=0.4.1,cudnn=7.1", "", "run", None, {}),
    ("torch=1.0.0+cu90,cudnn=7.6.5", "", "run", None, {}),
    ("triton=3.1.0", "P100", "run", None, {"triton-gpu": "error"}),
    ("triton=3.1.0", "V100", "run", None, {}),
    ("triton=3.1.0", "P100", "import", None, {}),
    ("torch=1.4.0+cu100,torchvision=0.5.0+cu100", "", "import", None, {}),  # no page lists that build
    ("torch=1.5.0+cu100", "", "import", None, {"torch-build": "unknown"}),
    ("tensorflow=2.4.1,python=3.9", "", "import", None, {"tensorflow-python": "error"}),
    ("tensorflow=2.15.0,numpy=2.0.1", "", "import", None, {"tensorflow-numpy": "error"}),
    ("tensorflow=2.18.0,numpy=2.0.1", "", "import", None, {}),
    ("tensorflow=2.5.0,numpy=1.23.4", "", "import", None, {}),
    ("tensorflow=2.4.1,numpy=1.20.3", "", "import", None, {"tensorflow-numpy": "error"}),
    ("tensorflow=2.6.0,numpy=1.24", "", "import", None, {"tensorflow-numpy": "error"}),
    ("tensorflow=2.4.1,numpy=1.19", "", "import", None, {}),  # some patch of it
    ("tensorflow=2.4,python=3.8", "", "import", None, {}),
    # Extensions that look for torch's CUDA
    ("apex=0.1,torch=2.1.0+cu121,cuda=12.3", "", "compile", None, {"apex-same-cuda": "error", "torch-cuda": "warning"}),
    ("apex=0.1,torch=2.1.0+cu121,cuda=12.1", "", "compile", None, {}),
    ("apex=0.1,torch=2.1.0+cu121,cuda=12.3", "", "import", None, {}),
    ("bitsandbytes=0.42.0,torch=2.4.0+cu124", "", "run", None, {"bitsandbytes-torch": "error"}),
    ("bitsandbytes=0.39.1,cuda=12.2", "A100", "run", None, {"bitsandbytes-cuda": "error"}),
    ("bitsandbytes=0.39.1,cuda=12.2,torch=2.0.1+cu118", "A100", "run", None, {}),  # torch's counts
    ("bitsandbytes=0.44.1,cuda=12.8", "", "run", None, {}),
    ("flash_attn=2.4.2,torch=2.1.0+cu121", "", "import", None, {"flash-attn-wheel": "error"}),
    ("flash_attn=2.4.2,torch=2.1.1+cu121", "", "import", None, {}),
    ("flash_attn=2.5.0,torch=2.2.0", "", "import", None, {"flash-attn-wheel": "error"}),
    ("flash_attn=2.7.4.post1,torch=2.6.0+cu124", "", "import", None, {}),
    ("bitsandbytes=0.43.1,torch=2.4.0+cu124", "", "run", None, {}),
    ("bitsandbytes=0.44.1,torch=2.6.0+cu124", "", "run", None, {"bitsandbytes-torch": "error"}),  # triton.ops
    ("bitsandbytes=0.45.5,torch=2.6.0+cu124", "", "run", None, {}),
    ("bitsandbytes=0.50.2,torch=2.8.0+cu129", "", "run", None, {}),  # another library of CUDA 12
    # Wheels that are made for one torch
    ("torchaudio=2.0.2,torch=2.0.1+cu118", "", "import", None, {}),
    ("torchaudio=2.0.1,torch=2.0.1", "", "import", None, {"torchaudio-torch": "error"}),
    ("torchaudio=2.11.0,torch=2.12.0", "", "import", None, {}),
    ("torchaudio=0.12.1+cu113,torch=1.12.1+cu113", "", "import", None, {}),
    ("torchaudio=0.12.1+cu113,torch=1.12.1+cu116", "", "import", None, {"torchaudio-torch": "error"}),
    ("xformers=0.0.23+cu118,torch=2.1.1+cu118", "", "import", None, {}),
    ("xformers=0.0.23,torch=2.1.0", "", "import", None, {"xformers-torch": "warning"}),
    ("xformers=0.0.23,torch=2.2.1", "", "import", None, {"xformers-torch": "error"}),
    ("xformers=0.0.22.post4+cu118,torch=2.1.0+cu121", "", "import", None, {"xformers-torch": "error"}),
    ("xformers=0.0.23.post1,torch=2.1.2+cu118", "", "run", None, {"xformers-torch": "error"}),  # PyPI's is for CUDA 12
    ("xformers=0.0.23.post1,torch=2.1.2+cu121", "", "run", None, {}),
    ("xformers=0.0.27.post2,torch=2.4.0+cu124", "", "run", None, {}),  # the same major
    ("xformers=0.0.26,torch=2.2.2+cpu", "", "import", None, {"xformers-torch": "error"}),
    ("torchtext=0.18.0,torch=2.6.0", "", "import", None, {"torchtext-torch": "error"}),
    ("torchtext=0.18.0,torch=2.3.1", "", "import", None, {}),
    ("torchtext=0.8.0,python=3.9", "", "import", None, {"torchtext-python": "error"}),
    ("vllm=0.3.2,torch=2.2.1", "", "import", None, {"vllm-torch": "error"}),
    ("vllm=0.3.2,torch=2.1.2+cu121,python=3.10", "A100", "run", None, {}),
    ("vllm=0.3.2,torch=2.1.2+cu118", "", "run", None, {"vllm-torch": "error"}),
    ("vllm=0.3.2+cu118,torch=2.1.2+cu118", "", "run", None, {}),
    ("vllm=0.8.5,xformers=0.0.30", "", "import", None, {"vllm-xformers": "error"}),
    ("vllm=0.8.5,transformers=4.50.3", "", "import", None, {"vllm-transformers": "error"}),
    ("vllm=0.8.5,python=3.13", "", "import", None, {"vllm-python": "error"}),
    ("vllm=0.6.0", "P100", "run", None, {"vllm-gpu": "error"}),
    ("vllm=0.6.0", "V100", "run", None, {}),
    ("torchaudio=0.13.1,python=3.11", "", "import", None, {"torchaudio-python": "error"}),
    ("xformers=0.0.22,torch=2.0.1", "", "import", None, {}),
    ("xformers=0.0.22,torch=2.1.0", "", "import", None, {"xformers-torch": "error"}),
    ("xformers=0.0.22.post7,torch=2.1.0", "", "import", None, {}),
    ("xformers=0.0.26.post1,torch=2.3.1", "", "import", None, {"xformers-torch": "error"}),
    ("xformers=0.0.22.post4,torch=2.1.0", "", "import", None, {}),
    ("xformers=0.0.26,torch=2.2.2", "", "import", None, {}),
    ("xformers=0.0.26,torch=2.3.0", "", "import", None, {"xformers-torch": "error"}),
    ("xformers=0.0.22.post9,torch=2.1.0", "", "import", None, {"no-fact": "unknown"}),
    ("tokenizers=0.13.9,python=3.11", "", "import", None, {"no-fact": "unknown"}),
    ("transformers=4.27.4,python=3.12", "", "import", None, {"transformers-python": "error"}),
    ("transformers=4.50.3,torch=2.0.1", "", "import", None, {"transformers-torch": "error"}),
    ("transformers=4.35.2,torch=1.7.1", "", "import", None, {"transformers-torch": "error"}),
    ("transformers=4.39.1,torch=1.11.0", "", "import", None, {"transformers-torch": "error"}),
    ("transformers=4.39.1,torch=1.12.1", "", "import", None, {}),
    ("transformers=4.49.0,torch=2.0.1", "", "import", None, {}),
    ("transformers=4.56.2,torch=2.0.1", "", "import", None, {"transformers-torch": "error"}),
    ("transformers=4.56.2,torch=2.1.2", "", "import", None, {}),
    ("transformers=5.1.0,torch=2.3.1", "", "import", None, {"transformers-torch": "error"}),
    ("transformers=5.1.0,torch=2.4.1", "", "import", None, {}),
    ("transformers=4.34.1,python=3.12", "", "import", None, {}),
    ("transformers=4.57.1,python=3.14", "", "import", None, {}),
]  # fmt: skip


@pytest.mark.parametrize(("pins", "gpu", "purpose", "driver", "expected"), CASES, ids=lambda v: str(v)[:60])
def test_wheels(check: Check, pins: str, gpu: str, purpose: str, driver: str | None, expected: dict[str, str]) -> None:
    found = {f.rule: f.severity for f in reversed(check(pins, gpu, purpose, driver)) if f.severity != "info"}
    assert found == expected
