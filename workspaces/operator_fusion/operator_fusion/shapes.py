"""What a module is generated for: sizes, mask, dtype and device."""

import math
import re
from typing import Any, Dict, NamedTuple, Optional

MASKS = ("none", "causal", "strided", "fixed", "window", "dilated", "longformer", "bigbird")
DTYPES = ("float32", "bfloat16", "float16")


class Shape(NamedTuple):
    """`window`: keys seen on each side, for the masks that have one; a sixteenth of seq where not given."""

    batch: int
    seq: int
    mask: str = "none"
    heads: int = 12
    head_size: int = 64
    layers: int = 1
    window: Optional[int] = None
    dtype: str = "float32"
    device: str = "cpu"

    @property
    def hidden(self) -> int:
        return self.heads * self.head_size

    @property
    def inner(self) -> int:
        """Width between GEMM 2 and GEMM 3, as in BERT."""
        return 4 * self.hidden

    @property
    def gemm_flop(self) -> int:
        """Of the four GEMMs of all layers."""
        return 2 * self.layers * self.batch * self.seq * 12 * self.hidden * self.hidden

    def checked(self) -> "Shape":
        """The shape itself. Raises ValueError for sizes below 1 and for unknown names."""
        for name in ("batch", "seq", "heads", "head_size", "layers", "window"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be 1 or more")
        for name, known in (("mask", MASKS), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device is {self.device!r}; it must be cpu, cuda or cuda:N")
        return self

    def mask_text(self) -> Optional[str]:
        """A constructor of fused_attention.masks; None without a mask."""
        window = self.window or max(1, self.seq // 16)
        block = max(1, 1 << int(math.log2(max(1, self.seq // 12))))
        return {
            "none": None,
            "causal": "masks.Causal()",
            "strided": "masks.Strided()",
            "fixed": "masks.Fixed()",
            "window": f"masks.SlidingWindow({window})",
            "dilated": f"masks.DilatedWindow({window}, 2)",
            "longformer": f"masks.Longformer({2 * window}, {max(1, self.seq // 32)})",
            "bigbird": f"masks.BigBird({min(64, block)})",
        }[self.mask]

    def params(self) -> Dict[str, Any]:
        """For records: what a time depends on."""
        return {name: value for name, value in self._asdict().items() if value is not None}
