// A mask cut into tiles, as the CUDA kernels read it: for each tile of query rows, a list of tiles of keys.
//
// Rows and keys count from the start of their sequence, in packed sequences too. A tile of keys is not listed if no row
// of the query tile attends to it, is full if all rows attend to all its keys, and has bits otherwise. The list
// includes all masks of a call except additive ones (structure, boolean tensor, causal), so a kernel with a view checks
// no other.
#pragma once

#include "../portable.h"

namespace fused_attention {

struct KeyTile {
  int32_t index;  // the first key is index * view.keys
  int32_t bits;   // its block of view.bits, or kFullTile
};

constexpr int32_t kFullTile = -1;

struct KeyTileRange {
  int32_t begin, end;  // in view.tiles, by ascending index
};

// All pointers are on the device of q; ranges is null where a call has no such mask.
struct TileView {
  const KeyTileRange* ranges;  // of query tile t: ranges[batch * batch_stride + head * head_stride + t]
  const KeyTile* tiles;
  // Bit key % 64 of word [block][row][key / 64] is set where the row attends to the key, both within the tile; keys
  // beyond k_len have zeros.
  const uint64_t* bits;
  int64_t batch_stride, head_stride;  // in ranges; zero where the mask is the same for all
  int32_t rows, keys;                 // of a tile; keys is a multiple of 64
  const int32_t* order;               // of each batch element, query tiles by descending work; null: last tile first
  int64_t order_stride;               // from batch to batch in order

  FA_HOST_DEVICE bool exists() const { return ranges != nullptr; }

  FA_HOST_DEVICE KeyTileRange range(int64_t batch, int64_t head, int64_t query_tile) const {
    return ranges[batch * batch_stride + head * head_stride + query_tile];
  }

  // The rank-th query tile to start, so that long lists start before short ones.
  FA_HOST_DEVICE int64_t ranked(int64_t batch, int64_t rank, int64_t query_tiles) const {
    return order ? order[batch * order_stride + rank] : query_tiles - 1 - rank;
  }

  // The words of one row of a block.
  FA_HOST_DEVICE const uint64_t* row_bits(int32_t block, int32_t row) const {
    return bits + (static_cast<int64_t>(block) * rows + row) * (keys / 64);
  }
};

}  // namespace fused_attention
