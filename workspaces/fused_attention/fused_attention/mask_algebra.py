"""The base of all masks: composition, elements, tiles, and lowering to the operator's arguments."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from . import build
from . import mask_program as program

Lowered = Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]
Parts = Tuple[Optional[program.Code], Optional[torch.Tensor]]

_MAX_LENGTHS = 16  # the lengths whose lowered form a mask caches

_inference_mode = getattr(torch, "inference_mode", None)  # torch 1.9


class Tiles(NamedTuple):
    """A mask cut into tiles of `rows` x `keys`. Tiles at the edges are smaller."""

    classes: torch.Tensor  # int8 [batch or 1, heads or 1, row tiles, key tiles]: 0 skip, 1 partial, 2 full
    bits: torch.Tensor  # int64 [partial tiles in the order of classes, rows, ceil(keys / 64)]: key i is bit i % 64
    rows: int
    keys: int
    density: float  # the share of elements that attend


class Mask:
    """The base class of all masks."""

    batch = 1  # how many sequences have masks of their own; 1: all the same
    _by_length = False  # whether its lowered form depends on the lengths
    _has_tensor = False

    def __init__(self, *fields: Any) -> None:
        self._fields = fields
        self._lowered: Dict[Optional[Tuple[int, int]], Lowered] = {}
        # Lowered before any call: a compiled function then takes the tensors as inputs, and is not compiled again for
        # another mask of the same kind.
        if not self._by_length:
            self._lower(None, 0, 0)

    def lower(self, q_len: int, k_len: int) -> Lowered:
        """The operator's arguments for q_len rows and k_len keys: (structure, mask).

        structure: an int64 program on the CPU (see csrc/structure.h), or None. mask: a boolean tensor that
        broadcasts to [batch, heads, q_len, k_len], or None. At least one is a tensor; a key must pass both. Equal
        lengths give the same tensors again. Raises ValueError if the mask does not fit the lengths.
        """
        key = (q_len, k_len) if self._by_length else None
        found = self._lowered.get(key)
        return self._lower(key, q_len, k_len) if found is None else found

    def elements(self, q_len: int, k_len: int) -> torch.Tensor:
        """Every element, True where the row attends to the key: bool [batch or 1, heads or 1, q_len, k_len].

        On the CPU, or on the device of a Dense mask in it. Raises ValueError if the mask does not fit.
        """
        structure, mask = self.lower(q_len, k_len)
        elements = None if mask is None else _four_dimensions(mask, q_len, k_len)
        if structure is None:
            return elements
        _need_kernels()
        structured = torch.ops.fused_attention.mask_elements(structure, self.batch, q_len, k_len)
        return structured if elements is None else structured.to(elements.device) & elements

    def tiles(self, q_len: int, k_len: int, rows: int = 64, keys: int = 64) -> Tiles:
        """The classes of all tiles and the bits of the partial ones, on the CPU.

        Raises ValueError where the mask does not fit, RuntimeError for rows or keys below 1.
        """
        structure, mask = self.lower(q_len, k_len)
        batch, heads = self.batch, 1
        if mask is not None:
            mask = _four_dimensions(mask, q_len, k_len).cpu()
            batch, heads = max(batch, mask.shape[0]), mask.shape[1]
        _need_kernels()
        classes, bits, attended = torch.ops.fused_attention.mask_tiles(
            structure, mask, batch, heads, q_len, k_len, rows, keys
        )
        return Tiles(classes, bits, rows, keys, attended / max(1, batch * heads * q_len * k_len))

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, other) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> "Mask":
        return Not(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()  # type: ignore

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join(map(shown, self._fields)))

    def _identity(self) -> Tuple[Any, ...]:
        # A tensor equals only itself.
        return tuple(id(field) if isinstance(field, torch.Tensor) else field for field in self._fields)

    def _lower(self, key: Optional[Tuple[int, int]], q_len: int, k_len: int) -> Lowered:
        if not program.is_compiling() and _inference_mode and torch.is_inference_mode_enabled():
            # Cached tensors must not be made in inference mode: autograd could not save them for a backward pass.
            with _inference_mode(False):
                return self._lower(key, q_len, k_len)
        code, mask = self._parts(q_len, k_len)
        found = (None if code is None else program.assemble(code), mask)
        if len(self._lowered) >= _MAX_LENGTHS:
            self._lowered.clear()
        self._lowered[key] = found
        return found

    def _parts(self, q_len: int, k_len: int) -> Parts:
        raise NotImplementedError


class And(Mask):
    """left & right."""

    def __init__(self, left: Mask, right: Mask) -> None:
        _join(self, left, right)
        super().__init__(left, right)

    def _parts(self, q_len: int, k_len: int) -> Parts:
        (code, mask), (other_code, other_mask) = [operand._parts(q_len, k_len) for operand in self._fields]
        if code is not None and other_code is not None:
            code = program.both(code, other_code)
        if mask is not None and other_mask is not None:
            mask = mask & other_mask
        return (code or other_code, other_mask if mask is None else mask)

    def __repr__(self) -> str:
        return "(%r & %r)" % self._fields


class Or(Mask):
    """left | right."""

    def __init__(self, left: Mask, right: Mask) -> None:
        _join(self, left, right)
        # With a tensor operand, the result is a dense tensor, whose size needs the lengths.
        self._by_length = self._by_length or self._has_tensor
        super().__init__(left, right)

    def _parts(self, q_len: int, k_len: int) -> Parts:
        left, right = self._fields
        if self._has_tensor:
            elements, other = left.elements(q_len, k_len), right.elements(q_len, k_len)
            device = elements.device if left._has_tensor else other.device
            return (None, elements.to(device) | other.to(device))
        return (program.either(left._parts(q_len, k_len)[0], right._parts(q_len, k_len)[0]), None)

    def __repr__(self) -> str:
        return "(%r | %r)" % self._fields


class Not(Mask):
    """~operand."""

    def __init__(self, operand: Mask) -> None:
        _join(self, operand)
        self._by_length = self._by_length or self._has_tensor
        super().__init__(operand)

    def _parts(self, q_len: int, k_len: int) -> Parts:
        (operand,) = self._fields
        if self._has_tensor:
            return (None, ~operand.elements(q_len, k_len))
        return (program.inverse(operand._parts(q_len, k_len)[0]), None)

    def __repr__(self) -> str:
        return "~%r" % self._fields


class Dense(Mask):
    """Any boolean tensor, broadcastable to [batch, heads, q_len, k_len], on the device of q: True attends.

    It is read when the mask is used, and where | or ~ is applied to it, once for each length.
    """

    _has_tensor = True

    def __init__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.bool or tensor.dim() > 4:
            raise TypeError(
                "tensor is %s; it must be a torch.bool tensor that broadcasts to [batch, heads, q_len, k_len]"
                % shown(tensor)
            )
        self.batch = tensor.shape[0] if tensor.dim() == 4 else 1
        super().__init__(tensor)

    def _parts(self, q_len: int, k_len: int) -> Parts:
        return (None, self._fields[0])


class Structured(Mask):
    """A mask that lowers to a program without a tensor."""

    def _parts(self, q_len: int, k_len: int) -> Parts:
        return (self._code(q_len, k_len), None)

    def _code(self, q_len: int, k_len: int) -> program.Code:
        raise NotImplementedError


def common_batch(name: Any, batch: int, other_name: Any, other_batch: int) -> int:
    """The common batch of two operands. Raises ValueError if they differ and neither is 1."""
    if batch != other_batch and batch != 1 and other_batch != 1:
        raise ValueError(
            "%s has batch %d and %s has %d; they must be the same, or one of them 1"
            % (name, batch, other_name, other_batch)
        )
    return max(batch, other_batch)


def _join(mask: Mask, *operands: Mask) -> None:
    mask.batch = common_batch(operands[0], operands[0].batch, operands[-1], operands[-1].batch)
    mask._by_length = any(operand._by_length for operand in operands)
    mask._has_tensor = any(operand._has_tensor for operand in operands)


def _need_kernels() -> None:
    if not build.is_loaded():
        build.load()


def _four_dimensions(mask: torch.Tensor, q_len: int, k_len: int) -> torch.Tensor:
    """[batch or 1, heads or 1, q_len, k_len]. Raises ValueError."""
    mask = mask[(None,) * (4 - mask.dim())]
    if mask.shape[2] not in (1, q_len) or mask.shape[3] not in (1, k_len):
        raise ValueError(
            "mask is a tensor for %d rows and %d keys; q_len and k_len are %d and %d"
            % (mask.shape[2], mask.shape[3], q_len, k_len)
        )
    return mask.expand(mask.shape[0], mask.shape[1], q_len, k_len)


def shown(field: Any) -> str:
    if isinstance(field, torch.Tensor):
        return "<%s %s>" % (field.dtype, list(field.shape))
    return repr(field)
