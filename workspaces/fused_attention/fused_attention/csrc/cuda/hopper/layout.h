// Layouts of the Hopper kernel: shared memory, matrix descriptors, and a warpgroup's registers.
//
// Sources: the PTX ISA's chapter on asynchronous warpgroup matrix instructions (register fragments, matrix
// descriptors, 128-byte swizzle), and the canonical layouts in CUTLASS's cute/atom/mma_traits_sm90_gmma.hpp.
#pragma once

#include "../../portable.h"

#ifdef __CUDACC__
#define FA_DEVICE __device__ __forceinline__
#else
#define FA_DEVICE inline
#endif

namespace fused_attention {
namespace hopper {

constexpr int kWarpgroup = 128;                         // threads
constexpr int kConsumers = 2;                           // warpgroups that multiply; one more loads
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kWarpgroupRows = 64;                      // of every wgmma
constexpr int kTileRows = kConsumers * kWarpgroupRows;  // query rows of a thread block
constexpr int kTileKeys = 128;
constexpr int kPanel = 64;                              // columns that fill the 128 bytes of a swizzled row
constexpr int kRowBytes = 128;
constexpr int kPanelBytes = kTileKeys * kRowBytes;      // kTileRows equals kTileKeys: query panels are as large
constexpr int kStep = 16;                               // columns that one wgmma sums over

// Registers for each thread of a role, by setmaxnreg: (24 + 2 * 240) * 128 of the 65536 that an SM has.
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

// Offsets into a thread block's shared memory, for head dimensions up to D. A tile is D / 64 panels of 64 columns; rows
// of a panel are 128 bytes, swizzled by TMA in groups of eight (see swizzle).
template <int D>
struct SharedMemory {
  static constexpr int kPanels = D / kPanel;
  static constexpr int kTileBytes = kPanels * kPanelBytes;
  static constexpr int kStages = D == 64 ? 4 : 2;  // of keys, and of values; for D = 128 no more fit beside the queries
  static constexpr int kQuery = 0;
  static constexpr int kKeys = kQuery + kTileBytes;
  static constexpr int kValues = kKeys + kStages * kTileBytes;
  static constexpr int kBarriers = kValues + kStages * kTileBytes;
  static constexpr int kTiles = kBarriers + (2 + 4 * kStages) * 8;  // the KeyTile of each stage of keys
  static constexpr int kBytes = kTiles + kStages * 8;

  FA_DEVICE static int keys(int stage) { return kKeys + stage * kTileBytes; }
  FA_DEVICE static int values(int stage) { return kValues + stage * kTileBytes; }
  FA_DEVICE static int tile(int stage) { return kTiles + stage * 8; }
  FA_DEVICE static int query_full() { return kBarriers; }
  FA_DEVICE static int query_empty() { return kBarriers + 8; }
  FA_DEVICE static int keys_full(int stage) { return kBarriers + 8 * (2 + stage); }
  FA_DEVICE static int keys_empty(int stage) { return kBarriers + 8 * (2 + kStages + stage); }
  FA_DEVICE static int values_full(int stage) { return kBarriers + 8 * (2 + 2 * kStages + stage); }
  FA_DEVICE static int values_empty(int stage) { return kBarriers + 8 * (2 + 3 * kStages + stage); }
};

// The 128-byte swizzle: which 16 bytes of a row hold a column depends on the row's number in its group of eight. Both
// TMA and wgmma take it from the address, so tiles begin at multiples of 1024.
FA_HOST_DEVICE uint32_t swizzle(uint32_t address) {
  return address ^ ((address >> 3) & 0x70u);
}

// Bits 0-13: address / 16; 16-29: leading offset / 16; 32-45: stride offset / 16; 62-63: 1 for 128-byte swizzle.
FA_HOST_DEVICE uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((address >> 4) & 0x3fff) | static_cast<uint64_t>((leading >> 4) & 0x3fff) << 16 |
         static_cast<uint64_t>((stride >> 4) & 0x3fff) << 32 | uint64_t{1} << 62;
}

// Rows of 16 columns that begin at `address` (queries, or keys as columns of the transpose): groups of eight rows are
// 1024 bytes apart; the leading offset is unused by this layout, 16 by convention.
FA_HOST_DEVICE uint64_t rows_descriptor(uint32_t address) {
  return matrix_descriptor(address, 16, 8 * kRowBytes);
}

// 16 rows of values, as a matrix whose columns run along memory: panels of 64 columns, groups of eight rows. A single
// panel has no leading offset.
template <int D>
FA_HOST_DEVICE uint64_t columns_descriptor(uint32_t address) {
  return matrix_descriptor(address, D > kPanel ? kPanelBytes : 0, 8 * kRowBytes);
}

// The accumulator of m64nNk16 gives a thread rows fragment_row and 8 more, and of each eight columns two that are side
// by side: register 4 * j + 2 * r + e is row fragment_row + 8 * r, column 8 * j + fragment_column + e.
FA_HOST_DEVICE int fragment_row(int thread) {
  return thread / 32 % 4 * 16 + thread % 32 / 4;
}

FA_HOST_DEVICE int fragment_column(int thread) {
  return thread % 4 * 2;
}

}  // namespace hopper
}  // namespace fused_attention
