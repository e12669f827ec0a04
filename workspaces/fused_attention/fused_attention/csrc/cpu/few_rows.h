// Panels of few query rows, such as one new token against all keys before it. With rows in the lanes, most lanes would
// be empty. Here the lanes hold the head dimension, and every key and value is read once, in place.
#pragma once

#include "pack.h"
#include "panel.h"

namespace fused_attention {
namespace FA_ISA {

// Measured with 512 keys: 2 rows are faster this way, 3 rows are faster in lanes.
constexpr int kFewRows = 2;

template <class T>
FA_HOST_DEVICE Vec load_part(const T* p, int64_t count) {
  if (count >= kLanes) return load_floats(p);
  Vec x = Vec{};
  for (int64_t i = 0; i < count; ++i) x[i] = to_float(p[i]);
  return x;
}

FA_HOST_DEVICE float sum_of_lanes(Vec x) {
#if FA_LEVEL >= 2
  return _mm512_reduce_add_ps(x);
#else
  float sum = 0.0f;
  for (int i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
#endif
}

// The largest lane; a NaN counts only in the last lane.
FA_HOST_DEVICE float largest_lane(Vec x) {
  float largest = x[0];
  for (int i = 1; i < kLanes; ++i) largest = largest > x[i] ? largest : x[i];
  return largest;
}

// One chunk's keys and values in the tensors.
template <class T>
struct FewKeys {
  const T *k, *v;  // the sequence's first
  int64_t k_stride, v_stride, head_dim, length;
  const int32_t* list;  // -1: none; null: a run from `first` on
  int64_t first;
  int count;
  const uint16_t* words;  // [count]: bits of the rows that see a key; null: every row sees every key
  const float* bias;      // [count][kGranule] in units of log2; null: none

  int64_t operator[](int i) const { return list ? list[i] : first + i; }
};

// scores[row][key] of R rows; -inf for a masked key. Writes whole vectors of keys.
template <class T, int R>
static void score_few_rows(const FewKeys<T>& keys, const float* query, int64_t width, float (*scores)[kChunkKeys]) {
  constexpr int kAtOnce = 4;
  static_assert(kChunkKeys % kAtOnce == 0 && kChunkKeys % kLanes == 0, "a chunk is whole vectors of keys");
  for (int begin = 0; begin < keys.count; begin += kAtOnce) {
    const T* rows[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t key = begin + i < keys.count ? keys[begin + i] : -1;
      rows[i] = keys.k + (key < 0 ? 0 : key) * keys.k_stride;
      if (key + kRowsAhead < keys.length) prefetch_row<0>(rows[i] + kRowsAhead * keys.k_stride, keys.head_dim);
    }
    Vec sum[kAtOnce][R];
    for (int i = 0; i < kAtOnce; ++i) {
      for (int r = 0; r < R; ++r) sum[i][r] = Vec{};
    }
    for (int64_t d = 0; d < keys.head_dim; d += kLanes) {
      for (int i = 0; i < kAtOnce; ++i) {
        const Vec x = load_part(rows[i] + d, keys.head_dim - d);
        for (int r = 0; r < R; ++r) sum[i][r] += x * load(query + r * width + d);
      }
    }
    for (int i = 0; i < kAtOnce; ++i) {
      const int key = begin + i;
      const bool is_key = key < keys.count && keys[key] >= 0;
      for (int r = 0; r < R; ++r) {
        const bool is_seen = is_key && (!keys.words || (keys.words[key] >> r & 1));
        const float bias = is_seen && keys.bias ? keys.bias[key * kGranule + r] : 0.0f;
        scores[r][key] = is_seen ? sum_of_lanes(sum[i][r]) + bias : -INFINITY;
      }
    }
  }
  for (int key = (keys.count + kAtOnce - 1) / kAtOnce * kAtOnce; key % kLanes; ++key) {
    for (int r = 0; r < R; ++r) scores[r][key] = -INFINITY;
  }
}

// Turns scores into weights relative to the largest so far. Earlier sums must be multiplied by factor[row].
template <int R>
static void weigh_few_rows(int count, float (*scores)[kChunkKeys], RowState& state, float* factor) {
  for (int r = 0; r < R; ++r) {
    Vec peak = broadcast(state.reference[r]);
    for (int key = 0; key < count; key += kLanes) peak = maximum(load(scores[r] + key), peak);
    const Vec reference = broadcast(largest_lane(peak));
    factor[r] = exp2<6>(broadcast(state.reference[r]) - reference)[0];
    Vec total = Vec{};
    for (int key = 0; key < count; key += kLanes) {
      const Vec weight = exp2<6>(load(scores[r] + key) - reference);
      store(scores[r] + key, weight);
      total += weight;
    }
    state.reference[r] = reference[0];
    state.total[r] = state.total[r] * factor[r] + sum_of_lanes(total);
  }
}

// out[row] = out[row] * factor[row] + the weighted sum of values, C vectors of it from `d` on.
template <class T, int R, int C>
static void add_few_values(const FewKeys<T>& keys, const float (*weights)[kChunkKeys], const float* factor, int64_t d,
                           int64_t width, bool is_first, float* out) {
  for (int begin = 0; begin < keys.count; begin += kSumKeys) {
    Vec sum[R][C];
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) sum[r][c] = Vec{};
    }
    const int end = begin + kSumKeys < keys.count ? begin + kSumKeys : keys.count;
    for (int i = begin; i < end; ++i) {
      const int64_t key = keys[i];
      if (key < 0) continue;
      const T* row = keys.v + key * keys.v_stride + d;
      if (key + kRowsAhead < keys.length) prefetch_row<0>(row + kRowsAhead * keys.v_stride, C * kLanes);
      for (int c = 0; c < C; ++c) {
        const Vec value = load_part(row + c * kLanes, keys.head_dim - d - c * kLanes);
        for (int r = 0; r < R; ++r) sum[r][c] += broadcast(weights[r][i]) * value;
      }
    }
    for (int r = 0; r < R; ++r) {
      const Vec scale = broadcast(begin == 0 ? factor[r] : 1.0f);
      for (int c = 0; c < C; ++c) {
        float* at = out + r * width + d + c * kLanes;
        store(at, is_first && begin == 0 ? sum[r][c] : load(at) * scale + sum[r][c]);
      }
    }
  }
}

template <class T, int R>
static void attend_few_rows_of(const FewKeys<T>& keys, PanelBuffers& b, bool* is_first) {
  alignas(64) float scores[R][kChunkKeys];
  float factor[R];
  score_few_rows<T, R>(keys, b.query, b.width, scores);
  weigh_few_rows<R>(keys.count, scores, b.state, factor);
  constexpr int kWide = 4;
  int64_t d = 0;
  for (; d + kWide * kLanes <= b.width; d += kWide * kLanes) {
    add_few_values<T, R, kWide>(keys, scores, factor, d, b.width, *is_first, b.out);
  }
  for (; d < b.width; d += kLanes) add_few_values<T, R, 1>(keys, scores, factor, d, b.width, *is_first, b.out);
  *is_first = false;
}

// One chunk for at most kFewRows rows. b.query is [rows][width] here, scaled.
template <class T>
static void attend_few_rows(const FewKeys<T>& keys, int rows, PanelBuffers& b, bool* is_first) {
  rows == 1 ? attend_few_rows_of<T, 1>(keys, b, is_first) : attend_few_rows_of<T, kFewRows>(keys, b, is_first);
}

}  // namespace FA_ISA
}  // namespace fused_attention
