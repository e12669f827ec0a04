// The attention kernel for Hopper: one warpgroup loads by TMA, two multiply by wgmma and make softmaxes in turns.
//
// Each consumer has 64 of the block's 128 query rows. While one makes its softmax, the other's products run (the order
// barriers see to it); and within one, the product of the next tile's scores is queued before that of this tile's
// weights and values. The design is FlashAttention-3's (arXiv:2407.08608, sections 3.1 and 3.2). Blocks are
// persistent, so the loader is ahead of the consumers across query tiles as well.
//
// M is the machine: on the GPU CUTLASS's instruction wrappers (machine.cuh); in tests fibers on the CPU, which run this
// very code (tests/workspaces/fused_attention/hopper_emulation.h).
#pragma once

#include "row_softmax.h"
#include "schedule.h"

namespace fused_attention {
namespace hopper {

// Named barriers; the second of each kind is the second consumer's.
constexpr int kOrderBarrier = 0;  // whose turn it is to queue products
constexpr int kTailBarrier = 2;   // within a warpgroup: the tail of a tile of values is cleared

// A place in a ring of buffers, and the parity of the barriers' phase there.
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

// What the two tensors of keys and values have in common: their coordinates.
template <class Map>
struct Source {
  const Map* map;
  int32_t row, head, batch;
};

template <int D, class M, class Map>
FA_DEVICE void load_tile(const Source<Map>& from, int32_t row, int full, int target) {
  M::expect_bytes(full, SharedMemory<D>::kTileBytes);
#pragma unroll
  for (int panel = 0; panel < SharedMemory<D>::kPanels; ++panel) {
    M::load_box(*from.map, full, target + panel * kPanelBytes, panel * kPanel, from.row + row, from.head, from.batch);
  }
}

template <int D, class M, class Map>
FA_DEVICE void produce(const Call<Map>& c) {
  using S = SharedMemory<D>;
  Ring<S::kStages> keys, values;
  uint32_t query_phase = 0;
  for (int round = 0;; ++round) {
    const int64_t number = piece_number(M::block(), M::blocks(), round);
    if (static_cast<int64_t>(round) * M::blocks() >= c.pieces) break;
    if (number >= c.pieces) continue;
    const Piece piece = piece_at(c, static_cast<int32_t>(number));
    if (piece.count == 0) continue;
    const Source<Map> k{&c.k_map, piece.k_start, piece.kv_head * c.k_head_step, piece.batch * c.k_batch_step};
    const Source<Map> v{&c.v_map, piece.k_start, piece.kv_head * c.v_head_step, piece.batch * c.v_batch_step};
    KeyTile next = key_tile(c, piece, 0);
    int32_t previous = 0;
    for (int i = 0; i <= piece.count; ++i) {
      const KeyTile tile = next;
      if (i + 1 < piece.count) next = key_tile(c, piece, i + 1);
      if (i < piece.count) {
        M::wait(S::keys_empty(keys.stage), keys.phase ^ 1u);
        // Seen by those who wait for the keys: the arrival that load_tile begins with releases it.
        M::store_tile(S::tile(keys.stage), tile);
        load_tile<D, M>(k, tile.index * kTileKeys, S::keys_full(keys.stage), S::keys(keys.stage));
        keys.advance();
      }
      if (i == 0) {
        const Source<Map> q{&c.q_map, piece.q_start, piece.head * c.q_head_step, piece.batch * c.q_batch_step};
        M::wait(S::query_empty(), query_phase ^ 1u);
        load_tile<D, M>(q, piece.first_row, S::query_full(), S::kQuery);
        query_phase ^= 1u;
      } else {
        M::wait(S::values_empty(values.stage), values.phase ^ 1u);
        load_tile<D, M>(v, previous, S::values_full(values.stage), S::values(values.stage));
        values.advance();
      }
      previous = tile.index * kTileKeys;
    }
  }
}

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
    // Takes up the other's last arrival, so that no barrier is left half full.
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
    store(piece, inverse, out);
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
      // The branches of this wait, and the fence before it, keep nvcc from moving the next wait up: the softmax would
      // then not run beside the product of the values.
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

  // This warp no longer reads a buffer.
  FA_DEVICE void release(int empty) {
    if (thread % 32 == 0) M::arrive(empty);
  }

  // Zero weights do not silence a NaN or an infinity: where sequences are packed, the values beyond this one's are the
  // next one's. Elsewhere TMA has filled in zeros. Only a piece's last tile can reach so far, since tiles ascend. Both
  // consumers write the same zeros.
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

  // Four neighbours hold two columns each of every eight of a row. They transpose four such blocks among them, so that
  // each has the 16 bytes of one block, and a warp writes 64 bytes of every row at once.
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
          // A product would keep a NaN of a value that no key let in.
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

template <int D, class T, class M, class Map>
FA_DEVICE void run_block(const Call<Map>& c) {
  using S = SharedMemory<D>;
  if (M::thread() == 0) {
    constexpr int kConsumerWarps = kConsumers * kWarpgroup / 32;
    M::init_barrier(S::query_full(), 1);
    M::init_barrier(S::query_empty(), kConsumerWarps);
    for (int stage = 0; stage < S::kStages; ++stage) {
      M::init_barrier(S::keys_full(stage), 1);
      M::init_barrier(S::keys_empty(stage), kConsumerWarps);
      M::init_barrier(S::values_full(stage), 1);
      M::init_barrier(S::values_empty(stage), kConsumerWarps);
    }
    M::fence_barriers();
  }
  M::sync_block();
  if (M::warpgroup() == 0) {
    M::template shrink_registers<kProducerRegisters>();
    if (M::thread() == 0) produce<D, M>(c);
  } else {
    M::template grow_registers<kConsumerRegisters>();
    Consumer<D, T, M, Map>(c, M::warpgroup() - 1).run();
  }
}

}  // namespace hopper
}  // namespace fused_attention
