// The two matrix products of attention, a block of registers at a time.
//
// The lanes of the scores are query rows: S^T[key][row] = sum over d of K[key][d] * Q^T[d][row]. So keys are read in
// place, one broadcast word at a time, any set of keys costs as much as a run, and the softmax needs no reduction
// across lanes. The second product, O[row][d] = sum over keys of W[key][row] * V[key][d], broadcasts those weights; its
// lanes are the values' dimensions.
#pragma once

#include "vector.h"

namespace fused_attention {
namespace FA_ISA {

// The rows of broadcasts for C vectors: sums, vectors and one broadcast must fit the registers (32 with AVX-512 and on
// arm64, else 16). Counts are multiples of kSmall.
template <int C>
struct Shape {
  static constexpr int kBig = 2, kMiddle = 2, kSmall = 2;
};
#if FA_LEVEL >= 2 || defined(__aarch64__)
template <>
struct Shape<4> {
  static constexpr int kBig = 6, kMiddle = 4, kSmall = 2;
};
template <>
struct Shape<2> {
  static constexpr int kBig = 12, kMiddle = 8, kSmall = 4;
};
template <>
struct Shape<1> {
  static constexpr int kBig = 16, kMiddle = 16, kSmall = 8;
};
#elif FA_LEVEL == 1
template <>
struct Shape<2> {
  static constexpr int kBig = 6, kMiddle = 4, kSmall = 2;
};
#endif

// A chunk of keys for a panel of one granule is a multiple of this.
constexpr int kKeyMultiple = Shape<16 / kLanes>::kSmall;

FA_HOST_DEVICE Vec broadcast_word(const float* p) {
  return broadcast(*p);
}

// sum[i][c] = sum over step < steps of rows[i * row_stride + step] (x) vectors[step * stride + c * kLanes], in words.
template <class Math, int R, int C>
FA_HOST_DEVICE void multiply_rows(const float* rows, int64_t row_stride, const float* vectors, int64_t stride,
                                  int64_t steps, Vec (&sum)[R][C]) {
  // Four rows share a pointer: x86 addresses base, base + stride, base + 2 * stride and, of another register,
  // base + 3 * stride.
  constexpr int kBases = (R + 3) / 4;
  const float* base[kBases];
  for (int g = 0; g < kBases; ++g) base[g] = rows + 4 * g * row_stride;
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) sum[i][c] = Vec{};
  }
#pragma GCC unroll 4
  for (int64_t step = 0; step < steps; ++step) {
    Vec right[C];
    for (int c = 0; c < C; ++c) right[c] = load(vectors + step * stride + c * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const Vec left = broadcast_word(base[i / 4] + i % 4 * row_stride + step);
      for (int c = 0; c < C; ++c) sum[i][c] = Math::multiply_add(left, right[c], sum[i][c]);
    }
  }
}

// The output of the second product: out = out * factor[row] + product, or the product alone if it is the first.
struct Output {
  float* rows;
  int64_t stride;
  const float* factor;  // null: one
  bool is_first;
};

// R rows of `out` and C vectors: the sum over step < steps of words[step * pitch + i] (x) values[step * stride + c].
// The sum begins at zero rather than at `out`: fewer roundings of a large sum.
template <class Math, int R, int C>
FA_HOST_DEVICE void add_values(const float* words, int64_t pitch, const float* values, int64_t stride, int64_t steps,
                               const Output& out, int row, int64_t d) {
  words += row;
  values += d;
  Vec sum[R][C];
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) sum[i][c] = Vec{};
  }
#pragma GCC unroll 2
  for (int64_t step = 0; step < steps; ++step) {
    Vec right[C];
    for (int c = 0; c < C; ++c) right[c] = load(values + step * stride + c * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const Vec left = broadcast_word(words + step * pitch + i);
      for (int c = 0; c < C; ++c) sum[i][c] = Math::multiply_add(left, right[c], sum[i][c]);
    }
  }
  float* target = out.rows + row * out.stride + d;
  for (int i = 0; i < R; ++i) {
    const Vec factor = broadcast(out.factor ? out.factor[row + i] : 1.0f);
    for (int c = 0; c < C; ++c) {
      float* at = target + i * out.stride + c * kLanes;
      store(at, out.is_first ? sum[i][c] : load(at) * factor + sum[i][c]);
    }
  }
}

template <class Math, int C>
static void add_values_of(const float* words, int64_t pitch, int rows, const float* values, int64_t stride,
                          int64_t steps, const Output& out, int64_t d) {
  using S = Shape<C>;
  int row = 0;
  for (; row + S::kBig <= rows; row += S::kBig) {
    add_values<Math, S::kBig, C>(words, pitch, values, stride, steps, out, row, d);
  }
  if (S::kMiddle < S::kBig && row + S::kMiddle <= rows) {
    add_values<Math, S::kMiddle, C>(words, pitch, values, stride, steps, out, row, d);
    row += S::kMiddle;
  }
  for (; S::kSmall < S::kMiddle && row < rows; row += S::kSmall) {
    add_values<Math, S::kSmall, C>(words, pitch, values, stride, steps, out, row, d);
  }
}

// The second product for `rows` rows (a multiple of 8) and `width` floats of values (a multiple of 16).
template <class Math>
static void multiply_values(const float* words, int64_t pitch, int rows, const float* values, int64_t stride,
                            int64_t width, int64_t steps, const Output& out) {
  constexpr int kWidest = kLanes == 8 ? 2 : 4;
  int64_t d = 0;
  for (; d + kWidest * kLanes <= width; d += kWidest * kLanes) {
    add_values_of<Math, kWidest>(words, pitch, rows, values, stride, steps, out, d);
  }
#if FA_LEVEL >= 2
  if (d + 2 * kLanes <= width) {
    add_values_of<Math, 2>(words, pitch, rows, values, stride, steps, out, d);
    d += 2 * kLanes;
  }
  if (d < width) add_values_of<Math, 1>(words, pitch, rows, values, stride, steps, out, d);
#endif
}

}  // namespace FA_ISA
}  // namespace fused_attention
