// Attention on the CUDA cores with float32 products, from compute capability 6.0 on, in under 48 KB of shared memory:
// for float32, and for 16-bit types where a GPU has no tensor cores for them.
#pragma once

#include "../numeric.h"
#ifndef FUSED_ATTENTION_EMULATED
#include "instructions.cuh"
#endif
#include "scaling.h"
#include "schedule.h"

namespace fused_attention {

constexpr int kSimtThreads = 128;

// How a head dimension padded to D is cut: a thread block takes kRows query rows against kKeys keys at a time. Its
// threads form a grid of kSimtThreads / kColumns by kColumns, where kColumns neighbours of one warp share rows.
template <int D>
struct SimtShape {
  static constexpr int kRows = D <= 64 ? 64 : D == 128 ? 32 : 16;
  static constexpr int kKeys = D <= 128 ? 32 : 16;
  static constexpr int kColumns = D <= 64 ? 8 : 16;
  static constexpr int kThreadRows = kRows * kColumns / kSimtThreads;
  static constexpr int kThreadKeys = kKeys / kColumns;
  static constexpr int kThreadDims = D / kColumns;
  // Lines of transposed tiles: four words of padding keep them apart in the banks, and 16-byte reads aligned.
  static constexpr int kRowLine = kRows + 4, kKeyLine = kKeys + 4;
};

template <int kCount>
struct alignas(4 * kCount) Floats {
  float x[kCount];
};

template <int kCount>
__device__ inline Floats<kCount> read_floats(const float* from) {
  return *reinterpret_cast<const Floats<kCount>*>(from);
}

template <int kColumns>
__device__ inline float maximum_of_row(float x) {
#pragma unroll
  for (int lanes = kColumns / 2; lanes > 0; lanes /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  return x;
}

template <int kColumns>
__device__ inline float sum_of_row(float x) {
#pragma unroll
  for (int lanes = kColumns / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

// tile[d * kLine + row] = rows[row][d] * scale, zero beyond the tensor's ends. A warp takes 4 rows by 8 dimensions: its
// reads fill sectors, and its writes go to 32 different banks.
template <int D, int kCount, int kLine, class T>
__device__ inline void load_transposed(const T* rows, int64_t stride, int count, int head_dim, float scale,
                                       float* tile) {
  const int lane = threadIdx.x % 32;
#pragma unroll 4
  for (int patch = threadIdx.x / 32; patch < kCount / 4 * (D / 8); patch += kSimtThreads / 32) {
    const int row = patch / (D / 8) * 4 + lane / 8, d = patch % (D / 8) * 8 + lane % 8;
    const bool inside = row < count && d < head_dim;
    tile[d * kLine + row] = inside ? to_float(rows[row * stride + d]) * scale : 0.0f;
  }
}

template <int D, int kCount, class T>
__device__ inline void load_lines(const T* rows, int64_t stride, int count, int head_dim, float* tile) {
#pragma unroll 4
  for (int i = threadIdx.x; i < kCount * D; i += kSimtThreads) {
    const int row = i / D, d = i % D;
    tile[i] = row < count && d < head_dim ? to_float(rows[row * stride + d]) : 0.0f;
  }
}

// The d-th run of four output dimensions of a thread.
template <int D>
FA_HOST_DEVICE int dimension_of(int column, int d) {
  return (d / 4 * SimtShape<D>::kColumns + column) * 4 + d % 4;
}

template <class T, int D>
__device__ inline void attend_tile_simt(const Call& call) {
  using S = SimtShape<D>;
  constexpr int kTileFloats = D * S::kKeyLine > S::kKeys * D ? D * S::kKeyLine : S::kKeys * D;
  alignas(16) __shared__ float query[D * S::kRowLine];
  alignas(16) __shared__ float keys_or_values[kTileFloats];
  alignas(16) __shared__ float weights[S::kKeys * S::kRowLine];

  const AttentionParams& p = call.p;
  const Piece piece = piece_of(call, blockIdx.x);
  const Sequence sequence = sequence_of(p, piece.batch);
  const int first_row = piece.query_tile * S::kRows;
  const int rows = sequence.q_len - first_row;
  if (rows <= 0) return;

  const int column = threadIdx.x % S::kColumns;
  const int thread_row = threadIdx.x / S::kColumns * S::kThreadRows;
  const int64_t kv_head = p.kv_head(piece.head);
  const int64_t mask_head = p.mask.offset(piece.batch, piece.head);
  const float slope = p.alibi == nullptr ? 0.0f : p.alibi[piece.head];
  const bool has_bias = p.mask.is_additive() || p.alibi != nullptr;
  const T* q = rows_of(static_cast<const T*>(p.q), p.q_strides, piece.batch, piece.head) +
               (sequence.q_begin + first_row) * p.q_strides.row;
  const T* k = rows_of(static_cast<const T*>(p.k), p.k_strides, piece.batch, kv_head) +
               sequence.k_begin * p.k_strides.row;
  const T* v = rows_of(static_cast<const T*>(p.v), p.v_strides, piece.batch, kv_head) +
               sequence.k_begin * p.v_strides.row;
  load_transposed<D, S::kRows, S::kRowLine>(q, p.q_strides.row, rows, p.head_dim, p.scale * kLog2E, query);

  float maximum[S::kThreadRows], sum[S::kThreadRows], out[S::kThreadRows][S::kThreadDims] = {};
#pragma unroll
  for (int r = 0; r < S::kThreadRows; ++r) {
    maximum[r] = minus_infinity();
    sum[r] = 0.0f;
  }

  const Steps<S::kKeys> steps(call, piece, sequence, first_row + (rows < S::kRows ? rows : S::kRows) - 1);
  Step step = {0, kFullTile};
  for (int i = 0; steps.at(i, &step); ++i) {
    load_transposed<D, S::kKeys, S::kKeyLine>(k + step.key * p.k_strides.row, p.k_strides.row,
                                              sequence.k_len - step.key, p.head_dim, 1.0f, keys_or_values);
    __syncthreads();

    float score[S::kThreadRows][S::kThreadKeys] = {};
#pragma unroll 8
    for (int d = 0; d < D; ++d) {
      const auto left = read_floats<S::kThreadRows>(query + d * S::kRowLine + thread_row);
      const auto right = read_floats<S::kThreadKeys>(keys_or_values + d * S::kKeyLine + column * S::kThreadKeys);
#pragma unroll
      for (int r = 0; r < S::kThreadRows; ++r) {
#pragma unroll
        for (int c = 0; c < S::kThreadKeys; ++c) score[r][c] += left.x[r] * right.x[c];
      }
    }

    const bool full = !has_bias && is_full<S::kKeys>(call, sequence, step, first_row);
#pragma unroll
    for (int r = 0; r < S::kThreadRows; ++r) {
      const int row = first_row + thread_row + r;
      if (!full) {
        const uint64_t keys = row < sequence.q_len ? visible_keys(call, sequence, step, row, thread_row + r) : 0;
        const int64_t mask_row = mask_head + row * p.mask.row_stride;
#pragma unroll
        for (int c = 0; c < S::kThreadKeys; ++c) {
          const int this_key = column * S::kThreadKeys + c;
          const bool seen = (keys >> this_key) & 1;
          if (seen && has_bias) score[r][c] += bias_of(p, mask_row, slope, row, step.key + this_key);
          if (!seen) score[r][c] = minus_infinity();
        }
      }
      float largest = score[r][0];
#pragma unroll
      for (int c = 1; c < S::kThreadKeys; ++c) largest = larger(largest, score[r][c]);
      const float previous = maximum[r];
      maximum[r] = larger(maximum_of_row<S::kColumns>(largest), previous);
      // The origin of a row without keys so far is zero: the difference of two infinities would be NaN.
      const float origin = maximum[r] == minus_infinity() ? 0.0f : maximum[r];
      const float correction = exp2_approximate(previous - origin);
      sum[r] *= correction;
#pragma unroll
      for (int c = 0; c < S::kThreadKeys; ++c) {
        const float weight = exp2_approximate(score[r][c] - origin);
        weights[(column * S::kThreadKeys + c) * S::kRowLine + thread_row + r] = weight;
        sum[r] += weight;
      }
#pragma unroll
      for (int d = 0; d < S::kThreadDims; ++d) out[r][d] *= correction;
    }

    __syncthreads();  // every thread is done with these keys
    load_lines<D, S::kKeys>(v + step.key * p.v_strides.row, p.v_strides.row, sequence.k_len - step.key, p.head_dim,
                            keys_or_values);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < S::kKeys; ++j) {
      const auto left = read_floats<S::kThreadRows>(weights + j * S::kRowLine + thread_row);
#pragma unroll
      for (int d = 0; d < S::kThreadDims; d += 4) {
        const auto right = read_floats<4>(keys_or_values + j * D + dimension_of<D>(column, d));
#pragma unroll
        for (int r = 0; r < S::kThreadRows; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) out[r][d + c] += left.x[r] * right.x[c];
        }
      }
    }
    __syncthreads();
  }

  T* target = rows_of(static_cast<T*>(p.out), p.out_strides, piece.batch, piece.head) +
              (sequence.q_begin + first_row) * p.out_strides.row;
#pragma unroll
  for (int r = 0; r < S::kThreadRows; ++r) {
    const float total = sum_of_row<S::kColumns>(sum[r]);
    const float factor = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
    for (int d = 0; d < S::kThreadDims; ++d) {
      const int dim = dimension_of<D>(column, d);
      if (thread_row + r < rows && dim < p.head_dim) {
        target[(thread_row + r) * p.out_strides.row + dim] = from_float<T>(out[r][d] * factor);
      }
    }
  }
}

}  // namespace fused_attention
