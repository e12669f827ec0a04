// Attention of a range of panels, compiled once per instruction set.
#pragma once

#include "ahead.h"
#include "attention.h"
#include "head.h"

namespace fused_attention {
namespace FA_ISA {

constexpr float kLog2E = 1.44269504f;

// The query row of the i-th row of a panel.
struct RowIndex {
  const Panel& panel;
  const PlanView& plan;
  int64_t operator[](int i) const { return panel.is_listed ? plan.rows[panel.row + i] : panel.row + i; }
};

// Transposes query rows into a table [words][rows], by way of `copies`, [16][words]. Floats are scaled here; a bfloat16 would lose bits.
template <class Math, class T>
static void load_query(const T* q, int64_t row_stride, int64_t head_dim, float scale, const RowIndex& rows, int count,
                       int granules, float* copies, float* query) {
  const int64_t words = Words<Math, T>::count(head_dim);
  const bool is_words = Words<Math, T>::kInPlace && words * Words<Math, T>::kPerWord == head_dim;
  for (int g = 0; g < granules; ++g) {
    const float* sources[kGranule];
    for (int i = 0; i < kGranule; ++i) {
      float* row = copies + i * words;
      const int index = g * kGranule + i;
      const T* source = index < count ? q + rows[index] * row_stride : nullptr;
      sources[i] = is_words && source ? reinterpret_cast<const float*>(source) : row;
      if (!source) {
        memset(row, 0, words * sizeof *row);
      } else if (!is_words) {
        Words<Math, T>::copy(source, head_dim, row);
      }
    }
    transpose16<Math::kPair == 1>(sources, words, scale, query + g * kGranule, granules * kGranule);
  }
}

// The same for few_rows.h: a table [rows][floats].
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
  const float scale = a.scale * kLog2E;

  const bool has_few_rows = panel.rows <= kFewRows && panel.granules == 1;
  if (has_few_rows) {
    load_few_queries(q, a.q_strides.row, a.head_dim, scale, rows, panel.rows, b);
  } else {
    load_query<Math>(q, a.q_strides.row, a.head_dim, scale, rows, panel.rows, panel.granules, t.rows,
                     t.query);
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

  // Prefetch the output rows, and the next panel's queries, which its first product needs.
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

  float* const lse = a.lse ? a.of_head(a.lse, batch, head) : nullptr;
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
    if (lse) lse[row] = is_first || total == 0.0f ? INFINITY : b.state.reference[i] + log2f(total);
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
    // few_rows.h prefetches its rows itself.
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
  // The tile kernel takes bfloat16 only.
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
