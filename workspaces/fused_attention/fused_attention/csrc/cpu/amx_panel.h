// Attention of one panel of bf16 rows with both products in AMX tiles. Each step handles all keys of a chunk, and
// passes its result through memory: the scores, then the softmax, then the product with the values.
#pragma once

#include "amx_gemm.h"
#include "pack.h"
#include "panel.h"

namespace fused_attention {
namespace FA_ISA {

static_assert(kLanes == kTileLanes && kGranule == kTileRows, "a vector is a row of a tile");
static_assert(kChunkKeys % kTileDepth == 0, "a chunk is tiles of keys");

template <class Tiles>
struct TileMath {
  using Registers = Tiles;
  static constexpr int kPair = 2;
  static constexpr int kExpDegree = 3;

  // Lane i: bfloat16 of x[0][i] in the low half, of x[1][i] in the high one.
  FA_HOST_DEVICE static WordVector pair(const Vec (&x)[2]) {
#if FA_LEVEL >= 3
    return (WordVector)DotMath::pair(x);
#else
    WordVector rounded[2];
    for (int i = 0; i < 2; ++i) {
      const WordVector bits = (WordVector)x[i];
      rounded[i] = x[i] == x[i] ? bits + 0x7fffu + ((bits >> 16) & 1u) : WordVector{} + 0x7fc00000u;
    }
    return (rounded[0] >> 16) | (rounded[1] & 0xffff0000u);
#endif
  }
};

// Keys of whole tiles: zeros up to a multiple of 32 dimensions.
template <class Tiles>
struct Words<TileMath<Tiles>, BFloat16> {
  static constexpr int64_t kPerWord = 2;
  static constexpr bool kInPlace = true;  // where they fill tiles
  static int64_t count(int64_t head_dim) { return (head_dim + kTileDepth - 1) / kTileDepth * kTileLanes; }
  FA_HOST_DEVICE static void copy(const BFloat16* row, int64_t head_dim, float* out) {
    const size_t bytes = head_dim * sizeof *row;
    memcpy(out, row, bytes);
    memset(reinterpret_cast<char*>(out) + bytes, 0, count(head_dim) * sizeof *out - bytes);
  }
};

template <class Tiles>
struct Values<TileMath<Tiles>, BFloat16> {
  FA_HOST_DEVICE static void copy(const BFloat16* const* rows, int64_t head_dim, int64_t width, float* out) {
    for (int64_t d = 0; d < width; d += kLanes) {
      uint16_t half[2][kLanes] = {};
      for (int i = 0; i < 2; ++i) {
        if (!rows[i]) continue;
        if (d + kLanes <= head_dim) {
          memcpy(half[i], rows[i] + d, sizeof half[i]);
        } else {
          memcpy(half[i], rows[i] + d, (head_dim - d) * sizeof **rows);
        }
      }
      WordVector words;
      for (int i = 0; i < kLanes; ++i) words[i] = half[0][i] | static_cast<uint32_t>(half[1][i]) << 16;
      memcpy(out + d, &words, sizeof words);
    }
  }
};

// Adds the bias to a chunk's scores, in units of log2, and raises the references to them. Returns true if earlier sums
// must be multiplied by factor[row].
template <bool kMasked, bool kBias>
static bool raise_to_scores(const ChunkData& chunk, int granules, float scale, float* scores, RowState& state,
                            float* factor) {
  const int pitch = granules * kGranule;
  const Vec scales = broadcast(scale);
  bool is_raised = false;
  for (int g = 0; g < granules; ++g) {
    Vec peak = broadcast(-FLT_MAX);
    for (int key = 0; key < chunk.count; ++key) {
      float* at = scores + key * pitch + g * kLanes;
      Vec score = load(at) * scales;
      if (kBias) {
        score += load(chunk.bias + key * pitch + g * kLanes);
        store(at, score);
      }
      peak = kMasked ? maximum_of_kept(keep_of(chunk.words[key * granules + g]), score, peak) : maximum(score, peak);
    }
    const Vec old = load(state.reference + g * kLanes);
    const Vec reference = maximum(peak, old);
    const Vec change = exp2<6>(old - reference);
    is_raised |= any_above(reference - old, 0.0f);
    store(factor + g * kLanes, change);
    store(state.reference + g * kLanes, reference);
    store(state.total + g * kLanes, load(state.total + g * kLanes) * change);
  }
  return is_raised;
}

// Weights of scores, as tiles[granule][count / 32][16 rows][16 words].
template <class Math, bool kMasked>
static void weigh_in_tiles(const ChunkData& chunk, int granules, float scale, const float* scores, RowState& state,
                           float* tiles) {
  const int pitch = granules * kGranule;
  const Vec scales = broadcast(scale);
  for (int g = 0; g < granules; ++g) {
    const Vec reference = load(state.reference + g * kLanes);
    Vec total[2] = {Vec{}, Vec{}};
    for (int first = 0; first < chunk.count; first += kTileDepth) {
      WordVector tile[kTileRows];
      for (int i = 0; i < kTileRows; ++i) {
        Vec weight[2];
        for (int j = 0; j < 2; ++j) {
          const int key = first + 2 * i + j;
          weight[j] = exp2<Math::kExpDegree>(load(scores + key * pitch + g * kLanes) * scales - reference);
          if (kMasked) weight[j] = zero_unless(keep_of(chunk.words[key * granules + g]), weight[j]);
          total[j] += weight[j];
        }
        tile[i] = Math::pair(weight);
      }
      transpose_words(tile);
      memcpy(tiles, tile, sizeof tile);
      tiles += kTileRows * kTileLanes;
    }
    store(state.total + g * kLanes, load(state.total + g * kLanes) + (total[0] + total[1]));
  }
}

template <class Math, bool kMasked, bool kBias>
static void attend_chunk_in_tiles(const ChunkData& chunk, int granules, int64_t words, float scale, PanelBuffers& b,
                                  bool* is_first) {
  using Tiles = typename Math::Registers;
  const int pitch = granules * kGranule;
  alignas(64) float factor[kMaxPanelRows];
  multiply_keys<Tiles>(chunk.keys, chunk.key_stride, chunk.count, words, b.query, pitch, b.scores);
  const bool is_raised = raise_to_scores<kMasked, kBias>(chunk, granules, scale, b.scores, b.state, factor);
  for (int row = 0; is_raised && !*is_first && row < b.rows; ++row) {
    float* out = b.out + row * b.width;
    for (int64_t d = 0; d < b.width; d += kLanes) store(out + d, load(out + d) * broadcast(factor[row]));
  }
  weigh_in_tiles<Math, kMasked>(chunk, granules, kBias ? 1.0f : scale, b.scores, b.state, b.weights);
  multiply_weights<Tiles>(b.weights, pitch, chunk.values, chunk.value_stride, chunk.count, b.width, *is_first, b.out,
                          b.width);
  *is_first = false;
}

template <class Math>
static void attend_chunk_in_tiles(const ChunkData& chunk, int granules, int64_t words, float scale, PanelBuffers& b,
                                  bool* is_first) {
  if (chunk.bias) {
    chunk.words ? attend_chunk_in_tiles<Math, true, true>(chunk, granules, words, scale, b, is_first)
                : attend_chunk_in_tiles<Math, false, true>(chunk, granules, words, scale, b, is_first);
  } else {
    chunk.words ? attend_chunk_in_tiles<Math, true, false>(chunk, granules, words, scale, b, is_first)
                : attend_chunk_in_tiles<Math, false, false>(chunk, granules, words, scale, b, is_first);
  }
}

}  // namespace FA_ISA
}  // namespace fused_attention
