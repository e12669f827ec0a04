// A mask's part under one tile of scores: whether to skip the tile, and otherwise a 64-bit word of rows per key.
#pragma once

#include "attention.h"

namespace fused_attention {

enum class TileClass { kSkip, kPartial, kFull };

// Eight bools as eight bits. A bool tensor viewed from bytes may hold any nonzero value for true.
FA_HOST_DEVICE uint64_t bits_of_bools(const uint8_t* bools) {
  uint64_t bytes;
  memcpy(&bytes, bools, sizeof bytes);
  const uint64_t low = 0x7f7f7f7f7f7f7f7full;
  const uint64_t nonzero = ((((bytes & low) + low) | bytes) & ~low) >> 7;
  return (nonzero * 0x0102040810204080ull) >> 56;
}

FA_HOST_DEVICE uint64_t first_bits(int count) {
  return count >= 64 ? ~0ull : (1ull << count) - 1;
}

// The word of `keys` bools that lie `stride` bytes apart.
FA_HOST_DEVICE uint64_t gather_word(const uint8_t* bools, int64_t stride, int keys) {
  if (stride == 0) return *bools ? first_bits(keys) : 0;
  uint64_t word = 0;
  int key = 0;
  if (stride == 1) {
    for (; key + 8 <= keys; key += 8) word |= bits_of_bools(bools + key) << key;
  }
  for (; key < keys; ++key) word |= static_cast<uint64_t>(bools[key * stride] != 0) << key;
  return word;
}

// Transposes a 64 x 64 bit matrix in place by halving squares (Warren, Hacker's Delight, section 7-3).
FA_HOST_DEVICE void transpose_bits(uint64_t* words) {
  uint64_t mask = 0x00000000ffffffffull;
  for (int half = 32; half != 0; half >>= 1, mask ^= mask << half) {
    for (int i = 0; i < 64; i = ((i | half) + 1) & ~half) {
      const uint64_t swapped = ((words[i] >> half) ^ words[i | half]) & mask;
      words[i] ^= swapped << half;
      words[i | half] ^= swapped;
    }
  }
}

struct Tile {
  int64_t head_offset;  // of the mask's head
  int64_t row, key;     // of the first element
  int rows, keys;
};

// Fills keep[key] with the rows that see that key, unless the class says that all or none do.
FA_HOST_DEVICE TileClass classify_bools(const Mask& mask, const Tile& tile, uint64_t* keep) {
  const uint8_t* bools = static_cast<const uint8_t*>(mask.data) + tile.head_offset +
                         tile.row * mask.row_stride + tile.key * mask.key_stride;
  const uint64_t all_keys = first_bits(tile.keys);
  if (mask.row_stride == 0) {
    const uint64_t word = gather_word(bools, mask.key_stride, tile.keys);
    if (word == 0) return TileClass::kSkip;
    if (word == all_keys) return TileClass::kFull;
    for (int key = 0; key < tile.keys; ++key) keep[key] = (word >> key) & 1 ? ~0ull : 0;
    return TileClass::kPartial;
  }
  uint64_t any = 0, every = all_keys;
  for (int row = 0; row < tile.rows; ++row) {
    keep[row] = gather_word(bools + row * mask.row_stride, mask.key_stride, tile.keys);
    any |= keep[row];
    every &= keep[row];
  }
  if (any == 0) return TileClass::kSkip;
  if (every == all_keys) return TileClass::kFull;
  for (int row = tile.rows; row < 64; ++row) keep[row] = 0;
  transpose_bits(keep);
  return TileClass::kPartial;
}

FA_HOST_DEVICE TileClass classify(const Mask& mask, const Tile& tile, uint64_t* keep) {
  TileClass tile_class = TileClass::kFull;
  if (mask.kind == MaskKind::kBool) tile_class = classify_bools(mask, tile, keep);
  if (tile_class == TileClass::kSkip || !mask.causal || tile.key + tile.keys - 1 <= tile.row) return tile_class;
  if (tile.key > tile.row + tile.rows - 1) return TileClass::kSkip;
  for (int key = 0; key < tile.keys; ++key) {
    const int64_t unseen = tile.key + key - tile.row;  // rows before the key's own
    const uint64_t rows = unseen <= 0 ? ~0ull : (unseen >= 64 ? 0 : ~0ull << unseen);
    keep[key] = tile_class == TileClass::kFull ? rows : keep[key] & rows;
  }
  return TileClass::kPartial;
}

template <class T>
FA_HOST_DEVICE void gather_bias_of(const Mask& mask, const Tile& tile, float* bias) {
  const T* first = static_cast<const T*>(mask.data) + tile.head_offset + tile.row * mask.row_stride +
                   tile.key * mask.key_stride;
  for (int row = 0; row < tile.rows; ++row) {
    const T* source = first + row * mask.row_stride;
    for (int key = 0; key < tile.keys; ++key) {
      bias[key * kBlockRows + row] = to_float(source[key * mask.key_stride]);
    }
  }
}

// bias[key][kBlockRows]: an additive mask's tile, transposed as the scores are.
FA_HOST_DEVICE void gather_bias(const Mask& mask, const Tile& tile, float* bias) {
  switch (mask.kind) {
    case MaskKind::kFloat32: return gather_bias_of<float>(mask, tile, bias);
    case MaskKind::kBFloat16: return gather_bias_of<BFloat16>(mask, tile, bias);
    case MaskKind::kFloat16: return gather_bias_of<Float16>(mask, tile, bias);
    default: return;
  }
}

}  // namespace fused_attention
