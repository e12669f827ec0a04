// Storage types and their conversions to and from float, in integer arithmetic only: bfloat16 exists on every
// compute capability this way, and a compiler can vectorise the loops that call these.
#pragma once

#include "portable.h"

namespace fused_attention {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

FA_HOST_DEVICE float to_float(float x) {
  return x;
}

FA_HOST_DEVICE float to_float(BFloat16 x) {
  return from_bits(static_cast<uint32_t>(x.bits) << 16);
}

// IEEE 754 binary16 to binary32. Normal numbers: move the exponent and rescale by 2^-112. Subnormals: build
// 0.5 + m * 2^-24 and subtract the 0.5. Both are exact.
FA_HOST_DEVICE float to_float(Float16 x) {
  const uint32_t sign = (static_cast<uint32_t>(x.bits) << 16) & 0x80000000u;
  const uint32_t magnitude = static_cast<uint32_t>(x.bits) << 17;
  const float normal = from_bits((magnitude >> 4) + 0x70000000u) * 1.92592994438723585e-34f;
  const float subnormal = from_bits((magnitude >> 17) | 0x3f000000u) - 0.5f;
  return from_bits(sign | (magnitude < 0x08000000u ? bits_of(subnormal) : bits_of(normal)));
}

template <class T>
FA_HOST_DEVICE T from_float(float x);

template <>
FA_HOST_DEVICE float from_float<float>(float x) {
  return x;
}

// Round to nearest, ties to even. A NaN stays a NaN, which plain rounding would turn into infinity or zero.
template <>
FA_HOST_DEVICE BFloat16 from_float<BFloat16>(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return BFloat16{static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded)};
}

// Let the float adder round: adding a power of two 2^13 above the required unit in the last place leaves the
// binary16 mantissa, rounded to nearest even, in the low bits. The two scalings saturate to infinity and zero.
template <>
FA_HOST_DEVICE Float16 from_float<Float16>(float x) {
  const uint32_t bits = bits_of(x);
  const float magnitude = from_bits(bits & 0x7fffffffu);
  const float saturated = (magnitude * 5.19229685853482763e33f) * 7.70371977754894341e-34f;
  uint32_t bias = (bits << 1) & 0xff000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  const uint32_t sum = bits_of(from_bits((bias >> 1) + 0x07800000u) + saturated);
  const uint32_t finite = ((sum >> 13) & 0x7c00u) + (sum & 0x0fffu);
  const uint32_t result = (bits << 1) > 0xff000000u ? 0x7e00u : finite;
  return Float16{static_cast<uint16_t>(((bits >> 16) & 0x8000u) | result)};
}

}  // namespace fused_attention
