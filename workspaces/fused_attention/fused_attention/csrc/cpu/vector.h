// Float vectors by the compiler's vector extension: one source for every width, without intrinsics.
// The including file defines FA_VECTOR_BYTES and FA_ISA, a namespace that keeps the widths apart.
#pragma once

#include "../softmax.h"

namespace fused_attention {
namespace FA_ISA {

constexpr int kLanes = FA_VECTOR_BYTES / sizeof(float);

using Vec = float __attribute__((vector_size(FA_VECTOR_BYTES)));
using IntVec = int32_t __attribute__((vector_size(FA_VECTOR_BYTES)));

FA_HOST_DEVICE Vec load(const float* p) {
  return *reinterpret_cast<const Vec*>(p);
}

FA_HOST_DEVICE void store(float* p, Vec x) {
  *reinterpret_cast<Vec*>(p) = x;
}

FA_HOST_DEVICE Vec broadcast(float x) {
  return x - Vec{};
}

// Each lane's own bit, for lanes [first, first + kLanes) of a word: all ones where it is set.
FA_HOST_DEVICE IntVec lanes_of(uint64_t word, int first) {
  IntVec bit;
  for (int i = 0; i < kLanes; ++i) bit[i] = 1 << i;
  const int32_t bits = static_cast<int32_t>(word >> first);
  return ((bits - IntVec{}) & bit) != 0;
}

// exp as 2^n * (1 + r + r^2 p(r)), |r| <= ln(2)/2, with the coefficients of the Cephes library's expf (S. Moshier).
// Within 2 units in the last place of exp on [-87.3, 0]; zero below; NaN for NaN. Not for x > 88.
FA_HOST_DEVICE Vec exp(Vec x) {
  const float round_to_integer = 12582912.0f;  // 1.5 * 2^23: the sum's low mantissa bits are the nearest integer
  const Vec shifted = x * 1.44269504f + round_to_integer;
  const Vec n = shifted - round_to_integer;
  const Vec r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  Vec p = r * 1.98756915e-4f + 1.39819995e-3f;
  p = p * r + 8.33345191e-3f;
  p = p * r + 4.16657959e-2f;
  p = p * r + 1.66666655e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const IntVec exponent = ((IntVec)shifted << 23) + 0x3f800000;
  const Vec result = p * (Vec)exponent;
  const Vec flushed = x < -87.3f ? Vec{} : result;
  return x == x ? flushed : x;
}

struct VectorMath {
  using Value = Vec;
  FA_HOST_DEVICE static Vec broadcast(float x) { return FA_ISA::broadcast(x); }
  FA_HOST_DEVICE static Vec select(IntVec condition, Vec yes, Vec no) { return condition ? yes : no; }
  FA_HOST_DEVICE static Vec exp(Vec x) { return FA_ISA::exp(x); }
};

}  // namespace FA_ISA
}  // namespace fused_attention
