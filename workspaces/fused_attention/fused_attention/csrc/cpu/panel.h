// Attention of one panel: the two products with the softmax between them.
#pragma once

#include <cfloat>
#include <type_traits>

#include "attention.h"
#include "gemm.h"

namespace fused_attention {
namespace FA_ISA {

// Weights are 2^(score - reference), with queries scaled to units of log2. For float weights the reference need not be
// a row's exact maximum: no weight may be too large, and the largest must not be tiny. So a row's reference is raised
// only if a score exceeds it by more than this, and scores become weights while they are in registers.
// For weights rounded to bfloat16 the exact maximum is better: the largest weight, 1, is then exact. Their scores stay
// in memory until the chunk's maximum is known.
constexpr float kHeadroom = 6.0f;

// The most keys of one sum of floats, which is then added to the total: short sums lose less precision. Large enough
// that the additions cost little, and a multiple of every kernel's blocks.
constexpr int kSumKeys = 96;

struct RowState {
  alignas(64) float reference[kMaxPanelRows];  // in units of log2
  alignas(64) float total[kMaxPanelRows];      // of weights
  alignas(64) float part[kMaxPanelRows];       // of weights whose products are not in the output yet
  alignas(64) float peak[kMaxPanelRows];       // of the scores that were too large

  void reset() {
    for (int i = 0; i < kMaxPanelRows; ++i) {
      // Not -inf: a score of -inf must give a weight of zero, and inf - inf is NaN.
      reference[i] = -FLT_MAX;
      total[i] = 0.0f;
      part[i] = 0.0f;
    }
  }
};

// R keys against C vectors of rows. Returns false, with `peak` set and nothing added, if a reference must be raised
// first.
template <class Math, int R, int C, bool kMasked, bool kBias>
static bool weigh_block(const float* keys, int64_t key_stride, const float* query, int64_t steps,
                        const uint16_t* words, const float* bias, RowState& state, float* weights) {
  constexpr int kPitch = C * kLanes;
  constexpr int kGranules = kPitch / kGranule;
  Vec score[R][C];
  multiply_rows<Math, R, C>(keys, key_stride, query, kPitch, steps, score);

  Vec peak[C];
  for (int c = 0; c < C; ++c) peak[c] = broadcast(-FLT_MAX);
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) {
      if (kBias) score[i][c] += load(bias + i * kPitch + c * kLanes);
      if (kMasked) {
        const uint32_t word = words[i * kGranules + c * kLanes / kGranule] >> (c * kLanes % kGranule);
        peak[c] = maximum_of_kept(keep_of(word), score[i][c], peak[c]);
      } else {
        peak[c] = maximum(score[i][c], peak[c]);
      }
    }
  }
  Vec reference[C];
  bool exceeds = false;
  for (int c = 0; c < C; ++c) {
    reference[c] = load(state.reference + c * kLanes);
    exceeds |= any_above(peak[c] - reference[c], kHeadroom);
  }
  if (exceeds) {
    exceeds = false;
    for (int c = 0; c < C; ++c) {
      // A row without sums so far is raised here: it has nothing to rescale.
      const Vec raised = maximum(peak[c], reference[c]);
      const Vec total = load(state.total + c * kLanes) + load(state.part + c * kLanes);
      reference[c] = total == Vec{} ? raised : reference[c];
      store(state.reference + c * kLanes, reference[c]);
      store(state.peak + c * kLanes, peak[c]);
      exceeds |= any_above(peak[c] - reference[c], kHeadroom);
    }
    if (exceeds) return false;
  }

  for (int c = 0; c < C; ++c) {
    Vec total = Vec{};
    for (int i = 0; i < R; ++i) {
      Vec weight = exp2<Math::kExpDegree>(score[i][c] - reference[c]);
      if (kMasked) {
        const uint32_t word = words[i * kGranules + c * kLanes / kGranule] >> (c * kLanes % kGranule);
        weight = zero_unless(keep_of(word), weight);
      }
      total += weight;
      store(weights + (i * C + c) * kLanes, weight);
    }
    store(state.part + c * kLanes, load(state.part + c * kLanes) + total);
  }
  return true;
}

