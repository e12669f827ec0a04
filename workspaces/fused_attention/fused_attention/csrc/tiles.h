// Turns a structured mask into the lists of key tiles of each query tile, in host memory.
#pragma once

#include <vector>

#include "cuda/tile_view.h"
#include "structure.h"

namespace fused_attention {

// The masks of `batches` sequences, cut into tiles of rows x keys. See TileView for the fields.
struct TileLists {
  int64_t batches, query_tiles;
  int32_t rows, keys;
  std::vector<KeyTileRange> ranges;  // [batches * query_tiles]
  std::vector<KeyTile> tiles;
  std::vector<int32_t> order;  // [batches * query_tiles]
  std::vector<uint64_t> bits;  // equal blocks are kept once

  // All lists as one block of words, for a single copy to a device, and the view of that copy.
  std::vector<int64_t> packed() const;
  TileView view(const int64_t* base) const;
};

// 1, or `batch` if the mask differs between sequences.
int64_t batches_of(const Structure& structure, int64_t batch);

// `keys` must be a multiple of 64. In packed sequences `q_len` and `k_len` are upper bounds, and a kernel must stop at
// the end of its sequence. Throws std::length_error if the lists need more than 32-bit offsets.
TileLists list_tiles(const Structure& structure, bool causal, int64_t batches, int64_t q_len, int64_t k_len,
                     int32_t rows, int32_t keys);

}  // namespace fused_attention
