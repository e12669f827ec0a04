// Vectors of floats for one instruction set. The including file defines FA_VECTOR_BYTES, FA_ISA, a namespace that
// keeps the sets apart, and FA_LEVEL: 0 any machine, 1 AVX2 with FMA and F16C, 2 AVX-512, 3 AVX-512 with BF16.
#pragma once

#include "../numeric.h"

#if FA_LEVEL >= 1
#include <immintrin.h>
#endif

namespace fused_attention {
namespace FA_ISA {

constexpr int kLanes = FA_VECTOR_BYTES / sizeof(float);

using Vec = float __attribute__((vector_size(FA_VECTOR_BYTES)));
using IntVec = int32_t __attribute__((vector_size(FA_VECTOR_BYTES)));

FA_HOST_DEVICE Vec load(const float* p) {
  Vec x;
  memcpy(&x, p, sizeof x);
  return x;
}

FA_HOST_DEVICE void store(float* p, Vec x) {
  memcpy(p, &x, sizeof x);
}

FA_HOST_DEVICE Vec broadcast(float x) {
#if FA_LEVEL >= 2
  return _mm512_set1_ps(x);
#elif FA_LEVEL == 1
  return _mm256_set1_ps(x);
#else
  return x - Vec{};
#endif
}

// The larger one; `b` where either is NaN.
FA_HOST_DEVICE Vec maximum(Vec a, Vec b) {
#if FA_LEVEL >= 2
  return _mm512_max_ps(a, b);
#elif FA_LEVEL == 1
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

FA_HOST_DEVICE bool any_above(Vec x, float limit) {
#if FA_LEVEL >= 2
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
#elif FA_LEVEL == 1
  return _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_GT_OQ)) != 0;
#else
  const IntVec above = x > limit;
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= above[i];
  return any != 0;
#endif
}

// The lanes to keep: bit i of a word stands for lane i.
#if FA_LEVEL >= 2
using Keep = __mmask16;
FA_HOST_DEVICE Keep keep_of(uint32_t word) { return static_cast<Keep>(word); }
FA_HOST_DEVICE Vec maximum_of_kept(Keep keep, Vec a, Vec b) { return _mm512_mask_max_ps(b, keep, a, b); }
FA_HOST_DEVICE Vec zero_unless(Keep keep, Vec x) { return _mm512_maskz_mov_ps(keep, x); }
#else
using Keep = IntVec;
FA_HOST_DEVICE Keep keep_of(uint32_t word) {
  IntVec bit;
  for (int i = 0; i < kLanes; ++i) bit[i] = 1 << i;
  return ((static_cast<int32_t>(word) - IntVec{}) & bit) != 0;
}
FA_HOST_DEVICE Vec maximum_of_kept(Keep keep, Vec a, Vec b) { return keep ? maximum(a, b) : b; }
FA_HOST_DEVICE Vec zero_unless(Keep keep, Vec x) { return keep ? x : Vec{}; }
#endif

// 2^x for x <= 64, as 2^floor(x) times a polynomial on [0, 1); zero for -inf, NaN for NaN. The polynomials have the
// least largest relative error of their degree with 1 at 0: 2.0e-9 for degree 6, which leaves the roundings of floats,
// and 8.6e-5 for degree 3 (a bfloat16's is 2e-3).
template <int kDegree>
FA_HOST_DEVICE Vec exp2_polynomial(Vec r) {
  static_assert(kDegree == 3 || kDegree == 6, "no coefficients for this degree");
  if (kDegree == 3) {
    Vec p = r * 0.07706704f + 0.227645f;
    p = p * r + 0.69511676f;
    return p * r + 1.0f;
  }
  Vec p = r * 0.00021612915f + 0.0012467847f;
  p = p * r + 0.009675452f;
  p = p * r + 0.055485282f;
  p = p * r + 0.24022931f;
  p = p * r + 0.69314706f;
  return p * r + 1.0f;
}

template <int kDegree>
FA_HOST_DEVICE Vec exp2(Vec x) {
#if FA_LEVEL >= 2
  const Vec r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x), 0 for -inf
  return _mm512_scalef_ps(exp2_polynomial<kDegree>(r), x);
#else
  const Vec low = broadcast(-126.0f);
  const Vec clamped = maximum(low, x);  // this order of operands lets a NaN pass
#if FA_LEVEL == 1
  const Vec whole = _mm256_floor_ps(clamped);
  const IntVec exponent = (IntVec)_mm256_cvtps_epi32(whole);
#else
  const Vec shifted = clamped + 12582912.0f;  // 1.5 * 2^23: its low mantissa bits are the nearest integer
  const Vec nearest = shifted - 12582912.0f;
  const Vec whole = nearest > clamped ? nearest - 1.0f : nearest;
  IntVec exponent;
  for (int i = 0; i < kLanes; ++i) exponent[i] = whole[i] == whole[i] ? static_cast<int32_t>(whole[i]) : 0;
#endif
  const Vec result = exp2_polynomial<kDegree>(clamped - whole) * (Vec)((exponent + 127) << 23);
  return x < low ? Vec{} : result;
#endif
}