// R keys against C vectors of rows: scores, and their maxima in state.peak.
template <class Math, int R, int C, bool kMasked, bool kBias>
static void score_block(const float* keys, int64_t key_stride, const float* query, int64_t steps, float scale,
                        const uint16_t* words, const float* bias, RowState& state, float* scores) {
  constexpr int kPitch = C * kLanes;
  constexpr int kGranules = kPitch / kGranule;
  Vec score[R][C];
  multiply_rows<Math, R, C>(keys, key_stride, query, kPitch, steps, score);
  for (int c = 0; c < C; ++c) {
    Vec peak = load(state.peak + c * kLanes);
    for (int i = 0; i < R; ++i) {
      score[i][c] *= broadcast(scale);
      if (kBias) score[i][c] += load(bias + i * kPitch + c * kLanes);
      if (kMasked) {
        const uint32_t word = words[i * kGranules + c * kLanes / kGranule] >> (c * kLanes % kGranule);
        peak = maximum_of_kept(keep_of(word), score[i][c], peak);
      } else {
        peak = maximum(score[i][c], peak);
      }
      store(scores + i * kPitch + c * kLanes, score[i][c]);
    }
    store(state.peak + c * kLanes, peak);
  }
}

// Raises references to state.peak and turns a chunk's scores into weights. Earlier sums must be multiplied by
// factor[row].
template <class Math, int C, bool kMasked>
static void weigh_scores(const float* scores, int count, const uint16_t* words, RowState& state, float* factor,
                         float* weights) {
  constexpr int kPitch = C * kLanes;
  constexpr int kGranules = kPitch / kGranule;
  for (int c = 0; c < C; ++c) {
    const Vec old = load(state.reference + c * kLanes);
    const Vec reference = maximum(load(state.peak + c * kLanes), old);
    const Vec change = exp2<6>(old - reference);
    store(state.reference + c * kLanes, reference);
    store(factor + c * kLanes, change);
    Vec total = Vec{};
    for (int key = 0; key < count; key += Math::kPair) {
      Vec weight[Math::kPair];
      for (int j = 0; j < Math::kPair; ++j) {
        weight[j] = exp2<Math::kExpDegree>(load(scores + (key + j) * kPitch + c * kLanes) - reference);
        if (kMasked) {
          const uint32_t word = words[(key + j) * kGranules + c * kLanes / kGranule] >> (c * kLanes % kGranule);
          weight[j] = zero_unless(keep_of(word), weight[j]);
        }
        total += weight[j];
      }
      store(weights + key / Math::kPair * kPitch + c * kLanes, Math::pair(weight));
    }
    store(state.total + c * kLanes, load(state.total + c * kLanes) * change + total);
  }
}

// The addresses of one chunk's keys and values, in words.
struct ChunkData {
  const float *keys, *values;
  int64_t key_stride, value_stride;  // of values: between keys, or pairs of them
  const float* bias;                 // [count][panel's rows]; null: none
  const uint16_t* words;             // null: every row sees every key
  int count;
};

struct PanelBuffers {
  float* query;    // [words of a head dimension][rows]
  float* weights;  // [kChunkKeys / kPair][rows]
  float* scores;   // [kChunkKeys][rows], where weights are pairs
  float* out;      // [rows][width]
  int64_t width;   // the head dimension, rounded up to 16
  int rows;        // to compute, a multiple of 8
  RowState state;
};

template <class Math, int C>
static void flush(const ChunkData& chunk, int from, int to, const float* factor, PanelBuffers& b, bool* is_first) {
  if (from == to) return;
  constexpr int kPitch = C * kLanes;
  multiply_values<Math>(b.weights + from / Math::kPair * kPitch, kPitch, b.rows,
                        chunk.values + from / Math::kPair * chunk.value_stride, chunk.value_stride, b.width,
                        (to - from) / Math::kPair, Output{b.out, b.width, factor, *is_first});
  *is_first = false;
  for (int i = 0; Math::kPair == 1 && i < kPitch; i += kLanes) {
    store(b.state.total + i, load(b.state.total + i) + load(b.state.part + i));
    store(b.state.part + i, Vec{});
  }
}

