// The gradients of a range of panels, compiled once per instruction set.
//
// With P = 2^(S - lse), S = scale * Q K^T + bias in units of log2, O = P V and G the gradient of O (Dao,
// "FlashAttention-2", arXiv:2307.08691, algorithm 2):
//   dV = P^T G,  dP = G V^T,  dS = P * (dP - delta) with delta = rowsum(G * O),  dQ = scale * dS K,  dK = scale * dS^T Q.
// lse and delta are one number a row, and rows lie in the lanes: no product waits for a reduction. Panels are those of
// the forward pass, so keys that no row sees cost nothing. A panel adds to dK and dV of all its keys, in buffers of the
// thread, and finishes its rows of dQ.
#pragma once

#include "kernel.h"

namespace fused_attention {
namespace FA_ISA {

// P and dS of so many keys at a time, a multiple of every kernel's blocks, stay in the L1 cache.
constexpr int kStepKeys = 48;

// The tables of one thread, in one piece of memory.
struct GradientTables {
  float *query, *gradient;            // [words][rows]
  float *query_rows, *gradient_rows;  // [rows / kPair][width]
  float *lse, *delta;                 // [rows]
  float *weights, *ds;                // [kStepKeys][rows / kPair]
  float *ds_by_key;                   // [kStepKeys / kPair][rows]: `ds` where words are floats
  float *dq;                          // [rows][width]
  float *copies;                      // [16][words]
  float *bias;
  float *keys, *keys_by_key, *values;                 // of a head: [key][words], [key / kPair][width], [key][words]
  float *list_keys, *list_keys_by_key, *list_values;  // of a list of keys, likewise
  float *sums, *list_sums;                            // [dk, dv][key][width]
  float *state;                                       // dq of all rows of a head, between phases

  // Returns the floats needed for words of up to `pair` elements. With null `memory`, only counts them.
  int64_t place(float* memory, const Problem& p, int pair) {
    float* at = memory;
    const auto take = [&](int64_t floats) {
      float* const place = at;
      at += round_up(floats, 16);
      return place;
    };
    const int64_t width = round_up(p.params.head_dim, 16), keys_of_head = round_up(p.params.k_len, 2);
    for (float** table : {&query, &gradient, &query_rows, &gradient_rows, &dq}) *table = take(width * kMaxPanelRows);
    for (float** row : {&lse, &delta}) *row = take(kMaxPanelRows);
    for (float** table : {&weights, &ds}) *table = take(kStepKeys * kMaxPanelRows);
    ds_by_key = pair == 2 ? take(kStepKeys * kMaxPanelRows / 2) : ds;
    copies = take(width * kGranule);
    bias = take(p.has_bias() ? kChunkKeys * kMaxPanelRows : 0);
    for (float** table : {&keys, &keys_by_key, &values}) *table = take(keys_of_head * width);
    for (float** table : {&list_keys, &list_keys_by_key, &list_values}) *table = take(kStepKeys * width);
    sums = take(2 * p.params.k_len * width);
    list_sums = take(2 * kStepKeys * width);
    state = take(p.has_phases ? p.params.q_len * width : 0);
    return at - memory;
  }
};

// Where one step's keys are, and where their sums go.
struct StepKeys {
  const float *keys, *keys_by_key, *values;
  float *dk, *dv;
  const uint16_t* words;  // null: every row sees every key
  const float* bias;      // null: none
  int count;
};

// Weights and score gradients of R keys against C vectors of rows.
template <class Math, int R, int C, bool kMasked, bool kBias>
static void differentiate_block(const StepKeys& step, int key, int64_t words, float scale, const GradientTables& t) {
  constexpr int kPitch = C * kLanes;
  constexpr int kGranules = kPitch / kGranule;
  alignas(64) float weights[R][kPitch];
  Vec x[R][C];
  multiply_rows<Math, R, C>(step.keys + key * words, words, t.query, kPitch, words, x);
  for (int c = 0; c < C; ++c) {
    const Vec lse = load(t.lse + c * kLanes);
    for (int i = 0; i < R; ++i) {
      if (Math::kPair == 2) x[i][c] *= broadcast(scale);
      if (kBias) x[i][c] += load(step.bias + (key + i) * kPitch + c * kLanes);
      Vec weight = exp2<Math::kExpDegree>(x[i][c] - lse);
      if (kMasked) {
        const uint32_t word = step.words[(key + i) * kGranules + c * kLanes / kGranule] >> (c * kLanes % kGranule);
        weight = zero_unless(keep_of(word), weight);
      }
      store(weights[i] + c * kLanes, weight);
      Math::store_words(t.weights, (key + i) * kPitch + c * kLanes, weight);
    }
  }
  multiply_rows<Math, R, C>(step.values + key * words, words, t.gradient, kPitch, words, x);
  for (int c = 0; c < C; ++c) {
    const Vec delta = load(t.delta + c * kLanes);
    for (int i = 0; i < R; i += Math::kPair) {
      Vec ds[Math::kPair];
      for (int j = 0; j < Math::kPair; ++j) {
        ds[j] = load(weights[i + j] + c * kLanes) * (x[i + j][c] - delta);
        Math::store_words(t.ds, (key + i + j) * kPitch + c * kLanes, ds[j]);
      }
      if (Math::kPair == 2) store(t.ds_by_key + (key + i) / 2 * kPitch + c * kLanes, Math::pair(ds));
    }
  }
}

// out[i][d] += sum over step < steps of rows[i][step] (x) vectors[step][d], for R rows and C vectors from `d` on.
template <class Math, int R, int C>
static void add_rows_block(const float* rows, const float* vectors, int64_t steps, int64_t width, float* out) {
  Vec sum[R][C];
  multiply_rows<Math, R, C>(rows, steps, vectors, width, steps, sum);
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < C; ++c) {
      float* at = out + i * width + c * kLanes;
      store(at, load(at) + sum[i][c]);
    }
  }
}

