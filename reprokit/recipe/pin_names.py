"""The names that a recipe can pin."""

from __future__ import annotations

# PyPI packages with facts about their releases' requirements on each other and on Python, as in pip's metadata.
PACKAGES = (
    "accelerate", "pydantic", "protobuf", "onnx", "onnxruntime", "onnxruntime_gpu", "huggingface_hub", "diffusers",
    "peft", "trl", "datasets", "pyarrow", "safetensors", "sentence_transformers", "pytorch_lightning", "lightning",
    "torchmetrics", "numba", "llvmlite", "scipy", "pandas", "scikit_learn", "scikit_image", "matplotlib",
    "opencv_python", "h5py", "keras", "tf_keras", "tensorboard", "flax", "optax", "chex", "gym", "gymnasium",
    "stable_baselines3", "torch_geometric", "torch_scatter", "torch_sparse", "torch_cluster", "mmcv",
    "mmcv_full", "mmdet", "mmengine", "timm", "librosa", "setuptools", "deepspeed",
    "cupy_cuda11x", "cupy_cuda12x", "cupy_cuda13x",
)  # fmt: skip
# Pins without a wheel. PyPI may have another package of that name: `clang` has bindings, `apex` is not NVIDIA's.
NOT_ON_PYPI = ("cuda", "cudnn", "gcc", "clang", "python", "tvm", "llvm", "cutlass", "apex", "distro", "base")
PIN_NAMES = (
    "cuda", "cudnn", "gcc", "clang", "python", "torch", "torchvision", "dgl", "tvm", "llvm", "cmake", "numpy",
    "cutlass", "flash_attn", "transformers", "tokenizers", "torchaudio", "torchtext", "xformers", "triton", "vllm",
    "bitsandbytes", "apex", "tensorflow", "jax", "jaxlib", "distro", "base", *PACKAGES,
)  # fmt: skip
