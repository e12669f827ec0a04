// Intel AMX's tile registers and the instructions of csrc/cpu/amx.h on plain arrays, after the operations and the
// exceptions of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. What would raise #UD or #GP
// ends the process.
#pragma once

#include "cpu/amx.h"

#include <cstdio>
#include <cstdlib>

#include "bf16_emulation.h"

namespace fused_attention {

struct TileState {
  TileConfig config;
  uint32_t cells[8][kTileRows][kTileLanes];
};

struct EmulatedTiles {
  static TileState& state() {
    static thread_local TileState tiles = {};
    return tiles;
  }

  static void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "AMX: %s\n", what);
    std::abort();
  }

  static void configure() {
    const TileConfig config = whole_tiles();
    require(config.palette == 1 && config.start_row == 0, "palette 1 from row 0");
    for (int tile = 0; tile < 16; ++tile) {
      const bool used = tile < 8;
      require(used ? config.rows[tile] <= kTileRows && config.row_bytes[tile] <= kTileBytes
                   : config.rows[tile] == 0 && config.row_bytes[tile] == 0, "no such tile in palette 1");
    }
    for (uint8_t byte : config.reserved) require(byte == 0, "reserved bytes are zero");
    state() = TileState{};
    state().config = config;
  }

  static void release() { state() = TileState{}; }

  static void require_tile(int tile) {
    const TileConfig& config = state().config;
    require(config.palette == 1, "no tiles are configured");
    require(config.rows[tile] != 0 && config.row_bytes[tile] % 4 == 0, "the tile is not configured");
  }

  template <int kTile>
  static void zero() {
    require_tile(kTile);
    memset(state().cells[kTile], 0, sizeof state().cells[kTile]);
  }

  template <int kTile>
  static void load(const void* base, int64_t stride) {
    zero<kTile>();
    const char* row = static_cast<const char*>(base);
    for (int m = 0; m < state().config.rows[kTile]; ++m, row += stride) {
      memcpy(state().cells[kTile][m], row, state().config.row_bytes[kTile]);
    }
  }

  template <int kTile>
  static void store(void* base, int64_t stride) {
    require_tile(kTile);
    char* row = static_cast<char*>(base);
    for (int m = 0; m < state().config.rows[kTile]; ++m, row += stride) {
      memcpy(row, state().cells[kTile][m], state().config.row_bytes[kTile]);
    }
  }

  template <int kSum, int kLeft, int kRight>
  static void multiply() {
    static_assert(kSum != kLeft && kSum != kRight && kLeft != kRight, "three tiles");
    require_tile(kSum);
    require_tile(kLeft);
    require_tile(kRight);
    const TileConfig& config = state().config;
    const int depth = config.row_bytes[kLeft] / 4, columns = config.row_bytes[kSum] / 4;
    require(config.rows[kSum] == config.rows[kLeft] && depth == config.rows[kRight] &&
                config.row_bytes[kSum] == config.row_bytes[kRight], "shapes do not match");
    for (int m = 0; m < config.rows[kSum]; ++m) {
      float even[kTileLanes] = {}, odd[kTileLanes] = {};
      for (int k = 0; k < depth; ++k) {
        const uint32_t left = state().cells[kLeft][m][k];
        for (int n = 0; n < columns; ++n) {
          const uint32_t right = state().cells[kRight][k][n];
          even[n] = fused(left << 16, right << 16, even[n]);
          odd[n] = fused(left & 0xffff0000u, right & 0xffff0000u, odd[n]);
        }
      }
      for (int n = 0; n < columns; ++n) {
        const float sum = flushed(from_bits(state().cells[kSum][m][n]));
        state().cells[kSum][m][n] = bits_of(flushed(sum + flushed(even[n] + odd[n])));
      }
    }
  }
};

}  // namespace fused_attention
