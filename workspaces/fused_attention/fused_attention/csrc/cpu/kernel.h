// Attention of a range of panels, compiled once per instruction set.
#pragma once

#include "ahead.h"
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

  // Null `memory` measures only. Returns the floats needed.
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

// Of a key, by granules of rows, on average: from how many on its row is copied rather than read where it lies. Measured
// with windows on rows 3 KB apart: 10 visits are as fast or faster in place, 32 slower.
constexpr float kManyVisits = 16.0f;

// One head of keys and values, as far as a thread has come in copying it.
template <class Math, class T>
class Head {
 public:
  Head(const Problem& problem, Tables& tables) : p_(problem.params), t_(tables) {
    width_ = round_up(p_.head_dim, 16);
    words_ = Words<Math, T>::count(p_.head_dim);
  }

  void select(int64_t batch, int64_t kv_head, const PlanView& plan) {
    // Rows far apart evict each other, and a copy is cheap for keys that many panels read.
    const bool is_near = plan.visits < kManyVisits;
    if (batch == batch_ && kv_head == kv_head_ && is_near == is_near_) return;
    batch_ = batch;
    kv_head_ = kv_head;
    is_near_ = is_near;
    // Rows of words already can be read in place.
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

  // Makes the keys [0, end) ready.
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

  // From where runs lie: it is nearer than the tensors.
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

  // The same keys where the tensors have them.
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

// Rows of one head of queries: those of a panel by their place in it.
struct RowIndex {
  const Panel& panel;
  const PlanView& plan;
  int64_t operator[](int i) const { return panel.is_listed ? plan.rows[panel.row + i] : panel.row + i; }
};

// Query rows as a table of words by row. Floats take the scale along; a bfloat16 would lose bits by it.
template <class Math, class T>
static void load_query(const T* q, int64_t row_stride, int64_t head_dim, float scale, const RowIndex& rows, int count,
                       int granules, Tables& t) {
  const int64_t words = Words<Math, T>::count(head_dim);
  const bool is_words = Words<Math, T>::kInPlace && words * Words<Math, T>::kPerWord == head_dim;
  for (int g = 0; g < granules; ++g) {
    const float* sources[kGranule];
    for (int i = 0; i < kGranule; ++i) {
      float* row = t.rows + i * words;
      const int index = g * kGranule + i;
      const T* source = index < count ? q + rows[index] * row_stride : nullptr;
      sources[i] = is_words && source ? reinterpret_cast<const float*>(source) : row;
      if (!source) {
        memset(row, 0, words * sizeof *row);
      } else if (!is_words) {
        Words<Math, T>::copy(source, head_dim, row);
      }
    }
    transpose16<Math::kPair == 1>(sources, words, scale, t.query + g * kGranule, granules * kGranule);
  }
}

// The same for few_rows.h: floats by row.
template <class T>
static void load_few_queries(const T* q, int64_t row_stride, int64_t head_dim, float scale, const RowIndex& rows,
                             int count, PanelBuffers& b) {
  for (int i = 0; i < count; ++i) {
    float* row = b.query + i * b.width;
    widen_row(q + rows[i] * row_stride, head_dim, b.width, row);
    for (int64_t d = 0; d < b.width; d += kLanes) store(row + d, load(row + d) * broadcast(scale));
  }
}

// bias[key][panel's rows] in units of log2: the additive mask and ALiBi.
static void load_bias(const Problem& p, int64_t batch, int64_t head, const RowIndex& rows, int count, int pitch,
                      const int32_t* keys, int64_t first_key, int key_count, float* bias) {
  constexpr float kLog2E = 1.44269504f;
  const AttentionParams& a = p.params;
  const bool has_mask = a.mask.is_additive();
  const int64_t offset = has_mask ? a.mask.offset(batch, head) : 0;
  const float slope = a.alibi ? a.alibi[head] * kLog2E : 0.0f;
  for (int i = 0; i < count; ++i) {
    const int64_t row = rows[i];
    for (int j = 0; j < key_count; ++j) {
      const int64_t key = keys ? keys[j] : first_key + j;
      if (key < 0 || key >= a.k_len) {
        bias[j * pitch + i] = 0.0f;
        continue;
      }
      float x = 0.0f;
      if (has_mask) x = a.mask.element(offset + row * a.mask.row_stride + key * a.mask.key_stride) * kLog2E;
      // -inf masks a key; a finite value that the change of base takes out of range must not.
      if (x < -FLT_MAX && has_mask) {
        const float given = a.mask.element(offset + row * a.mask.row_stride + key * a.mask.key_stride);
        if (given >= -FLT_MAX) x = -FLT_MAX;
      }
      if (a.alibi) x -= slope * static_cast<float>(key > row ? key - row : row - key);
      bias[j * pitch + i] = x;
    }
  }
  for (int i = count; i < pitch; ++i) {
    for (int j = 0; j < key_count; ++j) bias[j * pitch + i] = 0.0f;
  }
}

template <class Math>
static void attend_chunk_by_granules(int granules, const ChunkData& chunk, int64_t steps, float scale, PanelBuffers& b,
                                     bool* is_first) {
#if FA_LEVEL >= 2
  if (granules == 4) return attend_chunk_of<Math, 4>(chunk, steps, scale, b, is_first);
  if (granules == 2) return attend_chunk_of<Math, 2>(chunk, steps, scale, b, is_first);
#endif
  (void)granules;
  attend_chunk_of<Math, kGranule / kLanes>(chunk, steps, scale, b, is_first);
}

template <class Math, class T>
static void attend_panel(const Problem& p, const PlanView& plan, const Panel& panel, int64_t batch, int64_t head,
                         Head<Math, T>& keys, Tables& t, PanelBuffers& b) {
  const AttentionParams& a = p.params;
  const RowIndex rows{panel, plan};
  const int64_t first_row = a.cu_q ? a.cu_q[batch] : 0;
  const T* q = rows_of(static_cast<const T*>(a.q), a.q_strides, batch, head) + first_row * a.q_strides.row;
  T* out = rows_of(static_cast<T*>(a.out), a.out_strides, batch, head) + first_row * a.out_strides.row;
  const int pitch = panel.granules * kGranule;
  constexpr float kLog2E = 1.44269504f;
  const float scale = a.scale * kLog2E;

  const bool has_few_rows = panel.rows <= kFewRows && panel.granules == 1;
  if (has_few_rows) {
    load_few_queries(q, a.q_strides.row, a.head_dim, scale, rows, panel.rows, b);
  } else {
    load_query<Math>(q, a.q_strides.row, a.head_dim, scale, rows, panel.rows, panel.granules, t);
  }
  b.rows = static_cast<int>(round_up(panel.rows, 8));
  b.state.reset();
  bool is_first = true;
  if (panel.continues) {
    for (int i = 0; i < panel.rows; ++i) {
      b.state.reference[i] = t.state_reference[rows[i]];
      b.state.total[i] = t.state_total[rows[i]];
      memcpy(b.out + i * b.width, t.state_out + rows[i] * b.width, b.width * sizeof *b.out);
    }
    is_first = false;
  }

  // What is written at the end, and the next panel's queries, which its first product waits for.
  for (int i = 0; panel.finishes && i < panel.rows; ++i) prefetch_row<1>(out + rows[i] * a.out_strides.row, a.head_dim);
  if (&panel + 1 < plan.panels + plan.panel_count) {
    const RowIndex next{*(&panel + 1), plan};
    for (int i = 0; i < next.panel.rows; ++i) prefetch_row<0>(q + next[i] * a.q_strides.row, a.head_dim);
  }
  if (!has_few_rows) keys.prepare(panel.key_end);
  for (int i = panel.chunk_begin; i < panel.chunk_end; ++i) {
    const Chunk& chunk = plan.chunks[i];
    ChunkData data;
    data.count = chunk.count;
    data.words = chunk.words < 0 ? nullptr : plan.words + chunk.words;
    const int32_t* list = chunk.is_list ? plan.keys + chunk.first : nullptr;
    data.bias = nullptr;
    if (p.has_bias()) {
      load_bias(p, batch, head, rows, panel.rows, pitch, list, chunk.first, chunk.count, t.bias);
      data.bias = t.bias;
    }
    if (has_few_rows) {
      FewKeys<T> few = keys.in_place();
      few.list = list;
      few.first = chunk.first;
      few.count = data.count;
      few.words = data.words;
      few.bias = data.bias;
      attend_few_rows(few, panel.rows, b, &is_first);
      continue;
    }
    list ? keys.use_list(list, data) : keys.use_run(chunk.first, data);
#ifdef FA_TILES
    attend_chunk_in_tiles<Math>(data, panel.granules, keys.words(), scale, b, &is_first);
#else
    attend_chunk_by_granules<Math>(panel.granules, data, keys.words(), scale, b, &is_first);
#endif
  }

  for (int i = 0; i < panel.rows; ++i) {
    const int64_t row = rows[i];
    const float total = b.state.total[i];
    if (!panel.finishes) {
      t.state_reference[row] = b.state.reference[i];
      t.state_total[row] = total;
      if (is_first) memset(b.out + i * b.width, 0, b.width * sizeof *b.out);
      memcpy(t.state_out + row * b.width, b.out + i * b.width, b.width * sizeof *b.out);
      continue;
    }
    // A row that sees no key is zero by definition.
    if (is_first || total == 0.0f) memset(b.out + i * b.width, 0, b.width * sizeof *b.out);
    narrow_row(b.out + i * b.width, total == 0.0f ? 0.0f : 1.0f / total, a.head_dim, out + row * a.out_strides.row);
  }
}

template <class Math, class T>
static void attend_range(const Problem& p, Position from, Position to, Tables& t) {
  Head<Math, T> keys(p, t);
  PanelBuffers b;
  b.query = t.query;
  b.weights = t.weights;
  b.scores = t.scores;
  b.out = t.out;
  b.width = round_up(p.params.head_dim, 16);
  for (int64_t index = from.head; index <= to.head && index < p.params.batch * p.params.heads; ++index) {
    const int64_t batch = index / p.params.heads, head = index % p.params.heads;
    const PlanView& plan = p.plan(batch, head);
    const int64_t begin = index == from.head ? from.panel : 0;
    const int64_t end = index == to.head ? to.panel : plan.panel_count;
    if (begin == end) continue;
    keys.select(batch, p.params.kv_head(head), plan);
    // few_rows.h asks for its rows itself.
    const bool goes_on = index < to.head && index + 1 < p.params.batch * p.params.heads && p.params.q_len > kFewRows;
    Ahead<T> ahead = goes_on ? Ahead<T>(p, index) : Ahead<T>();
    for (int64_t i = begin; i < end; ++i) {
      ahead.ask(end - i);
      attend_panel<Math, T>(p, plan, plan.panels[i], batch, head, keys, t, b);
    }
  }
}

static int64_t scratch_floats(const Problem& p) {
  Tables tables;
  return tables.place(nullptr, p);
}

static void attend(const Problem& p, Position from, Position to, float* memory) {
  Tables tables;
  tables.place(memory, p);
#ifdef FA_TILES
  // Such a kernel is for bfloat16 alone.
  FA_TILES::configure();
  attend_range<TileMath<FA_TILES>, BFloat16>(p, from, to, tables);
  FA_TILES::release();
#else
  switch (p.params.dtype) {
    case DataType::kFloat32: return attend_range<FloatMath, float>(p, from, to, tables);
#if FA_LEVEL >= 3
    case DataType::kBFloat16: return attend_range<DotMath, BFloat16>(p, from, to, tables);
#else
    case DataType::kBFloat16: return attend_range<FloatMath, BFloat16>(p, from, to, tables);
#endif
    case DataType::kFloat16: return attend_range<FloatMath, Float16>(p, from, to, tables);
  }
#endif
}

}  // namespace FA_ISA
}  // namespace fused_attention
