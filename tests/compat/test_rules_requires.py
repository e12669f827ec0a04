"""The findings on packages of PyPI in general: what they require of each other and of Python, and known clashes."""

from __future__ import annotations

import pytest

from reprokit.compat.requires_schema import meets
from tests.support.stacks import Check

# (pins, gpu, purpose): {rule: severity}, infos left out. Nothing else may be found.
CASES = [
    # what a release requires
    ("accelerate=1.3.0,torch=1.13.1", "", "import", {"accelerate-requires": "error"}),
    ("accelerate=1.3.0,torch=2.0.1", "", "import", {}),
    ("accelerate=1.3,torch=1.13.1", "", "import", {"accelerate-requires": "error"}),
    ("datasets=2.14.5,huggingface_hub=1.0.0", "", "import", {"datasets-requires": "error"}),
    ("datasets=2.15.0,huggingface_hub=1.0.0", "", "import", {}),
    ("tensorflow=2.15.0,keras=3.0.3", "", "import", {"tensorflow-requires": "error"}),
    ("tensorflow=2.15.0,keras=2.15.0", "", "import", {}),
    ("vllm=0.2.7,pydantic=2.0", "", "import", {"vllm-requires": "error"}),
    ("vllm=0.3.0,pydantic=2.0", "", "import", {}),
    # what it requires on each Python that has both, where none is pinned
    ("opencv_python=4.12.0.88,numpy=1.26.0", "", "import", {"opencv-python-requires": "error"}),
    ("opencv_python=4.12.0.88,numpy=1.24", "", "import", {}),  # Python 3.8 has both
    ("opencv_python=4.12.0.88,numpy=2.1.0", "", "import", {}),
    # Python, by the metadata and by the wheels
    ("accelerate=1.1.0,python=3.8", "", "import", {"accelerate-python": "error"}),
    ("accelerate=1.1.0,python=3.9", "", "import", {}),
    ("pandas=1.5.3,python=3.12", "", "import", {"pandas-python": "error"}),
    ("pandas=1.5.3,python=3.11", "", "import", {}),
    # what a third package makes impossible
    ("transformers=4.34.1,huggingface_hub=0.20.3", "", "import", {"requires-through": "error"}),
    ("transformers=4.37.2,huggingface_hub=0.20.3", "", "import", {}),
    ("datasets=1.14.0,accelerate=0.33.0", "", "import", {"requires-together": "error"}),
    ("datasets=2.19.0,accelerate=0.33.0", "", "import", {}),
    # what no metadata says
    ("pandas=2.1.4,numpy=2.0", "", "import", {"known-clash": "error"}),
    ("pandas=2.2.2,numpy=2.0", "", "import", {}),
    ("pandas=2.1.4,numpy=1.26", "", "import", {}),
    ("peft=0.16.0,accelerate=0.30.1", "", "import", {"known-clash": "error"}),
    ("peft=0.10.0,accelerate=0.30.1", "", "import", {}),
    ("torch=2.0.1,setuptools=70.0.0", "", "compile", {"known-clash": "error"}),
    ("torch=2.0.1,setuptools=70.0.0", "", "run", {}),
    ("torch=2.0.1,setuptools=71.0.0", "", "compile", {}),
    ("torch=2.0.1,setuptools=82.0.0", "", "compile", {"known-clash": "error"}),
    ("torch=2.0.1,setuptools=81.0.0", "", "compile", {}),
    ("gym=0.21.0,setuptools=67.0.0", "", "import", {"known-clash": "error"}),
    ("gym=0.21.0,setuptools=66.0.0", "", "import", {}),
    ("gym=0.20.0,setuptools=67.0.0", "", "import", {"known-clash": "error"}),
    ("peft=0.14.0,transformers=4.37.2", "", "import", {"known-clash": "error"}),
    ("peft=0.13.2,transformers=4.37.2", "", "import", {}),
    ("opencv_python=4.10.0.82,numpy=2.0", "", "import", {"known-clash": "error"}),
    ("opencv_python=4.10.0.84,numpy=2.0", "", "import", {}),
    ("deepspeed=0.14.3,numpy=2.0", "", "import", {"known-clash": "error"}),
    ("deepspeed=0.14.3,numpy=1.26", "", "import", {}),
    ("lightning=2.0.4,pydantic=2.0", "", "import", {"known-clash": "error"}),
    ("lightning=2.0.6,pydantic=2.0", "", "import", {}),
    ("librosa=0.7.2,numba=0.50.0", "", "import", {"known-clash": "error"}),
    ("librosa=0.7.2,numba=0.48.0", "", "import", {}),
    ("transformers=4.52.3,accelerate=1.2.1", "", "import", {"known-clash": "error"}),
    ("transformers=4.52.3,accelerate=1.3.0", "", "import", {}),
    ("transformers=4.56.2,huggingface_hub=1.5.0", "", "import", {"transformers-requires": "error"}),
    ("transformers=5.0.0,huggingface_hub=1.5.0", "", "import", {}),
    ("diffusers=0.34.0,peft=0.14.0", "", "import", {"known-clash": "error"}),
    ("diffusers=0.33.1,peft=0.14.0", "", "import", {}),
    ("diffusers=0.34.0,peft=0.15.0", "", "import", {}),
    ("numba=0.46.0,llvmlite=0.31.0", "", "import", {"known-clash": "error"}),
    ("numba=0.46.0,llvmlite=0.30.0", "", "import", {}),
    ("tensorflow=2.1.0,h5py=3.0.0", "", "run", {"known-clash": "error"}),
    ("tensorflow=2.1.0,h5py=2.10.0", "", "run", {}),
    ("transformers=4.14.1,deepspeed=0.5.3", "", "run", {"known-clash": "error"}),
    ("transformers=4.12.5,deepspeed=0.5.3", "", "run", {}),
    ("tensorflow=2.6.0,keras=2.7.0", "", "import", {"known-clash": "error"}),
    ("tensorflow=2.6.0,keras=2.6.0", "", "import", {}),
    # what mmdet compares when it is imported
    ("mmdet=3.2.0,mmcv=1.3.0", "", "import", {"mmdet-requires": "error"}),
    ("mmdet=3.3.0,mmcv=2.2.0", "", "import", {"mmdet-requires": "error"}),
    ("mmdet=3.3.0,mmcv=2.1.0", "", "import", {}),
    ("mmdet=2.28.2,mmcv_full=1.7.1", "", "import", {}),
    # CUDA of the libraries that a wheel loads
    ("cupy_cuda11x=12.0.0,cuda=12.1", "", "run", {"cupy-cuda11x-cuda": "error"}),
    ("cupy_cuda12x=12.0.0,cuda=12.1", "", "run", {}),
    ("onnxruntime_gpu=1.16.0,cuda=12.1", "", "run", {"onnxruntime_gpu-cuda": "error"}),
    ("onnxruntime_gpu=1.19.0,cuda=12.1", "", "run", {}),
    # the GPU, by the torch that a package requires
    ("vllm=0.6.0", "RTX 5090", "run", {"vllm-torch-gpu": "error"}),
    ("vllm=0.9.2", "RTX 5090", "run", {}),
    ("vllm=0.6.0", "H100", "run", {}),
]  # fmt: skip


