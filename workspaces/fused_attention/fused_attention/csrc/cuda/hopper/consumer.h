// A consumer of the Hopper kernel: one warpgroup that multiplies and computes softmaxes. See kernel.h.
#pragma once

#include "row_softmax.h"
#include "schedule.h"

namespace fused_attention {
namespace hopper {

// Named barriers; the second of each kind is the second consumer's.
constexpr int kOrderBarrier = 0;  // which consumer may queue products
constexpr int kTailBarrier = 2;   // within a warpgroup: the tail of a tile of values is cleared

// An index into a ring of buffers, and the parity of its barriers' phase.
template <int kStages>
struct Ring {
  int stage = 0;
  uint32_t phase = 0;

  FA_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1u;
    }
  }
};

// scores = queries * keys^T.
template <int D, class T, class M>
FA_DEVICE void queue_scores(uint32_t query, uint32_t keys, float (&scores)[kScores]) {
  M::fence_operand(scores);
  M::begin_products();
#pragma unroll
  for (int panel = 0; panel < D / kPanel; ++panel) {
#pragma unroll
    for (int step = 0; step < kPanel / kStep; ++step) {
      const uint32_t offset = panel * kPanelBytes + step * kStep * 2;
      M::template multiply_shared<T>(rows_descriptor(query + offset), rows_descriptor(keys + offset), scores,
                                     panel + step != 0);
    }
  }
  M::commit_products();
}

// out += weights * values.
template <int D, class T, class M>
FA_DEVICE void queue_values(const uint32_t (&weights)[kTileKeys / kStep][4], uint32_t values, float (&out)[D / 2]) {
  M::fence_operand(out);
  M::begin_products();
#pragma unroll
  for (int step = 0; step < kTileKeys / kStep; ++step) {
    M::template multiply_registers<T>(weights[step], columns_descriptor<D>(values + step * kStep * kRowBytes), out);
  }
  M::commit_products();
}

template <int D, class T, class M, class Map>
class Consumer {
  using S = SharedMemory<D>;

 public:
  FA_DEVICE Consumer(const Call<Map>& call, int which)
      : c(call), self(which), thread(M::thread() % kWarpgroup), first_row(which * kWarpgroupRows),
        row(first_row + fragment_row(thread)), column(fragment_column(thread)) {}

  FA_DEVICE void run() {
    if (self == 1) M::arrive_named(kOrderBarrier, kConsumers * kWarpgroup);
    for (int round = 0;; ++round) {
      const int64_t number = piece_number(M::block(), M::blocks(), round);
      if (static_cast<int64_t>(round) * M::blocks() >= c.pieces) break;
      if (number >= c.pieces) continue;
      const Piece piece = piece_at(c, static_cast<int32_t>(number));
      if (piece.first_row < piece.q_len) attend(piece);
    }
    // Consumes the other's last arrival, so that no barrier is left half full.
    if (self == 0) M::sync_named(kOrderBarrier, kConsumers * kWarpgroup);
  }

 private:
  const Call<Map>& c;
  const int self, thread;
  const int first_row, row, column;  // the warpgroup's first row and this thread's in the query tile; its first column
  Ring<S::kStages> keys, values;
  uint32_t query_phase = 0;

  FA_DEVICE void attend(const Piece& piece) {
    RowSoftmax<M> softmax;
    softmax.reset();
    float out[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) out[i] = 0.0f;
    if (piece.count > 0) meet_keys(piece, softmax, out);
    float inverse[2];
    softmax.finish(inverse);
    store_lse(piece, softmax);
    store(piece, inverse, out);
  }

