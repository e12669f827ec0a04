// Attention on the tensor cores: a thread block computes one query tile of one head.
#pragma once

#include "warp_attention.cuh"

namespace fused_attention {

// Copies `count` rows to shared memory, with zeros beyond them; in chunks of 16 bytes if `vectors`. `head_dim` and
// `stride` count 16-bit units, of which a float32 has two.
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

// Negates the elements that this thread has loaded with load_rows; `signs`: their bits in a word.
template <int D, int kRows>
__device__ inline void negate_rows(const SharedRows<D>& shared, uint32_t signs) {
  constexpr int kChunks = D / 8;
  for (int row = threadIdx.x / kChunks; row < kRows; row += kThreads / kChunks) {
    const uint32_t at = shared.at(row, threadIdx.x % kChunks);
    Words4 words = load_shared(at);
    for (int i = 0; i < 4; ++i) words.x[i] ^= signs;
    store_shared(at, words);
  }
}

// One query tile of one head. Keys and values alternate: while one is multiplied, the other is copied. `kByElement` is
// Scaling::by_element; as a template argument it costs no registers where it is false.
template <class F, class T, int D, int kWarpRows, bool kByElement>
__device__ inline void attend_tile(const Call& call, uint32_t shared) {
  using S = MmaShape<T, D, kWarpRows>;
  constexpr int kUnits = S::kUnits, kElementUnits = sizeof(T) / 2;
  const AttentionParams& p = call.p;
  const Piece piece = piece_of(call, block_index());
  const Sequence sequence = sequence_of(p, piece.batch);
  const int first_row = piece.query_tile * S::kRows;
  const int rows = sequence.q_len - first_row;
  if (rows <= 0) return;

  const SharedRows<kUnits> q_rows{shared}, k_rows{shared + S::kRows * kUnits * 2};
  const SharedRows<kUnits> v_rows{k_rows.base + S::kKeys * kUnits * 2};
  const int64_t kv_head = p.kv_head(piece.head);
  const T* q = rows_of(static_cast<const T*>(p.q), p.q_strides, piece.batch, piece.head) +
               (sequence.q_begin + first_row) * p.q_strides.row;
  const T* k = rows_of(static_cast<const T*>(p.k), p.k_strides, piece.batch, kv_head) +
               sequence.k_begin * p.k_strides.row;
  const T* v = rows_of(static_cast<const T*>(p.v), p.v_strides, piece.batch, kv_head) +
               sequence.k_begin * p.v_strides.row;
  const auto load_step = [&](const T* rows, int64_t stride, const Step& step, const SharedRows<kUnits>& shared_rows) {
    load_rows<kUnits, S::kKeys>(reinterpret_cast<const uint16_t*>(rows + step.key * stride), stride * kElementUnits,
                                sequence.k_len - step.key, p.head_dim * kElementUnits, call.vectors, shared_rows);
  };

  const Steps<S::kKeys> steps(call, piece, sequence, first_row + (rows < S::kRows ? rows : S::kRows) - 1);
  const Scaling scaling(p);
  WarpAttention<F, T, D, kWarpRows> warp(threadIdx.x, q_rows, k_rows, v_rows);
  Step step = {0, kFullTile};
  bool more = steps.at(0, &step);
  load_rows<kUnits, S::kRows>(reinterpret_cast<const uint16_t*>(q), p.q_strides.row * kElementUnits, rows,
                              p.head_dim * kElementUnits, call.vectors, q_rows);
  if (more) load_step(k, p.k_strides.row, step, k_rows);
  wait_for_copies();
  if (scaling.negate_query) negate_rows<kUnits, S::kRows>(q_rows, kElementUnits == 2 ? 0x80000000u : 0x80008000u);
  __syncthreads();
  warp.load_query();
  for (int i = 0; more; ++i) {
    load_step(v, p.v_strides.row, step, v_rows);
    warp.score();
    if (kByElement) {
      warp.add_bias(call, piece, sequence, step, first_row, scaling.element);
    } else if (!is_full<S::kKeys>(call, sequence, step, first_row)) {
      warp.hide(call, sequence, step, first_row);
    }
    wait_for_copies();
    __syncthreads();  // the values have arrived, and every warp is done with these keys
    more = steps.at(i + 1, &step);
    if (more) load_step(k, p.k_strides.row, step, k_rows);
    warp.update_softmax(scaling.unit);
    warp.add_values();
    wait_for_copies();
    __syncthreads();  // the next keys have arrived, and every warp is done with these values
  }
  // Recomputed here to save registers in the loop.
  const Piece same = piece_of(call, block_index());
  const Sequence again = sequence_of(p, same.batch);
  const int tile_begin = same.query_tile * S::kRows, tile_rows = again.q_len - tile_begin;
  float* const lse = p.lse == nullptr ? nullptr : p.of_head(p.lse, same.batch, same.head) + tile_begin;
  warp.normalise(q_rows, lse, tile_rows);
  __syncwarp();
  T* out = rows_of(static_cast<T*>(p.out), p.out_strides, same.batch, same.head) +
           (again.q_begin + tile_begin) * p.out_strides.row;
  store_rows<kUnits, kWarpRows>(q_rows, warp.warp_row, reinterpret_cast<uint16_t*>(out),
                                p.out_strides.row * kElementUnits, tile_rows, p.head_dim * kElementUnits, call.vectors);
}

}  // namespace fused_attention
