// One warp's part of a query tile on the tensor cores: scores, weights and outputs stay in registers, as in
// FlashAttention-2 (arXiv:2307.08691).
#pragma once

#include "fragments.cuh"
#include "scaling.h"
#include "schedule.h"

namespace fused_attention {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// The tiles of a head of D dimensions, padding included: each warp has kWarpRows rows and takes kKeys keys at a time.
template <class T, int D, int kWarpRows>
struct MmaShape {
  static constexpr int kUnits = D * sizeof(T) / 2;  // of a row, see SharedRows
  static constexpr int kRows = kWarps * kWarpRows;
  // Beside the kWarpRows * D / 32 outputs, 255 registers have room for 64 keys' scores and the queries, or for 32 keys'
  // scores with the queries read again for each step.
  static constexpr bool kQueryInRegisters = kWarpRows * kUnits <= 2048;
  static constexpr int kKeys = kQueryInRegisters ? 64 : 32;
  static constexpr int kSharedBytes = (kRows + 2 * kKeys) * kUnits * 2;
};

struct Larger {
  FA_HOST_DEVICE float operator()(float a, float b) const { return larger(a, b); }
};

struct Sum {
  FA_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};

// The state of one warp: `kBlocks` blocks of F::kRows rows.
template <class F, class T, int D, int kWarpRows>
struct WarpAttention {
  using S = MmaShape<T, D, kWarpRows>;
  using Rows = SharedRows<S::kUnits>;
  static constexpr int kBlocks = kWarpRows / F::kRows;
  static constexpr int kKeyBlocks = S::kKeys / 8, kDimBlocks = D / 8;
  static_assert(kBlocks >= 1, "a warp has too few rows for these fragments");

  float out[kBlocks][kDimBlocks][F::kAccumulators];
  float scores[kBlocks][kKeyBlocks][F::kAccumulators];
  float maximum[kBlocks][F::kSlots];  // in exponents of two
  float sum[kBlocks][F::kSlots];      // of this lane's weights alone
  uint32_t query[S::kQueryInRegisters ? kBlocks : 1][S::kQueryInRegisters ? D / 16 : 1][F::kLeftWords];
  int lane, warp_row;
  uint32_t query_at, keys_at, values_at;

  __device__ WarpAttention(int thread, const Rows& q, const Rows& k, const Rows& v)
      : lane(thread % 32), warp_row(thread / 32 * kWarpRows) {
    query_at = F::left_at(q, warp_row, lane);
    keys_at = F::keys_at(k, lane);
    values_at = F::values_at(v, lane);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int n = 0; n < kDimBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < F::kAccumulators; ++i) out[m][n][i] = 0.0f;
      }
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        maximum[m][slot] = minus_infinity();
        sum[m][slot] = 0.0f;
      }
    }
  }

  __device__ int tile_row(int m, int slot) const {
    return warp_row + m * F::kRows + F::row_of(lane) + F::slot_row(slot);
  }

  __device__ void load_query() {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int k = 0; k < (S::kQueryInRegisters ? D / 16 : 0); ++k) {
        F::template load_left<S::kUnits>(query_at, m, k, query[m][k]);
      }
    }
  }

  __device__ void score() {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < F::kAccumulators; ++i) scores[m][n][i] = 0.0f;
      }
    }
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t left[kBlocks][F::kLeftWords];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        if (!S::kQueryInRegisters) F::template load_left<S::kUnits>(query_at, m, k, left[m]);
      }