template <class Math, int C>
static void add_rows_of(const float* rows, int count, const float* vectors, int64_t steps, int64_t width, float* out) {
  using S = Shape<C>;
  int row = 0;
  for (; row + S::kBig <= count; row += S::kBig) {
    add_rows_block<Math, S::kBig, C>(rows + row * steps, vectors, steps, width, out + row * width);
  }
  for (; row < count; row += 2) {
    add_rows_block<Math, 2, C>(rows + row * steps, vectors, steps, width, out + row * width);
  }
}

// The same for any even number of rows, over the whole width.
template <class Math>
static void add_rows(const float* rows, int count, const float* vectors, int64_t steps, int64_t width, float* out) {
  constexpr int kWidest = kLanes == 8 ? 2 : 4;
  int64_t d = 0;
  for (; d + kWidest * kLanes <= width; d += kWidest * kLanes) {
    add_rows_of<Math, kWidest>(rows, count, vectors + d, steps, width, out + d);
  }
#if FA_LEVEL >= 2
  if (d + 2 * kLanes <= width) {
    add_rows_of<Math, 2>(rows, count, vectors + d, steps, width, out + d);
    d += 2 * kLanes;
  }
  if (d < width) add_rows_of<Math, 1>(rows, count, vectors + d, steps, width, out + d);
#endif
}

template <class Math, int C, bool kMasked, bool kBias>
static void differentiate_step(const StepKeys& step, int rows, int64_t words, int64_t width, float scale,
                               bool is_first, const GradientTables& t) {
  constexpr int kPitch = C * kLanes;
  for (int key = 0; key < step.count;) {
    key += next_block<Math, C>(step.count - key, [&](auto size) {
      differentiate_block<Math, decltype(size)::value, C, kMasked, kBias>(step, key, words, scale, t);
      return decltype(size)::value;
    });
  }
  if (step.dv) add_rows<Math>(t.weights, step.count, t.gradient_rows, kPitch / Math::kPair, width, step.dv);
  if (step.dk) add_rows<Math>(t.ds, step.count, t.query_rows, kPitch / Math::kPair, width, step.dk);
  multiply_values<Math>(t.ds_by_key, kPitch, rows, step.keys_by_key, width, width, step.count / Math::kPair,
                        Output{t.dq, width, nullptr, is_first});
}

template <class Math, int C>
static void differentiate_step_of(const StepKeys& step, int rows, int64_t words, int64_t width, float scale,
                                  bool is_first, const GradientTables& t) {
  const auto run = step.bias ? step.words ? differentiate_step<Math, C, true, true> : differentiate_step<Math, C, false, true>
                   : step.words ? differentiate_step<Math, C, true, false>
                                : differentiate_step<Math, C, false, false>;
  run(step, rows, words, width, scale, is_first, t);
}

template <class Math, class T>
class Gradients {
 public:
  Gradients(const Problem& problem, const GradientParams& gradients, float* memory)
      : p_(problem), a_(problem.params), g_(gradients), width_(round_up(a_.head_dim, 16)),
        words_(Words<Math, T>::count(a_.head_dim)) {
    if (memory) t_.place(memory, problem, Math::kPair);
  }

