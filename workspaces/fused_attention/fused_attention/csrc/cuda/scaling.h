// Scales a product of query and key to an exponent of two, before the softmax.
#pragma once

#include "../params.h"

namespace fused_attention {

constexpr float kLog2E = 1.44269504088896340736f;

// Scores are the products of query and key times `unit`, which is applied inside the exponential. If something is added
// to the scores, or `unit` would be zero, each score is scaled instead and `unit` is one. A negative scale negates the
// query.
struct Scaling {
  float unit, element;
  bool by_element, negate_query;

  FA_HOST_DEVICE explicit Scaling(const AttentionParams& p) {
    element = (p.scale < 0 ? -p.scale : p.scale) * kLog2E;
    by_element = p.mask.is_additive() || p.alibi != nullptr || !(element > 0);
    negate_query = p.scale < 0;
    unit = by_element ? 1.0f : element;
  }
};

// The bias of (row, key). `mask_row` is the offset of the row in the mask, `slope` ALiBi's, or zero.
FA_HOST_DEVICE float bias_of(const AttentionParams& p, int64_t mask_row, float slope, int32_t row, int32_t key) {
  float bias = 0.0f;
  if (p.mask.is_additive()) bias = p.mask.element(mask_row + key * p.mask.key_stride);
  const int32_t distance = key > row ? key - row : row - key;
  return (bias - slope * static_cast<float>(distance)) * kLog2E;
}

FA_HOST_DEVICE float larger(float a, float b) {
  return fmaxf(a, b);  // if one is NaN, the other
}

}  // namespace fused_attention
