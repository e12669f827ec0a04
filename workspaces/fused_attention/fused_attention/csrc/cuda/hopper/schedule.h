// The order of query tiles in a thread block, their key tiles, and the keys that each row attends to.
#pragma once

#include "../../params.h"
#include "../tile_view.h"
#include "layout.h"

namespace fused_attention {
namespace hopper {

// One call. A Map is a TMA descriptor: CUtensorMap on the device.
template <class Map>
struct Call {
  Map q_map, k_map, v_map;
  AttentionParams params;
  TileView view;
  int32_t query_tiles;    // of the longest sequence
  int32_t pieces;         // query_tiles * batch * heads
  int32_t section_heads;  // (batch, head) pairs computed side by side: their keys fit the L2 cache together
  // Factors from a head or batch index to a coordinate: 0 if the tensor is broadcast along it.
  int32_t q_head_step, q_batch_step, k_head_step, k_batch_step, v_head_step, v_batch_step;
};

// A query tile and its key tiles.
struct Piece {
  int32_t batch, head, kv_head;
  int32_t first_row;         // in its sequence
  int32_t q_len, k_len;      // of its sequence
  int32_t q_start, k_start;  // where its sequence begins in the tensors
  int32_t begin, count;      // of its key tiles
};

FA_HOST_DEVICE int32_t smaller(int32_t a, int32_t b) {
  return a < b ? a : b;
}

// The number of a block's piece in a round. Pieces are in descending order of work, so every other round runs
// backwards: otherwise one block would always get the largest. May be beyond the last piece.
FA_HOST_DEVICE int64_t piece_number(int32_t block, int32_t blocks, int32_t round) {
  return static_cast<int64_t>(round) * blocks + (round % 2 ? blocks - 1 - block : block);
}

// How many of a range's tiles, in ascending order of keys, begin before `end`: in packed sequences the list is made for
// the longest sequence.
FA_DEVICE int32_t tiles_before(const KeyTile* tiles, int32_t count, int32_t end) {
  int32_t begin = 0;
  while (begin < count) {
    const int32_t middle = begin + (count - begin) / 2;
    if (tiles[middle].index * kTileKeys < end) {
      begin = middle + 1;
    } else {
      count = middle;
    }
  }
  return begin;
}

// Long query tiles first, within sections of heads whose keys and values the L2 cache can hold; the query heads that
// share a key/value head are neighbours.
template <class Map>
FA_DEVICE Piece piece_at(const Call<Map>& c, int32_t number) {
  const AttentionParams& p = c.params;
  const int32_t heads = static_cast<int32_t>(p.heads);
  const int32_t section = number / (c.section_heads * c.query_tiles);
  const int32_t first = section * c.section_heads;
  const int32_t side_by_side = smaller(c.section_heads, static_cast<int32_t>(p.batch) * heads - first);
  const int32_t within = number - first * c.query_tiles;
  const int32_t pair = first + within % side_by_side;
  Piece piece;
  piece.batch = pair / heads;
  piece.head = pair % heads;
  piece.kv_head = piece.head / (heads / static_cast<int32_t>(p.kv_heads));
  const int32_t tile = static_cast<int32_t>(c.view.ranked(piece.batch, within / side_by_side, c.query_tiles));
  piece.first_row = tile * kTileRows;
  piece.q_start = p.cu_q ? p.cu_q[piece.batch] : 0;
  piece.k_start = p.cu_q ? p.cu_k[piece.batch] : 0;
  piece.q_len = p.cu_q ? p.cu_q[piece.batch + 1] - piece.q_start : static_cast<int32_t>(p.q_len);
  piece.k_len = p.cu_q ? p.cu_k[piece.batch + 1] - piece.k_start : static_cast<int32_t>(p.k_len);
  piece.begin = piece.count = 0;
  if (piece.first_row >= piece.q_len) return piece;
  if (c.view.exists()) {
    const KeyTileRange range = c.view.range(piece.batch, piece.head, tile);
    piece.begin = range.begin;
    piece.count = p.cu_q ? tiles_before(c.view.tiles + range.begin, range.end - range.begin, piece.k_len)
                         : range.end - range.begin;
  } else {
    const int32_t end = p.mask.causal ? smaller(piece.k_len, piece.first_row + kTileRows) : piece.k_len;
    piece.count = (end + kTileKeys - 1) / kTileKeys;
  }
  return piece;
}

template <class Map>
FA_DEVICE KeyTile key_tile(const Call<Map>& c, const Piece& piece, int32_t i) {
  return c.view.exists() ? c.view.tiles[piece.begin + i] : KeyTile{i, kFullTile};
}

// How many keys of a tile are before the end of its sequence, if not all.
FA_HOST_DEVICE int32_t keys_inside(const Piece& piece, const KeyTile& tile) {
  return smaller(kTileKeys, piece.k_len - tile.index * kTileKeys);
}

FA_HOST_DEVICE uint32_t lowest_bits(int32_t count) {
  return count >= 32 ? ~0u : count <= 0 ? 0u : (1u << count) - 1u;
}

// The words of a thread's two rows in a tile's block of bits. Read before the scores arrive, to hide the latency.
struct RowBits {
  uint64_t words[2][kTileKeys / 64];

  // `row` is the thread's first one in the query tile.
  template <class Map>
  FA_DEVICE void read(const Call<Map>& c, const KeyTile& tile, int row) {
    if (tile.bits == kFullTile) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint64_t* bits = c.view.row_bits(tile.bits, row + 8 * r);
#pragma unroll
      for (int w = 0; w < kTileKeys / 64; ++w) words[r][w] = bits[w];
    }
  }
};

// Of the keys that a thread's fragment holds: bit 8 * (j % 4) + e of words[r][j / 4] is that of register
// 4 * j + 2 * r + e.
struct FragmentMask {
  uint32_t words[2][kTileKeys / 32];

  FA_DEVICE bool attends(int j, int r, int e) const { return (words[r][j / 4] >> (8 * (j % 4) + e)) & 1u; }

  // Returns false, and does not make the mask, if all rows of the warpgroup attend to the whole tile. `row` is the
  // thread's first one in the query tile, `first_row` the warpgroup's.
  template <class Map>
  FA_DEVICE bool make(const Call<Map>& c, const Piece& piece, const KeyTile& tile, const RowBits& bits, int first_row,
                      int row, int column) {
    const bool causal = c.params.mask.causal && !c.view.exists(), has_bits = tile.bits != kFullTile;
    // Of the tile's keys, how many are before the end of the sequence and, if causal, up to a row.
    const int32_t inside = keys_inside(piece, tile);
    const int32_t reached = piece.first_row + 1 - tile.index * kTileKeys;
    if (!has_bits && inside >= kTileKeys && (!causal || reached + first_row >= kTileKeys)) return false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t end = causal ? smaller(inside, reached + row + 8 * r) : inside;
#pragma unroll
      for (int w = 0; w < kTileKeys / 32; ++w) {
        const uint32_t known = has_bits ? static_cast<uint32_t>(bits.words[r][w / 2] >> (32 * (w % 2))) : ~0u;
        words[r][w] = (known & lowest_bits(end - 32 * w)) >> column;
      }
    }
    return true;
  }
};

}  // namespace hopper
}  // namespace fused_attention