  void run(Position from, Position to, float* first, float* last) {
    const int64_t group = a_.heads / a_.kv_heads;
    for (int64_t kv = from.head / group; kv < a_.batch * a_.kv_heads; ++kv) {
      const int64_t begin = kv * group, end = begin + group;
      if (begin > to.head || (begin == to.head && to.panel == 0)) break;
      const bool has_begin = from.head < begin || (from.head == begin && from.panel == 0), has_end = to.head >= end;
      float* const part = !has_begin ? first : !has_end ? last : nullptr;
      select(kv / a_.kv_heads, kv % a_.kv_heads, part ? part : t_.sums);
      for (int64_t index = std::max(begin, from.head); index < end && index <= to.head; ++index) {
        const PlanView& plan = p_.plan(batch_, index % a_.heads);
        const int64_t first_panel = index == from.head ? from.panel : 0;
        const int64_t last_panel = index == to.head ? to.panel : plan.panel_count;
        for (int64_t i = first_panel; i < last_panel; ++i) differentiate(plan, plan.panels[i], index % a_.heads);
      }
      if (!part) store_keys(batch_, kv_head_, 0, length_, &sums_, 1);
    }
  }

  void store_keys(int64_t batch, int64_t kv_head, int64_t begin, int64_t end, float* const* sums, int count) const {
    const int64_t all = a_.k_len * width_;
    for (int i = 1; i < count; ++i) {
      for (int64_t at = 0; at < 2 * all; at += all) {
        for (int64_t j = at + begin * width_; j < at + end * width_; j += kLanes) {
          store(sums[0] + j, load(sums[0] + j) + load(sums[i] + j));
        }
      }
    }
    const int64_t first = a_.cu_k ? a_.cu_k[batch] : 0;
    const auto put = [&](void* to, const Strides& strides, const float* from, float scale) {
      if (!to) return;
      T* rows = rows_of(static_cast<T*>(to), strides, batch, kv_head) + first * strides.row;
      for (int64_t key = begin; key < end; ++key) {
        narrow_row(from + key * width_, scale, a_.head_dim, rows + key * strides.row);
      }
    };
    put(g_.dk, g_.dk_strides, sums[0], a_.scale);
    put(g_.dv, g_.dv_strides, sums[0] + all, 1.0f);
  }

 private:
  void select(int64_t batch, int64_t kv_head, float* sums) {
    batch_ = batch;
    kv_head_ = kv_head;
    const int64_t first = a_.cu_k ? a_.cu_k[batch] : 0;
    length_ = a_.cu_k ? a_.cu_k[batch + 1] - first : a_.k_len;
    k_ = rows_of(static_cast<const T*>(a_.k), a_.k_strides, batch, kv_head) + first * a_.k_strides.row;
    v_ = rows_of(static_cast<const T*>(a_.v), a_.v_strides, batch, kv_head) + first * a_.v_strides.row;
    copied_ = 0;
    sums_ = sums;
    for (int i = 0; i < 2; ++i) memset(sums + i * a_.k_len * width_, 0, length_ * width_ * sizeof *sums);
  }

  // Copies the keys [0, end).
  void prepare(int64_t end) {
    for (; copied_ < end; copied_ += 2) {
      const T* rows[2] = {};
      for (int64_t i = copied_; i < copied_ + 2 && i < length_; ++i) {
        rows[i - copied_] = k_ + i * a_.k_strides.row;
        if (i + kRowsAhead < length_) {
          prefetch_row<0>(k_ + (i + kRowsAhead) * a_.k_strides.row, a_.head_dim);
          prefetch_row<0>(v_ + (i + kRowsAhead) * a_.v_strides.row, a_.head_dim);
        }
        Words<Math, T>::copy(k_ + i * a_.k_strides.row, a_.head_dim, t_.keys + i * words_);
        Words<Math, T>::copy(v_ + i * a_.v_strides.row, a_.head_dim, t_.values + i * words_);
      }
      for (int i = 0; i < 2; i += Math::kPair) {
        Values<Math, T>::copy(rows + i, a_.head_dim, width_, t_.keys_by_key + (copied_ + i) / Math::kPair * width_);
      }
    }
  }

