"""What generated modules import: the compiler of segments with its cache, and the matrix product."""

import contextlib
import itertools
import linecache
import os
import struct
import sys
import time
import types
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

from .shapes import Shape

Function = Callable[..., Any]


class Unsupported(RuntimeError):
    """This torch cannot run generated modules; the message says what is missing."""


def check_torch(version: str = torch.__version__) -> None:
    """Raises Unsupported below torch 2.0, which has no torch.compile."""
    if int(version.split(".")[0]) < 2:
        raise Unsupported(f"torch {version} has no torch.compile; use a variant with torch 2.0 or newer")


check_torch()

# --- compiled segments ------------------------------------------------------------------------------------------------

_regions: Dict[Tuple[Any, ...], Function] = {}
_numbers = itertools.count()
_eager = False
_LINKED_S = 5.0  # a linker writes for less long


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Modules that are loaded within run their segments without compiling them."""
    global _eager
    before, _eager = _eager, True
    try:
        yield
    finally:
        _eager = before


def compiled(first: int, last: int, shape: Shape) -> Callable[[Function], Function]:
    """Decorator of a segment: one torch.compile region, shared by all plans that have the segment.

    What a segment is: its operators and the shape, without the number of layers and, outside of operator 4, the mask.
    """
    masked = first <= 4 <= last
    key = (
        first,
        last,
        shape._replace(layers=1, mask=shape.mask if masked else "", window=shape.window if masked else None),
    )

    def decorate(function: Function) -> Function:
        if _eager:
            return function
        if key not in _regions:
            _prepare()
            # Part of the code that torch keeps on disk, which some releases look up without. Not set for the whole
            # process: flex_attention's buffers for one thread would be too small where there are two.
            options = {"cpp.threads": torch.get_num_threads()}
            _regions[key] = torch.compile(function, dynamic=False, fullgraph=True, options=options)
        return _regions[key]

    return decorate


def regions() -> List[Tuple[Any, ...]]:
    """What has been given to the compiler so far."""
    return list(_regions)


def load(source: str, compiling: bool = True) -> Dict[str, Any]:
    """Runs the text of a generated module and returns its names."""
    # dynamo imports a function's module by name, and puts functions without source into one wrapper, whose limit of
    # compilations they then share.
    module = types.ModuleType(f"operator_fusion_generated_{next(_numbers)}")
    sys.modules[module.__name__] = module
    file = f"<{module.__name__}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    with contextlib.nullcontext() if compiling else eager():
        exec(compile(source, file, "exec"), module.__dict__)
    return module.__dict__


def remove_torn(folder: str) -> None:
    """Removes shared objects that a linker which was killed left incomplete; torch would load them and fail."""
    for parent, _, names in os.walk(folder):
        for path in [os.path.join(parent, name) for name in names if name.endswith(".so")]:
            with contextlib.suppress(OSError):  # another process may be at work here, too
                if time.time() - os.path.getmtime(path) > _LINKED_S and not _is_whole(path):
                    os.unlink(path)


def _is_whole(path: str) -> bool:
    """Whether an ELF file reaches to the end of its table of sections, which comes last."""
    with open(path, "rb") as file:
        head = file.read(64)
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return False
    (start,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
    return start > 0 and start + size * count <= os.path.getsize(path)


def _prepare() -> None:
    """Raise dynamo's limits: beyond them a region runs uncompiled, and nothing says so."""
    import torch._dynamo
    from torch._inductor.codecache import cache_dir

    if not _regions:
        remove_torn(cache_dir())

    for name in ("accumulated_cache_size_limit", "accumulated_recompile_limit"):
        if getattr(torch._dynamo.config, name, 1 << 12) < 1 << 12:
            setattr(torch._dynamo.config, name, 1 << 12)


# --- the matrix product -----------------------------------------------------------------------------------------------
# On CPUs, oneDNN with a packed weight: on an AMD Zen 5 it does 194 to 217 GFLOP/s in float32 on one thread, where MKL,
# which F.linear calls, does 91 to 98. Plans and baselines share it.


class _Packed(NamedTuple):
    weight: torch.Tensor  # kept, so that no other tensor gets its address
    packed: torch.Tensor


_packed: Dict[int, _Packed] = {}
_library = torch.library.Library("operator_fusion", "DEF")
_library.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")


def _has_product(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies this type on this processor: bfloat16 needs AVX-512 or avx_ne_convert, for one."""
    if not torch.backends.mkldnn.is_available():
        return False
    short = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
    if short is None:
        return True
    supported = getattr(torch.ops.mkldnn, f"_is_mkldnn_{short}_supported", None)  # older releases ask for no fp16
    return supported is not None and bool(supported())


def pack(weight: torch.Tensor, rows: int) -> None:
    """Lays out a constant weight [out, in] for products with `rows` rows, if oneDNN has such a product."""
    if weight.device.type != "cpu" or not _has_product(weight.dtype):
        return
    reorder = torch.ops.mkldnn._reorder_linear_weight
    try:
        packed = reorder(weight, rows)
    except NotImplementedError:  # older releases take oneDNN's own layout
        packed = reorder(weight.to_mkldnn(), rows)
    _packed[weight.data_ptr()] = _Packed(weight, packed)


def unpack(weight: torch.Tensor) -> None:
    """Forgets a packed weight."""
    _packed.pop(weight.data_ptr(), None)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    known = _packed.get(weight.data_ptr())
    if known is None:
        return F.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, known.packed, bias, "none", [], "")


def _linear_shape(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


_library.impl("linear", _linear, "CPU")
_library.impl("linear", _linear_shape, "Meta")


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """x @ weight^T + bias, with the packed weight where there is one."""
    if x.is_cuda:
        return F.linear(x, weight, bias)
    return torch.ops.operator_fusion.linear(x, weight, bias)
