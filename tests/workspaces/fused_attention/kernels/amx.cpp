// The AMX products, callable from Python: by emulated tiles anywhere, and by the real ones where there are any.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than this machine's never leave a function
#include "cpu/amx_gemm.h"

#include "amx_emulation.h"
#include "cpu/amx.cpp"

using namespace fused_attention;

namespace {

template <class Tiles>
void multiply_keys_with(const float* keys, int64_t key_stride, int count, int64_t words, const float* query, int rows,
                        float* scores) {
  Tiles::configure();
  multiply_keys<Tiles>(keys, key_stride, count, words, query, rows, scores);
  Tiles::release();
}

template <class Tiles>
void multiply_weights_with(const float* tiles, int rows, const float* values, int64_t value_stride, int count,
                           int64_t width, bool is_first, float* out, int64_t out_stride) {
  Tiles::configure();
  multiply_weights<Tiles>(tiles, rows, values, value_stride, count, width, is_first, out, out_stride);
  Tiles::release();
}

}  // namespace

extern "C" {

int usable() {
#ifdef FA_AMX
  return amx_usable();
#else
  return 0;
#endif
}

// sum[16][16] += left[16][32] * right[16][16][2].
void multiply_one(const uint16_t* left, const uint16_t* right, float* sum) {
  EmulatedTiles::configure();
  EmulatedTiles::load<0>(sum, kTileBytes);
  EmulatedTiles::load<1>(left, kTileBytes);
  EmulatedTiles::load<2>(right, kTileBytes);
  EmulatedTiles::multiply<0, 1, 2>();
  EmulatedTiles::store<0>(sum, kTileBytes);
  EmulatedTiles::release();
}

void multiply_without_configuration() {
  EmulatedTiles::multiply<0, 1, 2>();
}

void keys(int hardware, const float* keys, int64_t key_stride, int count, int64_t words, const float* query, int rows,
          float* scores) {
#ifdef FA_AMX
  if (hardware) return multiply_keys_with<HardwareTiles>(keys, key_stride, count, words, query, rows, scores);
#endif
  (void)hardware;
  multiply_keys_with<EmulatedTiles>(keys, key_stride, count, words, query, rows, scores);
}

void weights(int hardware, const float* tiles, int rows, const float* values, int64_t value_stride, int count,
             int64_t width, int is_first, float* out, int64_t out_stride) {
#ifdef FA_AMX
  if (hardware) {
    return multiply_weights_with<HardwareTiles>(tiles, rows, values, value_stride, count, width, is_first, out,
                                                out_stride);
  }
#endif
  (void)hardware;
  multiply_weights_with<EmulatedTiles>(tiles, rows, values, value_stride, count, width, is_first, out, out_stride);
}

void transpose(uint32_t* words) {
  WordVector rows[kTileRows];
  memcpy(rows, words, sizeof rows);
  transpose_words(rows);
  memcpy(words, rows, sizeof rows);
}

#ifdef FA_AMX
// Never called: each instruction once, to be disassembled.
void instructions(void* memory, int64_t stride) {
  HardwareTiles::configure();
  HardwareTiles::zero<5>();
  HardwareTiles::load<6>(memory, stride);
  HardwareTiles::multiply<1, 2, 7>();
  HardwareTiles::store<3>(memory, stride);
  HardwareTiles::release();
}
#endif
}
