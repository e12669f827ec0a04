// Prefetches the next head's rows while this head is computed. They are a token apart, a stride that the hardware
// prefetcher does not follow, and a short sequence has too little work to hide the latency.
#pragma once

#include <algorithm>

#include "attention.h"
#include "pack.h"

namespace fused_attention {
namespace FA_ISA {

template <class T>
class Ahead {
 public:
  // The head after `index`: the queries of its first panel, and its keys and values unless they are the same.
  Ahead(const Problem& problem, int64_t index) {
    const AttentionParams& p = problem.params;
    const int64_t batch = (index + 1) / p.heads, head = (index + 1) % p.heads;
    const PlanView& plan = problem.plan(batch, head);
    if (plan.panel_count == 0) return;
    if (!plan.panels[0].is_listed) {
      const int64_t first = (p.cu_q ? p.cu_q[batch] : 0) + plan.panels[0].row;
      add(rows_of(static_cast<const T*>(p.q), p.q_strides, batch, head), p.q_strides.row, first, plan.panels[0].rows, p);
    }
    if (head > 0 && p.kv_head(head) == p.kv_head(head - 1)) return;
    int64_t keys = 0;
    for (int64_t i = 0; i < plan.panel_count; ++i) keys = std::max<int64_t>(keys, plan.panels[i].key_end);
    keys = std::min(keys, kMostBytes / (2 * p.head_dim * static_cast<int64_t>(sizeof(T))));
    const int64_t first = p.cu_k ? p.cu_k[batch] : 0;
    const int64_t kv_head = p.kv_head(head);
    add(rows_of(static_cast<const T*>(p.k), p.k_strides, batch, kv_head), p.k_strides.row, first, keys, p);
    add(rows_of(static_cast<const T*>(p.v), p.v_strides, batch, kv_head), p.v_strides.row, first, keys, p);
  }
  Ahead() = default;

  // Prefetches a share of the remaining rows, with `panels` panels left to compute.
  void ask(int64_t panels) {
    for (int64_t n = (left_ + panels - 1) / panels; n > 0; --n, --left_) {
      Rows& rows = rows_[current_];
      prefetch_row<0>(rows.at, head_dim_);
      rows.at += rows.stride;
      if (--rows.count == 0) ++current_;
    }
  }

 private:
  // Bytes of keys and values together. The L2 cache must keep room for the head being computed.
  static constexpr int64_t kMostBytes = 256 * 1024;

  struct Rows {
    const T* at;
    int64_t stride, count;
  };

  void add(const T* rows, int64_t stride, int64_t first, int64_t count, const AttentionParams& p) {
    if (count <= 0) return;
    rows_[count_++] = Rows{rows + first * stride, stride, count};
    left_ += count;
    head_dim_ = p.head_dim;
  }

  Rows rows_[3];
  int64_t count_ = 0, current_ = 0, left_ = 0, head_dim_ = 0;
};

}  // namespace FA_ISA
}  // namespace fused_attention
