// Which keys a query row attends to, and what is added to its scores.
#pragma once

#include "numeric.h"

namespace fused_attention {

enum class MaskKind : int { kNone, kBool, kFloat32, kBFloat16, kFloat16 };

// A mask broadcast to [batch, heads, q_len, k_len]; strides in elements, zero where it is broadcast.
// With `causal`, row i sees the keys 0 to i, for any lengths (top-left alignment, as in torch).
struct Mask {
  const void* data;
  MaskKind kind;
  bool causal;
  int64_t batch_stride, head_stride, row_stride, key_stride;

  FA_HOST_DEVICE bool is_additive() const { return kind != MaskKind::kNone && kind != MaskKind::kBool; }

  FA_HOST_DEVICE int64_t offset(int64_t batch, int64_t head) const {
    return batch * batch_stride + head * head_stride;
  }

  FA_HOST_DEVICE float element(int64_t index) const {
    switch (kind) {
      case MaskKind::kBool:
        return static_cast<const uint8_t*>(data)[index] != 0 ? 0.0f : minus_infinity();
      case MaskKind::kFloat32:
        return static_cast<const float*>(data)[index];
      case MaskKind::kBFloat16:
        return to_float(static_cast<const BFloat16*>(data)[index]);
      case MaskKind::kFloat16:
        return to_float(static_cast<const Float16*>(data)[index]);
      default:
        return 0.0f;
    }
  }

  // The masked score of one element: -inf for a masked key, even if the score is NaN.
  // `head_offset` is offset(batch, head).
  FA_HOST_DEVICE float apply(float score, int64_t head_offset, int64_t row, int64_t key) const {
    if (causal && key > row) return minus_infinity();
    if (kind == MaskKind::kNone) return score;
    const float bias = element(head_offset + row * row_stride + key * key_stride);
    if (kind == MaskKind::kBool) return bias == 0.0f ? score : bias;
    return score + bias;
  }

  // The keys [0, end) that rows up to and including `last_row` can reach.
  FA_HOST_DEVICE int64_t key_end(int64_t last_row, int64_t k_len) const {
    return causal && last_row + 1 < k_len ? last_row + 1 : k_len;
  }
};

}  // namespace fused_attention