@pytest.mark.parametrize(("pins", "gpu", "purpose", "expected"), CASES, ids=lambda v: str(v)[:60])
def test_pins(check: Check, pins: str, gpu: str, purpose: str, expected: dict[str, str]) -> None:
    found = {f.rule: f.severity for f in reversed(check(pins, gpu, purpose)) if f.severity != "info"}
    assert found == expected


def test_the_nearest_release_of_either_side_is_offered(check: Check) -> None:
    (finding,) = check("peft=0.16.0,accelerate=0.30.1", "", "import")
    assert finding.nearest == ("peft=0.14.0", "accelerate=1.0.0")


def test_a_requirement_on_other_pythons_does_not_count(check: Check) -> None:
    assert "pandas-requires" in {f.rule for f in check("pandas=1.5.3,numpy=1.20.3,python=3.10", "", "import")}
    assert check("pandas=1.5.3,numpy=1.20.3,python=3.9", "", "import") == []


@pytest.mark.parametrize(
    ("spec", "version", "within"),
    [(">=1.17,<2", "1.26", True), (">=3.6.1", "3.6", True), ("<0.18", "0.18.0", False), (">=0.4.3", "0.4.2", False)],
)
def test_a_short_version_stands_for_its_series(spec: str, version: str, within: bool) -> None:
    assert meets(spec, version) is within
