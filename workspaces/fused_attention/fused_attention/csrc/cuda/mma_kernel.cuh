// Attention on the tensor cores: each warp keeps its rows' scores, weights and outputs in registers, in the manner of
// FlashAttention-2 (arXiv:2307.08691).
#pragma once

#include "fragments.cuh"
#include "scaling.h"
#include "schedule.h"

namespace fused_attention {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// How a head dimension padded to D is cut: each warp takes kWarpRows rows, kKeys keys at a time.
template <int D, int kWarpRows>
struct MmaShape {
  static constexpr int kRows = kWarps * kWarpRows;
  // What fits into 255 registers beside kWarpRows * D / 32 of outputs: 64 keys' scores and the queries, or the scores of
  // 32 keys, with the queries read again for each step.
  static constexpr bool kQueryInRegisters = kWarpRows * D <= 2048;
  static constexpr int kKeys = kQueryInRegisters ? 64 : 32;
  static constexpr int kSharedBytes = (kRows + 2 * kKeys) * D * 2;
};

struct Larger {
  FA_HOST_DEVICE float operator()(float a, float b) const { return larger(a, b); }
};

struct Sum {
  FA_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};

// `count` rows of head_dim elements to shared memory, zeros beyond them. By chunks of 16 bytes where `vectors`.
template <int D, int kRows>
__device__ inline void load_rows(const uint16_t* rows, int64_t stride, int count, int head_dim, bool vectors,
                                 const SharedRows<D>& shared) {
  constexpr int kChunks = D / 8, kRowsAtOnce = kThreads / kChunks;
  const int chunk = threadIdx.x % kChunks, first = threadIdx.x / kChunks;
  if (vectors) {
    const int present = chunk * 8 < head_dim ? count : 0;
    const uint16_t* source = rows + first * stride + chunk * 8;
#pragma unroll
    for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
      const int row = first + i * kRowsAtOnce;
      copy_async(shared.at(row, chunk), source, row < present);
      source += kRowsAtOnce * stride;
    }
    return;
  }
#pragma unroll 1
  for (int row = first; row < kRows; row += kRowsAtOnce) {
    const uint16_t* source = rows + row * stride;
    Words4 words = {{0, 0, 0, 0}};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int dim = chunk * 8 + i;
      if (row < count && dim < head_dim) words.x[i / 2] |= static_cast<uint32_t>(source[dim]) << (16 * (i % 2));
    }
    store_shared(shared.at(row, chunk), words);
  }
}

// Changes the sign of what this thread has loaded by load_rows.
template <int D, int kRows>
__device__ inline void negate_rows(const SharedRows<D>& shared) {
  constexpr int kChunks = D / 8;
  for (int row = threadIdx.x / kChunks; row < kRows; row += kThreads / kChunks) {
    const uint32_t at = shared.at(row, threadIdx.x % kChunks);
    Words4 words = load_shared(at);
    for (int i = 0; i < 4; ++i) words.x[i] ^= 0x80008000u;
    store_shared(at, words);
  }
}

// The state of one warp: `kBlocks` blocks of F::kRows rows.
template <class F, class T, int D, int kWarpRows>
struct WarpAttention {
  using S = MmaShape<D, kWarpRows>;
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

  __device__ WarpAttention(int thread, const SharedRows<D>& q, const SharedRows<D>& k, const SharedRows<D>& v)
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
        F::template load_left<D>(query_at, m, k, query[m][k]);
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
        if (!S::kQueryInRegisters) F::template load_left<D>(query_at, m, k, left[m]);
      }
#pragma unroll
      for (int n = 0; n < kKeyBlocks; n += 2) {
        uint32_t right[2 * F::kRightWords];
        F::template load_keys<D>(keys_at, n / 2, k, right);
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

  // Scales the scores of this step and adds what is to be added to those that are visible.
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

  // Scores become weights; what was summed up so far is brought to the new maximum. A row that has seen nothing yet
  // counts from zero: the difference of two infinities would be NaN.
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
        F::template load_values<D>(values_at, k, n / 2, right);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          F::multiply_values(out[m][n], weights[m], right);
          F::multiply_values(out[m][n + 1], weights[m], right + F::kRightWords);
        }
      }
    }
  }

  // The outputs to this warp's rows in shared memory, as T.
  __device__ void normalise(const SharedRows<D>& rows) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      float factor[F::kSlots];
#pragma unroll
      for (int slot = 0; slot < F::kSlots; ++slot) {
        const float total = F::reduce(sum[m][slot], Sum());
        factor[slot] = total == 0.0f ? 0.0f : 1.0f / total;
      }