#pragma unroll
      for (int n = 0; n < kKeyBlocks; n += 2) {
        uint32_t right[2 * F::kRightWords];
        F::template load_keys<S::kUnits>(keys_at, n / 2, k, right);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          const uint32_t* words = S::kQueryInRegisters ? query[m][k] : left[m];
          F::multiply_keys(scores[m][n], words, right);
          F::multiply_keys(scores[m][n + 1], words, right + F::kRightWords);
        }
      }
    }
  }

  // Minus infinity where a row does not see a key.
  __device__ void hide(const Call& call, const Sequence& sequence, const Step& step, int first_row) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        const int row = tile_row(m, slot);
        const uint64_t keys = visible_keys(call, sequence, step, first_row + row, row) >> F::column_of(lane);
        const uint32_t halves[2] = {static_cast<uint32_t>(keys), static_cast<uint32_t>(keys >> 32)};
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
          for (int i = 0; i < F::kAccumulators; ++i) {
            const int column = 8 * n + F::column(i);
            const bool seen = (halves[column / 32] >> (column % 32)) & 1;
            if (F::slot(i) == slot && !seen) scores[m][n][i] = minus_infinity();
          }
        }
      }
    }
  }

  // Scales the visible scores of this step and adds their bias.
  __device__ void add_bias(const Call& call, const Piece& piece, const Sequence& sequence, const Step& step,
                           int first_row, float scale) {
    const AttentionParams& p = call.p;
    const float slope = p.alibi == nullptr ? 0.0f : p.alibi[piece.head];
    const int64_t mask_head = p.mask.offset(piece.batch, piece.head);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        const int row = first_row + tile_row(m, slot);
        const int64_t mask_row = mask_head + row * p.mask.row_stride;
        uint64_t keys = visible_keys(call, sequence, step, row, tile_row(m, slot)) >> F::column_of(lane);
        if (row >= sequence.q_len) keys = 0;
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
          for (int i = 0; i < F::kAccumulators; ++i) {
            const int column = 8 * n + F::column(i);
            if (F::slot(i) != slot) continue;
            float x = minus_infinity();
            if ((keys >> column) & 1) {
              const int key = step.key + column + F::column_of(lane);
              x = scores[m][n][i] * scale + bias_of(p, mask_row, slope, row, key);
            }
            scores[m][n][i] = x;
          }
        }
      }
    }
  }

  // Turns scores into weights, and rescales the earlier sums and outputs to the new maximum. The origin of a row
  // without keys so far is zero: the difference of two infinities would be NaN.
  __device__ void update_softmax(float unit) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        float largest = minus_infinity();
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
          for (int i = 0; i < F::kAccumulators; ++i) {
            if (F::slot(i) == slot) largest = larger(scores[m][n][i], largest);
          }
        }
        largest = F::reduce(largest, Larger()) * unit;
        const float previous = maximum[m][slot];
        const float next = larger(largest, previous);
        const float origin = next == minus_infinity() ? 0.0f : next;
        const float correction = exp2_approximate(previous - origin);
        maximum[m][slot] = next;
        float added = 0.0f;
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
          for (int i = 0; i < F::kAccumulators; ++i) {
            if (F::slot(i) != slot) continue;
            const float weight = exp2_approximate(fmaf(scores[m][n][i], unit, -origin));
            scores[m][n][i] = weight;
            added += weight;
          }
        }
        sum[m][slot] = sum[m][slot] * correction + added;
#pragma unroll
        for (int n = 0; n < kDimBlocks; ++n) {
#pragma unroll
          for (int i = 0; i < F::kAccumulators; ++i) {
            if (F::slot(i) == slot) out[m][n][i] *= correction;
          }
        }
      }
    }
  }

  __device__ void add_values() {
#pragma unroll
    for (int k = 0; k < S::kKeys / 16; ++k) {
      uint32_t weights[kBlocks][F::kLeftWords];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) F::to_left(scores[m][2 * k], scores[m][2 * k + 1], lane, weights[m]);
#pragma unroll
      for (int n = 0; n < kDimBlocks; n += 2) {
        uint32_t right[2 * F::kRightWords];
        F::template load_values<S::kUnits>(values_at, k, n / 2, right);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          F::multiply_values(out[m][n], weights[m], right);
          F::multiply_values(out[m][n + 1], weights[m], right + F::kRightWords);
        }
      }
    }
  }

  // Writes the normalised outputs to this warp's rows in shared memory, as T, and the log-sum-exps of the tile's rows
  // below `count` unless `lse` is null.
  __device__ void normalise(const Rows& rows, float* lse, int count) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      float factor[F::kSlots];
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        const float total = F::reduce(sum[m][slot], Sum());
        factor[slot] = total == 0.0f ? 0.0f : 1.0f / total;
        const int row = tile_row(m, slot);
        if (lse != nullptr && F::column_of(lane) == 0 && row < count) {
          lse[row] = total == 0.0f ? INFINITY : maximum[m][slot] + log2f(total);
        }
      }
#pragma unroll
      for (int n = 0; n < kDimBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < F::kAccumulators; i += 2) {
          const float scale = factor[F::slot(i)];
          const int column = 8 * n + F::column_of(lane) + F::column(i);
          store_pair(T(), rows, tile_row(m, F::slot(i)), column, out[m][n][i] * scale, out[m][n][i + 1] * scale);
        }
      }
    }
  }
};

// Copies a warp's rows from shared to device memory: those below `count`, in chunks of 16 bytes if `vectors`.
template <int D, int kWarpRows>
__device__ inline void store_rows(const SharedRows<D>& rows, int warp_row, uint16_t* target, int64_t stride, int count,
                                  int head_dim, bool vectors) {
  constexpr int kChunks = D / 8;
  for (int i = threadIdx.x % 32; i < kWarpRows * kChunks; i += 32) {
    const int row = warp_row + i / kChunks, chunk = i % kChunks;
    if (row >= count || chunk * 8 >= head_dim) continue;
    const Words4 words = load_shared(rows.at(row, chunk));
    uint16_t* to = target + row * stride + chunk * 8;
    if (vectors) {
      store_global(to, words);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (chunk * 8 + j < head_dim) to[j] = static_cast<uint16_t>(words.x[j / 2] >> (16 * (j % 2)));
      }
    }
  }
}

}  // namespace fused_attention
