// From a structured mask to the key tiles that each query tile meets, in the host's memory.
#pragma once

#include <vector>

#include "cuda/tile_view.h"
#include "structure.h"

namespace fused_attention {

// What the masks of `batches` sequences come to, cut into tiles of rows x keys. See TileView for the fields.
struct TileLists {
  int64_t batches, query_tiles;
  int32_t rows, keys;
  std::vector<KeyTileRange> ranges;  // [batches * query_tiles]
  std::vector<KeyTile> tiles;
  std::vector<int32_t> order;  // [batches * query_tiles]
  std::vector<uint64_t> bits;  // equal blocks are kept once

  // Everything as one block of words, for one copy to a device, and the view of it where it lies there.
  std::vector<int64_t> packed() const;
  TileView view(const int64_t* base) const;
};

// 1, or `batch` where the program looks at which sequence it is in.
int64_t batches_of(const Structure& structure, int64_t batch);

// `keys` must be a multiple of 64. `q_len` and `k_len` are upper bounds where sequences are packed: a kernel still has
// to stop at the end of a sequence. Throws std::length_error where the lists outgrow 32-bit offsets.
TileLists list_tiles(const Structure& structure, bool causal, int64_t batches, int64_t q_len, int64_t k_len,
                     int32_t rows, int32_t keys);

}  // namespace fused_attention
