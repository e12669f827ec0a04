// Tile lists taken apart again, callable from Python.
#include "tiles.cpp"

#include "structure.cpp"

#include "cuda/recently_used.h"

using namespace fused_attention;

extern "C" {

// Fills seen[batches][q_len][k_len] from the lists, having checked what TileView promises; returns the number of
// batches, or minus the number of the promise that is broken.
int64_t unpack_tiles(const int64_t* program, int causal, int64_t batch, int64_t q_len, int64_t k_len, int rows,
                     int keys, uint8_t* seen, int64_t* blocks) {
  const Structure structure{program, 0};  // nothing here reads its size
  const int64_t batches = batches_of(structure, batch);
  const TileLists lists = list_tiles(structure, causal != 0, batches, q_len, k_len, rows, keys);
  *blocks = static_cast<int64_t>(lists.bits.size()) / (rows * (keys / 64));
  const std::vector<int64_t> memory = lists.packed();
  const TileView view = lists.view(memory.data());
  const int64_t query_tiles = (q_len + rows - 1) / rows;
  std::memset(seen, 0, batches * q_len * k_len);
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<char> taken(query_tiles, 0);
    int32_t longest = std::numeric_limits<int32_t>::max();
    for (int64_t rank = 0; rank < query_tiles; ++rank) {
      const int64_t query_tile = view.ranked(b, rank, query_tiles);
      if (query_tile < 0 || query_tile >= query_tiles || taken[query_tile]++) return -1;
      const KeyTileRange range = view.range(b, 0, query_tile);
      if (range.end - range.begin > longest) return -2;
      longest = range.end - range.begin;
      for (int32_t i = range.begin; i < range.end; ++i) {
        const KeyTile tile = view.tiles[i];
        if (i > range.begin && tile.index <= view.tiles[i - 1].index) return -3;
        if (tile.bits == kFullTile && (int64_t{tile.index} + 1) * keys > k_len) return -4;
        bool any = false, all = true;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t key = 0; key < keys; ++key) {
            const int64_t this_row = query_tile * rows + row, this_key = int64_t{tile.index} * keys + key;
            const bool sees = tile.bits == kFullTile || (view.row_bits(tile.bits, row)[key / 64] >> (key % 64) & 1);
            if (this_row < q_len && this_key < k_len) {
              seen[(b * q_len + this_row) * k_len + this_key] = sees;
              any = any || sees;
              all = all && sees;
            } else if (this_key >= k_len && sees) {
              return -5;
            }
          }
        }
        if (!any) return -6;
        if (all && tile.bits != kFullTile && (int64_t{tile.index} + 1) * keys <= k_len) return -7;
      }
    }
  }
  return batches;
}

void define_mask(const int64_t* program, int causal, int64_t batches, int64_t q_len, int64_t k_len, uint8_t* seen) {
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t row = 0; row < q_len; ++row) {
      for (int64_t key = 0; key < k_len; ++key) {
        *seen++ = attends(Structure{program, 0}, b, row, key) && (!causal || key <= row);
      }
    }
  }
}

// A store of at most 3 items and 100 bytes is asked for each key, and given what it lacks; keys of 1000 and more are
// pinned. Which of the asks were answered goes to `hits`; returns how many items are left.
int64_t use_store(const int64_t* keys, const int64_t* bytes, int64_t count, uint8_t* hits) {
  RecentlyUsed<int64_t> store(3, 100);
  for (int64_t i = 0; i < count; ++i) {
    auto* item = store.find({keys[i]});
    hits[i] = item != nullptr && item->value == keys[i];
    if (item == nullptr) item = store.put({keys[i]}, keys[i], bytes[i]);
    item->pinned = item->pinned || keys[i] >= 1000;
  }
  return static_cast<int64_t>(store.size());
}
}
