"""The schema of the facts on CUDA's images."""

from __future__ import annotations

from pydantic import Field

from reprokit.compat.schema import Fact, Texts


class CudaImage(Fact):
    """The tags of nvidia/cuda for one release. `cudnn_tag` is how tags name cuDNN, None if none has it."""

    ubuntu: Texts
    ubuntu_without_cudnn: Texts = ()
    cudnn_tag: str | None
    cudnn_tag_unverified: bool = False
    cudnn: str | None
    cudnn_by_ubuntu: dict[str, str] = Field({})


class DeletedImages(Fact):
    versions: Texts
    last_listed: str = ""


class CudaImages(Fact):
    listed: dict[str, CudaImage]
    deleted: tuple[DeletedImages, ...]


class ImageFacts(Fact):
    nvidia_cuda: CudaImages
