// The gradients on the tensor cores. cpu/gradient.h has the formulas.
//
// Two passes need no atomic additions and give equal bits from run to run: a thread block of the first has a tile of
// query rows and finishes its dQ; one of the second has a tile of keys and finishes its dK and dV, over all heads that
// share the keys. Both compute the weights, 2^(score - lse), again: seven products instead of five. In the second pass
// scores are transposed, with keys in the rows, so that weights and score gradients come out of one product as the left
// operand of the next, and never leave the registers.
#pragma once

#include "gradient_call.h"
#include "mma_kernel.cuh"

namespace fused_attention {

// A step has so many keys in the first pass, and query rows in the second. In the second a lane has 2 * D / 4 sums and
// 2 * kRows / 4 weights and their gradients.
template <int D>
struct GradientShape {
  static constexpr int kStep = D <= 64 ? 64 : 32;
  static constexpr int kNumbers = 2 * (kGradientRows + kStep) * D * 2;  // offset of what is no matrix
  // The words of visible keys, lse and delta of a step's rows, and a number for each of kThreads query tiles.
  static constexpr int kSharedBytes = kNumbers + kStep * 16 + kThreads * 4;
};

static_assert(kGradientRows == kWarps * 16, "each warp has 16 rows or keys");

// c = 16 rows, left, times kColumns rows, right, transposed.
template <class F, int D, int kColumns>
__device__ inline void score_rows(uint32_t left_at, uint32_t right_at, float (&c)[kColumns / 8][F::kAccumulators]) {
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < F::kAccumulators; ++i) c[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t left[F::kLeftWords];
    F::template load_left<D>(left_at, 0, k, left);
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t right[2 * F::kRightWords];
      F::template load_keys<D>(right_at, n / 2, k, right);
      F::multiply_keys(c[n], left, right);
      F::multiply_keys(c[n + 1], left, right + F::kRightWords);
    }
  }
}

// sums += 16 rows of kDepth weights times kDepth rows of D.
template <class F, int D, int kDepth>
__device__ inline void add_rows(const float (&weights)[kDepth / 8][F::kAccumulators], uint32_t rows_at, int lane,
                                float (&sums)[D / 8][F::kAccumulators]) {
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    uint32_t left[F::kLeftWords];
    F::to_left(weights[2 * k], weights[2 * k + 1], lane, left);
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t right[2 * F::kRightWords];
      F::template load_values<D>(rows_at, k, n / 2, right);
      F::multiply_values(sums[n], left, right);
      F::multiply_values(sums[n + 1], left, right + F::kRightWords);
    }
  }
}

template <class F, int D>
__device__ inline void clear(float (&sums)[D / 8][F::kAccumulators]) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int i = 0; i < F::kAccumulators; ++i) sums[n][i] = 0.0f;
  }
}

// Writes a warp's sums times `scale` over its own rows in shared memory, and from there to `target`.
template <class F, class T, int D>
__device__ inline void store_sums(const float (&sums)[D / 8][F::kAccumulators], float scale,
                                  const SharedRows<D>& rows, int warp_row, uint16_t* target, int64_t stride,
                                  int count, int head_dim, bool vectors) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int i = 0; i < F::kAccumulators; i += 2) {
      const int row = warp_row + F::row_of(lane) + F::slot_row(F::slot(i));
      store_shared(rows.at(row, n) + 2 * (F::column_of(lane) + F::column(i)),
                   pack<T>(sums[n][i] * scale, sums[n][i + 1] * scale));
    }
  }
  __syncwarp();
  store_rows<D, 16>(rows, warp_row, target, stride, count, head_dim, vectors);
}

// The weight of a score and, in place of the gradient of the weight, the gradient of the score.
__device__ inline void differentiate(bool is_seen, float exponent, float delta, float* weight, float* gradient) {
  *weight = is_seen ? exp2_approximate(exponent) : 0.0f;
  *gradient = *weight * (*gradient - delta);
}

// The first element of a row of a head.
__device__ inline const uint16_t* row_at(const void* tensor, const Strides& strides, int64_t batch, int64_t head,
                                         int64_t row) {
  return rows_of(static_cast<const uint16_t*>(tensor), strides, batch, head) + row * strides.row;
}

