// What a product of query and key becomes before the softmax: an exponent of two.
#pragma once

#include "../params.h"

namespace fused_attention {

constexpr float kLog2E = 1.44269504088896340736f;

// Scores are the product of query and key times `unit`, which the exponential applies, unless something is added to
// them or `unit` would be zero: then they are scaled one by one and `unit` is one. A negative scale is the query's to
// bear.
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

// What is added to the score of (row, key). `mask_row` is the offset of the row in the mask, `slope` ALiBi's, or zero.
FA_HOST_DEVICE float bias_of(const AttentionParams& p, int64_t mask_row, float slope, int32_t row, int32_t key) {
  float bias = 0.0f;
  if (p.mask.is_additive()) bias = p.mask.element(mask_row + key * p.mask.key_stride);
  const int32_t distance = key > row ? key - row : row - key;
  return (bias - slope * static_cast<float>(distance)) * kLog2E;
}

FA_HOST_DEVICE float larger(float a, float b) {
  return fmaxf(a, b);  // the one that is no NaN
}

}  // namespace fused_attention
