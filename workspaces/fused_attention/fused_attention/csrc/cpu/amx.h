// The tile registers of Intel AMX, for amx_gemm.h. The tests have an emulation with the same interface.
//
// Instructions are written as bytes (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
// Assemblers before binutils 2.35 lack AMX. And gcc 12's _tile_loadd and _tile_loadconfig do not declare the memory
// that they read, so the compiler may move or drop the stores before them.
#pragma once

#include "../portable.h"

namespace fused_attention {

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of a row
constexpr int kTileLanes = 16;  // floats of a row, or pairs of bfloat16
constexpr int kTileDepth = 32;  // bfloat16 of a row: one multiplication sums over these

// LDTILECFG's operand.
struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

static_assert(sizeof(TileConfig) == 64, "LDTILECFG reads 64 bytes");

// Palette 1: eight tiles, each of full size.
FA_HOST_DEVICE TileConfig whole_tiles() {
  TileConfig config{};
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileBytes;
    config.rows[tile] = kTileRows;
  }
  return config;
}

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FA_AMX 1

// Whether the processor and the operating system have AMX with BF16, and this process may use it: Linux (5.16 and
// newer) grants the tiles' 8 KiB of state on request. The request is made once.
bool amx_usable();

// The calling thread's registers. `stride` is in bytes.
struct HardwareTiles {
  // oneDNN configures the same registers in the same threads: configure before use, release when done.
  FA_HOST_DEVICE static void configure() {
    const TileConfig config = whole_tiles();
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00"  // ldtilecfg (%rax)
                 :
                 : "a"(&config), "m"(config));
  }

  // Also ends the extra cost of saving the tiles when the kernel switches threads.
  FA_HOST_DEVICE static void release() {
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" ::: "memory");  // tilerelease
  }

  template <int kTile>
  FA_HOST_DEVICE static void zero() {
    asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x49, %c0" : : "i"(0xc0 | kTile << 3));  // tilezero
  }

  template <int kTile>
  FA_HOST_DEVICE static void load(const void* base, int64_t stride) {
    asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, %c2, 0x08"  // tileloadd (%rax,%rcx,1)
                 :
                 : "a"(base), "c"(stride), "i"(0x04 | kTile << 3)
                 : "memory");
  }

  template <int kTile>
  FA_HOST_DEVICE static void store(void* base, int64_t stride) {
    asm volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, %c2, 0x08"  // tilestored (%rax,%rcx,1)
                 :
                 : "a"(base), "c"(stride), "i"(0x04 | kTile << 3)
                 : "memory");
  }

  // sum[m][n] += left[m][2k] * right[k][2n] + left[m][2k + 1] * right[k][2n + 1], over all k.
  template <int kSum, int kLeft, int kRight>
  FA_HOST_DEVICE static void multiply() {
    static_assert(kSum != kLeft && kSum != kRight && kLeft != kRight, "TDPBF16PS wants three tiles");
    asm volatile(".byte 0xc4, 0xe2, %c0, 0x5c, %c1"  // tdpbf16ps
                 :
                 : "i"(0x02 | (15 - kRight) << 3), "i"(0xc0 | kSum << 3 | kLeft));
  }
};

#endif

}  // namespace fused_attention