  FA_DEVICE void store_lse(const Piece& piece, const RowSoftmax<M>& softmax) {
    const AttentionParams& p = c.params;
    if (!p.lse || column != 0) return;
    float* lse = p.of_head(p.lse, piece.batch, piece.head) + piece.first_row + row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (piece.first_row + row + 8 * r >= piece.q_len) continue;
      lse[8 * r] = softmax.sum[r] == 0.0f ? INFINITY : softmax.origin[r] + log2f(softmax.sum[r]);
    }
  }

  FA_DEVICE void meet_keys(const Piece& piece, RowSoftmax<M>& softmax, float (&out)[D / 2]) {
    const float slope = c.params.alibi ? c.params.alibi[piece.head] * kLog2E : 0.0f;
    const uint32_t query = M::address(S::kQuery) + first_row * kRowBytes;
    float scores[kScores], correction[2];
    uint32_t weights[kTileKeys / kStep][4];
    RowBits bits;

    M::wait(S::query_full(), query_phase);
    M::wait(S::keys_full(keys.stage), keys.phase);
    queue_scores<D, T, M>(query, M::address(S::keys(keys.stage)), scores);
    KeyTile tile = M::load_tile(S::tile(keys.stage));
    bits.read(c, tile, row);
    M::template wait_products<0>();
    M::fence_operand(scores);
    release(S::keys_empty(keys.stage));
    keys.advance();
    weigh(piece, tile, slope, bits, softmax, scores, correction);
    pack_weights<T, M>(scores, weights);

    if (piece.count > 1) M::wait(S::keys_full(keys.stage), keys.phase);
    for (int i = 1; i < piece.count; ++i) {
      M::wait(S::values_full(values.stage), values.phase);
      M::sync_named(kOrderBarrier + self, kConsumers * kWarpgroup);
      queue_scores<D, T, M>(query, M::address(S::keys(keys.stage)), scores);
      queue_values<D, T, M>(weights, M::address(S::values(values.stage)), out);
      M::arrive_named(kOrderBarrier + 1 - self, kConsumers * kWarpgroup);
      tile = M::load_tile(S::tile(keys.stage));
      bits.read(c, tile, row);
      M::template wait_products<1>();
      M::fence_operand(scores);
      release(S::keys_empty(keys.stage));
      keys.advance();
      weigh(piece, tile, slope, bits, softmax, scores, correction);
      // This wait's branches and the fence before it keep nvcc from moving the next wait up. Otherwise the softmax
      // would not overlap the product of the values.
      M::fence_operand(scores);
      if (i + 1 < piece.count) M::wait(S::keys_full(keys.stage), keys.phase);
      M::template wait_products<0>();
      M::fence_operand(out);
      release(S::values_empty(values.stage));
      values.advance();
#pragma unroll
      for (int j = 0; j < D / 2; ++j) out[j] *= correction[j / 2 % 2];
      pack_weights<T, M>(scores, weights);
    }

    release(S::query_empty());
    query_phase ^= 1u;
    M::wait(S::values_full(values.stage), values.phase);
    clear_tail(piece, tile);
    queue_values<D, T, M>(weights, M::address(S::values(values.stage)), out);
    M::template wait_products<0>();
    M::fence_operand(out);
    release(S::values_empty(values.stage));
    values.advance();
  }

  FA_DEVICE void weigh(const Piece& piece, const KeyTile& tile, float slope, const RowBits& bits,
                       RowSoftmax<M>& softmax, float (&scores)[kScores], float (&correction)[2]) {
    float factor = c.params.scale * kLog2E;
    if (c.params.alibi) {
      apply_alibi<M>(factor, slope, tile.index * kTileKeys + column - piece.first_row - row, scores);
      factor = 1.0f;
    }
    FragmentMask mask;
    if (mask.make(c, piece, tile, bits, first_row, row, column)) apply_mask(mask, scores);
    softmax.take(scores, factor, correction);
  }

  // Marks a buffer as no longer read by this warp.
  FA_DEVICE void release(int empty) {
    if (thread % 32 == 0) M::arrive(empty);
  }

  // Clears the values beyond the end of a packed sequence, which are the next sequence's: a zero weight times NaN or
  // infinity is NaN. Without packing, TMA fills in zeros. Only a piece's last tile can reach the end, since tiles
  // ascend. Both consumers write the same zeros.
  FA_DEVICE void clear_tail(const Piece& piece, const KeyTile& tile) {
    if (!c.params.cu_q) return;
    const int32_t inside = keys_inside(piece, tile);
    if (inside >= kTileKeys) return;
    for (int i = inside * (kRowBytes / 16) + thread; i < kTileKeys * (kRowBytes / 16); i += kWarpgroup) {
#pragma unroll
      for (int panel = 0; panel < S::kPanels; ++panel) {
        M::clear_16_bytes(S::values(values.stage) + panel * kPanelBytes + i * 16);
      }
    }
    M::fence_shared();
    M::sync_named(kTailBarrier + self, kWarpgroup);
  }

  // Of every eight columns of a row, four neighbouring threads hold two each. They transpose four such blocks, so that
  // each thread has the 16 bytes of one block and a warp writes 64 bytes of every row at once.
  FA_DEVICE void store(const Piece& piece, const float (&inverse)[2], const float (&out)[D / 2]) {
    const AttentionParams& p = c.params;
    T* target = rows_of(static_cast<T*>(p.out), p.out_strides, piece.batch, piece.head) +
                static_cast<int64_t>(piece.q_start + piece.first_row + row) * p.out_strides.row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int block = 0; block < D / 8; block += 4) {
        uint32_t words[4];
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const float left = out[4 * (block + b) + 2 * r], right = out[4 * (block + b) + 2 * r + 1];
          // Multiplying by zero would keep a NaN.
          const bool none = inverse[r] == 0.0f;
          words[b] = M::template pack<T>(none ? 0.0f : left * inverse[r], none ? 0.0f : right * inverse[r]);
        }
        transpose<1>(words);
        transpose<2>(words);
        const int dim = 8 * (block + thread % 4);
        if (piece.first_row + row + 8 * r < piece.q_len && dim < p.head_dim) {
          M::store_16_bytes(target + 8 * r * p.out_strides.row + dim, words);
        }
      }
    }
  }

  template <int kDistance>
  FA_DEVICE void transpose(uint32_t (&words)[4]) {
    const bool upper = (thread & kDistance) != 0;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      if (b & kDistance) continue;
      const uint32_t received = M::shuffle_xor(upper ? words[b] : words[b | kDistance], kDistance);
      if (upper) {
        words[b] = received;
      } else {
        words[b | kDistance] = received;
      }
    }
  }
};

}  // namespace hopper
}  // namespace fused_attention
