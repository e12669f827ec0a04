// The online softmax of the two rows whose scores a thread holds, in powers of two.
//
// The scores' scale and log2(e) are one factor, folded into the exponent: exp(scale * s - m) is
// exp2(factor * s - origin), one multiply-add and one ex2. See Milakov and Gimelshein (arXiv:1805.02867) for the
// update, and FlashAttention-2 (arXiv:2307.08691), section 3.1, for dividing by the sum only at the end.
#pragma once

#include "layout.h"
#include "schedule.h"

namespace fused_attention {
namespace hopper {

constexpr float kLog2E = 1.4426950408889634f;
constexpr int kScores = kTileKeys / 2;  // registers of a thread: 64 rows by 128 keys over 128 threads

template <class M>
struct RowSoftmax {
  float origin[2];  // factor times the largest score so far; -inf while every key was masked out
  float sum[2];     // of the weights this thread made; the row's is that of its four threads

  FA_DEVICE void reset() {
    origin[0] = origin[1] = minus_infinity();
    sum[0] = sum[1] = 0.0f;
  }

  // Turns scores into weights. Returns the factor for earlier sums and outputs in `correction`.
  FA_DEVICE void take(float (&scores)[kScores], float factor, float (&correction)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float maximum = M::maximum(scores[2 * r], scores[2 * r + 1]);
#pragma unroll
      for (int j = 1; j < kScores / 4; ++j) {
        maximum = M::maximum(maximum, M::maximum(scores[4 * j + 2 * r], scores[4 * j + 2 * r + 1]));
      }
      maximum = M::maximum(maximum, M::shuffle_xor(maximum, 1));
      maximum = M::maximum(maximum, M::shuffle_xor(maximum, 2));
      const float previous = origin[r];
      origin[r] = M::maximum(previous, maximum * factor);
      // In a row without keys so far, -inf - -inf would be NaN.
      const float subtracted = origin[r] == minus_infinity() ? 0.0f : origin[r];
      correction[r] = M::exp2(previous - subtracted);
      float added = 0.0f;
#pragma unroll
      for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[4 * j + 2 * r + e];
          score = M::exp2(M::multiply_add(score, factor, -subtracted));
          added += score;
        }
      }
      sum[r] = M::multiply_add(sum[r], correction[r], added);
    }
  }

  // The factor of a row's output: the inverse of its sum, or zero if every key was masked.
  FA_DEVICE void finish(float (&inverse)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += M::shuffle_xor(sum[r], 1);
      sum[r] += M::shuffle_xor(sum[r], 2);
      inverse[r] = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
    }
  }
};

FA_DEVICE void apply_mask(const FragmentMask& mask, float (&scores)[kScores]) {
#pragma unroll
  for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[4 * j + 2 * r + e];
        score = mask.attends(j, r, e) ? score : minus_infinity();
      }
    }
  }
}

// factor * score - slope * |key - row|, `slope` in powers of two as the factor is. `offset` is that of the fragment's
// first column from its first row.
template <class M>
FA_DEVICE void apply_alibi(float factor, float slope, int32_t offset, float (&scores)[kScores]) {
  const float start = static_cast<float>(offset);
#pragma unroll
  for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[4 * j + 2 * r + e];
        const float distance = start + static_cast<float>(8 * j + e - 8 * r);
        score = M::multiply_add(-slope, fabsf(distance), score * factor);
      }
    }
  }
}

// The weights as the left operand of m64nNk16, whose registers for 16 keys are those of two accumulator blocks, packed
// in pairs.
template <class T, class M>
FA_DEVICE void pack_weights(const float (&scores)[kScores], uint32_t (&weights)[kTileKeys / kStep][4]) {
#pragma unroll
  for (int k = 0; k < kTileKeys / kStep; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[k][i] = M::template pack<T>(scores[8 * k + 2 * i], scores[8 * k + 2 * i + 1]);
    }
  }
}

}  // namespace hopper
}  // namespace fused_attention