// delta[row] = the product of a row of the result and of its gradient. A warp has a row.
template <class T>
__device__ inline void sum_products(const GradientCall& c) {
  const AttentionParams& p = c.call.p;
  const int64_t index = static_cast<int64_t>(block_index()) * kWarps + threadIdx.x / 32;
  const int64_t row = index % p.q_len, head = index / p.q_len % p.heads, batch = index / p.q_len / p.heads;
  if (batch >= p.batch) return;
  const Sequence sequence = sequence_of(p, batch);
  if (row >= sequence.q_len) return;
  const uint16_t* out = row_at(p.out, p.out_strides, batch, head, sequence.q_begin + row);
  const uint16_t* gradient = row_at(c.g.out_gradient, c.g.out_strides, batch, head, sequence.q_begin + row);
  float sum = 0.0f;
  for (int d = threadIdx.x % 32; d < p.head_dim; d += 32) sum += to_float(T{out[d]}) * to_float(T{gradient[d]});
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) p.of_head(c.g.delta, batch, head)[row] = sum;
}

// dQ of one tile of query rows of one head.
template <class F, class T, int D, bool kBias>
__device__ inline void differentiate_rows(const GradientCall& c, uint32_t shared) {
  constexpr int kKeys = GradientShape<D>::kStep;
  const AttentionParams& p = c.call.p;
  const Piece piece = piece_of(c.call, block_index());
  const Sequence sequence = sequence_of(p, piece.batch);
  const int first_row = piece.query_tile * kGradientRows, rows = sequence.q_len - first_row;
  if (rows <= 0) return;
  const SharedRows<D> q_rows{shared}, g_rows{q_rows.base + kGradientRows * D * 2};
  const SharedRows<D> k_rows{g_rows.base + kGradientRows * D * 2}, v_rows{k_rows.base + kKeys * D * 2};
  const int64_t kv_head = p.kv_head(piece.head), row_begin = sequence.q_begin + first_row;
  load_rows<D, kGradientRows>(row_at(p.q, p.q_strides, piece.batch, piece.head, row_begin), p.q_strides.row, rows,
                              p.head_dim, c.vectors, q_rows);
  load_rows<D, kGradientRows>(row_at(c.g.out_gradient, c.g.out_strides, piece.batch, piece.head, row_begin),
                              c.g.out_strides.row, rows, p.head_dim, c.vectors, g_rows);

  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
  const float* lse_of_tile = p.of_head(p.lse, piece.batch, piece.head) + first_row;
  const float* delta_of_tile = p.of_head(c.g.delta, piece.batch, piece.head) + first_row;
  float lse[F::kSlots], delta[F::kSlots];
#pragma unroll
  for (int slot = 0; slot < F::kSlots; ++slot) {
    const int row = warp_row + F::row_of(lane) + F::slot_row(slot);
    lse[slot] = row < rows ? lse_of_tile[row] : INFINITY;
    delta[slot] = row < rows ? delta_of_tile[row] : 0.0f;
  }
  const float unit = p.scale * kLog2E, slope = kBias && p.alibi != nullptr ? p.alibi[piece.head] : 0.0f;
  const int64_t mask_head = p.mask.offset(piece.batch, piece.head);
  float sums[D / 8][F::kAccumulators];
  clear<F, D>(sums);
  const Steps<kKeys> steps(c.call, piece, sequence, first_row + (rows < kGradientRows ? rows : kGradientRows) - 1);
  Step step = {0, kFullTile};
  for (int i = 0; steps.at(i, &step); ++i) {
    const int64_t key_begin = sequence.k_begin + step.key;
    load_rows<D, kKeys>(row_at(p.k, p.k_strides, piece.batch, kv_head, key_begin), p.k_strides.row,
                        sequence.k_len - step.key, p.head_dim, c.vectors, k_rows);
    load_rows<D, kKeys>(row_at(p.v, p.v_strides, piece.batch, kv_head, key_begin), p.v_strides.row,
                        sequence.k_len - step.key, p.head_dim, c.vectors, v_rows);
    wait_for_copies();
    __syncthreads();
    float weights[kKeys / 8][F::kAccumulators], gradients[kKeys / 8][F::kAccumulators];
    score_rows<F, D, kKeys>(F::left_at(q_rows, warp_row, lane), F::keys_at(k_rows, lane), weights);
    score_rows<F, D, kKeys>(F::left_at(g_rows, warp_row, lane), F::keys_at(v_rows, lane), gradients);
#pragma unroll
    for (int slot = 0; slot < F::kSlots; ++slot) {
      const int tile_row = warp_row + F::row_of(lane) + F::slot_row(slot), row = first_row + tile_row;
      const uint64_t keys = tile_row < rows ? visible_keys(c.call, sequence, step, row, tile_row) : 0;
      const int64_t mask_row = mask_head + row * p.mask.row_stride;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int j = 0; j < F::kAccumulators; ++j) {
          if (F::slot(j) != slot) continue;
          const int column = 8 * n + F::column(j) + F::column_of(lane);
          const bool is_seen = (keys >> column) & 1;
          float exponent = fmaf(weights[n][j], unit, -lse[slot]);
          if (kBias && is_seen) exponent += bias_of(p, mask_row, slope, row, step.key + column);
          differentiate(is_seen, exponent, delta[slot], &weights[n][j], &gradients[n][j]);
        }
      }
    }
    add_rows<F, D, kKeys>(gradients, F::values_at(k_rows, lane), lane, sums);
    __syncthreads();  // every warp is done with these keys
  }
  wait_for_copies();
  __syncthreads();
  if (c.g.dq == nullptr) return;
  uint16_t* const dq = rows_of(static_cast<uint16_t*>(c.g.dq), c.g.dq_strides, piece.batch, piece.head);
  store_sums<F, T, D>(sums, p.scale, q_rows, warp_row, dq + row_begin * c.g.dq_strides.row, c.g.dq_strides.row, rows,
                      p.head_dim, c.vectors);
}

