// The two bf16 products of a panel of query rows in AMX tiles. Tables hold 32-bit words, as in gemm.h: a float, or two
// bfloat16 whose products are summed.
//
//   scores[key][row] = sum over d of keys[key][d] * query[d][row]      keys in place
//   out[row][d] (+)= sum over key of weights[row][key] * values[key][d]  weights from tiles of 16 rows x 32 keys
//
// `Tiles` is HardwareTiles of amx.h or an emulation with the same members, configured.
#pragma once

#include "amx.h"

namespace fused_attention {

// An operand in memory, with distances in bytes: `row` to the next row of a tile, `step` to the next tile of the sum,
// `block` to the tile of the next 16 rows (left) or columns (right) of the result.
struct TileOperand {
  const float* data;
  int64_t row, step, block;

  FA_HOST_DEVICE const void* tile(int64_t steps, int blocks) const {
    return reinterpret_cast<const char*>(data) + steps * step + blocks * block;
  }
};

// An M x N block of result tiles, M and N at most 2: tiles 0 to 3 are the sums, 4 and 5 left, 6 and 7 right. Two by
// two, each load serves two multiplications, and one of those takes as long as two loads.
template <class Tiles, int M, int N>
FA_HOST_DEVICE void multiply_tiles(const TileOperand& left, const TileOperand& right, int64_t steps, int first_left,
                                   int first_right, bool accumulate, float* out, int64_t out_stride) {
  float* second = out + kTileRows * out_stride;
  const int64_t out_bytes = out_stride * static_cast<int64_t>(sizeof(float));
  if (accumulate) {
    Tiles::template load<0>(out, out_bytes);
    if (N == 2) Tiles::template load<1>(out + kTileLanes, out_bytes);
    if (M == 2) Tiles::template load<2>(second, out_bytes);
    if (M == 2 && N == 2) Tiles::template load<3>(second + kTileLanes, out_bytes);
  } else {
    Tiles::template zero<0>();
    if (N == 2) Tiles::template zero<1>();
    if (M == 2) Tiles::template zero<2>();
    if (M == 2 && N == 2) Tiles::template zero<3>();
  }
  for (int64_t step = 0; step < steps; ++step) {
    Tiles::template load<4>(left.tile(step, first_left), left.row);
    Tiles::template load<6>(right.tile(step, first_right), right.row);
    Tiles::template multiply<0, 4, 6>();
    if (M == 2) {
      Tiles::template load<5>(left.tile(step, first_left + 1), left.row);
      Tiles::template multiply<2, 5, 6>();
    }
    if (N == 2) {
      Tiles::template load<7>(right.tile(step, first_right + 1), right.row);
      Tiles::template multiply<1, 4, 7>();
    }
    if (M == 2 && N == 2) Tiles::template multiply<3, 5, 7>();
  }
  Tiles::template store<0>(out, out_bytes);
  if (N == 2) Tiles::template store<1>(out + kTileLanes, out_bytes);
  if (M == 2) Tiles::template store<2>(second, out_bytes);
  if (M == 2 && N == 2) Tiles::template store<3>(second + kTileLanes, out_bytes);
}

// out[m][n] (+)= left * right for m < 16 * left_blocks and n < 16 * right_blocks; rows of `out` are out_stride floats
// apart. Left blocks are the inner loop: one or two blocks of the right-hand side stay in the L1 cache.
template <class Tiles>
static void multiply_panel(const TileOperand& left, const TileOperand& right, int64_t steps, int left_blocks,
                           int right_blocks, bool accumulate, float* out, int64_t out_stride) {
  for (int n = 0; n < right_blocks; n += 2) {
    const bool wide = n + 1 < right_blocks;
    for (int m = 0; m < left_blocks; m += 2) {
      float* target = out + m * kTileRows * out_stride + n * kTileLanes;
      const bool tall = m + 1 < left_blocks;
      if (tall && wide) {
        multiply_tiles<Tiles, 2, 2>(left, right, steps, m, n, accumulate, target, out_stride);
      } else if (tall) {
        multiply_tiles<Tiles, 2, 1>(left, right, steps, m, n, accumulate, target, out_stride);
      } else if (wide) {
        multiply_tiles<Tiles, 1, 2>(left, right, steps, m, n, accumulate, target, out_stride);
      } else {
        multiply_tiles<Tiles, 1, 1>(left, right, steps, m, n, accumulate, target, out_stride);
      }
    }
  }
}

// scores[key][rows] for `count` keys of `words` words, `key_stride` words apart, and query[words][rows]; count, words
// and rows are multiples of 16.
template <class Tiles>
static void multiply_keys(const float* keys, int64_t key_stride, int count, int64_t words, const float* query,
                          int rows, float* scores) {
  constexpr int64_t kWord = sizeof(float);
  const TileOperand left{keys, key_stride * kWord, kTileBytes, kTileRows * key_stride * kWord};
  const TileOperand right{query, rows * kWord, kTileRows * rows * kWord, kTileBytes};
  multiply_panel<Tiles>(left, right, words / kTileLanes, count / kTileRows, rows / kTileLanes, false, scores, rows);
}

// out[row][width] (+)= weights * values for `count` keys, a multiple of 32; rows and width are multiples of 16. Weights
// are tiles[rows / 16][count / 32][16 rows][16 words], values [count / 2][value_stride] words.
template <class Tiles>
static void multiply_weights(const float* tiles, int rows, const float* values, int64_t value_stride, int count,
                             int64_t width, bool is_first, float* out, int64_t out_stride) {
  constexpr int64_t kWord = sizeof(float);
  constexpr int64_t kTile = kTileRows * kTileBytes;
  const int64_t steps = count / kTileDepth;
  const TileOperand left{tiles, kTileBytes, kTile, steps * kTile};
  const TileOperand right{values, value_stride * kWord, kTileRows * value_stride * kWord, kTileBytes};
  multiply_panel<Tiles>(left, right, steps, rows / kTileRows, static_cast<int>(width / kTileLanes), !is_first, out,
                        out_stride);
}

using WordVector = uint32_t __attribute__((vector_size(kTileBytes)));

// Every other run of `kRun` words from each of two rows: the first runs, or with `high` the second ones.
template <int kRun>
FA_HOST_DEVICE WordVector runs_of(const WordVector& x, const WordVector& y, bool high) {
  WordVector index;
  for (int i = 0; i < kTileLanes; ++i) {
    const int in_row = (i & ~kRun) | (high ? kRun : 0);
    index[i] = static_cast<uint32_t>(i & kRun ? kTileLanes + in_row : in_row);
  }
  return __builtin_shuffle(x, y, index);
}

// Exchanges the off-diagonal squares of kRun x kRun words.
template <int kRun>
FA_HOST_DEVICE void exchange_squares(WordVector* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileLanes; ++i) {
    if (i & kRun) continue;
    const WordVector upper = rows[i], lower = rows[i | kRun];
    rows[i] = runs_of<kRun>(upper, lower, false);
    rows[i | kRun] = runs_of<kRun>(upper, lower, true);
  }
}

// Transposes 16 x 16 words.
FA_HOST_DEVICE void transpose_words(WordVector* rows) {
  exchange_squares<8>(rows);
  exchange_squares<4>(rows);
  exchange_squares<2>(rows);
  exchange_squares<1>(rows);
}

}  // namespace fused_attention
