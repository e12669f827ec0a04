// Makes lists of key tiles from a boolean mask, on the device; the host does not wait.
#pragma once

#include "classification.h"

namespace fused_attention {

// One thread block makes one list. Each warp classifies a key tile, and tiles are appended in order.
__device__ inline void classify_list(const Classification& c) {
  constexpr int kWarps = kClassifyThreads / 32;
  __shared__ int32_t found[kWarps];  // bits of the KeyTile, or kSkipped
  constexpr int32_t kSkipped = -2;
  const int64_t list = blockIdx.x;
  const int query_tile = static_cast<int>(list % c.query_tiles);
  const int64_t head = list / c.query_tiles % c.heads, batch = list / c.query_tiles / c.heads;
  const int first_row = query_tile * c.rows;
  const int rows = c.q_len - first_row < c.rows ? c.q_len - first_row : c.rows;
  const bool causal = c.mask.causal && !c.structure.exists();  // those lists are causal already
  const KeyTile* candidates = nullptr;
  int count = static_cast<int>((c.mask.key_end(first_row + rows - 1, c.k_len) + c.keys - 1) / c.keys);
  if (c.structure.exists()) {
    const KeyTileRange range = c.structure.range(batch, head, query_tile);
    candidates = c.structure.tiles + range.begin;
    count = range.end - range.begin;
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint8_t* mask = static_cast<const uint8_t*>(c.mask.data) + c.mask.offset(batch, head);
  const int32_t begin = static_cast<int32_t>(list * c.capacity);
  int32_t listed = 0;
  for (int first = 0; first < count; first += kWarps) {
    const int i = first + warp;
    if (i < count) {
      const KeyTile candidate = candidates ? candidates[i] : KeyTile{i, kFullTile};
      bool any = false, all = true;
      for (int w = 0; w < c.keys / 64; ++w) {
        const int key = candidate.index * c.keys + w * 64;
        uint64_t mine = 0;
        for (int row = 0; row < c.rows; ++row) {
          uint64_t word = 0;
          if (row < rows) {
            const uint8_t* line = mask + (first_row + row) * c.mask.row_stride;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int this_key = key + half * 32 + lane;
              const bool seen = this_key < c.k_len && !(causal && this_key > first_row + row) &&
                                line[this_key * c.mask.key_stride] != 0;
              word |= static_cast<uint64_t>(__ballot_sync(0xffffffffu, seen)) << (32 * half);
            }
            if (candidate.bits != kFullTile) word &= c.structure.row_bits(candidate.bits, row)[w];
            any = any || word != 0;
            all = all && ~word == 0;
          }
          // A lane keeps every 32nd row, so that the warp writes together.
          if (row % 32 == lane) mine = word;
          const int kept = row % 32 + 1;
          if ((kept == 32 || row + 1 == c.rows) && lane < kept) {
            const int64_t at = static_cast<int64_t>(begin + i) * c.rows + row + 1 - kept + lane;
            c.bits[at * (c.keys / 64) + w] = mine;
          }
        }
      }
      if (lane == 0) found[warp] = !any ? kSkipped : all ? kFullTile : begin + i;
    }
    __syncthreads();
    const int together = count - first < kWarps ? count - first : kWarps;
    for (int w = 0; w < together; ++w) {
      if (found[w] == kSkipped) continue;
      if (threadIdx.x == 0) {
        const int32_t index = candidates ? candidates[first + w].index : first + w;
        c.tiles[begin + listed] = KeyTile{index, found[w]};
      }
      ++listed;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) c.ranges[list] = KeyTileRange{begin, begin + listed};
}

}  // namespace fused_attention
