// Masks as bits: 64 elements a word.
#pragma once

#include "../portable.h"

namespace fused_attention {

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

}  // namespace fused_attention
