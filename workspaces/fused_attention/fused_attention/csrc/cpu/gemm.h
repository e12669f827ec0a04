// The two matrix products of a tile. Both keep query rows in the lanes, so keys and values are read as they lie in
// memory, one element broadcast at a time, and the softmax needs no reduction across lanes.
#pragma once

#include "attention.h"
#include "vector.h"

namespace fused_attention {
namespace FA_ISA {

// kRows x panel accumulators stay in registers: 24 of 32 with AVX-512, 12 of 16 else.
constexpr int kRows = 6;
constexpr int kPanel = kLanes == 16 ? 4 : 2;

// out[i][row] (+)= sum over n of a[i * a_row + n * a_step] * b[n][row], for i < R and C vectors of rows.
// Tables `out` and `b` are [.][kBlockRows]. With `scale`, what `out` holds is first multiplied by scale[row].
template <int R, int C>
FA_HOST_DEVICE void multiply_block(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t n,
                                   const float* scale, float* out) {
  Vec sum[R][C];
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) {
      sum[i][c] = scale ? load(out + i * kBlockRows + c * kLanes) * load(scale + c * kLanes) : Vec{};
    }
  }
  for (int64_t step = 0; step < n; ++step) {
    Vec right[C];
    for (int c = 0; c < C; ++c) right[c] = load(b + step * kBlockRows + c * kLanes);
    for (int i = 0; i < R; ++i) {
      const Vec left = broadcast(a[i * a_row + step * a_step]);
      for (int c = 0; c < C; ++c) sum[i][c] += left * right[c];
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) store(out + i * kBlockRows + c * kLanes, sum[i][c]);
  }
}

template <int C>
FA_HOST_DEVICE void multiply_panel(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t n,
                                   const float* scale, float* out, int64_t m) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    multiply_block<kRows, C>(a + i * a_row, a_row, a_step, b, n, scale, out + i * kBlockRows);
  }
  a += i * a_row;
  out += i * kBlockRows;
  switch (m - i) {
    case 5: return multiply_block<5, C>(a, a_row, a_step, b, n, scale, out);
    case 4: return multiply_block<4, C>(a, a_row, a_step, b, n, scale, out);
    case 3: return multiply_block<3, C>(a, a_row, a_step, b, n, scale, out);
    case 2: return multiply_block<2, C>(a, a_row, a_step, b, n, scale, out);
    case 1: return multiply_block<1, C>(a, a_row, a_step, b, n, scale, out);
    default: return;
  }
}

// multiply_block for i < m and `vectors` vectors of rows.
static void multiply(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t n, const float* scale,
                     float* out, int64_t m, int vectors) {
  for (int first = 0; first < vectors; first += kPanel) {
    const int lane = first * kLanes;
    const float* panel_scale = scale ? scale + lane : nullptr;
    switch (vectors - first < kPanel ? vectors - first : kPanel) {
      case 1: multiply_panel<1>(a, a_row, a_step, b + lane, n, panel_scale, out + lane, m); break;
      case 2: multiply_panel<2>(a, a_row, a_step, b + lane, n, panel_scale, out + lane, m); break;
      case 3: multiply_panel<3>(a, a_row, a_step, b + lane, n, panel_scale, out + lane, m); break;
      default: multiply_panel<4>(a, a_row, a_step, b + lane, n, panel_scale, out + lane, m); break;
    }
  }
}

}  // namespace FA_ISA
}  // namespace fused_attention