constexpr int32_t kNotListed = -2;

// What a query tile's list says of a tile of keys: a block of bits, kFullTile or kNotListed.
__device__ inline int32_t find_tile(const Call& call, int64_t batch, int64_t head, int32_t query_tile,
                                    int32_t key_tile, int32_t q_len) {
  if (!call.tiles.exists()) {
    const int32_t end = (query_tile + 1) * kGradientRows, last_row = (end < q_len ? end : q_len) - 1;
    return call.p.mask.causal && last_row < key_tile * kTileKeys ? kNotListed : kFullTile;
  }
  const KeyTileRange range = call.tiles.range(batch, head, query_tile);
  int32_t begin = range.begin, end = range.end;
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    if (call.tiles.tiles[middle].index < key_tile) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  const bool is_listed = begin < range.end && call.tiles.tiles[begin].index == key_tile;
  return is_listed ? call.tiles.tiles[begin].bits : kNotListed;
}

// dK and dV of one tile of keys of one key/value head.
template <class F, class T, int D, bool kBias>
__device__ inline void differentiate_keys(const GradientCall& c, uint32_t shared) {
  constexpr int kRows = GradientShape<D>::kStep;
  const AttentionParams& p = c.call.p;
  const uint32_t key_tiles = static_cast<uint32_t>((p.k_len + kTileKeys - 1) / kTileKeys);
  const uint32_t pair = block_index() / key_tiles, kv_heads = static_cast<uint32_t>(p.kv_heads);
  const int32_t tile = static_cast<int32_t>(block_index() % key_tiles), first_key = tile * kTileKeys;
  const int64_t batch = pair / kv_heads, kv_head = pair % kv_heads, group = p.heads / p.kv_heads;
  const Sequence sequence = sequence_of(p, batch);
  const int keys = sequence.k_len - first_key;
  if (keys <= 0) return;
  const SharedRows<D> k_rows{shared}, v_rows{k_rows.base + kTileKeys * D * 2};
  const SharedRows<D> q_rows{v_rows.base + kTileKeys * D * 2}, g_rows{q_rows.base + kRows * D * 2};
  const uint32_t seen_at = shared + GradientShape<D>::kNumbers, lse_at = seen_at + kRows * 8;
  const uint32_t delta_at = lse_at + kRows * 4, listed_at = delta_at + kRows * 4;
  const int64_t key_begin = sequence.k_begin + first_key;
  load_rows<D, kTileKeys>(row_at(p.k, p.k_strides, batch, kv_head, key_begin), p.k_strides.row, keys, p.head_dim,
                          c.vectors, k_rows);
  load_rows<D, kTileKeys>(row_at(p.v, p.v_strides, batch, kv_head, key_begin), p.v_strides.row, keys, p.head_dim,
                          c.vectors, v_rows);
  wait_for_copies();

  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp_row = thread / 32 * 16;
  const float unit = p.scale * kLog2E;
  float dk[D / 8][F::kAccumulators], dv[D / 8][F::kAccumulators];
  clear<F, D>(dk);
  clear<F, D>(dv);
  const int32_t query_tiles = (sequence.q_len + kGradientRows - 1) / kGradientRows;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float* lse = p.of_head(p.lse, batch, head);
    const float* delta = p.of_head(c.g.delta, batch, head);
    const float slope = kBias && p.alibi != nullptr ? p.alibi[head] : 0.0f;
    const int64_t mask_head = p.mask.offset(batch, head);
    for (int32_t base = 0; base < query_tiles; base += kThreads) {
      int32_t listed = kNotListed;
      if (base + thread < query_tiles) listed = find_tile(c.call, batch, head, base + thread, tile, sequence.q_len);
      store_shared(listed_at + thread * 4, static_cast<uint32_t>(listed));
      __syncthreads();
      const int32_t count = query_tiles - base < kThreads ? query_tiles - base : kThreads;
      for (int32_t t = 0; t < count; ++t) {
        uint32_t listed_pair[2];
        load_shared_pair(listed_at + (t & ~1) * 4, listed_pair);
        const Step step = {first_key, static_cast<int32_t>((t & 1) != 0 ? listed_pair[1] : listed_pair[0])};
        if (step.bits == kNotListed) continue;
        for (int32_t from = 0; from < kGradientRows; from += kRows) {
          const int32_t row = (base + t) * kGradientRows + from, rows = sequence.q_len - row;
          if (rows <= 0) break;
          load_rows<D, kRows>(row_at(p.q, p.q_strides, batch, head, sequence.q_begin + row), p.q_strides.row, rows,
                              p.head_dim, c.vectors, q_rows);
          load_rows<D, kRows>(row_at(c.g.out_gradient, c.g.out_strides, batch, head, sequence.q_begin + row),
                              c.g.out_strides.row, rows, p.head_dim, c.vectors, g_rows);
          if (thread < kRows) {
            const bool is_row = thread < rows;
            const uint64_t seen = is_row ? visible_keys(c.call, sequence, step, row + thread, from + thread) : 0;
            store_shared(seen_at + thread * 8, static_cast<uint32_t>(seen));
            store_shared(seen_at + thread * 8 + 4, static_cast<uint32_t>(seen >> 32));
            store_shared(lse_at + thread * 4, bits_of(is_row ? lse[row + thread] : INFINITY));
            store_shared(delta_at + thread * 4, bits_of(is_row ? delta[row + thread] : 0.0f));
          }
          wait_for_copies();
          __syncthreads();
          float weights[kRows / 8][F::kAccumulators], gradients[kRows / 8][F::kAccumulators];
          score_rows<F, D, kRows>(F::left_at(k_rows, warp_row, lane), F::keys_at(q_rows, lane), weights);
          score_rows<F, D, kRows>(F::left_at(v_rows, warp_row, lane), F::keys_at(g_rows, lane), gradients);
#pragma unroll
          for (int n = 0; n < kRows / 8; ++n) {
            const int first = 8 * n + F::column_of(lane);  // of the two query rows that this lane has here
            const Words4 seen = load_shared(seen_at + first * 8);
            uint32_t of_lse[2], of_delta[2];
            load_shared_pair(lse_at + first * 4, of_lse);
            load_shared_pair(delta_at + first * 4, of_delta);
#pragma unroll
            for (int j = 0; j < F::kAccumulators; ++j) {
              const int key = warp_row + F::row_of(lane) + F::slot_row(F::slot(j)), column = F::column(j);
              const bool is_seen = (seen.x[2 * column + key / 32] >> (key % 32)) & 1;
              float exponent = fmaf(weights[n][j], unit, -from_bits(of_lse[column]));
              if (kBias && is_seen) {
                const int at = row + first + column;
                exponent += bias_of(p, mask_head + at * p.mask.row_stride, slope, at, first_key + key);
              }
              differentiate(is_seen, exponent, from_bits(of_delta[column]), &weights[n][j], &gradients[n][j]);
            }
          }
          add_rows<F, D, kRows>(weights, F::values_at(g_rows, lane), lane, dv);
          add_rows<F, D, kRows>(gradients, F::values_at(q_rows, lane), lane, dk);
          __syncthreads();  // every warp is done with these rows
        }
      }
      __syncthreads();  // and with the list
    }
  }
  __syncthreads();
  if (c.g.dk != nullptr) {
    uint16_t* const rows = rows_of(static_cast<uint16_t*>(c.g.dk), c.g.dk_strides, batch, kv_head);
    store_sums<F, T, D>(dk, p.scale, k_rows, warp_row, rows + key_begin * c.g.dk_strides.row, c.g.dk_strides.row, keys,
                        p.head_dim, c.vectors);
  }
  if (c.g.dv != nullptr) {
    uint16_t* const rows = rows_of(static_cast<uint16_t*>(c.g.dv), c.g.dv_strides, batch, kv_head);
    store_sums<F, T, D>(dv, 1.0f, v_rows, warp_row, rows + key_begin * c.g.dv_strides.row, c.g.dv_strides.row, keys,
                        p.head_dim, c.vectors);
  }
}

}  // namespace fused_attention