  void use_list(const int32_t* list, int count, StepKeys& step) const {
    const auto gather = [&](const float* from, float* to) {
      for (int i = 0; i < count; ++i, to += words_) {
        if (list[i] < 0) {
          memset(to, 0, words_ * sizeof *to);
        } else {
          copy_words(from + list[i] * words_, words_, to);
        }
      }
    };
    gather(t_.keys, t_.list_keys);
    gather(t_.values, t_.list_values);
    for (int i = 0; i < count; i += Math::kPair) {
      gather_values<Math::kPair>(t_.keys_by_key, width_, list + i, width_, t_.list_keys_by_key + i / Math::kPair * width_);
    }
    memset(t_.list_sums, 0, 2 * kStepKeys * width_ * sizeof(float));
    step.keys = t_.list_keys;
    step.keys_by_key = t_.list_keys_by_key;
    step.values = t_.list_values;
    step.dk = t_.list_sums;
    step.dv = t_.list_sums + kStepKeys * width_;
  }

  void scatter(const int32_t* list, int count) const {
    for (int i = 0; i < count; ++i) {
      if (list[i] < 0) continue;
      for (int which = 0; which < 2; ++which) {
        const float* from = t_.list_sums + (which * kStepKeys + i) * width_;
        float* to = sums_ + (which * a_.k_len + list[i]) * width_;
        for (int64_t d = 0; d < width_; d += kLanes) store(to + d, load(to + d) + load(from + d));
      }
    }
  }

  void load_rows(const Panel& panel, const RowIndex& rows, const T* q, const T* gradient, int64_t head) {
    load_query<Math>(q, a_.q_strides.row, a_.head_dim, a_.scale * kLog2E, rows, panel.rows, panel.granules, t_.copies,
                     t_.query);
    load_query<Math>(gradient, g_.out_strides.row, a_.head_dim, 1.0f, rows, panel.rows, panel.granules, t_.copies,
                     t_.gradient);
    for (int i = 0; i < panel.granules * kGranule; i += Math::kPair) {
      const T *of_q[2] = {}, *of_gradient[2] = {};
      for (int j = 0; j < Math::kPair && i + j < panel.rows; ++j) {
        of_q[j] = q + rows[i + j] * a_.q_strides.row;
        of_gradient[j] = gradient + rows[i + j] * g_.out_strides.row;
      }
      Values<Math, T>::copy(of_q, a_.head_dim, width_, t_.query_rows + i / Math::kPair * width_);
      Values<Math, T>::copy(of_gradient, a_.head_dim, width_, t_.gradient_rows + i / Math::kPair * width_);
    }
    const T* out = static_cast<const T*>(a_.out) + offset(a_.out_strides, head);
    const float* lse = a_.of_head(a_.lse, batch_, head);
    for (int i = 0; i < panel.granules * kGranule; ++i) {
      const bool is_row = i < panel.rows;
      t_.lse[i] = is_row ? lse[rows[i]] : INFINITY;
      t_.delta[i] = is_row ? product(gradient + rows[i] * g_.out_strides.row, out + rows[i] * a_.out_strides.row) : 0.0f;
    }
  }

  float product(const T* x, const T* y) const {
    Vec sum = Vec{};
    for (int64_t d = 0; d < a_.head_dim; d += kLanes) {
      sum += load_part(x + d, a_.head_dim - d) * load_part(y + d, a_.head_dim - d);
    }
    return sum_of_lanes(sum);
  }

  // The elements before the first row of a head of queries.
  int64_t offset(const Strides& strides, int64_t head) const {
    return batch_ * strides.batch + head * strides.head + (a_.cu_q ? a_.cu_q[batch_] : 0) * strides.row;
  }

