// The rows and keys of each thread block, and their order. Index arithmetic alone.
#pragma once

#include "../params.h"
#include "tile_view.h"

namespace fused_attention {

constexpr int kTileKeys = 64;      // of the lists that the portable kernels read
constexpr int kGradientRows = 64;  // of a query tile in the backward pass

// The kernel's parameter, passed by value.
struct Call {
  AttentionParams p;
  TileView tiles;       // of kTileKeys keys; if it exists, it includes causal and boolean masks
  int32_t query_tiles;  // of the longest sequence
  int32_t section;      // pairs of batch and head whose keys and values stay in the L2 cache together
  bool vectors;         // the rows of q, k, v and out can be read and written 16 bytes at a time
};

inline bool is_multiple_of_16(const AttentionParams& p, const void* data, const Strides& strides, int64_t heads) {
  const int64_t bytes = p.dtype == DataType::kFloat32 ? 4 : 2;
  const int64_t all = (p.batch > 1 ? strides.batch : 0) | (heads > 1 ? strides.head : 0) | strides.row;
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && all * bytes % 16 == 0 && p.head_dim * bytes % 16 == 0;
}

// The value of Call::vectors.
inline bool has_vectors(const AttentionParams& p) {
  return is_multiple_of_16(p, p.q, p.q_strides, p.heads) && is_multiple_of_16(p, p.k, p.k_strides, p.kv_heads) &&
         is_multiple_of_16(p, p.v, p.v_strides, p.kv_heads) && is_multiple_of_16(p, p.out, p.out_strides, p.heads);
}

// One sequence: all rows of a batch element, or one of the packed sequences.
struct Sequence {
  int64_t q_begin, k_begin;
  int32_t q_len, k_len;
};

FA_HOST_DEVICE Sequence sequence_of(const AttentionParams& p, int64_t batch) {
  if (p.cu_q == nullptr) {
    return Sequence{0, 0, static_cast<int32_t>(p.q_len), static_cast<int32_t>(p.k_len)};
  }
  const int32_t q = p.cu_q[batch], k = p.cu_k[batch];
  return Sequence{q, k, p.cu_q[batch + 1] - q, p.cu_k[batch + 1] - k};
}

// One query tile of one head.
struct Piece {
  int32_t batch, head, query_tile;
};

// The index-th piece to start. Within a section the tiles with the most work come first, and heads that share keys
// follow one another. There are fewer than 2^31 pieces; 32-bit divisions take a quarter of the time of 64-bit ones.
FA_HOST_DEVICE Piece piece_of(const Call& call, uint32_t index) {
  const uint32_t heads = static_cast<uint32_t>(call.p.heads), pairs = static_cast<uint32_t>(call.p.batch) * heads;
  const uint32_t section = static_cast<uint32_t>(call.section), query_tiles = static_cast<uint32_t>(call.query_tiles);
  const uint32_t first_pair = index / (section * query_tiles) * section;
  const uint32_t in_section = pairs - first_pair < section ? pairs - first_pair : section;
  const uint32_t rest = index - first_pair * query_tiles, rank = rest / in_section;
  const uint32_t pair = first_pair + rest - rank * in_section, batch = pair / heads;
  const int64_t tile = call.tiles.ranked(batch, rank, query_tiles);
  return Piece{static_cast<int32_t>(batch), static_cast<int32_t>(pair - batch * heads), static_cast<int32_t>(tile)};
}

FA_HOST_DEVICE int64_t piece_count(const Call& call) {
  return call.p.batch * call.p.heads * call.query_tiles;
}

// The keys from `key` to `key` + kKeys, and their mask if not all are visible.
struct Step {
  int32_t key;
  int32_t bits;  // a block of TileView::bits, or kFullTile
};

// The steps of kKeys keys that a query tile takes, in ascending order.
template <int kKeys>
struct Steps {
  static_assert(kTileKeys % kKeys == 0, "a step lies in one tile of a list");
  static constexpr int kPerTile = kTileKeys / kKeys;

  const KeyTile* tiles;  // null: all keys up to `key_end`
  int32_t count, key_end;

  // `last_row` is the last of the tile that exists.
  FA_HOST_DEVICE Steps(const Call& call, const Piece& piece, const Sequence& sequence, int32_t last_row) {
    key_end = sequence.k_len;
    if (call.tiles.exists()) {
      const KeyTileRange range = call.tiles.range(piece.batch, piece.head, piece.query_tile);
      tiles = call.tiles.tiles + range.begin;
      count = (range.end - range.begin) * kPerTile;
    } else {
      tiles = nullptr;
      if (call.p.mask.causal && last_row + 1 < key_end) key_end = last_row + 1;
      count = (key_end + kKeys - 1) / kKeys;
    }
  }

  // False at the end. In a packed sequence that may be before the end of the list.
  FA_HOST_DEVICE bool at(int32_t i, Step* step) const {
    if (i >= count) return false;
    if (tiles == nullptr) {
      step->key = i * kKeys;
      step->bits = kFullTile;
    } else {
      const KeyTile tile = tiles[i / kPerTile];
      step->key = tile.index * kTileKeys + i % kPerTile * kKeys;
      step->bits = tile.bits;
    }
    return step->key < key_end;
  }
};

// Bit j is set where `row`, the `tile_row`-th of its tile, sees key step.key + j; 64 bits from there on.
FA_HOST_DEVICE uint64_t visible_keys(const Call& call, const Sequence& sequence, const Step& step, int32_t row,
                                     int32_t tile_row) {
  int32_t count = sequence.k_len - step.key;
  if (!call.tiles.exists() && call.p.mask.causal && row + 1 - step.key < count) count = row + 1 - step.key;
  uint64_t keys = count >= 64 ? ~uint64_t{0} : count <= 0 ? 0 : (uint64_t{1} << count) - 1;
  if (step.bits != kFullTile) keys &= call.tiles.row_bits(step.bits, tile_row)[0] >> (step.key % kTileKeys);
  return keys;
}

// Whether all rows of a tile from `first_row` on see all keys of a step.
template <int kKeys>
FA_HOST_DEVICE bool is_full(const Call& call, const Sequence& sequence, const Step& step, int32_t first_row) {
  const int32_t last_key = step.key + kKeys - 1;
  const bool causal = !call.tiles.exists() && call.p.mask.causal;
  return step.bits == kFullTile && last_key < sequence.k_len && !(causal && last_key > first_row);
}

}  // namespace fused_attention
