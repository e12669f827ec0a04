// The arithmetic of AVX512-BF16 and of AMX tiles.
#pragma once

#include "portable.h"

namespace fused_attention {

// A denormal counts as zero.
inline float flushed(float x) {
  const uint32_t bits = bits_of(x);
  return bits & 0x7f800000u ? x : from_bits(bits & 0x80000000u);
}

// A fused multiplication and addition of floats is one addition in double, rounded: the product of two bfloat16 is
// exact there, and 53 bits are enough for the second rounding to be harmless (2 * 24 + 2 suffice).
inline float fused(uint32_t left, uint32_t right, float sum) {
  const double x = flushed(from_bits(left)), y = flushed(from_bits(right));
  return flushed(static_cast<float>(x * y + static_cast<double>(sum)));
}

}  // namespace fused_attention
