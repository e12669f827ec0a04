// Input and output of classify.cuh: lists of key tiles from a boolean mask in device memory.
#pragma once

#include "../mask.h"
#include "tile_view.h"

namespace fused_attention {

constexpr int kClassifyThreads = 128;

// `mask` is boolean, and `batches` and `heads` are 1 where it is broadcast. List i = (batch, head, query tile) writes
// its tiles to tiles[i * capacity ...], and the bits of the j-th to the block i * capacity + j.
struct Classification {
  Mask mask;
  TileView structure;  // the lists to start from; without them, all tiles, limited by mask.causal
  int32_t q_len, k_len, rows, keys, query_tiles;
  int32_t batches, heads, capacity;
  KeyTileRange* ranges;
  KeyTile* tiles;
  uint64_t* bits;

  FA_HOST_DEVICE int64_t lists() const { return static_cast<int64_t>(batches) * heads * query_tiles; }

  TileView view() const {
    TileView made{};
    made.ranges = ranges;
    made.tiles = tiles;
    made.bits = bits;
    made.batch_stride = batches > 1 ? static_cast<int64_t>(heads) * query_tiles : 0;
    made.head_stride = heads > 1 ? query_tiles : 0;
    made.rows = rows;
    made.keys = keys;
    made.order = structure.order;
    made.order_stride = structure.order_stride;
    return made;
  }
};

}  // namespace fused_attention
