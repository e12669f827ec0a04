// The AVX-512 instructions of csrc/cpu/*.h on plain arrays, after the operations of the Intel 64 and IA-32
// Architectures Software Developer's Manual, volume 2. The kernels' namespace is within fused_attention, so they call
// these functions rather than those of the same names in immintrin.h. Bits of a NaN may differ.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdlib>

#include "bf16_emulation.h"
#include "numeric.h"

#ifndef __OPTIMIZE__
#error "without optimization, immintrin.h defines some of these functions as macros"
#endif

namespace fused_attention {

// The elements of a register.
template <class T, int kCount>
struct Elements {
  T at[kCount];

  Elements() = default;
  template <class Register>
  explicit Elements(const Register& x) {
    static_assert(sizeof x == sizeof at, "another size");
    memcpy(at, &x, sizeof at);
  }
  template <class Register>
  Register as() const {
    Register x;
    static_assert(sizeof x == sizeof at, "another size");
    memcpy(&x, at, sizeof x);
    return x;
  }
};

using Floats = Elements<float, 16>;
using Ints = Elements<uint32_t, 16>;
using Shorts = Elements<uint16_t, 32>;
using HalfShorts = Elements<uint16_t, 16>;

// Not inlined: the kernels' unrolled loops would compile for minutes.
template <class T, int kCount, class Element>
__attribute__((noinline)) void fill(Elements<T, kCount>& result, const Element& element) {
  for (int i = 0; i < kCount; ++i) result.at[i] = element(i);
}

// A register whose element i is element(i).
template <class Register, class Result, class Element>
FA_HOST_DEVICE Register each(const Element& element) {
  Result result;
  fill(result, element);
  return result.template as<Register>();
}

// The register-wide forms of f, on floats and on 32-bit integers.
template <class F>
FA_HOST_DEVICE __m512 each_float(__m512 x, __m512 y, const F& f) {
  const Floats a(x), b(y);
  return each<__m512, Floats>([&](int i) { return f(a.at[i], b.at[i]); });
}

template <class F>
FA_HOST_DEVICE __m512i each_int(__m512i x, __m512i y, const F& f) {
  const Ints a(x), b(y);
  return each<__m512i, Ints>([&](int i) { return f(a.at[i], b.at[i]); });
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline uint16_t nearest_bfloat(float x) {
  return from_float<BFloat16>(flushed(x)).bits;
}

// Constants and memory.
FA_HOST_DEVICE __m512 _mm512_set1_ps(float x) {
  return each<__m512, Floats>([&](int) { return x; });
}

FA_HOST_DEVICE __m512i _mm512_set1_epi32(int x) {
  return each<__m512i, Ints>([&](int) { return static_cast<uint32_t>(x); });
}

FA_HOST_DEVICE __m512i _mm512_setzero_si512() { return _mm512_set1_epi32(0); }

template <class... Rest>
FA_HOST_DEVICE __m512i _mm512_set_epi16(Rest... last_to_first) {
  const int given[] = {last_to_first...};
  return each<__m512i, Shorts>([&](int i) { return static_cast<uint16_t>(given[31 - i]); });
}

FA_HOST_DEVICE __m512 _mm512_loadu_ps(const void* p) {
  __m512 x;
  memcpy(&x, p, sizeof x);
  return x;
}

FA_HOST_DEVICE void _mm512_storeu_si512(void* p, __m512i x) { memcpy(p, &x, sizeof x); }

FA_HOST_DEVICE __m256i _mm256_loadu_si256(const __m256i* p) {
  __m256i x;
  memcpy(&x, p, sizeof x);
  return x;
}

FA_HOST_DEVICE void _mm256_storeu_si256(__m256i* p, __m256i x) { memcpy(p, &x, sizeof x); }

FA_HOST_DEVICE __m256i _mm256_maskz_loadu_epi16(__mmask16 keep, const void* p) {
  // Memory of other elements is not read.
  return each<__m256i, HalfShorts>(
      [&](int i) { return keep >> i & 1 ? static_cast<const uint16_t*>(p)[i] : uint16_t{0}; });
}

// Floats.
FA_HOST_DEVICE __m512 _mm512_max_ps(__m512 x, __m512 y) {
  return each_float(x, y, [](float a, float b) { return a > b ? a : b; });
}

FA_HOST_DEVICE __mmask16 _mm512_cmp_ps_mask(__m512 x, __m512 y, int predicate) {
  require(predicate == _CMP_GT_OQ || predicate == _CMP_UNORD_Q);
  const Floats a(x), b(y);
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) {
    const bool is_unordered = a.at[i] != a.at[i] || b.at[i] != b.at[i];
    mask |= static_cast<unsigned>(predicate == _CMP_GT_OQ ? a.at[i] > b.at[i] : is_unordered) << i;
  }
  return static_cast<__mmask16>(mask);
}

FA_HOST_DEVICE __m512i _mm512_mask_mov_epi32(__m512i other, __mmask16 keep, __m512i x) {
  const Ints a(other), b(x);
  return each<__m512i, Ints>([&](int i) { return keep >> i & 1 ? b.at[i] : a.at[i]; });
}

FA_HOST_DEVICE __m512 _mm512_mask_max_ps(__m512 other, __mmask16 keep, __m512 x, __m512 y) {
  return (__m512)_mm512_mask_mov_epi32((__m512i)other, keep, (__m512i)_mm512_max_ps(x, y));
}

FA_HOST_DEVICE __m512 _mm512_maskz_mov_ps(__mmask16 keep, __m512 x) {
  return (__m512)_mm512_mask_mov_epi32(_mm512_setzero_si512(), keep, (__m512i)x);
}

// x - floor(x).
FA_HOST_DEVICE __m512 _mm512_reduce_ps(__m512 x, int control) {
  require(control == (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
  return each_float(x, x, [](float a, float) { return std::isinf(a) ? 0.0f : a - std::floor(a); });
}

// x * 2^floor(y).
FA_HOST_DEVICE __m512 _mm512_scalef_ps(__m512 x, __m512 y) {
  return each_float(x, y, [](float a, float b) {
    if (std::isnan(b)) return b;
    if (std::isinf(b)) return a * (b > 0.0f ? INFINITY : 0.0f);
    return std::ldexp(a, static_cast<int>(std::floor(b < -1000.0f ? -1000.0f : b > 1000.0f ? 1000.0f : b)));
  });
}

FA_HOST_DEVICE float _mm512_reduce_add_ps(__m512 x) {
  Floats sums(x);
  for (int count = 8; count > 0; count /= 2) {
    for (int i = 0; i < count; ++i) sums.at[i] += sums.at[i + count];
  }
  return sums.at[0];
}

// Integers.
FA_HOST_DEVICE __m512i _mm512_and_si512(__m512i x, __m512i y) {
  return each_int(x, y, [](uint32_t a, uint32_t b) { return a & b; });
}

FA_HOST_DEVICE __m512i _mm512_or_si512(__m512i x, __m512i y) {
  return each_int(x, y, [](uint32_t a, uint32_t b) { return a | b; });
}

FA_HOST_DEVICE __m512i _mm512_add_epi32(__m512i x, __m512i y) {
  return each_int(x, y, [](uint32_t a, uint32_t b) { return a + b; });
}

FA_HOST_DEVICE __m512i _mm512_slli_epi32(__m512i x, unsigned count) {
  return each_int(x, x, [&](uint32_t a, uint32_t) { return count < 32 ? a << count : 0; });
}

FA_HOST_DEVICE __m512i _mm512_srli_epi32(__m512i x, unsigned count) {
  return each_int(x, x, [&](uint32_t a, uint32_t) { return count < 32 ? a >> count : 0; });
}

// Conversions.
FA_HOST_DEVICE __m512i _mm512_cvtepu16_epi32(__m256i x) {
  const HalfShorts a(x);
  return each<__m512i, Ints>([&](int i) { return a.at[i]; });
}

FA_HOST_DEVICE __m256i _mm512_cvtepi32_epi16(__m512i x) {
  const Ints a(x);
  return each<__m256i, HalfShorts>([&](int i) { return static_cast<uint16_t>(a.at[i]); });
}

FA_HOST_DEVICE __m512 _mm512_cvtph_ps(__m256i x) {
  const HalfShorts a(x);
  return each<__m512, Floats>([&](int i) { return to_float(Float16{a.at[i]}); });
}

FA_HOST_DEVICE __m256i _mm512_cvtps_ph(__m512 x, int control) {
  require(control == _MM_FROUND_TO_NEAREST_INT);
  const Floats a(x);
  return each<__m256i, HalfShorts>([&](int i) { return from_float<Float16>(a.at[i]).bits; });
}

// Order.
// Element `from` of each pair of 128-bit lanes, lane by lane: 0 to 3 is in x, 4 to 7 in y.
FA_HOST_DEVICE __m512 pick_in_lanes(__m512 x, __m512 y, int first, int second, int third, int fourth) {
  const Floats a(x), b(y);
  const int from[4] = {first, second, third, fourth};
  return each<__m512, Floats>([&](int i) {
    const int element = from[i % 4], lane = i / 4 * 4;
    return element < 4 ? a.at[lane + element] : b.at[lane + element - 4];
  });
}

FA_HOST_DEVICE __m512 _mm512_unpacklo_ps(__m512 x, __m512 y) { return pick_in_lanes(x, y, 0, 4, 1, 5); }

FA_HOST_DEVICE __m512 _mm512_unpackhi_ps(__m512 x, __m512 y) { return pick_in_lanes(x, y, 2, 6, 3, 7); }

FA_HOST_DEVICE __m512 _mm512_shuffle_ps(__m512 x, __m512 y, int control) {
  return pick_in_lanes(x, y, control & 3, control >> 2 & 3, 4 + (control >> 4 & 3), 4 + (control >> 6 & 3));
}

FA_HOST_DEVICE __m512 _mm512_shuffle_f32x4(__m512 x, __m512 y, int control) {
  const Floats a(x), b(y);
  return each<__m512, Floats>([&](int i) {
    const int lane = control >> (i / 4 * 2) & 3;
    return (i < 8 ? a : b).at[lane * 4 + i % 4];
  });
}

FA_HOST_DEVICE __m512i _mm512_permutexvar_epi16(__m512i indices, __m512i x) {
  const Shorts from(indices), a(x);
  return each<__m512i, Shorts>([&](int i) { return a.at[from.at[i] % 32]; });
}

#if FA_LEVEL >= 3
// bfloat16.
FA_HOST_DEVICE __m256bh _mm512_cvtneps_pbh(__m512 x) {
  const Floats a(x);
  return each<__m256bh, HalfShorts>([&](int i) { return nearest_bfloat(a.at[i]); });
}

FA_HOST_DEVICE __m512bh _mm512_cvtne2ps_pbh(__m512 high, __m512 low) {
  const Floats a(low), b(high);
  return each<__m512bh, Shorts>([&](int i) { return nearest_bfloat(i < 16 ? a.at[i] : b.at[i - 16]); });
}

// The odd elements' products come first.
FA_HOST_DEVICE __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh x, __m512bh y) {
  const Ints a(x), b(y);
  const Floats start(sum);
  return each<__m512, Floats>([&](int i) {
    const float odd = fused(a.at[i] & 0xffff0000u, b.at[i] & 0xffff0000u, flushed(start.at[i]));
    return fused(a.at[i] << 16, b.at[i] << 16, odd);
  });
}
#endif

}  // namespace fused_attention