  void differentiate(const PlanView& plan, const Panel& panel, int64_t head) {
    const RowIndex rows{panel, plan};
    const T* q = static_cast<const T*>(a_.q) + offset(a_.q_strides, head);
    const T* gradient = static_cast<const T*>(g_.out_gradient) + offset(g_.out_strides, head);
    load_rows(panel, rows, q, gradient, head);
    if (&panel + 1 < plan.panels + plan.panel_count) {
      const RowIndex next{*(&panel + 1), plan};
      for (int i = 0; i < next.panel.rows; ++i) {
        prefetch_row<0>(q + next[i] * a_.q_strides.row, a_.head_dim);
        prefetch_row<0>(gradient + next[i] * g_.out_strides.row, a_.head_dim);
      }
    }
    prepare(panel.key_end);
    const int pitch = panel.granules * kGranule, computed = static_cast<int>(round_up(panel.rows, 8));
    bool is_first = !panel.continues;
    for (int i = 0; panel.continues && i < panel.rows; ++i) {
      memcpy(t_.dq + i * width_, t_.state + rows[i] * width_, width_ * sizeof *t_.dq);
    }
    for (int i = panel.chunk_begin; i < panel.chunk_end; ++i) {
      const Chunk& chunk = plan.chunks[i];
      const int32_t* list = chunk.is_list ? plan.keys + chunk.first : nullptr;
      const uint16_t* words = chunk.words < 0 ? nullptr : plan.words + chunk.words;
      if (p_.has_bias()) load_bias(p_, batch_, head, rows, panel.rows, pitch, list, chunk.first, chunk.count, t_.bias);
      for (int at = 0; at < chunk.count; at += kStepKeys) {
        StepKeys step;
        step.count = std::min(kStepKeys, chunk.count - at);
        step.words = words ? words + at * panel.granules : nullptr;
        step.bias = p_.has_bias() ? t_.bias + at * pitch : nullptr;
        if (list) {
          use_list(list + at, step.count, step);
        } else {
          const int64_t key = chunk.first + at;
          step.keys = t_.keys + key * words_;
          step.keys_by_key = t_.keys_by_key + key / Math::kPair * width_;
          step.values = t_.values + key * words_;
          step.dk = sums_ + key * width_;
          step.dv = sums_ + (a_.k_len + key) * width_;
        }
        run_step(panel.granules, step, computed, is_first);
        is_first = false;
        if (list) scatter(list + at, step.count);
      }
    }
    if (is_first) memset(t_.dq, 0, panel.rows * width_ * sizeof *t_.dq);
    for (int i = 0; i < panel.rows; ++i) {
      if (!panel.finishes) {
        memcpy(t_.state + rows[i] * width_, t_.dq + i * width_, width_ * sizeof *t_.dq);
      } else if (g_.dq) {
        T* dq = static_cast<T*>(g_.dq) + offset(g_.dq_strides, head);
        narrow_row(t_.dq + i * width_, a_.scale, a_.head_dim, dq + rows[i] * g_.dq_strides.row);
      }
    }
  }

  void run_step(int granules, const StepKeys& step, int rows, bool is_first) const {
    const float scale = a_.scale * kLog2E;
#if FA_LEVEL >= 2
    if (granules == 4) return differentiate_step_of<Math, 4>(step, rows, words_, width_, scale, is_first, t_);
    if (granules == 2) return differentiate_step_of<Math, 2>(step, rows, words_, width_, scale, is_first, t_);
#endif
    (void)granules;
    differentiate_step_of<Math, kGranule / kLanes>(step, rows, words_, width_, scale, is_first, t_);
  }

  const Problem& p_;
  const AttentionParams& a_;
  const GradientParams& g_;
  const int64_t width_, words_;
  GradientTables t_;
  int64_t batch_ = 0, kv_head_ = 0, length_ = 0, copied_ = 0;
  const T *k_ = nullptr, *v_ = nullptr;
  float* sums_ = nullptr;
};

// Calls visit(Gradients<...>) for the problem's type.
template <class Visit>
static void with_gradients(const Problem& p, const GradientParams& g, float* memory, const Visit& visit) {
  switch (p.params.dtype) {
    case DataType::kFloat32: return visit(Gradients<FloatMath, float>(p, g, memory));
#if FA_LEVEL >= 3
    case DataType::kBFloat16: return visit(Gradients<DotMath, BFloat16>(p, g, memory));
#else
    case DataType::kBFloat16: return visit(Gradients<FloatMath, BFloat16>(p, g, memory));
#endif
    case DataType::kFloat16: return visit(Gradients<FloatMath, Float16>(p, g, memory));
  }
}

static int64_t gradient_scratch_floats(const Problem& p) {
  GradientTables tables;
  return tables.place(nullptr, p, 2);
}

static void differentiate(const Problem& p, const GradientParams& g, Position from, Position to, float* memory,
                          float* first, float* last) {
  with_gradients(p, g, memory, [&](auto&& gradients) { gradients.run(from, to, first, last); });
}

static void store_key_gradients(const Problem& p, const GradientParams& g, int64_t batch, int64_t kv_head,
                                int64_t begin, int64_t end, float* const* sums, int count) {
  with_gradients(p, g, nullptr,
                 [&](auto&& gradients) { gradients.store_keys(batch, kv_head, begin, end, sums, count); });
}

static CpuKernel make_kernel(const char* capability, const PanelCosts& costs) {
  return {capability, scratch_floats, attend, gradient_scratch_floats, differentiate, store_key_gradients, costs};
}

}  // namespace FA_ISA
}  // namespace fused_attention
