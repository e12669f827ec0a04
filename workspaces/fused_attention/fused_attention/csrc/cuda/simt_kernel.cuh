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
  // Padding spreads the lines of a tile over the banks, and keeps 16-byte reads aligned.
  static constexpr int kRowLine = kRows + 4, kKeyLine = kKeys + 4, kValueLine = D + 8;
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

// A thread's part of a tile of kCount rows by D dimensions. Reading into registers and writing to shared memory are two
// steps, so that products run while a read is under way.
//
// A warp reads patches of 4 rows by 8 dimensions, which fill sectors. It writes them to 32 different banks, transposed
// or not: the lines of a tile are padded for that.
template <int D, int kCount>
struct Part {
  static_assert(kSimtThreads == 128 && D % 32 == 0 && kCount % 4 == 0, "four warps take 4 rows by 32 dimensions");
  float x[kCount / 4][D / 32];

  __device__ static int row(int i) { return 4 * i + threadIdx.x % 32 / 8; }
  __device__ static int dim(int j) { return 32 * j + threadIdx.x / 32 * 8 + threadIdx.x % 8; }

  // rows[row][dim], zero beyond the tensor's ends.
  template <class T>
  __device__ void read(const T* rows, int64_t stride, int count, int head_dim) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const T* from = rows + row(i) * stride;
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        x[i][j] = row(i) < count && dim(j) < head_dim ? to_float(from[dim(j)]) : 0.0f;
      }
    }
  }

  // tile[dim * kLine + row], times `scale`.
  template <int kLine>
  __device__ void write_transposed(float* tile, float scale = 1.0f) const {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int j = 0; j < D / 32; ++j) tile[dim(j) * kLine + row(i)] = x[i][j] * scale;
    }
  }

  // tile[row * kLine + dim]
  template <int kLine>
  __device__ void write(float* tile) const {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int j = 0; j < D / 32; ++j) tile[row(i) * kLine + dim(j)] = x[i][j];
    }
  }
};

// The d-th run of four output dimensions of a thread.
template <int D>
FA_HOST_DEVICE int dimension_of(int column, int d) {
  return (d / 4 * SimtShape<D>::kColumns + column) * 4 + d % 4;
}

template <class T, int D>
__device__ inline void attend_tile_simt(const Call& call) {
  using S = SimtShape<D>;
  constexpr int kTransposed = D * S::kKeyLine, kLines = S::kKeys * S::kValueLine;
  constexpr int kTileFloats = kTransposed > kLines ? kTransposed : kLines;
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
  Part<D, S::kRows> queries;
  queries.read(q, p.q_strides.row, rows, p.head_dim);
  queries.template write_transposed<S::kRowLine>(query, p.scale * kLog2E);

  float maximum[S::kThreadRows], sum[S::kThreadRows], out[S::kThreadRows][S::kThreadDims] = {};
#pragma unroll
  for (int r = 0; r < S::kThreadRows; ++r) {
    maximum[r] = minus_infinity();
    sum[r] = 0.0f;
  }

  const Steps<S::kKeys> steps(call, piece, sequence, first_row + (rows < S::kRows ? rows : S::kRows) - 1);
  Step step = {0, kFullTile};
  Part<D, S::kKeys> part;  // of keys or values
  const auto read = [&](const T* from, int64_t stride) {
    part.read(from + step.key * stride, stride, sequence.k_len - step.key, p.head_dim);
  };
  bool more = steps.at(0, &step);
  if (more) read(k, p.k_strides.row);
  for (int i = 1; more; ++i) {
    part.template write_transposed<S::kKeyLine>(keys_or_values);
    __syncthreads();
    read(v, p.v_strides.row);

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
    part.template write<S::kValueLine>(keys_or_values);
    more = steps.at(i, &step);
    if (more) read(k, p.k_strides.row);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < S::kKeys; ++j) {
      const auto left = read_floats<S::kThreadRows>(weights + j * S::kRowLine + thread_row);
#pragma unroll
      for (int d = 0; d < S::kThreadDims; d += 4) {
        const auto right = read_floats<4>(keys_or_values + j * S::kValueLine + dimension_of<D>(column, d));
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