#pragma unroll
      for (int n = 0; n < kDimBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < F::kAccumulators; i += 2) {
          const float scale = factor[F::slot(i)];
          const uint32_t at = rows.at(tile_row(m, F::slot(i)), n) + 2 * (F::column_of(lane) + F::column(i));
          store_shared(at, pack<T>(out[m][n][i] * scale, out[m][n][i + 1] * scale));
        }
      }
    }
  }

  // From there to device memory: rows below `count` of the tile.
  __device__ void store(const SharedRows<D>& rows, uint16_t* target, int64_t stride, int count, int head_dim,
                        bool vectors) const {
    constexpr int kChunks = D / 8;
    for (int i = lane; i < kWarpRows * kChunks; i += 32) {
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
};

// One query tile of one head. Keys and values alternate: while one is multiplied, the other arrives. `kByElement` is
// Scaling::by_element; known beforehand, it costs the others no registers.
template <class F, class T, int D, int kWarpRows, bool kByElement>
__device__ inline void attend_tile(const Call& call, uint32_t shared) {
  using S = MmaShape<D, kWarpRows>;
  const AttentionParams& p = call.p;
  const Piece piece = piece_of(call, block_index());
  const Sequence sequence = sequence_of(p, piece.batch);
  const int first_row = piece.query_tile * S::kRows;
  const int rows = sequence.q_len - first_row;
  if (rows <= 0) return;

  const SharedRows<D> q_rows{shared}, k_rows{shared + S::kRows * D * 2}, v_rows{k_rows.base + S::kKeys * D * 2};
  const int64_t kv_head = p.kv_head(piece.head);
  const uint16_t* q = rows_of(static_cast<const uint16_t*>(p.q), p.q_strides, piece.batch, piece.head) +
                      (sequence.q_begin + first_row) * p.q_strides.row;
  const uint16_t* k = rows_of(static_cast<const uint16_t*>(p.k), p.k_strides, piece.batch, kv_head) +
                      sequence.k_begin * p.k_strides.row;
  const uint16_t* v = rows_of(static_cast<const uint16_t*>(p.v), p.v_strides, piece.batch, kv_head) +
                      sequence.k_begin * p.v_strides.row;
  const auto load_keys = [&](const Step& step) {
    load_rows<D, S::kKeys>(k + step.key * p.k_strides.row, p.k_strides.row, sequence.k_len - step.key, p.head_dim,
                           call.vectors, k_rows);
  };

  const Steps<S::kKeys> steps(call, piece, sequence, first_row + (rows < S::kRows ? rows : S::kRows) - 1);
  const Scaling scaling(p);
  WarpAttention<F, T, D, kWarpRows> warp(threadIdx.x, q_rows, k_rows, v_rows);
  Step step = {0, kFullTile};
  bool more = steps.at(0, &step);
  load_rows<D, S::kRows>(q, p.q_strides.row, rows, p.head_dim, call.vectors, q_rows);
  if (more) load_keys(step);
  wait_for_copies();
  if (scaling.negate_query) negate_rows<D, S::kRows>(q_rows);
  __syncthreads();
  warp.load_query();
  for (int i = 0; more; ++i) {
    load_rows<D, S::kKeys>(v + step.key * p.v_strides.row, p.v_strides.row, sequence.k_len - step.key, p.head_dim,
                           call.vectors, v_rows);
    warp.score();
    if (kByElement) {
      warp.add_bias(call, piece, sequence, step, first_row, scaling.element);
    } else if (!is_full<S::kKeys>(call, sequence, step, first_row)) {
      warp.hide(call, sequence, step, first_row);
    }
    wait_for_copies();
    __syncthreads();  // the values are here, and nobody reads these keys any more
    more = steps.at(i + 1, &step);
    if (more) load_keys(step);
    warp.update_softmax(scaling.unit);
    warp.add_values();
    wait_for_copies();
    __syncthreads();  // the next keys are here, and nobody reads these values any more
  }
  warp.normalise(q_rows);
  __syncwarp();
  // Found out once more: kept all the way, it would take registers from the loop.
  const Piece same = piece_of(call, block_index());
  const Sequence again = sequence_of(p, same.batch);
  const int tile_begin = same.query_tile * S::kRows;
  uint16_t* out = rows_of(static_cast<uint16_t*>(p.out), p.out_strides, same.batch, same.head) +
                  (again.q_begin + tile_begin) * p.out_strides.row;
  warp.store(q_rows, out, p.out_strides.row, again.q_len - tile_begin, p.head_dim, call.vectors);
}

}  // namespace fused_attention