// Raises references to the scores that were too large, and rescales the earlier sums.
template <int C>
static void raise_references(PanelBuffers& b, bool is_first) {
  alignas(64) float factor[kMaxPanelRows];
  RowState& s = b.state;
  for (int c = 0; c < C; ++c) {
    const Vec old = load(s.reference + c * kLanes);
    const Vec raised = maximum(load(s.peak + c * kLanes), old);
    const Vec change = exp2<6>(old - raised);
    store(s.reference + c * kLanes, raised);
    store(s.total + c * kLanes, load(s.total + c * kLanes) * change);
    store(factor + c * kLanes, change);
  }
  if (is_first) return;
  for (int row = 0; row < b.rows; ++row) {
    const Vec scale = broadcast(factor[row]);
    float* out = b.out + row * b.width;
    for (int64_t d = 0; d < b.width; d += kLanes) store(out + d, load(out + d) * scale);
  }
}

// Runs the kernel for the next R keys; returns R.
template <class Math, int C, class Block>
FA_HOST_DEVICE int next_block(int left, const Block& block) {
  using S = Shape<C>;
  if (left >= S::kBig) return block(std::integral_constant<int, S::kBig>());
  if (left >= S::kMiddle) return block(std::integral_constant<int, S::kMiddle>());
  return block(std::integral_constant<int, S::kSmall>());
}

template <class Math, int C, bool kMasked, bool kBias>
static void attend_chunk(const ChunkData& chunk, int64_t steps, float scale, PanelBuffers& b, bool* is_first) {
  constexpr int kPitch = C * kLanes;
  constexpr int kGranules = kPitch / kGranule;
  if (Math::kPair == 2) {
    alignas(64) float factor[kMaxPanelRows];
    for (int i = 0; i < kPitch; ++i) b.state.peak[i] = -FLT_MAX;
    for (int key = 0; key < chunk.count;) {
      key += next_block<Math, C>(chunk.count - key, [&](auto rows) {
        score_block<Math, decltype(rows)::value, C, kMasked, kBias>(
            chunk.keys + key * chunk.key_stride, chunk.key_stride, b.query, steps, scale,
            kMasked ? chunk.words + key * kGranules : nullptr, kBias ? chunk.bias + key * kPitch : nullptr, b.state,
            b.scores + key * kPitch);
        return decltype(rows)::value;
      });
    }
    weigh_scores<Math, C, kMasked>(b.scores, chunk.count, chunk.words, b.state, factor, b.weights);
    return flush<Math, C>(chunk, 0, chunk.count, factor, b, is_first);
  }
  int flushed = 0;
  for (int key = 0; key < chunk.count;) {
    const int done = next_block<Math, C>(chunk.count - key, [&](auto rows) {
      const bool is_done = weigh_block<Math, decltype(rows)::value, C, kMasked, kBias>(
          chunk.keys + key * chunk.key_stride, chunk.key_stride, b.query, steps,
          kMasked ? chunk.words + key * kGranules : nullptr, kBias ? chunk.bias + key * kPitch : nullptr, b.state,
          b.weights + key * kPitch);
      return is_done ? decltype(rows)::value : 0;
    });
    key += done;
    if (done == 0 || key - flushed >= kSumKeys) {
      flush<Math, C>(chunk, flushed, key, nullptr, b, is_first);
      flushed = key;
    }
    if (done == 0) raise_references<C>(b, *is_first);
  }
  flush<Math, C>(chunk, flushed, chunk.count, nullptr, b, is_first);
}

template <class Math, int C>
static void attend_chunk_of(const ChunkData& chunk, int64_t steps, float scale, PanelBuffers& b, bool* is_first) {
  if (chunk.bias) {
    chunk.words ? attend_chunk<Math, C, true, true>(chunk, steps, scale, b, is_first)
                : attend_chunk<Math, C, false, true>(chunk, steps, scale, b, is_first);
  } else {
    chunk.words ? attend_chunk<Math, C, true, false>(chunk, steps, scale, b, is_first)
                : attend_chunk<Math, C, false, false>(chunk, steps, scale, b, is_first);
  }
}

}  // namespace FA_ISA
}  // namespace fused_attention
