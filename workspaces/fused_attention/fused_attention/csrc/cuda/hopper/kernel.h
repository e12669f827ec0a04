// The attention kernel for Hopper: one warpgroup loads with TMA, two consumers multiply with wgmma and take turns with
// their softmaxes.
//
// Each consumer has 64 of the block's 128 query rows. The order barriers make one consumer's products run during the
// other's softmax. Within a consumer, the next tile's scores are queued before the product of this tile's weights and
// values. The design is FlashAttention-3's (arXiv:2407.08608, sections 3.1 and 3.2). Blocks are persistent, so the
// loader runs ahead of the consumers across query tiles too.
//
// M is the machine: on the GPU CUTLASS's instruction wrappers (machine.cuh), in tests fibers on the CPU
// (tests/workspaces/fused_attention/kernels/hopper_emulation.h), which run the same code.
#pragma once

#include "consumer.h"

namespace fused_attention {
namespace hopper {

// A tensor map, and the coordinates of a sequence and head in it.
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
        // Consumers that wait for the keys see this store: the arrival at the start of load_tile releases it.
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