// Sixteen-bit types and floats, a vector at a time.
FA_HOST_DEVICE Vec load_floats(const float* p) { return load(p); }

template <class T>
FA_HOST_DEVICE Vec load_floats(const T* p) {
  Vec x;
  for (int i = 0; i < kLanes; ++i) x[i] = to_float(p[i]);
  return x;
}

FA_HOST_DEVICE void store_floats(float* p, Vec x) { store(p, x); }

template <class T>
FA_HOST_DEVICE void store_floats(T* p, Vec x) {
  for (int i = 0; i < kLanes; ++i) p[i] = from_float<T>(x[i]);
}

#if FA_LEVEL >= 2
FA_HOST_DEVICE Vec load_floats(const Float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
FA_HOST_DEVICE void store_floats(Float16* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
FA_HOST_DEVICE Vec load_floats(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return (Vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}
#if FA_LEVEL >= 3
// Denormals become zero, as in this instruction set's products.
FA_HOST_DEVICE void store_floats(BFloat16* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x));
}
#else
FA_HOST_DEVICE void store_floats(BFloat16* p, Vec x) {
  const __m512i bits = (__m512i)x;
  const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc00000));
  const __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
}
#endif
#elif FA_LEVEL == 1
FA_HOST_DEVICE Vec load_floats(const Float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
FA_HOST_DEVICE void store_floats(Float16* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
FA_HOST_DEVICE Vec load_floats(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (Vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
}
#endif

// The two kinds of products. Tables hold 32-bit words: a float, or two bfloat16 whose products are summed.
struct FloatMath {
  static constexpr int kPair = 1;
  static constexpr int kExpDegree = 6;
  FA_HOST_DEVICE static Vec multiply_add(Vec a, Vec b, Vec sum) { return a * b + sum; }
  FA_HOST_DEVICE static Vec pair(const Vec (&x)[1]) { return x[0]; }
  // Elements from `index` on of a table of words.
  FA_HOST_DEVICE static void store_words(float* table, int64_t index, Vec x) { store(table + index, x); }
};

#if FA_LEVEL >= 3
struct DotMath {
  static constexpr int kPair = 2;
  static constexpr int kExpDegree = 3;
  FA_HOST_DEVICE static Vec multiply_add(Vec a, Vec b, Vec sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  // Lane i: bfloat16 of x[0][i] in the low half, of x[1][i] in the high one.
  FA_HOST_DEVICE static Vec pair(const Vec (&x)[2]) {
    const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                                6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (Vec)_mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
  }
  FA_HOST_DEVICE static void store_words(float* table, int64_t index, Vec x) {
    store_floats(reinterpret_cast<BFloat16*>(table) + index, x);
  }
};
#endif

}  // namespace FA_ISA
}  // namespace fused_attention
