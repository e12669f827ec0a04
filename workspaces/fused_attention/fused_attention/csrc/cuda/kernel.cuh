// Attention on the CUDA cores, from compute capability 6.0 on: no torch, no library, under 48 KB of shared memory.
#pragma once

#include "../params.h"
#include "../softmax.h"

namespace fused_attention {

constexpr int kThreads = 128;

// How a head dimension padded to D is cut: a thread block takes kRows query rows against kKeys keys at a time. Its
// threads form a grid of kThreads / kColumns by kColumns, where kColumns neighbours of one warp share rows.
template <int D>
struct Shape {
  static constexpr int kRows = D <= 64 ? 64 : D == 128 ? 32 : 16;
  static constexpr int kKeys = D <= 128 ? 32 : 16;
  static constexpr int kColumns = D <= 64 ? 8 : 16;
  static constexpr int kThreadRows = kRows * kColumns / kThreads;
  static constexpr int kThreadKeys = kKeys / kColumns;
  static constexpr int kThreadDims = D / kColumns;
};

template <int kColumns>
__device__ inline float row_maximum(float x) {
  for (int lane = kColumns / 2; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, lane, kColumns);
    x = other > x ? other : x;
  }
  return x;
}

template <int kColumns>
__device__ inline float row_sum(float x) {
  for (int lane = kColumns / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane, kColumns);
  return x;
}

// tile[row][d], or tile[d][row] if transposed, of `count` rows; zero beyond the tensor's ends.
template <int D, int kCount, bool kTransposed, class T>
__device__ inline void load_tile(const T* rows, int64_t row_stride, int64_t count, int head_dim, float scale,
                                 float* tile) {
  for (int i = threadIdx.x; i < kCount * D; i += kThreads) {
    const int row = i / D, d = i % D;
    const bool inside = row < count && d < head_dim;
    const float x = inside ? to_float(rows[row * row_stride + d]) * scale : 0.0f;
    // A column more than there are rows keeps the transposed writes of a warp in different banks.
    tile[kTransposed ? d * (kCount + 1) + row : i] = x;
  }
}

template <class T, int D>
__device__ inline void attend_rows(const AttentionParams& p, int64_t batch, int64_t head, int64_t first_row) {
  using S = Shape<D>;
  __shared__ float query[D * (S::kRows + 1)];
  __shared__ float keys_or_values[D * (S::kKeys + 1)];
  __shared__ float weights[S::kRows * (S::kKeys + 1)];

  const int column = threadIdx.x % S::kColumns;
  const int thread_row = threadIdx.x / S::kColumns * S::kThreadRows;
  const int64_t kv_head = p.kv_head(head);
  const int64_t mask_head = p.mask.offset(batch, head);
  const T* q = rows_of(static_cast<const T*>(p.q), p.q_strides, batch, head) + first_row * p.q_strides.row;
  const T* k = rows_of(static_cast<const T*>(p.k), p.k_strides, batch, kv_head);
  const T* v = rows_of(static_cast<const T*>(p.v), p.v_strides, batch, kv_head);

  __syncthreads();  // the block's previous rows may still be read
  load_tile<D, S::kRows, true>(q, p.q_strides.row, p.q_len - first_row, p.head_dim, p.scale, query);

  OnlineSoftmax<ScalarMath> softmax[S::kThreadRows];
  float out[S::kThreadRows][S::kThreadDims] = {};
#pragma unroll
  for (int r = 0; r < S::kThreadRows; ++r) softmax[r].reset();

  const int64_t last_row = first_row + S::kRows < p.q_len ? first_row + S::kRows - 1 : p.q_len - 1;
  const int64_t key_end = p.mask.key_end(last_row, p.k_len);
  for (int64_t key = 0; key < key_end; key += S::kKeys) {
    load_tile<D, S::kKeys, true>(k + key * p.k_strides.row, p.k_strides.row, key_end - key, p.head_dim, 1.0f,
                                 keys_or_values);
    __syncthreads();

    float score[S::kThreadRows][S::kThreadKeys] = {};
#pragma unroll 4
    for (int d = 0; d < D; ++d) {
#pragma unroll
      for (int r = 0; r < S::kThreadRows; ++r) {
        const float left = query[d * (S::kRows + 1) + thread_row + r];
#pragma unroll
        for (int c = 0; c < S::kThreadKeys; ++c) {
          score[r][c] += left * keys_or_values[d * (S::kKeys + 1) + column + c * S::kColumns];
        }
      }
    }

#pragma unroll
    for (int r = 0; r < S::kThreadRows; ++r) {
      const int64_t row = first_row + thread_row + r;
      float maximum = minus_infinity();
#pragma unroll
      for (int c = 0; c < S::kThreadKeys; ++c) {
        const int64_t this_key = key + column + c * S::kColumns;
        const bool inside = row < p.q_len && this_key < key_end;
        score[r][c] = inside ? p.mask.apply(score[r][c], mask_head, row, this_key) : minus_infinity();
        maximum = score[r][c] > maximum ? score[r][c] : maximum;
      }
      const float correction = softmax[r].raise(row_maximum<S::kColumns>(maximum));
      float sum = 0.0f;
#pragma unroll
      for (int c = 0; c < S::kThreadKeys; ++c) {
        const float weight = ScalarMath::exp(score[r][c] - softmax[r].origin());
        weights[(thread_row + r) * (S::kKeys + 1) + column + c * S::kColumns] = weight;
        sum += weight;
      }
      softmax[r].add(row_sum<S::kColumns>(sum));
#pragma unroll
      for (int d = 0; d < S::kThreadDims; ++d) out[r][d] *= correction;
    }

    __syncthreads();
    load_tile<D, S::kKeys, false>(v + key * p.v_strides.row, p.v_strides.row, key_end - key, p.head_dim, 1.0f,
                                  keys_or_values);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < S::kKeys; ++j) {
#pragma unroll
      for (int r = 0; r < S::kThreadRows; ++r) {
        const float weight = weights[(thread_row + r) * (S::kKeys + 1) + j];
#pragma unroll
        for (int d = 0; d < S::kThreadDims; ++d) {
          out[r][d] += weight * keys_or_values[j * D + column + d * S::kColumns];
        }
      }
    }
    __syncthreads();
  }

  T* target = rows_of(static_cast<T*>(p.out), p.out_strides, batch, head);
#pragma unroll
  for (int r = 0; r < S::kThreadRows; ++r) {
    const int64_t row = first_row + thread_row + r;
#pragma unroll
    for (int d = 0; d < S::kThreadDims; ++d) {
      const int dim = column + d * S::kColumns;
      if (row < p.q_len && dim < p.head_dim) {
        target[row * p.out_strides.row + dim] = from_float<T>(softmax[r].normalise(out[r][d]));
      }
    }
  }
}

template <int D>
FA_HOST_DEVICE int64_t block_count(const AttentionParams& p) {
  return (p.q_len + Shape<D>::kRows - 1) / Shape<D>::kRows;
}

// One thread block a piece; the loop is for more pieces than a grid may have blocks.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend_kernel(const AttentionParams p) {
  const int64_t blocks = block_count<D>(p);
  const int64_t pieces = p.batch * p.heads * blocks;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t head = piece / blocks;
    attend_rows<T, D>(p, head / p.heads, head % p.heads, piece % blocks * Shape<D>::kRows);
  }
}

}  // namespace fused_attention
