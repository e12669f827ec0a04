// One thread's tables, and one head of keys and values in them.
#pragma once

#include "attention.h"
#include "few_rows.h"
#include "pack.h"
#include "panel.h"
#ifdef FA_TILES
#include "amx_panel.h"
#endif

namespace fused_attention {
namespace FA_ISA {

FA_HOST_DEVICE int64_t round_up(int64_t x, int64_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

// The tables of one thread, in one piece of memory.
struct Tables {
  float *query, *weights, *scores, *out;
  float *rows;                   // [16][words of a row]
  float *list_keys, *list_values, *bias;
  float *head_keys, *head_values;
  float *state_out, *state_reference, *state_total;  // of all rows of a head, between phases

  // Returns the floats needed. With null `memory`, only counts them.
  int64_t place(float* memory, const Problem& p) {
    const bool has_phases = p.has_phases;
    float* at = memory;
    const auto take = [&](int64_t floats) {
      float* const place = at;
      at += round_up(floats, 16);
      return place;
    };
    const int64_t width = round_up(p.params.head_dim, 16);
    query = take(width * kMaxPanelRows);
    weights = take(kChunkKeys * kMaxPanelRows);
    scores = take(p.params.dtype == DataType::kBFloat16 ? kChunkKeys * kMaxPanelRows : 0);
    out = take(width * kMaxPanelRows);
    rows = take(width * kGranule);
    list_keys = take((width + 1) * kChunkKeys);
    list_values = take(width * kChunkKeys);
    bias = take(p.has_bias() ? kChunkKeys * kMaxPanelRows : 0);
    const int64_t keys = round_up(p.params.k_len, 16);
    head_keys = take(keys * (width + 1));
    head_values = take(keys * width);
    state_out = take(has_phases ? p.params.q_len * width : 0);
    state_reference = take(has_phases ? p.params.q_len : 0);
    state_total = take(has_phases ? p.params.q_len : 0);
    return at - memory;
  }
};

// A key that is read by this many granules of rows, on average, is copied first; a key read less often is read in
// place. Measured with windows on rows 3 KB apart: in place, 10 reads are as fast or faster, 32 are slower.
constexpr float kManyVisits = 16.0f;

// One head of keys and values; copies rows only as far as panels have needed them.
template <class Math, class T>
class Head {
 public:
  Head(const Problem& problem, Tables& tables) : p_(problem.params), t_(tables) {
    width_ = round_up(p_.head_dim, 16);
    words_ = Words<Math, T>::count(p_.head_dim);
  }

  void select(int64_t batch, int64_t kv_head, const PlanView& plan) {
    // Rows far apart evict each other from the cache, and a copy is cheap for keys that many panels read.
    const bool is_near = plan.visits < kManyVisits;
    if (batch == batch_ && kv_head == kv_head_ && is_near == is_near_) return;
    batch_ = batch;
    kv_head_ = kv_head;
    is_near_ = is_near;
    // Rows that are made of whole words can be read in place.
    constexpr int64_t kPerWord = Words<Math, T>::kPerWord;
    const bool is_words = Words<Math, T>::kInPlace && words_ * kPerWord == p_.head_dim;
    const Strides &k = p_.k_strides, &v = p_.v_strides;
    keys_in_place_ = is_words && k.row % kPerWord == 0 && (is_near || k.row == p_.head_dim);
    values_in_place_ =
        Math::kPair == 1 && is_words && p_.head_dim % 16 == 0 && (is_near || v.row == p_.head_dim);
    key_stride_ = keys_in_place_ ? k.row / kPerWord : words_;
    value_stride_ = values_in_place_ ? v.row : width_;
    const int64_t first = p_.cu_k ? p_.cu_k[batch] : 0;
    length_ = p_.cu_k ? p_.cu_k[batch + 1] - first : p_.k_len;
    k_ = rows_of(static_cast<const T*>(p_.k), k, batch, kv_head) + first * k.row;
    v_ = rows_of(static_cast<const T*>(p_.v), v, batch, kv_head) + first * v.row;
    copied_ = 0;
  }

  // Copies the keys [0, end), unless they are read in place.
  void prepare(int64_t end) {
    if (keys_in_place_ && values_in_place_) return;
    for (; copied_ < end; copied_ += 2) {
      for (int64_t i = copied_ + kRowsAhead; i < copied_ + kRowsAhead + 2 && i < length_; ++i) {
        if (!keys_in_place_) prefetch_row<0>(k_ + i * p_.k_strides.row, p_.head_dim);
        if (!values_in_place_) prefetch_row<0>(v_ + i * p_.v_strides.row, p_.head_dim);
      }
      const T* rows[2] = {v_ + copied_ * p_.v_strides.row,
                          copied_ + 1 < length_ ? v_ + (copied_ + 1) * p_.v_strides.row : nullptr};
      for (int64_t i = copied_; !keys_in_place_ && i < copied_ + 2 && i < length_; ++i) {
        Words<Math, T>::copy(k_ + i * p_.k_strides.row, p_.head_dim, t_.head_keys + i * words_);
      }
      if (values_in_place_) continue;
      if (Math::kPair == 2) {
        Values<Math, T>::copy(rows, p_.head_dim, width_, t_.head_values + copied_ / 2 * width_);
      } else {
        Values<Math, T>::copy(rows, p_.head_dim, width_, t_.head_values + copied_ * width_);
        Values<Math, T>::copy(rows + 1, p_.head_dim, width_, t_.head_values + (copied_ + 1) * width_);
      }
    }
  }

  void use_run(int64_t first, ChunkData& chunk) const {
    chunk.key_stride = key_stride_;
    chunk.value_stride = value_stride_;
    chunk.keys = (keys_in_place_ ? reinterpret_cast<const float*>(k_) : t_.head_keys) + first * key_stride_;
    chunk.values =
        (values_in_place_ ? reinterpret_cast<const float*>(v_) : t_.head_values) + first / Math::kPair * value_stride_;
  }

  // Gathers from the copy, if there is one: it is nearer than the tensors.
  void use_list(const int32_t* keys, ChunkData& chunk) const {
    ChunkData all;
    use_run(0, all);
    for (int i = 0; i < chunk.count; ++i) {
      float* out = t_.list_keys + i * words_;
      if (keys[i] < 0) {
        memset(out, 0, words_ * sizeof *out);
      } else {
        copy_words(all.keys + keys[i] * all.key_stride, words_, out);
      }
    }
    for (int i = 0; i < chunk.count; i += Math::kPair) {
      gather_values<Math::kPair>(all.values, all.value_stride, keys + i, width_,
                                 t_.list_values + i / Math::kPair * width_);
    }
    chunk.keys = t_.list_keys;
    chunk.values = t_.list_values;
    chunk.key_stride = words_;
    chunk.value_stride = width_;
  }

  // The keys and values in the tensors themselves, for few_rows.h.
  FewKeys<T> in_place() const {
    FewKeys<T> keys;
    keys.k = k_;
    keys.v = v_;
    keys.k_stride = p_.k_strides.row;
    keys.v_stride = p_.v_strides.row;
    keys.head_dim = p_.head_dim;
    keys.length = length_;
    return keys;
  }

  int64_t words() const { return words_; }

 private:
  const AttentionParams& p_;
  Tables& t_;
  int64_t width_, words_, key_stride_, value_stride_;
  bool keys_in_place_, values_in_place_, is_near_ = false;
  int64_t batch_ = -1, kv_head_ = -1, length_ = 0, copied_ = 0;
  const T *k_ = nullptr, *v_ = nullptr;
};

}  // namespace FA_ISA
}  // namespace fused_attention
